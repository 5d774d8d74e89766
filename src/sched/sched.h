/* sched.h - the pure scheduler: event in, decisions out.
 *
 * No thread, clock, lock, system call or allocation after _new. It holds integers and
 * opaque handles (64-bit, never 0) and never looks behind them. The caller serialises
 * all calls and passes the time. See docs/internals/scheduler.md for the model.
 *
 * The model in short
 *
 *   stage   consumes from its in-edges, produces to its out-edges
 *   edge    a bounded FIFO of handles and epoch marks. A *place* in it is reserved
 *           before a task starts (R4), so that finished work always has room
 *   task    one activation of a stage. Claimed by a thread, then finished with an
 *           outcome. An expand or source task may be finished with HR_TASK_MORE; it
 *           then is claimed again, maybe by another thread, with a new grant
 *   lane    which kind of thread can run a stage (native, foreign runtime, source
 *           helper ...). Claims name the lanes the thread can serve
 *   mark    the end of an epoch. Everything of epoch n leaves a stage before the mark
 *           does, and nothing of epoch n + 1 before it; but tasks of n + 1 may run
 *           while n's are still in flight (their outputs are held back)
 *
 * Ordering. Each stage keeps its tasks and marks in start order. Output order "input":
 * a task delivers only when no earlier task or mark is left before it. "completion": only
 * when no earlier *mark* is left before it. A task that may not yet deliver is granted one
 * place and holds at most one output; the deliverable ones take what is free. */
#ifndef HR_SCHED_SCHED_H
#define HR_SCHED_SCHED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "headrace/status.h"

typedef uint64_t hr_handle; /* 0 is "none" */

enum {
    HR_SCHED_STAGES_MAX = 256,
    HR_SCHED_LANES_MAX = 8,
    HR_SCHED_FAN_MAX = 64,           /* in- or out-edges of one stage */
    HR_SCHED_GRANT_MAX = 16,         /* outputs per claim */
    HR_SCHED_CAPACITY_MAX = 1 << 20, /* places of an edge */
    HR_SCHED_PROBATION = 100         /* invocations before a failure fraction counts */
};

enum hr_stage_kind {
    HR_STAGE_SOURCE,    /* 0 → n; one task that lives for the whole run */
    HR_STAGE_MAP,       /* 1 → 0 or 1 */
    HR_STAGE_FILTER,    /* 1 → 0 or 1, the same handle */
    HR_STAGE_EXPAND,    /* 1 → n, in steps */
    HR_STAGE_AGGREGATE, /* up to `arity` → 1; the last of an epoch may be short */
    HR_STAGE_FOLD, /* 1 → 0 or 1, serial, plus one flush task (no input) per epoch and
                         * at the end: custom aggregators */
    HR_STAGE_DISAGGREGATE, /* 1 → n, as expand */
    HR_STAGE_MERGE,        /* many edges → one, no task; marks are joined (barrier) */
    HR_STAGE_ROUTE,        /* one → the edge its task names; marks go to all paths */
    HR_STAGE_SINK          /* ends here; the consumer takes from it */
};

enum hr_order { HR_ORDER_COMPLETION, HR_ORDER_INPUT };

/* What one stage is. Const once the scheduler is made. */
struct hr_sched_stage {
    enum hr_stage_kind kind;
    enum hr_order order;
    uint32_t lane;
    uint32_t concurrency; /* tasks in flight; 1 for source, fold and route */
    uint32_t arity;       /* aggregate: items per batch; else 1 */
    bool drop_last; /* aggregate: a short rest is dropped; fold: no flush result */
    int64_t failures_max; /* tolerated failures; -1: any number */
    /* with fraction_den > 0: tolerated failures / invocations, once HR_SCHED_PROBATION
     * invocations were seen */
    uint32_t fraction_num, fraction_den;
    /* The first failure ends the stage, whatever else is tolerated, and nothing leaves it
     * that comes after the failed task: in input order what was started later, else what
     * is of later epochs. */
    bool cuts;
};

struct hr_sched_edge {
    uint32_t from, to; /* stage numbers; edges form a DAG from sources to the sink */
    uint32_t capacity; /* places; at least the consumer's arity */
};

