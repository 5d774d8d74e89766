/* engine_route_test.c - native routes: paths, joins, and how plans with them are made. */
#include <stdlib.h>
#include <string.h>

#include "engine_kit.h"
#include "fault.h"
#include "hr_test.h"

/* Item n takes path n % paths; items divisible by fail_every fail, by skip_every are left
 * out; `stray` is sent to a path that is not there. */
struct router {
    long paths, fail_every, skip_every, stray;
    int freed;
};

static enum hr_status route(void *state, struct hr_ctx *ctx, const struct hr_value *in,
                            uint32_t *path, struct hr_error *err)
{
    const struct router *r = state;
    long n = kit_number(in);
    (void)ctx;
    if (r->fail_every && n % r->fail_every == 0)
        return hr_error_set(err, HR_ERR_FORMAT, "router", 0, "%ld is no good", n);
    if (r->skip_every && n % r->skip_every == 0)
        return HR_SKIP;
    *path = (uint32_t)(r->stray && n == r->stray ? r->paths : n % r->paths);
    return HR_OK;
}

static void free_router(void *state)
{
    ((struct router *)state)->freed++;
}

static const struct hr_router_class router_class = {"router", route, free_router};

static enum hr_status run_add(void *state, struct hr_ctx *ctx,
                              const struct hr_value *in, struct hr_value *out,
                              struct hr_error *err)
{
    (void)ctx;
    (void)err;
    char text[32];
    int len = snprintf(text, sizeof(text), "%ld", kit_number(in) + *(long *)state);
    return hr_text_new(text, (size_t)len, out);
}

static const struct hr_op_class add_class = {"add", run_add, NULL};

static enum hr_status numbers(long n, struct hr_source *out)
{
    static char texts[1000][8];
    const char *pointers[1000];
    for (long i = 0; i < n; i++) {
        (void)snprintf(texts[i], sizeof(texts[i]), "%ld", i);
        pointers[i] = texts[i];
    }
    return hr_source_of_texts(pointers, (size_t)n, out, NULL);
}

static long addends[] = {1000, 2000, 3000};

/* A plan of n numbers up to an open route of that router. */
static enum hr_status begin(struct hr_plan **plan, long n, struct router *r,
                            struct hr_error *err)
{
    struct hr_source source = {NULL, NULL};
    struct hr_router router = {&router_class, r};
    enum hr_status status = numbers(n, &source);
    *plan = NULL;
    if (status == HR_OK)
        status = hr_plan_new(plan, err);
    if (status == HR_OK)
        status = hr_plan_source(*plan, &source, err);
    if (status == HR_OK)
        status = hr_plan_route(*plan, &router, err);
    hr_source_free(&source);
    hr_router_free(&router);
    return status;
}

static enum hr_status add_path(struct hr_plan *plan, long *addend, struct hr_error *err)
{
    struct hr_op op = {&add_class, addend};
    enum hr_status status = hr_plan_path(plan, err);
    if (status == HR_OK && addend)
        status = hr_plan_pipe(plan, &op, NULL, err);
    return status;
}

/* One path adds 1000, one nothing, one 3000. */
static enum hr_status make(long n, struct router *r, int raises,
                           struct hr_pipeline **out, struct hr_error *err)
{
    struct hr_plan *plan;
    struct hr_pipeline_options options = {.num_threads = 2};
    *out = NULL;
    enum hr_status status = begin(&plan, n, r, err);
    if (status == HR_OK && raises)
        status = hr_plan_on_error(plan, HR_ON_ERROR_RAISE, err);
    for (int i = 0; i < r->paths && status == HR_OK; i++)
        status = add_path(plan, i == 1 ? NULL : &addends[i], err);
    if (status == HR_OK)
        status = hr_plan_join(plan, err);
    if (status == HR_OK)
        status = hr_plan_sink(plan, 4, err);
    if (status == HR_OK)
        status = hr_pipeline_new(&plan, &options, out, err);
    hr_plan_free(&plan);
    return status;
}

