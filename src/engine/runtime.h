/* runtime.h - how the engine runs stages of a host language (Python) without knowing it.
 *
 * A runtime has threads to be attached and, mostly, one lock (the GIL). The engine
 * decides which worker attaches, when, and for how long; the runtime attaches, runs a
 * few calls, and detaches. No engine lock is held during any of these functions. */
#ifndef HR_ENGINE_RUNTIME_H
#define HR_ENGINE_RUNTIME_H

#include "headrace/op.h"
#include "headrace/pipeline.h"
#include "sched/sched.h"

struct hr_item;

/* One call of a foreign stage's op. The engine fills the first part. */
struct hr_call {
    struct hr_value *in;  /* the item or the field that the stage works on. The call
                               takes the value (leaves it empty) unless it fails before;
                               NULL for a source, for a continued expand, and for the
                               flush of a fold */
    void *iterator;       /* expand: the task's state between calls, NULL at first; a
                               call that ends the task leaves NULL */
    struct hr_item *item; /* the engine's: what it is about, or NULL */
    uint32_t grant;       /* most outputs to give */
    bool quick;           /* source: so many take it a moment; no need for a clock */

    enum hr_task_outcome outcome;
    uint32_t out_count;
    struct hr_value out[HR_SCHED_GRANT_MAX];
    uint32_t path;             /* of a router: where out[0], the item, is to go */
    struct hr_error error;     /* HR_TASK_FAILED */
    struct hr_value exception; /* HR_TASK_FAILED: the language's own, or empty */
    int64_t end_ns;            /* when the call was over; 0: not told. For traces */
    bool
        prompt; /* source: it never waits, so that several items may be asked at once */
    bool fatal; /* HR_TASK_FAILED: ends the whole pipeline (SystemExit) */
    bool again; /* HR_TASK_FAILED: *in is as before, and the call may be made again */
    bool timed_out; /* HR_TASK_FAILED, on the event loop: by the stage's timeout */
    bool awaits;    /* HR_TASK_DONE of a map: out[0] is to be awaited on the event loop,
                    and is no output yet; no further calls were made */
};

struct hr_foreign_class {
    /* Attached: run the calls one after another. until_ns: return early, with the rest
     * untouched, once the time is past (at least one call is made). Returns how many
     * were made. */
    size_t (*run)(void *state, struct hr_call *calls, size_t count, int64_t until_ns);
    /* Attached or not, no lock held: drop a task's iterator. */
    void (*drop_iterator)(void *state, void *iterator);
    void (*free_state)(void *state);
};

struct hr_foreign {
    const struct hr_foreign_class *cls;
    void *state;
};

struct hr_runtime {
    /* Make the calling thread known, not attached. NULL: it cannot be. */
    void *(*thread_new)(void);
    /* Enter. False: the runtime is ending; do not try again. */
    bool (*attach)(void *thread);
    void (*detach)(void *thread);
    /* Not attached. Forget the thread. */
    void (*thread_free)(void *thread);
    /* Enter again, of a thread that is the runtime's own (see async.h). Does not come
     * back once the runtime has ended. */
    void (*reenter)(void *thread);
    /* Attached: start the thread of the event loop; see hr__async_set_cookie. False: it
     * cannot be had. */
    bool (*start_loop)(void *cookie);
    /* Attached or not, no lock held: the cookie is not needed any more. */
    void (*drop_loop)(void *cookie);
    /* True where attached threads run in parallel (no GIL). */
    bool parallel;
};

/* For hr_plan: stages of a runtime. Ownership: take *foreign on HR_OK. */
void hr__plan_runtime(struct hr_plan *plan, const struct hr_runtime *runtime);
enum hr_status hr__plan_foreign_source(struct hr_plan *plan, const char *name,
                                       struct hr_foreign *foreign,
                                       struct hr_error *err);
/* expand: a generator (1 → n), else 1 → 0 or 1. */
enum hr_status hr__plan_foreign_pipe(struct hr_plan *plan, struct hr_foreign *foreign,
                                     bool expand,
                                     const struct hr_stage_options *options,
                                     struct hr_error *err);

/* A fold: its calls are made one at a time, one per item and one, without an item, at the
 * end of each epoch and of all. HR_TASK_DONE without an output means "nothing yet".
 * drop_last: what the last call of an epoch gives is dropped. */