/* Stages are numbered so that every edge goes from a lower to a higher number; the sink
 * is the last. A route's out-edges, in order of appearance, are its paths 0, 1, ... */
struct hr_sched_plan {
    const struct hr_sched_stage *stages;
    uint32_t stage_count;
    const struct hr_sched_edge *edges;
    uint32_t edge_count;
};

struct hr_sched;

/* Everything the run will need is allocated here. The plan is copied.
 * Errors: HR_ERR_ARG (names the stage and the rule broken), HR_ERR_NOMEM. */
HR_MUST_USE enum hr_status hr__sched_new(const struct hr_sched_plan *plan,
                                         int64_t now_ns, struct hr_sched **out,
                                         struct hr_error *err);
/* The caller has drained all handles before (hr__sched_cancel, then _take_released). */
void hr__sched_free(struct hr_sched **sched);

/* Task numbers are below this. */
uint32_t hr__sched_task_count(const struct hr_sched *sched);

/* ---- tasks ---- */

struct hr_claim {
    uint32_t stage;
    uint32_t task;           /* to be given to _finish */
    uint32_t grant;          /* outputs that may be reported; ≥ 1, or 0 when closing */
    uint32_t input_count;    /* 0: a source, a flush, or a continued expand task */
    const hr_handle *inputs; /* borrowed until the task is finished for good. The items
                                themselves now belong to the caller */
    bool first;              /* false: a continued source or expand task */
    bool closing; /* a paused task that the run does not want any more (cancel,
                                drain, failure): release what is kept for it and finish
                                it with HR_TASK_DONE and no outputs. Whatever is said, it
                                is over then. Never on a first claim */
};

/* Start the runnable task nearest the sink among `lanes` (bit i: lane i).
 * False: nothing to do there. */
bool hr__sched_claim(struct hr_sched *sched, uint32_t lanes, int64_t now_ns,
                     struct hr_claim *out);

/* The same of this stage. */
bool hr__sched_claim_stage(struct hr_sched *sched, uint32_t stage, int64_t now_ns,
                           struct hr_claim *out);

/* Could a task of this stage be claimed? */
bool hr__sched_is_ready(const struct hr_sched *sched, uint32_t stage);

/* Number of the stage that _claim would choose, or -1. */
int hr__sched_peek(const struct hr_sched *sched, uint32_t lanes);

/* How many more tasks of these lanes could be started right now, counted up to max. */
uint32_t hr__sched_ready(const struct hr_sched *sched, uint32_t lanes, uint32_t max);

/* Start one more task of the same stage on the slot of `task`, a map or filter task that
 * the calling thread claimed last: it runs them one after another, so they count once
 * against the stage's concurrency. To be finished in the order of their claims; the slot
 * is free when the last of them is finished. False: no input, no room, no more wanted, or
 * the stage has a failure policy, which must end it right after the failure. */
bool hr__sched_ride(struct hr_sched *sched, uint32_t task, int64_t now_ns,
                    struct hr_claim *out);

enum hr_task_outcome {
    HR_TASK_DONE, /* finished; outputs as the kind allows (0 from a fold: nothing yet) */
    HR_TASK_MORE,     /* source, expand: outputs so far, more to come */
    HR_TASK_FILTERED, /* map, filter: no output, on purpose */
    HR_TASK_FAILED,   /* counted; outputs given before stay. A source ends here */
    HR_TASK_EPOCH /* source: outputs, then an epoch mark, then more to come. The mark
                         uses one of the granted places */
};

/* The task is done, or pauses. Returns how many of outputs[0 … count-1] were taken (the
 * first ones); the rest remain the caller's to release, because the run was cancelled
 * or the stage's consumers are gone. count ≤ grant (≤ grant - 1 with HR_TASK_EPOCH). */
uint32_t hr__sched_finish(struct hr_sched *sched, uint32_t task,
                          enum hr_task_outcome outcome, const hr_handle *outputs,
                          uint32_t count, int64_t now_ns);

/* The same for a route task that is done: one output for path `path`. An unknown path
 * is the caller's to refuse (finish it as failed). */
