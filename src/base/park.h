/* park.h - one futex word per thread: sleep until somebody wakes *this* thread.
 *
 * A parker remembers one wake-up: unpark before park makes park return at once. There
 * is no spinning (measured: it doubles the CPU per item and gains nothing). */
#ifndef HR_BASE_PARK_H
#define HR_BASE_PARK_H

#include <stdatomic.h>
#include <stdint.h>

#define HR_FOREVER INT64_MAX

struct hr_parker {
    _Atomic uint32_t word; /* 0 nothing, 1 woken, 2 its thread sleeps or is about to */
};

void hr__parker_init(struct hr_parker *parker);

/* Sleep until woken, deadline_ns (absolute, CLOCK_MONOTONIC), or a signal.
 * Returns 0 (woken; the wake-up is consumed), ETIMEDOUT, or EINTR. */
int hr__park(struct hr_parker *parker, int64_t deadline_ns);

/* Wake the parker's thread, or its next park. Call it after dropping locks. No system
 * call is made unless the thread sleeps. The parker's memory must outlive the call. */
void hr__unpark(struct hr_parker *parker);

#endif