static size_t run(long n, struct router *r, long *got, enum hr_status *end)
{
    struct hr_pipeline *p;
    struct hr_error err = {0};
    size_t count = 0;
    enum hr_status status = make(n, r, 0, &p, &err);
    HR_CHECK_EQ_INT(status, HR_OK);
    if (status != HR_OK)
        return 0;
    HR_CHECK_EQ_INT(hr_pipeline_start(p, &err), HR_OK);
    count = kit_drain(p, false, got, 1000, end);
    hr_pipeline_free(&p);
    return count;
}

/* ---- runs ---- */

static void each_item_takes_its_path(void)
{
    long got[1000];
    for (long paths = 1; paths <= 3; paths++) {
        struct router r = {.paths = paths};
        enum hr_status end = HR_OK;
        HR_CHECK_EQ_INT(run(600, &r, got, &end), 600);
        HR_CHECK_EQ_INT(end, HR_END);
        HR_CHECK_EQ_INT(r.freed, 1);
        long next[3] = {0, 1, 2}; /* each path keeps its order */
        for (size_t i = 0; i < 600; i++) {
            long path = got[i] < 1000 ? 1 : got[i] < 3000 ? 0 : 2;
            long item = got[i] - (path == 1 ? 0 : addends[path]);
            HR_CHECK_EQ_INT(item, next[path]);
            next[path] = item + paths;
        }
    }
}

static void routers_skip_and_fail(void)
{
    long got[1000];
    struct router r = {.paths = 2, .fail_every = 7, .skip_every = 5, .stray = 3};
    struct hr_pipeline *p;
    struct hr_failure failure;
    struct hr_stage_stats stats[8];
    enum hr_status end = HR_OK;
    HR_REQUIRE(make(100, &r, 0, &p, NULL) == HR_OK);
    HR_REQUIRE(hr_pipeline_start(p, NULL) == HR_OK);
    size_t count = kit_drain(p, false, got, 1000, &end);
    /* of 0 … 99: 15 divisible by 7, 17 others by 5, and number 3 */
    HR_CHECK_EQ_INT(count, 100 - 15 - 17 - 1);
    HR_CHECK_EQ_INT(hr_pipeline_stats(p, stats, 8), 5);
    HR_CHECK_EQ_INT(stats[1].items_in, 100);
    HR_CHECK_EQ_INT(stats[1].failed, 16);
    HR_CHECK_EQ_INT(stats[1].filtered, 17);
    HR_CHECK_EQ_INT(stats[1].items_out, count);
    HR_CHECK_STR(stats[3].name, "join");
    HR_CHECK_EQ_INT(stats[3].items_out, count);
    HR_CHECK_EQ_INT(hr_pipeline_failure(p, 1, &failure), HR_OK);
    HR_CHECK_EQ_INT(failure.index, 3);
    HR_CHECK_STR(failure.error.text, "router 'router' chose path 2 of 2");
    hr_pipeline_free(&p);
}

static void a_router_that_raises_ends_the_run(void)
{
    long got[1000];
    struct router r = {.paths = 3, .stray = 40};
    struct hr_pipeline *p;
    enum hr_status end = HR_OK;
    HR_REQUIRE(make(900, &r, 1, &p, NULL) == HR_OK);
    HR_REQUIRE(hr_pipeline_start(p, NULL) == HR_OK);
    HR_CHECK_EQ_INT(kit_drain(p, false, got, 1000, &end), 40);
    HR_CHECK_EQ_INT(end, HR_ERR_ARG);
    hr_pipeline_free(&p);
}

static void stops_at_any_moment(void)
{
    for (int taken = 0; taken < 30; taken += 3) {
        struct router r = {.paths = 3};
        struct hr_pipeline *p;
        long number;
        HR_REQUIRE(make(900, &r, 0, &p, NULL) == HR_OK);
        HR_REQUIRE(hr_pipeline_start(p, NULL) == HR_OK);
        for (int i = 0; i < taken; i++)
            HR_CHECK_EQ_INT(kit_next(p, &number), HR_OK);
        hr_pipeline_free(&p);
        HR_CHECK_EQ_INT(r.freed, 1);
    }
}

/* ---- plans ---- */

