/* stats.c - what can be seen of a run. */
#include <stdio.h>
#include <string.h>

#include "base/sys.h"
#include "engine/engine.h"
#include "base/banned.h"

static uint64_t max_u64(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* What a worker's task, which is not accounted before it is over, has taken so far. A
 * stage that works on one item for an hour has been busy for an hour. */
static void add_running_locked(struct hr_pipeline *p, const struct hr_worker *w,
                               int64_t now_ns,
                               struct hr_stage_times *times) HR_ENGINE_LOCKED
{
    /* relaxed: a stale one is off by an attach */
    int64_t begun_ns = atomic_load_explicit(&w->begun_ns, memory_order_relaxed);
    if (begun_ns < 0)
        return;
    bool foreign = p->stages[w->stage].foreign.cls != NULL;
    int64_t until_ns = begun_ns < now_ns ? begun_ns : now_ns;
    if (until_ns > w->since_ns)
        times->attach_ns += (uint64_t)(until_ns - w->since_ns);
    if (begun_ns >= now_ns)
        return;
    times->busy_ns += (uint64_t)(now_ns - begun_ns);
    if (foreign)
        times->attached_ns += (uint64_t)(now_ns - begun_ns);
}

/* A task that is at its end, but waits for the lock, is shown as longer than it will be
 * accounted. Figures do not go back for that. */
static void show_times_locked(struct hr_pipeline *p, uint32_t i, int64_t now_ns,
                              struct hr_stage_stats *out) HR_ENGINE_LOCKED
{
    struct hr_stage *stage = &p->stages[i];
    struct hr_stage_times times = {stage->busy_ns, stage->awaited_ns, stage->attach_ns,
                                   stage->attached_ns};
    for (uint32_t k = 0; k < p->worker_count; k++)
        if (p->workers[k]->stage == (int32_t)i)
            add_running_locked(p, p->workers[k], now_ns, &times);
    stage->shown.busy_ns = max_u64(stage->shown.busy_ns, times.busy_ns);
    times.awaited_ns += (uint64_t)hr__async_in_flight_locked(p, i, now_ns);
    stage->shown.awaited_ns = max_u64(stage->shown.awaited_ns, times.awaited_ns);
    stage->shown.attach_ns = max_u64(stage->shown.attach_ns, times.attach_ns);
    stage->shown.attached_ns = max_u64(stage->shown.attached_ns, times.attached_ns);
    out->busy_ns = stage->shown.busy_ns;
    out->awaited_ns = stage->shown.awaited_ns;
    out->attach_ns = stage->shown.attach_ns;
    out->attached_ns = stage->shown.attached_ns;
}

static void fill_stage_locked(struct hr_pipeline *p, uint32_t i, int64_t now_ns,
                              struct hr_stage_stats *out) HR_ENGINE_LOCKED
{
    const struct hr_stage *stage = &p->stages[i];
    struct hr_sched_counts counts;
    hr__sched_counts(p->sched, i, now_ns, &counts);
    memset(out, 0, sizeof(*out));
    (void)snprintf(out->name, sizeof(out->name), "%s", stage->name);
    out->concurrency = stage->concurrency;
    out->items_in = counts.in;
    out->items_out = counts.out;
    out->filtered = counts.filtered;
    out->failed = counts.failed;
    out->retried = stage->retried;
    out->released = counts.released;
    out->timed_out = stage->timed_out;
    out->stuck = stage->stuck;
    out->late = stage->late;
    out->running = counts.running;
    out->queued = counts.queued;
    for (uint32_t e = 0; e < p->edge_count; e++) {
        struct hr_edge_fill fill;
        if (p->edges[e].to != i)
            continue;
        hr__sched_edge_fill(p->sched, e, &fill);
        bool read_ahead = i == 1 && p->feed_count == 0;
        out->capacity += read_ahead ? hr__source_read_ahead_locked(p) : fill.capacity;
        if (stage->body == HR_BODY_SINK) /* those in the ring, for the consumer */
            out->queued = fill.filled;
    }
    show_times_locked(p, i, now_ns, out);
    out->starved_ns = counts.time_ns[HR_STATE_STARVED];
    out->blocked_ns = counts.time_ns[HR_STATE_BLOCKED];
    out->ready_ns = counts.time_ns[HR_STATE_READY];
    out->full_ns = counts.time_ns[HR_STATE_FULL];
    out->ended_ns = counts.time_ns[HR_STATE_ENDED];
    static const uint32_t ppm[] = {500000, 900000, 990000};
    uint64_t times_ns[3];
    hr__histogram_quantiles(&stage->task_times, ppm, 3, times_ns);
    out->task_p50_ns = times_ns[0];
    out->task_p90_ns = times_ns[1];
    out->task_p99_ns = times_ns[2];
}

static void fill_summary_locked(struct hr_pipeline *p, int64_t now_ns,
                                struct hr_pipeline_summary *out) HR_ENGINE_LOCKED
{
    memset(out, 0, sizeof(*out));
    out->num_threads = p->num_threads;
    if (p->started)
        out->elapsed_ns = now_ns - p->started_ns;
    out->failed = p->ledger.total;
    hr__mutex_lock(&p->sink.lock);
    out->delivered = p->sink.delivered;
    out->consumer_wait_ns = p->sink.wait_ns;
    hr__mutex_unlock(&p->sink.lock);
}

size_t hr_pipeline_snapshot(struct hr_pipeline *p, struct hr_pipeline_summary *summary,
                            struct hr_stage_stats *stages, size_t max)
{
    if (hr__pipeline_forked(p)) {
        if (summary)
            memset(summary, 0, sizeof(*summary));
        return 0;
    }
    struct hr_after after = {0};
    hr__engine_lock(p);
    int64_t now_ns = p->started ? HR_SYS(now_ns)() : 0;
    if (p->started) {
        hr__engine_pump_locked(p, now_ns, &after);
        hr__engine_wake_consumers_locked(p, -1, now_ns, &after);
    }
    if (p->started && p->ended)
        now_ns = p->ended_ns;
    if (summary)
        fill_summary_locked(p, now_ns, summary);
    for (uint32_t i = 0; i < p->stage_count && i < max; i++)
        fill_stage_locked(p, i, now_ns, &stages[i]);
    hr__engine_unlock(p, &after);
    return p->stage_count;
}

size_t hr_pipeline_stats(struct hr_pipeline *p, struct hr_stage_stats *out, size_t max)
{
    return hr_pipeline_snapshot(p, NULL, out, max);
}

void hr_pipeline_summary(struct hr_pipeline *p, struct hr_pipeline_summary *out)
{
    (void)hr_pipeline_snapshot(p, out, NULL, 0);
}

enum hr_status hr_pipeline_failure(struct hr_pipeline *p, size_t i,
                                   struct hr_failure *out)
{
    enum hr_status status = HR_END;
    if (hr__pipeline_forked(p))
        return status;
    hr__engine_lock(p);
    if (i < p->ledger.count) {
        *out = p->ledger.entries[i]->failure;
        status = HR_OK;
    }
    hr__engine_unlock_only(p);
    return status;
}

bool hr__pipeline_final_failure(struct hr_pipeline *p, struct hr_failure *out)
{
    if (hr__pipeline_forked(p))
        return false;
    hr__engine_lock(p);
    bool failed = p->ledger.failed;
    if (failed)
        *out = p->ledger.final.failure;
    hr__engine_unlock_only(p);
    return failed;
}

struct hr_value hr__pipeline_exception(struct hr_pipeline *p, size_t i)
{
    struct hr_value shared = HR_VALUE_EMPTY;
    if (hr__pipeline_forked(p))
        return shared;
    hr__engine_lock(p);
    if (i < p->ledger.count && p->ledger.entries[i]->exception.cls) {
        const struct hr_value *exception = &p->ledger.entries[i]->exception;
        shared = exception->cls->share(exception);
    }
    hr__engine_unlock_only(p);
    return shared;
}

struct hr_value hr__pipeline_take_final_exception(struct hr_pipeline *p)
{
    struct hr_value taken = HR_VALUE_EMPTY;
    if (hr__pipeline_forked(p))
        return taken;
    hr__engine_lock(p);
    taken = p->ledger.final.exception;
    p->ledger.final.exception = HR_VALUE_EMPTY;
    hr__engine_unlock_only(p);
    return taken;
}

int hr__pipeline_visit(struct hr_pipeline *p, hr_visit_fn visit, void *cookie)
{
    int result = 0;
    if (!atomic_load_explicit(&p->rests, memory_order_acquire) ||
        hr__pipeline_forked(p))
        return result;
    hr__engine_lock(p);
    for (size_t i = 0; i < p->ledger.count && result == 0; i++)
        result = visit(&p->ledger.entries[i]->exception, true, cookie);
    if (result == 0)
        result = visit(&p->ledger.final.exception, false, cookie);
    hr__mutex_lock(&p->sink.lock);
    for (uint32_t i = 0; i < p->sink.count && result == 0; i++) {
        hr_handle handle = p->sink.ring[(p->sink.head + i) & p->sink.mask];
        if (handle)
            result = visit(&hr__item_of(handle)->value, false, cookie);
    }
    hr__mutex_unlock(&p->sink.lock);
    hr__engine_unlock_only(p);
    return result;
}
