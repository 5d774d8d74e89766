/* engine_life_test.c - starting, stopping, freeing, and what is left of it. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/sys.h"
#include "engine_kit.h"
#include "fault.h"
#include "hr_test.h"

/* ---- plans ---- */

/* A source, one op of the kind, a sink. */
static struct kit_plan plan_of(struct kit_source *source, enum kit_kind kind,
                               struct kit_op *op, uint32_t threads)
{
    struct fake_settings settings = {0};
    return (struct kit_plan){.source = source,
                             .stages = {{.kind = kind, .op = op}},
                             .count = 1,
                             .options = {.num_threads = threads},
                             .runtime = fake_begin(&settings)};
}

static struct kit_source numbers(long end)
{
    return (struct kit_source){.end = end, .fail_at = -1, .fatal_at = -1};
}

/* ---- states ---- */

static void states_are_kept_apart(void)
{
    struct kit_source source = numbers(3);
    struct kit_op op = {0};
    struct kit_plan plan = plan_of(&source, KIT_NATIVE, &op, 1);
    struct hr_pipeline *p = NULL;
    struct hr_value value;
    long number;
    HR_CHECK_EQ_INT(kit_build(&plan, &p, NULL), HR_OK);
    HR_CHECK_EQ_INT(hr_pipeline_next(p, 0, &value, NULL), HR_ERR_STATE);
    HR_CHECK_EQ_INT(hr_pipeline_start(p, NULL), HR_OK);
    HR_CHECK_EQ_INT(hr_pipeline_start(p, NULL), HR_ERR_STATE);
    for (long i = 0; i < 3; i++) {
        HR_CHECK_EQ_INT(kit_next(p, &number), HR_OK);
        HR_CHECK_EQ_INT(number, i);
    }
    for (int i = 0; i < 3; i++)
        HR_CHECK_EQ_INT(kit_next(p, &number), HR_END);
    for (int i = 0; i < 3; i++)
        HR_CHECK_EQ_INT(hr_pipeline_stop(p, HR_NO_DEADLINE, NULL), HR_OK);
    HR_CHECK_EQ_INT(hr_pipeline_start(p, NULL), HR_ERR_STATE);
    hr_pipeline_free(&p);
    HR_CHECK(!p);
    hr_pipeline_free(&p);
    HR_CHECK_EQ_INT(atomic_load(&op.freed), 1);
    HR_CHECK_EQ_INT(fake_end(), 0);
}

static void a_pipeline_that_never_ran_can_be_stopped(void)
{
    for (int foreign = 0; foreign < 2; foreign++) {
        struct kit_source source = numbers(3);
        struct kit_op op = {0};
        struct kit_plan plan = plan_of(&source, KIT_FOREIGN, &op, 2);
        struct hr_pipeline *p = NULL;
        long number;
        plan.foreign_source = foreign;
        HR_CHECK_EQ_INT(kit_build(&plan, &p, NULL), HR_OK);
        HR_CHECK_EQ_INT(hr_pipeline_stop(p, HR_NO_DEADLINE, NULL), HR_OK);
        HR_CHECK_EQ_INT(kit_next(p, &number), HR_END);
        HR_CHECK_EQ_INT(hr_pipeline_start(p, NULL), HR_ERR_STATE);
        hr_pipeline_free(&p);
        HR_CHECK_EQ_INT(kit_build(&plan, &p, NULL), HR_OK);
        hr_pipeline_free(&p);
        HR_CHECK_EQ_INT(atomic_load(&source.freed), 2);
        HR_CHECK_EQ_INT(fake_end(), 0);
    }
}

/* ---- consumers ---- */

struct consumer {
    pthread_t thread;
    struct hr_pipeline *pipeline;
    bool attached;
    long count, sum;
    enum hr_status end;
};

static void *consume(void *arg)
{
    struct consumer *c = arg;
    long number;
    while ((c->end = c->attached ? kit_next_attached(c->pipeline, &number)
                                 : kit_next(c->pipeline, &number)) == HR_OK) {
        c->count++;
        c->sum += number;
    }
    return NULL;
}