static void refused(enum hr_status status, const struct hr_error *err, const char *text)
{
    HR_CHECK_EQ_INT(status, HR_ERR_STATE);
    HR_CHECK(strstr(err->text, text));
}

static void what_is_out_of_place_is_refused(void)
{
    struct router r = {.paths = 1};
    struct hr_plan *plan;
    struct hr_error err = {0};
    struct hr_op op = {&add_class, &addends[0]};
    HR_REQUIRE(begin(&plan, 3, &r, &err) == HR_OK);
    refused(hr_plan_pipe(plan, &op, NULL, &err), &err, "path first");
    refused(hr_plan_join(plan, &err), &err, "no path");
    HR_CHECK_EQ_INT(add_path(plan, &addends[0], &err), HR_OK);
    refused(hr_plan_sink(plan, 3, &err), &err, "midst of a route");
    HR_CHECK_EQ_INT(hr_plan_join(plan, &err), HR_OK);
    refused(hr_plan_join(plan, &err), &err, "no route");
    refused(hr_plan_path(plan, &err), &err, "no route");
    refused(hr_plan_on_error(plan, HR_ON_ERROR_RAISE, &err), &err, "join");
    HR_CHECK_EQ_INT(hr_plan_sink(plan, 3, &err), HR_OK);
    hr_plan_free(&plan);
    HR_CHECK_EQ_INT(r.freed, 1);
}

static void a_stage_that_is_refused_leaves_the_plan_as_it_was(void)
{
    struct router r = {.paths = 1};
    struct hr_plan *plan;
    struct hr_pipeline *p = NULL;
    struct hr_stage_options bad = {.key_name = "x", .has_key = 1};
    struct hr_op op = {&add_class, &addends[0]};
    enum hr_status end = HR_OK;
    long got[8];
    HR_REQUIRE(begin(&plan, 5, &r, NULL) == HR_OK);
    HR_REQUIRE(hr_plan_path(plan, NULL) == HR_OK);
    fault_arm(FAULT_MEMORY, FAULT_ONCE, 1);
    HR_CHECK_EQ_INT(hr_plan_pipe(plan, &op, &bad, NULL), HR_ERR_NOMEM);
    HR_CHECK_EQ_INT(fault_disarm(), 1);
    HR_CHECK_EQ_INT(hr_plan_pipe(plan, &op, NULL, NULL), HR_OK);
    HR_REQUIRE(hr_plan_join(plan, NULL) == HR_OK);
    HR_REQUIRE(hr_plan_sink(plan, 3, NULL) == HR_OK);
    HR_REQUIRE(hr_pipeline_new(&plan, NULL, &p, NULL) == HR_OK);
    HR_REQUIRE(hr_pipeline_start(p, NULL) == HR_OK);
    HR_CHECK_EQ_INT(kit_drain(p, false, got, 8, &end), 5);
    HR_CHECK_EQ_INT(got[4], 1004);
    hr_pipeline_free(&p);
}

static enum hr_status make_and_run(void *cookie)
{
    struct router r = {.paths = 3};
    struct hr_pipeline *p;
    enum hr_status status = make(20, &r, 0, &p, NULL);
    (void)cookie;
    if (status == HR_OK)
        status = hr_pipeline_start(p, NULL);
    if (status == HR_OK)
        (void)kit_drain(p, false, NULL, 0, &status);
    hr_pipeline_free(&p);
    HR_CHECK_EQ_INT(r.freed, 1);
    return status == HR_END ? HR_OK : status;
}

static void without_memory(void)
{
    int failures = 0;
    HR_CHECK(fault_loop(FAULT_MEMORY, make_and_run, NULL, &failures) > 20);
    HR_CHECK_EQ_INT(failures, 0);
}

static const struct hr_test tests[] = {
    HR_TEST(each_item_takes_its_path),
    HR_TEST(routers_skip_and_fail),
    HR_TEST(a_router_that_raises_ends_the_run),
    HR_TEST(stops_at_any_moment),
    HR_TEST(what_is_out_of_place_is_refused),
    HR_TEST(a_stage_that_is_refused_leaves_the_plan_as_it_was),
    HR_TEST(without_memory),
};

HR_TEST_MAIN(tests)
