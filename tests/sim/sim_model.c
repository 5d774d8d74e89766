/* sim_model.c - the sequential model: each stage's whole output from its whole input.
 *
 * It knows nothing of tasks, places or schedules. For stages whose output order is not
 * determined it computes one possible order; the caller then compares as a multiset. */
#include <stdlib.h>

#include "sim.h"

void sim_list_add(struct sim_list *list, struct leaves item)
{
    if (list->count == list->room) {
        list->room = list->room * 2 + 8;
        list->items = realloc(list->items, sizeof(*list->items) * list->room);
        if (!list->items)
            abort();
    }
    list->items[list->count++] = item;
}

void sim_stream_free(struct sim_stream *stream)
{
    for (uint32_t e = 0; e < SIM_EPOCHS_MAX; e++) {
        for (uint32_t i = 0; i < stream->epochs[e].count; i++)
            free(stream->epochs[e].items[i].keys);
        free(stream->epochs[e].items);
    }
    *stream = (struct sim_stream){0};
}

struct counts {
    uint64_t tasks, failed;
};

static bool policy_may_end_run(const struct hr_sched_stage *stage, struct counts counts)
{
    if (stage->cuts && counts.failed > 0)
        return true;
    if (stage->failures_max >= 0 && counts.failed > (uint64_t)stage->failures_max)
        return true;
    return stage->fraction_den > 0 && counts.tasks >= HR_SCHED_PROBATION &&
           counts.failed > 0; /* depends on when they fail */
}

static void run_source(const struct sim_plan *plan, uint32_t stage,
                       struct sim_stream *out)
{
    const struct sim_op *op = &plan->ops[stage];
    uint32_t n = 0;

    for (uint32_t e = 0; e <= op->marks; e++) {
        for (uint32_t i = 0; i < op->sizes[e]; i++, n++) {
            if (n == op->fail_at)
                return;
            sim_list_add(&out->epochs[e], sim_source_item(stage, n));
        }
        if (e < op->marks)
            out->marks++;
    }
}

static void run_each(const struct sim_plan *plan, uint32_t stage,
                     const struct sim_list *in, struct sim_stream *outs, uint32_t epoch,
                     struct counts *counts)
{
    enum hr_stage_kind kind = plan->stages[stage].kind;

    for (uint32_t i = 0; i < in->count; i++) {
        struct sim_verdict verdict = sim_op_judge(plan, stage, &in->items[i]);
        bool stream = kind == HR_STAGE_EXPAND || kind == HR_STAGE_DISAGGREGATE;

        counts->tasks++;
        counts->failed += verdict.failed;
        if (!stream && (verdict.failed || verdict.filtered))
            continue;
        for (uint32_t k = 0; k < verdict.outputs; k++)
            sim_list_add(&outs[verdict.path].epochs[epoch],
                         sim_op_output(plan, stage, &in->items[i], k));
    }
}

static void run_aggregate(const struct hr_sched_stage *stage, const struct sim_list *in,
                          struct sim_list *out)
{
    for (uint32_t i = 0; i < in->count; i += stage->arity) {
        uint32_t n = in->count - i < stage->arity ? in->count - i : stage->arity;

        if (n == stage->arity || !stage->drop_last)
            sim_list_add(out, sim_concat(&in->items[i], n));
    }
}

static void run_fold(const struct sim_plan *plan, uint32_t stage,
                     const struct sim_list *in, struct sim_list *out,
                     struct counts *counts)
{
    struct leaves *kept = calloc(in->count + 1, sizeof(*kept));
    uint32_t n = 0;

    for (uint32_t i = 0; i < in->count; i++) {
        bool failed = sim_op_judge(plan, stage, &in->items[i]).failed;

        counts->tasks++;
        counts->failed += failed;
        if (failed)
            continue;
        kept[n++] = in->items[i];
        if (n == plan->ops[stage].fold_every) {
            sim_list_add(out, sim_concat(kept, n));
            n = 0;
        }
    }
    counts->tasks++;
    if (n > 0 && !plan->stages[stage].drop_last)
        sim_list_add(out, sim_concat(kept, n));
    free(kept);
}

static void run_merge(const struct sim_plan *plan, uint32_t stage,
                      struct sim_stream *streams, struct sim_stream *out)
{
    for (uint32_t k = 0; k < plan->edge_count; k++) {
        const struct sim_stream *in = &streams[k];

        if (plan->edges[k].to != stage)
            continue;
        if (in->marks > out->marks)
            out->marks = in->marks;
        for (uint32_t e = 0; e < SIM_EPOCHS_MAX; e++) {
            for (uint32_t i = 0; i < in->epochs[e].count; i++)
                sim_list_add(&out->epochs[e], sim_concat(&in->epochs[e].items[i], 1));
        }
    }
}

static bool run_stage(const struct sim_plan *plan, uint32_t stage,
                      const struct sim_stream *in, struct sim_stream *outs,
                      uint32_t out_count)
{
    struct counts counts = {0};

    for (uint32_t k = 0; k < out_count; k++)
        outs[k].marks = in->marks;
    for (uint32_t e = 0; e <= in->marks; e++) {
        if (plan->stages[stage].kind == HR_STAGE_AGGREGATE)
            run_aggregate(&plan->stages[stage], &in->epochs[e], &outs[0].epochs[e]);
        else if (plan->stages[stage].kind == HR_STAGE_FOLD)
            run_fold(plan, stage, &in->epochs[e], &outs[0].epochs[e], &counts);
        else
            run_each(plan, stage, &in->epochs[e], outs, e, &counts);
    }
    return !policy_may_end_run(&plan->stages[stage], counts);
}

bool sim_model_run(const struct sim_plan *plan, struct sim_stream *out)
{
    struct sim_stream streams[SIM_EDGES_MAX] = {0};
    uint32_t sink = plan->stage_count - 1, last = 0;
    bool certain = true;

    for (uint32_t i = 0; i < sink; i++) {
        struct sim_stream outs[4] = {0};
        uint32_t in = 0, n = 0;

        for (uint32_t k = 0; k < plan->edge_count; k++) {
            if (plan->edges[k].to == i)
                in = k;
            n += plan->edges[k].from == i;
        }
        if (plan->stages[i].kind == HR_STAGE_SOURCE)
            run_source(plan, i, &outs[0]);
        else if (plan->stages[i].kind == HR_STAGE_MERGE)
            run_merge(plan, i, streams, &outs[0]);
        else
            certain &= run_stage(plan, i, &streams[in], outs, n);
        n = 0;
        for (uint32_t k = 0; k < plan->edge_count; k++) {
            if (plan->edges[k].from == i)
                streams[k] = outs[n++];
        }
    }
    for (uint32_t k = 0; k < plan->edge_count; k++) {
        if (plan->edges[k].to == sink)
            last = k;
    }
    *out = streams[last];
    streams[last] = (struct sim_stream){0};
    for (uint32_t k = 0; k < plan->edge_count; k++)
        sim_stream_free(&streams[k]);
    return certain;
}
