/* engine.c - what happens under the pipeline's lock.
 *
 * One lock guards one pure scheduler. Every thread that changes something (a worker that
 * finished a task, the source helper, the consumer that refills or waits, stop) calls the
 * scheduler under the lock, then *pumps*:
 *
 *     sink  <-- finished items, as far as the scheduler lets them go
 *     sink  --> credit: places that the consumer has freed meanwhile
 *     released handles --> a list that is cleared once the lock is dropped
 *     end?  --> every thread is woken, and leaves
 *
 * and asks who has to be woken for what is left to do. Wake-ups and releases are only
 * noted (struct hr_after) and done after the unlock: a futex wake costs 3 to 40 µs here,
 * a release may run foreign code.
 *
 * Why one lock and not a queue per stage: a hand-over between stages then needs two locks
 * and a wake-up, and no thread ever sees the whole, so priorities ("nearest to the sink
 * first"), exact ledgers and simulation go. Under one lock a finish, a claim and the pump
 * take some 0.1 µs together (bench/engine_noop.c); work that is worth threads lasts 1,000
 * times longer. */
#include "engine/task.h"

#include <string.h>

#include "base/sys.h"
#include "base/banned.h"

struct hr_role hr__engine_role;

void hr__engine_wake_add(struct hr_after *after, struct hr_parker *parker)
{
    after->wake[after->wake_count++] = parker;
}

static bool wake_full(const struct hr_after *after)
{
    return after->wake_count == HR_WAKE_MAX;
}

void hr__engine_wake_one_locked(struct hr_pipeline *p, struct hr_after *after)
{
    struct hr_worker *w = p->parked;
    if (!w || wake_full(after))
        return;
    p->parked = w->parked_next;
    p->parked_count--;
    w->parked = false;
    hr__engine_wake_add(after, &w->parker);
}

void hr__engine_unlock(struct hr_pipeline *p, struct hr_after *after)
{
    bool ring = p->async && hr__async_due_locked(p);
    hr__engine_unlock_only(p);
    if (ring)
        hr__async_ring(p);
    for (uint32_t i = 0; i < after->wake_count; i++)
        hr__unpark(after->wake[i]);
    after->wake_count = 0;
    struct hr_item *list = after->released;
    after->released = NULL;
    hr__item_list_clear(list);
    while (list) {
        struct hr_item *next = list->next;
        hr__sink_spend(&p->sink, list);
        list = next;
    }
}

/* ---- the pump ---- */

static void take_back_spent_locked(struct hr_pipeline *p,
                                   struct hr_item *spent) HR_ENGINE_LOCKED
{
    while (spent) {
        struct hr_item *next = spent->next;
        hr__source_uncount_locked(p, spent);
        hr__items_put(&p->items, spent);
        spent = next;
    }
}

static void sink_push_locked(struct hr_sink *sink, hr_handle handle)
    HR_REQUIRES(sink->lock)
{
    sink->ring[(sink->head + sink->count) & sink->mask] = handle;
    sink->count++;
    sink->marks += handle == 0;
}

/* What the consumer has freed goes to the scheduler. */
static void take_credit_locked(struct hr_pipeline *p, int64_t now_ns) HR_ENGINE_LOCKED
{
    struct hr_sink *sink = &p->sink;
    /* pairs with hr__sink_spend */
    if (atomic_load_explicit(&sink->spent, memory_order_relaxed))
        take_back_spent_locked(
            p, atomic_exchange_explicit(&sink->spent, NULL, memory_order_acquire));
    /* pairs with the pop in consumer.c */
    uint32_t credit = atomic_load_explicit(&sink->credit, memory_order_relaxed);
    if (credit == 0)
        return;
    credit = atomic_exchange_explicit(&sink->credit, 0, memory_order_acquire);
    hr__sched_credit(p->sched, credit, now_ns);
}

