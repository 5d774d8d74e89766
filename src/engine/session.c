/* session.c - one stay of a worker inside the host language.
 *
 *     claim up to 16 tasks of one stage --unlock--> attach --> run them --lock--> finish
 *          ^                                                                       |
 *          +------- slice of 1 ms not over, nobody else wants in, more to do ------+
 *
 * Costs, measured with CPython 3.11: an uncontended attach and detach 0.3 µs, but a cycle
 * of park, wake and attach 16 µs; beside a main thread that computes, each attach costs
 * 5 ms (its switch interval). So a session keeps what it has while there is work, and with
 * one big lock in the language (the GIL) one worker at a time, the leader, has sessions.
 * A second one joins only where tasks are long enough to have released that lock: the
 * stage's smoothed task time is over 50 µs, or nothing was finished for 0.9 ms.
 *
 * No lock of ours is held while attaching, and none is waited for while attached: the
 * lock is tried, and when somebody has it the worker detaches first (hr__worker_lock).
 *
 * A consumer that waits would need the same big lock, so it is woken when the session
 * ends and not in its midst; and when it wants in (hr__pipeline_want) the session ends. */
#include "engine/task.h"

#include "base/sys.h"
#include "base/banned.h"

#define SLICE_NS 1000000
#define CLAIM_NS 100000       /* tasks for about this long are claimed at once */
#define LONG_TASK_NS 50000    /* a second worker attaches for tasks over this */
#define NO_PROGRESS_NS 900000 /* ... or when nothing was finished for this long */

uint32_t hr__session_lanes_locked(const struct hr_pipeline *p)
{
    uint32_t lanes = HR_LANES_LEADER;
    if (!p->has_foreign_stage || p->source_helper < 0 || !hr__source_is_fast_locked(p))
        return lanes;
    if (hr__source_low_locked(p, 8))
        lanes |= HR_LANES_SOURCE;
    return lanes;
}

bool hr__session_allowed_locked(const struct hr_pipeline *p, int64_t now_ns)
{
    if (!p->has_foreign_stage)
        return false;
    if (p->runtime_dead)
        return p->cancelled; /* what is left to be closed needs no runtime */
    /* pairs with hr__pipeline_want */
    if (atomic_load_explicit(&p->consumer_wants, memory_order_acquire) &&
        !p->runtime->parallel)
        return false;
    if (p->foreign_active == 0 || p->runtime->parallel)
        return true;
    int stage = hr__retry_peek_locked(p, HR_LANES_FOREIGN);
    if (stage < 0)
        stage = hr__sched_peek(p->sched, HR_LANES_FOREIGN);
    return stage >= 0 && (p->stages[stage].ema_ns > LONG_TASK_NS ||
                          now_ns - p->foreign_progress_ns > NO_PROGRESS_NS);
}

bool hr__session_stalls_locked(const struct hr_pipeline *p)
{
    return p->foreign_active > 0 &&
           HR_SYS(now_ns)() - p->foreign_progress_ns > NO_PROGRESS_NS;
}

bool hr__session_enter(struct hr_worker *w, int64_t *now_ns)
{
    struct hr_pipeline *p = w->pipeline;
    if (!w->foreign_thread)
        w->foreign_thread = p->runtime->thread_new();
    if (!w->foreign_thread || !p->runtime->attach(w->foreign_thread))
        return false;
    w->attached = true;
    int64_t asked_ns = *now_ns;
    *now_ns = HR_SYS(now_ns)();
    struct hr_trace_ring *trace = hr__worker_trace(w);
    if (trace)
        hr__trace_add(trace,
                      &(struct hr_trace_what){HR_TRACE_ATTACH, w->stage, -1, 0, NULL},
                      asked_ns, *now_ns);
    atomic_store_explicit(&w->begun_ns, *now_ns, memory_order_relaxed); /* stats.c */
    return true;
}

void hr__session_leave_locked(struct hr_worker *w)
{
    w->pipeline->foreign_active -= w->in_session;
    w->in_session = false;
}

/* ---- claiming ---- */

