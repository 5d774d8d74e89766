/* engine.h - the inside of struct hr_pipeline, shared by the files of this folder.
 *
 * Lock order: pipeline.lock (ENGINE) before sink.lock (SINK) before leaf locks. No op, no
 * value's release and no runtime function is called under either. */
#ifndef HR_ENGINE_ENGINE_H
#define HR_ENGINE_ENGINE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/ctx.h"
#include "base/mutex.h"
#include "base/park.h"
#include "base/scratch.h"
#include "engine/async.h"
#include "engine/crash.h"
#include "engine/histogram.h"
#include "engine/item.h"
#include "engine/ledger.h"
#include "engine/loop.h"
#include "engine/runtime.h"
#include "engine/sink.h"
#include "engine/trace.h"
#include "headrace/pipeline.h"
#include "sched/sched.h"

/* Waking a thread costs about this much; work that is done sooner is not worth it. */
#define HR_WAKE_COST_NS 20000

enum {
    HR_LANE_NATIVE, /* ops: any worker */
    HR_LANE_LIGHT,  /* collate, spread: any worker, and the leader while attached */
    HR_LANE_FOREIGN,
    HR_LANE_SOURCE, /* a foreign source: helper, consumer, or leader */
    HR_LANE_ASYNC,  /* coroutines: the thread of the language's event loop */
    HR_LANE_FEED,   /* one of several sources: its own thread */
};
#define HR_LANES_NATIVE ((1u << HR_LANE_NATIVE) | (1u << HR_LANE_LIGHT))
#define HR_LANES_FOREIGN (1u << HR_LANE_FOREIGN)
#define HR_LANES_SOURCE (1u << HR_LANE_SOURCE)
#define HR_LANES_LIGHT (1u << HR_LANE_LIGHT)
#define HR_LANES_ASYNC (1u << HR_LANE_ASYNC)
#define HR_LANES_LEADER (HR_LANES_FOREIGN | (1u << HR_LANE_LIGHT))

enum hr_stage_body {
    HR_BODY_SOURCE,
    HR_BODY_OP,
    HR_BODY_COLLATE,
    HR_BODY_SPREAD,
    HR_BODY_FOREIGN_SOURCE,
    HR_BODY_FOREIGN_MAP,
    HR_BODY_FOREIGN_EXPAND,
    HR_BODY_FOREIGN_FOLD,
    HR_BODY_ROUTE,
    HR_BODY_FOREIGN_ROUTE,
    HR_BODY_MERGE,
    HR_BODY_SINK
};

struct hr_key {
    bool used;
    char *name; /* NULL: by index */
    int index;
};

struct hr_stage_times {
    uint64_t busy_ns, awaited_ns, attach_ns, attached_ns;
};

struct hr_stage {
    /* const after creation */
    char name[64];
    enum hr_stage_body body;
    bool columns;    /* collate */
    bool is_batched; /* its items are gathered into batches further down */
    bool on_loop;    /* runs on the language's event loop */
    uint32_t concurrency;
    struct hr_key key;
    struct hr_source source;
    struct hr_op op;
    struct hr_router router;
    uint32_t path_count; /* of a route */
    struct hr_foreign foreign;
    bool raises;  /* HR_ON_ERROR_RAISE, */
    bool ordered; /* and first means: in input order */
    struct hr_retry_policy retry;
    int64_t timeout_ns; /* of one call; 0: none */
    /* under lock */
    uint64_t retried;
    uint64_t timed_out, late; /* calls past their timeout; those written off that came
                                 back */
    uint32_t stuck;           /* threads in it that were written off and are not back */
    int64_t ema_ns;           /* smoothed time of one task; 0: not known yet */
    int64_t fold_first; /* fold: index of the first item since its last result, or -1 */
    uint64_t busy_ns, awaited_ns, attach_ns, attached_ns; /* of tasks that are over */
    struct hr_stage_times shown; /* with those of running ones, at last */
    struct hr_histogram task_times;
    bool awaits; /* its function has given something to await */
};

/* What an unfinished expand or spread task keeps between its steps. Owned by whoever
 * holds the claim. */