static void fill_sink_locked(struct hr_pipeline *p, int64_t now_ns) HR_ENGINE_LOCKED
{
    struct hr_sink *sink = &p->sink;
    hr_handle handle = 0;
    enum hr_take take = hr__sched_take(p->sched, &handle, now_ns);
    if (take == HR_TAKE_NONE)
        return;
    hr__mutex_lock(&sink->lock);
    if (sink->count == 0)
        sink->waiting_since_ns = now_ns;
    while (take == HR_TAKE_ITEM || take == HR_TAKE_EPOCH) {
        sink_push_locked(sink, take == HR_TAKE_ITEM ? handle : 0);
        take = hr__sched_take(p->sched, &handle, now_ns);
    }
    if (take == HR_TAKE_END)
        sink->ended = true;
    hr__mutex_unlock(&sink->lock);
}

static void collect_released_locked(struct hr_pipeline *p,
                                    struct hr_after *after) HR_ENGINE_LOCKED
{
    hr_handle handles[32];
    size_t n;
    while ((n = hr__sched_take_released(p->sched, handles, 32)) > 0) {
        for (size_t i = 0; i < n; i++) {
            struct hr_item *item = hr__item_of(handles[i]);
            item->next = after->released;
            after->released = item;
        }
    }
}

/* A stage that failed too often ends the run; a source's own failure is known already. */
static void note_failed_stage_locked(struct hr_pipeline *p) HR_ENGINE_LOCKED
{
    int stage = hr__sched_failed_stage(p->sched);
    if (stage < 0 || p->ledger.failed)
        return;
    struct hr_sched_counts counts;
    hr__sched_counts(p->sched, (uint32_t)stage, p->ended_ns, &counts);
    struct hr_error err = {0};
    (void)hr_error_set(&err, HR_ERR_LIMIT, "pipeline", 0,
                       "stage '%s' failed %llu times in %llu calls, more than its "
                       "max_failures allows",
                       p->stages[stage].name, (unsigned long long)counts.failed,
                       (unsigned long long)counts.tasks);
    struct hr_value none = HR_VALUE_EMPTY;
    hr__ledger_end(&p->ledger, p->stages[stage].name, NULL, &err, &none);
}

/* Once in a run, so that waking under the lock does no harm. */
static void end_locked(struct hr_pipeline *p) HR_ENGINE_LOCKED
{
    p->ended = true;
    p->ended_ns = HR_SYS(now_ns)(); /* not before any event, which other times may be */
    note_failed_stage_locked(p);
    for (uint32_t i = 0; i < p->worker_count; i++)
        hr__unpark(&p->workers[i]->parker);
    hr__loop_quit(&p->loop);
    atomic_store_explicit(&p->rests, true, memory_order_release); /* pairs with visit */
}

void hr__engine_pump_locked(struct hr_pipeline *p, int64_t now_ns,
                            struct hr_after *after)
{
    hr__mutex_assert_held(&p->lock);
    if (atomic_load_explicit(&p->refill_ready, memory_order_acquire))
        hr__source_finish_refill_locked(p, now_ns, after); /* pairs with _refill */
    take_credit_locked(p, now_ns);
    collect_released_locked(p, after); /* makes room for rests, and so may be the end */
    if (p->gate_shut)
        hr__source_set_gate_locked(p, now_ns);
    if (p->retries.waiting || p->retries.due)
        hr__retry_sweep_locked(p, now_ns, after);
    if (!p->ended && hr__sched_ended(p->sched))
        end_locked(p);
    fill_sink_locked(p, now_ns);
}

/* ---- who has to be woken ---- */

/* Will a caller that goes on to run a task of its_stage be back sooner than a wake-up
 * takes? Then it can see to things itself. -1: it runs none. */
static bool back_soon_locked(const struct hr_pipeline *p,
                             int its_stage) HR_ENGINE_LOCKED
{
    if (its_stage < 0)
        return false;
    int64_t own_ns = p->stages[its_stage].ema_ns;
    return own_ns > 0 && own_ns < HR_WAKE_COST_NS;
}

