/* source.c - read-ahead of a foreign source (a Python iterable).
 *
 * A source may wait, even for the consumer to have used what it gave last. So it is asked
 * for one item at a time, by a thread of its own, and each item goes on at once. Only of a
 * source that is known never to wait (*prompt*: an iterator over a list, a range, ...) are
 * several items asked at once, and only it is advanced by others as well.
 *
 * One thread at a time advances it: whoever claims the source stage. There are three:
 *
 *   the consumer, inside next(): it holds the language's lock anyway. Only while the
 *       source is fast (usual time per item under 20 µs) and the read-ahead is at most
 *       half full, for 4 µs; below 7/16, when that does not keep up with the batches that
 *       it takes, until it is half full, for up to 100 µs: the helper would hold the
 *       language's lock as long. In plans with foreign stages at a quarter only
 *   a worker in a session (session.c), at one half; only in plans that have foreign
 *       stages, whose workers must attach anyway
 *   the source helper, a thread of its own: for slow sources always; for fast ones when
 *       the read-ahead is down to a quarter, or below what the next stage needs for one
 *       task (a batch), and nobody above has come
 *
 * A source that may wait is at most 16 items ahead. One that is prompt may be 1,024: what
 * costs is the helper's cycle of wake, attach and park, some 10 µs, and with so many the
 * consumer, refilling from one half on, keeps it asleep. Behind a native no-op stage an
 * item costs 0.16 µs with 1,024, 0.20 with 256 and 0.7 to 3 with 16, depending on what
 * else the machine does.
 *
 * Workers of native stages never advance it, so a native pipeline runs on through a lock
 * held for as long as the read-ahead lasts. Measured beside a main thread that computes
 * (20 ms steps): the worker that pulls for itself waits 4 to 15 ms per item, with these
 * rules nothing waits. The consumer alone would not do: it stands still while it waits
 * for a batch larger than the read-ahead.
 *
 * Of a continuous source each pass is begun by the helper, whatever the source's speed:
 * to begin one may mean to shuffle a million paths, and the consumer has items to take
 * meanwhile. Its time does not count for how fast the source is. */
#include "engine/task.h"

#include "base/sys.h"
#include "base/banned.h"

#define FAST_NS 20000
#define QUICK_NS 1000
#define HELPER_SLICE_NS 1000000
#define PULL_SLICE_NS 20000
#define REFILL_SLICE_NS 4000  /* by the consumer, while that keeps up, */
#define HURRY_SLICE_NS 100000 /* and while it does not */
#define READ_AHEAD_BYTES (64u << 20)

bool hr__source_is_fast_locked(const struct hr_pipeline *p)
{
    return p->source_is_prompt && p->source_pace_ns > 0 &&
           p->source_pace_ns < FAST_NS && !p->pass_begins;
}

bool hr__source_is_quick_locked(const struct hr_pipeline *p)
{
    return hr__source_is_fast_locked(p) && p->source_pace_ns < QUICK_NS;
}

/* The time per item, which falls at once but rises at most twofold by one pull: one in
 * whose midst the thread lost its core says nothing of the source, and a source that is
 * not fast has its helper come for each item, beside a main thread that computes at 5 ms
 * each. */
static void note_pace_locked(struct hr_pipeline *p, int64_t took_ns,
                             uint32_t items) HR_ENGINE_LOCKED
{
    if (items == 0)
        return;
    int64_t each_ns = took_ns / items + 1;
    int64_t pace_ns = p->source_pace_ns;
    if (pace_ns == 0)
        p->source_pace_ns = each_ns;
    else if (each_ns < pace_ns)
        p->source_pace_ns -= (pace_ns - each_ns + 1) / 2;
    else
        p->source_pace_ns +=
            (each_ns < 9 * pace_ns ? each_ns - pace_ns : 8 * pace_ns) / 8;
}

static uint32_t filled_locked(const struct hr_pipeline *p) HR_ENGINE_LOCKED
{
    struct hr_edge_fill fill;
    hr__sched_edge_fill(p->sched, 0, &fill);
    return fill.filled;
}

uint32_t hr__source_read_ahead_locked(const struct hr_pipeline *p)
{
    return p->source_is_prompt ? p->read_ahead_prompt : p->read_ahead_slow;
}

bool hr__source_low_locked(const struct hr_pipeline *p, uint32_t sixteenths)
{
    uint32_t filled = filled_locked(p);
    return filled <= hr__source_read_ahead_locked(p) / 16 * sixteenths ||
           filled < p->first_arity;
}

