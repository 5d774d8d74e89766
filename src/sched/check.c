/* check.c - every invariant of the scheduler that can be seen from inside, for tests.
 *
 * It recomputes what the hot path keeps incrementally (states, runnable bits, counts)
 * and demands that nothing a stage could do by itself has been left undone: a lost
 * wake-up is found at the step that loses it, not when the run stands still. */
#include "sched/edge.h"
#include "sched/sched_state.h"

#include "base/banned.h"

#define REQUIRE(condition, text)                                                       \
    do {                                                                               \
        if (!(condition))                                                              \
            return text;                                                               \
    } while (0)

static uint32_t places_held(const struct edge *edge)
{
    const struct stage *stage = edge->from;
    uint32_t n = hr__stage_mark_pending(stage);

    for (const struct task *task = stage->first; task; task = task->next)
        n += task->places;
    return n;
}

static const char *check_edge(const struct edge *edge)
{
    uint32_t marks = 0, run = 0;

    REQUIRE(edge->queued + edge->reserved + edge->lent + edge->room == edge->capacity,
            "edge: its places do not add up to its capacity");
    for (uint32_t i = 0; i < edge->queued; i++) {
        marks += hr__edge_peek(edge, i) == 0;
        run += marks == 0;
    }
    REQUIRE(marks == edge->marks, "edge: wrong count of marks");
    REQUIRE(run == edge->run, "edge: wrong count of items before the first mark");
    REQUIRE(edge->reserved == places_held(edge),
            "edge: places reserved that no task or mark holds");
    REQUIRE(edge->closed == edge->from->ended, "edge: closed is not: producer ended");
    return NULL;
}

struct tally {
    uint32_t running, paused, done, behind, inputs, unfed;
};

static const char *check_task(const struct stage *stage, const struct task *task,
                              struct tally *tally)
{
    bool current = task->epoch == stage->epoch_out;

    REQUIRE(task->stage == stage, "task: in another stage's list");
    REQUIRE(task->next ? task->next->prev == task : stage->last == task,
            "task: start order is broken");
    REQUIRE(!task->next || (int32_t)(task->next->epoch - task->epoch) >= 0,
            "task: started after one of a later epoch");
    tally->running += task->phase == TASK_RUNNING;
    tally->paused += task->phase == TASK_PAUSED;
    tally->done += task->phase == TASK_DONE;
    tally->behind += task->behind;
    if (task->phase != TASK_DONE) {
        tally->inputs += task->input_count;
        tally->unfed += task->input_count == 0;
    }
    REQUIRE(task->phase != TASK_FREE, "task: free, but in the start order");
    if (stage->cancelled || task->refused)
        return NULL;
    REQUIRE(current ||
                (hr__stage_mark_pending(stage) && task->epoch == stage->epoch_in),
            "task: of an epoch that is not open");
    REQUIRE(!task->held || !hr__task_may_deliver(task),
            "task: its output is held, but nothing is before it");
    REQUIRE(!stage->streams || task->behind == !hr__task_may_deliver(task),
            "task: behind is not: may not deliver");
    REQUIRE((task->phase == TASK_DONE) <= (task->held != 0),
            "task: over and without output, but still there");
    REQUIRE(!task->held || task->places == 1, "task: its output holds no place");
    return NULL;
}

static const char *check_lists(const struct stage *stage)
{
    uint32_t n = 0;

    for (const struct task *task = stage->paused.first; task; task = task->link, n++)
        REQUIRE(task->phase == TASK_PAUSED && !task->behind && !task->closing &&
                    n < stage->paused.count,
                "task: wrongly in the paused list");
    REQUIRE(n == stage->paused.count, "stage: wrong count of paused tasks");
    n = 0;
    for (const struct task *task = stage->eager.first; task; task = task->link, n++)
        REQUIRE(task->phase == TASK_PAUSED && !task->held && n < stage->eager.count &&
                    (task->closing || task->places == 1),
                "task: wrongly in the eager list");
    REQUIRE(n == stage->eager.count, "stage: wrong count of eager tasks");
    return NULL;
}

static const char *check_tasks(const struct stage *stage, struct tally *tally)
{
    const char *wrong;

    for (const struct task *task = stage->first; task; task = task->next) {
        if ((wrong = check_task(stage, task, tally)))
            return wrong;
    }
    REQUIRE(tally->running == stage->active, "stage: wrong count of active tasks");
    REQUIRE(tally->running + tally->paused == stage->running + stage->riding,
            "stage: wrong count of running tasks");
    REQUIRE(tally->done == stage->held, "stage: wrong count of held outputs");
    REQUIRE(!stage->serves || stage->running <= stage->plan.concurrency,
            "stage: more tasks than its concurrency");
    if (stage->streams) {
        tally->behind += hr__stage_mark_pending(stage);
        REQUIRE(tally->behind == stage->behind, "stage: wrong count of places behind");
        REQUIRE(stage->behind <= stage->behind_max,
                "stage: those behind hold places that its next task needs");
    }
    if (!stage->cancelled)
        REQUIRE(stage->epoch_in - stage->epoch_out <= 1, "stage: two marks pending");
    REQUIRE(!hr__stage_mark_pending(stage) || stage->first,
            "stage: a mark waits behind nothing");
    return check_lists(stage);
}

