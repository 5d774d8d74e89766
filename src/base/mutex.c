/* mutex.c - a pthread mutex; debug builds check rank order and owner.
 *
 * Deadlock needs a cycle of threads that each hold one lock and wait for the next. If
 * every thread takes locks by rising rank only, there is no cycle. So each thread keeps
 * the ranks it holds, and a lock that would break the order aborts the first time it is
 * *taken*, not the one time in a million when two threads meet. */
#include "base/mutex.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/stall.h"
#include "base/banned.h"

#ifdef HR_DEBUG

enum { HELD_MAX = 16 };

static _Thread_local const struct hr_mutex *held[HELD_MAX];
static _Thread_local int held_count;

_Noreturn static void fail(const char *what, const struct hr_mutex *mutex, int other)
{
    fprintf(stderr, "headrace: mutex of rank %d: %s (rank %d)\n", (int)mutex->rank,
            what, other);
    abort();
}

int hr__mutex_held_count(void)
{
    return held_count;
}

static bool held_by_me(const struct hr_mutex *mutex)
{
    return atomic_load(&mutex->held) &&
           pthread_equal(atomic_load(&mutex->owner), pthread_self());
}

static void check_order(const struct hr_mutex *mutex)
{
    for (int i = 0; i < held_count; i++)
        if (held[i]->rank >= mutex->rank)
            fail("taken while one of the same or a higher rank is held", mutex,
                 (int)held[i]->rank);
}

static void note_locked(struct hr_mutex *mutex)
{
    if (held_count == HELD_MAX)
        fail("this thread holds too many", mutex, HELD_MAX);
    held[held_count++] = mutex;
    atomic_store(&mutex->owner, pthread_self());
    atomic_store(&mutex->held, true);
}

static void note_unlocked(struct hr_mutex *mutex)
{
    if (!held_by_me(mutex))
        fail("unlocked by a thread that does not hold it", mutex, 0);
    int i = held_count - 1;
    while (i >= 0 && held[i] != mutex)
        i--;
    if (i < 0)
        fail("held, but not on its thread's record", mutex, 0);
    for (held_count--; i < held_count; i++)
        held[i] = held[i + 1];
    atomic_store(&mutex->held, false);
}

#endif

/* Lock and unlock cannot fail for a mutex that is valid and whose owner is right; both
 * are ours to get right, so a failure is a bug of ours. */
static void must(int code)
{
    if (code)
        abort();
}

void hr__mutex_init(struct hr_mutex *mutex, enum hr_rank rank)
{
    must(pthread_mutex_init(&mutex->native, NULL));
    mutex->rank = rank;
#ifdef HR_DEBUG
    atomic_init(&mutex->held, false);
    atomic_init(&mutex->owner, pthread_self());
#endif
}

void hr__mutex_fini(struct hr_mutex *mutex)
{
#ifdef HR_DEBUG
    if (atomic_load(&mutex->held))
        fail("destroyed while it is held", mutex, 0);
#endif
    must(pthread_mutex_destroy(&mutex->native));
}

void hr__mutex_lock(struct hr_mutex *mutex) HR_NO_THREAD_SAFETY
{
#ifdef HR_DEBUG
    check_order(mutex);
#endif
    HR_STALL_POINT();
    must(pthread_mutex_lock(&mutex->native));
#ifdef HR_DEBUG
    note_locked(mutex);
#endif
}

bool hr__mutex_try_lock(struct hr_mutex *mutex) HR_NO_THREAD_SAFETY
{
    HR_STALL_POINT();
    if (HR_STALL_FAILS() || pthread_mutex_trylock(&mutex->native))
        return false;
#ifdef HR_DEBUG
    note_locked(mutex);
#endif
    return true;
}

void hr__mutex_unlock(struct hr_mutex *mutex) HR_NO_THREAD_SAFETY
{
#ifdef HR_DEBUG
    note_unlocked(mutex);
#endif
    must(pthread_mutex_unlock(&mutex->native));
    HR_STALL_POINT();
}

void hr__mutex_assert_held(const struct hr_mutex *mutex)
{
#ifdef HR_DEBUG
    if (!held_by_me(mutex))
        fail("not held by this thread, as it should be", mutex, 0);
#else
    (void)mutex;
#endif
}
