/* pipeline.c - the life of a pipeline.
 *
 *     created --start--> running --end of data--> ended --stop--> stopped
 *        |                  |                       ^               ^
 *        |                  +---stop: cancel--------+               |
 *        +----------------------------------------------------------+
 *
 * ended: the scheduler has nothing left, every thread leaves by itself. stop cancels if
 * need be and joins. A thread that does not come back (a stuck op) is named, and left
 * behind when the pipeline is freed: it holds a reference, and frees the rest when it
 * ends. A pipeline does not survive fork(): the threads are not there in the child. */
#include "engine/task.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/sys.h"
#include "base/banned.h"

#define GRACE_NS 10000000000

/* ---- starting ---- */

enum hr_status hr__worker_start_locked(struct hr_pipeline *p, struct hr_worker *w,
                                       struct hr_error *err)
{
    bool helper = (int32_t)w->number == p->source_helper;
    bool feed = w->number >= p->worker_count - p->feed_count;
    atomic_fetch_add_explicit(&p->refs, 1, memory_order_relaxed);
    p->alive++;
    int code = HR_SYS(thread_start)(&w->thread,
                                    helper ? hr__source_helper_main
                                    : feed ? hr__feed_main
                                           : hr__worker_main,
                                    w);
    if (code == 0) {
        w->started = true;
        return HR_OK;
    }
    p->alive--;
    atomic_fetch_sub_explicit(&p->refs, 1, memory_order_relaxed);
    return hr_error_set(err, HR_ERR_THREAD, "pipeline", code,
                        "thread %u of %u could not be started: %s", w->number + 1,
                        p->worker_count, strerror(code));
}

/* The threads of sources first: nothing runs without them. Then as many workers as can be had. */
static enum hr_status start_threads_locked(struct hr_pipeline *p,
                                           struct hr_error *err) HR_ENGINE_LOCKED
{
    enum hr_status status = HR_OK;
    if (p->source_helper >= 0)
        status = hr__worker_start_locked(p, p->workers[p->source_helper], err);
    for (uint32_t i = 0; i < p->feed_count && status == HR_OK; i++)
        if (p->feeds[i].worker)
            status = hr__worker_start_locked(p, p->feeds[i].worker, err);
    if (status != HR_OK)
        return status;
    uint32_t wanted = p->num_threads, n = 0;
    while (n < wanted &&
           (status = hr__worker_start_locked(p, p->workers[n], err)) == HR_OK)
        n++;
    if (n == 0)
        return status;
    p->num_threads = p->working = n;
    if (n < wanted)
        hr__log(HR_LOG_WARNING, "only %u of %u threads could be started: %s", n, wanted,
                err->text);
    return HR_OK;
}

enum hr_status hr_pipeline_start(struct hr_pipeline *p, struct hr_error *err)
{
    struct hr_error own = {0};
    struct hr_after after = {0};
    if (!err)
        err = &own;
    if (hr__pipeline_forked(p))
        return hr_error_set(err, HR_ERR_STATE, "pipeline", 0,
                            "the pipeline was made before fork()");
    hr__engine_lock(p);
    if (p->started || p->cancelled) {
        bool stopped = p->cancelled;
        hr__engine_unlock_only(p);
        return hr_error_set(err, HR_ERR_STATE, "pipeline", 0,
                            "the pipeline was %s before",
                            stopped ? "stopped" : "started");
    }
    enum hr_status status = hr__loop_start(&p->loop, err);
    if (status != HR_OK) {
        hr__engine_unlock_only(p);
        return status;
    }
    p->started = true;
    /* relaxed: the caller's own reference keeps it alive so far; this one is for an op
     * that frees the pipeline before we are through. */
    atomic_fetch_add_explicit(&p->refs, 1, memory_order_relaxed);
    p->started_ns = p->foreign_progress_ns = HR_SYS(now_ns)();
    hr__sched_begin(p->sched, p->started_ns);
    status = start_threads_locked(p, err);
    if (status != HR_OK)
        hr__engine_cancel_locked(p, p->started_ns, &after);
    hr__engine_unlock(p, &after);
    if (status == HR_OK)
        hr__deadlines_start(p);
    hr__pipeline_unref(p);
    return status; /* threads that did start end by the cancel, and are joined by stop */
}

