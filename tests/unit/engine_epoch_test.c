/* engine_epoch_test.c - sources that make several passes. */
#include <string.h>

#include "engine_kit.h"
#include "hr_test.h"

enum { PASS = 23, EPOCHS = 12 };

/* Everything of epoch e, then its mark; after the last epoch the end. The stages add 1
 * and drop multiples of 5, in batches or not. */
static void check_epoch(struct hr_pipeline *p, bool attached, int epoch, bool ordered)
{
    long got[PASS + 1], want[PASS + 1];
    size_t n = 0;
    enum hr_status end;
    for (long i = epoch * PASS; i < (epoch + 1) * PASS; i++)
        if (i % 5)
            want[n++] = i + 1;
    HR_CHECK_EQ_INT(kit_drain(p, attached, got, PASS + 1, &end), n);
    HR_CHECK_EQ_INT(end, epoch + 1 < EPOCHS ? HR_EPOCH : HR_END);
    if (!ordered)
        kit_sort(got, n);
    HR_CHECK(memcmp(got, want, n * sizeof(long)) == 0);
}

/* Bits of `variant`: 1 a foreign source, 2 a foreign stage, 4 an attached consumer,
 * 8 order, 16 batches. */
static void run_variant(unsigned variant, uint32_t concurrency)
{
    struct fake_settings settings = {0};
    struct kit_source source = {
        .end = PASS * EPOCHS, .fail_at = -1, .fatal_at = -1, .pass = PASS};
    struct kit_op op = {.skip_every = 5, .add = 1};
    struct hr_stage_options options = {.concurrency = concurrency,
                                       .order = variant & 8 ? HR_OUTPUT_INPUT
                                                            : HR_OUTPUT_COMPLETION};
    struct kit_plan plan = {.source = &source,
                            .foreign_source = variant & 1,
                            .stages = {{.kind = variant & 2 ? KIT_FOREIGN : KIT_NATIVE,
                                        .op = &op,
                                        .options = options},
                                       {.kind = KIT_BATCH, .n = 7},
                                       {.kind = KIT_SPREAD, .options = options}},
                            .count = variant & 16 ? 3 : 1,
                            .sink = 1 + variant % 4,
                            .options = {.num_threads = 1 + variant % 3},
                            .runtime = fake_begin(&settings)};
    struct hr_pipeline_summary summary;
    struct hr_pipeline *p = kit_start(&plan);
    HR_REQUIRE(p);
    for (int epoch = 0; epoch < EPOCHS; epoch++)
        check_epoch(p, variant & 4, epoch, variant & 8 || concurrency == 1);
    hr_pipeline_summary(p, &summary);
    HR_CHECK_EQ_INT(summary.delivered, (PASS * EPOCHS - 1) - (PASS * EPOCHS - 1) / 5);
    hr_pipeline_free(&p);
    HR_CHECK_EQ_INT(fake_end(), 0);
}

static void epochs_give_what_loops_give(void)
{
    for (unsigned variant = 0; variant < 32; variant++)
        run_variant(variant, variant % 3 == 2 ? 7 : 1 + variant % 3);
}

/* The last batch of an epoch is short, or dropped. */
static void batches_end_with_their_epoch(void)
{
    for (int drop = 0; drop < 2; drop++) {
        struct fake_settings settings = {0};
        struct kit_source source = {
            .end = 30, .fail_at = -1, .fatal_at = -1, .pass = 10};
        struct kit_plan plan = {
            .source = &source,
            .foreign_source = true,
            .stages = {{.kind = KIT_BATCH, .n = 4, .drop_last = drop}},
            .count = 1,
            .options = {.num_threads = 2},
            .runtime = fake_begin(&settings)};
        struct hr_pipeline *p = kit_start(&plan);
        HR_REQUIRE(p);
        for (int epoch = 0; epoch < 3; epoch++) {
            static const size_t sizes[] = {4, 4, 2};
            struct hr_value value;
            for (int i = 0; i < 3 - drop; i++) {
                HR_CHECK_EQ_INT(hr_pipeline_next(p, HR_NO_DEADLINE, &value, NULL),
                                HR_OK);
                HR_CHECK_EQ_INT(hr_list_size(&value), sizes[i]);
                hr_value_release(&value);
            }
            HR_CHECK_EQ_INT(hr_pipeline_next(p, HR_NO_DEADLINE, &value, NULL),
                            epoch < 2 ? HR_EPOCH : HR_END);
        }
        hr_pipeline_free(&p);
        HR_CHECK_EQ_INT(fake_end(), 0);
    }
}

/* Whoever began in the epoch hears of its end, and gets nothing of the next. */
static void consumers_are_tied_to_an_epoch(void)
{
    struct fake_settings settings = {0};
    struct kit_source source = {.end = 4, .fail_at = -1, .fatal_at = -1, .pass = 2};
    struct kit_plan plan = {.source = &source,
                            .options = {.num_threads = 1},
                            .sink = 8,
                            .runtime = fake_begin(&settings)};
    struct hr_value value;
    long number;
    struct hr_pipeline *p = kit_start(&plan);
    HR_REQUIRE(p);
    uint64_t first = hr__pipeline_epoch(p);
    HR_CHECK_EQ_INT(kit_next(p, &number), HR_OK);
    HR_CHECK_EQ_INT(kit_next(p, &number), HR_OK);
    HR_CHECK_EQ_INT(kit_next(p, &number), HR_EPOCH);
    HR_CHECK_EQ_INT(hr__pipeline_wait(p, first, HR_NO_DEADLINE), HR_OK);
    enum hr_status status;
    while ((status = hr__pipeline_try_next(p, first, &value, NULL)) == HR_AGAIN)
        continue; /* the lock was taken */
    HR_CHECK_EQ_INT(status, HR_EPOCH);
    HR_CHECK_EQ_INT(hr__pipeline_epoch(p), first + 1);
    HR_CHECK_EQ_INT(kit_next(p, &number), HR_OK);
    HR_CHECK_EQ_INT(number, 2);
    hr_pipeline_free(&p);
    HR_CHECK_EQ_INT(fake_end(), 0);
}

/* At any moment of any epoch; marks in the sink's ring are no items to release. */
static void a_stop_among_epochs(void)
{
    for (int taken = 0; taken < 60; taken++) {
        struct fake_settings settings = {0};
        struct kit_source source = {
            .end = 100000, .fail_at = -1, .fatal_at = -1, .pass = 1 + taken % 7};
        struct kit_op op = {.add = 1};
        struct kit_plan plan = {
            .source = &source,
            .foreign_source = taken % 2,
            .stages = {{.kind = KIT_FOREIGN, .op = &op, .options = {.concurrency = 3}},
                       {.kind = KIT_BATCH, .n = 2}},
            .count = taken % 3,
            .options = {.num_threads = 2},
            .runtime = fake_begin(&settings)};
        long number;
        struct hr_pipeline *p = kit_start(&plan);
        HR_REQUIRE(p);
        for (int i = 0; i < taken; i++)
            (void)kit_next(p, &number);
        HR_CHECK_EQ_INT(hr_pipeline_stop(p, HR_NO_DEADLINE, NULL), HR_OK);
        hr_pipeline_free(&p);
        HR_CHECK_EQ_INT(fake_end(), 0);
    }
}

static const struct hr_test tests[] = {
    HR_TEST(epochs_give_what_loops_give),
    HR_TEST(batches_end_with_their_epoch),
    HR_TEST(consumers_are_tied_to_an_epoch),
    HR_TEST(a_stop_among_epochs),
};

HR_TEST_MAIN(tests)