static void consumers_share_the_items(void)
{
    for (int variant = 0; variant < 8; variant++) {
        struct kit_source source = numbers(3000);
        struct kit_op op = {0};
        struct kit_plan plan =
            plan_of(&source, variant & 1 ? KIT_FOREIGN : KIT_NATIVE, &op, 2);
        struct consumer consumers[4];
        long count = 0, sum = 0;
        plan.foreign_source = variant & 2;
        struct hr_pipeline *p = kit_start(&plan);
        HR_REQUIRE(p);
        for (int i = 0; i < 4; i++) {
            consumers[i] = (struct consumer){.pipeline = p, .attached = variant & 4};
            pthread_create(&consumers[i].thread, NULL, consume, &consumers[i]);
        }
        for (int i = 0; i < 4; i++) {
            pthread_join(consumers[i].thread, NULL);
            HR_CHECK_EQ_INT(consumers[i].end, HR_END);
            count += consumers[i].count;
            sum += consumers[i].sum;
        }
        HR_CHECK_EQ_INT(count, 3000);
        HR_CHECK_EQ_INT(sum, 3000L * 2999 / 2);
        hr_pipeline_free(&p);
        HR_CHECK_EQ_INT(fake_end(), 0);
    }
}

static void stop_wakes_waiting_consumers(void)
{
    struct kit_gate gate = KIT_GATE(0);
    struct kit_source source = numbers(5);
    struct kit_op op = {.hook = kit_gate_hook, .cookie = &gate};
    struct kit_plan plan = plan_of(&source, KIT_NATIVE, &op, 2);
    struct consumer consumers[3];
    struct hr_pipeline *p = kit_start(&plan);
    HR_REQUIRE(p);
    for (int i = 0; i < 3; i++) {
        consumers[i] = (struct consumer){.pipeline = p};
        pthread_create(&consumers[i].thread, NULL, consume, &consumers[i]);
    }
    kit_gate_await(&gate);
    HR_CHECK_EQ_INT(hr_pipeline_stop(p, hr__sys_direct.now_ns() + 5000000, NULL),
                    HR_TIMEOUT);
    kit_gate_open(&gate);
    HR_CHECK_EQ_INT(hr_pipeline_stop(p, HR_NO_DEADLINE, NULL), HR_OK);
    for (int i = 0; i < 3; i++) {
        pthread_join(consumers[i].thread, NULL);
        HR_CHECK_EQ_INT(consumers[i].end, HR_END);
        HR_CHECK_EQ_INT(consumers[i].count, 0);
    }
    hr_pipeline_free(&p);
    HR_CHECK_EQ_INT(fake_end(), 0);
}

/* ---- stopping ---- */

static void stop_at_every_item(void)
{
    for (int variant = 0; variant < 4; variant++) {
        for (int taken = 0; taken <= 50; taken++) {
            struct kit_source source = numbers(1000000);
            struct kit_op op = {.fail_every = 9}, second = {.skip_every = 5};
            struct kit_plan plan =
                plan_of(&source, variant & 1 ? KIT_FOREIGN : KIT_NATIVE, &op, 2);
            long number;
            plan.foreign_source = variant & 2;
            plan.stages[1] = (struct kit_stage){.kind = KIT_NATIVE, .op = &second};
            plan.stages[2] = (struct kit_stage){.kind = KIT_BATCH, .n = 4};
            plan.stages[3] = (struct kit_stage){.kind = KIT_SPREAD};
            plan.count = 4;
            struct hr_pipeline *p = kit_start(&plan);
            HR_REQUIRE(p);
            for (int i = 0; i < taken; i++)
                HR_CHECK_EQ_INT(kit_next(p, &number), HR_OK);
            HR_CHECK_EQ_INT(hr_pipeline_stop(p, HR_NO_DEADLINE, NULL), HR_OK);
            /* what was ready may still be taken, then it is over */
            int left = 0;
            while (kit_next(p, &number) == HR_OK)
                left++;
            HR_CHECK(left <= 4 + 3);
            hr_pipeline_free(&p);
            HR_CHECK_EQ_INT(fake_end(), 0);
        }
    }
}

/* A pipeline that its own ops or source stop or free. */
struct inside {
    struct hr_pipeline *pipeline;
    bool free;
    bool in_slot;
    atomic_int done;
};

static void end_it(struct inside *inside)
{
    if (atomic_fetch_add(&inside->done, 1) > 0)
        return;
    if (inside->free)
        hr_pipeline_free(&inside->pipeline);
    else
        HR_CHECK_EQ_INT(hr_pipeline_stop(inside->pipeline, HR_NO_DEADLINE, NULL),
                        HR_OK);
}