enum hr_status hr__pipeline_require_started(struct hr_pipeline *p, struct hr_error *err)
{
    if (hr__pipeline_forked(p)) /* the lock may be held by a thread that is not there */
        return hr_error_set(err, HR_ERR_STATE, "pipeline", 0,
                            "the pipeline was started before fork() and cannot be used "
                            "in the child process");
    hr__engine_lock(p);
    bool usable = p->started || p->cancelled;
    hr__engine_unlock_only(p);
    return usable ? HR_OK
                  : hr_error_set(err, HR_ERR_STATE, "pipeline", 0,
                                 "the pipeline has not been started");
}

/* ---- ending ---- */

void hr__pipeline_cancel(struct hr_pipeline *p)
{
    struct hr_after after = {0};
    if (hr__pipeline_forked(p))
        return;
    hr__engine_lock(p);
    int64_t now_ns = HR_SYS(now_ns)();
    hr__engine_cancel_locked(p, now_ns, &after);
    hr__engine_wake_workers_locked(p, -1, now_ns, &after);
    hr__engine_wake_helper_locked(p, &after);
    hr__engine_unlock(p, &after);
}

bool hr__pipeline_in_source(const struct hr_pipeline *p)
{
    /* relaxed: a thread that is in there has counted itself */
    if (atomic_load_explicit(&p->in_source, memory_order_relaxed) == 0)
        return false; /* thread-local variables are dear to ask for in a library */
    const struct hr_worker *self = hr__worker_self();
    return (self && self->pipeline == p &&
            (self->stage == 0 ||
             (self->stage > 0 && hr__feed_of(p, (uint32_t)self->stage)))) ||
           hr__source_is_refilling(p);
}

bool hr__pipeline_ended(struct hr_pipeline *p)
{
    if (hr__pipeline_forked(p))
        return true;
    hr__engine_lock(p);
    bool ended = p->ended;
    hr__engine_unlock_only(p);
    return ended;
}

static void unlist_stopper_locked(struct hr_pipeline *p,
                                  struct hr_waiter *waiter) HR_ENGINE_LOCKED
{
    struct hr_waiter **at = &p->stoppers;
    while (*at != waiter)
        at = &(*at)->next;
    *at = waiter->next;
}

void hr__pipeline_tell_stoppers_locked(struct hr_pipeline *p)
{
    if (p->alive > p->lost_count)
        return;
    for (struct hr_waiter *waiter = p->stoppers; waiter; waiter = waiter->next)
        hr__unpark(&waiter->parker);
}

/* Wait for all threads that are not lost. Lock held, dropped while waiting. False: the
 * deadline passed. */
static bool await_threads_locked(struct hr_pipeline *p,
                                 int64_t deadline_ns) HR_ENGINE_LOCKED
{
    struct hr_waiter waiter = {.next = p->stoppers};
    hr__parker_init(&waiter.parker);
    p->stoppers = &waiter;
    bool in_time = true;
    while (p->alive > p->lost_count && in_time) {
        hr__engine_unlock_only(p);
        in_time = hr__park(&waiter.parker, deadline_ns) != ETIMEDOUT;
        hr__engine_lock(p);
    }
    unlist_stopper_locked(p, &waiter);
    return p->alive == p->lost_count;
}

