/* engine_ledger_test.c - failures, limits and counters: in = out + filtered + failed. */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "engine_kit.h"
#include "hr_test.h"

static struct kit_plan plan_of(struct kit_source *source, enum kit_kind kind,
                               struct kit_op *op)
{
    struct fake_settings settings = {0};
    return (struct kit_plan){.source = source,
                             .stages = {{.kind = kind, .op = op}},
                             .count = 1,
                             .options = {.num_threads = 2},
                             .runtime = fake_begin(&settings)};
}

static void failed_items_are_listed(void)
{
    for (int foreign = 0; foreign < 2; foreign++) {
        struct kit_source source = {.end = 100, .fail_at = -1, .fatal_at = -1};
        struct kit_op op = {.fail_every = 10, .skip_every = 3};
        struct kit_plan plan =
            plan_of(&source, foreign ? KIT_FOREIGN : KIT_NATIVE, &op);
        struct hr_stage_stats stats[3];
        struct hr_failure failure;
        enum hr_status end;
        plan.stages[0].options =
            (struct hr_stage_options){.name = "sieve", .order = HR_OUTPUT_INPUT};
        struct hr_pipeline *p = kit_start(&plan);
        HR_REQUIRE(p);
        /* 10 of 100 fail; of the 34 multiples of 3, 0 30 60 90 have failed already */
        HR_CHECK_EQ_INT(kit_drain(p, false, NULL, 0, &end), 100 - 10 - 30);
        HR_CHECK_EQ_INT(end, HR_END);
        for (long i = 0; i < 10; i++) {
            char want[32];
            HR_CHECK_EQ_INT(hr_pipeline_failure(p, (size_t)i, &failure), HR_OK);
            HR_CHECK_EQ_INT(failure.index, i * 10);
            HR_CHECK_EQ_INT(failure.error.item, i * 10);
            HR_CHECK_EQ_INT(failure.error.status, HR_ERR_FORMAT);
            HR_CHECK_EQ_INT(failure.error.code, 7);
            HR_CHECK_STR(failure.stage, "sieve");
            (void)snprintf(want, sizeof(want), "%ld", i * 10);
            HR_CHECK_STR(failure.label, want);
            struct hr_value exception = hr__pipeline_exception(p, (size_t)i);
            HR_CHECK((exception.cls == &fake_object_class) == foreign);
            hr_value_release(&exception);
        }
        HR_CHECK_EQ_INT(hr_pipeline_failure(p, 10, &failure), HR_END);
        HR_CHECK_EQ_INT(hr_pipeline_stats(p, stats, 3), 3);
        HR_CHECK_EQ_INT(stats[0].items_out, 100);
        HR_CHECK_EQ_INT(stats[1].items_in, 100);
        HR_CHECK_EQ_INT(stats[1].items_out, 60);
        HR_CHECK_EQ_INT(stats[1].filtered, 30);
        HR_CHECK_EQ_INT(stats[1].failed, 10);
        HR_CHECK_EQ_INT(stats[1].released, 0);
        HR_CHECK_EQ_INT(stats[2].items_in, 60);
        hr_pipeline_free(&p);
        HR_CHECK_EQ_INT(fake_end(), 0);
    }
}

/* Items in order: the k-th failure over the limit is that of item 10 k. */
static void too_many_failures_end_the_run(void)
{
    for (int variant = 0; variant < 8; variant++) {
        struct kit_source source = {.end = 100000, .fail_at = -1, .fatal_at = -1};
        struct kit_op op = {.fail_every = 10};
        struct kit_plan plan =
            plan_of(&source, variant & 1 ? KIT_FOREIGN : KIT_NATIVE, &op);
        struct hr_error err = {0};
        struct hr_value value;
        enum hr_status end = HR_OK;
        long count = 0;
        plan.foreign_source = variant & 2;
        plan.stages[0].options = (struct hr_stage_options){
            .name = "sieve", .limit_failures = 1, .max_failures = variant & 4 ? 3 : 0};
        struct hr_pipeline *p = kit_start(&plan);
        HR_REQUIRE(p);
        while ((end = hr_pipeline_next(p, HR_NO_DEADLINE, &value, &err)) == HR_OK) {
            count++;
            hr_value_release(&value);
        }
        HR_CHECK_EQ_INT(end, HR_ERR_LIMIT);
        HR_CHECK_STR(err.text,
                     variant & 4
                         ? "stage 'sieve' failed 4 times in 31 calls, more than "
                           "its max_failures allows"
                         : "stage 'sieve' failed 1 times in 1 calls, more than "
                           "its max_failures allows");
        HR_CHECK_EQ_INT(count, variant & 4 ? 27 : 0);
        HR_CHECK_EQ_INT(hr_pipeline_next(p, HR_NO_DEADLINE, &value, &err), HR_END);
        hr_pipeline_free(&p);
        HR_CHECK_EQ_INT(fake_end(), 0);
    }
}