/* The same of the workers, for a caller that is none or does no more. Whoever is at a
 * task that usually is short, but at this one for longer already, is not back soon. */
bool hr__engine_any_back_soon_locked(const struct hr_pipeline *p, int64_t now_ns)
{
    for (uint32_t i = 0; i < p->num_threads; i++) {
        const struct hr_worker *w = p->workers[i];
        if (w->parked || w->lost || !w->started)
            continue;
        if (w->stage < 0 ||
            (back_soon_locked(p, w->stage) && now_ns - w->since_ns < HR_WAKE_COST_NS))
            return true;
    }
    return false;
}

/* Is the backlog worth a wake-up? Yes when nobody else would come to it soon: no worker is
 * awake, or the caller or all of them are gone for longer, or the backlog itself is longer
 * than that. */
static bool worth_waking_locked(const struct hr_pipeline *p, int its_stage,
                                uint32_t ready, int64_t now_ns) HR_ENGINE_LOCKED
{
    if (p->parked_count == p->working)
        return true;
    if (its_stage >= 0 ? !back_soon_locked(p, its_stage)
                       : !hr__engine_any_back_soon_locked(p, now_ns))
        return true;
    int stage = hr__sched_peek(p->sched, HR_LANES_NATIVE);
    int64_t ema_ns = p->stages[stage].ema_ns;
    return ema_ns == 0 || ema_ns * (int64_t)ready >= HR_WAKE_COST_NS;
}

/* The same for foreign work. Where only one may be in the language at a time, whoever is
 * back soon may as well be that one. */
static bool session_worth_waking_locked(const struct hr_pipeline *p,
                                        int64_t now_ns) HR_ENGINE_LOCKED
{
    if (!hr__session_allowed_locked(p, now_ns) ||
        hr__sched_peek(p->sched, hr__session_lanes_locked(p)) < 0)
        return false;
    return p->runtime->parallel || !hr__engine_any_back_soon_locked(p, now_ns);
}

void hr__engine_wake_workers_locked(struct hr_pipeline *p, int its_stage,
                                    int64_t now_ns, struct hr_after *after)
{
    if (!p->parked)
        return;
    uint32_t ready = hr__sched_ready(p->sched, HR_LANES_NATIVE, 4);
    if ((ready > 0 && worth_waking_locked(p, its_stage, ready, now_ns)) ||
        session_worth_waking_locked(p, now_ns))
        hr__engine_wake_one_locked(p, after);
}

/* Consumers are not woken for each item of a fast stream, but when the caller stops
 * working or is gone for a while, or the oldest item has waited as long as a wake-up
 * takes. As many are woken as there are items, and all for the end of an epoch. */
void hr__engine_wake_consumers_locked(struct hr_pipeline *p, int its_stage,
                                      int64_t now_ns, struct hr_after *after)
{
    struct hr_sink *sink = &p->sink;
    if (atomic_load_explicit(&sink->waiting, memory_order_relaxed) == 0)
        return;
    hr__mutex_lock(&sink->lock);
    uint32_t items = sink->ended || sink->marks > 0 ? UINT32_MAX : sink->count;
    if (!sink->ended && back_soon_locked(p, its_stage) &&
        now_ns - sink->waiting_since_ns < HR_WAKE_COST_NS)
        items = 0;
    while (sink->waiters && items > 0 && !wake_full(after)) {
        struct hr_waiter *waiter = sink->waiters;
        sink->waiters = waiter->next;
        waiter->listed = false;
        atomic_fetch_sub_explicit(&sink->waiting, 1, memory_order_relaxed);
        hr__engine_wake_add(after, &waiter->parker);
        items--;
    }
    hr__mutex_unlock(&sink->lock);
}