struct hr_task_state {
    struct hr_item *item;
    void *iterator;
    size_t position;
    struct hr_async_task *on_loop; /* a stream that runs there */
    uint32_t attempts;             /* that have failed */
};

/* A task that waits for its next attempt, by task number. */
struct hr_retry {
    struct hr_claim claim;
    int64_t due_ns;
    struct hr_retry *next;
};

/* Tasks that failed and will be tried again; see retry.c. */
struct hr_retries {
    struct hr_retry *tasks; /* NULL: no stage has retries */
    /* under lock */
    struct hr_retry *waiting; /* soonest first */
    struct hr_retry *due, *due_last;
    uint64_t random;
    struct hr_timer timer;
};

struct hr_worker;
struct hr_async;

/* One of several sources; see feed.c. */
struct hr_feed {
    /* const after creation */
    uint32_t stage;
    struct hr_worker *worker; /* its own; NULL: it is the event loop's */
    /* under lock */
    int64_t index; /* of its next item */
};

/* The context given to ops: base first, so that the one is the other. */
struct hr_engine_ctx {
    struct hr_ctx base;
    struct hr_worker *worker;
};

/* A fork-join in progress; lives on its owner's stack. */
struct hr_fork {
    hr_slot_fn fn;
    void *cookie;
    size_t count;
    _Atomic size_t next; /* slot to run; relaxed: slots are independent, the end is
                                ordered by the lock */
    uint32_t stage;
    int64_t item;
    /* under lock */
    bool listed; /* others may take part */
    uint32_t helpers;
    struct hr_worker *owner;
    struct hr_fork *link;
};

struct hr_worker {
    /* const after creation */
    struct hr_pipeline *pipeline;
    uint32_t number;
    pthread_t thread;
    struct hr_parker parker;
    /* owned by the thread */
    struct hr_scratch scratch;
    struct hr_engine_ctx ctx;
    void *foreign_thread;
    bool attached;
    int64_t room_limit_ns, look_limit_ns; /* see worker.c */
    bool looked;                          /* parked last until a look was due */
    struct hr_call calls[HR_SCHED_GRANT_MAX];
    struct hr_claim claims[HR_SCHED_GRANT_MAX];
    /* under lock */
    bool started;
    bool parked;
    struct hr_worker *parked_next;
    bool in_session;
    struct hr_fork *helping; /* that of another worker whose slots it runs */
    bool lost;               /* written off: what it had claimed is not its any more */
    bool left;               /* the thread of this lost one has gone */
    struct hr_worker *lost_next;
    /* breadcrumb: what it is doing; written under lock, relaxed: others read it under the
     * lock, or when the process crashes */
    _Atomic int32_t stage; /* -1: nothing */
    _Atomic int64_t item;  /* the thread also writes it, between its tasks */
    struct hr_trail trail;
    int64_t since_ns;
    _Atomic int64_t begun_ns; /* since_ns, or when it had attached; HR_FOREVER: it is
                                 waiting to; -1: accounted already. Relaxed, for
                                 statistics; written under lock, or while attaching */
    bool reported;
    /* atomic: written under lock (release), read by the thread (acquire); NULL: off */
    _Atomic(struct hr_trace_ring *) trace;
};

/* What has to be done once the lock is dropped. */
enum { HR_WAKE_MAX = 16 };

struct hr_after {
    struct hr_parker *wake[HR_WAKE_MAX];
    uint32_t wake_count;
    struct hr_item *released;
};

struct hr_pipeline {
    /* const after creation */
    struct hr_stage *stages;
    uint32_t stage_count;
    struct hr_sched_edge *edges;
    uint32_t edge_count;
    const struct hr_runtime *runtime;
    bool has_foreign_stage;
    int32_t source_helper; /* worker number, -1: none is needed */
    struct hr_feed *feeds; /* where there is more than one source */
    uint32_t feed_count;
    struct hr_async *async; /* NULL: no stage can come to need an event loop */
    uint32_t read_ahead_prompt, read_ahead_slow; /* items ahead; see source.c */
    uint32_t first_arity; /* items that the stage behind the source needs at once */
    struct hr_worker **workers; /* the pointers are under lock */
    uint32_t worker_count;
    uint32_t num_threads;
    int64_t task_deadline_ns;
    int64_t shortest_timeout_ns; /* of the stages that have one; 0: none has */

