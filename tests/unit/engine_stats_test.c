/* Statistics of a run: each snapshot is of one moment, and they only grow. */
#include <time.h>

#include "engine_kit.h"
#include "hr_test.h"

enum { STAGES = 5 };

struct shot {
    struct hr_pipeline_summary sum;
    struct hr_stage_stats stages[STAGES];
};

static void take(struct hr_pipeline *p, struct shot *out)
{
    HR_CHECK_EQ_INT(hr_pipeline_snapshot(p, &out->sum, out->stages, STAGES), STAGES);
}

static uint64_t split_ns(const struct hr_stage_stats *s)
{
    return s->starved_ns + s->blocked_ns + s->ready_ns + s->full_ns + s->ended_ns;
}

/* source → sieve → foreign → batches of 4 → sink, at one moment of a run without stop. */
static void check_consistent(const struct shot *shot)
{
    const struct hr_stage_stats *s = shot->stages;
    for (int i = 0; i < STAGES; i++) {
        HR_CHECK_EQ_INT(split_ns(&s[i]), shot->sum.elapsed_ns);
        HR_CHECK(s[i].queued <= s[i].capacity);
        HR_CHECK(s[i].running <= s[i].concurrency * 16); /* rides included */
        HR_CHECK(s[i].task_p50_ns <= s[i].task_p90_ns);
        HR_CHECK(s[i].task_p90_ns <= s[i].task_p99_ns);
        HR_CHECK_EQ_INT(s[i].released, 0);
        if (i > 0 && i < STAGES - 1)
            HR_CHECK_EQ_INT(s[i - 1].items_out, s[i].items_in + s[i].queued);
    }
    for (int i = 1; i <= 2; i++) /* one item of one */
        HR_CHECK_EQ_INT(s[i].items_in,
                        s[i].items_out + s[i].filtered + s[i].failed + s[i].running);
    HR_CHECK_EQ_INT(s[1].failed + s[2].failed, shot->sum.failed);
    HR_CHECK_EQ_INT(s[3].items_out, s[4].items_in);
    HR_CHECK(shot->sum.delivered <= s[4].items_in);
    HR_CHECK(shot->sum.delivered + s[4].queued >= s[4].items_in);
}

static void check_grown(const struct shot *before, const struct shot *after)
{
    HR_CHECK(before->sum.elapsed_ns <= after->sum.elapsed_ns);
    HR_CHECK(before->sum.delivered <= after->sum.delivered);
    HR_CHECK(before->sum.failed <= after->sum.failed);
    for (int i = 0; i < STAGES; i++) {
        const struct hr_stage_stats *a = &before->stages[i], *b = &after->stages[i];
        HR_CHECK(a->items_in <= b->items_in);
        HR_CHECK(a->items_out <= b->items_out);
        HR_CHECK(a->filtered <= b->filtered);
        HR_CHECK(a->failed <= b->failed);
        HR_CHECK(a->busy_ns <= b->busy_ns);
        HR_CHECK(a->attach_ns <= b->attach_ns);
        HR_CHECK(a->attached_ns <= b->attached_ns);
        HR_CHECK(a->starved_ns <= b->starved_ns);
        HR_CHECK(a->blocked_ns <= b->blocked_ns);
        HR_CHECK(a->ready_ns <= b->ready_ns);
        HR_CHECK(a->full_ns <= b->full_ns);
        HR_CHECK(a->ended_ns <= b->ended_ns);
    }
}

struct watcher {
    struct hr_pipeline *pipeline;
    atomic_bool done;
    atomic_long shots;
};

static void *watch(void *arg)
{
    struct watcher *watcher = arg;
    struct shot shots[2];
    int now = 0;
    take(watcher->pipeline, &shots[1]);
    while (!atomic_load(&watcher->done)) {
        take(watcher->pipeline, &shots[now]);
        check_consistent(&shots[now]);
        check_grown(&shots[1 - now], &shots[now]);
        now = 1 - now;
        atomic_fetch_add(&watcher->shots, 1);
    }
    return NULL;
}

static struct hr_pipeline *start(struct kit_source *source, struct kit_op ops[2],
                                 bool foreign_source)
{
    struct fake_settings settings = {0};
    const struct kit_plan plan = {
        .source = source,
        .foreign_source = foreign_source,
        .stages = {{.kind = KIT_NATIVE, .op = &ops[0], .options = {.concurrency = 2}},
                   {.kind = KIT_FOREIGN, .op = &ops[1], .options = {.concurrency = 3}},
                   {.kind = KIT_BATCH, .n = 4}},
        .count = 3,
        .options = {.num_threads = 2},
        .runtime = fake_begin(&settings)};
    return kit_start(&plan);
}