static void end_in_slot(void *cookie, size_t slot, struct hr_ctx *ctx)
{
    (void)slot;
    (void)ctx;
    end_it(cookie);
}

static void op_ends_it(void *cookie, struct hr_ctx *ctx, long number)
{
    struct inside *inside = cookie;
    if (number < 10)
        return;
    if (inside->in_slot && ctx)
        hr_ctx_for_each(ctx, 4, end_in_slot, inside);
    else
        end_it(inside);
}

static void source_ends_it(void *cookie, long number)
{
    if (number >= 40)
        end_it(cookie);
}

static bool is_freed(void *cookie)
{
    return atomic_load((atomic_int *)cookie) > 0;
}

static void stop_inside_an_op_only_asks(void)
{
    for (int variant = 0; variant < 4; variant++) {
        struct inside inside = {.in_slot = variant & 1};
        struct kit_source source = numbers(1000000);
        struct kit_op op = {.hook = op_ends_it, .cookie = &inside};
        struct kit_plan plan =
            plan_of(&source, variant & 2 ? KIT_FOREIGN : KIT_NATIVE, &op, 2);
        enum hr_status end;
        HR_CHECK_EQ_INT(kit_build(&plan, &inside.pipeline, NULL), HR_OK);
        HR_CHECK_EQ_INT(hr_pipeline_start(inside.pipeline, NULL), HR_OK);
        HR_CHECK(kit_drain(inside.pipeline, false, NULL, 0, &end) <= 11);
        HR_CHECK_EQ_INT(end, HR_END);
        HR_CHECK_EQ_INT(atomic_load(&inside.done) > 0, 1);
        hr_pipeline_free(&inside.pipeline);
        HR_CHECK_EQ_INT(fake_end(), 0);
    }
}

/* By the helper thread, by a consumer that refills, and by a worker. */
static void stop_inside_a_source_only_asks(void)
{
    for (int variant = 0; variant < 8; variant++) {
        struct inside inside = {0};
        struct kit_source source = numbers(1000000);
        struct kit_op op = {0};
        struct kit_plan plan =
            plan_of(&source, variant & 1 ? KIT_FOREIGN : KIT_NATIVE, &op, 2);
        enum hr_status end;
        source.hook = source_ends_it;
        source.cookie = &inside;
        source.sleep_ns = variant & 4 ? 100000 : 0; /* slow: by the helper alone */
        plan.foreign_source = true;
        HR_CHECK_EQ_INT(kit_build(&plan, &inside.pipeline, NULL), HR_OK);
        HR_CHECK_EQ_INT(hr_pipeline_start(inside.pipeline, NULL), HR_OK);
        HR_CHECK(kit_drain(inside.pipeline, variant & 2, NULL, 0, &end) <= 41);
        HR_CHECK_EQ_INT(end, HR_END);
        hr_pipeline_free(&inside.pipeline);
        HR_CHECK_EQ_INT(fake_end(), 0);
    }
}

static void free_inside_an_op_leaves_nothing(void)
{
    int threads = kit_thread_count();
    for (int variant = 0; variant < 4; variant++) {
        struct inside inside = {.free = true};
        struct kit_source source = numbers(1000000);
        struct kit_op op = {.hook = op_ends_it, .cookie = &inside};
        struct kit_plan plan =
            plan_of(&source, variant & 1 ? KIT_FOREIGN : KIT_NATIVE, &op, 2);
        plan.sink = 100;
        if (variant & 2) {
            op.hook = NULL;
            source.hook = source_ends_it;
            source.cookie = &inside;
            plan.foreign_source = true;
        }
        HR_CHECK_EQ_INT(kit_build(&plan, &inside.pipeline, NULL), HR_OK);
        HR_CHECK_EQ_INT(hr_pipeline_start(inside.pipeline, NULL), HR_OK);
        HR_CHECK(kit_await(is_freed, &op.freed));
        HR_CHECK(kit_threads_are(threads));
        HR_CHECK_EQ_INT(fake_end(), 0);
    }
}

/* ---- what is left ---- */

