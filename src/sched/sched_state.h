/* sched_state.h - what the scheduler's own files share; nobody else includes it.
 *
 *   sched_plan.c  checks a plan, allocates everything, frees it
 *   edge.h        the bounded FIFO between two stages
 *   stage.c       what a stage does by itself: marks, merging, dropped rests, its end; and
 *                 the state it is in, from which "runnable" follows
 *   sched.c       claim and finish; the essay is there
 *   sink_edge.c   take and credit
 *   ending.c      failure policy, cancel, drain, the released handles
 *   account.c     counts, fills, times
 *   check.c       every invariant, for tests */
#ifndef HR_SCHED_SCHED_STATE_H
#define HR_SCHED_SCHED_STATE_H

#include <assert.h>

#include "sched/sched.h"

enum { WORDS_MAX = HR_SCHED_STAGES_MAX / 64 };

struct edge {
    /* const after creation */
    hr_handle *ring; /* a power of two, at least capacity; 0 is a mark */
    uint32_t mask;
    uint32_t capacity; /* == queued + reserved + lent + room, always */
    struct stage *from, *to;
    uint32_t index;

    uint32_t head;     /* runs freely; the oldest entry is ring[head & mask] */
    uint32_t queued;   /* entries in the ring, marks included */
    uint32_t reserved; /* places promised to tasks and to a pending mark */
    uint32_t lent;     /* sink: taken, but not yet credited */
    uint32_t room;     /* free places */
    uint32_t run;      /* items before the first mark */
    uint32_t marks;
    bool closed; /* its producer has ended */
};

enum task_phase {
    TASK_FREE,
    TASK_RUNNING, /* claimed by a thread */
    TASK_PAUSED,  /* finished with MORE; keeps its slot */
    TASK_DONE     /* over, but its output waits for its turn */
};

struct task {
    /* const after creation */
    struct stage *stage;
    hr_handle *inputs; /* arity */

    enum task_phase phase;
    uint32_t epoch;
    uint32_t places; /* reserved by it (route: in each path) */
    uint32_t input_count;
    bool rides;     /* its slot went to the next task of the same thread */
    bool behind;    /* a stream's task that may not deliver yet, holding one place */
    bool closing;   /* not wanted any more: its next claim is its last */
    bool refused;   /* comes after a failure that cuts: its outputs are refused */
    hr_handle held; /* the output that waits, or 0 */
    struct task *prev, *next; /* start order within the stage */
    struct task *link;        /* in the free, eager or paused list */
};

struct task_list {
    struct task *first, *last;
    uint32_t count;
};

struct stage {
    /* const after creation */
    struct hr_sched_stage plan;
    uint32_t index;
    bool streams; /* source, expand, disaggregate: any number of outputs, in steps */
    bool serves;  /* has tasks: neither merge nor sink */
    bool simple;  /* one in, one out, one place per task: readiness is three compares */
    uint32_t in_count, out_count;
    struct edge **ins, **outs;
    struct edge *in, *out; /* the first of them, or NULL */
    uint32_t behind_max;   /* places that may be taken out of turn, see stage.c */
    uint64_t *ready_word;  /* where it is marked runnable, */
    uint64_t ready_bit;    /* or 0 if it has no tasks */

    /* tasks */
    struct task *unused; /* concurrency + places of the out-edge: never runs out */
    struct task *first, *last; /* alive, in start order */
    struct task_list eager;    /* paused, need no room: hold a place, or are closing */
    struct task_list paused;   /* paused, need a place */
    uint32_t running;          /* RUNNING + PAUSED, without those that ride */
    uint32_t riding;
    uint32_t active; /* RUNNING */
    uint32_t held;   /* DONE */
    uint32_t behind; /* places of tasks and marks that may not deliver yet;
                                  counted for streams only */
    /* epochs: tasks start in epoch_in and deliver in epoch_out; a mark is pending
     * exactly while they differ (by one) */
    uint32_t epoch_in, epoch_out;
    uint32_t turn; /* merge: the in-edge to look at first */

    /* what it is coming to */
    bool gate_open; /* source */
    bool over;      /* source: its task is finished, or never will start */
    bool flushed;   /* fold: the flush of this epoch has been done */
    bool stopped;   /* takes no more input */
    bool cancelled; /* and its outputs are refused */
    bool ended;

    bool touched; /* on the list of stages to update */
    bool watch;   /* a gain (an item came, a place got free) may change it */

    enum hr_stage_state state;
    int64_t since_ns; /* of the state */
    int64_t time_ns[HR_STATE_COUNT];

