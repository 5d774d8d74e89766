/* consumer.c - next(): from the ring to the consumer.
 *
 * Taking a ready item needs the sink's lock alone (tried, by an attached consumer), costs
 * about 0.1 µs and mostly no system call: the freed place is only counted (credit). A
 * worker is woken when one item or none is left; until then workers that wait for room
 * find the credit when their limited park ends (worker.c). Measured with a consumer that
 * pauses 2 ms: waking on every take has p50 3.5–7.2 µs, this rule 0.2–1.8 µs.
 *
 * After a pause the caches are cold, and what counts is how many lines are touched: once
 * some 70 of code alone, now 23. So the few things that each next() looks at are side by
 * side in the pipeline, rare matters are behind one flag each, and no thread-local
 * variable is asked for (four calls and their tables in a shared library). With the caches
 * emptied before each call that took it from 3.9 to 2.5 µs, where an empty loop takes
 * 1.3. */
#include "engine/engine.h"

#include <errno.h>

#include "base/sys.h"
#include "base/banned.h"

enum { LOW_WATER = 1 };
#define LOOK_MAX_NS 50000000

/* The run's failure is told once, after the last item. Sink's lock held. */
static enum hr_status end_status_locked(struct hr_pipeline *p, struct hr_error *err)
    HR_REQUIRES(p->sink.lock)
{
    if (p->ledger.failed && !p->sink.failure_told) {
        p->sink.failure_told = true;
        if (err)
            *err = p->ledger.final.failure.error;
        return p->ledger.final.failure.error.status;
    }
    return hr_error_set(err, HR_END, "pipeline", 0, "no more items");
}

/* Sink's lock held: the next entry of the ring, if the consumer's epoch is not over. */
static enum hr_status pop_locked(struct hr_pipeline *p, uint64_t epoch,
                                 struct hr_value *out, uint32_t *left,
                                 struct hr_error *err) HR_REQUIRES(p->sink.lock)
{
    struct hr_sink *sink = &p->sink;
    if (epoch < atomic_load_explicit(&sink->epoch, memory_order_relaxed))
        return HR_EPOCH; /* another consumer took the mark */
    if (sink->count == 0)
        return sink->ended ? end_status_locked(p, err) : HR_AGAIN;
    struct hr_item *item = hr__item_of(sink->ring[sink->head & sink->mask]);
    sink->head++;
    atomic_fetch_add_explicit(&sink->credit, 1, memory_order_release); /* the pump */
    *left = --sink->count;
    if (!item) {
        sink->marks--;
        atomic_fetch_add_explicit(&sink->epoch, 1, memory_order_relaxed);
        hr__trace_epoch(p);
        return HR_EPOCH;
    }
    if (atomic_load_explicit(&p->trace, memory_order_relaxed)) /* read again there */
        hr__trace_delivered(p, item->index);
    sink->delivered++;
    *out = item->value;
    item->value = HR_VALUE_EMPTY;
    if (item->label.cls)
        hr_value_release(&item->label); /* a text of ours: no foreign code */
    hr__sink_spend(sink, item);
    return HR_OK;
}

/* Few items are left: see that somebody makes more. Does not wait for the lock: who holds
 * it sees the credit, or parks with a limit. */
static void wake_for_room(struct hr_pipeline *p)
{
    struct hr_after after = {0};
    if (!hr__engine_try_lock(p))
        return;
    if (hr__async_is_there(p)) { /* who is to be told may not be a worker */
        int64_t now_ns = HR_SYS(now_ns)();
        hr__engine_pump_locked(p, now_ns, &after);
        hr__engine_wake_workers_locked(p, -1, now_ns, &after);
    } else if (p->parked && !p->ended &&
               !hr__engine_any_back_soon_locked(p, HR_SYS(now_ns)())) {
        hr__engine_wake_one_locked(p, &after);
    }
    hr__engine_unlock(p, &after);
}

