/* engine_async_test.c - the engine and an event loop. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "async_kit.h"
#include "base/sys.h"
#include "hr_test.h"

/* ---- the model ---- */

static size_t model(const struct loop_plan *plan, long *out)
{
    size_t count = 0;
    for (long i = 0; i < plan->items; i++)
        out[count++] = i;
    for (const struct loop_stage *stage = plan->stages; stage->kind; stage++) {
        static long next[LOOP_ITEMS_MAX];
        size_t n = 0;
        if (stage->kind == 'S') {
            while ((long)n < stage->fan)
                next[n] = (long)n, n++;
        }
        for (size_t i = 0; i < count; i++) {
            long item = out[i];
            if (stage->kind == 'G') {
                for (long k = 0; k < item % (stage->fan + 1); k++)
                    next[n++] = item * 10 + k;
            } else if (!loop_divides(stage->fail_every, item) &&
                       !loop_divides(stage->skip_every, item)) {
                next[n++] = item + stage->add;
            }
        }
        memcpy(out, next, n * sizeof(*out));
        count = n;
    }
    return count;
}

static void run_and_compare(const struct loop_plan *plan, unsigned seed, bool attached)
{
    static long want[LOOP_ITEMS_MAX], got[LOOP_ITEMS_MAX];
    enum hr_status end;
    struct hr_pipeline *p = loop_start(plan, seed);
    HR_REQUIRE(p);
    size_t n = model(plan, want);
    size_t count = kit_drain(p, attached, got, LOOP_ITEMS_MAX, &end);
    HR_CHECK_EQ_INT(end, HR_END);
    HR_CHECK_EQ_INT(count, n);
    if (plan->order == HR_OUTPUT_COMPLETION) {
        kit_sort(want, n);
        kit_sort(got, count);
    }
    HR_CHECK(memcmp(want, got, count * sizeof(*got)) == 0);
    loop_finish(p, plan);
}

#define MAP {.kind = 'A', .fail_every = 7, .skip_every = 5, .add = 1}
#define EXPAND {.kind = 'G', .fan = 20}
#define SOURCE {.kind = 'S', .fan = 90}
#define AWAITS {.kind = 'L', .fail_every = 7, .skip_every = 5, .add = 1}
#define LATE {.kind = 'L', .add = 1, .at_once_to = 60}

static void chains_give_what_loops_give(void)
{
    static struct loop_stage chains[][4] = {
        {MAP},          {EXPAND},       {SOURCE},         {AWAITS},
        {LATE},         {MAP, MAP},     {MAP, EXPAND},    {EXPAND, MAP},
        {SOURCE, MAP},  {SOURCE, LATE}, {AWAITS, EXPAND}, {SOURCE, EXPAND, MAP},
        {LATE, AWAITS},
    };
    unsigned seed = 0;
    for (size_t i = 0; i < sizeof(chains) / sizeof(chains[0]); i++) {
        for (uint32_t c = 1; c <= 7; c += 3) {
            for (int order = 0; order < 2; order++) {
                struct loop_plan plan = {.stages = chains[i],
                                         .items = chains[i][0].kind == 'S' ? 0 : 90,
                                         .concurrency = c,
                                         .order = order ? HR_OUTPUT_INPUT
                                                        : HR_OUTPUT_COMPLETION};
                seed++;
                run_and_compare(&plan, seed, seed % 2);
            }
        }
    }
}

static void an_empty_source_ends(void)
{
    static struct loop_stage stages[] = {MAP, AWAITS, {0}};
    struct loop_plan plan = {.stages = stages, .concurrency = 3};
    run_and_compare(&plan, 1, false);
}

/* The watchdog looks at tasks all the time, in a thread of its own. */
static void watched_while_they_go_on(void)
{
    static struct loop_stage stages[] = {MAP, EXPAND, {0}};
    struct loop_plan plan = {
        .stages = stages, .items = 90, .concurrency = 3, .deadline_ns = 20000};
    for (unsigned seed = 1; seed < 20; seed++)
        run_and_compare(&plan, seed, seed % 2);
}