static void snapshots_are_of_one_moment(void)
{
    for (int foreign = 0; foreign < 2; foreign++) {
        struct kit_source source = {.end = 20000, .fail_at = -1, .fatal_at = -1};
        struct kit_op ops[2] = {{.fail_every = 10}, {.skip_every = 7}};
        struct watcher watcher = {.pipeline = start(&source, ops, foreign)};
        struct shot last;
        enum hr_status end;
        pthread_t thread;
        HR_REQUIRE(watcher.pipeline);
        HR_CHECK_EQ_INT(pthread_create(&thread, NULL, watch, &watcher), 0);
        /* of 20,000 2,000 fail; of the 2,858 multiples of 7 286 had failed */
        HR_CHECK_EQ_INT(kit_drain(watcher.pipeline, false, NULL, 0, &end),
                        (20000 - 2000 - (2858 - 286)) / 4);
        HR_CHECK_EQ_INT(end, HR_END);
        atomic_store(&watcher.done, true);
        pthread_join(thread, NULL);
        HR_CHECK(atomic_load(&watcher.shots) > 0);
        take(watcher.pipeline, &last);
        check_consistent(&last);
        HR_CHECK_EQ_INT(last.sum.delivered, last.stages[4].items_in);
        HR_CHECK_EQ_INT(last.stages[4].queued, 0);
        hr_pipeline_free(&watcher.pipeline);
        HR_CHECK_EQ_INT(fake_end(), 0);
    }
}

/* Nothing counts before the start, nor after the end. */
static void time_runs_from_start_to_end(void)
{
    struct kit_source source = {.end = 40, .fail_at = -1, .fatal_at = -1};
    struct kit_op ops[2] = {{.sleep_ns = 1000000}, {0}};
    struct fake_settings settings = {0};
    const struct kit_plan plan = {
        .source = &source,
        .stages = {{.kind = KIT_NATIVE, .op = &ops[0], .options = {.concurrency = 2}},
                   {.kind = KIT_FOREIGN, .op = &ops[1]},
                   {.kind = KIT_BATCH, .n = 4}},
        .count = 3,
        .options = {.num_threads = 2},
        .runtime = fake_begin(&settings)};
    struct hr_pipeline *p = NULL;
    struct shot shot, again;
    enum hr_status end;
    HR_CHECK_EQ_INT(kit_build(&plan, &p, NULL), HR_OK);
    HR_REQUIRE(p);
    take(p, &shot);
    HR_CHECK_EQ_INT(shot.sum.elapsed_ns, 0);
    for (int i = 0; i < STAGES; i++)
        HR_CHECK_EQ_INT(split_ns(&shot.stages[i]), 0);
    HR_CHECK_EQ_INT(hr_pipeline_start(p, NULL), HR_OK);
    HR_CHECK_EQ_INT(kit_drain(p, false, NULL, 0, &end), 10);
    take(p, &shot);
    check_consistent(&shot);
    /* 40 sleeps of 1 ms, at most two at once */
    HR_CHECK(shot.sum.elapsed_ns >= 20000000);
    HR_CHECK(shot.stages[1].busy_ns >= 40000000);
    HR_CHECK(shot.stages[1].task_p50_ns >= 940000);
    HR_CHECK(shot.stages[1].busy_ns <= 2 * (uint64_t)shot.sum.elapsed_ns);
    take(p, &again);
    HR_CHECK_EQ_INT(again.sum.elapsed_ns, shot.sum.elapsed_ns);
    HR_CHECK_EQ_INT(again.stages[1].ended_ns, shot.stages[1].ended_ns);
    hr_pipeline_free(&p);
    HR_CHECK_EQ_INT(fake_end(), 0);
}

/* A task counts while it runs, not only when it is over. */
static void a_running_task_is_busy(void)
{
    for (int foreign = 0; foreign < 2; foreign++) {
        struct kit_gate gate = KIT_GATE(0);
        struct kit_source source = {.end = 1, .fail_at = -1, .fatal_at = -1};
        struct kit_op op = {.hook = kit_gate_hook, .cookie = &gate};
        struct fake_settings settings = {0};
        const struct kit_plan plan = {
            .source = &source,
            .stages = {{.kind = foreign ? KIT_FOREIGN : KIT_NATIVE, .op = &op}},
            .count = 1,
            .options = {.num_threads = 1},
            .runtime = fake_begin(&settings)};
        struct hr_pipeline *p = kit_start(&plan);
        struct hr_stage_stats stats[3];
        enum hr_status end;
        HR_REQUIRE(p);
        kit_gate_await(&gate);
        struct timespec pause = {.tv_nsec = 20000000};
        nanosleep(&pause, NULL);
        HR_CHECK_EQ_INT(hr_pipeline_stats(p, stats, 3), 3);
        HR_CHECK(stats[1].busy_ns >= 20000000);
        HR_CHECK_EQ_INT(stats[1].attached_ns, foreign ? stats[1].busy_ns : 0);
        HR_CHECK_EQ_INT(stats[1].running, 1);
        HR_CHECK_EQ_INT(stats[1].task_p99_ns, 0); /* none is over */
        kit_gate_open(&gate);
        HR_CHECK_EQ_INT(kit_drain(p, false, NULL, 0, &end), 1);
        HR_CHECK_EQ_INT(hr_pipeline_stats(p, stats, 3), 3);
        HR_CHECK(stats[1].task_p99_ns >= 18800000);
        hr_pipeline_free(&p);
        HR_CHECK_EQ_INT(fake_end(), 0);
    }
}

static const struct hr_test tests[] = {
    HR_TEST(snapshots_are_of_one_moment),
    HR_TEST(a_running_task_is_busy),
    HR_TEST(time_runs_from_start_to_end),
};

HR_TEST_MAIN(tests)
