/* crash.h - where a thread is, for the report of a crash; see crash.c. */
#ifndef HR_ENGINE_CRASH_H
#define HR_ENGINE_CRASH_H

#include <stdatomic.h>
#include <stdint.h>

#include "headrace/value.h"

struct hr_item;
struct hr_worker;

/* Written by the thread, read by whichever one crashes. All relaxed: its own thread reads
 * it in order; to others it may be old. */
struct hr_trail {
    _Atomic uintptr_t thread;            /* pthread_self; 0: no thread yet */
    _Atomic(const struct hr_item *) at;  /* NULL: none, or only its index is known */
    _Atomic(const struct hr_value *) in; /* what a native op works on, or NULL */
    _Atomic int64_t slot;                /* of a fork-join; -1: none */
    /* const while the thread is listed */
    char name[16];
    void *stack; /* for its signal handlers; NULL: none of ours */
};

/* The calling thread is w from now on, and no more. */
void hr__crash_enter(struct hr_worker *w);
void hr__crash_leave(struct hr_worker *w);
/* In a forked child: the threads are not there. */
void hr__crash_forget_threads(void);

#endif