static enum hr_status check_usable(struct hr_pipeline *p, struct hr_error *err)
{
    if (hr__pipeline_forked(p))
        return hr_error_set(err, HR_ERR_STATE, "pipeline", 0,
                            "the pipeline was started before fork() and cannot be used "
                            "in the child process");
    return HR_OK;
}

uint64_t hr__pipeline_epoch(struct hr_pipeline *p)
{
    return atomic_load_explicit(&p->sink.epoch, memory_order_relaxed);
}

enum hr_status hr__pipeline_try_next(struct hr_pipeline *p, uint64_t epoch,
                                     struct hr_value *out, struct hr_error *err)
{
    *out = HR_VALUE_EMPTY;
    enum hr_status status = check_usable(p, err);
    if (status != HR_OK)
        return status;
    if (!hr__mutex_try_lock(&p->sink.lock))
        return HR_AGAIN;
    uint32_t left = UINT32_MAX;
    status = pop_locked(p, epoch, out, &left, err);
    hr__mutex_unlock(&p->sink.lock);
    if (left <= LOW_WATER)
        wake_for_room(p);
    return status;
}

/* ---- waiting ---- */

static void unlist_waiter_locked(struct hr_sink *sink, struct hr_waiter *waiter)
    HR_REQUIRES(sink->lock)
{
    struct hr_waiter **at = &sink->waiters;
    while (*at != waiter)
        at = &(*at)->next;
    *at = waiter->next;
    waiter->listed = false;
    atomic_fetch_sub_explicit(&sink->waiting, 1, memory_order_relaxed);
}

/* Register, unless there is something already. Engine's lock held, so that nothing can
 * come between the look and the registration unseen. That includes what another consumer
 * left since the pump for whoever holds the lock, which is us: its credit, its refill. */
static bool list_waiter_locked(struct hr_pipeline *p, uint64_t epoch,
                               struct hr_waiter *waiter) HR_ENGINE_LOCKED
{
    struct hr_sink *sink = &p->sink;
    hr__mutex_lock(&sink->lock);
    bool must_wait =
        sink->count == 0 && !sink->ended &&
        epoch >= atomic_load_explicit(&sink->epoch, memory_order_relaxed) &&
        /* pairs with pop_locked and hr__pipeline_refill */
        atomic_load_explicit(&sink->credit, memory_order_acquire) == 0 &&
        atomic_load_explicit(&p->refill_ready, memory_order_acquire) == 0;
    if (must_wait) {
        waiter->listed = true;
        waiter->next = sink->waiters;
        sink->waiters = waiter;
        atomic_fetch_add_explicit(&sink->waiting, 1, memory_order_relaxed);
    }
    hr__mutex_unlock(&sink->lock);
    return must_wait;
}

/* The waiter lives on this stack: who has taken it off the list is about to unpark it,
 * and that must have happened before we go. */
static void leave_list(struct hr_pipeline *p, struct hr_waiter *waiter,
                       int64_t waited_ns, bool woken)
{
    hr__mutex_lock(&p->sink.lock);
    bool was_listed = waiter->listed;
    if (was_listed)
        unlist_waiter_locked(&p->sink, waiter);
    p->sink.wait_ns += (uint64_t)waited_ns;
    hr__mutex_unlock(&p->sink.lock);
    if (!was_listed && !woken)
        while (hr__park(&waiter->parker, HR_FOREVER) != 0)
            continue;
}

/* How long until the next look; `looked`: one was made just now, and was of use if it
 * found something. Relaxed: a measure that several consumers share, each may be right. */
static int64_t look_interval(struct hr_sink *sink, bool looked, bool found)
{
    int64_t every_ns = atomic_load_explicit(&sink->look_ns, memory_order_relaxed);
    if (!looked)
        return every_ns;
    if (found)
        every_ns = HR_LOOK_MIN_NS;
    else
        every_ns = every_ns < LOOK_MAX_NS / 2 ? every_ns * 2 : LOOK_MAX_NS;
    atomic_store_explicit(&sink->look_ns, every_ns, memory_order_relaxed);
    return every_ns;
}

