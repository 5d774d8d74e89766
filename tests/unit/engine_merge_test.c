/* engine_merge_test.c - plans with several native sources. */
#include <stdlib.h>
#include <string.h>

#include "engine_kit.h"
#include "fault.h"
#include "hr_test.h"

/* The numbers first … first + count - 1, in passes of `pass` if that is not 0. */
struct numbers {
    long first, count, pass;
    long fail_at; /* the item before which it fails; 0: never */
    struct kit_gate *gate;
    long made;
    bool marked;
    int freed;
};

static enum hr_status next_number(void *state, struct hr_value *out,
                                  struct hr_error *err)
{
    struct numbers *n = state;
    char text[32];
    if (n->pass && n->made > 0 && n->made % n->pass == 0 && !n->marked) {
        n->marked = true;
        return HR_EPOCH;
    }
    n->marked = false;
    if (n->made == n->count)
        return HR_END;
    if (n->fail_at && n->made == n->fail_at)
        return hr_error_set(err, HR_ERR_IO, "numbers", 5, "broken at %ld", n->made);
    if (n->gate)
        kit_gate_hook(n->gate, NULL, n->made);
    int len = snprintf(text, sizeof(text), "%ld", n->first + n->made++);
    return hr_text_new(text, (size_t)len, out);
}

static void free_numbers(void *state)
{
    ((struct numbers *)state)->freed++;
}

static const struct hr_source_class numbers_class = {"numbers", next_number,
                                                     free_numbers, 0};

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
static long addend = 10000;

/* A source, and a stage that adds 10000 if `adds`. */
static enum hr_status add_branch(struct hr_plan *plan, struct numbers *n, bool adds,
                                 struct hr_error *err)
{
    struct hr_source source = {&numbers_class, n};
    struct hr_op op = {&add_class, &addend};
    enum hr_status status = hr_plan_source(plan, &source, err);
    if (status == HR_OK && adds)
        status = hr_plan_pipe(plan, &op, NULL, err);
    hr_source_free(&source);
    return status;
}

/* All merged; the first and every other branch has a stage. */
static enum hr_status make(struct numbers *sources, uint32_t count, uint32_t threads,
                           struct hr_pipeline **out, struct hr_error *err)
{
    struct hr_plan *plan = NULL;
    struct hr_pipeline_options options = {.num_threads = threads};
    *out = NULL;
    enum hr_status status = hr_plan_new(&plan, err);
    for (uint32_t i = 0; i < count && status == HR_OK; i++) {
        status = i > 0 ? hr_plan_branch(plan, err) : HR_OK;
        if (status == HR_OK)
            status = add_branch(plan, &sources[i], i % 2 == 0, err);
    }
    if (status == HR_OK)
        status = hr_plan_merge(plan, 0, err);
    if (status == HR_OK)
        status = hr_plan_sink(plan, 4, err);
    if (status == HR_OK)
        status = hr_pipeline_new(&plan, &options, out, err);
    hr_plan_free(&plan);
    return status;
}

static struct hr_pipeline *start(struct numbers *sources, uint32_t count,
                                 uint32_t threads)
{
    struct hr_pipeline *p;
    struct hr_error err = {0};
    enum hr_status status = make(sources, count, threads, &p, &err);
    if (status == HR_OK)
        status = hr_pipeline_start(p, &err);
    HR_CHECK_EQ_INT(status, HR_OK);
    return p;
}

/* ---- runs ---- */

static void all_items_come_in_the_order_of_their_source(void)
{
    long got[1000];
    for (uint32_t threads = 1; threads <= 2; threads++) {
        struct numbers sources[3] = {
            {.first = 0, .count = 300},
            {.first = 1000, .count = 200},
            {.first = 2000, .count = 1},
        };
        long next[3] = {10000, 1000, 12000};
        enum hr_status end = HR_OK;
        struct hr_pipeline *p = start(sources, 3, threads);
        HR_CHECK_EQ_INT(kit_drain(p, false, got, 1000, &end), 501);
        HR_CHECK_EQ_INT(end, HR_END);
        for (int i = 0; i < 501; i++) {
            int source = got[i] >= 12000 ? 2 : got[i] >= 10000 ? 0 : 1;
            HR_CHECK_EQ_INT(got[i], next[source]++);
        }
        hr_pipeline_free(&p);
        for (int i = 0; i < 3; i++)
            HR_CHECK_EQ_INT(sources[i].freed, 1);
    }
}