    struct hr_mutex lock;
    /* under lock */
    struct hr_sched *sched;
    struct hr_items items;
    struct hr_task_state *tasks;
    struct hr_worker *parked;
    uint32_t parked_count;
    uint32_t working; /* workers, without those that are lost */
    struct hr_fork *forks;
    uint32_t alive;         /* threads that have not left yet, */
    uint32_t lost_count;    /* and how many of them are lost */
    struct hr_worker *lost; /* those that were replaced; kept for the next ones */
    bool started, cancelled, ended, joined;
    bool waited; /* a stop has waited in vain */
    int64_t started_ns, ended_ns, foreign_progress_ns;
    uint32_t foreign_active; /* workers inside a session */
    bool runtime_dead;       /* attach was refused: the language is ending */
    int64_t source_index;
    bool source_is_prompt;
    int64_t source_pace_ns; /* its usual time per item; 0: not known yet */
    size_t read_ahead_bytes;
    bool gate_shut;
    bool
        pass_begins; /* the source's next pull begins a pass over a continuous source */
    size_t source_item_bytes; /* of one item, by the last pull */
    struct hr_ledger ledger;
    uint32_t ledger_stage; /* whose failure it is that ends the run */
    struct hr_retries retries;
    struct hr_waiter *stoppers;
    struct hr_trace *traces; /* this one and earlier ones; freed with the pipeline */
    bool tracing;

    /* the consumer's refill: owned by whoever holds the source's claim; ready is set
     * (release) by the consumer and read (acquire) by who finishes the claim */
    struct hr_call refill_call;
    struct hr_claim refill_claim;
    int64_t refill_took_ns;
    _Atomic uint32_t refill_ready;
    _Atomic uintptr_t
        refiller; /* pthread_self of that consumer; relaxed, for crash.c */

    _Atomic uint32_t cancel;         /* token of all tasks; release / acquire */
    _Atomic bool rests;              /* ended; release, acquire by hr__pipeline_visit */
    _Atomic uint32_t consumer_wants; /* release by the consumer, acquire by workers */
    _Atomic uint32_t refs;           /* the owner and each thread */

    /* what each next() looks at, side by side: it finds its caches cold */
    uint32_t fork_generation;    /* const after creation */
    _Atomic uint32_t in_source;  /* threads inside the source; relaxed, see there */
    _Atomic uint32_t refill_due; /* relaxed: a hint, written under lock */
    /* for consumers: written under lock (release), read by them (acquire); NULL: off */
    _Atomic(struct hr_trace *) trace;
    struct hr_sink sink;
    struct hr_loop loop;
    struct hr_timer watchdog, deadlines;
};

/* For the thread-safety analysis: no thread ever holds the locks of two pipelines, so one
 * capability stands for the lock of whichever a function deals with. (The analysis does
 * not see that w->pipeline and a local p are the same.) */
struct HR_CAPABILITY("mutex") hr_role {
    char none;
};
extern struct hr_role hr__engine_role;
#define HR_ENGINE_LOCKED HR_REQUIRES(hr__engine_role)

static inline void hr__engine_lock(struct hr_pipeline *p)
    HR_ACQUIRE(hr__engine_role) HR_NO_THREAD_SAFETY
{
    hr__mutex_lock(&p->lock);
}

static inline bool hr__engine_try_lock(struct hr_pipeline *p)
    HR_TRY_ACQUIRE(true, hr__engine_role) HR_NO_THREAD_SAFETY
{
    return hr__mutex_try_lock(&p->lock);
}

/* Where nothing was noted to be done afterwards; see hr__engine_unlock. */
static inline void hr__engine_unlock_only(struct hr_pipeline *p)
    HR_RELEASE(hr__engine_role) HR_NO_THREAD_SAFETY
{
    hr__mutex_unlock(&p->lock);
}

/* ---- engine.c: what happens under the lock ---- */

/* After any scheduler event: move items to the sink, collect what was let go, notice the
 * end. Wakes nobody: the three functions below do, when the caller knows what it does
 * next. */
void hr__engine_pump_locked(struct hr_pipeline *p, int64_t now_ns,
                            struct hr_after *after) HR_ENGINE_LOCKED;
