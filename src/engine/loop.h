/* loop.h - the event-loop thread: timers, soonest first. */
#ifndef HR_ENGINE_LOOP_H
#define HR_ENGINE_LOOP_H

#include <pthread.h>
#include <stdbool.h>

#include "base/mutex.h"
#include "base/park.h"
#include "headrace/status.h"

/* Called on the loop's thread without locks. Returns when it wants to be called next
 * (absolute), or INT64_MAX. */
typedef int64_t (*hr_timer_fn)(void *cookie, int64_t now_ns);

struct hr_timer {
    hr_timer_fn fn;
    void *cookie;
    int64_t due_ns;
    /* under the loop's lock */
    struct hr_timer *next;
    bool listed, running;
    int64_t hurry_ns; /* while running: what it was hurried to */
};

struct hr_loop {
    struct hr_mutex lock;
    /* under lock */
    struct hr_timer *timers;
    bool stopping;
    /* const after start */
    pthread_t thread;
    bool running;
    struct hr_parker parker;
};

void hr__loop_init(struct hr_loop *loop);
void hr__loop_fini(struct hr_loop *loop);
/* Start the thread. Errors: HR_ERR_THREAD. */
enum hr_status hr__loop_start(struct hr_loop *loop, struct hr_error *err);
/* No more timers: the thread ends by itself. Threads: any. */
void hr__loop_quit(struct hr_loop *loop);
/* The same, and join it; a timer that is running is waited for. */
void hr__loop_stop(struct hr_loop *loop);
/* Storage is the caller's and stays until the loop has stopped. Threads: any. */
void hr__loop_add(struct hr_loop *loop, struct hr_timer *timer);
/* Call it at due_ns, or sooner if it is added and due sooner. Threads: any; then unpark
 * the loop's parker. */
void hr__loop_hurry(struct hr_loop *loop, struct hr_timer *timer, int64_t due_ns);

#endif