uint32_t hr__sched_finish_route(struct hr_sched *sched, uint32_t task, uint32_t path,
                                hr_handle output, int64_t now_ns);

/* Will the outputs of this task, which is in flight, be refused? */
bool hr__sched_refused(const struct hr_sched *sched, uint32_t task);

/* Let the source stage run, or hold it back (read-ahead over its bytes). Initially open. */
void hr__sched_gate(struct hr_sched *sched, uint32_t stage, bool open, int64_t now_ns);

/* ---- the sink ---- */

enum hr_take {
    HR_TAKE_ITEM, /* *out is the consumer's; its place stays occupied until _credit */
    HR_TAKE_NONE,
    HR_TAKE_EPOCH, /* a mark; also occupies a place until _credit */
    HR_TAKE_END    /* every stage has ended and nothing is left */
};

enum hr_take hr__sched_take(struct hr_sched *sched, hr_handle *out, int64_t now_ns);

/* The consumer has really taken n entries: free their places. */
void hr__sched_credit(struct hr_sched *sched, uint32_t n, int64_t now_ns);

/* ---- ending ---- */

/* Sources produce no more, as if they had ended; what is on its way is delivered.
 * Idempotent. */
void hr__sched_drain(struct hr_sched *sched, int64_t now_ns);

/* Discard everything that is not in the sink yet: queued handles go to _take_released,
 * outputs of tasks in flight are refused by _finish. What the sink holds stays. After
 * the last task in flight is finished, _take gives the sink's rest, then HR_TAKE_END.
 * Idempotent. */
void hr__sched_cancel(struct hr_sched *sched, int64_t now_ns);

/* Handles that the scheduler let go (cancel, failed stage, dropped rest). Call until 0
 * after any event. */
size_t hr__sched_take_released(struct hr_sched *sched, hr_handle *out, size_t max);

/* True when no task is in flight and nothing can start any more. */
bool hr__sched_ended(const struct hr_sched *sched);

/* The stage that exceeded its failure policy or the source that failed first; -1: none.
 * Such a stage takes no more input; its upstream is cancelled, its downstream finishes.
 * In a route's path this ends the whole region: the router is upstream of it, so the
 * other paths get nothing more and drain. Failures after _cancel do not count here. */
int hr__sched_failed_stage(const struct hr_sched *sched);

/* ---- what can be seen ---- */

/* Why not one more task of the stage is running. */
enum hr_stage_state {
    HR_STATE_FULL,    /* as many as its concurrency are */
    HR_STATE_READY,   /* it could: there is input and room, no thread has come yet */
    HR_STATE_STARVED, /* no input */
    HR_STATE_BLOCKED, /* no room in an output */
    HR_STATE_ENDED,
    HR_STATE_COUNT
};

struct hr_sched_counts {
    uint64_t in;       /* items taken from the in-edges (source: 0) */
    uint64_t out;      /* items put to the out-edges (sink: taken by the consumer) */
    uint64_t filtered; /* tasks that gave nothing on purpose, dropped rests included */
    uint64_t failed;   /* tasks that failed */
    uint64_t released; /* inputs or outputs discarded by cancel or failure */
    uint64_t tasks;    /* invocations finished for good */
    uint32_t running;  /* tasks in flight, paused ones included */
    uint32_t held;     /* outputs of finished tasks that wait for their turn */
    uint32_t queued;   /* handles in its in-edges */
    uint64_t time_ns[HR_STATE_COUNT]; /* time spent in each state up to now */
};

void hr__sched_counts(struct hr_sched *sched, uint32_t stage, int64_t now_ns,
                      struct hr_sched_counts *out);

/* Times count from here and not from _new: the run starts now. Before any claim. */
void hr__sched_begin(struct hr_sched *sched, int64_t now_ns);

struct hr_edge_fill {
    uint32_t capacity, filled, reserved;
};

void hr__sched_edge_fill(const struct hr_sched *sched, uint32_t edge,
                         struct hr_edge_fill *out);

/* Every invariant that can be checked from inside; NULL, or what is broken. For tests;
 * linear in stages, edges and tasks. */
const char *hr__sched_check(const struct hr_sched *sched);

#endif