static void one_that_waits_holds_up_nobody(void)
{
    struct kit_gate gate = KIT_GATE(0);
    struct numbers sources[2] = {
        {.first = 0, .count = 3, .gate = &gate},
        {.first = 1000, .count = 200},
    };
    struct hr_pipeline *p = start(sources, 2, 1);
    long number, got[8];
    enum hr_status end = HR_OK;
    for (long i = 0; i < 200; i++) {
        HR_CHECK_EQ_INT(kit_next(p, &number), HR_OK);
        HR_CHECK_EQ_INT(number, 1000 + i);
    }
    kit_gate_open(&gate);
    HR_CHECK_EQ_INT(kit_drain(p, false, got, 8, &end), 3);
    HR_CHECK_EQ_INT(got[2], 10002);
    hr_pipeline_free(&p);
}

static void epochs_end_together(void)
{
    struct numbers sources[2] = {
        {.first = 0, .count = 12, .pass = 4},
        {.first = 1000, .count = 21, .pass = 7},
    };
    struct hr_pipeline *p = start(sources, 2, 2);
    long number;
    for (int epoch = 0; epoch < 3; epoch++) {
        for (int i = 0; i < 11; i++) {
            HR_CHECK_EQ_INT(kit_next(p, &number), HR_OK);
            long in = number >= 10000 ? number - 10000 : number - 1000;
            HR_CHECK_EQ_INT(in / (number >= 10000 ? 4 : 7), epoch);
        }
        HR_CHECK_EQ_INT(kit_next(p, &number), HR_EPOCH);
    }
    HR_CHECK_EQ_INT(kit_next(p, &number), HR_END);
    hr_pipeline_free(&p);
}

static void a_failure_is_told_when_the_others_have_ended(void)
{
    struct numbers sources[2] = {
        {.first = 0, .count = 9, .fail_at = 5},
        {.first = 1000, .count = 100},
    };
    struct hr_pipeline *p = start(sources, 2, 2);
    long got[200];
    enum hr_status end = HR_OK;
    HR_CHECK_EQ_INT(kit_drain(p, false, got, 200, &end), 105);
    HR_CHECK_EQ_INT(end, HR_ERR_IO);
    hr_pipeline_free(&p);
}

static void stops_at_any_moment(void)
{
    int threads = kit_thread_count();
    for (int taken = 0; taken < 40; taken += 4) {
        struct numbers sources[3] = {
            {.count = 500}, {.first = 1000, .count = 500}, {.first = 2000, .count = 1}};
        struct hr_pipeline *p = start(sources, 3, 2);
        long number;
        for (int i = 0; i < taken; i++)
            HR_CHECK_EQ_INT(kit_next(p, &number), HR_OK);
        hr_pipeline_free(&p);
        for (int i = 0; i < 3; i++)
            HR_CHECK_EQ_INT(sources[i].freed, 1);
    }
    HR_CHECK(kit_threads_are(threads));
}

/* ---- plans ---- */

/* ((a | b) + 10000) | c */
static void merges_nest(void)
{
    struct numbers sources[3] = {
        {.count = 50}, {.first = 100, .count = 50}, {.first = 200, .count = 50}};
    struct hr_plan *plan = NULL;
    struct hr_pipeline *p = NULL;
    struct hr_op op = {&add_class, &addend};
    enum hr_status end = HR_OK;
    long got[200];
    HR_REQUIRE(hr_plan_new(&plan, NULL) == HR_OK);
    HR_REQUIRE(add_branch(plan, &sources[2], false, NULL) == HR_OK);
    HR_REQUIRE(hr_plan_branch(plan, NULL) == HR_OK);
    HR_REQUIRE(add_branch(plan, &sources[0], false, NULL) == HR_OK);
    HR_REQUIRE(hr_plan_branch(plan, NULL) == HR_OK);
    HR_REQUIRE(add_branch(plan, &sources[1], false, NULL) == HR_OK);
    HR_REQUIRE(hr_plan_merge(plan, 2, NULL) == HR_OK);
    HR_REQUIRE(hr_plan_pipe(plan, &op, NULL, NULL) == HR_OK);
    HR_REQUIRE(hr_plan_merge(plan, 2, NULL) == HR_OK);
    HR_REQUIRE(hr_plan_sink(plan, 3, NULL) == HR_OK);
    HR_REQUIRE(hr_pipeline_new(&plan, NULL, &p, NULL) == HR_OK);
    HR_REQUIRE(hr_pipeline_start(p, NULL) == HR_OK);
    HR_CHECK_EQ_INT(kit_drain(p, false, got, 200, &end), 150);
    kit_sort(got, 150);
    HR_CHECK_EQ_INT(got[0], 200);
    HR_CHECK_EQ_INT(got[50], 10000);
    HR_CHECK_EQ_INT(got[149], 10149);
    hr_pipeline_free(&p);
}