enum hr_status hr__plan_foreign_fold(struct hr_plan *plan, struct hr_foreign *foreign,
                                     bool drop_last,
                                     const struct hr_stage_options *options,
                                     struct hr_error *err);

/* The stage added last has this timeout; see hr_stage_options. Errors: HR_ERR_ARG,
 * HR_ERR_STATE (there is none). */
enum hr_status hr__plan_timeout(struct hr_plan *plan, int64_t timeout_ns,
                                struct hr_error *err);
/* A router (see hr_plan_route): a call takes the item, and gives it as its output with the
 * number of the path. */
enum hr_status hr__plan_foreign_route(struct hr_plan *plan, const char *name,
                                      struct hr_foreign *foreign, struct hr_error *err);

/* The stage added last, a foreign one, runs on the runtime's event loop (async.h). */
void hr__plan_on_loop(struct hr_plan *plan);

/* ---- for an attached consumer ---- */

/* A consumer may tie itself to the epoch that is current when it begins: it gets
 * HR_EPOCH once that is over, whoever took the mark, and nothing of the next one. */
#define HR_EPOCH_ANY UINT64_MAX
uint64_t hr__pipeline_epoch(struct hr_pipeline *pipeline);

/* Take a ready item without ever waiting, not even for a lock: HR_OK, HR_AGAIN (nothing
 * ready, or ask again through hr__pipeline_wait), HR_END, HR_EPOCH, or a failure. */
enum hr_status hr__pipeline_try_next(struct hr_pipeline *pipeline, uint64_t epoch,
                                     struct hr_value *out, struct hr_error *err);

/* Detached: wait until something is ready, until_ns, or a signal. HR_OK: try again;
 * HR_TIMEOUT: time passed; HR_AGAIN: interrupted, look at signals. */
enum hr_status hr__pipeline_wait(struct hr_pipeline *pipeline, uint64_t epoch,
                                 int64_t until_ns);

/* The consumer is about to attach, or has attached: workers leave and stay away. */
void hr__pipeline_want(struct hr_pipeline *pipeline, bool wanted);

/* Would a refill do something? A hint. */
bool hr__pipeline_refill_due(const struct hr_pipeline *pipeline);

/* Attached, inside next(): advance a fast foreign source if its read-ahead is half
 * used. Never waits. */
void hr__pipeline_refill(struct hr_pipeline *pipeline);

/* For traces: a next() begins, and has an item. Costs a branch while there is no trace. */
int64_t hr__pipeline_next_begin(const struct hr_pipeline *pipeline);
void hr__pipeline_next_end(struct hr_pipeline *pipeline, int64_t begin_ns);

/* The exception value of the i-th failed item, shared; the empty value when there is
 * none. */
struct hr_value hr__pipeline_exception(struct hr_pipeline *pipeline, size_t i);

/* That of the pipeline's failure, which is told once: it becomes the caller's. */
struct hr_value hr__pipeline_take_final_exception(struct hr_pipeline *pipeline);

/* For a collector of the host language: look at a value (or the empty one), with locks
 * held. listed: it is that of a failed item. Not 0: look at no more. */
typedef int (*hr_visit_fn)(const struct hr_value *value, bool listed, void *cookie);

/* Visit what a run that has ended still holds: exceptions, and items for the consumer.
 * While it runs nothing is visited: its threads hold what they work on. Returns what the
 * visitor did. Attached or not: the lock's holder never waits for the language. */
int hr__pipeline_visit(struct hr_pipeline *pipeline, hr_visit_fn visit, void *cookie);

/* The failure that ended the run, if there is one. */
bool hr__pipeline_final_failure(struct hr_pipeline *pipeline, struct hr_failure *out);

/* Is the calling thread inside the source of this pipeline? */
bool hr__pipeline_in_source(const struct hr_pipeline *pipeline);

/* Nothing is under way any more; what is ready may still be taken. Not attached. */
bool hr__pipeline_ended(struct hr_pipeline *pipeline);

/* Request the end without waiting. */
void hr__pipeline_cancel(struct hr_pipeline *pipeline);

/* True in a forked child, where only hr_pipeline_free may be called (it then leaks on
 * purpose: the threads are not there). */
bool hr__pipeline_forked(const struct hr_pipeline *pipeline);

#endif
