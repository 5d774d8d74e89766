/* park.c - sleep and wake one thread through its futex word.
 *
 *            park                       unpark
 *      0 ─────────────▶ 2 (sleeping)   any ──▶ 1, and FUTEX_WAKE if it was 2
 *      1 ──▶ 0, return 0
 *
 * The word itself carries the ordering: what a thread wrote before it unparked another
 * is seen by that one after park returned 0. */
#include "base/park.h"

#include <errno.h>
#include <stdbool.h>

#include "base/stall.h"
#include "base/sys.h"
#include "base/banned.h"

enum { IDLE = 0, WOKEN = 1, SLEEPING = 2 };

void hr__parker_init(struct hr_parker *parker)
{
    atomic_init(&parker->word, IDLE);
}

/* Back to IDLE; true if there was a wake-up to consume. */
static bool take_wake(struct hr_parker *parker)
{
    /* acquire: pairs with the release in hr__unpark. */
    return atomic_exchange_explicit(&parker->word, IDLE, memory_order_acquire) == WOKEN;
}

int hr__park(struct hr_parker *parker, int64_t deadline_ns)
{
    for (;;) {
        uint32_t idle = IDLE;
        /* relaxed: announces the sleep, publishes nothing; take_wake acquires. */
        if (!atomic_compare_exchange_strong_explicit(&parker->word, &idle, SLEEPING,
                                                     memory_order_relaxed,
                                                     memory_order_relaxed)) {
            take_wake(parker);
            return 0;
        }
        HR_STALL_POINT();
        int code = HR_SYS(futex_wait)(&parker->word, SLEEPING, deadline_ns);
        HR_STALL_POINT();
        if (take_wake(parker))
            return 0;
        if (code)
            return code;
    }
}

void hr__unpark(struct hr_parker *parker)
{
    /* release: pairs with the acquire in take_wake and hr__park. */
    if (atomic_exchange_explicit(&parker->word, WOKEN, memory_order_release) ==
        SLEEPING) {
        HR_STALL_POINT();
        HR_SYS(futex_wake)(&parker->word, 1);
    }
}
