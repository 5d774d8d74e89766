/* engine_policy_test.c - failures that end a run, and items that are tried again. */
#include <string.h>

#include "engine_kit.h"
#include "hr_test.h"

enum { END = 64, MAX = 256 };

static const struct hr_retry_policy quick = {.times = 2,
                                             .backoff_ns = 100000,
                                             .backoff_max_ns = 300000,
                                             .statuses = UINT64_C(1) << HR_ERR_IO};

/* ---- raise ---- */

/* In input order a run is like a loop that the first failure ends. */
static void run_raise(bool foreign, uint32_t concurrency, long every)
{
    struct fake_settings settings = {0};
    struct kit_source source = {.end = END, .fail_at = -1, .fatal_at = -1};
    struct kit_op op = {.fail_every = every, .add = 100}, after = {.add = 1};
    struct hr_stage_options options = {.concurrency = concurrency,
                                       .order = HR_OUTPUT_INPUT};
    struct kit_plan plan = {
        .source = &source,
        .stages = {{.kind = KIT_NATIVE, .op = &after, .options = options},
                   {.kind = foreign ? KIT_FOREIGN : KIT_NATIVE,
                    .op = &op,
                    .options = options,
                    .on_error = HR_ON_ERROR_RAISE}},
        .count = 2,
        .options = {.num_threads = 3},
        .runtime = fake_begin(&settings)};
    long got[MAX], number;
    enum hr_status end;
    struct hr_failure failure;
    struct hr_pipeline *p = kit_start(&plan);
    HR_REQUIRE(p);
    /* The second stage gets 1 … END; its first failure is at `every`. */
    HR_CHECK_EQ_INT(kit_drain(p, false, got, MAX, &end), every - 1);
    for (long i = 0; i < every - 1; i++)
        HR_CHECK_EQ_INT(got[i], i + 101);
    HR_CHECK_EQ_INT(end, HR_ERR_FORMAT);
    HR_CHECK(hr__pipeline_final_failure(p, &failure));
    HR_CHECK_EQ_INT(failure.index, every - 1);
    HR_CHECK_EQ_INT(kit_next(p, &number), HR_END);
    struct hr_stage_stats stats[4];
    (void)hr_pipeline_stats(p, stats, 4);
    HR_CHECK_EQ_INT(stats[2].items_in,
                    stats[2].items_out + stats[2].failed + stats[2].released);
    hr_pipeline_free(&p);
    HR_CHECK_EQ_INT(fake_end(), 0);
}

static void a_raise_in_input_order_is_like_a_loop(void)
{
    for (uint32_t round = 0; round < 60; round++)
        run_raise(round % 2, 1 + round % 7, 1 + round);
}

/* ---- retries ---- */

static void run_retries(bool foreign, uint32_t concurrency, bool ordered, int times)
{
    struct fake_settings settings = {0};
    struct kit_source source = {.end = END, .fail_at = -1, .fatal_at = -1};
    struct kit_op op = {.flaky_every = 3, .flaky_times = times, .add = 1000};
    struct kit_plan plan = {
        .source = &source,
        .stages = {{.kind = foreign ? KIT_FOREIGN : KIT_NATIVE,
                    .op = &op,
                    .options = {.concurrency = concurrency,
                                .order =
                                    ordered ? HR_OUTPUT_INPUT : HR_OUTPUT_COMPLETION},
                    .retry = quick}},
        .count = 1,
        .options = {.num_threads = 2},
        .runtime = fake_begin(&settings)};
    long got[MAX], want[MAX];
    size_t n = 0;
    enum hr_status end;
    struct hr_stage_stats stats[3];
    struct hr_pipeline *p = kit_start(&plan);
    HR_REQUIRE(p);
    for (long i = 0; i < END; i++)
        if (i % 3 || times <= 2)
            want[n++] = i + 1000;
    HR_CHECK_EQ_INT(kit_drain(p, foreign, got, MAX, &end), n);
    HR_CHECK_EQ_INT(end, HR_END);
    if (!ordered)
        kit_sort(got, n);
    HR_CHECK(memcmp(got, want, n * sizeof(long)) == 0);
    (void)hr_pipeline_stats(p, stats, 3);
    /* 22 of 0 … 63 are multiples of 3 */
    HR_CHECK_EQ_INT(stats[1].retried, 22 * (times < 2 ? times : 2));
    HR_CHECK_EQ_INT(stats[1].failed, times > 2 ? 22 : 0);
    HR_CHECK_EQ_INT(atomic_load(&op.calls), END + 22 * (times < 2 ? times : 2));
    hr_pipeline_free(&p);
    HR_CHECK_EQ_INT(fake_end(), 0);
}

static void flaky_items_come_in_the_end(void)
{
    for (int round = 0; round < 32; round++)
        run_retries(round % 2, 1 + (uint32_t)round % 7, round & 4, round % 4);
}