bool hr__source_helper_due_locked(const struct hr_pipeline *p)
{
    if (hr__sched_peek(p->sched, HR_LANES_SOURCE) < 0)
        return false;
    if (p->cancelled || hr__sched_failed_stage(p->sched) >= 0)
        return true; /* to be closed, by the helper alone */
    if (!hr__source_is_fast_locked(p))
        return true;
    if (!p->has_foreign_stage)
        return hr__source_low_locked(p, 4);
    /* Workers pull while they are attached; but not while their calls wait. */
    return filled_locked(p) == 0 && hr__session_stalls_locked(p);
}

/* ---- how far ahead ---- */

static size_t item_bytes(const struct hr_item *item)
{
    const struct hr_value *value = &item->value;
    return value->cls && value->cls->nbytes ? value->cls->nbytes(value) : 0;
}

/* Too many bytes or items ahead close the gate, but never below what the next stage needs
 * for one task: an aggregate would wait for ever. The places behind the source are as many
 * as one that is prompt may fill. */
void hr__source_set_gate_locked(struct hr_pipeline *p, int64_t now_ns)
{
    uint32_t filled = filled_locked(p);
    bool open = (p->read_ahead_bytes < READ_AHEAD_BYTES &&
                 filled < hr__source_read_ahead_locked(p)) ||
                filled < p->first_arity;
    if (open == !p->gate_shut)
        return;
    p->gate_shut = !open;
    hr__sched_gate(p->sched, 0, open, now_ns);
}

/* Tell the consumer, who looks without the lock, whether a refill is wanted. Where workers
 * attach anyway they come at one half; it comes at a quarter, if they did not. */
static void set_refill_due_locked(struct hr_pipeline *p) HR_ENGINE_LOCKED
{
    uint32_t level = p->has_foreign_stage ? 4 : 8;
    bool due = hr__source_is_fast_locked(p) && hr__source_low_locked(p, level);
    atomic_store_explicit(&p->refill_due, due, memory_order_relaxed); /* a hint */
}

void hr__source_taken_locked(struct hr_pipeline *p, const struct hr_claim *claim,
                             int64_t now_ns)
{
    if (p->source_helper >= 0)
        set_refill_due_locked(p);
    if (p->read_ahead_bytes > 0)
        for (uint32_t i = 0; i < claim->input_count; i++)
            hr__source_uncount_locked(p, hr__item_of(claim->inputs[i]));
    if (p->gate_shut)
        hr__source_set_gate_locked(p, now_ns);
}

void hr__source_uncount_locked(struct hr_pipeline *p, struct hr_item *item)
{
    p->read_ahead_bytes -= item->bytes;
    item->bytes = 0;
}

uint32_t hr__source_grant_locked(const struct hr_pipeline *p, uint32_t grant)
{
    if (!p->source_is_prompt)
        return 1; /* it may wait after this one */
    if (p->source_item_bytes == 0)
        return grant;
    size_t left = p->read_ahead_bytes < READ_AHEAD_BYTES
                      ? READ_AHEAD_BYTES - p->read_ahead_bytes
                      : 0;
    size_t n = left / p->source_item_bytes + 1;
    uint32_t filled = filled_locked(p);
    if (filled < p->first_arity && n < p->first_arity - filled)
        n = p->first_arity - filled;
    return n < grant ? (uint32_t)n : grant;
}

/* ---- what came of advancing it ---- */

void hr__source_finish_locked(struct hr_pipeline *p, const struct hr_claim *claim,
                              struct hr_call *call, int64_t took_ns, int64_t now_ns,
                              struct hr_after *after)
{
    struct hr_stage *stage = &p->stages[claim->stage];
    hr_handle handles[HR_SCHED_GRANT_MAX];
    bool typical = !p->pass_begins || stage->ema_ns == 0;
    if (!stage->on_loop) { /* that one has accounts of its own, and is never fast */
        hr__stage_account_locked(stage, took_ns, typical ? call->out_count : 0);
        note_pace_locked(p, took_ns, typical ? call->out_count : 0);
    }
    p->pass_begins = call->outcome == HR_TASK_EPOCH;
    p->source_is_prompt = call->prompt;
    uint32_t n = hr__engine_wrap_locked(p, claim->stage, NULL, call->out,
                                        call->out_count, handles);
    size_t bytes = 0;
    for (uint32_t i = 0; i < n; i++) {
        struct hr_item *item = hr__item_of(handles[i]);
        item->bytes = item_bytes(item);
        bytes += item->bytes;
    }
    p->read_ahead_bytes += bytes;
    if (n > 0)
        p->source_item_bytes = bytes / n;
    if (call->outcome == HR_TASK_FAILED && !p->cancelled) { /* else nobody asked */
        struct hr_item at = {.index = p->source_index};
        hr__ledger_end(&p->ledger, stage->name, &at, &call->error, &call->exception);
    }
    if (call->outcome == HR_TASK_EPOCH)
        hr__trace_epoch(p);
    hr__engine_finish_locked(p, claim->task, call->outcome, handles, n, now_ns, after);
    hr__source_set_gate_locked(p, now_ns);
    set_refill_due_locked(p);
    if (call->fatal)
        hr__engine_cancel_locked(p, now_ns, after);
}

