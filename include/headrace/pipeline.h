/* Pipelines: a plan (stages in a chain) and its run.
 *
 *   source → [op] → [aggregate] → [op] → ... → sink → hr_pipeline_next
 *
 *                      ┌─► path 0: [op] ... ─┐
 * A route stands for   ┤                     ├─► one of its links: see hr_plan_route.
 *                      └─► path 1: [op] ... ─┘
 *
 * A plan is built by one thread and consumed by hr_pipeline_new. The pipeline then runs
 * on threads of its own; see docs/internals/engine.md. */
#ifndef HEADRACE_PIPELINE_H
#define HEADRACE_PIPELINE_H

#include "headrace/op.h"

#ifdef __cplusplus
extern "C" {
#endif

#define HR_NO_DEADLINE INT64_MAX

/* ---- sources ---- */

/* A native source is advanced by one worker at a time. */
struct hr_source_class {
    const char *name;
    /* HR_OK with *out filled; HR_EPOCH at the end of a pass, if another one follows;
     * HR_END; or a failure with *err filled (the source ends). */
    enum hr_status (*next)(void *state, struct hr_value *out, struct hr_error *err);
    void (*free_state)(void *state);
    /* Not 0: next never waits for anything but memory. Then several items are taken at
     * once, up to 1,024 ahead of need; else each goes on before the next is asked for, and
     * 16 are ahead. */
    int is_prompt;
};

struct hr_source {
    const struct hr_source_class *cls;
    void *state;
};

/* Free the state and empty *source; the empty source is accepted. */
HR_API void hr_source_free(struct hr_source *source);

/* The texts (paths, say), copied into one arena, as text values.
 * Errors: HR_ERR_NOMEM. */
HR_API HR_MUST_USE enum hr_status hr_source_of_texts(const char *const *texts, size_t n,
                                                     struct hr_source *out,
                                                     struct hr_error *err);

/* ---- plans ---- */

struct hr_plan;

enum hr_output_order {
    HR_OUTPUT_COMPLETION = 0, /* items leave as they are finished */
    HR_OUTPUT_INPUT = 1       /* items leave in the order they came */
};

/* Zero-initialise for the defaults. */
struct hr_stage_options {
    const char *name;     /* NULL: the op's */
    uint32_t concurrency; /* tasks in flight, up to 4,096; 0 means 1 */
    enum hr_output_order order;
    int64_t max_failures;  /* with limit_failures: tolerated failures */
    uint32_t fraction_num; /* with fraction_den > 0: tolerated failures divided */
    uint32_t fraction_den; /*   by invocations, after 100 invocations */
    int limit_failures;    /* 0: any number of failures is skipped */
    const char *key_name;  /* apply the op to this field of a record ... */
    int key_index;         /* ... or, with has_key and no key_name, to this one */
    int has_key;
    /* Most time for one call of the op on one item, up to 10^18; 0: none. Past it the op
     * is told to end (hr_ctx_cancelled), and the item fails with HR_ERR_DEADLINE, also if
     * the op succeeds a little later. When it has not ended after as long again (0.1 to
     * 1 s) its thread is given up and replaced; what it makes then is dropped. Each
     * retry has the whole time; a call that was given up is not tried again. */
    int64_t timeout_ns;
};

/* An empty plan. Threads: a plan is one thread's at a time. Errors: HR_ERR_NOMEM. */
HR_API HR_MUST_USE enum hr_status hr_plan_new(struct hr_plan **out,
                                              struct hr_error *err);
/* Free it with the ops and the source it took, and null *plan; NULL is accepted. */
HR_API void hr_plan_free(struct hr_plan **plan);

/* Add a stage behind those that were added before: a source first, a sink last.
 * Ownership: each takes *source or *op and empties it on HR_OK.
 * Errors: HR_ERR_ARG (names the argument), HR_ERR_STATE (out of order), HR_ERR_NOMEM. */
HR_API HR_MUST_USE enum hr_status
hr_plan_source(struct hr_plan *plan, struct hr_source *source, struct hr_error *err);
HR_API HR_MUST_USE enum hr_status hr_plan_pipe(struct hr_plan *plan, struct hr_op *op,
                                               const struct hr_stage_options *options,
                                               struct hr_error *err);
/* Lists of n items, n from 1 to 1,048,576 (the last may be shorter, unless drop_last). With
 * columns, items must be records, and one record of lists comes out instead of a list of
 * records. */
HR_API HR_MUST_USE enum hr_status hr_plan_aggregate(struct hr_plan *plan, uint32_t n,
                                                    int drop_last, int columns,
                                                    struct hr_error *err);
/* The elements of each list, one by one. */
HR_API HR_MUST_USE enum hr_status hr_plan_disaggregate(struct hr_plan *plan,
                                                       struct hr_error *err);
/* ---- routes: each item takes one of several paths, which join again ---- */

struct hr_router_class {
    const char *name; /* the stage's */
    /* The item is borrowed. HR_OK with *path filled, below the number of paths; HR_SKIP for
     * a filtered item; or a failure with *err filled. Called by one thread at a time. */
    enum hr_status (*route)(void *state, struct hr_ctx *ctx, const struct hr_value *in,
                            uint32_t *path, struct hr_error *err);
    void (*free_state)(void *state); /* NULL: nothing to free */
};

struct hr_router {
    const struct hr_router_class *cls;
    void *state;
};

/* Free the state and empty *router; the empty one is accepted. */
HR_API void hr_router_free(struct hr_router *router);

/* Begin a route. What is added then belongs to its paths, up to 64, each of which begins
 * with hr_plan_path; one without stages passes items on as they are. _join ends the last
 * path and the route: from there items go on in the order in which they leave the paths.
 * An epoch leaves all paths before the next one leaves any. Paths may hold routes, up to 8
 * deep. When a stage in a path ends the run, the other paths deliver what they have.
 * Ownership: _route takes *router and empties it on HR_OK.
 * Errors: HR_ERR_STATE (no source yet, no open route), HR_ERR_ARG, HR_ERR_NOMEM. */
HR_API HR_MUST_USE enum hr_status
hr_plan_route(struct hr_plan *plan, struct hr_router *router, struct hr_error *err);
HR_API HR_MUST_USE enum hr_status hr_plan_path(struct hr_plan *plan,
                                               struct hr_error *err);
HR_API HR_MUST_USE enum hr_status hr_plan_join(struct hr_plan *plan,
                                               struct hr_error *err);

/* ---- merges: several sources, each with stages of its own, become one ---- */

/* What was added last is the end of a branch; what follows is another one, which begins
 * with a source. _merge joins the last n of them (0: all), up to 64, of which the very last
 * is the one in the making: items go on in the order of their arrival. Each source of such a plan
 * is advanced by a thread of its own, native ones as well. Either all make epochs or none:
 * one ends when it has ended in every branch. When a source fails, or a stage ends its
 * branch, the others go on to their ends, and then it is told.
 * Errors: HR_ERR_STATE (no source yet, a route is open, no branch), HR_ERR_ARG,
 * HR_ERR_NOMEM. */
HR_API HR_MUST_USE enum hr_status hr_plan_branch(struct hr_plan *plan,
                                                 struct hr_error *err);
HR_API HR_MUST_USE enum hr_status hr_plan_merge(struct hr_plan *plan, uint32_t n,
                                                struct hr_error *err);

/* ---- the stage that was added last: what to do about failures ---- */

enum hr_on_error {
    HR_ON_ERROR_SKIP = 0, /* a failed item is left out, and listed */
    HR_ON_ERROR_RAISE = 1 /* the first failure ends the run, like that of a source. In
                             input order nothing that comes after it is delivered */
};

/* Errors: HR_ERR_STATE (no stage; a source or sink). */
HR_API HR_MUST_USE enum hr_status
hr_plan_on_error(struct hr_plan *plan, enum hr_on_error on_error, struct hr_error *err);

/* A failed item is tried again. Before the n-th retry it waits for a random time from 0
 * to backoff_ns × 2^(n-1), at most backoff_max_ns, with its place in the channel kept,
 * so that no more than `concurrency` items are in work or waiting. */
struct hr_retry_policy {
    uint32_t times;
    int64_t backoff_ns, backoff_max_ns;
    uint64_t statuses; /* tried again if it failed with one of these: bit i, status i */
};

/* Errors: HR_ERR_STATE (the stage does not make one item of one), HR_ERR_ARG. */
HR_API HR_MUST_USE enum hr_status hr_plan_retry(struct hr_plan *plan,
                                                const struct hr_retry_policy *policy,
                                                struct hr_error *err);

/* ---- the last stage ---- */

/* Up to buffer_size (1 to 1,048,576) finished items wait for the consumer, besides those
 * being made. */
HR_API HR_MUST_USE enum hr_status
hr_plan_sink(struct hr_plan *plan, uint32_t buffer_size, struct hr_error *err);

/* ---- running ---- */

struct hr_pipeline;

/* Zero-initialise for the defaults. */
struct hr_pipeline_options {
    /* Up to 4,096. 0: HEADRACE_THREADS, if that is set; else as many as the process may
     * use (affinity, cgroup), divided by LOCAL_WORLD_SIZE. */
    uint32_t num_threads;
    int64_t task_deadline_ns; /* a task older than this is told to end, unless its stage
                                 has a timeout; 0: 30 s */
};

/* Ownership: takes *plan and nulls it on HR_OK.
 * Errors: HR_ERR_STATE (no source or no sink), HR_ERR_ARG, HR_ERR_NOMEM. */
HR_API HR_MUST_USE enum hr_status
hr_pipeline_new(struct hr_plan **plan, const struct hr_pipeline_options *options,
                struct hr_pipeline **out, struct hr_error *err);

/* Start the threads. If not all can be had it runs with fewer, at least one.
 * Errors: HR_ERR_STATE (started before), HR_ERR_THREAD. Threads: any. */
HR_API HR_MUST_USE enum hr_status hr_pipeline_start(struct hr_pipeline *pipeline,
                                                    struct hr_error *err);

/* Take the next item. deadline_ns: CLOCK_MONOTONIC, HR_NO_DEADLINE to wait for ever,
 * 0 not to wait. *out is the caller's to release.
 * HR_EPOCH at the end of each pass of a source that makes several; the next call goes
 * on with the next one. HR_END after the last item, or after a stop. A source that
 * failed, or a stage that failed too often,
 * is told once, after all items that came before: its status and *err; then HR_END.
 * Errors: HR_TIMEOUT, HR_ERR_STATE (not started; a forked child). Threads: any. */
HR_API HR_MUST_USE enum hr_status hr_pipeline_next(struct hr_pipeline *pipeline,
                                                   int64_t deadline_ns,
                                                   struct hr_value *out,
                                                   struct hr_error *err);

/* Cancel what is on its way and end the threads. What is ready at the sink stays and can
 * still be taken. Called from inside an op it only requests the end. Threads that were
 * given up by a timeout are not waited for; the log says where they are.
 * Errors: HR_TIMEOUT: a task did not end in time; *err names stage and item. Idempotent;
 * may be called again. Threads: any. Blocks: until the threads ended or deadline_ns. */
HR_API HR_MUST_USE enum hr_status hr_pipeline_stop(struct hr_pipeline *pipeline,
                                                   int64_t deadline_ns,
                                                   struct hr_error *err);

/* Stop and free. Waits for running tasks up to the grace time of 10 s, and not at all once
 * a stop has timed out; a thread that is still stuck is left behind and frees the rest
 * when it ends. Threads: any. */
HR_API void hr_pipeline_free(struct hr_pipeline **pipeline);

/* ---- what can be seen ---- */

struct hr_stage_stats {
    char name[64];
    uint32_t concurrency;
    uint64_t items_in, items_out, filtered, failed, released;
    uint64_t retried; /* calls that failed and were, or are to be, made again */
    uint32_t running; /* tasks in flight */
    uint32_t queued, capacity; /* of its input channel; of the sink: for the consumer */
    uint64_t busy_ns;          /* running tasks, summed over threads */
    uint64_t awaited_ns;       /* tasks in flight on the language's event loop */
    uint64_t starved_ns;       /* one more task could run, but there is no input */
    uint64_t blocked_ns;       /* one more task could run, but its output has no room */
    uint64_t ready_ns;    /* one more task could run, but no thread is free for it */
    uint64_t full_ns;     /* as many tasks run as the stage's concurrency allows */
    uint64_t attach_ns;   /* waiting to enter the host language (its GIL) */
    uint64_t attached_ns; /* inside it */
    uint64_t ended_ns;    /* the stage has nothing left to do */
    /* Half of its tasks, 90 %, 99 % took at most this long; within 6 %. For a source: one
     * item. For a stage that makes several items of one: a step, of up to 16 of them.
     * Tasks that were run together count with their mean. */
    uint64_t task_p50_ns, task_p90_ns, task_p99_ns;
    uint64_t timed_out;   /* calls that took longer than the stage's timeout */
    uint64_t stuck;       /* threads in it that were given up and have not come back */
    uint64_t late;        /* calls that were given up and have come back; dropped */
    uint64_t reserved[5]; /* 0 */
};

/* Threads: any. Returns the number of stages; fills at most max. The times starved, blocked, ready,
 * full and ended of a stage add up to the time since start. */
HR_API size_t hr_pipeline_stats(struct hr_pipeline *pipeline,
                                struct hr_stage_stats *out, size_t max);

struct hr_pipeline_summary {
    uint32_t num_threads;
    int64_t elapsed_ns;        /* since start, to now or to the end */
    uint64_t consumer_wait_ns; /* inside next, waiting for an item */
    uint64_t delivered;
    uint64_t failed;      /* items in the ledger */
    uint64_t reserved[8]; /* 0 */
};

/* Threads: any. */
HR_API void hr_pipeline_summary(struct hr_pipeline *pipeline,
                                struct hr_pipeline_summary *out);

/* Both, of one moment. Either may be NULL (stages with max 0). Threads: any. Returns the
 * number of stages. */
HR_API size_t hr_pipeline_snapshot(struct hr_pipeline *pipeline,
                                   struct hr_pipeline_summary *summary,
                                   struct hr_stage_stats *stages, size_t max);

/* Begin to note what each thread does, for up to events_max events (0: 65,536) of each
 * thread; the rest is only counted. The trace is written to the file `path` as Chrome
 * Trace Event JSON, for ui.perfetto.dev and chrome://tracing, by _trace_stop,
 * hr_pipeline_stop or hr_pipeline_free. Times are microseconds of CLOCK_MONOTONIC. May be
 * called before the start and during the run, and again after _trace_stop. The memory
 * (128 bytes an event) is kept until the pipeline is freed.
 * Errors: HR_ERR_STATE (a trace is going on; a forked child), HR_ERR_IO (the file can't be
 * made), HR_ERR_ARG, HR_ERR_NOMEM. Threads: any. */
HR_API HR_MUST_USE enum hr_status hr_pipeline_trace_start(struct hr_pipeline *pipeline,
                                                          const char *path,
                                                          uint32_t events_max,
                                                          struct hr_error *err);
/* End the trace and write its file. Without a trace: HR_OK. Threads: any.
 * Errors: HR_ERR_IO. */
HR_API HR_MUST_USE enum hr_status hr_pipeline_trace_stop(struct hr_pipeline *pipeline,
                                                         struct hr_error *err);

/* When the process crashes (SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT), write to fd which
 * stage and item each thread of each pipeline was in, a line each, the crashing thread
 * first; nothing where no pipeline is at work. Then the handler that was there before gets
 * the signal. Threads that begin from now on get a stack for signal handlers, if they have
 * none. Called again: the new fd counts, and the handler is installed where another one
 * has taken its place. For the whole process. fd must stay open. Threads: any. */
HR_API void hr_crash_report_enable(int fd);
/* Put back the handlers that were there before, if ours are still in place. Threads: any. */
HR_API void hr_crash_report_disable(void);

struct hr_failure {
    char stage[64];
    int64_t index;   /* source index of the item, -1 unknown */
    char label[128]; /* e.g. its path; "" unknown */
    struct hr_error error;
};

/* The i-th failed item, in the order of failing. HR_END past the last one.
 * The first 10,000 are kept; the summary counts all. Threads: any. */
HR_API HR_MUST_USE enum hr_status hr_pipeline_failure(struct hr_pipeline *pipeline,
                                                      size_t i, struct hr_failure *out);

#ifdef __cplusplus
}
#endif

#endif
