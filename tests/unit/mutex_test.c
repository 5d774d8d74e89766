/* Mutexes exclude; debug builds abort on broken order and on foreign unlocks. */
#include "base/mutex.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/sys.h"
#include "hr_test.h"

static struct hr_mutex low, high;

static void make(void)
{
    hr__mutex_init(&low, HR_RANK_ENGINE);
    hr__mutex_init(&high, HR_RANK_POOL);
}

static void unmake(void)
{
    hr__mutex_fini(&low);
    hr__mutex_fini(&high);
}

/* True if fn, in a child of its own, ends in abort(). */
static bool aborts(void (*fn)(void))
{
    pid_t pid = fork();
    if (pid == 0) {
        struct rlimit none = {0, 0};
        setrlimit(RLIMIT_CORE, &none);
        signal(SIGABRT, SIG_DFL);
        if (!freopen("/dev/null", "w", stderr))
            _exit(3);
        fn();
        _exit(0);
    }
    int status = 0;
    return waitpid(pid, &status, 0) == pid && WIFSIGNALED(status) &&
           WTERMSIG(status) == SIGABRT;
}

enum { THREADS = 4, ROUNDS = 5000 };
static int shared_count; /* under low */

static void *count_up(void *arg)
{
    (void)arg;
    for (int i = 0; i < ROUNDS; i++) {
        hr__mutex_lock(&low);
        hr__mutex_assert_held(&low);
        shared_count++;
        hr__mutex_unlock(&low);
    }
    return NULL;
}

static void only_one_thread_is_inside(void)
{
    make();
    pthread_t thread[THREADS];
    shared_count = 0;
    for (int i = 0; i < THREADS; i++)
        HR_REQUIRE(HR_SYS(thread_start)(&thread[i], count_up, NULL) == 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    HR_CHECK_EQ_INT(shared_count, THREADS * ROUNDS);
    unmake();
}

static void *try_low(void *out)
{
    bool got = hr__mutex_try_lock(&low);
    if (got)
        hr__mutex_unlock(&low);
    *(bool *)out = got;
    return NULL;
}

static bool other_thread_gets_low(void)
{
    pthread_t thread;
    bool got = true;
    if (HR_SYS(thread_start)(&thread, try_low, &got) == 0)
        pthread_join(thread, NULL);
    return got;
}

static void try_lock_fails_while_it_is_held(void)
{
    make();
    hr__mutex_lock(&low);
    HR_CHECK(!other_thread_gets_low());
    hr__mutex_unlock(&low);
    HR_CHECK(other_thread_gets_low());
    unmake();
}

static void rising_order(void)
{
    hr__mutex_lock(&low);
    hr__mutex_lock(&high);
    hr__mutex_unlock(&low); /* any order of unlocking is right */
    hr__mutex_unlock(&high);
}

/* Wrong on purpose, so hidden from the compiler's own analysis, as are some below. */
static void falling_order(void) HR_NO_THREAD_SAFETY
{
    hr__mutex_lock(&high);
    hr__mutex_lock(&low);
}

static void same_rank_twice(void) HR_NO_THREAD_SAFETY
{
    struct hr_mutex second;
    hr__mutex_init(&second, HR_RANK_ENGINE);
    hr__mutex_lock(&low);
    hr__mutex_lock(&second);
}

static void try_out_of_order(void)
{
    hr__mutex_lock(&high);
    if (hr__mutex_try_lock(&low))
        hr__mutex_unlock(&low);
    hr__mutex_unlock(&high);
}

static void lock_above_a_tried_one(void) HR_NO_THREAD_SAFETY
{
    struct hr_mutex middle;
    hr__mutex_init(&middle, HR_RANK_SINK);
    if (hr__mutex_try_lock(&high))
        hr__mutex_lock(&middle); /* the tried one was recorded */
}

static void ranks_must_rise(void)
{
    make();
    HR_CHECK(!aborts(rising_order));
    HR_CHECK(aborts(falling_order));
    HR_CHECK(aborts(same_rank_twice));
    HR_CHECK(!aborts(try_out_of_order));
    HR_CHECK(aborts(lock_above_a_tried_one));
    unmake();
}

static void unlock_not_held(void) HR_NO_THREAD_SAFETY
{
    hr__mutex_unlock(&low);
}

static void assert_not_held(void)
{
    hr__mutex_assert_held(&low);
}

static void fini_held(void) HR_NO_THREAD_SAFETY
{
    hr__mutex_lock(&low);
    hr__mutex_fini(&low);
}

static void only_the_owner_unlocks(void)
{
    make();
    HR_CHECK(aborts(unlock_not_held));
    HR_CHECK(aborts(assert_not_held));
    HR_CHECK(aborts(fini_held));
    unmake();
}

static const struct hr_test tests[] = {
    HR_TEST(only_one_thread_is_inside),
    HR_TEST(try_lock_fails_while_it_is_held),
    HR_TEST(ranks_must_rise),
    HR_TEST(only_the_owner_unlocks),
};

HR_TEST_MAIN(tests)