/* One in ten fails, the first at once: at most 11 of 101. The rule begins with 100 calls. */
static void a_fraction_of_failures_ends_the_run(void)
{
    for (int over = 0; over < 2; over++) {
        struct kit_source source = {.end = 1000, .fail_at = -1, .fatal_at = -1};
        struct kit_op op = {.fail_every = 10};
        struct kit_plan plan = plan_of(&source, KIT_NATIVE, &op);
        enum hr_status end;
        plan.stages[0].options = (struct hr_stage_options){
            .fraction_num = over ? 9 : 11, .fraction_den = 100};
        struct hr_pipeline *p = kit_start(&plan);
        HR_REQUIRE(p);
        /* after call 100, of items 0 … 99, ten have failed: 10/100 */
        HR_CHECK_EQ_INT(kit_drain(p, false, NULL, 0, &end), over ? 90 : 900);
        HR_CHECK_EQ_INT(end, over ? HR_ERR_LIMIT : HR_END);
        hr_pipeline_free(&p);
        HR_CHECK_EQ_INT(fake_end(), 0);
    }
}

static void a_failing_source_is_told_last(void)
{
    for (int variant = 0; variant < 4; variant++) {
        struct kit_source source = {.end = 100, .fail_at = 33, .fatal_at = -1};
        struct kit_op op = {.fail_every = 10};
        struct kit_plan plan = plan_of(&source, KIT_NATIVE, &op);
        struct hr_failure failure;
        enum hr_status end;
        long number;
        plan.foreign_source = variant & 1;
        plan.count = variant & 2 ? 0 : 1;
        struct hr_pipeline *p = kit_start(&plan);
        HR_REQUIRE(p);
        HR_CHECK_EQ_INT(kit_drain(p, variant & 1, NULL, 0, &end),
                        variant & 2 ? 33 : 29);
        HR_CHECK_EQ_INT(end, HR_ERR_IO);
        HR_CHECK_EQ_INT(kit_next(p, &number), HR_END);
        HR_CHECK(hr__pipeline_final_failure(p, &failure));
        HR_CHECK_STR(failure.error.text, "source broken at 33");
        HR_CHECK_EQ_INT(failure.index, 33);
        hr_pipeline_free(&p);
        HR_CHECK_EQ_INT(fake_end(), 0);
    }
}

/* Flow statuses are no failures; a source that gives one has failed all the same. */
static enum hr_status flow_next(void *state, struct hr_value *out, struct hr_error *err)
{
    (void)err;
    *out = HR_VALUE_EMPTY;
    return *(const enum hr_status *)state;
}

static void a_source_cannot_end_with_a_flow_status(void)
{
    static const struct hr_source_class flow_class = {"flow", flow_next, NULL, 0};
    enum hr_status flow[] = {HR_AGAIN, HR_TIMEOUT, HR_SKIP};
    for (int i = 0; i < 3; i++) {
        struct hr_plan *plan = NULL;
        struct hr_pipeline *p = NULL;
        struct hr_source source = {&flow_class, &flow[i]};
        struct hr_value value;
        struct hr_error err = {0};
        HR_CHECK_EQ_INT(hr_plan_new(&plan, NULL), HR_OK);
        HR_CHECK_EQ_INT(hr_plan_source(plan, &source, NULL), HR_OK);
        HR_CHECK_EQ_INT(hr_plan_sink(plan, 1, NULL), HR_OK);
        HR_CHECK_EQ_INT(hr_pipeline_new(&plan, NULL, &p, NULL), HR_OK);
        HR_CHECK_EQ_INT(hr_pipeline_start(p, NULL), HR_OK);
        HR_CHECK_EQ_INT(hr_pipeline_next(p, HR_NO_DEADLINE, &value, &err),
                        HR_ERR_STATE);
        HR_CHECK(strstr(err.text, hr_status_name(flow[i])));
        HR_CHECK_EQ_INT(hr_pipeline_next(p, HR_NO_DEADLINE, &value, &err), HR_END);
        hr_pipeline_free(&p);
    }
}

/* ---- ops that fail in odd ways ---- */

static enum hr_status odd_run(void *state, struct hr_ctx *ctx,
                              const struct hr_value *in, struct hr_value *out,
                              struct hr_error *err)
{
    long n = kit_number(in);
    (void)state;
    (void)err;
    if (n == 1)
        return HR_ERR_NOMEM; /* without a word */
    if (n == 2)
        return HR_END; /* means nothing here */
    if (n == 3) {
        while (!hr_ctx_cancelled(ctx))
            continue;
        return HR_CANCELLED;
    }
    *out = in->cls->share(in);
    return HR_OK;
}