static enum hr_status say_who_is_stuck_locked(struct hr_pipeline *p,
                                              struct hr_error *err) HR_ENGINE_LOCKED
{
    const struct hr_worker *oldest = NULL;
    for (uint32_t i = 0; i < p->worker_count; i++) {
        const struct hr_worker *w = p->workers[i];
        if (w->stage >= 0 && (!oldest || w->since_ns < oldest->since_ns))
            oldest = w;
    }
    const struct hr_async_task *awaited = hr__async_oldest_locked(p);
    if (awaited && (!oldest || awaited->since_ns < oldest->since_ns))
        return hr_error_set(err, HR_TIMEOUT, "pipeline", 0,
                            "stage '%s' still awaits item %lld after %.3g s",
                            p->stages[awaited->stage].name,
                            (long long)hr__async_item_locked(p, awaited),
                            (double)(HR_SYS(now_ns)() - awaited->since_ns) / 1e9);
    if (oldest)
        return hr_error_set(
            err, HR_TIMEOUT, "pipeline", 0,
            "stage '%s' is still working on item %lld after %.3g s",
            p->stages[oldest->stage].name,
            (long long)atomic_load_explicit(&oldest->item, memory_order_relaxed),
            (double)(HR_SYS(now_ns)() - oldest->since_ns) / 1e9);
    return hr_error_set(err, HR_TIMEOUT, "pipeline", 0, "%u threads have not ended yet",
                        p->alive);
}

/* Those that ended. What is lost and could not be replaced ends by itself. */
static void join_threads(struct hr_pipeline *p)
{
    for (uint32_t i = 0; i < p->worker_count; i++) {
        struct hr_worker *w = p->workers[i];
        hr__engine_lock(p);
        bool lost = w->lost && !w->left;
        hr__engine_unlock_only(p);
        if (lost)
            (void)pthread_detach(w->thread);
        else if (w->started)
            (void)pthread_join(w->thread, NULL);
    }
}

/* In an op or in the source of p: such a thread can't wait for the end of p. */
static bool is_inside(const struct hr_pipeline *p)
{
    const struct hr_worker *self = hr__worker_self();
    return (self && self->pipeline == p) || hr__source_is_refilling(p);
}

/* A trace that can't be written is no reason not to stop. */
static void end_trace(struct hr_pipeline *p)
{
    struct hr_error err = {0};
    if (hr_pipeline_trace_stop(p, &err) != HR_OK)
        hr__log(HR_LOG_WARNING, "%s", err.text);
}

enum hr_status hr_pipeline_stop(struct hr_pipeline *p, int64_t deadline_ns,
                                struct hr_error *err)
{
    if (hr__pipeline_forked(p))
        return HR_OK;
    hr__pipeline_cancel(p);
    if (is_inside(p))
        return HR_OK;
    hr__engine_lock(p);
    if (!await_threads_locked(p, deadline_ns)) {
        enum hr_status status = say_who_is_stuck_locked(p, err);
        p->waited = true;
        hr__engine_unlock_only(p);
        return status;
    }
    bool mine = p->started && !p->joined;
    p->joined = true;
    hr__deadlines_tell_stuck_locked(p);
    hr__engine_unlock_only(p);
    if (mine) {
        join_threads(p);
        hr__loop_stop(&p->loop);
        hr__async_close(p);
    }
    end_trace(p);
    return HR_OK;
}

/* Threads that will not be waited for any longer look after themselves. */
static void leave_threads_behind(struct hr_pipeline *p)
{
    hr__engine_lock(p);
    bool mine = p->started && !p->joined;
    p->joined = true;
    uint32_t alive = p->alive;
    hr__engine_unlock_only(p);
    if (!mine)
        return;
    for (uint32_t i = 0; i < p->worker_count; i++)
        if (p->workers[i]->started)
            (void)pthread_detach(p->workers[i]->thread);
    hr__loop_stop(&p->loop);
    if (alive > 0 && !is_inside(p))
        hr__log(HR_LOG_WARNING, "%u threads were left behind, still busy", alive);
}

void hr_pipeline_free(struct hr_pipeline **pipeline)
{
    struct hr_pipeline *p = *pipeline;
    *pipeline = NULL;
    if (!p || hr__pipeline_forked(p))
        return; /* in a forked child nothing of it can be trusted: left as it is */
    hr__engine_lock(p);
    int64_t grace_ns = p->waited ? 0 : GRACE_NS; /* it was told who is stuck */
    hr__engine_unlock_only(p);
    if (hr_pipeline_stop(p, HR_SYS(now_ns)() + grace_ns, NULL) != HR_OK || is_inside(p))
        leave_threads_behind(p);
    end_trace(p);
    hr__async_orphan(p);
    hr__pipeline_unref(p);
}
