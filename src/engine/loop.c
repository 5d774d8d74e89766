/* loop.c - a thread that sleeps until the first timer is due.
 *
 * A sorted list: a pipeline has a handful of timers, and a list is shorter than a heap.
 * The lock is a leaf: timers run without it. */
#define _GNU_SOURCE /* pthread_setname_np */
#include "engine/loop.h"

#include <errno.h>
#include <string.h>

#include "base/sys.h"
#include "base/banned.h"

void hr__loop_init(struct hr_loop *loop)
{
    hr__mutex_init(&loop->lock, HR_RANK_FOREIGN);
    hr__parker_init(&loop->parker);
    loop->timers = NULL;
    loop->stopping = false;
    loop->running = false;
}

void hr__loop_fini(struct hr_loop *loop)
{
    hr__mutex_fini(&loop->lock);
}

static void insert_locked(struct hr_loop *loop, struct hr_timer *timer)
    HR_REQUIRES(loop->lock)
{
    struct hr_timer **at = &loop->timers;
    while (*at && (*at)->due_ns <= timer->due_ns)
        at = &(*at)->next;
    timer->next = *at;
    timer->listed = true;
    *at = timer;
}

/* Run what is due. Returns when to look again. Lock held, dropped around each timer. */
static int64_t run_due_locked(struct hr_loop *loop) HR_REQUIRES(loop->lock)
{
    while (!loop->stopping && loop->timers) {
        struct hr_timer *timer = loop->timers;
        int64_t now_ns = HR_SYS(now_ns)();
        if (timer->due_ns > now_ns)
            return timer->due_ns;
        loop->timers = timer->next;
        timer->listed = false;
        timer->running = true;
        timer->hurry_ns = HR_FOREVER;
        hr__mutex_unlock(&loop->lock);
        int64_t due_ns = timer->fn(timer->cookie, now_ns);
        hr__mutex_lock(&loop->lock);
        timer->running = false;
        timer->due_ns = due_ns < timer->hurry_ns ? due_ns : timer->hurry_ns;
        if (timer->due_ns != HR_FOREVER)
            insert_locked(loop, timer);
    }
    return HR_FOREVER;
}

static void *loop_main(void *arg)
{
    struct hr_loop *loop = arg;
    pthread_setname_np(pthread_self(), "hr-loop");
    hr__mutex_lock(&loop->lock);
    while (!loop->stopping) {
        int64_t due_ns = run_due_locked(loop);
        if (loop->stopping)
            break;
        hr__mutex_unlock(&loop->lock);
        hr__park(&loop->parker, due_ns);
        hr__mutex_lock(&loop->lock);
    }
    hr__mutex_unlock(&loop->lock);
    return NULL;
}

enum hr_status hr__loop_start(struct hr_loop *loop, struct hr_error *err)
{
    int code = HR_SYS(thread_start)(&loop->thread, loop_main, loop);
    if (code)
        return hr_error_set(err, HR_ERR_THREAD, "pipeline", code,
                            "the timer thread could not be started: %s",
                            strerror(code));
    loop->running = true;
    return HR_OK;
}

void hr__loop_quit(struct hr_loop *loop)
{
    hr__mutex_lock(&loop->lock);
    loop->stopping = true;
    hr__mutex_unlock(&loop->lock);
    hr__unpark(&loop->parker);
}

void hr__loop_stop(struct hr_loop *loop)
{
    if (!loop->running)
        return;
    hr__loop_quit(loop);
    pthread_join(loop->thread, NULL);
    loop->running = false;
}

void hr__loop_add(struct hr_loop *loop, struct hr_timer *timer)
{
    hr__mutex_lock(&loop->lock);
    insert_locked(loop, timer);
    hr__mutex_unlock(&loop->lock);
    hr__unpark(&loop->parker);
}

static void remove_locked(struct hr_loop *loop, struct hr_timer *timer)
    HR_REQUIRES(loop->lock)
{
    struct hr_timer **at = &loop->timers;
    while (*at != timer)
        at = &(*at)->next;
    *at = timer->next;
    timer->listed = false;
}

void hr__loop_hurry(struct hr_loop *loop, struct hr_timer *timer, int64_t due_ns)
{
    hr__mutex_lock(&loop->lock);
    if (timer->running) {
        timer->hurry_ns = due_ns < timer->hurry_ns ? due_ns : timer->hurry_ns;
    } else if (!timer->listed || due_ns < timer->due_ns) {
        if (timer->listed)
            remove_locked(loop, timer);
        timer->due_ns = due_ns;
        insert_locked(loop, timer);
    }
    hr__mutex_unlock(&loop->lock);
}
