/* hr_test.h - what the C unit tests are written with.
 *
 *     static void sum_of_two(void)
 *     {
 *         HR_REQUIRE(ready());
 *         HR_CHECK_EQ_INT(1 + 1, 2);
 *     }
 *
 *     static const struct hr_test tests[] = {HR_TEST(sum_of_two)};
 *     HR_TEST_MAIN(tests)
 *
 * Output is TAP 13. A name as argument runs that test alone. Checks may be made in any
 * thread; a failed one prints itself and goes on. HR_REQUIRE returns from its function,
 * for use where going on makes no sense. After every test the number of live buffers
 * must be what it was before. */
#ifndef HR_TEST_H
#define HR_TEST_H

#include <inttypes.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "headrace/buffer.h"

struct hr_test {
    const char *name;
    void (*run)(void);
};

#define HR_TEST(name_) {#name_, name_}

/* Failed checks of the running test. */
static atomic_int hr_test_failures;

/* ok, or count and print the failure. One fprintf is one line: threads do not mix. */
__attribute__((unused)) static bool hr_test_check(bool ok, const char *file, int line,
                                                  const char *text)
{
    if (!ok) {
        atomic_fetch_add(&hr_test_failures, 1);
        printf("# %s:%d: not so: %s\n", file, line, text);
    }
    return ok;
}

__attribute__((unused)) static bool
hr_test_int(intmax_t got, intmax_t want, const char *file, int line, const char *text)
{
    if (got != want) {
        atomic_fetch_add(&hr_test_failures, 1);
        printf("# %s:%d: %s is %" PRIdMAX ", expected %" PRIdMAX "\n", file, line, text,
               got, want);
    }
    return got == want;
}

__attribute__((unused)) static bool hr_test_str(const char *got, const char *want,
                                                const char *file, int line,
                                                const char *text)
{
    bool ok = got && want ? strcmp(got, want) == 0 : got == want;
    if (!ok) {
        atomic_fetch_add(&hr_test_failures, 1);
        printf("# %s:%d: %s is \"%s\", expected \"%s\"\n", file, line, text,
               got ? got : "(null)", want ? want : "(null)");
    }
    return ok;
}

#define HR_CHECK(cond) ((void)hr_test_check((cond), __FILE__, __LINE__, #cond))
#define HR_CHECK_EQ_INT(got, want)                                                     \
    ((void)hr_test_int((intmax_t)(got), (intmax_t)(want), __FILE__, __LINE__, #got))
#define HR_CHECK_STR(got, want)                                                        \
    ((void)hr_test_str((got), (want), __FILE__, __LINE__, #got))
#define HR_REQUIRE(cond)                                                               \
    do {                                                                               \
        if (!hr_test_check((cond), __FILE__, __LINE__, #cond))                         \
            return;                                                                    \
    } while (0)

static inline int64_t hr_test_live(void)
{
    struct hr_pool_stats stats;
    hr_pool_stats(&stats);
    return (int64_t)stats.live_count;
}

/* True if it passed. */
static inline bool hr_test_run(const struct hr_test *test, int number)
{
    atomic_store(&hr_test_failures, 0);
    int64_t live = hr_test_live();
    test->run();
    hr_test_int(hr_test_live(), live, test->name, 0, "number of live buffers");
    bool ok = atomic_load(&hr_test_failures) == 0;
    printf("%sok %d - %s\n", ok ? "" : "not ", number, test->name);
    fflush(stdout); /* so that nothing is lost, or printed twice after a fork */
    return ok;
}

static inline int hr_test_main(const struct hr_test *tests, int count, int argc,
                               char **argv)
{
    int failed = 0, found = 0;
    printf("TAP version 13\n");
    if (argc < 2)
        printf("1..%d\n", count);
    fflush(stdout);
    for (int i = 0; i < count; i++) {
        if (argc >= 2 && strcmp(argv[1], tests[i].name) != 0)
            continue;
        found++;
        failed += !hr_test_run(&tests[i], found);
    }
    if (argc >= 2)
        printf("1..%d\n", found);
    hr_pool_trim(); /* so that leak checkers see what is left otherwise */
    return failed > 0 || found == 0;
}

#define HR_TEST_MAIN(tests)                                                            \
    int main(int argc, char **argv)                                                    \
    {                                                                                  \
        int count = (int)(sizeof(tests) / sizeof((tests)[0]));                         \
        return hr_test_main(tests, count, argc, argv);                                 \
    }

#endif