void hr__engine_wake_helper_locked(struct hr_pipeline *p, struct hr_after *after)
{
    if (p->source_helper >= 0 && !wake_full(after) && hr__source_helper_due_locked(p))
        hr__engine_wake_add(after, &p->workers[p->source_helper]->parker);
    if (p->feed_count > 0)
        hr__feeds_wake_locked(p, after);
}

/* ---- ending ---- */

void hr__engine_cancel_locked(struct hr_pipeline *p, int64_t now_ns,
                              struct hr_after *after)
{
    p->cancelled = true;
    atomic_store_explicit(&p->cancel, 1, memory_order_release); /* hr_ctx_cancelled */
    note_failed_stage_locked(p);
    hr__sched_cancel(p->sched, now_ns);
    hr__engine_pump_locked(p, now_ns, after);
    hr__mutex_lock(&p->sink.lock);
    p->sink.ended = true; /* what is still under way will be refused, and what ended
                             the run is known: nothing more is written to the ledger */
    hr__mutex_unlock(&p->sink.lock);
    hr__engine_wake_consumers_locked(p, -1, now_ns, after);
}

bool hr__stage_may_ride(const struct hr_stage *stage)
{
    return stage->is_batched && stage->ema_ns > 0 && stage->timeout_ns == 0;
}

/* ---- accounts ---- */

void hr__stage_account_locked(struct hr_stage *stage, int64_t task_ns, uint32_t tasks)
{
    stage->busy_ns += (uint64_t)task_ns;
    hr__stage_smooth_locked(stage, task_ns, tasks);
}

void hr__stage_smooth_locked(struct hr_stage *stage, int64_t task_ns, uint32_t tasks)
{
    if (tasks == 0)
        return;
    int64_t each = task_ns / tasks;
    if (each < 1)
        each = 1;
    hr__histogram_add(&stage->task_times, each, tasks);
    stage->ema_ns =
        stage->ema_ns == 0 ? each : stage->ema_ns + (each - stage->ema_ns) / 8;
}

/* Does this failure come before the one that ends the run so far? Whatever leaves a stage
 * that raises has come before the failure there, so one further down is earlier. */
static bool is_earlier_locked(const struct hr_pipeline *p,
                              uint32_t stage) HR_ENGINE_LOCKED
{
    return stage > p->ledger_stage ||
           (stage == p->ledger_stage && p->stages[stage].ordered);
}

/* Takes *exception, but for that of a failure which it replaces. */
static void raise_locked(struct hr_pipeline *p, uint32_t stage,
                         const struct hr_item *item, const struct hr_error *err,
                         struct hr_value *exception) HR_ENGINE_LOCKED
{
    const char *name = p->stages[stage].name;
    if (!p->ledger.failed)
        hr__ledger_end(&p->ledger, name, item, err, exception);
    else if (is_earlier_locked(p, stage))
        hr__ledger_replace(&p->ledger, name, item, err, exception);
    else
        return;
    p->ledger_stage = stage;
}

void hr__engine_fail_task_locked(struct hr_pipeline *p, const struct hr_claim *claim,
                                 const struct hr_item *item, const struct hr_error *err,
                                 struct hr_value *exception, struct hr_after *after)
{
    bool raises = p->stages[claim->stage].raises && !p->cancelled &&
                  !hr__sched_refused(p->sched, claim->task);
    struct hr_item *carrier = raises ? hr__items_get(&p->items) : NULL;
    if (raises && carrier) { /* without memory the first failure stands */
        if (exception->cls)
            carrier->value = exception->cls->share(exception);
        raise_locked(p, claim->stage, item, err, &carrier->value);
        hr__engine_let_go(after, carrier); /* what it has now is released unlocked */
    }
    hr__engine_fail_item_locked(p, claim->stage, item, err, exception);
}

void hr__engine_fail_item_locked(struct hr_pipeline *p, uint32_t stage,
                                 const struct hr_item *item, const struct hr_error *err,
                                 struct hr_value *exception)
{
    hr__ledger_add(&p->ledger, stage, p->stages[stage].name, item, err, exception);
}
