/* worker.c - the life of a worker.
 *
 *        +---------------------------------------------------------------+
 *        v                                                               |
 *     pump --ended--> leave                                              |
 *        |                                                               |
 *        +-- a fork-join has slots left ------> run slots (help) --------+
 *        +-- nearest task is foreign, allowed -> session (session.c) ----+
 *        +-- nearest task is native ----------> claim, run, finish ------+
 *        +-- nothing --------------------------> park -------------------+
 *
 * The lock is held in the left column and dropped in the right one.
 *
 * Parking. A worker parks on its own futex word and is taken off the list by the one who
 * wakes it. Somebody who makes work wakes somebody for it, with two exceptions that keep
 * futex calls out of the consumer's next() and out of no-op pipelines:
 *
 *   - The consumer wakes nobody while two or more items are ready. So workers park with a
 *     limit while items are ready: 1 ms, doubling to 50 ms while no room comes of it.
 *   - A short backlog (under 20 µs of work) is left to the threads that are awake, whose
 *     task may take longer this time than those before it did. So workers look again
 *     while others are awake. That is hardly ever of use: the interval stays what it is,
 *     doubles up to 50 ms when a look was useless, and goes back to 1 ms when it was not.
 *
 * Nothing waits longer than that, and a pipeline costs about 0.1 % of a core for each
 * worker that has nothing to do. */
#define _GNU_SOURCE /* pthread_setname_np */
#include "engine/task.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/sys.h"
#include "base/banned.h"

#define PARK_MIN_NS 1000000
#define PARK_MAX_NS 50000000

static _Thread_local struct hr_worker *self_worker;

struct hr_worker *hr__worker_self(void)
{
    return self_worker;
}

void hr__worker_name(const struct hr_pipeline *p, uint32_t number, char *out,
                     size_t size)
{
    if ((int32_t)number == p->source_helper)
        (void)snprintf(out, size, "hr-source");
    else if (number != UINT32_MAX && number >= p->worker_count - p->feed_count &&
             p->feed_count > 0)
        (void)snprintf(out, size, "hr-source-%u",
                       (number - (p->worker_count - p->feed_count)) % 1000);
    else if (number == UINT32_MAX)
        (void)snprintf(out, size, "hr-asyncio");
    else
        (void)snprintf(out, size, "hr-work-%u", number % 10000);
}

void hr__worker_begin(struct hr_worker *w)
{
    char name[16];
    hr__worker_name(w->pipeline, w->number, name, sizeof(name));
    pthread_setname_np(pthread_self(), name);
    self_worker = w;
    hr__crash_enter(w);
}

/* Take the lock from any side: an attached thread must not wait for it. */
void hr__worker_lock(struct hr_worker *w)
{
    struct hr_pipeline *p = w->pipeline;
    if (w->attached) {
        if (hr__engine_try_lock(p))
            return;
        p->runtime->detach(w->foreign_thread);
        w->attached = false;
    }
    hr__engine_lock(p);
}

int hr__worker_park(struct hr_worker *w, int64_t until_ns, enum hr_trace_kind kind)
{
    struct hr_trace_ring *trace = hr__worker_trace(w);
    if (!trace)
        return hr__park(&w->parker, until_ns);
    int64_t begin_ns = HR_SYS(now_ns)();
    int result = hr__park(&w->parker, until_ns);
    hr__trace_add(trace, &(struct hr_trace_what){kind, -1, -1, 0, NULL}, begin_ns,
                  HR_SYS(now_ns)());
    return result;
}

