/* fault.h - make the system fail: the N-th call, or from the N-th on.
 *
 * Works by replacing entries of hr__sys. Arm and disarm while no other thread is inside
 * the library; calls may come from any thread meanwhile. */
#ifndef HR_FAULT_H
#define HR_FAULT_H

#include <stdbool.h>
#include <stdint.h>

#include "headrace/status.h"

enum fault_kind {
    FAULT_MEMORY = 1, /* alloc, zalloc, resize, map: NULL */
    FAULT_FILE = 2,   /* open, create, read, write, stat, close: -1 with EIO */
    FAULT_THREAD = 4, /* thread_start: EAGAIN */
    FAULT_ANY = 7
};

enum fault_mode { FAULT_ONCE, FAULT_FROM };

/* Count the calls of these kinds from 1; the n-th fails, or all from the n-th on. */
void fault_arm(unsigned kinds, enum fault_mode mode, uint64_t n);

/* Restore the direct calls. Returns how many calls failed. */
uint64_t fault_disarm(void);

/* Calls counted since fault_arm. */
uint64_t fault_calls(void);

/* One run of what is tested, from nothing to nothing: it makes all it needs, releases
 * all it made, and returns what went wrong, if anything did. */
typedef enum hr_status (*fault_fn)(void *cookie);

/* Run fn with the n-th call failing for n = 1, 2, 3 ... until a run is not touched by a
 * failure; first failing once, then from the n-th on. Each time before, cached blocks
 * are given back, so that every request reaches the system. After each run the live
 * buffers must be what they were, and another run without failures must succeed.
 *
 * A run that met a failure must return one of HR_ERR_NOMEM, HR_ERR_IO and
 * HR_ERR_THREAD, or HR_OK if it can do without. Returns the number of runs that met
 * one; 0 means that fn never reached the system. Failures count as failed checks: they
 * are printed, and *failures is increased by each. */
uint64_t fault_loop(unsigned kinds, fault_fn fn, void *cookie, int *failures);

#endif