    uint64_t in_items, out_items, failed, tasks;
    uint64_t filtered;      /* tasks that gave nothing on purpose */
    uint64_t dropped;       /* items in dropped rests */
    uint64_t absorbed;      /* fold: tasks that gave nothing yet */
    uint64_t discarded_in;  /* taken from an in-edge by cancel or failure */
    uint64_t discarded_out; /* outputs refused, or taken back while held */
    uint64_t inputs_done;   /* inputs of tasks that are over */
};

struct hr_sched {
    /* const after creation */
    uint32_t stage_count, edge_count, task_count, words;
    struct stage *stages;
    struct edge *edges;
    struct task *tasks;
    struct stage *sink;
    struct edge **fans; /* storage of every stage's ins and outs */
    hr_handle *slots;   /* storage of the rings, the tasks' inputs and released */

    uint64_t runnable[HR_SCHED_LANES_MAX][WORDS_MAX];
    struct stage *touched[HR_SCHED_STAGES_MAX];
    uint32_t touched_count;
    uint32_t live; /* stages that have not ended, the sink apart */
    int64_t now_ns;
    int failed_stage;

    /* let go, waiting for _take_released: a ring that always has room for all that
     * cancelling could still discard */
    hr_handle *released;
    uint32_t released_size, released_head, released_count;
    uint32_t discards_left;
    bool drop_waits; /* an aggregate's rest waits for room there */
};

/* Events carry the time; states are charged with it when they change. */
static inline void hr__sched_set_now(struct hr_sched *sched, int64_t now_ns)
{
    if (now_ns > sched->now_ns)
        sched->now_ns = now_ns;
}

static inline void hr__stage_touch(struct hr_sched *sched, struct stage *stage)
{
    if (stage->touched)
        return;
    stage->touched = true;
    sched->touched[sched->touched_count++] = stage;
}

static inline bool hr__stage_mark_pending(const struct stage *stage)
{
    return stage->epoch_in != stage->epoch_out;
}

/* stage.c */

/* Update the touched stages, and those that this touches, until all is quiet. */
void hr__sched_settle(struct hr_sched *sched);
/* The same, this stage first. */
void hr__stage_settle(struct hr_sched *sched, struct stage *stage);
/* Put out what has become deliverable: held outputs, the pending mark. */
void hr__stage_deliver(struct hr_sched *sched, struct stage *stage);
/* What stage->state should be (`ended` is taken as it is). */
enum hr_stage_state hr__stage_state(const struct stage *stage);
/* May a task on a new input, respectively a mark, have a place? */
bool hr__stage_has_room(const struct stage *stage);
bool hr__stage_mark_has_room(const struct stage *stage);
/* Enough input for a new task? */
bool hr__stage_has_input(const struct stage *stage);
/* Does the merge have something to move (its out-edge's room apart)? */
int hr__merge_next(const struct stage *stage);
bool hr__merge_barrier(const struct stage *stage);

/* The task may put out now: nothing that must go first is left before it. */
static inline bool hr__task_may_deliver(const struct task *task)
{
    const struct stage *stage = task->stage;

    return task->epoch == stage->epoch_out &&
           (stage->plan.order == HR_ORDER_COMPLETION || task == stage->first);
}

/* Out of the start order and back to the unused. */
static inline void hr__task_retire(struct task *task)
{
    struct stage *stage = task->stage;

    if (task->prev)
        task->prev->next = task->next;
    else
        stage->first = task->next;
    if (task->next)
        task->next->prev = task->prev;
    else
        stage->last = task->prev;
    task->phase = TASK_FREE;
    task->link = stage->unused;
    stage->unused = task;
}

static inline void hr__task_enqueue(struct task_list *list, struct task *task)
{
    task->link = NULL;
    if (list->last)
        list->last->link = task;
    else
        list->first = task;
    list->last = task;
    list->count++;
}

static inline struct task *hr__task_dequeue(struct task_list *list)
{
    struct task *task = list->first;

    list->first = task->link;
    if (!list->first)
        list->last = NULL;
    list->count--;
    return task;
}

/* ending.c */

void hr__sched_release(struct hr_sched *sched, hr_handle handle);
/* The task fails, in a stage that cuts: refuse what comes after it. */
void hr__stage_cut(struct hr_sched *sched, const struct task *failed);
/* A task of the stage is over: apply the failure policy. (A success need not be judged,
 * except where it ends the probation: it lowers the fraction.) */
void hr__stage_judge(struct hr_sched *sched, struct stage *stage, bool failed);
/* The task will be claimed only once more, so that its owner can let it go. */
void hr__task_close(struct task *task);

#endif