static void refused(enum hr_status status, const struct hr_error *err, const char *text)
{
    HR_CHECK_EQ_INT(status, HR_ERR_STATE);
    HR_CHECK(strstr(err->text, text));
}

static void what_is_out_of_place_is_refused(void)
{
    struct numbers sources[2] = {{.count = 1}, {.count = 1}};
    struct hr_plan *plan = NULL;
    struct hr_error err = {0};
    struct hr_op op = {&add_class, &addend};
    struct hr_source again = {&numbers_class, &sources[1]};
    HR_REQUIRE(hr_plan_new(&plan, &err) == HR_OK);
    refused(hr_plan_branch(plan, &err), &err, "behind a source");
    HR_CHECK_EQ_INT(add_branch(plan, &sources[0], true, &err), HR_OK);
    refused(hr_plan_merge(plan, 0, &err), &err, "branches to be merged");
    refused(hr_plan_source(plan, &again, &err), &err, "its source already");
    HR_CHECK_EQ_INT(hr_plan_branch(plan, &err), HR_OK);
    refused(hr_plan_branch(plan, &err), &err, "behind a source");
    refused(hr_plan_pipe(plan, &op, NULL, &err), &err, "branch needs a source");
    refused(hr_plan_merge(plan, 0, &err), &err, "branch needs a source");
    HR_CHECK_EQ_INT(hr_plan_source(plan, &again, &err), HR_OK);
    refused(hr_plan_on_error(plan, HR_ON_ERROR_RAISE, &err), &err, "source");
    refused(hr_plan_sink(plan, 3, &err), &err, "were not merged");
    refused(hr_plan_merge(plan, 3, &err), &err, "not 3 branches");
    HR_CHECK_EQ_INT(hr_plan_merge(plan, 2, &err), HR_OK);
    refused(hr_plan_on_error(plan, HR_ON_ERROR_RAISE, &err), &err, "join");
    HR_CHECK_EQ_INT(hr_plan_sink(plan, 3, &err), HR_OK);
    hr_plan_free(&plan);
    HR_CHECK_EQ_INT(sources[0].freed + sources[1].freed, 2);
}

static enum hr_status make_and_run(void *cookie)
{
    struct numbers sources[2] = {{.count = 20}, {.first = 1000, .count = 20}};
    struct hr_pipeline *p;
    enum hr_status status = make(sources, 2, 1, &p, NULL);
    (void)cookie;
    if (status == HR_OK)
        status = hr_pipeline_start(p, NULL);
    if (status == HR_OK)
        (void)kit_drain(p, false, NULL, 0, &status);
    hr_pipeline_free(&p);
    return status == HR_END ? HR_OK : status;
}

static void without_memory_or_threads(void)
{
    int failures = 0;
    HR_CHECK(fault_loop(FAULT_MEMORY, make_and_run, NULL, &failures) > 20);
    HR_CHECK(fault_loop(FAULT_THREAD, make_and_run, NULL, &failures) > 3);
    HR_CHECK_EQ_INT(failures, 0);
}

static const struct hr_test tests[] = {
    HR_TEST(all_items_come_in_the_order_of_their_source),
    HR_TEST(one_that_waits_holds_up_nobody),
    HR_TEST(epochs_end_together),
    HR_TEST(a_failure_is_told_when_the_others_have_ended),
    HR_TEST(stops_at_any_moment),
    HR_TEST(merges_nest),
    HR_TEST(what_is_out_of_place_is_refused),
    HR_TEST(without_memory_or_threads),
};

HR_TEST_MAIN(tests)