static const struct hr_op_class odd_class = {"odd", odd_run, NULL};

static void an_op_cannot_lose_its_item(void)
{
    const char *const texts[] = {"0", "1", "2", "3", "4"};
    struct hr_source source = {NULL, NULL};
    struct hr_op op = {&odd_class, NULL};
    struct hr_plan *plan = NULL;
    struct hr_pipeline *p = NULL;
    struct hr_pipeline_options options = {.num_threads = 1,
                                          .task_deadline_ns = 20000000};
    struct hr_failure failure;
    long numbers[5];
    enum hr_status end;
    HR_CHECK_EQ_INT(hr_source_of_texts(texts, 5, &source, NULL), HR_OK);
    HR_CHECK_EQ_INT(hr_plan_new(&plan, NULL), HR_OK);
    HR_CHECK_EQ_INT(hr_plan_source(plan, &source, NULL), HR_OK);
    HR_CHECK_EQ_INT(hr_plan_pipe(plan, &op, NULL, NULL), HR_OK);
    HR_CHECK_EQ_INT(hr_plan_sink(plan, 2, NULL), HR_OK);
    HR_CHECK_EQ_INT(hr_pipeline_new(&plan, &options, &p, NULL), HR_OK);
    HR_CHECK_EQ_INT(hr_pipeline_start(p, NULL), HR_OK);
    HR_CHECK_EQ_INT(kit_drain(p, false, numbers, 5, &end), 2);
    HR_CHECK_EQ_INT(end, HR_END);
    HR_CHECK_EQ_INT(numbers[0], 0);
    HR_CHECK_EQ_INT(numbers[1], 4);
    static const enum hr_status want[] = {HR_ERR_NOMEM, HR_ERR_STATE, HR_ERR_DEADLINE};
    for (size_t i = 0; i < 3; i++) {
        HR_CHECK_EQ_INT(hr_pipeline_failure(p, i, &failure), HR_OK);
        HR_CHECK_EQ_INT(failure.error.status, want[i]);
        HR_CHECK_EQ_INT(failure.index, i + 1);
        HR_CHECK(failure.error.text[0]);
    }
    HR_CHECK_EQ_INT(hr_pipeline_failure(p, 3, &failure), HR_END);
    hr_pipeline_free(&p);
}

/* ---- what is kept, and what is logged ---- */

static atomic_int warnings;

static void count_warning(void *cookie, enum hr_log_level level, const char *text)
{
    (void)cookie;
    if (level == HR_LOG_WARNING && strstr(text, "sieve"))
        atomic_fetch_add(&warnings, 1);
}

static void ten_thousand_failures_are_kept_and_all_counted(void)
{
    struct kit_source source = {.end = 12000, .fail_at = -1, .fatal_at = -1};
    struct kit_op op = {.fail_every = 1};
    struct kit_plan plan = plan_of(&source, KIT_FOREIGN, &op);
    struct hr_pipeline_summary summary;
    struct hr_failure failure;
    enum hr_status end;
    plan.stages[0].options.name = "sieve";
    atomic_store(&warnings, 0);
    hr__log_set(count_warning, NULL);
    struct hr_pipeline *p = kit_start(&plan);
    HR_REQUIRE(p);
    HR_CHECK_EQ_INT(kit_drain(p, true, NULL, 0, &end), 0);
    HR_CHECK_EQ_INT(end, HR_END);
    hr__log_set(NULL, NULL);
    HR_CHECK_EQ_INT(atomic_load(&warnings), 5); /* the 1st, 10th, … 10,000th */
    hr_pipeline_summary(p, &summary);
    HR_CHECK_EQ_INT(summary.failed, 12000);
    HR_CHECK_EQ_INT(hr_pipeline_failure(p, 9999, &failure), HR_OK);
    HR_CHECK_EQ_INT(failure.index, 9999);
    HR_CHECK_EQ_INT(hr_pipeline_failure(p, 10000, &failure), HR_END);
    hr_pipeline_free(&p);
    HR_CHECK_EQ_INT(fake_end(), 0);
}

static const struct hr_test tests[] = {
    HR_TEST(failed_items_are_listed),
    HR_TEST(too_many_failures_end_the_run),
    HR_TEST(a_fraction_of_failures_ends_the_run),
    HR_TEST(a_failing_source_is_told_last),
    HR_TEST(a_source_cannot_end_with_a_flow_status),
    HR_TEST(an_op_cannot_lose_its_item),
    HR_TEST(ten_thousand_failures_are_kept_and_all_counted),
};

HR_TEST_MAIN(tests)
