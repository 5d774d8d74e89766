/* async_kit.h - an event loop beside an engine, played by a thread in C.
 *
 * The loop keeps what it was given, ends it in a random order, and looks at the
 * descriptor only when it has nothing to do: a bell that is not rung is a test that
 * hangs, and fails after 10 s. */
#ifndef HR_ASYNC_KIT_H
#define HR_ASYNC_KIT_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "engine/async.h"
#include "engine_kit.h"

enum { LOOP_ITEMS_MAX = 2000, LOOP_TASKS_MAX = 256, LOOP_STAGES_MAX = 4 };

/* Item n: fails if divisible by fail_every, is skipped by skip_every, else n + add. As an
 * expand: n % (fan + 1) outputs n * 10 + i. As a source: 0 … fan - 1. */
struct loop_stage {
    char kind; /* A map, G expand, S source: on the loop. L: a function that awaits */
    long fail_every, skip_every, add, fan;
    long at_once_to; /* L: up to here the result is there at once */
    long stuck_at;   /* never ends before the run is cancelled, nor before `release` */
    void (*in_first)(void); /* L: happens in the call of item 0 */
    atomic_int freed;
};

struct loop_held {
    struct hr_async_task *task;
    long item, next, end;
};

struct loop {
    struct hr_pipeline *pipeline;
    pthread_t thread;
    unsigned seed;
    atomic_bool started;
    atomic_bool release;       /* what is stuck may end */
    atomic_int asked, dropped; /* calls of start_loop by workers, and of drop_loop */
    const struct hr_runtime *runtime;
    struct loop_held held[LOOP_TASKS_MAX];
    size_t count;
    /* per stage, checked against its concurrency */
    struct hr_async_stage stages[LOOP_STAGES_MAX];
    uint32_t at_work[LOOP_STAGES_MAX];
};

extern struct loop loop;

struct loop_plan {
    struct loop_stage *stages; /* up to the first without a kind */
    long items;                /* of a native source */
    uint32_t concurrency;
    enum hr_output_order order;
    const char *key;
    int64_t deadline_ns;
};

bool loop_divides(long by, long n);
/* A pipeline with its loop, not started; NULL: no memory. */
struct hr_pipeline *loop_build(const struct loop_plan *want, unsigned seed);
/* Start the loop's thread for a pipeline that needs one. False: the run is over, or a
 * worker was first. */
bool loop_begin(void *cookie);
/* Both; NULL is a failed check. */
struct hr_pipeline *loop_start(const struct loop_plan *want, unsigned seed);
/* The end of p, which was stopped or came to its end, or was not started. */
void loop_finish(struct hr_pipeline *p, const struct loop_plan *plan);

#endif