void hr__worker_note_locked(struct hr_worker *w, int32_t stage, int64_t item,
                            int64_t now_ns)
{
    int32_t last = atomic_load_explicit(&w->stage, memory_order_relaxed); /* its own */
    if ((stage == 0) != (last == 0)) { /* relaxed: for this thread; see there */
        uint32_t change = stage == 0 ? 1 : UINT32_MAX;
        atomic_fetch_add_explicit(&w->pipeline->in_source, change,
                                  memory_order_relaxed);
    }
    atomic_store_explicit(&w->stage, stage, memory_order_relaxed); /* see there */
    atomic_store_explicit(&w->trail.at, NULL, memory_order_relaxed);
    atomic_store_explicit(&w->item, item, memory_order_relaxed);
    w->since_ns = now_ns;
    atomic_store_explicit(&w->begun_ns, now_ns, memory_order_relaxed); /* statistics */
    w->reported = false;
}

/* What nobody took of the finished calls[0 … n-1] is released. Lock held on entry and on
 * return; dropped if there is something. */
void hr__worker_clear_calls_locked(struct hr_worker *w, uint32_t n,
                                   struct hr_after *after)
{
    bool rest = false;
    for (uint32_t i = 0; i < n; i++)
        rest = rest || hr__call_has_rest(&w->calls[i]);
    if (!rest)
        return;
    atomic_store_explicit(&w->begun_ns, -1, memory_order_relaxed); /* stats.c */
    hr__engine_unlock(w->pipeline, after);
    for (uint32_t i = 0; i < n; i++)
        hr__call_clear(&w->calls[i]);
    hr__worker_lock(w);
}

/* ---- parking ---- */

static void unlist_parked_locked(struct hr_pipeline *p,
                                 struct hr_worker *w) HR_ENGINE_LOCKED
{
    struct hr_worker **at = &p->parked;
    while (*at != w)
        at = &(*at)->parked_next;
    *at = w->parked_next;
    p->parked_count--;
    w->parked = false;
}

static void longer(int64_t *limit_ns)
{
    *limit_ns = *limit_ns < PARK_MAX_NS / 2 ? *limit_ns * 2 : PARK_MAX_NS;
}

/* Was the last look of use? */
static void judge_look(struct hr_worker *w, bool found)
{
    if (w->looked && found)
        w->look_limit_ns = PARK_MIN_NS;
    else if (w->looked)
        longer(&w->look_limit_ns);
    w->looked = false;
}

static void found_work(struct hr_worker *w)
{
    w->room_limit_ns = PARK_MIN_NS;
    judge_look(w, true);
}

enum park_kind { PARK_FOR_GOOD, PARK_FOR_TURN, PARK_FOR_ROOM, PARK_AND_LOOK };

/* Why and how long to park (see the top of the file). */
static enum park_kind park_kind_locked(struct hr_worker *w, int64_t now_ns,
                                       int64_t *until_ns) HR_ENGINE_LOCKED
{
    struct hr_pipeline *p = w->pipeline;
    if (hr__sched_peek(p->sched, HR_LANES_FOREIGN) >= 0 ||
        hr__retry_peek_locked(p, HR_LANES_FOREIGN) >= 0) {
        *until_ns = now_ns + PARK_MIN_NS; /* a second leader may be due: session.c */
        return PARK_FOR_TURN;
    }
    hr__mutex_lock(&p->sink.lock);
    bool ready = p->sink.count > 0;
    hr__mutex_unlock(&p->sink.lock);
    /* pairs with the pop in consumer.c: credit is given before the count goes down */
    if (ready || atomic_load_explicit(&p->sink.credit, memory_order_acquire) > 0) {
        *until_ns = now_ns + w->room_limit_ns;
        return PARK_FOR_ROOM;
    }
    bool alone = p->parked_count + 1 == p->working;
    *until_ns = alone ? HR_FOREVER : now_ns + w->look_limit_ns;
    return alone ? PARK_FOR_GOOD : PARK_AND_LOOK;
}