/* What an ask is to be, decided under the lock. */
struct ask {
    uint32_t grant; /* see hr__source_grant_locked */
    bool quick;     /* see hr__source_is_quick_locked */
};

static struct ask ask_locked(const struct hr_pipeline *p,
                             const struct hr_claim *claim) HR_ENGINE_LOCKED
{
    return (struct ask){hr__source_grant_locked(p, claim->grant),
                        hr__source_is_quick_locked(p)};
}

static void prepare_source_call(struct ask ask, struct hr_call *call)
{
    *call = (struct hr_call){
        .grant = ask.grant, .quick = ask.quick, .outcome = HR_TASK_FAILED};
}

/* ---- the helper, and a thread that is attached anyway ---- */

/* The source has been claimed, so its index is ours to read. */
static void trace_pull(struct hr_trace_ring *trace, const struct hr_pipeline *p,
                       const struct hr_call *call, int64_t begin_ns, int64_t end_ns)
{
    struct hr_trace_what what = {HR_TRACE_PULL, 0, p->source_index, call->out_count,
                                 NULL};
    hr__trace_add(trace, &what, begin_ns, end_ns);
}

/* Attached, the source claimed in w->claims[0] and the call ready: ask it, and book what
 * came. Lock held on return, attached or not. */
static void ask_source_locked(struct hr_worker *w, int64_t *now_ns, int64_t until_ns,
                              struct hr_after *after) HR_ACQUIRE(hr__engine_role)
{
    struct hr_pipeline *p = w->pipeline;
    struct hr_stage *stage = &p->stages[0];
    struct hr_call *call = &w->calls[0];
    int64_t begin_ns = *now_ns;
    (void)stage->foreign.cls->run(stage->foreign.state, call, 1, until_ns);
    *now_ns = HR_SYS(now_ns)();
    struct hr_trace_ring *trace = hr__worker_trace(w);
    if (trace)
        trace_pull(trace, p, call, begin_ns, *now_ns);
    hr__worker_lock(w);
    stage->attached_ns += (uint64_t)(*now_ns - begin_ns);
    hr__source_finish_locked(p, &w->claims[0], call, *now_ns - begin_ns, *now_ns,
                             after);
    hr__worker_clear_calls_locked(w, 1, after);
}

bool hr__source_pull_attached_locked(struct hr_worker *w, int64_t *now_ns,
                                     struct hr_after *after)
{
    struct hr_pipeline *p = w->pipeline;
    if (p->source_helper < 0 || !w->attached || p->ended || p->cancelled ||
        hr__sched_failed_stage(p->sched) >= 0 || !hr__source_is_fast_locked(p) ||
        !hr__source_low_locked(p, 8) ||
        !hr__sched_claim(p->sched, HR_LANES_SOURCE, *now_ns, &w->claims[0]))
        return false;
    struct ask ask = ask_locked(p, &w->claims[0]);
    hr__engine_unlock(p, after);
    prepare_source_call(ask, &w->calls[0]);
    ask_source_locked(w, now_ns, *now_ns + PULL_SLICE_NS, after);
    hr__engine_pump_locked(p, *now_ns, after);
    return true;
}

/* Stay attached for another item, if there is room and nobody else wants in. True: it is
 * claimed. */
