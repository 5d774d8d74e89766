/* cpus_test.c - how many threads a pipeline gets when nobody says. */
#include <stdlib.h>

#include "engine/cpus.h"
#include "hr_test.h"

static void a_quota_is_rounded_up(void)
{
    HR_CHECK_EQ_INT(hr__cpus_of_quota("200000 100000\n"), 2);
    HR_CHECK_EQ_INT(hr__cpus_of_quota("250000 100000\n"), 3);
    HR_CHECK_EQ_INT(hr__cpus_of_quota("1000 100000\n"), 1);
}

static void no_quota_is_no_limit(void)
{
    HR_CHECK_EQ_INT(hr__cpus_of_quota("max 100000\n"), 0);
    HR_CHECK_EQ_INT(hr__cpus_of_quota(""), 0);
    HR_CHECK_EQ_INT(hr__cpus_of_quota("200000"), 0);
    HR_CHECK_EQ_INT(hr__cpus_of_quota("200000 0"), 0);
}

/* What is no number, or none that can be meant, counts as not set. */
static void variables_decide(void)
{
    (void)setenv("HEADRACE_THREADS", "7", 1);
    (void)setenv("LOCAL_WORLD_SIZE", "2", 1);
    HR_CHECK_EQ_INT(hr__cpus_default(), 7);
    (void)unsetenv("HEADRACE_THREADS");
    (void)setenv("LOCAL_WORLD_SIZE", "1", 1);
    uint32_t all = hr__cpus_default();
    HR_CHECK(all >= 1);
    (void)setenv("LOCAL_WORLD_SIZE", "2", 1);
    HR_CHECK_EQ_INT(hr__cpus_default(), all / 2 > 0 ? all / 2 : 1);
    (void)setenv("LOCAL_WORLD_SIZE", "4096", 1);
    HR_CHECK_EQ_INT(hr__cpus_default(), 1);
    (void)unsetenv("LOCAL_WORLD_SIZE");
    static const char *const ignored[] = {"", "0", "x", "3 threads", "1000000"};
    for (size_t i = 0; i < sizeof(ignored) / sizeof(ignored[0]); i++) {
        (void)setenv("HEADRACE_THREADS", ignored[i], 1);
        HR_CHECK_EQ_INT(hr__cpus_default(), all);
    }
    (void)unsetenv("HEADRACE_THREADS");
}

static const struct hr_test tests[] = {
    HR_TEST(a_quota_is_rounded_up),
    HR_TEST(no_quota_is_no_limit),
    HR_TEST(variables_decide),
};

HR_TEST_MAIN(tests)
