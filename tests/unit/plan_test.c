/* plan_test.c - what a plan accepts, and what it says of the rest. */
#include "hr_test.h"
#include "headrace/headrace.h"

static int freed;

static enum hr_status no_items(void *state, struct hr_value *out, struct hr_error *err)
{
    (void)state;
    (void)out;
    (void)err;
    return HR_END;
}

static void count_free(void *state)
{
    (void)state;
    freed++;
}

static enum hr_status never_run(void *state, struct hr_ctx *ctx,
                                const struct hr_value *in, struct hr_value *out,
                                struct hr_error *err)
{
    (void)state;
    (void)ctx;
    (void)in;
    *out = HR_VALUE_EMPTY;
    return hr_error_set(err, HR_ERR_STATE, "test", 0, "run without an item");
}

static const struct hr_source_class source_class = {"empty", no_items, count_free, 0};
static const struct hr_op_class op_class = {"op", never_run, count_free};

static struct hr_plan *plan_with_source(void)
{
    struct hr_plan *plan = NULL;
    struct hr_source source = {&source_class, NULL};
    HR_CHECK_EQ_INT(hr_plan_new(&plan, NULL), HR_OK);
    HR_CHECK_EQ_INT(hr_plan_source(plan, &source, NULL), HR_OK);
    HR_CHECK(source.cls == NULL);
    return plan;
}

static void a_source_is_first_and_a_sink_last(void)
{
    struct hr_plan *plan = NULL;
    struct hr_error err = {0};
    struct hr_op op = {&op_class, NULL};
    struct hr_source second = {&source_class, NULL};
    HR_REQUIRE(hr_plan_new(&plan, NULL) == HR_OK);
    HR_CHECK_EQ_INT(hr_plan_pipe(plan, &op, NULL, &err), HR_ERR_STATE);
    HR_CHECK_STR(err.text, "the plan needs a source first");
    HR_CHECK(op.cls == &op_class); /* still ours */
    hr_plan_free(&plan);

    plan = plan_with_source();
    HR_CHECK_EQ_INT(hr_plan_source(plan, &second, &err), HR_ERR_STATE);
    HR_CHECK_STR(err.text, "the plan has its source already");
    HR_CHECK(second.cls == &source_class);
    HR_CHECK_EQ_INT(hr_plan_sink(plan, 1, NULL), HR_OK);
    HR_CHECK_EQ_INT(hr_plan_pipe(plan, &op, NULL, &err), HR_ERR_STATE);
    HR_CHECK_STR(err.text, "the plan has its sink already");
    hr_plan_free(&plan);
    hr_source_free(&second);
    hr_op_free(&op);
}

static void a_plan_frees_what_it_took(void)
{
    freed = 0;
    struct hr_plan *plan = plan_with_source();
    for (int i = 0; i < 20; i++) {
        struct hr_op op = {&op_class, NULL};
        HR_CHECK_EQ_INT(hr_plan_pipe(plan, &op, NULL, NULL), HR_OK);
        HR_CHECK(op.cls == NULL);
    }
    HR_CHECK_EQ_INT(freed, 0);
    hr_plan_free(&plan);
    HR_CHECK_EQ_INT(freed, 21);
    HR_CHECK(plan == NULL);
    hr_plan_free(&plan);
}

/* The message names the argument and the value; the op stays the caller's. */
static void options_out_of_range_are_refused(void)
{
    static const struct {
        struct hr_stage_options options;
        const char *text;
    } cases[] = {
        {{.concurrency = 4097}, "concurrency: 4097 is over 4096"},
        {{.limit_failures = 1, .max_failures = -1}, "max_failures: -1 is negative"},
        {{.fraction_num = 3, .fraction_den = 2},
         "max_failures: the fraction 3/2 is over 1"},
        {{.order = (enum hr_output_order)2},
         "order: 2 is none of enum hr_output_order"},
    };
    struct hr_plan *plan = plan_with_source();
    struct hr_op op = {&op_class, NULL};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct hr_error err = {0};
        HR_CHECK_EQ_INT(hr_plan_pipe(plan, &op, &cases[i].options, &err), HR_ERR_ARG);
        HR_CHECK_STR(err.text, cases[i].text);
        HR_CHECK(op.cls == &op_class);
    }
    struct hr_error err = {0};
    HR_CHECK_EQ_INT(hr_plan_aggregate(plan, 0, 0, 0, &err), HR_ERR_ARG);
    HR_CHECK_STR(err.text, "aggregate: n must be 1 to 1,048,576, got 0");
    HR_CHECK_EQ_INT(hr_plan_aggregate(plan, 1048577, 0, 0, &err), HR_ERR_ARG);
    HR_CHECK_STR(err.text, "aggregate: n must be 1 to 1,048,576, got 1048577");
    HR_CHECK_EQ_INT(hr_plan_sink(plan, 0, &err), HR_ERR_ARG);
    HR_CHECK_STR(err.text, "sink: buffer_size must be 1 to 1,048,576, got 0");
    HR_CHECK_EQ_INT(hr_plan_sink(plan, 1048577, &err), HR_ERR_ARG);
    HR_CHECK_STR(err.text, "sink: buffer_size must be 1 to 1,048,576, got 1048577");
    hr_op_free(&op);
    hr_plan_free(&plan);
}

