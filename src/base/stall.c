/* stall.c - sleep now and then, by a seed. */
#include "base/stall.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#include "base/banned.h"

#ifdef HR_DEBUG

static pthread_once_t once = PTHREAD_ONCE_INIT;
static uint64_t seed; /* const after once; 0: off */
static _Atomic uint64_t thread_number;

static void read_seed(void)
{
    const char *text = getenv("HR_STALL");
    seed = text ? strtoull(text, NULL, 10) : 0;
}

/* The next number of this thread's own sequence (xorshift64*). */
static uint64_t draw(void)
{
    static _Thread_local uint64_t state;
    if (state == 0)
        state = seed * UINT64_C(0x9E3779B97F4A7C15) +
                atomic_fetch_add(&thread_number, 1) * UINT64_C(0xD1342543DE82EF95) + 1;
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return state * UINT64_C(0x2545F4914F6CDD1D) >> 32;
}

static bool is_on(void)
{
    (void)pthread_once(&once, read_seed);
    return seed != 0;
}

void hr__stall_point(void)
{
    if (!is_on())
        return;
    uint64_t n = draw();
    struct timespec time = {0, (long)(n >> 8) % 50000};
    if (n % 32 == 0)
        (void)nanosleep(&time, NULL);
    else if (n % 8 == 0)
        (void)sched_yield();
}

bool hr__stall_fails(void)
{
    return is_on() && draw() % 8 == 0;
}

#endif
