/* ending.c - how a run ends before its sources do: failures, cancel, drain.
 *
 * Three words that differ:
 *
 *   over       a source gives no more; what is on its way is delivered       (drain)
 *   stopped    a stage takes no more input; its tasks finish and deliver     (failure)
 *   cancelled  stopped, and its outputs are refused, what it held released   (cancel,
 *              or: a stage further down has failed)
 *
 * When a stage exceeds its failure policy it is stopped and all its ancestors are
 * cancelled: in a graph whose edges have one consumer each, whatever they make could
 * only have gone there. A route is the exception: its other paths lose their input too.
 * So a failing path ends the whole region, and the other paths drain into the merge.
 *
 * A failure may also *cut*: then nothing leaves the stage that comes after the failed
 * task, as if a loop had ended there. Tasks after it are refused one by one, as those of
 * a cancelled stage are; when one before it fails as well, the cut moves there.
 *
 * The scheduler never ends a task by itself, because its owner may hold something for
 * it (a generator, an open file). A paused task that is not wanted any more is claimed
 * once more, with `closing` set. */
#include "sched/edge.h"
#include "sched/sched_state.h"

#include "base/banned.h"

void hr__sched_release(struct hr_sched *sched, hr_handle handle)
{
    uint32_t tail = sched->released_head + sched->released_count;

    assert(sched->released_count < sched->released_size);
    sched->released[tail % sched->released_size] = handle;
    sched->released_count++;
}

static void discard(struct hr_sched *sched, hr_handle handle)
{
    assert(sched->discards_left > 0);
    sched->discards_left--;
    hr__sched_release(sched, handle);
}

size_t hr__sched_take_released(struct hr_sched *sched, hr_handle *out, size_t max)
{
    size_t n = 0;

    while (n < max && sched->released_count > 0) {
        out[n++] = sched->released[sched->released_head];
        sched->released_head = (sched->released_head + 1) % sched->released_size;
        sched->released_count--;
    }
    if (n > 0 && sched->drop_waits) {
        sched->drop_waits = false;
        for (uint32_t i = 0; i < sched->stage_count; i++)
            hr__stage_touch(sched, &sched->stages[i]);
        hr__sched_settle(sched);
    }
    return n;
}

/* ---- stopping one stage ---- */

static void discard_inputs(struct hr_sched *sched, struct stage *stage)
{
    for (uint32_t i = 0; i < stage->in_count; i++) {
        while (stage->ins[i]->queued > 0) {
            hr_handle handle = hr__edge_pop(sched, stage->ins[i]);

            if (handle == 0)
                continue;
            discard(sched, handle);
            stage->in_items++;
            stage->discarded_in++;
        }
    }
}

static void stop_stage(struct hr_sched *sched, struct stage *stage)
{
    stage->stopped = true;
    discard_inputs(sched, stage);
    hr__stage_touch(sched, stage);
}

void hr__task_close(struct task *task)
{
    assert(!task->closing);
    task->closing = true;
    hr__task_enqueue(&task->stage->eager, task);
}

/* Take back what the stage's tasks hold; paused ones are to be closed. */
static void cancel_task(struct hr_sched *sched, struct task *task)
{
    struct stage *stage = task->stage;

    if (task->phase == TASK_RUNNING)
        return; /* gives its places back when it finishes */
    if (task->held) {
        discard(sched, task->held);
        stage->discarded_out++;
        task->held = 0;
    }
    if (task->places > 0)
        hr__edge_unreserve(stage->out, task->places);
    task->places = 0;
    stage->behind -= task->behind;
    task->behind = false;
    if (task->phase == TASK_PAUSED) {
        task->closing = false; /* its list was emptied */
        hr__task_close(task);
    } else {
        stage->held--;
        hr__task_retire(task);
    }
}

static void cancel_tasks(struct hr_sched *sched, struct stage *stage)
{
    stage->eager = stage->paused = (struct task_list){0};
    for (struct task *task = stage->first, *next; task; task = next) {
        next = task->next;
        cancel_task(sched, task);
    }
}

/* The pending mark will not leave: give its places back. */
static void drop_mark(struct stage *stage)
{
    stage->behind -= stage->streams;
    for (uint32_t i = 0; i < stage->out_count; i++)
        hr__edge_unreserve(stage->outs[i], 1);
}

static void cancel_mark(struct stage *stage)
{
    if (!hr__stage_mark_pending(stage))
        return;
    stage->epoch_out = stage->epoch_in;
    drop_mark(stage);
}

/* ---- a failure that cuts ---- */

static bool comes_after(const struct task *task, const struct task *failed)
{
    return task->stage->plan.order == HR_ORDER_INPUT ||
           (int32_t)(task->epoch - failed->epoch) > 0;
}

