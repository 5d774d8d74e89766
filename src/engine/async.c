/* async.c - coroutine stages: the engine's side of an event loop it does not own.
 *
 *   workers, consumer            lock                the loop's thread
 *   ------------------           ----                -----------------
 *   put an item in front ──► lane ASYNC has work
 *   unlock: armed and due? ──► descriptor ─────────► wakes in its select
 *                                 ◄── exchange: hands in what is finished,
 *                                     claims all that the lane has
 *   finish, consume          ◄── pump, wake-ups      awaits the tasks ...
 *
 * Tasks are claimed only up to a stage's concurrency and with places reserved, like any
 * other: back-pressure, order and the ledger are the scheduler's, none is made here.
 *
 * The descriptor (an eventfd) is written once when something comes up while the thread
 * has nothing on its way: it arms the bell in an exchange that moved nothing, and whoever
 * drops the lock over new work disarms and rings it. A busy loop is never rung: it comes
 * by after each turn of its own. So a stage of no-ops makes no system call for it, and an
 * idle one none at all. call_soon_threadsafe per item costs 10 to 30 µs instead.
 *
 * A worker whose function returned something to await gives the claim away: the task is
 * in flight as before, only in other hands (adopt). Of claims that ride on one slot the
 * later ones go along as a chain, for the slot counts once against the concurrency.
 *
 * Attached all the time, the thread can advance a fast source for free, as a leader does.
 * It runs none of the other lanes: what takes long there would hold up the loop.
 *
 * The thread keeps the language's lock for as long as it has something to do. Beside a
 * thread that computes, CPython hands that lock over only after 5 ms; so when a consumer
 * wants in, it is let in (hr__async_let_consumer_in). */
#include "engine/async_state.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/sys.h"
#include "engine/plan.h"
#include "engine/task.h"
#include "base/banned.h"

/* ---- making ---- */

/* A task for all that can be in flight; of a stage that may turn out to await, also for
 * the claims that ride when it does. */
static uint32_t tasks_needed(const struct hr_plan *plan, uint32_t num_threads,
                             bool *needed)
{
    uint32_t n = 0;
    bool may_ride = false;
    for (uint32_t i = 0; i < plan->count; i++) {
        bool on_loop = plan->sched_stages[i].lane == HR_LANE_ASYNC;
        bool may_await = plan->stages[i].body == HR_BODY_FOREIGN_MAP;
        if (on_loop || may_await)
            n += plan->sched_stages[i].concurrency;
        *needed = *needed || on_loop;
        may_ride = may_ride || (may_await && !on_loop);
    }
    return may_ride ? n + num_threads * HR_SCHED_GRANT_MAX : n;
}

enum hr_status hr__async_new(struct hr_pipeline *p, const struct hr_plan *plan,
                             struct hr_error *err)
{
    bool needed = false;
    uint32_t n = tasks_needed(plan, p->num_threads, &needed);
    if (n == 0)
        return HR_OK;
    struct hr_async *a = hr__calloc(1, sizeof(*a));
    struct hr_async_task *tasks = a ? hr__calloc(n, sizeof(*tasks)) : NULL;
    if (!tasks) {
        hr__free(a);
        return hr__nomem(err, "pipeline", "tasks of an event loop", n * sizeof(*tasks));
    }
    a->tasks = tasks; /* zero pages: none is there before it is used */
    a->task_count = n;
    a->needed = needed;
    a->bell = -1;
    a->adopted_end = &a->adopted;
    hr__worker_init(p, &a->worker, UINT32_MAX);
    p->async = a;
    return HR_OK;
}

void hr__async_free(struct hr_pipeline *p)
{
    struct hr_async *a = p->async;
    if (!a)
        return;
    if (a->bell >= 0)
        (void)HR_SYS(file_close)(a->bell);
    hr__free(a->tasks);
    hr__free(a);
    p->async = NULL;
}

bool hr__async_stage(const struct hr_pipeline *p, uint32_t i,
                     struct hr_async_stage *out)
{
    if (i >= p->stage_count)
        return false;
    const struct hr_stage *stage = &p->stages[i];
    if (!stage->on_loop && stage->body != HR_BODY_FOREIGN_MAP)
        return false;
    *out = (struct hr_async_stage){
        .name = stage->name,
        .kind = stage->body == HR_BODY_FOREIGN_SOURCE   ? HR_ASYNC_SOURCE
                : stage->body == HR_BODY_FOREIGN_EXPAND ? HR_ASYNC_EXPAND
                                                        : HR_ASYNC_MAP,
        .concurrency = stage->concurrency,
        .state = stage->foreign.state,
        .on_loop = stage->on_loop,
        .timeout_ns = stage->timeout_ns,
    };
    return true;
}

bool hr__async_needed(const struct hr_pipeline *p)
{
    return p->async && p->async->needed;
}

void hr__async_set_cookie(struct hr_pipeline *p, void *cookie)
{
    p->async->cookie = cookie;
}

void *hr__async_take_cookie_locked(struct hr_pipeline *p)
{
    struct hr_async *a = p->async;
    if (!a || !a->orphaned || p->alive > 0)
        return NULL;
    void *cookie = a->cookie;
    a->cookie = NULL;
    return cookie;
}