/* Wake consumers for what is ready. its_stage: as below. */
void hr__engine_wake_consumers_locked(struct hr_pipeline *p, int its_stage,
                                      int64_t now_ns,
                                      struct hr_after *after) HR_ENGINE_LOCKED;
/* Wake a worker for work that the caller leaves undone. its_stage: of the task that it
 * runs next, -1 if it runs none. */
void hr__engine_wake_workers_locked(struct hr_pipeline *p, int its_stage,
                                    int64_t now_ns,
                                    struct hr_after *after) HR_ENGINE_LOCKED;
/* Is there a worker that will come by itself, sooner than a wake-up takes? */
bool hr__engine_any_back_soon_locked(const struct hr_pipeline *p,
                                     int64_t now_ns) HR_ENGINE_LOCKED;
/* Wake the source helper if it is due. */
void hr__engine_wake_helper_locked(struct hr_pipeline *p,
                                   struct hr_after *after) HR_ENGINE_LOCKED;
/* Drop the lock and do what `after` says. */
void hr__engine_unlock(struct hr_pipeline *p, struct hr_after *after)
    HR_RELEASE(hr__engine_role);
/* Wake one parked worker, if there is one and room to note it. */
void hr__engine_wake_one_locked(struct hr_pipeline *p,
                                struct hr_after *after) HR_ENGINE_LOCKED;
void hr__engine_wake_add(struct hr_after *after, struct hr_parker *parker);
void hr__engine_cancel_locked(struct hr_pipeline *p, int64_t now_ns,
                              struct hr_after *after) HR_ENGINE_LOCKED;
/* An item's failure: to the ledger and the log. exception: taken. */
void hr__engine_fail_item_locked(struct hr_pipeline *p, uint32_t stage,
                                 const struct hr_item *item, const struct hr_error *err,
                                 struct hr_value *exception) HR_ENGINE_LOCKED;
/* May a worker take several items of the stage at once? Those finished first then wait
 * for the last: only where a batch further down makes them wait anyway. */
bool hr__stage_may_ride(const struct hr_stage *stage);
void hr__stage_account_locked(struct hr_stage *stage, int64_t task_ns,
                              uint32_t tasks) HR_ENGINE_LOCKED;
/* The smoothed time alone. */
void hr__stage_smooth_locked(struct hr_stage *stage, int64_t task_ns,
                             uint32_t tasks) HR_ENGINE_LOCKED;
void hr__pipeline_unref(struct hr_pipeline *p);
enum hr_status hr__pipeline_require_started(struct hr_pipeline *p,
                                            struct hr_error *err);

/* A task has failed: see on_error. Before the scheduler hears of it. exception: as of
 * hr__engine_fail_item_locked. */
void hr__engine_fail_task_locked(struct hr_pipeline *p, const struct hr_claim *claim,
                                 const struct hr_item *item, const struct hr_error *err,
                                 struct hr_value *exception,
                                 struct hr_after *after) HR_ENGINE_LOCKED;

/* ---- make.c ---- */
void hr__worker_init(struct hr_pipeline *p, struct hr_worker *w, uint32_t number);
/* NULL: no memory. */
struct hr_worker *hr__worker_new(struct hr_pipeline *p, uint32_t number);

/* ---- pipeline.c ---- */
enum hr_status hr__worker_start_locked(struct hr_pipeline *p, struct hr_worker *w,
                                       struct hr_error *err) HR_ENGINE_LOCKED;
/* Nobody but lost threads is left: who waits for the end can go on. */
void hr__pipeline_tell_stoppers_locked(struct hr_pipeline *p) HR_ENGINE_LOCKED;

/* ---- async.c: what other threads do for the event loop ---- */
/* Made with the pipeline. Errors: HR_ERR_NOMEM. */
enum hr_status hr__async_new(struct hr_pipeline *p, const struct hr_plan *plan,
                             struct hr_error *err);
void hr__async_free(struct hr_pipeline *p);
/* The run has ended and its threads are gone: the descriptor can go, unless somebody is
 * about to use it still; then it goes with the rest. */
