/* Percentiles of task times: exact ranks, and values within 6 %. */
#include "engine/histogram.h"

#include "hr_test.h"

static const uint32_t ppm[] = {500000, 900000, 990000};

static uint64_t only(int64_t ns)
{
    struct hr_histogram histogram = {{0}};
    uint64_t got[3];
    hr__histogram_add(&histogram, ns, 1);
    hr__histogram_quantiles(&histogram, ppm, 3, got);
    HR_CHECK_EQ_INT(got[0], got[1]);
    HR_CHECK_EQ_INT(got[0], got[2]);
    return got[0];
}

static void short_times_are_exact(void)
{
    for (int64_t ns = 0; ns < 16; ns++)
        HR_CHECK_EQ_INT(only(ns), ns);
    HR_CHECK_EQ_INT(only(-5), 0);
}

/* Every bucket's ends, and primes in between. */
static void a_time_is_told_within_six_percent(void)
{
    for (int64_t ns = 16; ns < INT64_C(1) << 46; ns += ns / 37 + 1) {
        uint64_t got = only(ns);
        int64_t off = (int64_t)got - ns;
        HR_CHECK(off * 100 <= 6 * ns && off * 100 >= -6 * ns);
    }
    for (int bits = 4; bits < 46; bits++) {
        for (int64_t step = 8; step < 16; step++) {
            int64_t low = step << (bits - 3), high = ((step + 1) << (bits - 3)) - 1;
            HR_CHECK_EQ_INT(only(low), only(high)); /* one bucket */
            HR_CHECK(only(low - 1) < only(low));
        }
    }
}

static void very_long_times_count_as_the_longest(void)
{
    uint64_t longest = only((INT64_C(1) << 46) - 1);
    HR_CHECK_EQ_INT(only(INT64_C(1) << 46), longest);
    HR_CHECK_EQ_INT(only(INT64_MAX), longest);
    HR_CHECK(longest > UINT64_C(60000000000000)); /* 2^46 ns are 70,368 s */
}

static void check(const struct hr_histogram *histogram, uint64_t p50, uint64_t p90,
                  uint64_t p99)
{
    uint64_t got[3];
    hr__histogram_quantiles(histogram, ppm, 3, got);
    HR_CHECK_EQ_INT(got[0], p50);
    HR_CHECK_EQ_INT(got[1], p90);
    HR_CHECK_EQ_INT(got[2], p99);
}

static void ranks_are_the_nearest_ones(void)
{
    struct hr_histogram histogram = {{0}};
    check(&histogram, 0, 0, 0);
    for (int64_t ns = 1; ns <= 10; ns++)
        hr__histogram_add(&histogram, ns, 1);
    check(&histogram, 5, 9, 10); /* of ten, the 5th, the 9th, the 10th */
    hr__histogram_add(&histogram, 11, 1);
    check(&histogram, 6, 10, 11); /* 5.5, 9.9 and 10.89 rounded up */
}

/* Sums over 2^32 and products over 2^64. */
static void many_samples(void)
{
    struct hr_histogram histogram = {{0}};
    for (int i = 0; i < 98; i++)
        hr__histogram_add(&histogram, 3, UINT32_MAX);
    check(&histogram, 3, 3, 3);
    hr__histogram_add(&histogram, 12, UINT32_MAX);
    check(&histogram, 3, 3, 12); /* 98/99 is less than 0.99 */
    hr__histogram_add(&histogram, 2, UINT32_MAX);
    check(&histogram, 3, 3, 3); /* 99/100 is not */
}

static const struct hr_test tests[] = {
    HR_TEST(short_times_are_exact),
    HR_TEST(a_time_is_told_within_six_percent),
    HR_TEST(very_long_times_count_as_the_longest),
    HR_TEST(ranks_are_the_nearest_ones),
    HR_TEST(many_samples),
};

HR_TEST_MAIN(tests)