static bool claim_more_locked(struct hr_worker *w, int64_t now_ns,
                              struct hr_after *after) HR_ENGINE_LOCKED
{
    struct hr_pipeline *p = w->pipeline;
    hr__engine_pump_locked(p, now_ns, after);
    hr__engine_wake_consumers_locked(p, 0, now_ns, after);
    hr__engine_wake_workers_locked(p, -1, now_ns, after);
    if (p->ended || p->cancelled || hr__sched_failed_stage(p->sched) >= 0 ||
        (!p->runtime->parallel &&
         atomic_load_explicit(&p->consumer_wants, memory_order_acquire)) ||
        !hr__sched_claim(p->sched, HR_LANES_SOURCE, now_ns, &w->claims[0]))
        return false;
    hr__worker_note_locked(w, 0, p->source_index, now_ns);
    return true;
}

/* Advance the source for up to a slice. Lock held on entry and on return. Not analysed:
 * its loop takes the lock in one function and drops it in another. */
static void pull_locked(struct hr_worker *w, int64_t *now_ns,
                        struct hr_after *after) HR_NO_THREAD_SAFETY
{
    struct hr_pipeline *p = w->pipeline;
    struct hr_claim *claim = &w->claims[0];
    struct hr_call *call = &w->calls[0];
    struct hr_stage *stage = &p->stages[0];
    if (!hr__sched_claim(p->sched, HR_LANES_SOURCE, *now_ns, claim))
        return;
    int64_t asked_ns = *now_ns;
    struct ask ask = ask_locked(p, claim);
    hr__worker_note_locked(w, 0, p->source_index, asked_ns);
    atomic_store_explicit(&w->begun_ns, HR_FOREVER, memory_order_relaxed); /* stats.c */
    hr__engine_unlock(p, after);
    prepare_source_call(ask, call);
    bool entered = !claim->closing && hr__session_enter(w, now_ns);
    if (!entered) {
        hr__foreign_close(stage, call);
        hr__engine_lock(p);
        if (!claim->closing)
            hr__session_refused_locked(w, 0, *now_ns, after);
        hr__source_finish_locked(p, claim, call, 0, asked_ns, after);
        hr__worker_note_locked(w, -1, -1, asked_ns);
        return;
    }
    int64_t waited_ns = *now_ns - asked_ns;
    int64_t slice_end_ns = *now_ns + HELPER_SLICE_NS;
    ask_source_locked(w, now_ns, slice_end_ns, after);
    while (w->attached && *now_ns < slice_end_ns &&
           claim_more_locked(w, *now_ns, after)) {
        ask = ask_locked(p, claim);
        hr__engine_unlock(p, after);
        prepare_source_call(ask, call);
        ask_source_locked(w, now_ns, slice_end_ns, after);
    }
    stage->attach_ns += (uint64_t)waited_ns;
    hr__worker_note_locked(w, -1, -1, *now_ns);
    if (!w->attached)
        return;
    hr__engine_unlock(p, after);
    p->runtime->detach(w->foreign_thread);
    w->attached = false;
    hr__engine_lock(p);
}

/* The helper leaves a consumer of a fast stream to a worker that will be back soon. Woken
 * at each item it would wait for the language's lock, which the helper has, and then find
 * one item where it could have taken several. */
static int as_if_at_locked(const struct hr_pipeline *p, int64_t now_ns) HR_ENGINE_LOCKED
{
    return hr__engine_any_back_soon_locked(p, now_ns) ? 0 : -1;
}

void *hr__source_helper_main(void *arg)
{
    struct hr_worker *w = arg;
    struct hr_pipeline *p = w->pipeline;
    struct hr_after after = {0};
    hr__worker_begin(w);
    hr__engine_lock(p);
    int64_t now_ns = HR_SYS(now_ns)();
    for (;;) {
        hr__engine_pump_locked(p, now_ns, &after);
        hr__engine_wake_consumers_locked(p, as_if_at_locked(p, now_ns), now_ns, &after);
        if (p->ended)
            break;
        hr__engine_wake_workers_locked(p, -1, now_ns, &after);
        if (hr__source_helper_due_locked(p)) {
            pull_locked(w, &now_ns, &after);
            continue;
        }
        hr__engine_unlock(p, &after);
        (void)hr__worker_park(w, HR_FOREVER, HR_TRACE_PARK);
        hr__engine_lock(p);
        now_ns = HR_SYS(now_ns)();
    }
    hr__engine_unlock(p, &after);
    hr__worker_leave(w);
    return NULL;
}

/* ---- the consumer ---- */

