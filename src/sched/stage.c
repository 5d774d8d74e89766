/* stage.c - what a stage does by itself, and what state it is in.
 *
 * An event (claim, finish, take, ...) changes a stage and touches its neighbours. Each
 * touched stage is then updated here: it first does all that needs no task,
 *
 *   a mark at the head of the in-edge is taken in, once a place for it is had
 *   the pending mark leaves, once nothing is left before it; then what was held back
 *   a merge moves handles, and joins marks
 *   an aggregate drops a short rest
 *   a stage that has nothing left to do ends and closes its out-edges
 *
 * and then gets a new state. "Runnable" is nothing but the state READY of a stage that
 * has tasks. Each of these steps moves something towards the sink, so settling ends.
 *
 * Why a stage holds one mark at most: two epochs may then be told apart by one counter
 * comparison, and what is held back is bounded by the places of one edge. */
#include "sched/edge.h"
#include "sched/sched_state.h"

#include "base/banned.h"

/* ---- room and input ---- */

/* A stream's task that paused needs new places to go on, and as many as bring the next
 * stage to work: one, or a whole batch. Tasks and marks behind it may take the
 * others. */
static bool behind_has_room(const struct stage *stage)
{
    return stage->out->room > 0 && stage->behind < stage->behind_max;
}

static bool all_paths_have_room(const struct stage *stage)
{
    for (uint32_t i = 0; i < stage->out_count; i++) {
        if (stage->outs[i]->room == 0)
            return false;
    }
    return true;
}

/* Would a task started now have to wait for its turn? */
static bool starts_behind(const struct stage *stage)
{
    return hr__stage_mark_pending(stage) ||
           (stage->plan.order == HR_ORDER_INPUT && stage->first);
}

bool hr__stage_has_room(const struct stage *stage)
{
    if (stage->plan.kind == HR_STAGE_ROUTE)
        return all_paths_have_room(stage);
    if (stage->streams && starts_behind(stage))
        return behind_has_room(stage);
    if (stage->plan.kind == HR_STAGE_FOLD && stage->in->run == 0 &&
        stage->plan.drop_last)
        return true; /* a flush without a result */
    return stage->out->room > 0;
}

bool hr__stage_mark_has_room(const struct stage *stage)
{
    if (stage->streams && stage->first)
        return behind_has_room(stage);
    return all_paths_have_room(stage);
}

/* No more items will come before the next mark or the end. */
static bool run_is_final(const struct edge *edge)
{
    return edge->marks > 0 || edge->closed;
}

static bool flush_is_due(const struct stage *stage)
{
    return stage->in->run == 0 && run_is_final(stage->in) && !stage->flushed;
}

bool hr__stage_has_input(const struct stage *stage)
{
    const struct edge *in = stage->in;

    if (stage->plan.kind == HR_STAGE_AGGREGATE)
        return in->run >= stage->plan.arity ||
               (in->run > 0 && run_is_final(in) && !stage->plan.drop_last);
    if (stage->plan.kind == HR_STAGE_FOLD && flush_is_due(stage))
        return true;
    return in->run > 0;
}

/* ---- the state ---- */

static enum hr_stage_state source_state(const struct stage *stage)
{
    if (stage->eager.first)
        return HR_STATE_READY;
    if (stage->active > 0)
        return HR_STATE_FULL;
    return stage->gate_open && stage->out->room > 0 ? HR_STATE_READY : HR_STATE_BLOCKED;
}

enum hr_stage_state hr__stage_state(const struct stage *stage)
{
    if (stage->ended)
        return HR_STATE_ENDED;
    if (stage->plan.kind == HR_STAGE_SINK)
        return stage->in->queued > 0 ? HR_STATE_READY : HR_STATE_STARVED;
    if (stage->plan.kind == HR_STAGE_MERGE)
        return stage->out->room == 0 &&
                       (hr__merge_next(stage) >= 0 || hr__merge_barrier(stage))
                   ? HR_STATE_BLOCKED
                   : HR_STATE_STARVED;
    if (stage->plan.kind == HR_STAGE_SOURCE)
        return source_state(stage);

    if (stage->eager.first)
        return HR_STATE_READY;
    if (stage->paused.first)
        return stage->out->room > 0 ? HR_STATE_READY : HR_STATE_BLOCKED;
    if (stage->running >= stage->plan.concurrency || stage->stopped)
        return HR_STATE_FULL;
    if (!hr__stage_has_input(stage)) /* a mark that waits is kept by the output */
        return stage->in->queued > 0 && stage->in->run == 0 ? HR_STATE_BLOCKED
                                                            : HR_STATE_STARVED;
    return hr__stage_has_room(stage) ? HR_STATE_READY : HR_STATE_BLOCKED;
}