static void ten_thousand_items_leave_nothing(void)
{
    int threads = kit_thread_count(), fds = kit_fd_count();
    struct kit_source source = numbers(10000);
    struct kit_op op = {.fail_every = 100}, expand = {.fan = 2};
    struct kit_plan plan = plan_of(&source, KIT_FOREIGN, &op, 3);
    enum hr_status end;
    plan.stages[1] = (struct kit_stage){.kind = KIT_EXPAND, .op = &expand};
    plan.count = 2;
    plan.foreign_source = true;
    struct hr_pipeline *p = kit_start(&plan);
    HR_REQUIRE(p);
    /* n % 3 of each n that 100 does not divide: 3333 × (1 + 2), less those of the
     * hundreds: 100 k gives k % 3 for k below 100, together 99 */
    HR_CHECK_EQ_INT(kit_drain(p, true, NULL, 0, &end), 3333 * 3 - 99);
    HR_CHECK_EQ_INT(end, HR_END);
    hr_pipeline_free(&p);
    HR_CHECK(kit_threads_are(threads));
    HR_CHECK_EQ_INT(kit_fd_count(), fds);
    HR_CHECK_EQ_INT(fake_end(), 0);
}

static void twenty_empty_pipelines_end(void)
{
    int threads = kit_thread_count();
    struct hr_pipeline *pipelines[20];
    struct kit_source sources[20];
    struct kit_op op = {0};
    long number;
    struct kit_plan plan = plan_of(&sources[0], KIT_FOREIGN, &op, 2);
    for (int i = 0; i < 20; i++) {
        sources[i] = numbers(0);
        plan.source = &sources[i];
        plan.foreign_source = i % 2;
        pipelines[i] = kit_start(&plan);
        HR_REQUIRE(pipelines[i]);
    }
    for (int i = 0; i < 20; i++)
        HR_CHECK_EQ_INT(kit_next(pipelines[i], &number), HR_END);
    for (int i = 0; i < 20; i++)
        hr_pipeline_free(&pipelines[i]);
    HR_CHECK(kit_threads_are(threads));
    HR_CHECK_EQ_INT(fake_end(), 0);
}

/* ---- threads that cannot be had ---- */

/* Of the event loop, the source helper and three workers, the n-th and all after it: the
 * pipeline needs the first, the second if its source is foreign, and one worker. */
static void fewer_threads_or_none(void)
{
    int threads = kit_thread_count();
    for (int foreign = 0; foreign < 2; foreign++) {
        for (uint64_t n = 1; n <= 6; n++) {
            struct kit_source source = numbers(50);
            struct kit_op op = {0};
            struct kit_plan plan = plan_of(&source, KIT_FOREIGN, &op, 3);
            struct hr_pipeline *p = NULL;
            struct hr_pipeline_summary summary;
            struct hr_error err = {0};
            enum hr_status end;
            plan.foreign_source = foreign;
            HR_CHECK_EQ_INT(kit_build(&plan, &p, NULL), HR_OK);
            fault_arm(FAULT_THREAD, FAULT_FROM, n);
            enum hr_status status = hr_pipeline_start(p, &err);
            bool enough = n > (uint64_t)foreign + 2;
            HR_CHECK_EQ_INT(status, enough ? HR_OK : HR_ERR_THREAD);
            if (enough) {
                uint32_t want = (uint32_t)n - 2 - (uint32_t)foreign;
                hr_pipeline_summary(p, &summary);
                HR_CHECK_EQ_INT(summary.num_threads, want < 3 ? want : 3);
                HR_CHECK_EQ_INT(kit_drain(p, true, NULL, 0, &end), 50);
                HR_CHECK_EQ_INT(end, HR_END);
            } else {
                HR_CHECK(err.text[0]);
                HR_CHECK_EQ_INT(hr_pipeline_stop(p, HR_NO_DEADLINE, NULL), HR_OK);
            }
            hr_pipeline_free(&p);
            (void)fault_disarm();
            HR_CHECK(kit_threads_are(threads));
            HR_CHECK_EQ_INT(atomic_load(&op.freed), 1);
            HR_CHECK_EQ_INT(fake_end(), 0);
        }
    }
}

/* ---- what is stuck ---- */

