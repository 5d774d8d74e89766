/* engine_fork_test.c - fork-join: every slot once, in any nesting, whoever helps. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/sys.h"
#include "engine_kit.h"
#include "hr_test.h"

enum { SLOTS_MAX = 1000 };

struct forks {
    size_t slots;      /* of each op call */
    size_t nested;     /* of each slot */
    unsigned sleep_us; /* of each innermost slot */
    int together;      /* a slot is not over before that many were at once */
    atomic_int runs[SLOTS_MAX];
    atomic_int inner;
    atomic_int broken;
    atomic_int within, most; /* innermost slots: now, and at once so far */
};

static bool have_met(void *cookie)
{
    struct forks *forks = cookie;
    return atomic_load(&forks->most) >= forks->together;
}

static void meet(struct forks *forks)
{
    int now = atomic_fetch_add(&forks->within, 1) + 1;
    int most = atomic_load(&forks->most);
    while (most < now && !atomic_compare_exchange_weak(&forks->most, &most, now))
        continue;
    (void)kit_await(have_met, forks);
    atomic_fetch_sub(&forks->within, 1);
}

/* Per-thread state: a slot must be given the context of the thread that runs it. */
static enum hr_status scratch_create(void **out, struct hr_error *err)
{
    (void)err;
    *out = calloc(1, sizeof(atomic_int));
    return HR_OK;
}

static const struct hr_scratch_class scratch_class = {"busy", scratch_create, free};

static void inner_slot(void *cookie, size_t slot, struct hr_ctx *ctx)
{
    struct forks *forks = cookie;
    void *busy = NULL;
    if (hr_ctx_scratch(ctx, &scratch_class, &busy, NULL) != HR_OK ||
        atomic_fetch_add((atomic_int *)busy, 1) != 0 || slot >= SLOTS_MAX)
        atomic_fetch_add(&forks->broken, 1);
    if (forks->sleep_us)
        usleep(forks->sleep_us);
    if (forks->together)
        meet(forks);
    atomic_fetch_add(&forks->inner, 1);
    if (busy)
        atomic_fetch_sub((atomic_int *)busy, 1);
}

static void outer_slot(void *cookie, size_t slot, struct hr_ctx *ctx)
{
    struct forks *forks = cookie;
    atomic_fetch_add(&forks->runs[slot], 1);
    if (forks->nested > 0)
        hr_ctx_for_each(ctx, forks->nested, inner_slot, forks);
    else
        inner_slot(forks, slot, ctx);
}

static void op_forks(void *cookie, struct hr_ctx *ctx, long number)
{
    struct forks *forks = cookie;
    (void)number;
    hr_ctx_for_each(ctx, forks->slots, outer_slot, forks);
}

/* `items` calls of an op that forks, on a pipeline of its own. */
static void run_forks(struct forks *forks, long items, uint32_t concurrency,
                      uint32_t threads)
{
    struct fake_settings settings = {0};
    struct kit_source source = {.end = items, .fail_at = -1, .fatal_at = -1};
    struct kit_op op = {.hook = op_forks, .cookie = forks};
    struct kit_plan plan = {
        .source = &source,
        .stages = {{.op = &op, .options = {.concurrency = concurrency}}},
        .count = 1,
        .options = {.num_threads = threads},
        .runtime = fake_begin(&settings)};
    struct hr_stage_stats stats[3];
    enum hr_status end;
    struct hr_pipeline *p = kit_start(&plan);
    HR_REQUIRE(p);
    HR_CHECK_EQ_INT(kit_drain(p, false, NULL, 0, &end), items);
    HR_CHECK_EQ_INT(end, HR_END);
    HR_CHECK_EQ_INT(hr_pipeline_stats(p, stats, 3), 3);
    HR_CHECK_EQ_INT(stats[1].items_out, items);
    hr_pipeline_free(&p);
    for (size_t i = 0; i < SLOTS_MAX; i++)
        HR_CHECK_EQ_INT(atomic_load(&forks->runs[i]), i < forks->slots ? items : 0);
    size_t each = forks->nested > 0 ? forks->nested : 1;
    HR_CHECK_EQ_INT(atomic_load(&forks->inner), items * (long)(forks->slots * each));
    HR_CHECK_EQ_INT(atomic_load(&forks->broken), 0);
    HR_CHECK_EQ_INT(fake_end(), 0);
}

static void every_slot_runs_once(void)
{
    static const size_t slots[] = {0, 1, 2, 33, 1000};
    for (size_t s = 0; s < 5; s++) {
        for (uint32_t threads = 1; threads <= 4; threads++) {
            struct forks forks = {.slots = slots[s]};
            run_forks(&forks, 20, 1 + threads % 3, threads);
        }
    }
}

static void slots_may_fork(void)
{
    for (uint32_t threads = 1; threads <= 4; threads++) {
        struct forks forks = {.slots = 12, .nested = 5, .sleep_us = 50};
        run_forks(&forks, 8, 2, threads);
    }
}

/* The op's worker and the three that have nothing to do. */
static void idle_workers_help(void)
{
    struct forks forks = {.slots = 40, .together = 4};
    run_forks(&forks, 1, 1, 4);
    HR_CHECK_EQ_INT(atomic_load(&forks.most), 4);
}

/* ---- stopping meanwhile ---- */

struct stopper {
    struct hr_pipeline *pipeline;
    struct forks forks;
};

static void stopping_slot(void *cookie, size_t slot, struct hr_ctx *ctx)
{
    struct stopper *stopper = cookie;
    if (slot == 20)
        hr__pipeline_cancel(stopper->pipeline);
    outer_slot(&stopper->forks, slot, ctx);
}

static void op_forks_and_stops(void *cookie, struct hr_ctx *ctx, long number)
{
    (void)number;
    hr_ctx_for_each(ctx, 100, stopping_slot, cookie);
}

static void a_cancel_does_not_skip_slots(void)
{
    struct fake_settings settings = {0};
    struct kit_source source = {.end = 1000, .fail_at = -1, .fatal_at = -1};
    struct stopper stopper = {.forks = {.slots = 100}};
    struct kit_op op = {.hook = op_forks_and_stops, .cookie = &stopper};
    struct kit_plan plan = {.source = &source,
                            .stages = {{.op = &op}},
                            .count = 1,
                            .options = {.num_threads = 3},
                            .runtime = fake_begin(&settings)};
    enum hr_status end;
    HR_CHECK_EQ_INT(kit_build(&plan, &stopper.pipeline, NULL), HR_OK);
    HR_CHECK_EQ_INT(hr_pipeline_start(stopper.pipeline, NULL), HR_OK);
    HR_CHECK_EQ_INT(kit_drain(stopper.pipeline, false, NULL, 0, &end), 0);
    HR_CHECK_EQ_INT(end, HR_END);
    HR_CHECK_EQ_INT(hr_pipeline_stop(stopper.pipeline, HR_NO_DEADLINE, NULL), HR_OK);
    for (size_t i = 0; i < 100; i++)
        HR_CHECK_EQ_INT(atomic_load(&stopper.forks.runs[i]), 1);
    hr_pipeline_free(&stopper.pipeline);
    HR_CHECK_EQ_INT(fake_end(), 0);
}

static const struct hr_test tests[] = {
    HR_TEST(every_slot_runs_once),
    HR_TEST(slots_may_fork),
    HR_TEST(idle_workers_help),
    HR_TEST(a_cancel_does_not_skip_slots),
};

HR_TEST_MAIN(tests)