static inline void set_state(struct hr_sched *sched, struct stage *stage,
                             enum hr_stage_state state)
{
    stage->time_ns[stage->state] += sched->now_ns - stage->since_ns;
    stage->since_ns = sched->now_ns;
    stage->state = state;
    if (state == HR_STATE_READY)
        *stage->ready_word |= stage->ready_bit;
    else
        *stage->ready_word &= ~stage->ready_bit;
}

/* ---- delivering in order ---- */

static void push_held(struct hr_sched *sched, struct task *task)
{
    struct stage *stage = task->stage;

    hr__edge_push(sched, stage->out, task->held);
    stage->out_items++;
    task->places--;
    task->held = 0;
}

/* The task's turn has come. */
static void task_unblock(struct hr_sched *sched, struct task *task)
{
    struct stage *stage = task->stage;

    if (task->behind) {
        task->behind = false;
        stage->behind--;
        if (task->held) {
            push_held(sched, task);
            if (task->phase == TASK_PAUSED)
                hr__task_enqueue(&stage->paused, task);
        }
    }
    if (task->phase != TASK_DONE)
        return;
    if (task->held)
        push_held(sched, task);
    stage->held--;
    hr__task_retire(task);
}

static void push_mark(struct hr_sched *sched, struct stage *stage)
{
    stage->epoch_out++;
    if (stage->streams && stage->behind > 0)
        stage->behind--; /* see absorb_mark */
    for (uint32_t i = 0; i < stage->out_count; i++)
        hr__edge_push(sched, stage->outs[i], 0);
}

static bool first_is_current(const struct stage *stage)
{
    return stage->first && stage->first->epoch == stage->epoch_out;
}

void hr__stage_deliver(struct hr_sched *sched, struct stage *stage)
{
    for (;;) {
        if (stage->plan.order == HR_ORDER_INPUT) {
            while (first_is_current(stage)) {
                struct task *task = stage->first;

                task_unblock(sched, task);
                if (stage->first == task)
                    return;
            }
        } else if (first_is_current(stage)) {
            return;
        }
        if (!hr__stage_mark_pending(stage))
            return;
        push_mark(sched, stage);
        if (stage->plan.order == HR_ORDER_INPUT)
            continue;
        for (struct task *task = stage->first, *next; task; task = next) {
            next = task->next;
            task_unblock(sched, task);
        }
    }
}

/* ---- what needs no task ---- */

static bool absorb_mark(struct hr_sched *sched, struct stage *stage)
{
    if (hr__stage_mark_pending(stage) || !hr__stage_mark_has_room(stage))
        return false;
    if (stage->plan.kind == HR_STAGE_FOLD && !stage->flushed)
        return false;
    for (uint32_t i = 0; i < stage->out_count; i++)
        hr__edge_reserve(stage->outs[i], 1);
    hr__edge_pop(sched, stage->in);
    stage->flushed = false;
    stage->epoch_in++;
    if (stage->streams)
        stage->behind++; /* until push_mark */
    hr__stage_deliver(sched, stage);
    return true;
}

static bool drop_rest(struct hr_sched *sched, struct stage *stage)
{
    uint32_t n = stage->in->run;

    if (sched->released_count + n + sched->discards_left > sched->released_size) {
        sched->drop_waits = true;
        return false;
    }
    stage->in_items += n;
    stage->dropped += n;
    while (n-- > 0)
        hr__sched_release(sched, hr__edge_pop(sched, stage->in));
    return true;
}

static bool rest_is_due(const struct stage *stage)
{
    return stage->plan.kind == HR_STAGE_AGGREGATE && stage->plan.drop_last &&
           stage->in->run > 0 && stage->in->run < stage->plan.arity &&
           run_is_final(stage->in);
}

static void take_marks_and_rests(struct hr_sched *sched, struct stage *stage)
{
    for (;;) {
        if (rest_is_due(stage)) {
            if (!drop_rest(sched, stage))
                return;
        } else if (stage->in->run == 0 && stage->in->marks > 0) {
            if (!absorb_mark(sched, stage))
                return;
        } else {
            return;
        }
    }
}

/* The in-edge whose head is an item, next in turn; or -1. */
int hr__merge_next(const struct stage *stage)
{
    uint32_t i = stage->turn;

    for (uint32_t n = 0; n < stage->in_count; n++) {
        if (stage->ins[i]->run > 0)
            return (int)i;
        i = i + 1 < stage->in_count ? i + 1 : 0;
    }
    return -1;
}