void hr__async_drop_cookie(struct hr_pipeline *p, void *cookie)
{
    if (cookie && p->runtime->drop_loop)
        p->runtime->drop_loop(cookie);
}

void hr__async_orphan(struct hr_pipeline *p)
{
    if (!p->async)
        return;
    hr__engine_lock(p);
    p->async->orphaned = true;
    void *cookie = hr__async_take_cookie_locked(p);
    hr__engine_unlock_only(p);
    hr__async_drop_cookie(p, cookie);
}

void hr__async_ref(struct hr_pipeline *p)
{
    /* relaxed: the caller's own reference keeps it alive */
    atomic_fetch_add_explicit(&p->refs, 1, memory_order_relaxed);
}

void hr__async_unref(struct hr_pipeline *p)
{
    hr__pipeline_unref(p);
}

/* ---- the thread comes and goes ---- */

enum hr_status hr__async_expect(struct hr_pipeline *p, struct hr_error *err)
{
    struct hr_async *a = p->async;
    enum hr_status status = HR_AGAIN;
    hr__engine_lock(p);
    if (atomic_load_explicit(&a->presence, memory_order_relaxed) == ABSENT &&
        !p->ended && !p->cancelled) {
        status = HR_OK;
        if (a->bell < 0)
            a->bell = HR_SYS(event_open)();
        if (a->bell < 0)
            status =
                hr_error_set(err, HR_ERR_IO, "pipeline", errno,
                             "no descriptor for the event loop: %s", strerror(errno));
    }
    if (status == HR_OK) {
        p->alive++;
        hr__async_ref(p);
        /* pairs with hr__async_ensure */
        atomic_store_explicit(&a->presence, EXPECTED, memory_order_release);
    }
    hr__engine_unlock_only(p);
    return status;
}

bool hr__async_begin(struct hr_pipeline *p, void *thread)
{
    struct hr_worker *w = &p->async->worker;
    if (!hr__async_change_presence(p->async, EXPECTED, PRESENT))
        return false;
    hr__worker_begin(w);
    w->foreign_thread = thread;
    w->attached = true;
    return true;
}

void hr__async_leave(struct hr_pipeline *p)
{
    struct hr_worker *w = &p->async->worker;
    const struct hr_runtime *runtime = p->runtime;
    void *thread = w->foreign_thread;
    w->foreign_thread = NULL; /* it is not ours to be forgotten */
    runtime->detach(thread);
    w->attached = false;
    hr__engine_lock(p); /* see hr__async_adopt_locked */
    atomic_store_explicit(&p->async->presence, ABSENT, memory_order_release);
    hr__engine_unlock_only(p);
    hr__worker_leave(w); /* p may be gone */
    runtime->reenter(thread);
}

bool hr__async_is_there(const struct hr_pipeline *p)
{
    /* pairs with hr__async_expect */
    return p->async &&
           atomic_load_explicit(&p->async->presence, memory_order_acquire) != ABSENT;
}

bool hr__async_ensure(struct hr_pipeline *p)
{
    struct hr_async *a = p->async;
    if (hr__async_is_there(p))
        return true;
    if (a->cookie && p->runtime->start_loop)
        (void)p->runtime->start_loop(a->cookie);
    return hr__async_is_there(p); /* it may be another one who is starting it */
}

struct hr_async_task *hr__async_task(struct hr_pipeline *p, uint32_t n)
{
    return &p->async->tasks[n];
}

/* ---- the bell ---- */

bool hr__async_due_locked(struct hr_pipeline *p)
{
    struct hr_async *a = p->async;
    if (!a->armed)
        return false;
    bool due = a->adopted || p->cancelled != a->told_cancelled ||
               p->ended != a->told_ended ||
               hr__sched_peek(p->sched, HR_LANES_ASYNC) >= 0 ||
               hr__retry_peek_locked(p, HR_LANES_ASYNC) >= 0;
    a->armed = !due;
    if (due)
        atomic_fetch_add_explicit(&a->ringing, 1, memory_order_relaxed);
    return due;
}

void hr__async_knock(struct hr_pipeline *p)
{
    const uint64_t one = 1;
    /* It can't fail: the counter is far from full. */
    while (write(p->async->bell, &one, sizeof(one)) < 0 && errno == EINTR)
        continue;
}

void hr__async_ring(struct hr_pipeline *p)
{
    hr__async_knock(p);
    /* pairs with hr__async_close */
    atomic_fetch_sub_explicit(&p->async->ringing, 1, memory_order_release);
}

void hr__async_close(struct hr_pipeline *p)
{
    struct hr_async *a = p->async;
    if (!a)
        return;
    hr__engine_lock(p);
    if (a->bell >= 0 && atomic_load_explicit(&a->ringing, memory_order_acquire) == 0) {
        (void)HR_SYS(file_close)(a->bell);
        a->bell = -1;
    }
    hr__engine_unlock_only(p);
}

int hr__async_descriptor(const struct hr_pipeline *p)
{
    return p->async->bell;
}

void hr__async_hush(struct hr_pipeline *p)
{
    uint64_t count;
    while (read(p->async->bell, &count, sizeof(count)) < 0 && errno == EINTR)
        continue;
}
