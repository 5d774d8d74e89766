/* stall.h - places where a thread may lose the processor.
 *
 * Races hide where nothing happens between two steps most of the time. In builds with
 * HR_DEBUG, HR_STALL=<seed> in the environment makes threads sleep there now and then,
 * pseudo-randomly, and makes try_lock fail as if the lock were busy. Other builds have
 * none of it. */
#ifndef HR_BASE_STALL_H
#define HR_BASE_STALL_H

#include <stdbool.h>

#ifdef HR_DEBUG
/* Sleep up to 50 µs, or give up the processor, or (mostly) neither. */
void hr__stall_point(void);
/* Should something that may fail at any time, fail now? */
bool hr__stall_fails(void);
#define HR_STALL_POINT() hr__stall_point()
#define HR_STALL_FAILS() hr__stall_fails()
#else
#define HR_STALL_POINT() ((void)0)
#define HR_STALL_FAILS() false
#endif

#endif
