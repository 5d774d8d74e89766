/* stats.c - what can be seen of a run. */
#include <stdio.h>
#include <string.h>

#include "base/sys.h"
#include "engine/engine.h"
#include "base/banned.h"

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
    out->running = counts.running;
    out->queued = counts.queued;
    if (i > 0) {
        struct hr_edge_fill fill;
        hr__sched_edge_fill(p->sched, i - 1, &fill);
        out->capacity = fill.capacity;
    }
    out->busy_ns = stage->busy_ns;
    out->starved_ns = counts.time_ns[HR_STATE_STARVED];
    out->blocked_ns = counts.time_ns[HR_STATE_BLOCKED];
    out->ready_ns = counts.time_ns[HR_STATE_READY];
    out->full_ns = counts.time_ns[HR_STATE_FULL];
    out->attach_ns = stage->attach_ns;
    out->attached_ns = stage->attached_ns;
}

size_t hr_pipeline_stats(struct hr_pipeline *p, struct hr_stage_stats *out, size_t max)
{
    if (hr__pipeline_forked(p))
        return 0;
    struct hr_after after = {0};
    hr__engine_lock(p);
    int64_t now_ns = p->ended ? p->ended_ns : HR_SYS(now_ns)();
    if (p->started) {
        hr__engine_pump_locked(p, now_ns, &after);
        hr__engine_wake_consumers_locked(p, -1, now_ns, &after);
    }
    for (uint32_t i = 0; i < p->stage_count && i < max; i++)
        fill_stage_locked(p, i, now_ns, &out[i]);
    hr__engine_unlock(p, &after);
    return p->stage_count;
}

void hr_pipeline_summary(struct hr_pipeline *p, struct hr_pipeline_summary *out)
{
    memset(out, 0, sizeof(*out));
    if (hr__pipeline_forked(p))
        return;
    hr__engine_lock(p);
    out->num_threads = p->num_threads;
    if (p->started)
        out->elapsed_ns = (p->ended ? p->ended_ns : HR_SYS(now_ns)()) - p->started_ns;
    out->failed = p->ledger.total;
    hr__mutex_lock(&p->sink.lock);
    out->delivered = p->sink.delivered;
    out->consumer_wait_ns = p->sink.wait_ns;
    hr__mutex_unlock(&p->sink.lock);
    hr__engine_unlock_only(p);
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

struct hr_value hr__pipeline_exception(struct hr_pipeline *p, int64_t i)
{
    struct hr_value shared = HR_VALUE_EMPTY;
    if (hr__pipeline_forked(p))
        return shared;
    hr__engine_lock(p);
    const struct hr_value *exception = NULL;
    if (i < 0)
        exception = &p->ledger.final.exception;
    else if ((size_t)i < p->ledger.count)
        exception = &p->ledger.entries[i]->exception;
    if (exception && exception->cls)
        shared = exception->cls->share(exception);
    hr__engine_unlock_only(p);
    return shared;
}