static uint32_t claim_size(const struct hr_stage *stage)
{
    if (stage->body != HR_BODY_FOREIGN_MAP || stage->awaits ||
        !hr__stage_may_ride(stage))
        return 1;
    int64_t n = CLAIM_NS / stage->ema_ns;
    return n < 1 ? 1 : n > HR_SCHED_GRANT_MAX ? HR_SCHED_GRANT_MAX : (uint32_t)n;
}

/* What is due for another attempt goes first. */
static bool next_claim_locked(struct hr_pipeline *p, uint32_t lanes, int64_t now_ns,
                              struct hr_claim *out) HR_ENGINE_LOCKED
{
    return hr__retry_take_locked(p, lanes, out) ||
           hr__sched_claim(p->sched, lanes, now_ns, out);
}

/* Claim tasks of the stage nearest the sink into w->claims. */
static uint32_t claim_locked(struct hr_worker *w, int64_t now_ns) HR_ENGINE_LOCKED
{
    struct hr_pipeline *p = w->pipeline;
    uint32_t lanes = hr__session_lanes_locked(p);
    uint32_t n = 0, most = 1;
    while (n < most) {
        bool more = n == 0 ? next_claim_locked(p, lanes, now_ns, &w->claims[0])
                           : hr__sched_ride(p->sched, w->claims[n - 1].task, now_ns,
                                            &w->claims[n]);
        if (!more)
            break;
        struct hr_stage *stage = &p->stages[w->claims[n].stage];
        if (stage->body == HR_BODY_COLLATE || stage->body == HR_BODY_SPREAD)
            return 1;
        if (w->claims[n].stage == 1)
            hr__source_taken_locked(p, &w->claims[n], now_ns);
        hr__call_note_locked(p, &w->claims[n], &w->calls[n]);
        most = claim_size(stage);
        n++;
    }
    return n;
}

/* ---- running ---- */

/* Attached, no lock: run the calls; what has to be done with their values is done here. */
static uint32_t run_calls(struct hr_worker *w, uint32_t n, int64_t until_ns)
{
    struct hr_pipeline *p = w->pipeline;
    struct hr_stage *stage = &p->stages[w->claims[0].stage];
    uint32_t ready = 0;
    while (ready < n && !hr__call_is_misfit(&w->claims[ready], &w->calls[ready]))
        ready++;
    if (ready == 0)
        return 1;
    size_t made =
        stage->foreign.cls->run(stage->foreign.state, w->calls, ready, until_ns);
    for (size_t i = 0; i < made; i++)
        hr__call_settle(stage, &w->calls[i]);
    struct hr_call *last = &w->calls[made - 1];
    if (last->awaits && !hr__async_ensure(p))
        hr__call_cannot_await(p, stage, last);
    return (uint32_t)made;
}

/* `made` of the n calls were made. took_ns: the time of all of them. Returns how many are
 * not the worker's any more. */
static uint32_t finish_calls_locked(struct hr_worker *w, uint32_t made, uint32_t n,
                                    int64_t took_ns, int64_t now_ns,
                                    struct hr_after *after) HR_ENGINE_LOCKED
{
    struct hr_pipeline *p = w->pipeline;
    struct hr_stage *stage = &p->stages[w->claims[0].stage];
    if (stage->body == HR_BODY_FOREIGN_SOURCE) {
        hr__source_finish_locked(p, &w->claims[0], &w->calls[0], took_ns, now_ns,
                                 after);
        return made;
    }
    if (!w->claims[0].closing) /* which is no task */
        hr__stage_account_locked(stage, took_ns, made);
    p->foreign_progress_ns = now_ns;
    for (uint32_t i = 0; i < made; i++) {
        if (w->calls[i].awaits) { /* the last one made */
            if (hr__async_adopt_locked(p, &w->claims[i], &w->calls[i], n - i, now_ns))
                return n;
            hr__call_cannot_await(p, stage, &w->calls[i]);
        }
        hr__call_finish_locked(p, &w->claims[i], &w->calls[i], now_ns, after);
    }
    return made;
}