/* Has every input that may still give something come to a mark? */
bool hr__merge_barrier(const struct stage *stage)
{
    bool marks = false;

    for (uint32_t i = 0; i < stage->in_count; i++) {
        const struct edge *in = stage->ins[i];

        if (in->queued == 0 && in->closed)
            continue;
        if (in->queued == 0 || in->run > 0)
            return false;
        marks = true;
    }
    return marks;
}

static void merge_join_marks(struct hr_sched *sched, struct stage *stage)
{
    for (uint32_t i = 0; i < stage->in_count; i++) {
        if (stage->ins[i]->queued > 0)
            hr__edge_pop(sched, stage->ins[i]);
    }
    hr__edge_reserve(stage->out, 1);
    hr__edge_push(sched, stage->out, 0);
}

static void merge_move(struct hr_sched *sched, struct stage *stage)
{
    while (stage->out->room > 0) {
        int next = hr__merge_next(stage);

        if (next < 0) {
            if (!hr__merge_barrier(stage))
                return;
            merge_join_marks(sched, stage);
            continue;
        }
        hr__edge_reserve(stage->out, 1);
        hr__edge_push(sched, stage->out, hr__edge_pop(sched, stage->ins[next]));
        stage->in_items++;
        stage->out_items++;
        stage->turn = (uint32_t)next + 1 < stage->in_count ? (uint32_t)next + 1 : 0;
    }
}

static bool inputs_are_done(const struct stage *stage)
{
    for (uint32_t i = 0; i < stage->in_count; i++) {
        if (!stage->ins[i]->closed || stage->ins[i]->queued > 0)
            return false;
    }
    return true;
}

static bool nothing_left(const struct stage *stage)
{
    if (stage->first)
        return false;
    assert(!hr__stage_mark_pending(stage)); /* nothing was before it */
    if (stage->stopped)
        return true;
    if (stage->plan.kind == HR_STAGE_SOURCE)
        return stage->over;
    if (stage->plan.kind == HR_STAGE_FOLD && !stage->flushed)
        return false;
    return inputs_are_done(stage);
}

static void end_stage(struct hr_sched *sched, struct stage *stage)
{
    stage->ended = true;
    if (stage != sched->sink)
        sched->live--;
    for (uint32_t i = 0; i < stage->out_count; i++) {
        stage->outs[i]->closed = true;
        hr__stage_touch(sched, stage->outs[i]->to);
    }
}

/* Amid items, with nothing to do but run tasks: most updates, most of the time. */
static inline bool is_plain(const struct stage *stage)
{
    return stage->simple && !stage->stopped && stage->in->marks == 0 &&
           !stage->in->closed && !hr__stage_mark_pending(stage);
}

/* hr__stage_state for a plain stage. */
static inline enum hr_stage_state plain_state(const struct stage *stage)
{
    if (stage->running >= stage->plan.concurrency)
        return HR_STATE_FULL;
    if (stage->in->run < stage->plan.arity)
        return HR_STATE_STARVED;
    return stage->out->room > 0 ? HR_STATE_READY : HR_STATE_BLOCKED;
}

static void do_own_work(struct hr_sched *sched, struct stage *stage)
{
    if (stage->plan.kind == HR_STAGE_MERGE && !stage->stopped)
        merge_move(sched, stage);
    else if (stage->in && stage->serves && !stage->stopped)
        take_marks_and_rests(sched, stage);
    if (nothing_left(stage))
        end_stage(sched, stage);
}

static void update_any(struct hr_sched *sched, struct stage *stage)
{
    enum hr_stage_state state;

    if (stage->ended)
        return;
    do_own_work(sched, stage);
    state = hr__stage_state(stage);
    if (state != stage->state)
        set_state(sched, stage, state);
    stage->watch = state >= HR_STATE_STARVED || (stage->in && stage->in->marks > 0);
}

static inline void update(struct hr_sched *sched, struct stage *stage)
{
    enum hr_stage_state state;

    if (!is_plain(stage)) {
        update_any(sched, stage);
        return;
    }
    state = plain_state(stage);
    if (state == stage->state)
        return; /* it may watch on, for marks that have gone: right, if not free */
    set_state(sched, stage, state);
    stage->watch = state >= HR_STATE_STARVED;
}

void hr__sched_settle(struct hr_sched *sched)
{
    while (sched->touched_count > 0) {
        struct stage *stage = sched->touched[--sched->touched_count];

        stage->touched = false;
        update(sched, stage);
    }
}

void hr__stage_settle(struct hr_sched *sched, struct stage *stage)
{
    if (!stage->touched)
        update(sched, stage);
    hr__sched_settle(sched);
}
