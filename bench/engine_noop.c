/* B1 in C: what the engine costs per item when source, op and consumer are native.
 *
 *   counter → no-op op, 2 threads → aggregate(32) → sink → hr_pipeline_next
 *
 * Usage: engine_noop ITEMS. Runs a tenth of them to warm up, then all, and prints
 * microseconds per item as JSON: {"cpu_us": ..., "wall_us": ...}. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "headrace/headrace.h"
#include "headrace/pipeline.h"

enum { BATCH = 32, THREADS = 2, SINK = 8 };

/* ---- a value that owns nothing: the number is the pointer ---- */

static void count_release(struct hr_value *value)
{
    (void)value;
}

static struct hr_value count_share(const struct hr_value *value)
{
    return *value;
}

static const struct hr_value_class count_class = {
    .name = "count", .release = count_release, .share = count_share};

/* ---- the source ---- */

struct counter {
    uint64_t next, end;
};

static enum hr_status counter_next(void *state, struct hr_value *out,
                                   struct hr_error *err)
{
    struct counter *counter = state;

    (void)err;
    if (counter->next == counter->end)
        return HR_END;
    counter->next++;
    *out = (struct hr_value){&count_class, (void *)(uintptr_t)counter->next};
    return HR_OK;
}

static const struct hr_source_class counter_class = {
    .name = "counter", .next = counter_next, .is_prompt = 1};

/* ---- the op ---- */

static enum hr_status noop_run(void *state, struct hr_ctx *ctx,
                               const struct hr_value *in, struct hr_value *out,
                               struct hr_error *err)
{
    (void)state;
    (void)ctx;
    (void)err;
    *out = *in; /* owns nothing, so both may hold it */
    return HR_OK;
}

static const struct hr_op_class noop_class = {.name = "noop", .run = noop_run};

/* ---- the run ---- */

static enum hr_status plan_new(struct counter *counter, struct hr_plan **plan,
                               struct hr_error *err)
{
    struct hr_source source = {&counter_class, counter};
    struct hr_op op = {&noop_class, NULL};
    struct hr_stage_options stage = {.concurrency = THREADS};
    enum hr_status status = hr_plan_new(plan, err);

    if (status == HR_OK)
        status = hr_plan_source(*plan, &source, err);
    if (status == HR_OK)
        status = hr_plan_pipe(*plan, &op, &stage, err);
    if (status == HR_OK)
        status = hr_plan_aggregate(*plan, BATCH, 0, 0, err);
    if (status == HR_OK)
        status = hr_plan_sink(*plan, SINK, err);
    return status;
}

/* Take everything; HR_OK at the end of it. */
static enum hr_status drain(struct hr_pipeline *pipeline, uint64_t *items,
                            struct hr_error *err)
{
    struct hr_value batch = HR_VALUE_EMPTY;
    enum hr_status status;

    *items = 0;
    while ((status = hr_pipeline_next(pipeline, HR_NO_DEADLINE, &batch, err)) ==
           HR_OK) {
        *items += hr_list_size(&batch);
        hr_value_release(&batch);
    }
    return status == HR_END ? HR_OK : status;
}

static enum hr_status run(uint64_t items, struct hr_error *err)
{
    struct counter counter = {0, items};
    struct hr_pipeline_options options = {.num_threads = THREADS};
    struct hr_plan *plan = NULL;
    struct hr_pipeline *pipeline = NULL;
    uint64_t seen = 0;
    enum hr_status status = plan_new(&counter, &plan, err);

    if (status == HR_OK)
        status = hr_pipeline_new(&plan, &options, &pipeline, err);
    if (status == HR_OK)
        status = hr_pipeline_start(pipeline, err);
    if (status == HR_OK)
        status = drain(pipeline, &seen, err);
    if (status == HR_OK && seen != items)
        status = hr_error_set(err, HR_ERR_STATE, "engine_noop", 0,
                              "%" PRIu64 " items of %" PRIu64 " arrived", seen, items);
    hr_pipeline_free(&pipeline);
    hr_plan_free(&plan);
    return status;
}

static double seconds(clockid_t clock)
{
    struct timespec now = {0, 0};

    if (clock_gettime(clock, &now) != 0)
        abort();
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

int main(int argc, char **argv)
{
    uint64_t items = argc == 2 ? strtoull(argv[1], NULL, 10) : 0;
    struct hr_error err = {0};
    double cpu_s, wall_s;
    enum hr_status status;

    if (items == 0) {
        fprintf(stderr, "usage: engine_noop ITEMS\n");
        return 2;
    }
    status = run(items / 10 + 1, &err);
    cpu_s = seconds(CLOCK_PROCESS_CPUTIME_ID);
    wall_s = seconds(CLOCK_MONOTONIC);
    if (status == HR_OK)
        status = run(items, &err);
    if (status != HR_OK) {
        fprintf(stderr, "engine_noop: %s: %s\n", err.origin, err.text);
        return 1;
    }
    cpu_s = seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu_s;
    wall_s = seconds(CLOCK_MONOTONIC) - wall_s;
    printf("{\"cpu_us\": %.4f, \"wall_us\": %.4f}\n", cpu_s / (double)items * 1e6,
           wall_s / (double)items * 1e6);
    return 0;
}