void hr__session_refused_locked(struct hr_worker *w, uint32_t stage, int64_t now_ns,
                                struct hr_after *after)
{
    struct hr_pipeline *p = w->pipeline;
    struct hr_error err = {0};
    struct hr_value none = HR_VALUE_EMPTY;
    (void)hr_error_set(&err, HR_ERR_STATE, "pipeline", 0,
                       w->foreign_thread
                           ? "stage '%s' cannot run any more: its language is ending"
                           : "stage '%s' cannot run: a thread could not be made known "
                             "to its language",
                       p->stages[stage].name);
    p->runtime_dead = true;
    if (p->cancelled)
        return; /* the consumer has been told of the end */
    hr__ledger_end(&p->ledger, p->stages[stage].name, NULL, &err, &none);
    hr__engine_cancel_locked(p, now_ns, after);
}

/* The claimed calls cannot be made, nor can the pipeline go on. */
static int64_t give_up(struct hr_worker *w, uint32_t n, struct hr_after *after)
    HR_ACQUIRE(hr__engine_role)
{
    struct hr_pipeline *p = w->pipeline;
    for (uint32_t i = 0; i < n; i++)
        hr__foreign_close(&p->stages[w->claims[0].stage], &w->calls[i]);
    hr__engine_lock(p);
    int64_t now_ns = HR_SYS(now_ns)();
    hr__session_refused_locked(w, w->claims[0].stage, now_ns, after);
    for (uint32_t i = 0; i < n; i++) {
        struct hr_item *item = p->tasks[w->claims[i].task].item;
        p->tasks[w->claims[i].task].item = NULL;
        if (item) {
            hr_handle handle = hr__handle_of(item);
            hr__engine_finish_locked(p, w->claims[i].task, HR_TASK_DONE, &handle, 1,
                                     now_ns, after);
        } else {
            hr__engine_finish_locked(p, w->claims[i].task, HR_TASK_DONE, NULL, 0,
                                     now_ns, after);
        }
    }
    return now_ns;
}

/* ---- the session ---- */

static bool session_over(const struct hr_pipeline *p, int64_t now_ns, int64_t end_ns)
{
    if (now_ns >= end_ns || p->ended)
        return true;
    return !p->runtime->parallel &&
           atomic_load_explicit(&p->consumer_wants, memory_order_acquire);
}

/* No lock. Calls whose end is not known end with the round. */
static void trace_calls(struct hr_trace_ring *trace, struct hr_worker *w, uint32_t made,
                        int64_t begin_ns, int64_t round_end_ns)
{
    struct hr_pipeline *p = w->pipeline;
    struct hr_trace_what what = {.stage = (int32_t)w->claims[0].stage};
    for (uint32_t i = 0; i < made && !w->claims[0].closing; i++) {
        const struct hr_item *item = w->calls[i].item;
        int64_t end_ns =
            i + 1 < made && w->calls[i].end_ns ? w->calls[i].end_ns : round_end_ns;
        what.item = item ? item->index : -1; /* -1: a flush */
        if (what.stage == 0) {
            what.kind = HR_TRACE_PULL;
            what.item = p->source_index; /* ours: the source is claimed */
        }
        what.number = w->calls[i].out_count;
        what.label = item ? &item->label : NULL;
        hr__trace_add(trace, &what, begin_ns, end_ns);
        begin_ns = end_ns;
    }
}

/* The one call that w made was written off meanwhile. Lock held on entry and on return. */
static void drop_late_locked(struct hr_worker *w,
                             struct hr_after *after) HR_ENGINE_LOCKED
{
    struct hr_pipeline *p = w->pipeline;
    struct hr_call *call = &w->calls[0];
    struct hr_stage *stage = &p->stages[w->claims[0].stage];
    hr__worker_late_locked(w, call->item, after);
    hr__engine_unlock(p, after);
    hr__foreign_close(stage, call);
    hr__call_clear(call);
    hr__worker_lock(w);
}

/* Run w->claims[0 … n-1], in rounds while calls take longer than a slice. Lock held on
 * entry and on return. False: the runtime is ending, or the call came too late. */