/* One look at what is there, and if there is nothing, a wait for it. Returns 0 (there may
 * be something), ETIMEDOUT or EINTR. *looked: the look is one that nobody asked for; then,
 * the wait has ended for another one. */
static int wait_once(struct hr_pipeline *p, uint64_t epoch, int64_t until_ns,
                     bool *looked)
{
    struct hr_waiter waiter;
    struct hr_after after = {0};
    hr__parker_init(&waiter.parker);
    waiter.listed = false;
    hr__engine_lock(p);
    int64_t begin_ns = HR_SYS(now_ns)();
    hr__engine_pump_locked(p, begin_ns, &after);
    bool must_wait = list_waiter_locked(p, epoch, &waiter);
    if (must_wait) {
        hr__engine_wake_workers_locked(p, -1, begin_ns, &after);
        hr__engine_wake_helper_locked(p, &after);
    }
    bool found = !must_wait || after.wake_count > 0;
    hr__engine_unlock(p, &after);
    int64_t look_ns = begin_ns + look_interval(&p->sink, *looked, found);
    if (!must_wait)
        return 0;
    int result = hr__park(&waiter.parker, look_ns < until_ns ? look_ns : until_ns);
    int64_t end_ns = HR_SYS(now_ns)();
    leave_list(p, &waiter, end_ns - begin_ns, result == 0);
    struct hr_trace_ring *trace = hr__pipeline_trace_ring(p);
    if (trace)
        hr__trace_add(trace, &(struct hr_trace_what){HR_TRACE_WAIT, -1, -1, 0, NULL},
                      begin_ns, end_ns);
    *looked = result == ETIMEDOUT && look_ns < until_ns;
    return result;
}

/* A wake-up may be left out by somebody who will be back in some microseconds, and then
 * comes upon the one task that takes long. So a consumer looks by itself now and then, at
 * what is ready and at who could be woken. As workers do (worker.c) it keeps the interval:
 * 5 ms at first and after a look that was of use, up to 50 ms while they are not. */
enum hr_status hr__pipeline_wait(struct hr_pipeline *p, uint64_t epoch,
                                 int64_t until_ns)
{
    bool looked = false;
    for (;;) {
        int result = wait_once(p, epoch, until_ns, &looked);
        if (result == 0)
            return HR_OK;
        if (result == EINTR)
            return HR_AGAIN;
        if (!looked)
            return HR_TIMEOUT;
    }
}

void hr__pipeline_want(struct hr_pipeline *p, bool wanted)
{
    /* pairs with hr__session_allowed_locked and the end of a session */
    if (wanted)
        atomic_fetch_add_explicit(&p->consumer_wants, 1, memory_order_release);
    else
        atomic_fetch_sub(&p->consumer_wants, 1);
    if (!wanted)
        hr__async_consumer_is_in(p);
}

enum hr_status hr_pipeline_next(struct hr_pipeline *p, int64_t deadline_ns,
                                struct hr_value *out, struct hr_error *err)
{
    *out = HR_VALUE_EMPTY;
    enum hr_status status = hr__pipeline_require_started(p, err);
    if (status != HR_OK)
        return status;
    int64_t begin_ns = hr__pipeline_next_begin(p);
    while ((status = hr__pipeline_try_next(p, HR_EPOCH_ANY, out, err)) == HR_AGAIN) {
        if (hr__pipeline_wait(p, HR_EPOCH_ANY, deadline_ns) != HR_TIMEOUT)
            continue;
        status = hr__pipeline_try_next(p, HR_EPOCH_ANY, out, err);
        if (status == HR_AGAIN)
            status = hr_error_set(err, HR_TIMEOUT, "pipeline", 0,
                                  "no item was ready in time");
        break;
    }
    if (status == HR_OK)
        hr__pipeline_next_end(p, begin_ns);
    return status;
}