static void stop_at_any_moment(void)
{
    static struct loop_stage chains[][4] = {
        {MAP, EXPAND}, {SOURCE, MAP}, {AWAITS, MAP}, {SOURCE, LATE, EXPAND}};
    for (unsigned seed = 0; seed < 60; seed++) {
        struct loop_stage *stages = chains[seed % 4];
        struct loop_plan plan = {.stages = stages,
                                 .items = stages[0].kind == 'S' ? 0 : 500,
                                 .concurrency = 1 + seed % 5,
                                 .order =
                                     seed % 3 ? HR_OUTPUT_INPUT : HR_OUTPUT_COMPLETION};
        struct hr_pipeline *p = loop_start(&plan, seed);
        HR_REQUIRE(p);
        long number;
        for (unsigned i = 0; i < seed % 13; i++)
            (void)kit_next(p, &number);
        loop_finish(p, &plan);
    }
}

static void misfits_fail_before_they_are_begun(void)
{
    static struct loop_stage stages[] = {MAP, {0}};
    struct loop_plan plan = {
        .stages = stages, .items = 40, .concurrency = 3, .key = "x"};
    enum hr_status end;
    long got[8];
    struct hr_pipeline_summary summary;
    struct hr_pipeline *p = loop_start(&plan, 1);
    HR_REQUIRE(p);
    HR_CHECK_EQ_INT(kit_drain(p, false, got, 8, &end), 0);
    HR_CHECK_EQ_INT(end, HR_END);
    hr_pipeline_summary(p, &summary);
    HR_CHECK_EQ_INT(summary.failed, 40); /* texts, where records are needed */
    loop_finish(p, &plan);
}

static void what_is_stuck_is_named(void)
{
    static struct loop_stage stages[] = {{.kind = 'A', .stuck_at = 5}, {0}};
    struct loop_plan plan = {
        .stages = stages, .items = 20, .concurrency = 2, .order = HR_OUTPUT_INPUT};
    struct hr_error err = {0};
    long number;
    struct hr_pipeline *p = loop_start(&plan, 1);
    HR_REQUIRE(p);
    for (long i = 0; i < 5; i++) {
        HR_CHECK_EQ_INT(kit_next(p, &number), HR_OK);
        HR_CHECK_EQ_INT(number, i);
    }
    HR_CHECK_EQ_INT(hr_pipeline_stop(p, hr__sys_direct.now_ns() + 50000000, &err),
                    HR_TIMEOUT);
    HR_CHECK(strstr(err.text, "'stage' still awaits item 5") != NULL);
    atomic_store(&loop.release, true);
    loop_finish(p, &plan);
}

static void a_thread_that_does_not_come(void)
{
    static struct loop_stage stages[] = {MAP, {0}};
    struct loop_plan plan = {.stages = stages, .items = 20, .concurrency = 2};
    struct hr_pipeline *p = loop_build(&plan, 1);
    HR_REQUIRE(p);
    HR_CHECK_EQ_INT(hr_pipeline_start(p, NULL), HR_OK);
    HR_CHECK_EQ_INT(hr__async_expect(p, NULL), HR_OK);
    HR_CHECK_EQ_INT(hr__async_expect(p, NULL), HR_AGAIN);
    hr__async_abandon(p);
    loop_finish(p, &plan);
}

static bool refuse_loop(void *cookie)
{
    (void)cookie;
    return false;
}

static void no_loop_for_a_function_that_awaits(void)
{
    static struct loop_stage stages[] = {{.kind = 'L', .add = 1, .at_once_to = 30},
                                         {0}};
    struct loop_plan plan = {
        .stages = stages, .items = 50, .concurrency = 2, .order = HR_OUTPUT_INPUT};
    enum hr_status end;
    long got[64];
    struct hr_failure failure;
    struct hr_pipeline *p = loop_build(&plan, 1);
    HR_REQUIRE(p);
    ((struct hr_runtime *)(uintptr_t)loop.runtime)->start_loop = refuse_loop;
    HR_CHECK_EQ_INT(hr_pipeline_start(p, NULL), HR_OK);
    HR_CHECK_EQ_INT(kit_drain(p, false, got, 64, &end), 30);
    HR_CHECK_EQ_INT(hr_pipeline_failure(p, 19, &failure), HR_OK);
    HR_CHECK_EQ_INT(failure.error.status, HR_ERR_THREAD);
    HR_CHECK_EQ_INT(hr_pipeline_failure(p, 20, &failure), HR_END);
    loop_finish(p, &plan);
}

static bool promise_loop(void *cookie)
{
    (void)cookie;
    fake_leave();
    enum hr_status status = hr__async_expect(loop.pipeline, NULL);
    fake_enter();
    return status == HR_OK;
}