/* Into the list that it was in before the lists were emptied. */
static void list_again(struct task *task)
{
    struct stage *stage = task->stage;

    if (task->phase != TASK_PAUSED)
        return;
    if (task->closing || (task->behind && !task->held))
        hr__task_enqueue(&stage->eager, task);
    else if (!task->behind)
        hr__task_enqueue(&stage->paused, task);
}

void hr__stage_cut(struct hr_sched *sched, const struct task *failed)
{
    struct stage *stage = failed->stage;
    bool before_mark =
        hr__stage_mark_pending(stage) && failed->epoch == stage->epoch_out;

    stage->eager = stage->paused = (struct task_list){0};
    for (struct task *task = stage->first; task != failed; task = task->next)
        list_again(task);
    for (struct task *task = failed->next, *next; task; task = next) {
        next = task->next;
        if (!task->refused && !comes_after(task, failed)) {
            list_again(task);
            continue;
        }
        task->refused = true;
        if (before_mark)
            task->epoch = stage->epoch_out;
        cancel_task(sched, task);
    }
    if (!before_mark)
        return;
    stage->epoch_in = stage->epoch_out; /* the mark goes, and so does its epoch */
    drop_mark(stage);
}

static void cancel_stage(struct hr_sched *sched, struct stage *stage)
{
    if (stage->cancelled || stage->ended)
        return;
    stage->cancelled = true;
    stop_stage(sched, stage);
    cancel_tasks(sched, stage);
    cancel_mark(stage);
}

/* ---- failure ---- */

static void fail_stage(struct hr_sched *sched, struct stage *stage)
{
    bool ancestor[HR_SCHED_STAGES_MAX] = {false};

    if (sched->failed_stage < 0)
        sched->failed_stage = (int)stage->index;
    ancestor[stage->index] = true;
    for (uint32_t i = stage->index + 1; i-- > 0;) {
        struct stage *at = &sched->stages[i];

        if (!ancestor[i])
            continue;
        for (uint32_t k = 0; k < at->in_count; k++)
            ancestor[at->ins[k]->from->index] = true;
        if (at == stage)
            stop_stage(sched, at);
        else
            cancel_stage(sched, at);
    }
}

/* failures / invocations > num / den, exactly. */
static bool fraction_exceeded(const struct stage *stage)
{
    __extension__ typedef unsigned __int128 wide;

    return (wide)stage->failed * stage->plan.fraction_den >
           (wide)stage->tasks * stage->plan.fraction_num;
}

static bool policy_exceeded(const struct stage *stage)
{
    if (stage->plan.cuts && stage->failed > 0)
        return true;
    if (stage->plan.failures_max >= 0 &&
        stage->failed > (uint64_t)stage->plan.failures_max)
        return true;
    return stage->plan.fraction_den > 0 && stage->tasks >= HR_SCHED_PROBATION &&
           fraction_exceeded(stage);
}

void hr__stage_judge(struct hr_sched *sched, struct stage *stage, bool failed)
{
    if (stage->stopped)
        return; /* judged already, or cancelled: then nobody wants to know */
    if (stage->plan.kind != HR_STAGE_SOURCE) {
        if (policy_exceeded(stage))
            fail_stage(sched, stage);
    } else if (failed && sched->failed_stage < 0) {
        sched->failed_stage = (int)stage->index;
    }
}

/* ---- drain, cancel ---- */

static void drain_source(struct hr_sched *sched, struct stage *stage)
{
    struct task *task = stage->first;

    if (stage->over || stage->cancelled)
        return;
    stage->over = true;
    if (task && task->phase == TASK_PAUSED) {
        stage->paused = (struct task_list){0};
        hr__task_close(task);
    }
    hr__stage_touch(sched, stage);
}

void hr__sched_drain(struct hr_sched *sched, int64_t now_ns)
{
    hr__sched_set_now(sched, now_ns);
    for (uint32_t i = 0; i < sched->stage_count; i++) {
        if (sched->stages[i].plan.kind == HR_STAGE_SOURCE)
            drain_source(sched, &sched->stages[i]);
    }
    hr__sched_settle(sched);
}

void hr__sched_cancel(struct hr_sched *sched, int64_t now_ns)
{
    hr__sched_set_now(sched, now_ns);
    for (uint32_t i = 0; i < sched->stage_count; i++) {
        if (&sched->stages[i] != sched->sink)
            cancel_stage(sched, &sched->stages[i]);
    }
    hr__sched_settle(sched);
}

bool hr__sched_ended(const struct hr_sched *sched)
{
    return sched->live == 0;
}

int hr__sched_failed_stage(const struct hr_sched *sched)
{
    return sched->failed_stage;
}
