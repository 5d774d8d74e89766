/* engine_foreign_test.c - every kind of stage, native and foreign, against plain loops. */
#include <stdlib.h>
#include <string.h>

#include "engine_kit.h"
#include "hr_test.h"

enum { MAX = 4096 };

/* ---- the model: one list, stage by stage ---- */

struct model {
    long items[MAX];
    size_t count;
    size_t failed;
};

static void model_map(struct model *m, const struct kit_op *op)
{
    size_t n = 0;
    for (size_t i = 0; i < m->count; i++) {
        long item = m->items[i];
        bool fails = op->fail_every && item % op->fail_every == 0;
        m->failed += fails;
        if (!fails && !(op->skip_every && item % op->skip_every == 0))
            m->items[n++] = item + op->add;
    }
    m->count = n;
}

static void model_expand(struct model *m, const struct kit_op *op)
{
    static long out[MAX];
    size_t n = 0;
    for (size_t i = 0; i < m->count; i++) {
        for (long k = 0; k < m->items[i] % (long)(op->fan + 1); k++)
            out[n++] = m->items[i] * 1000 + k;
        m->failed += op->bad_end && m->items[i] % op->bad_end == 0;
    }
    memcpy(m->items, out, n * sizeof(long));
    m->count = n;
}

static void model_run(struct model *m, const struct kit_plan *plan)
{
    m->count = 0;
    m->failed = 0;
    for (long i = 0; i < plan->source->end; i++)
        m->items[m->count++] = i;
    for (int i = 0; i < plan->count; i++) {
        const struct kit_stage *stage = &plan->stages[i];
        if (stage->kind == KIT_EXPAND)
            model_expand(m, stage->op);
        else if (stage->kind == KIT_NATIVE || stage->kind == KIT_FOREIGN)
            model_map(m, stage->op);
    }
}

/* ---- the combinations ---- */

/* N native, F foreign, X expand, B batches of 7, S apart again */
static const char *const shapes[] = {"N",   "F",    "X",    "NF",   "FN",
                                     "NXN", "FXF",  "BS",   "NBSF", "FBSN",
                                     "XBS", "BSXF", "FFNF", "NNN",  "FBSXBS"};

static enum kit_kind kind_of(char letter)
{
    switch (letter) {
    case 'N':
        return KIT_NATIVE;
    case 'F':
        return KIT_FOREIGN;
    case 'X':
        return KIT_EXPAND;
    case 'B':
        return KIT_BATCH;
    default:
        return KIT_SPREAD;
    }
}

static void compare(const struct model *m, struct hr_pipeline *p, bool attached,
                    bool ordered)
{
    static long got[MAX], want[MAX];
    enum hr_status end;
    struct hr_pipeline_summary summary;
    size_t count = kit_drain(p, attached, got, MAX, &end);
    HR_CHECK_EQ_INT(end, HR_END);
    HR_CHECK_EQ_INT(count, m->count);
    memcpy(want, m->items, sizeof(want));
    if (!ordered) {
        kit_sort(got, count);
        kit_sort(want, m->count);
    }
    HR_CHECK(count != m->count || memcmp(got, want, count * sizeof(long)) == 0);
    hr_pipeline_summary(p, &summary);
    HR_CHECK_EQ_INT(summary.delivered, m->count);
    HR_CHECK_EQ_INT(summary.failed, m->failed);
}

