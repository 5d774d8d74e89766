/* task.h - a task's way: who runs it, how, and what becomes of its items. */
#ifndef HR_ENGINE_TASK_H
#define HR_ENGINE_TASK_H

#include "engine/engine.h"

/* ---- worker.c ---- */
void *hr__worker_main(void *worker);
void hr__worker_leave(struct hr_worker *w);
void hr__worker_lock(struct hr_worker *w) HR_ACQUIRE(hr__engine_role);
void hr__worker_note_locked(struct hr_worker *w, int32_t stage, int64_t item,
                            int64_t now_ns) HR_ENGINE_LOCKED;
/* "hr-work-3" and the like. */
void hr__worker_name(const struct hr_pipeline *p, uint32_t number, char *out,
                     size_t size);
/* The calling thread is w from now on. */
void hr__worker_begin(struct hr_worker *w);
void hr__worker_clear_calls_locked(struct hr_worker *w, uint32_t n,
                                   struct hr_after *after) HR_ENGINE_LOCKED;
/* As hr__park, on the worker's own parker; kind: for the trace. */
int hr__worker_park(struct hr_worker *w, int64_t until_ns, enum hr_trace_kind kind);
/* The worker that the calling thread is, or NULL. */
struct hr_worker *hr__worker_self(void);

/* ---- crash.c: where a thread is ---- */
/* It works on the item, in the field that an op was given. NULL: none. */
static inline void hr__trail_at(struct hr_worker *w, const struct hr_item *item,
                                const struct hr_value *in)
{
    atomic_store_explicit(&w->trail.at, item, memory_order_relaxed); /* crash.h */
    atomic_store_explicit(&w->trail.in, in, memory_order_relaxed);
}
/* w works on what the other is at. */
static inline void hr__trail_follow(struct hr_worker *w, const struct hr_worker *other)
{
    hr__trail_at(w, atomic_load_explicit(&other->trail.at, memory_order_relaxed),
                 atomic_load_explicit(&other->trail.in, memory_order_relaxed));
}
/* The calling thread, a consumer, is in the source of p, or is out of it. */
static inline void hr__crash_refill(struct hr_pipeline *p, bool inside)
{
    uintptr_t thread = inside ? (uintptr_t)pthread_self() : 0;
    atomic_store_explicit(&p->refiller, thread, memory_order_relaxed);
}

/* ---- native.c: tasks that need no language ---- */
/* Run the native task w->claims[0], and more on its slot. Lock held on entry and on
 * return; returns the time. */
int64_t hr__worker_run_native_locked(struct hr_worker *w, int64_t now_ns,
                                     struct hr_after *after) HR_ENGINE_LOCKED;
/* Ask a native source for up to call->grant items, within a slice; no lock. quick: it will
 * not take that long by far, so the clock is read at the end only; each reading costs what
 * the engine does for a third of an item. Returns the time. */
int64_t hr__source_ask_native(struct hr_source *source, struct hr_call *call,
                              bool quick, int64_t now_ns);

/* ---- fork.c ---- */
void hr__fork_for_each(struct hr_ctx *ctx, size_t n, hr_slot_fn fn, void *cookie);
/* One that has slots left, or NULL. */
struct hr_fork *hr__fork_find_locked(const struct hr_pipeline *p) HR_ENGINE_LOCKED;
/* Take part in a fork-join of another worker. Lock held on entry and on return; returns
 * the time. */
int64_t hr__fork_help_locked(struct hr_worker *w, struct hr_fork *fork, int64_t now_ns,
                             struct hr_after *after) HR_ENGINE_LOCKED;
/* Nobody else takes slots of the fork-joins that w owns. */
void hr__fork_close_locked(struct hr_worker *w) HR_ENGINE_LOCKED;

/* ---- session.c: attached work ---- */
bool hr__session_allowed_locked(const struct hr_pipeline *p,
                                int64_t now_ns) HR_ENGINE_LOCKED;
/* Sessions are on, but got nowhere for a while: their calls take long, or wait. */
bool hr__session_stalls_locked(const struct hr_pipeline *p) HR_ENGINE_LOCKED;
uint32_t hr__session_lanes_locked(const struct hr_pipeline *p) HR_ENGINE_LOCKED;
/* Lock held on entry and on return; returns the time. */
int64_t hr__session_run_locked(struct hr_worker *w, int64_t now_ns,
                               struct hr_after *after) HR_ENGINE_LOCKED;
/* Attach; *now_ns is the time before it, and then after it. False: it is refused. */
bool hr__session_enter(struct hr_worker *w, int64_t *now_ns);
/* w counts no more among those in a session. */
void hr__session_leave_locked(struct hr_worker *w) HR_ENGINE_LOCKED;
/* It was refused: the run ends, and the consumer is told why. */
void hr__session_refused_locked(struct hr_worker *w, uint32_t stage, int64_t now_ns,
                                struct hr_after *after) HR_ENGINE_LOCKED;