void hr__source_finish_refill_locked(struct hr_pipeline *p, int64_t now_ns,
                                     struct hr_after *after)
{
    atomic_store_explicit(&p->refill_ready, 0, memory_order_relaxed); /* under lock */
    hr__source_finish_locked(p, &p->refill_claim, &p->refill_call, p->refill_took_ns,
                             now_ns, after);
    if (p->pass_begins) /* the consumer does not begin one */
        hr__engine_wake_helper_locked(p, after);
}

/* Claim the source for the consumer. Lock held. */
static bool claim_refill_locked(struct hr_pipeline *p, int64_t now_ns) HR_ENGINE_LOCKED
{
    return !p->ended && !p->cancelled && hr__sched_failed_stage(p->sched) < 0 &&
           hr__source_is_fast_locked(p) &&
           hr__sched_claim(p->sched, HR_LANES_SOURCE, now_ns, &p->refill_claim);
}

/* Pipelines whose source the calling thread advances as their consumer, the innermost
 * first: a source may take from another pipeline. */
struct refill {
    const struct hr_pipeline *pipeline;
    struct refill *outer;
};
static _Thread_local struct refill *refills;

bool hr__source_is_refilling(const struct hr_pipeline *p)
{
    for (const struct refill *refill = refills; refill; refill = refill->outer)
        if (refill->pipeline == p)
            return true;
    return false;
}

/* Up to HR_SCHED_GRANT_MAX items. The results are handed over by refill_ready when the
 * lock is busy: its holder, or the next one, finishes the claim. */
static void pull_refill(struct hr_pipeline *p, struct ask ask, int64_t now_ns,
                        int64_t until_ns)
{
    struct hr_foreign *foreign = &p->stages[0].foreign;
    struct refill refill = {p, refills};
    refills = &refill;
    /* relaxed: for this thread; see hr__pipeline_in_source */
    atomic_fetch_add_explicit(&p->in_source, 1, memory_order_relaxed);
    hr__call_clear(&p->refill_call); /* of the time before */
    prepare_source_call(ask, &p->refill_call);
    hr__crash_refill(p, true);
    (void)foreign->cls->run(foreign->state, &p->refill_call, 1, until_ns);
    hr__crash_refill(p, false);
    atomic_fetch_sub_explicit(&p->in_source, 1, memory_order_relaxed); /* above */
    refills = refill.outer;
    int64_t end_ns = HR_SYS(now_ns)();
    p->refill_took_ns = end_ns - now_ns;
    struct hr_trace_ring *trace = hr__pipeline_trace_ring(p);
    if (trace)
        trace_pull(trace, p, &p->refill_call, now_ns, end_ns);
    atomic_store_explicit(&p->refill_ready, 1, memory_order_release); /* pump */
}

/* The source has been claimed. Lock held on entry, not on return. */
static void refill_locked(struct hr_pipeline *p, int64_t now_ns, struct hr_after *after)
    HR_RELEASE(hr__engine_role)
{
    bool hurry = hr__source_low_locked(p, 7);
    int64_t until_ns = now_ns + (hurry ? HURRY_SLICE_NS : REFILL_SLICE_NS);
    do {
        struct ask ask = ask_locked(p, &p->refill_claim);
        hr__engine_unlock(p, after);
        pull_refill(p, ask, now_ns, until_ns);
        if (!hr__engine_try_lock(p))
            return;
        now_ns = HR_SYS(now_ns)();
        if (atomic_load_explicit(&p->refill_ready, memory_order_acquire))
            hr__source_finish_refill_locked(p, now_ns, after);
    } while (now_ns < until_ns && (!hurry || hr__source_low_locked(p, 8)) &&
             claim_refill_locked(p, now_ns));
    hr__engine_unlock(p, after);
}

bool hr__pipeline_refill_due(const struct hr_pipeline *p)
{
    return atomic_load_explicit(&p->refill_due, memory_order_relaxed) != 0; /* a hint */
}

void hr__pipeline_refill(struct hr_pipeline *p)
{
    struct hr_after after = {0};
    if (!hr__pipeline_refill_due(p) || !hr__engine_try_lock(p))
        return;
    int64_t now_ns = HR_SYS(now_ns)();
    bool due = hr__pipeline_refill_due(p); /* still */
    if (!due || !claim_refill_locked(p, now_ns)) {
        hr__engine_unlock(p, &after);
        return;
    }
    /* relaxed: the caller's own reference keeps it alive; this one is for a source that
     * frees its own pipeline. */
    atomic_fetch_add_explicit(&p->refs, 1, memory_order_relaxed);
    refill_locked(p, now_ns, &after);
    hr__pipeline_unref(p);
}