/* Bits of `variant`: 1 a foreign source, 2 of objects, 4 an attached consumer, 8 order. */
static void run_combination(const char *shape, unsigned variant, uint32_t concurrency,
                            uint32_t threads, bool parallel)
{
    static struct model m;
    struct fake_settings settings = {.parallel = parallel};
    struct kit_source source = {.end = 60 + (long)variant,
                                .fail_at = -1,
                                .fatal_at = -1,
                                .form = variant & 2 ? KIT_OBJECT : KIT_TEXT};
    struct kit_op ops[6];
    struct kit_plan plan = {.source = &source,
                            .foreign_source = variant & 1,
                            .count = (int)strlen(shape),
                            .sink = 1 + variant % 5,
                            .options = {.num_threads = threads},
                            .runtime = fake_begin(&settings)};
    memset(ops, 0, sizeof(ops));
    for (int i = 0; i < plan.count; i++) {
        struct kit_stage *stage = &plan.stages[i];
        ops[i] = (struct kit_op){.fail_every = i % 2 ? 11 : 0,
                                 .skip_every = i % 2 ? 0 : 13,
                                 .add = i == 1,
                                 .fan = 3,
                                 .bad_end = 9};
        *stage = (struct kit_stage){.kind = kind_of(shape[i]), .op = &ops[i], .n = 7};
        stage->options.concurrency = concurrency;
        stage->options.order = variant & 8 ? HR_OUTPUT_INPUT : HR_OUTPUT_COMPLETION;
    }
    model_run(&m, &plan);
    struct hr_pipeline *p = kit_start(&plan);
    HR_REQUIRE(p);
    compare(&m, p, variant & 4, variant & 8);
    hr_pipeline_free(&p);
    HR_CHECK_EQ_INT(atomic_load(&source.freed), 1);
    HR_CHECK_EQ_INT(fake_end(), 0);
}

static void combine(bool parallel)
{
    static const uint32_t concurrency[] = {1, 2, 7}, threads[] = {1, 2, 4};
    for (size_t s = 0; s < sizeof(shapes) / sizeof(shapes[0]); s++) {
        for (unsigned variant = 0; variant < 16; variant++) {
            size_t at = (s + variant) % 9;
            run_combination(shapes[s], variant, concurrency[at % 3], threads[at / 3],
                            parallel);
        }
    }
}

static void stages_give_what_loops_give(void)
{
    combine(false);
}

static void stages_give_what_loops_give_without_a_big_lock(void)
{
    combine(true);
}

/* Slow ops: more workers join, sleeping ones do not hold the others up. */
static void sleeping_ops_run_side_by_side(void)
{
    struct fake_settings settings = {0};
    struct kit_source source = {.end = 40, .fail_at = -1, .fatal_at = -1};
    struct kit_op op = {.sleep_ns = 5000000, .let_go = true};
    struct kit_plan plan = {
        .source = &source,
        .stages = {{.kind = KIT_FOREIGN, .op = &op, .options = {.concurrency = 4}}},
        .count = 1,
        .options = {.num_threads = 4},
        .runtime = fake_begin(&settings)};
    struct hr_stage_stats stats[3];
    struct hr_pipeline_summary summary;
    enum hr_status end;
    struct hr_pipeline *p = kit_start(&plan);
    HR_REQUIRE(p);
    HR_CHECK_EQ_INT(kit_drain(p, true, NULL, 0, &end), 40);
    HR_CHECK_EQ_INT(hr_pipeline_stats(p, stats, 3), 3);
    hr_pipeline_summary(p, &summary);
    /* 40 × 5 ms of sleep; one after the other they would be no more than what passed. */
    HR_CHECK(stats[1].busy_ns >= 200000000);
    HR_CHECK(stats[1].busy_ns > (uint64_t)summary.elapsed_ns * 5 / 4);
    hr_pipeline_free(&p);
    HR_CHECK_EQ_INT(fake_end(), 0);
}

static void a_slow_attach_only_takes_time(void)
{
    struct fake_settings settings = {.attach_delay_ns = 2000000};
    struct kit_source source = {.end = 50, .fail_at = -1, .fatal_at = -1};
    struct kit_op op = {.add = 1};
    struct kit_plan plan = {.source = &source,
                            .foreign_source = true,
                            .stages = {{.kind = KIT_FOREIGN, .op = &op}},
                            .count = 1,
                            .options = {.num_threads = 2},
                            .runtime = fake_begin(&settings)};
    enum hr_status end;
    struct hr_pipeline *p = kit_start(&plan);
    HR_REQUIRE(p);
    HR_CHECK_EQ_INT(kit_drain(p, false, NULL, 0, &end), 50);
    HR_CHECK_EQ_INT(end, HR_END);
    hr_pipeline_free(&p);
    HR_CHECK_EQ_INT(fake_end(), 0);
}

