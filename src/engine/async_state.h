/* async_state.h - what the files of the engine's event loop share; nobody else includes it.
 *
 *   async.c           the essay; making; the thread comes and goes; the bell
 *   async_tasks.c     tasks in the thread's hands: adopting, looking at them, giving up
 *   async_exchange.c  finished tasks for new ones */
#ifndef HR_ENGINE_ASYNC_STATE_H
#define HR_ENGINE_ASYNC_STATE_H

#include "engine/engine.h"

enum { ABSENT, EXPECTED, PRESENT }; /* the loop's thread */

struct hr_async {
    /* const after creation */
    struct hr_async_task *tasks;
    uint32_t task_count;
    bool needed;
    void *cookie; /* const until no thread is left that might start a loop by it */

    int bell; /* written before `presence` is set; -1: not yet */
    /* set to EXPECTED with release, read with acquire: who sees it sees the bell */
    _Atomic uint32_t presence;
    _Atomic bool stands_off; /* seq_cst, as consumer_wants is next to it */

    /* under the pipeline's lock */
    bool orphaned; /* the owner is gone: the last thread lets go of the cookie */
    bool armed, told_cancelled, told_ended;
    _Atomic uint32_t ringing; /* up under lock, down (release) without it */
    uint32_t tasks_touched;   /* those behind have never been used */
    struct hr_async_task *unused;
    struct hr_async_task *adopted, **adopted_end;

    struct hr_worker worker; /* the loop's thread */
};

/* Of who starts the thread, and gives it up, and the thread itself, one is first. */
static inline bool hr__async_change_presence(struct hr_async *a, uint32_t from,
                                             uint32_t to)
{
    return atomic_compare_exchange_strong(&a->presence, &from, to);
}

/* async_tasks.c */
struct hr_async_task *hr__async_task_get_locked(struct hr_async *a,
                                                int64_t now_ns) HR_ENGINE_LOCKED;
void hr__async_task_put_locked(struct hr_async *a,
                               struct hr_async_task *task) HR_ENGINE_LOCKED;

#endif
