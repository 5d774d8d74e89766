/* sim_ops.c - what a virtual worker reports when it finishes a task. */
#include <stdlib.h>

#include "sim_state.h"

static void give(struct drive *d, struct sim_task *task, struct sim_report *report,
                 struct leaves leaves, uint32_t edge)
{
    struct item item = {.leaves = leaves,
                        .epoch = task->epoch,
                        .from = task->claim.stage,
                        .to = d->dest[edge],
                        .edge = edge,
                        .start = task->start,
                        .sub = task->given++};

    report->outputs[report->count++] = sim_item_add(d, item);
}

static void run_source(struct drive *d, struct sim_task *task,
                       struct sim_report *report)
{
    struct sim_stage *s = &d->stages[task->claim.stage];
    const struct sim_op *op = &d->plan->ops[task->claim.stage];
    uint32_t want = task->claim.grant;

    if (rng_chance(d->rng, 40))
        want = rng_below(d->rng, want + 1);

    report->outcome = HR_TASK_MORE;
    task->epoch = s->next_epoch;
    for (;;) {
        if (s->epoch_given == op->sizes[s->next_epoch])
            break;
        if (s->next_item == op->fail_at) {
            report->outcome = HR_TASK_FAILED;
            return;
        }
        if (report->count >= want)
            return;
        give(d, task, report, sim_source_item(task->claim.stage, s->next_item++),
             d->outs[task->claim.stage][0]);
        s->epoch_given++;
    }
    if (s->next_epoch == op->marks) {
        report->outcome = HR_TASK_DONE;
    } else if (report->count < task->claim.grant) {
        report->outcome = HR_TASK_EPOCH;
        s->next_epoch++;
        s->epoch_given = 0;
    }
}

static void run_stream(struct drive *d, struct sim_task *task,
                       struct sim_report *report)
{
    uint32_t stage = task->claim.stage, left = task->verdict.outputs - task->given;
    uint32_t n = rng_below(d->rng, task->claim.grant + 1);

    for (n = n < left ? n : left; n > 0; n--)
        give(d, task, report, sim_op_output(d->plan, stage, &task->input, task->given),
             d->outs[stage][0]);
    if (task->given < task->verdict.outputs || rng_chance(d->rng, 20))
        report->outcome = HR_TASK_MORE;
    else
        report->outcome = task->verdict.failed ? HR_TASK_FAILED : HR_TASK_DONE;
}

static void run_fold(struct drive *d, struct sim_task *task, struct sim_report *report)
{
    uint32_t stage = task->claim.stage;
    struct sim_stage *s = &d->stages[stage];

    if (task->verdict.failed) {
        report->outcome = HR_TASK_FAILED;
        return;
    }
    if (task->input_count > 0) {
        s->kept[s->kept_count++] = sim_concat(&task->input, 1);
        if (s->kept_count < d->plan->ops[stage].fold_every)
            return;
    }
    if (s->kept_count > 0)
        give(d, task, report, sim_concat(s->kept, s->kept_count), d->outs[stage][0]);
    while (s->kept_count > 0)
        free(s->kept[--s->kept_count].keys);
}

static void run_single(struct drive *d, struct sim_task *task,
                       struct sim_report *report)
{
    uint32_t stage = task->claim.stage;
    uint32_t edge = d->outs[stage][task->verdict.path];

    if (task->verdict.failed)
        report->outcome = HR_TASK_FAILED;
    else if (task->verdict.filtered)
        report->outcome = rng_chance(d->rng, 50) ? HR_TASK_FILTERED : HR_TASK_DONE;
    else if (d->plan->stages[stage].kind == HR_STAGE_AGGREGATE)
        give(d, task, report, sim_concat(&task->input, 1), edge);
    else
        give(d, task, report, sim_op_output(d->plan, stage, &task->input, 0), edge);
}

void sim_run_op(struct drive *d, struct sim_task *task, struct sim_report *report)
{
    if (task->claim.closing)
        return;
    switch (d->plan->stages[task->claim.stage].kind) {
    case HR_STAGE_SOURCE:
        run_source(d, task, report);
        return;
    case HR_STAGE_EXPAND:
    case HR_STAGE_DISAGGREGATE:
        run_stream(d, task, report);
        return;
    case HR_STAGE_FOLD:
        run_fold(d, task, report);
        return;
    default:
        run_single(d, task, report);
    }
}
