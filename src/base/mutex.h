/* mutex.h - the library's mutex, with a rank.
 *
 * A thread may take a mutex only while it holds none of the same or a higher rank;
 * builds with HR_DEBUG check that, and the held/not-held asserts. The ranks are listed
 * in docs/internals/locking.md. */
#ifndef HR_BASE_MUTEX_H
#define HR_BASE_MUTEX_H

#include <pthread.h>
#include <stdbool.h>

#if defined(__clang__)
#define HR_CAPABILITY(x) __attribute__((capability(x)))
#define HR_ACQUIRE(...) __attribute__((acquire_capability(__VA_ARGS__)))
#define HR_TRY_ACQUIRE(...) __attribute__((try_acquire_capability(__VA_ARGS__)))
#define HR_RELEASE(...) __attribute__((release_capability(__VA_ARGS__)))
#define HR_REQUIRES(...) __attribute__((requires_capability(__VA_ARGS__)))
#define HR_ASSERT_HELD(x) __attribute__((assert_capability(x)))
#define HR_NO_THREAD_SAFETY __attribute__((no_thread_safety_analysis))
#else
#define HR_CAPABILITY(x)
#define HR_ACQUIRE(...)
#define HR_TRY_ACQUIRE(...)
#define HR_RELEASE(...)
#define HR_REQUIRES(...)
#define HR_ASSERT_HELD(x)
#define HR_NO_THREAD_SAFETY
#endif

enum hr_rank {
    HR_RANK_ENGINE = 10,  /* one per pipeline: scheduler, parked threads, statistics */
    HR_RANK_SINK = 20,    /* one per pipeline: the ring of ready items */
    HR_RANK_FOREIGN = 30, /* leaf locks: timers; those of a language binding */
    HR_RANK_POOL = 40,    /* one per four size classes of the buffer pool */
    HR_RANK_LOG = 50      /* the log callback */
};

struct HR_CAPABILITY("mutex") hr_mutex {
    pthread_mutex_t native;
    enum hr_rank rank;
#ifdef HR_DEBUG
    _Atomic(pthread_t) owner;
    _Atomic bool held;
#endif
};

/* For static storage; otherwise hr__mutex_init. */
#define HR_MUTEX_INIT(rank_) {.native = PTHREAD_MUTEX_INITIALIZER, .rank = (rank_)}

void hr__mutex_init(struct hr_mutex *mutex, enum hr_rank rank);
void hr__mutex_fini(struct hr_mutex *mutex);
void hr__mutex_lock(struct hr_mutex *mutex) HR_ACQUIRE(mutex);
/* Exempt from the rank order, since it never waits; recorded all the same. */
bool hr__mutex_try_lock(struct hr_mutex *mutex) HR_TRY_ACQUIRE(true, mutex);
void hr__mutex_unlock(struct hr_mutex *mutex) HR_RELEASE(mutex);
#ifdef HR_DEBUG
/* How many mutexes the calling thread holds. */
int hr__mutex_held_count(void);
#endif
/* Debug builds abort when it is not so; other builds do nothing. */
void hr__mutex_assert_held(const struct hr_mutex *mutex) HR_ASSERT_HELD(mutex);

#endif