static bool run_batch_locked(struct hr_worker *w, uint32_t n, int64_t *now_ns,
                             int64_t *slice_end_ns,
                             struct hr_after *after) HR_ENGINE_LOCKED
{
    struct hr_pipeline *p = w->pipeline;
    struct hr_stage *stage = &p->stages[w->claims[0].stage];
    bool ready = false;
    while (n > 0) {
        const struct hr_item *item = w->calls[0].item;
        int64_t asked_ns = *now_ns;
        int64_t index = item                      ? item->index
                        : w->claims[0].stage == 0 ? p->source_index
                                                  : -1;
        hr__worker_note_locked(w, (int32_t)w->claims[0].stage, index, asked_ns);
        hr__trail_at(w, item, NULL);
        if (!w->attached) /* relaxed: for statistics */
            atomic_store_explicit(&w->begun_ns, HR_FOREVER, memory_order_relaxed);
        hr__engine_wake_workers_locked(p, (int)w->claims[0].stage, asked_ns, after);
        hr__engine_wake_helper_locked(p, after);
        hr__engine_unlock(p, after);
        for (uint32_t i = 0; i < n && !ready; i++)
            hr__call_ready(p, &w->claims[i], &w->calls[i]);
        ready = true;
        int64_t waited_ns = 0;
        bool closing = w->claims[0].closing;
        if (!w->attached && !closing) {
            if (!hr__session_enter(w, now_ns)) {
                *now_ns = give_up(w, n, after);
                return false;
            }
            waited_ns = *now_ns - asked_ns;
            *slice_end_ns = *now_ns + SLICE_NS;
        }
        int64_t begin_ns = *now_ns;
        uint32_t made = 1;
        if (closing)
            hr__foreign_close(stage, &w->calls[0]);
        else
            made = run_calls(w, n, *slice_end_ns);
        *now_ns = HR_SYS(now_ns)();
        struct hr_trace_ring *trace = hr__worker_trace(w);
        if (trace)
            trace_calls(trace, w, made, begin_ns, *now_ns);
        hr__worker_lock(w);
        if (w->lost) {
            drop_late_locked(w, after);
            return false;
        }
        stage->attach_ns += (uint64_t)waited_ns;
        stage->attached_ns += (uint64_t)(*now_ns - begin_ns);
        made = finish_calls_locked(w, made, n, *now_ns - begin_ns, *now_ns, after);
        hr__engine_pump_locked(p, *now_ns, after);
        n -= made;
        hr__worker_clear_calls_locked(w, made, after);
        for (uint32_t i = 0; i < n; i++) {
            w->claims[i] = w->claims[made + i];
            w->calls[i] = w->calls[made + i];
        }
    }
    return true;
}

int64_t hr__session_run_locked(struct hr_worker *w, int64_t now_ns,
                               struct hr_after *after)
{
    struct hr_pipeline *p = w->pipeline;
    int64_t slice_end_ns = now_ns + SLICE_NS;
    uint32_t n;
    p->foreign_active++;
    w->in_session = true;
    while ((n = claim_locked(w, now_ns)) > 0) {
        enum hr_stage_body body = p->stages[w->claims[0].stage].body;
        if (body == HR_BODY_COLLATE || body == HR_BODY_SPREAD) {
            now_ns = hr__worker_run_native_locked(w, now_ns, after);
            hr__engine_pump_locked(p, now_ns, after);
        } else if (!run_batch_locked(w, n, &now_ns, &slice_end_ns, after)) {
            break;
        }
        if (session_over(p, now_ns, slice_end_ns))
            break;
    }
    hr__worker_note_locked(w, -1, -1, now_ns);
    hr__session_leave_locked(w);
    if (w->attached) {
        hr__engine_unlock(p, after);
        p->runtime->detach(w->foreign_thread);
        w->attached = false;
        hr__engine_lock(p);
    }
    /* Not before: it would wait for what we had, and be woken once more. */
    hr__engine_wake_consumers_locked(p, -1, now_ns, after);
    return now_ns;
}
