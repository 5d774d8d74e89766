/* sink_edge.c - the scheduler's end: what the consumer takes, and the places it gives back.
 */
#include "sched/edge.h"
#include "sched/sched_state.h"

#include "base/banned.h"

enum hr_take hr__sched_take(struct hr_sched *sched, hr_handle *out, int64_t now_ns)
{
    struct stage *sink = sched->sink;

    *out = 0;
    if (sink->in->queued == 0)
        return sched->live == 0 ? HR_TAKE_END : HR_TAKE_NONE;
    hr__sched_set_now(sched, now_ns);
    *out = hr__edge_shift(sink->in);
    sink->in->lent++;
    hr__stage_settle(sched, sink);
    if (*out == 0)
        return HR_TAKE_EPOCH;
    sink->in_items++;
    sink->out_items++;
    return HR_TAKE_ITEM;
}

void hr__sched_credit(struct hr_sched *sched, uint32_t n, int64_t now_ns)
{
    struct edge *edge = sched->sink->in;

    assert(n <= edge->lent);
    hr__sched_set_now(sched, now_ns);
    edge->lent -= n;
    hr__edge_free(sched, edge, n);
    hr__sched_settle(sched);
}
