/* engine_fold_test.c - stages that gather items by a rule of their own. */
#include <string.h>

#include "engine_kit.h"
#include "hr_test.h"

enum { MAX = 256 };

/* Sums of every `fan` good items, and of the rest unless dropped; per epoch. */
static size_t model(long begin, long end, const struct kit_op *op, bool drop_last,
                    long *out)
{
    size_t n = 0;
    uint32_t folded = 0;
    long sum = 0;
    for (long i = begin; i < end; i++) {
        if (op->fail_every && i % op->fail_every == 0)
            continue;
        sum += i;
        if (++folded == op->fan) {
            out[n++] = sum;
            folded = 0;
            sum = 0;
        }
    }
    if (folded > 0 && !drop_last)
        out[n++] = sum;
    return n;
}

/* Bits of `variant`: 1 a foreign source, 2 a parallel language, 4 an attached consumer,
 * 8 drop the last, 16 failures. */
static void run_variant(unsigned variant, long pass, uint32_t fan)
{
    struct fake_settings settings = {.parallel = variant & 2};
    struct kit_source source = {
        .end = 6 * pass, .fail_at = -1, .fatal_at = -1, .pass = pass};
    struct kit_op op = {.fan = fan, .fail_every = variant & 16 ? 4 : 0}, after = {0};
    struct kit_plan plan = {
        .source = &source,
        .foreign_source = variant & 1,
        .stages = {{.kind = KIT_FOLD, .op = &op, .drop_last = variant & 8},
                   {.kind = KIT_FOREIGN, .op = &after}},
        .count = 2,
        .sink = 1 + variant % 4,
        .options = {.num_threads = 1 + variant % 3},
        .runtime = fake_begin(&settings)};
    long got[MAX], want[MAX];
    struct hr_pipeline *p = kit_start(&plan);
    HR_REQUIRE(p);
    for (int epoch = 0; epoch < 6; epoch++) {
        enum hr_status end;
        size_t n = model(epoch * pass, (epoch + 1) * pass, &op, variant & 8, want);
        HR_CHECK_EQ_INT(kit_drain(p, variant & 4, got, MAX, &end), n);
        HR_CHECK(memcmp(got, want, n * sizeof(long)) == 0);
        HR_CHECK_EQ_INT(end, epoch < 5 ? HR_EPOCH : HR_END);
    }
    struct hr_stage_stats stats[4];
    (void)hr_pipeline_stats(p, stats, 4);
    HR_CHECK_EQ_INT(stats[1].items_in, 6 * pass);
    HR_CHECK_EQ_INT(stats[1].failed, variant & 16 ? (6 * pass + 3) / 4 : 0);
    hr_pipeline_free(&p);
    HR_CHECK_EQ_INT(fake_end(), 0);
}

static void folds_give_what_loops_give(void)
{
    for (unsigned variant = 0; variant < 32; variant++)
        run_variant(variant, 1 + (long)variant, 1 + variant % 7);
}

static void a_stop_amid_a_fold(void)
{
    for (int taken = 0; taken < 20; taken++) {
        struct fake_settings settings = {0};
        struct kit_source source = {.end = 100000, .fail_at = -1, .fatal_at = -1};
        struct kit_op op = {.fan = 3};
        struct kit_plan plan = {.source = &source,
                                .stages = {{.kind = KIT_FOLD, .op = &op}},
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

/* The language ends before an item, or before the flush. */
static void refused_attaches_end_a_fold(void)
{
    for (uint32_t from = 1; from <= 12; from++) {
        struct fake_settings settings = {.refuse_from = from};
        struct kit_source source = {
            .end = 3, .fail_at = -1, .fatal_at = -1, .sleep_ns = 3000000};
        struct kit_op op = {.fan = 2};
        struct kit_plan plan = {.source = &source,
                                .stages = {{.kind = KIT_FOLD, .op = &op}},
                                .count = 1,
                                .options = {.num_threads = 1},
                                .runtime = fake_begin(&settings)};
        enum hr_status end;
        struct hr_pipeline *p = kit_start(&plan);
        HR_REQUIRE(p);
        (void)kit_drain(p, false, NULL, 0, &end);
        HR_CHECK(end == HR_ERR_STATE || (from > 1 && end == HR_END));
        hr_pipeline_free(&p);
        HR_CHECK_EQ_INT(fake_end(), 0);
    }
}

static const struct hr_test tests[] = {
    HR_TEST(folds_give_what_loops_give),
    HR_TEST(a_stop_amid_a_fold),
    HR_TEST(refused_attaches_end_a_fold),
};

HR_TEST_MAIN(tests)