static int64_t park_locked(struct hr_worker *w, int64_t now_ns,
                           struct hr_after *after) HR_ENGINE_LOCKED
{
    struct hr_pipeline *p = w->pipeline;
    judge_look(w, false);
    int64_t until_ns;
    enum park_kind kind = park_kind_locked(w, now_ns, &until_ns);
    w->parked = true;
    w->parked_next = p->parked;
    p->parked = w;
    p->parked_count++;
    hr__engine_unlock(p, after);
    bool timed_out = hr__worker_park(w, until_ns, HR_TRACE_PARK) == ETIMEDOUT;
    hr__engine_lock(p);
    if (w->parked)
        unlist_parked_locked(p, w);
    w->looked = timed_out && kind == PARK_AND_LOOK;
    if (!timed_out)
        w->room_limit_ns = PARK_MIN_NS;
    else if (kind == PARK_FOR_ROOM)
        longer(&w->room_limit_ns);
    return HR_SYS(now_ns)();
}

/* ---- the loop ---- */

static int64_t work_once_locked(struct hr_worker *w, int64_t now_ns,
                                struct hr_after *after) HR_ENGINE_LOCKED
{
    struct hr_pipeline *p = w->pipeline;
    struct hr_fork *fork = hr__fork_find_locked(p);
    if (fork) {
        found_work(w);
        return hr__fork_help_locked(w, fork, now_ns, after);
    }
    if (hr__retry_take_locked(p, HR_LANES_NATIVE, &w->claims[0]))
        return hr__worker_run_native_locked(w, now_ns, after);
    if (hr__retry_peek_locked(p, HR_LANES_FOREIGN) >= 0 &&
        hr__session_allowed_locked(p, now_ns))
        return hr__session_run_locked(w, now_ns, after);
    int native = hr__sched_peek(p->sched, HR_LANES_NATIVE);
    int foreign = -1;
    if (hr__session_allowed_locked(p, now_ns))
        foreign = hr__sched_peek(p->sched, hr__session_lanes_locked(p));
    if (foreign > native) {
        found_work(w);
        return hr__session_run_locked(w, now_ns, after);
    }
    if (native >= 0 &&
        hr__sched_claim(p->sched, HR_LANES_NATIVE, now_ns, &w->claims[0])) {
        found_work(w);
        return hr__worker_run_native_locked(w, now_ns, after);
    }
    hr__engine_wake_helper_locked(p, after);
    hr__engine_wake_consumers_locked(p, -1, now_ns, after);
    return park_locked(w, now_ns, after);
}

/* The last thing a thread of a pipeline does. */
void hr__worker_leave(struct hr_worker *w)
{
    struct hr_pipeline *p = w->pipeline;
    hr__scratch_fini(&w->scratch);
    if (w->foreign_thread)
        p->runtime->thread_free(w->foreign_thread);
    w->foreign_thread = NULL;
    if (self_worker == w)
        self_worker = NULL; /* the thread itself may live on */
    hr__crash_leave(w);
    hr__engine_lock(p);
    p->alive--;
    p->lost_count -= w->lost;
    w->left = w->lost; /* it may be used for another thread from now on */
    hr__pipeline_tell_stoppers_locked(p);
    void *cookie = hr__async_take_cookie_locked(p);
    hr__engine_unlock_only(p);
    hr__async_drop_cookie(p, cookie);
    hr__pipeline_unref(p);
}

void *hr__worker_main(void *arg)
{
    struct hr_worker *w = arg;
    struct hr_pipeline *p = w->pipeline;
    struct hr_after after = {0};
    hr__worker_begin(w);
    w->room_limit_ns = w->look_limit_ns = PARK_MIN_NS;
    hr__engine_lock(p);
    int64_t now_ns = HR_SYS(now_ns)();
    for (;;) {
        hr__engine_pump_locked(p, now_ns, &after);
        if (p->ended || w->lost)
            break;
        now_ns = work_once_locked(w, now_ns, &after);
    }
    hr__engine_wake_consumers_locked(p, -1, now_ns, &after);
    hr__engine_unlock(p, &after);
    hr__worker_leave(w);
    return NULL;
}