void hr__async_close(struct hr_pipeline *p);
/* The owner lets go of p: drop the cookie, unless threads are left that may use it. */
void hr__async_orphan(struct hr_pipeline *p);
/* A thread has left: what is to be dropped after the unlock, or NULL. */
void *hr__async_take_cookie_locked(struct hr_pipeline *p) HR_ENGINE_LOCKED;
void hr__async_drop_cookie(struct hr_pipeline *p, void *cookie);
/* Has the loop's thread to be told of something it does not know? Then call _ring after
 * the unlock. */
bool hr__async_due_locked(struct hr_pipeline *p) HR_ENGINE_LOCKED;
void hr__async_ring(struct hr_pipeline *p);
/* Is there a thread of the loop, or soon? */
bool hr__async_is_there(const struct hr_pipeline *p);
/* There is no loop for what the call gave: it has failed. */
void hr__call_cannot_await(const struct hr_pipeline *p, const struct hr_stage *stage,
                           struct hr_call *call);
/* Attached, no lock: see that there is a loop. False: there can be none. */
bool hr__async_ensure(struct hr_pipeline *p);
/* calls[0] gave something to await, calls[1 ... n-1] ride on its slot and were not made
 * yet: all go to the loop, one after another. False: there is none (any more). */
bool hr__async_adopt_locked(struct hr_pipeline *p, const struct hr_claim *claims,
                            struct hr_call *calls, uint32_t n,
                            int64_t now_ns) HR_ENGINE_LOCKED;
/* The task that is in flight for the longest time, or NULL. */
const struct hr_async_task *
hr__async_oldest_locked(const struct hr_pipeline *p) HR_ENGINE_LOCKED;
/* Tell of tasks over their deadline by name, once. Returns when to look again. */
int64_t hr__async_watch_locked(struct hr_pipeline *p, int64_t now_ns) HR_ENGINE_LOCKED;
/* The consumer has the language's lock. */
void hr__async_consumer_is_in(struct hr_pipeline *p);
/* How long the tasks of the stage that are in flight have been so. */
int64_t hr__async_in_flight_locked(const struct hr_pipeline *p, uint32_t stage,
                                   int64_t now_ns) HR_ENGINE_LOCKED;
/* The item that it is about, -1: not known. */
int64_t hr__async_item_locked(const struct hr_pipeline *p,
                              const struct hr_async_task *task) HR_ENGINE_LOCKED;

/* ---- feed.c: sources of a plan that has several ---- */
void *hr__feed_main(void *worker);
/* The feed of a stage; NULL: it has none. */
struct hr_feed *hr__feed_of(const struct hr_pipeline *p, uint32_t stage);
/* Make those of a plan. Errors: HR_ERR_NOMEM. */
enum hr_status hr__feeds_new(struct hr_pipeline *p, const struct hr_plan *plan,
                             struct hr_error *err);
/* As hr__source_finish_locked. */
void hr__feed_finish_locked(struct hr_pipeline *p, struct hr_feed *feed,
                            const struct hr_claim *claim, struct hr_call *call,
                            int64_t now_ns, struct hr_after *after) HR_ENGINE_LOCKED;
/* Wake threads of feeds that can go on: some of them, which then wake others. */
void hr__feeds_wake_locked(struct hr_pipeline *p,
                           struct hr_after *after) HR_ENGINE_LOCKED;
/* ---- route.c ---- */
/* Run the native router's task. Lock held on return; returns the time. */
int64_t hr__route_run_task(struct hr_worker *w, const struct hr_claim *claim,
                           struct hr_after *after) HR_ACQUIRE(hr__engine_role);
/* The item, of a router's task, goes to that path, or is filtered or failed. exception: as
 * of hr__engine_finish_item_locked. */
void hr__route_finish_locked(struct hr_pipeline *p, const struct hr_claim *claim,
                             struct hr_item *item, enum hr_task_outcome outcome,
                             uint32_t path, const struct hr_error *err,
                             struct hr_value *exception, int64_t now_ns,
                             struct hr_after *after) HR_ENGINE_LOCKED;

