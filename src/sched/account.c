/* account.c - what can be seen of a run.
 *
 * The ledger, per stage and at any moment:
 *
 *   map, filter, route   in == out + filtered + failed + released + running + held
 *   aggregate            in == inputs of its tasks, over or running, + dropped rests +
 *                              released inputs
 *   fold                 tasks == out + gave nothing (yet) + failed + refused + held
 *   expand               in == tasks + running + released inputs
 *   merge                in == out + released
 *
 * hr__sched_check holds the exact forms. Items discarded from a stage's in-edge count
 * as taken by it (in) and released; so along an edge out == in + queued always. */
#include "sched/sched_state.h"

#include "base/banned.h"

void hr__sched_counts(struct hr_sched *sched, uint32_t index, int64_t now_ns,
                      struct hr_sched_counts *out)
{
    const struct stage *stage = &sched->stages[index];

    /* An event with an earlier time may come yet; it is charged from here on, so that no
     * time that was shown is taken back. */
    hr__sched_set_now(sched, now_ns);
    *out = (struct hr_sched_counts){
        .in = stage->in_items,
        .out = stage->out_items,
        .filtered = stage->filtered + stage->dropped,
        .failed = stage->failed,
        .released = stage->discarded_in + stage->discarded_out,
        .tasks = stage->tasks,
        .running = stage->running + stage->riding,
        .held = stage->held,
    };
    for (uint32_t i = 0; i < stage->in_count; i++)
        out->queued += stage->ins[i]->queued - stage->ins[i]->marks;
    for (int i = 0; i < HR_STATE_COUNT; i++)
        out->time_ns[i] = (uint64_t)stage->time_ns[i];
    if (now_ns > stage->since_ns)
        out->time_ns[stage->state] += (uint64_t)(now_ns - stage->since_ns);
}

void hr__sched_begin(struct hr_sched *sched, int64_t now_ns)
{
    hr__sched_set_now(sched, now_ns);
    for (uint32_t i = 0; i < sched->stage_count; i++)
        sched->stages[i].since_ns = sched->now_ns;
}

void hr__sched_edge_fill(const struct hr_sched *sched, uint32_t index,
                         struct hr_edge_fill *out)
{
    const struct edge *edge = &sched->edges[index];

    *out = (struct hr_edge_fill){
        .capacity = edge->capacity,
        .filled = edge->queued + edge->lent,
        .reserved = edge->reserved,
    };
}

uint32_t hr__sched_task_count(const struct hr_sched *sched)
{
    return sched->task_count;
}
