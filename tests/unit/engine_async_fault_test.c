/* engine_async_fault_test.c - the n-th allocation fails beside an event loop.
 *
 * As in engine_fault_test.c: whatever fails, the run ends, every item is accounted for,
 * nothing is left, and the next run works. */
#include <string.h>
#include <unistd.h>

#include "async_kit.h"
#include "base/sys.h"
#include "fault.h"
#include "hr_test.h"

enum { ITEMS = 40, HANG_S = 10 };

static enum hr_status run_to_end(struct hr_pipeline *p)
{
    enum hr_status status = hr_pipeline_start(p, NULL);
    if (status != HR_OK)
        return status;
    if (hr__async_needed(p))
        (void)loop_begin(&loop);
    (void)kit_drain(p, false, NULL, 0, &status);
    struct hr_failure failure;
    for (size_t i = 0; hr_pipeline_failure(p, i, &failure) == HR_OK; i++)
        fake_expect(failure.error.status == HR_ERR_NOMEM, "failures are of memory");
    return status == HR_END ? HR_OK : status;
}

/* Of stages that make one of one: what went in is somewhere. */
static bool adds_up(struct hr_pipeline *p, const struct loop_plan *plan)
{
    struct hr_stage_stats stats[LOOP_STAGES_MAX + 2];
    size_t n = hr_pipeline_stats(p, stats, LOOP_STAGES_MAX + 2);
    const struct loop_stage *stage = plan->stages;
    for (size_t i = stage->kind == 'S' ? 0 : 1; i < n && stage->kind; i++, stage++) {
        const struct hr_stage_stats *s = &stats[i];
        bool one_of_one = stage->kind == 'A' || stage->kind == 'L';
        if (s->running != 0)
            return false;
        if (one_of_one &&
            s->items_in != s->items_out + s->filtered + s->failed + s->released)
            return false;
    }
    return true;
}

static enum hr_status run(void *cookie)
{
    const struct loop_plan *plan = cookie;
    enum hr_status status = HR_ERR_NOMEM;
    alarm(HANG_S);
    struct hr_pipeline *p = loop_build(plan, 1);
    if (p) {
        status = run_to_end(p);
        fake_expect(adds_up(p, plan), "the ledger adds up");
        loop_finish(p, plan);
    } else if (fake_end() != 0) {
        status = HR_ERR_STATE;
    }
    alarm(0);
    return status;
}

static void without_memory(struct loop_stage *stages, enum hr_output_order order)
{
    struct loop_plan plan = {.stages = stages,
                             .items = stages[0].kind == 'S' ? 0 : ITEMS,
                             .concurrency = 3,
                             .order = order};
    int failures = 0;
    HR_CHECK(fault_loop(FAULT_MEMORY, run, &plan, &failures) >= 10);
    HR_CHECK_EQ_INT(failures, 0);
}

static void in_both_orders(struct loop_stage *stages)
{
    without_memory(stages, HR_OUTPUT_COMPLETION);
    without_memory(stages, HR_OUTPUT_INPUT);
}

static void coroutines(void)
{
    static struct loop_stage stages[] = {{.kind = 'A', .add = 1}, {0}};
    in_both_orders(stages);
}

static void streams(void)
{
    static struct loop_stage stages[] = {{.kind = 'G', .fan = 5}, {0}};
    in_both_orders(stages);
}

static void sources(void)
{
    static struct loop_stage stages[] = {
        {.kind = 'S', .fan = ITEMS}, {.kind = 'A', .add = 1}, {0}};
    in_both_orders(stages);
}

static void functions_that_await(void)
{
    static struct loop_stage stages[] = {
        {.kind = 'L', .add = 1, .at_once_to = 20}, {.kind = 'A', .add = 1}, {0}};
    in_both_orders(stages);
}

static const struct hr_test tests[] = {
    HR_TEST(coroutines),
    HR_TEST(streams),
    HR_TEST(sources),
    HR_TEST(functions_that_await),
};

HR_TEST_MAIN(tests)