/* ---- source.c: the foreign source's read-ahead ---- */
bool hr__source_is_fast_locked(const struct hr_pipeline *p) HR_ENGINE_LOCKED;
/* It usually takes under 1 µs per item. */
bool hr__source_is_quick_locked(const struct hr_pipeline *p) HR_ENGINE_LOCKED;
/* How many items the source may be ahead. */
uint32_t hr__source_read_ahead_locked(const struct hr_pipeline *p) HR_ENGINE_LOCKED;
/* The read-ahead is down to so many sixteenths, or short of what one task of the next
 * stage needs: an aggregate may be larger than the rest of it. */
bool hr__source_low_locked(const struct hr_pipeline *p,
                           uint32_t sixteenths) HR_ENGINE_LOCKED;
bool hr__source_helper_due_locked(const struct hr_pipeline *p) HR_ENGINE_LOCKED;
void hr__source_finish_locked(struct hr_pipeline *p, const struct hr_claim *claim,
                              struct hr_call *call, int64_t took_ns, int64_t now_ns,
                              struct hr_after *after) HR_ENGINE_LOCKED;
void hr__source_finish_refill_locked(struct hr_pipeline *p, int64_t now_ns,
                                     struct hr_after *after) HR_ENGINE_LOCKED;
/* The stage behind the source took items: keep account of the bytes ahead. */
void hr__source_taken_locked(struct hr_pipeline *p, const struct hr_claim *claim,
                             int64_t now_ns) HR_ENGINE_LOCKED;
/* Shut the source while too many bytes are ahead, or open it again. */
void hr__source_set_gate_locked(struct hr_pipeline *p, int64_t now_ns) HR_ENGINE_LOCKED;
/* An item is let go that may still count as read ahead. */
void hr__source_uncount_locked(struct hr_pipeline *p,
                               struct hr_item *item) HR_ENGINE_LOCKED;
/* How many of the granted items to ask for: as many as still fit into the bytes ahead,
 * by the size of the last ones. */
uint32_t hr__source_grant_locked(const struct hr_pipeline *p,
                                 uint32_t grant) HR_ENGINE_LOCKED;
/* By the thread of the event loop: if w is attached and the source is fast and low,
 * advance it. Lock held on entry and on return. True: the source was asked. */
bool hr__source_pull_attached_locked(struct hr_worker *w, int64_t *now_ns,
                                     struct hr_after *after) HR_ENGINE_LOCKED;
void *hr__source_helper_main(void *worker);
/* Is the calling thread, as a consumer, inside the source of p? */
bool hr__source_is_refilling(const struct hr_pipeline *p);

/* ---- trace.c ---- */
/* The worker's ring; NULL: no trace, the usual case. For its own thread. */
static inline struct hr_trace_ring *hr__worker_trace(struct hr_worker *w)
{
    /* pairs with hr_pipeline_trace_start */
    return atomic_load_explicit(&w->trace, memory_order_acquire);
}
/* The calling thread's ring, be it a worker or a consumer; NULL: no trace. */
struct hr_trace_ring *hr__pipeline_trace_ring(struct hr_pipeline *p);
/* The calling consumer takes this item. */
void hr__trace_delivered(struct hr_pipeline *p, int64_t item);
/* An epoch ends, for the source or for a consumer. */
void hr__trace_epoch(struct hr_pipeline *p);
/* Of a pipeline that is being freed. */
void hr__pipeline_free_traces(struct hr_pipeline *p);

/* ---- call.c: what is left in a call after it was finished ---- */
bool hr__call_has_rest(const struct hr_call *call);
/* Release it; not under a lock. */
void hr__call_clear(struct hr_call *call);

/* ---- body.c: native bodies, run without the lock ---- */
/* What an op or source says when it fails without saying why, or with a status that is
 * flow and no failure: the consumer would take that for its own. */
void hr__error_complete(struct hr_error *err, enum hr_status status, const char *name);
/* The field that an op with this key works on, in place; the value itself without one.
 * NULL, and *err: there is none, or no memory for a copy of a shared record. */
struct hr_value *hr__key_field(const struct hr_key *key, struct hr_value *value,
                               struct hr_error *err);
/* See hr__tree_own. */
enum hr_status hr__own_fields(struct hr_value *value, struct hr_error *err);
enum hr_status hr__collate(const struct hr_stage *stage, struct hr_item **items,
                           uint32_t count, struct hr_value *out, struct hr_error *err);

#endif
