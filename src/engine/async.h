/* async.h - tasks of an event loop that belongs to the host language (asyncio).
 *
 * To the scheduler the loop's thread is one more worker with a lane of its own. To the
 * engine it is a thread that the language made: it comes by itself (_begin), exchanges
 * tasks that are finished for tasks to begin, sleeps in its own loop on a descriptor,
 * and says when it leaves. Unless stated otherwise these functions are called by that
 * thread, attached, and come back attached; no lock is waited for meanwhile. */
#ifndef HR_ENGINE_ASYNC_H
#define HR_ENGINE_ASYNC_H

#include "engine/runtime.h"

/* A task in the hands of the loop's thread, from the exchange that gives it out to the
 * one that takes it back finished for good. A stream (a source, an expand) that is handed
 * in with HR_TASK_MORE, or a source's with HR_TASK_EPOCH, stays with the thread: it has no grant until an exchange gives it
 * out once more. */
struct hr_async_task {
    /* the loop's thread's: */
    struct hr_call call;
    struct hr_async_task *next; /* a list of its own, and those of an exchange */
    int64_t began_ns;           /* its own */
    int64_t took_ns;            /* in flight, to be accounted with the next hand-in */
    bool begun, listed;         /* its own */
    bool stays;                 /* set and read in an exchange, in part without lock */
    /* const while the thread has it, but for an exchange: */
    uint32_t number, stage;
    bool adopted; /* call.out[0] is what is to be awaited; call.in is spent */
    bool closing; /* not wanted any more: end it, and hand it in as HR_TASK_DONE */
    bool over;    /* failed while it was handed in with HR_TASK_MORE; as closing */
    /* under lock: */
    bool used, paused, reported, rides;
    int64_t since_ns;
    struct hr_claim claim;
    struct hr_async_task *chain; /* begins when this one has ended */
};

enum hr_async_kind { HR_ASYNC_SOURCE, HR_ASYNC_MAP, HR_ASYNC_EXPAND };

struct hr_async_stage {
    const char *name;
    enum hr_async_kind kind;
    uint32_t concurrency; /* tasks that the thread may have at the same time */
    void *state;          /* of the stage's hr_foreign */
    bool on_loop;       /* false: it runs on workers, but may give something to await */
    int64_t timeout_ns; /* of one call; 0: none. The thread sees to it */
};

enum hr_async_state { HR_ASYNC_RUNS, HR_ASYNC_CANCELLED, HR_ASYNC_ENDED };

/* ---- any thread ---- */

/* What stage i is to the loop; false: no stage of a loop, or no such. */
bool hr__async_stage(const struct hr_pipeline *p, uint32_t i,
                     struct hr_async_stage *out);
/* Is a loop needed from the start? Whether another one is shows at run time. */
bool hr__async_needed(const struct hr_pipeline *p);
/* What the runtime's start_loop is given, by the pipeline's own threads; for a pipeline
 * that has stages of a loop, before it is started.
 * Ownership: takes cookie; drop_loop gets it when owner and threads are gone. */
void hr__async_set_cookie(struct hr_pipeline *p, void *cookie);
/* The pipeline outlives the reference. For who may outlive its owner. */
void hr__async_ref(struct hr_pipeline *p);
void hr__async_unref(struct hr_pipeline *p);

/* A thread for the loop is about to be started: the pipeline waits for it at its end.
 * HR_AGAIN: there is one already, or the run is over. Detached.
 * Errors: HR_ERR_IO. */
HR_MUST_USE enum hr_status hr__async_expect(struct hr_pipeline *p,
                                            struct hr_error *err);
/* It could not be started after all; unless it is there already. Detached. */
void hr__async_abandon(struct hr_pipeline *p);

/* ---- the loop's thread ---- */

/* The calling thread, known to the runtime as `thread`, is the loop's from now on. False:
 * it is not expected any more. */
bool hr__async_begin(struct hr_pipeline *p, void *thread);
/* It does nothing for the pipeline any more; all its tasks were handed in. */
void hr__async_leave(struct hr_pipeline *p);

/* Task number n, given out by an exchange. */
struct hr_async_task *hr__async_task(struct hr_pipeline *p, uint32_t n);

/* The item that a task of the thread is about, -1: not known. No stream. */
int64_t hr__async_item(const struct hr_pipeline *p, const struct hr_async_task *task);

/* Readable when an exchange is due. */
int hr__async_descriptor(const struct hr_pipeline *p);
/* Any thread, while the loop's has not left: make it readable. */
void hr__async_knock(struct hr_pipeline *p);
/* Make it unreadable. */
void hr__async_hush(struct hr_pipeline *p);

/* Hand in `finished` (a list) and get a list of tasks to begin or go on with, in their
 * order. stage: the one whose task the thread runs next; -1: it comes to look around.
 * When it looks around and nothing moves either way, the descriptor tells of the next. */
struct hr_async_task *hr__async_exchange(struct hr_pipeline *p,
                                         struct hr_async_task *finished, int stage,
                                         enum hr_async_state *state);
/* A task's failure ends the run: at once, although the task itself cannot be handed in
 * yet. exception: taken or released. */
void hr__async_fatal(struct hr_pipeline *p, const char *stage,
                     const struct hr_error *err, struct hr_value *exception);
/* A task of the stage was given up: handed in as failed while it goes on; or, back, it has
 * come to its end since. */
void hr__async_left(struct hr_pipeline *p, uint32_t stage, bool back);
/* "item 3 ('a.jpg')": what the task, which the thread has, is about. */
void hr__async_describe(const struct hr_async_task *task, char *out, size_t size);
/* A consumer that waits for the language's lock goes first. */
void hr__async_let_consumer_in(struct hr_pipeline *p);

#endif