/* It was told once, and need not wait for the whole grace time again. */
static void free_after_a_stop_that_timed_out_does_not_wait(void)
{
    struct fake_settings settings = {0};
    struct kit_gate gate = KIT_GATE(1);
    struct kit_source source = {.end = 5, .fail_at = -1, .fatal_at = -1};
    struct kit_op op = {.hook = kit_gate_hook, .cookie = &gate};
    struct kit_plan plan = {.source = &source,
                            .stages = {{.op = &op, .options = {.name = "stuck"}}},
                            .count = 1,
                            .options = {.num_threads = 1},
                            .runtime = fake_begin(&settings)};
    struct hr_error err = {0};
    int threads = kit_thread_count();
    struct hr_pipeline *p = kit_start(&plan);
    HR_REQUIRE(p);
    kit_gate_await(&gate);
    int64_t begin_ns = HR_SYS(now_ns)();
    HR_CHECK_EQ_INT(hr_pipeline_stop(p, begin_ns + 10000000, &err), HR_TIMEOUT);
    HR_CHECK(strstr(err.text, "stage 'stuck' is still working on item 1 after"));
    hr_pipeline_free(&p);
    HR_CHECK(HR_SYS(now_ns)() - begin_ns < 5000000000);
    HR_CHECK(p == NULL);
    HR_CHECK_EQ_INT(atomic_load(&op.freed), 0); /* it is in use */
    kit_gate_open(&gate);
    HR_CHECK(kit_threads_are(threads));
    HR_CHECK_EQ_INT(atomic_load(&op.freed), 1);
    HR_CHECK_EQ_INT(atomic_load(&source.freed), 1);
    HR_CHECK_EQ_INT(fake_end(), 0);
}

/* ---- fork ---- */

#ifndef __SANITIZE_THREAD__ /* which cannot follow a fork */
static int in_child(struct hr_pipeline *p)
{
    struct hr_value value;
    struct hr_failure failure;
    struct hr_stage_stats stats;
    if (hr_pipeline_next(p, HR_NO_DEADLINE, &value, NULL) != HR_ERR_STATE)
        return 1;
    if (hr_pipeline_start(p, NULL) != HR_ERR_STATE)
        return 2;
    if (hr_pipeline_stop(p, HR_NO_DEADLINE, NULL) != HR_OK)
        return 3;
    if (hr_pipeline_failure(p, 0, &failure) != HR_END)
        return 4;
    if (hr_pipeline_stats(p, &stats, 1) != 0)
        return 5;
    hr_pipeline_free(&p);
    return p ? 6 : 0;
}

static void a_forked_child_can_only_let_go(void)
{
    struct kit_source source = numbers(10000);
    struct kit_op op = {0};
    struct kit_plan plan = plan_of(&source, KIT_NATIVE, &op, 2);
    enum hr_status end;
    long number;
    struct hr_pipeline *p = kit_start(&plan);
    HR_REQUIRE(p);
    for (int i = 0; i < 20; i++) { /* some while a thread holds the lock */
        HR_CHECK_EQ_INT(kit_next(p, &number), HR_OK);
        pid_t pid = fork();
        if (pid == 0)
            _exit(in_child(p));
        int status = -1;
        HR_CHECK_EQ_INT(waitpid(pid, &status, 0), pid);
        HR_CHECK_EQ_INT(status, 0);
    }
    HR_CHECK_EQ_INT(kit_drain(p, false, NULL, 0, &end), 10000 - 20);
    hr_pipeline_free(&p);
    HR_CHECK_EQ_INT(fake_end(), 0);
}
#endif

static const struct hr_test tests[] = {
    HR_TEST(states_are_kept_apart),
    HR_TEST(a_pipeline_that_never_ran_can_be_stopped),
    HR_TEST(consumers_share_the_items),
    HR_TEST(stop_wakes_waiting_consumers),
    HR_TEST(stop_at_every_item),
    HR_TEST(stop_inside_an_op_only_asks),
    HR_TEST(stop_inside_a_source_only_asks),
    HR_TEST(free_inside_an_op_leaves_nothing),
    HR_TEST(ten_thousand_items_leave_nothing),
    HR_TEST(twenty_empty_pipelines_end),
    HR_TEST(fewer_threads_or_none),
    HR_TEST(free_after_a_stop_that_timed_out_does_not_wait),
#ifndef __SANITIZE_THREAD__
    HR_TEST(a_forked_child_can_only_let_go),
#endif
};

HR_TEST_MAIN(tests)