/* ---- call.c: one call of foreign code ---- */
/* No lock: release what an unwanted task keeps. */
void hr__foreign_close(struct hr_stage *stage, struct hr_call *call);
/* A claim that is to be made a call: what has to be known of it under the lock. */
void hr__call_note_locked(struct hr_pipeline *p, const struct hr_claim *claim,
                          struct hr_call *call) HR_ENGINE_LOCKED;
/* No lock: make the call ready. */
void hr__call_ready(struct hr_pipeline *p, const struct hr_claim *claim,
                    struct hr_call *call);
/* It has failed already, since its key does not fit. */
bool hr__call_is_misfit(const struct hr_claim *claim, const struct hr_call *call);
/* No lock: what has to be done with the values of a call that was made. */
void hr__call_settle(struct hr_stage *stage, struct hr_call *call);
/* Finish the claim of a map or an expand as the call says. */
void hr__call_finish_locked(struct hr_pipeline *p, const struct hr_claim *claim,
                            struct hr_call *call, int64_t now_ns,
                            struct hr_after *after) HR_ENGINE_LOCKED;

/* ---- outcome.c: what becomes of a task's items ---- */
/* The item is done with; its values are released after the unlock. */
void hr__engine_let_go(struct hr_after *after, struct hr_item *item);
uint32_t hr__engine_wrap_locked(struct hr_pipeline *p, uint32_t stage,
                                const struct hr_item *parent, struct hr_value *out,
                                uint32_t count, hr_handle *handles) HR_ENGINE_LOCKED;
void hr__engine_finish_locked(struct hr_pipeline *p, uint32_t task,
                              enum hr_task_outcome outcome, const hr_handle *handles,
                              uint32_t count, int64_t now_ns,
                              struct hr_after *after) HR_ENGINE_LOCKED;
void hr__engine_finish_item_locked(struct hr_pipeline *p, const struct hr_claim *claim,
                                   struct hr_item *item, enum hr_task_outcome outcome,
                                   const struct hr_error *err,
                                   struct hr_value *exception, int64_t now_ns,
                                   struct hr_after *after) HR_ENGINE_LOCKED;

/* ---- retry.c: tasks that failed and are tried again ---- */
enum hr_status hr__retries_init(struct hr_pipeline *p, struct hr_error *err);
void hr__retries_fini(struct hr_pipeline *p);
/* The task of a map stage has failed: shall it be tried again? Then the claim is kept, and
 * comes back by hr__retry_take_locked when its time has come. */
bool hr__retry_later_locked(struct hr_pipeline *p, const struct hr_claim *claim,
                            bool may_retry, int64_t now_ns,
                            struct hr_after *after) HR_ENGINE_LOCKED;
/* The next task of these lanes that is due; `first` is false in its claim. */
bool hr__retry_take_locked(struct hr_pipeline *p, uint32_t lanes,
                           struct hr_claim *out) HR_ENGINE_LOCKED;
/* The stage of that, or -1. */
int hr__retry_peek_locked(const struct hr_pipeline *p, uint32_t lanes) HR_ENGINE_LOCKED;
/* Let go of those that the run does not want any more. */
void hr__retry_sweep_locked(struct hr_pipeline *p, int64_t now_ns,
                            struct hr_after *after) HR_ENGINE_LOCKED;

/* ---- deadline.c: tasks that take too long ---- */
void hr__deadlines_init(struct hr_pipeline *p);
/* The run has begun. */
void hr__deadlines_start(struct hr_pipeline *p);
/* Until when the op of a task that begins now may run. */
int64_t hr__deadline_of(const struct hr_pipeline *p, const struct hr_stage *stage,
                        int64_t now_ns);
/* How long after its deadline a task is waited for that was told to end. */
int64_t hr__deadline_grace(const struct hr_stage *stage);
/* A native op came back with *status at now_ns. Too late: it has failed. */
void hr__deadline_judge_locked(struct hr_worker *w, struct hr_item *item,
                               int64_t now_ns, enum hr_status *status,
                               struct hr_error *err) HR_ENGINE_LOCKED;
/* w is lost, and back: from a task of its own, with `item`, or (NULL) from a slot. It
 * leaves, unless it is needed still. */
void hr__worker_late_locked(struct hr_worker *w, struct hr_item *item,
                            struct hr_after *after) HR_ENGINE_LOCKED;
/* Say once of each lost thread where it is. */
void hr__deadlines_tell_stuck_locked(struct hr_pipeline *p) HR_ENGINE_LOCKED;
void hr__deadlines_free_lost(struct hr_pipeline *p);

#endif
