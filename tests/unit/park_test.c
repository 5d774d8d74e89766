/* Parking: one wake-up is remembered, deadlines and signals end the sleep. */
#include "base/park.h"

#include <errno.h>
#include <signal.h>

#include "base/sys.h"
#include "hr_test.h"

static void a_wake_before_the_sleep_is_kept(void)
{
    struct hr_parker parker;
    hr__parker_init(&parker);
    hr__unpark(&parker);
    hr__unpark(&parker); /* two are one */
    HR_CHECK_EQ_INT(hr__park(&parker, 0), 0);
    HR_CHECK_EQ_INT(hr__park(&parker, 0), ETIMEDOUT);
}

static void a_deadline_ends_the_sleep(void)
{
    struct hr_parker parker;
    hr__parker_init(&parker);
    int64_t deadline = HR_SYS(now_ns)() + 5000000;
    HR_CHECK_EQ_INT(hr__park(&parker, deadline), ETIMEDOUT);
    HR_CHECK(HR_SYS(now_ns)() >= deadline);
    HR_CHECK_EQ_INT(hr__park(&parker, -1), ETIMEDOUT);
}

enum { ROUNDS = 2000 };

struct pair {
    struct hr_parker ping, pong;
    int value; /* plain: the parkers order it */
};

static void *answer(void *arg)
{
    struct pair *pair = arg;
    for (int i = 0; i < ROUNDS; i++) {
        while (hr__park(&pair->ping, HR_FOREVER) != 0)
            ;
        pair->value++;
        hr__unpark(&pair->pong);
    }
    return NULL;
}

static void a_wake_publishes_what_was_written(void)
{
    struct pair pair = {.value = 0};
    hr__parker_init(&pair.ping);
    hr__parker_init(&pair.pong);
    pthread_t thread;
    HR_REQUIRE(HR_SYS(thread_start)(&thread, answer, &pair) == 0);
    for (int i = 0; i < ROUNDS; i++) {
        pair.value++;
        hr__unpark(&pair.ping);
        while (hr__park(&pair.pong, HR_FOREVER) != 0)
            ;
    }
    HR_CHECK_EQ_INT(pair.value, 2 * ROUNDS);
    pthread_join(thread, NULL);
}

static void on_signal(int number)
{
    (void)number;
}

struct sleeper {
    struct hr_parker parker;
    _Atomic int result; /* -1: not back yet */
};

static void *sleep_for_ever(void *arg)
{
    struct sleeper *sleeper = arg;
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    atomic_store(&sleeper->result, hr__park(&sleeper->parker, HR_FOREVER));
    return NULL;
}

static void a_signal_ends_the_sleep(void)
{
    struct sigaction action = {.sa_handler = on_signal}, old;
    sigaction(SIGUSR1, &action, &old);
    struct sleeper sleeper;
    hr__parker_init(&sleeper.parker);
    atomic_init(&sleeper.result, -1);
    pthread_t thread;
    HR_REQUIRE(HR_SYS(thread_start)(&thread, sleep_for_ever, &sleeper) == 0);
    /* The first signals may come before the thread sleeps, so go on until it is back.
     */
    struct hr_parker clock;
    hr__parker_init(&clock);
    while (atomic_load(&sleeper.result) == -1) {
        pthread_kill(thread, SIGUSR1);
        (void)hr__park(&clock, HR_SYS(now_ns)() + 1000000);
    }
    pthread_join(thread, NULL);
    HR_CHECK_EQ_INT(atomic_load(&sleeper.result), EINTR);
    sigaction(SIGUSR1, &old, NULL);
}

static int wakes;

static void count_wake(_Atomic uint32_t *word, int count)
{
    (void)word;
    (void)count;
    wakes++;
}

static void no_system_call_wakes_a_thread_that_is_awake(void)
{
    struct hr_parker parker;
    hr__parker_init(&parker);
    wakes = 0;
    hr__sys.futex_wake = count_wake;
    hr__unpark(&parker);
    HR_CHECK_EQ_INT(wakes, 0);
    HR_CHECK_EQ_INT(hr__park(&parker, HR_FOREVER), 0);
    atomic_store(&parker.word, 2); /* as if its thread slept */
    hr__unpark(&parker);
    HR_CHECK_EQ_INT(wakes, 1);
    hr__sys.futex_wake = hr__sys_direct.futex_wake;
}

static const struct hr_test tests[] = {
    HR_TEST(a_wake_before_the_sleep_is_kept),
    HR_TEST(a_deadline_ends_the_sleep),
    HR_TEST(a_wake_publishes_what_was_written),
    HR_TEST(a_signal_ends_the_sleep),
    HR_TEST(no_system_call_wakes_a_thread_that_is_awake),
};

HR_TEST_MAIN(tests)