/* What each stage accepts the scheduler accepts, too, wherever the stage stands. */
static void the_largest_options_make_a_pipeline(void)
{
    for (int behind_source = 0; behind_source < 2; behind_source++) {
        struct hr_plan *plan = plan_with_source();
        struct hr_pipeline *pipeline = NULL;
        struct hr_op op = {&op_class, NULL};
        struct hr_stage_options options = {.concurrency = 4096};
        struct hr_error err = {0};
        if (!behind_source)
            HR_CHECK_EQ_INT(hr_plan_pipe(plan, &op, &options, NULL), HR_OK);
        HR_CHECK_EQ_INT(hr_plan_aggregate(plan, 1048576, 0, 0, NULL), HR_OK);
        HR_CHECK_EQ_INT(hr_plan_disaggregate(plan, NULL), HR_OK);
        if (behind_source)
            HR_CHECK_EQ_INT(hr_plan_pipe(plan, &op, &options, NULL), HR_OK);
        HR_CHECK_EQ_INT(hr_plan_sink(plan, behind_source ? 1048576 : 1, NULL), HR_OK);
        HR_CHECK_EQ_INT(hr_pipeline_new(&plan, NULL, &pipeline, &err), HR_OK);
        HR_CHECK_STR(err.text, "");
        HR_CHECK(plan == NULL);
        hr_pipeline_free(&pipeline);
        hr_plan_free(&plan);
    }
}

static void a_long_name_is_cut_between_characters(void)
{
    struct hr_plan *plan = plan_with_source();
    struct hr_pipeline *pipeline = NULL;
    struct hr_stage_stats stats[3];
    struct hr_op op = {&op_class, NULL};
    /* 22 euro signs of 3 bytes each; of 63 bytes 21 signs fit, and after "x" 20 */
    struct hr_stage_options options = {
        .name = "x\xE2\x82\xAC\xE2\x82\xAC\xE2\x82\xAC\xE2\x82\xAC\xE2\x82\xAC\xE2\x82"
                "\xAC\xE2\x82\xAC\xE2\x82\xAC\xE2\x82\xAC\xE2\x82\xAC\xE2\x82\xAC\xE2"
                "\x82\xAC\xE2\x82\xAC\xE2\x82\xAC\xE2\x82\xAC\xE2\x82\xAC\xE2\x82\xAC"
                "\xE2\x82\xAC\xE2\x82\xAC\xE2\x82\xAC\xE2\x82\xAC\xE2\x82\xAC"};
    HR_CHECK_EQ_INT(strlen(options.name), 1 + 22 * 3);
    HR_CHECK_EQ_INT(hr_plan_pipe(plan, &op, &options, NULL), HR_OK);
    HR_CHECK_EQ_INT(hr_plan_sink(plan, 1, NULL), HR_OK);
    HR_REQUIRE(hr_pipeline_new(&plan, NULL, &pipeline, NULL) == HR_OK);
    HR_CHECK_EQ_INT(hr_pipeline_stats(pipeline, stats, 3), 3);
    HR_CHECK_EQ_INT(strlen(stats[1].name), 1 + 20 * 3);
    HR_CHECK_EQ_INT(memcmp(stats[1].name, options.name, 1 + 20 * 3), 0);
    hr_pipeline_free(&pipeline);
}

static const struct hr_test tests[] = {
    HR_TEST(a_source_is_first_and_a_sink_last),
    HR_TEST(a_plan_frees_what_it_took),
    HR_TEST(options_out_of_range_are_refused),
    HR_TEST(the_largest_options_make_a_pipeline),
    HR_TEST(a_long_name_is_cut_between_characters),
};

HR_TEST_MAIN(tests)