static bool has_waiting(void *pipeline)
{
    struct hr_stage_stats stats[3];
    (void)hr_pipeline_stats(pipeline, stats, 3);
    return stats[1].retried > 2;
}

/* A stop lets go at once of what waits for minutes. */
static void a_stop_ends_what_waits(void)
{
    for (int foreign = 0; foreign < 2; foreign++) {
        struct fake_settings settings = {0};
        struct kit_source source = {
            .end = END, .fail_at = -1, .fatal_at = -1, .form = KIT_OBJECT};
        struct kit_op op = {.flaky_every = 1, .flaky_times = 1000};
        struct hr_retry_policy slow = quick;
        slow.times = 1000;
        slow.backoff_ns = slow.backoff_max_ns = INT64_C(600000000000);
        struct kit_plan plan = {.source = &source,
                                .stages = {{.kind = foreign ? KIT_FOREIGN : KIT_NATIVE,
                                            .op = &op,
                                            .options = {.concurrency = 4},
                                            .retry = slow}},
                                .count = 1,
                                .options = {.num_threads = 2},
                                .runtime = fake_begin(&settings)};
        struct hr_stage_stats stats[3];
        struct hr_pipeline *p = kit_start(&plan);
        HR_REQUIRE(p);
        HR_CHECK(kit_await(has_waiting, p));
        HR_CHECK_EQ_INT(hr_pipeline_stop(p, HR_NO_DEADLINE, NULL), HR_OK);
        (void)hr_pipeline_stats(p, stats, 3);
        HR_CHECK_EQ_INT(stats[1].running, 0);
        /* an attempt that was under way may have failed for good */
        HR_CHECK_EQ_INT(stats[1].items_in, stats[1].released + stats[1].failed);
        HR_CHECK(stats[1].released > 0);
        hr_pipeline_free(&p);
        HR_CHECK_EQ_INT(fake_end(), 0);
    }
}

static void refused_attaches_end_retries(void)
{
    for (uint32_t from = 1; from <= 12; from++) {
        struct fake_settings settings = {.refuse_from = from};
        struct kit_source source = {.end = 1000, .fail_at = -1, .fatal_at = -1};
        struct kit_op op = {.flaky_every = 1, .flaky_times = 1000, .sleep_ns = 200000};
        struct hr_retry_policy often = quick;
        often.times = 1000;
        struct kit_plan plan = {.source = &source,
                                .stages = {{.kind = KIT_FOREIGN,
                                            .op = &op,
                                            .options = {.concurrency = 3},
                                            .retry = often}},
                                .count = 1,
                                .options = {.num_threads = 2},
                                .runtime = fake_begin(&settings)};
        enum hr_status end;
        struct hr_pipeline *p = kit_start(&plan);
        HR_REQUIRE(p);
        HR_CHECK_EQ_INT(kit_drain(p, false, NULL, 0, &end), 0);
        HR_CHECK_EQ_INT(end, HR_ERR_STATE);
        hr_pipeline_free(&p);
        HR_CHECK_EQ_INT(fake_end(), 0);
    }
}

static void policies_need_a_stage_that_fits(void)
{
    struct hr_plan *plan = NULL;
    struct hr_error err = {0};
    struct hr_source source;
    struct hr_retry_policy wrong = {.times = 1, .backoff_ns = -1};
    HR_REQUIRE(hr_plan_new(&plan, &err) == HR_OK);
    HR_CHECK_EQ_INT(hr_plan_on_error(plan, HR_ON_ERROR_RAISE, &err), HR_ERR_STATE);
    HR_REQUIRE(hr_source_of_texts(NULL, 0, &source, &err) == HR_OK);
    HR_REQUIRE(hr_plan_source(plan, &source, &err) == HR_OK);
    HR_CHECK_EQ_INT(hr_plan_on_error(plan, HR_ON_ERROR_RAISE, &err), HR_ERR_STATE);
    HR_REQUIRE(hr_plan_aggregate(plan, 2, 0, 0, &err) == HR_OK);
    HR_CHECK_EQ_INT(hr_plan_on_error(plan, HR_ON_ERROR_RAISE, &err), HR_OK);
    HR_CHECK_EQ_INT(hr_plan_retry(plan, &quick, &err), HR_ERR_STATE);
    HR_CHECK(strstr(err.text, "aggregate(2)"));
    HR_CHECK_EQ_INT(hr_plan_retry(plan, &wrong, &err), HR_ERR_STATE);
    hr_plan_free(&plan);
}

static const struct hr_test tests[] = {
    HR_TEST(a_raise_in_input_order_is_like_a_loop),
    HR_TEST(flaky_items_come_in_the_end),
    HR_TEST(a_stop_ends_what_waits),
    HR_TEST(refused_attaches_end_retries),
    HR_TEST(policies_need_a_stage_that_fits),
};

HR_TEST_MAIN(tests)