/* What workers gave to a loop that is then given up fails, and nothing hangs. */
static void a_promised_thread_that_does_not_come(void)
{
    static struct loop_stage stages[] = {{.kind = 'L', .add = 1, .at_once_to = 7}, {0}};
    struct loop_plan plan = {
        .stages = stages, .items = 50, .concurrency = 3, .order = HR_OUTPUT_INPUT};
    enum hr_status end;
    long got[64], number;
    struct hr_failure failure;
    struct hr_pipeline *p = loop_build(&plan, 1);
    HR_REQUIRE(p);
    ((struct hr_runtime *)(uintptr_t)loop.runtime)->start_loop = promise_loop;
    HR_CHECK_EQ_INT(hr_pipeline_start(p, NULL), HR_OK);
    for (long i = 0; i < 7; i++)
        HR_CHECK_EQ_INT(kit_next(p, &number), HR_OK);
    struct hr_stage_stats stats[3];
    do
        (void)hr_pipeline_stats(p, stats, 3);
    while (stats[1].running < 3);
    ((struct hr_runtime *)(uintptr_t)loop.runtime)->start_loop = refuse_loop;
    hr__async_abandon(p);
    HR_CHECK_EQ_INT(kit_drain(p, false, got, 64, &end), 0);
    HR_CHECK_EQ_INT(end, HR_END);
    HR_CHECK_EQ_INT(hr_pipeline_failure(p, 42, &failure), HR_OK);
    HR_CHECK_EQ_INT(hr_pipeline_failure(p, 43, &failure), HR_END);
    loop_finish(p, &plan);
}

/* As a destructor does that runs in a call. */
static void let_go(void)
{
    struct hr_pipeline *p = loop.pipeline;
    fake_leave();
    hr_pipeline_free(&p);
    fake_enter();
}

static bool is_one(void *number)
{
    return atomic_load((atomic_int *)number) == 1;
}

/* The worker that is in the call may ask for a loop still. */
static void a_pipeline_let_go_by_a_call_of_its_own(void)
{
    static struct loop_stage stages[] = {{.kind = 'L', .in_first = let_go}, {0}};
    struct loop_plan plan = {.stages = stages, .items = 50, .concurrency = 2};
    struct hr_pipeline *p = loop_build(&plan, 1);
    HR_REQUIRE(p);
    hr__async_ref(p);
    HR_CHECK_EQ_INT(hr_pipeline_start(p, NULL), HR_OK);
    HR_CHECK(kit_await(is_one, &loop.dropped));
    HR_CHECK(atomic_load(&loop.asked) > 0);
    hr__async_unref(p);
    HR_CHECK(kit_await(is_one, &stages[0].freed));
    if (loop.started) /* all that is left of it is its thread */
        pthread_join(loop.thread, NULL);
    HR_CHECK_EQ_INT(fake_end(), 0);
}

static int no_event(void)
{
    errno = EMFILE;
    return -1;
}

static void no_descriptor(void)
{
    static struct loop_stage stages[] = {MAP, {0}};
    struct loop_plan plan = {.stages = stages, .items = 20, .concurrency = 2};
    struct hr_error err = {0};
    struct hr_pipeline *p = loop_build(&plan, 1);
    HR_REQUIRE(p);
    HR_CHECK_EQ_INT(hr_pipeline_start(p, NULL), HR_OK);
    hr__sys.event_open = no_event;
    HR_CHECK_EQ_INT(hr__async_expect(p, &err), HR_ERR_IO);
    hr__sys.event_open = hr__sys_direct.event_open;
    HR_CHECK_EQ_INT(err.code, EMFILE);
    loop_finish(p, &plan);
}

static const struct hr_test tests[] = {
    HR_TEST(chains_give_what_loops_give),
    HR_TEST(an_empty_source_ends),
    HR_TEST(watched_while_they_go_on),
    HR_TEST(stop_at_any_moment),
    HR_TEST(misfits_fail_before_they_are_begun),
    HR_TEST(what_is_stuck_is_named),
    HR_TEST(a_thread_that_does_not_come),
    HR_TEST(no_loop_for_a_function_that_awaits),
    HR_TEST(a_promised_thread_that_does_not_come),
    HR_TEST(a_pipeline_let_go_by_a_call_of_its_own),
    HR_TEST(no_descriptor),
};
HR_TEST_MAIN(tests)