/* ---- ends ---- */

/* The items before a fatal one may come; then its failure, once, and the end. */
static void a_fatal_failure_ends_the_run(void)
{
    for (int kind = 0; kind < 3; kind++) {
        struct fake_settings settings = {0};
        struct kit_source source = {
            .end = 100000, .fail_at = -1, .fatal_at = kind == 0 ? 50 : -1};
        struct kit_op op = {.fatal_at = kind == 0 ? 0 : 51, .fan = 3};
        struct kit_plan plan = {
            .source = &source,
            .foreign_source = true,
            .stages = {{.kind = kind == 2 ? KIT_EXPAND : KIT_FOREIGN, .op = &op}},
            .count = 1,
            .options = {.num_threads = 2},
            .runtime = fake_begin(&settings)};
        struct hr_failure failure;
        enum hr_status end;
        long number;
        struct hr_pipeline *p = kit_start(&plan);
        HR_REQUIRE(p);
        (void)kit_drain(p, true, NULL, 0, &end);
        HR_CHECK_EQ_INT(end, kind == 0 ? HR_ERR_IO : HR_ERR_FOREIGN);
        HR_CHECK_EQ_INT(kit_next(p, &number), HR_END);
        HR_CHECK(hr__pipeline_final_failure(p, &failure));
        HR_CHECK_EQ_INT(failure.index, kind == 0 ? 50 : 51);
        struct hr_value exception = hr__pipeline_take_final_exception(p);
        HR_CHECK(exception.cls == &fake_object_class);
        hr_value_release(&exception);
        HR_CHECK(!hr__pipeline_take_final_exception(p).cls);
        HR_CHECK(atomic_load(&source.made) < 100000);
        hr_pipeline_free(&p);
        HR_CHECK_EQ_INT(fake_end(), 0);
    }
}

/* The language ends: whatever was under way, the consumer hears of it and all is let go. */
static void refused_attaches_end_the_run(void)
{
    for (uint32_t from = 1; from <= 30; from++) {
        struct fake_settings settings = {.refuse_from = from};
        struct kit_source source = {.end = 1000000, .fail_at = -1, .fatal_at = -1};
        struct kit_op map = {.add = 1}, expand = {.fan = 60, .sleep_ns = 100000};
        struct kit_plan plan = {.source = &source,
                                .foreign_source = from % 2,
                                .stages = {{.kind = KIT_FOREIGN, .op = &map},
                                           {.kind = KIT_EXPAND,
                                            .op = &expand,
                                            .options = {.concurrency = 2}}},
                                .count = from % 3 ? 2 : 0,
                                .options = {.num_threads = 1 + from % 2},
                                .runtime = fake_begin(&settings)};
        if (!plan.foreign_source && plan.count == 0)
            continue; /* never attaches */
        enum hr_status end;
        long number;
        struct hr_pipeline *p = kit_start(&plan);
        HR_REQUIRE(p);
        (void)kit_drain(p, false, NULL, 0, &end);
        HR_CHECK_EQ_INT(end, HR_ERR_STATE);
        HR_CHECK_EQ_INT(kit_next(p, &number), HR_END);
        hr_pipeline_free(&p);
        HR_CHECK_EQ_INT(fake_end(), 0);
    }
}

static void unknown_threads_end_the_run(void)
{
    for (uint32_t from = 1; from <= 3; from++) {
        struct fake_settings settings = {.unknown_from = from};
        struct kit_source source = {.end = 300, .fail_at = -1, .fatal_at = -1};
        struct kit_op op = {.sleep_ns = 200000, .let_go = true};
        struct kit_plan plan = {
            .source = &source,
            .foreign_source = true,
            .stages = {{.kind = KIT_FOREIGN, .op = &op, .options = {.concurrency = 4}}},
            .count = 1,
            .options = {.num_threads = 4},
            .runtime = fake_begin(&settings)};
        struct hr_failure failure;
        enum hr_status end;
        struct hr_pipeline *p = kit_start(&plan);
        HR_REQUIRE(p);
        (void)kit_drain(p, false, NULL, 0, &end);
        HR_CHECK_EQ_INT(end, HR_ERR_STATE);
        HR_CHECK(hr__pipeline_final_failure(p, &failure));
        HR_CHECK(strstr(failure.error.text, "could not be made known"));
        hr_pipeline_free(&p);
        HR_CHECK_EQ_INT(fake_end(), 0);
    }
}

