/* engine_native_test.c - native pipelines, from source to consumer. */
#include <stdlib.h>
#include <string.h>

#include "hr_test.h"
#include "headrace/headrace.h"

struct counter {
    int64_t next, end, fail_at;
};

static enum hr_status counter_next(void *state, struct hr_value *out,
                                   struct hr_error *err)
{
    struct counter *c = state;
    if (c->next == c->end)
        return HR_END;
    if (c->next == c->fail_at)
        return hr_error_set(err, HR_ERR_IO, "counter", 5, "broken at %lld",
                            (long long)c->next);
    char text[32];
    int len = snprintf(text, sizeof(text), "%lld", (long long)c->next++);
    return hr_text_new(text, (size_t)len, out);
}

static const struct hr_source_class counter_class = {"counter", counter_next, NULL, 0};

/* Pass items through; those divisible by *state fail, by *state + 1 are filtered. */
static enum hr_status sieve(void *state, struct hr_ctx *ctx, const struct hr_value *in,
                            struct hr_value *out, struct hr_error *err)
{
    (void)ctx;
    long n = atol(hr_text_peek(in, NULL)), every = *(const long *)state;
    if (every > 0 && n % every == 0)
        return hr_error_set(err, HR_ERR_FORMAT, "sieve", 0, "%ld is no good", n);
    if (every > 0 && n % (every + 1) == 0)
        return HR_SKIP;
    *out = in->cls->share(in);
    return HR_OK;
}

static const struct hr_op_class sieve_class = {"sieve", sieve, NULL};

struct run {
    struct counter counter;
    long every;
    uint32_t concurrency, batch, threads;
    enum hr_output_order order;
    struct hr_pipeline *pipeline;
};

static void build(struct run *run)
{
    struct hr_plan *plan = NULL;
    struct hr_source source = {&counter_class, &run->counter};
    struct hr_op op = {&sieve_class, &run->every};
    struct hr_stage_options options = {.concurrency = run->concurrency,
                                       .order = run->order};
    struct hr_pipeline_options popts = {.num_threads = run->threads};
    HR_CHECK_EQ_INT(hr_plan_new(&plan, NULL), HR_OK);
    HR_CHECK_EQ_INT(hr_plan_source(plan, &source, NULL), HR_OK);
    HR_CHECK_EQ_INT(hr_plan_pipe(plan, &op, &options, NULL), HR_OK);
    if (run->batch) {
        HR_CHECK_EQ_INT(hr_plan_aggregate(plan, run->batch, 0, 0, NULL), HR_OK);
        HR_CHECK_EQ_INT(hr_plan_disaggregate(plan, NULL), HR_OK);
    }
    HR_CHECK_EQ_INT(hr_plan_sink(plan, 3, NULL), HR_OK);
    HR_CHECK_EQ_INT(hr_pipeline_new(&plan, &popts, &run->pipeline, NULL), HR_OK);
}

/* Every number below n that survives the sieve comes exactly once, in order if asked. */
static void consume_all(struct run *run, long n)
{
    unsigned char *seen = calloc((size_t)n + 1, 1);
    struct hr_value value;
    struct hr_error err = {0};
    enum hr_status status;
    long last = -1;
    while ((status = hr_pipeline_next(run->pipeline, HR_NO_DEADLINE, &value, &err)) ==
           HR_OK) {
        long got = atol(hr_text_peek(&value, NULL));
        HR_CHECK(got >= 0 && got < n && !seen[got]);
        seen[got] = 1;
        if (run->order == HR_OUTPUT_INPUT)
            HR_CHECK(got > last);
        last = got;
        hr_value_release(&value);
    }
    HR_CHECK_EQ_INT(status, HR_END);
    for (long i = 0; i < n; i++) {
        bool dropped =
            run->every > 0 && (i % run->every == 0 || i % (run->every + 1) == 0);
        HR_CHECK(seen[i] == !dropped);
    }
    free(seen);
}

static void every_item_comes_once(void)
{
    for (uint32_t variant = 0; variant < 48; variant++) {
        long n = (long[]){0, 1, 37, 1000}[variant / 12];
        struct run run = {.counter = {.end = n, .fail_at = -1},
                          .every = variant % 2 ? 7 : 0,
                          .concurrency = 1 + variant % 3 * 3,
                          .batch = variant % 4 < 2 ? 0 : 8,
                          .threads = 1 + variant % 3,
                          .order =
                              variant % 2 ? HR_OUTPUT_INPUT : HR_OUTPUT_COMPLETION};
        build(&run);
        HR_CHECK_EQ_INT(hr_pipeline_start(run.pipeline, NULL), HR_OK);
        consume_all(&run, n);
        hr_pipeline_free(&run.pipeline);
    }
}

static void a_failing_source_is_told_after_what_came_before(void)
{
    struct run run = {
        .counter = {.end = 100, .fail_at = 20}, .concurrency = 2, .threads = 2};
    build(&run);
    HR_CHECK_EQ_INT(hr_pipeline_start(run.pipeline, NULL), HR_OK);
    struct hr_value value;
    struct hr_error err = {0};
    for (int i = 0; i < 20; i++) {
        HR_CHECK_EQ_INT(hr_pipeline_next(run.pipeline, HR_NO_DEADLINE, &value, &err),
                        HR_OK);
        hr_value_release(&value);
    }
    HR_CHECK_EQ_INT(hr_pipeline_next(run.pipeline, HR_NO_DEADLINE, &value, &err),
                    HR_ERR_IO);
    HR_CHECK_STR(err.text, "broken at 20");
    HR_CHECK_EQ_INT(hr_pipeline_next(run.pipeline, HR_NO_DEADLINE, &value, &err),
                    HR_END);
    hr_pipeline_free(&run.pipeline);
}

static void stopping_half_way_leaves_nothing(void)
{
    for (int taken = 0; taken < 40; taken++) {
        struct run run = {.counter = {.end = 1 << 20, .fail_at = -1},
                          .concurrency = 3,
                          .batch = taken % 2 ? 5 : 0,
                          .threads = 2};
        build(&run);
        HR_CHECK_EQ_INT(hr_pipeline_start(run.pipeline, NULL), HR_OK);
        struct hr_value value;
        for (int i = 0; i < taken; i++) {
            HR_CHECK_EQ_INT(
                hr_pipeline_next(run.pipeline, HR_NO_DEADLINE, &value, NULL), HR_OK);
            hr_value_release(&value);
        }
        HR_CHECK_EQ_INT(hr_pipeline_stop(run.pipeline, HR_NO_DEADLINE, NULL), HR_OK);
        hr_pipeline_free(&run.pipeline);
    }
}

static const struct hr_test tests[] = {
    HR_TEST(every_item_comes_once),
    HR_TEST(a_failing_source_is_told_after_what_came_before),
    HR_TEST(stopping_half_way_leaves_nothing),
};

HR_TEST_MAIN(tests)