/* Something the stage could do without a task. */
static const char *check_idle(const struct stage *stage)
{
    const struct edge *in = stage->in;

    if (stage->ended || stage->stopped)
        return NULL;
    if (stage->plan.kind == HR_STAGE_MERGE) {
        REQUIRE(stage->out->room == 0 ||
                    (hr__merge_next(stage) < 0 && !hr__merge_barrier(stage)),
                "merge: it could move something");
        return NULL;
    }
    if (!in || !stage->serves || in->run > 0 || in->marks == 0)
        return NULL;
    REQUIRE(hr__stage_mark_pending(stage) || !hr__stage_mark_has_room(stage) ||
                (stage->plan.kind == HR_STAGE_FOLD && !stage->flushed),
            "stage: it could take a mark in");
    return NULL;
}

static bool should_have_ended(const struct stage *stage)
{
    if (stage->first || hr__stage_mark_pending(stage))
        return false;
    if (stage->stopped || stage->over)
        return true;
    if (stage->in_count == 0 || (stage->plan.kind == HR_STAGE_FOLD && !stage->flushed))
        return false;
    for (uint32_t i = 0; i < stage->in_count; i++) {
        if (!stage->ins[i]->closed || stage->ins[i]->queued > 0)
            return false;
    }
    return true;
}

static const char *check_state(const struct hr_sched *sched, const struct stage *stage)
{
    uint64_t word = sched->runnable[stage->plan.lane][stage->index / 64];
    bool bit = word >> (stage->index % 64) & 1;

    REQUIRE(!stage->touched, "stage: touched, but not updated");
    REQUIRE(stage->ended == should_have_ended(stage), "stage: ended wrongly, or not");
    REQUIRE(stage->state == hr__stage_state(stage), "stage: its state is out of date");
    REQUIRE(stage->watch || stage->ended ||
                (stage->state < HR_STATE_STARVED && (!stage->in || !stage->in->marks)),
            "stage: waits for a gain, but does not watch");
    REQUIRE(bit == (stage->serves && stage->state == HR_STATE_READY),
            "stage: runnable bit is not: READY");
    return NULL;
}

static const char *check_ledger(const struct stage *stage, const struct tally *tally)
{
    uint64_t inputs = stage->inputs_done + tally->inputs + stage->discarded_in;
    uint64_t given = stage->out_items + stage->held + stage->discarded_out;

    if (stage->plan.kind == HR_STAGE_MERGE) {
        REQUIRE(stage->in_items == stage->out_items + stage->discarded_in,
                "merge: its ledger does not add up");
        return NULL;
    }
    if (!stage->serves)
        return NULL;
    REQUIRE(stage->in_items == inputs + stage->dropped,
            "stage: its inputs do not add up");
    if (stage->streams)
        return NULL;
    REQUIRE(stage->tasks == given + stage->filtered + stage->failed + stage->absorbed,
            "stage: its tasks do not add up");
    if (stage->plan.arity == 1 && stage->plan.kind != HR_STAGE_FOLD)
        REQUIRE(stage->in_items == given + stage->filtered + stage->failed +
                                       stage->running + stage->riding + stage->dropped +
                                       stage->discarded_in,
                "stage: its ledger does not add up");
    return NULL;
}

/* Along an edge nothing is lost. */
static const char *check_flow(const struct stage *stage)
{
    uint64_t arrived = 0;

    for (uint32_t i = 0; i < stage->out_count; i++) {
        const struct edge *edge = stage->outs[i];

        if (edge->to->in_count > 1)
            return NULL; /* its count is of several edges */
        arrived += edge->to->in_items + edge->queued - edge->marks;
    }
    REQUIRE(stage->out_count == 0 || stage->out_items == arrived,
            "edge: more or less came out than went in");
    return NULL;
}

static const char *check_stage(const struct hr_sched *sched, const struct stage *stage)
{
    struct tally tally = {0};
    const char *wrong;

    if ((wrong = check_tasks(stage, &tally)) || (wrong = check_idle(stage)) ||
        (wrong = check_state(sched, stage)) || (wrong = check_ledger(stage, &tally)))
        return wrong;
    return check_flow(stage);
}

const char *hr__sched_check(const struct hr_sched *sched)
{
    uint32_t live = 0;
    const char *wrong;

    for (uint32_t i = 0; i < sched->edge_count; i++) {
        if ((wrong = check_edge(&sched->edges[i])))
            return wrong;
    }
    for (uint32_t i = 0; i < sched->stage_count; i++) {
        const struct stage *stage = &sched->stages[i];

        if ((wrong = check_stage(sched, stage)))
            return wrong;
        live += stage != sched->sink && !stage->ended;
    }
    REQUIRE(live == sched->live, "wrong count of live stages");
    REQUIRE(sched->touched_count == 0, "touched stages are left");
    REQUIRE(sched->released_count + sched->discards_left <= sched->released_size,
            "no room for what cancelling would discard");
    return NULL;
}