static void expand_tasks_are_closed_by_a_stop(void)
{
    for (int taken = 0; taken < 20; taken++) {
        struct fake_settings settings = {0};
        struct kit_source source = {.end = 1000000, .fail_at = -1, .fatal_at = -1};
        struct kit_op op = {.fan = 90};
        struct kit_plan plan = {
            .source = &source,
            .stages = {{.kind = KIT_EXPAND,
                        .op = &op,
                        .options = {.concurrency = 5,
                                    .order = taken % 2 ? HR_OUTPUT_INPUT
                                                       : HR_OUTPUT_COMPLETION}}},
            .count = 1,
            .options = {.num_threads = 2},
            .runtime = fake_begin(&settings)};
        long number;
        struct hr_pipeline *p = kit_start(&plan);
        HR_REQUIRE(p);
        for (int i = 0; i < taken; i++)
            HR_CHECK_EQ_INT(kit_next(p, &number), HR_OK);
        HR_CHECK_EQ_INT(hr_pipeline_stop(p, HR_NO_DEADLINE, NULL), HR_OK);
        hr_pipeline_free(&p);
        HR_CHECK_EQ_INT(fake_end(), 0);
    }
}

/* ---- records ---- */

/* A key takes an expand's outputs into records of their own; the rest is shared. */
static void a_keyed_expand_gives_records(void)
{
    struct fake_settings settings = {0};
    struct kit_source source = {
        .end = 40, .fail_at = -1, .fatal_at = -1, .form = KIT_RECORD};
    struct kit_op op = {.fan = 4};
    struct kit_plan plan = {.source = &source,
                            .stages = {{.kind = KIT_EXPAND,
                                        .op = &op,
                                        .options = {.key_name = "x",
                                                    .has_key = 1,
                                                    .order = HR_OUTPUT_INPUT}}},
                            .count = 1,
                            .options = {.num_threads = 2},
                            .runtime = fake_begin(&settings)};
    struct hr_pipeline *p = kit_start(&plan);
    HR_REQUIRE(p);
    struct hr_value value;
    for (long i = 0; i < 40; i++) {
        for (long k = 0; k < i % 5; k++) {
            HR_CHECK_EQ_INT(hr_pipeline_next(p, HR_NO_DEADLINE, &value, NULL), HR_OK);
            HR_REQUIRE(value.cls == &hr_record_class);
            HR_CHECK_EQ_INT(kit_number(&hr_record_peek(&value)[0]), i * 1000 + k);
            HR_CHECK_EQ_INT(kit_number(&hr_record_peek(&value)[1]), i);
            hr_value_release(&value);
        }
    }
    HR_CHECK_EQ_INT(hr_pipeline_next(p, HR_NO_DEADLINE, &value, NULL), HR_END);
    hr_pipeline_free(&p);
    HR_CHECK_EQ_INT(fake_end(), 0);
}

static const struct hr_test tests[] = {
    HR_TEST(stages_give_what_loops_give),
    HR_TEST(stages_give_what_loops_give_without_a_big_lock),
    HR_TEST(sleeping_ops_run_side_by_side),
    HR_TEST(a_slow_attach_only_takes_time),
    HR_TEST(a_fatal_failure_ends_the_run),
    HR_TEST(refused_attaches_end_the_run),
    HR_TEST(unknown_threads_end_the_run),
    HR_TEST(expand_tasks_are_closed_by_a_stop),
    HR_TEST(a_keyed_expand_gives_records),
};

HR_TEST_MAIN(tests)
