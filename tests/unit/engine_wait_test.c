/* engine_wait_test.c - how long things wait: consumers, items, workers, bytes. */
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/sys.h"
#include "engine_kit.h"
#include "hr_test.h"

#define MS 1000000
#define MIB ((size_t)1 << 20)
/* Tasks this long are claimed one at a time; shorter ones come in groups, up to 16, that
 * are finished together. */
#define SHORT_NS 200000

static int64_t now(void)
{
    return hr__sys_direct.now_ns();
}

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

/* ---- consumers ---- */

static void next_waits_as_long_as_it_is_told(void)
{
    struct kit_gate gate = KIT_GATE(2);
    struct kit_source source = numbers(5);
    struct kit_op op = {.hook = kit_gate_hook, .cookie = &gate, .sleep_ns = SHORT_NS};
    struct kit_plan plan = plan_of(&source, KIT_NATIVE, &op, 1);
    struct hr_value value;
    struct hr_error err = {0};
    enum hr_status end;
    long number;
    struct hr_pipeline *p = kit_start(&plan);
    HR_REQUIRE(p);
    HR_CHECK_EQ_INT(kit_next(p, &number), HR_OK);
    HR_CHECK_EQ_INT(kit_next(p, &number), HR_OK);
    int64_t begin = now();
    HR_CHECK_EQ_INT(hr_pipeline_next(p, 0, &value, &err), HR_TIMEOUT);
    HR_CHECK_EQ_INT(hr_pipeline_next(p, begin - 1, &value, &err), HR_TIMEOUT);
    HR_CHECK_EQ_INT(err.status, HR_TIMEOUT);
    HR_CHECK_EQ_INT(hr_pipeline_next(p, begin + 70 * MS, &value, NULL), HR_TIMEOUT);
    HR_CHECK(now() >= begin + 70 * MS);
    kit_gate_open(&gate);
    HR_CHECK_EQ_INT(kit_drain(p, false, NULL, 0, &end), 3);
    hr_pipeline_free(&p);
    HR_CHECK_EQ_INT(fake_end(), 0);
}

/* ---- one task that takes long where others did not ---- */

struct nap {
    long at;
    long enough;        /* others; it does not sleep longer than for these */
    atomic_long others; /* that went by while it slept */
    atomic_bool asleep, over;
};

static void op_naps(void *cookie, struct hr_ctx *ctx, long number)
{
    struct nap *nap = cookie;
    (void)ctx;
    if (number != nap->at) {
        if (atomic_load(&nap->asleep) && !atomic_load(&nap->over))
            atomic_fetch_add(&nap->others, 1);
        return;
    }
    atomic_store(&nap->asleep, true);
    int64_t until_ns = now() + (nap->enough ? 10000 : 600) * MS;
    while (now() < until_ns &&
           (!nap->enough || atomic_load(&nap->others) < nap->enough))
        usleep(1000);
    atomic_store(&nap->over, true);
}

static void a_long_task_keeps_no_ready_item_back(void)
{
    for (int kind = 0; kind < 2; kind++) {
        struct nap nap = {.at = 2000};
        struct kit_source source = numbers(2010);
        struct kit_op op = {.hook = op_naps, .cookie = &nap};
        struct kit_plan plan =
            plan_of(&source, kind ? KIT_FOREIGN : KIT_NATIVE, &op, 1);
        enum hr_status end;
        long number = -1;
        struct hr_pipeline *p = kit_start(&plan);
        HR_REQUIRE(p);
        while (number < 2000 - 16)
            HR_CHECK_EQ_INT(kit_next(p, &number), HR_OK);
        HR_CHECK(!atomic_load(&nap.over));
        HR_CHECK_EQ_INT(kit_drain(p, false, NULL, 0, &end), 2009 - number);
        hr_pipeline_free(&p);
        HR_CHECK_EQ_INT(fake_end(), 0);
    }
}

/* The source helper makes items for a fast stage; one worker is away. */
static void a_long_task_keeps_no_worker_back(void)
{
    struct nap nap = {.at = 100, .enough = 50};
    struct kit_source source = numbers(800);
    struct kit_op op = {.hook = op_naps, .cookie = &nap};
    struct kit_plan plan = plan_of(&source, KIT_NATIVE, &op, 2);
    enum hr_status end;
    source.sleep_ns = MS;
    plan.foreign_source = true;
    plan.sink = 1000;
    plan.stages[0].options.concurrency = 2;
    struct hr_pipeline *p = kit_start(&plan);
    HR_REQUIRE(p);
    HR_CHECK_EQ_INT(kit_drain(p, false, NULL, 0, &end), 800);
    /* The other worker goes on while that one is away, however long. */
    HR_CHECK(atomic_load(&nap.others) >= nap.enough);
    hr_pipeline_free(&p);
    HR_CHECK_EQ_INT(fake_end(), 0);
}

/* ---- stuck ---- */

static bool is_freed(void *cookie)
{
    return atomic_load((atomic_int *)cookie) > 0;
}

/* A clock that can be late, and so makes deadlines that come early. */
static _Atomic int64_t late_by_ns;

static int64_t late_now(void)
{
    return hr__sys_direct.now_ns() - atomic_load(&late_by_ns);
}

static void a_stuck_op_is_named_and_left_behind(void)
{
    for (int variant = 0; variant < 2; variant++) {
        int threads = kit_thread_count();
        struct kit_gate gate = KIT_GATE(3);
        struct kit_source source = numbers(100);
        struct kit_op op = {
            .hook = kit_gate_hook, .cookie = &gate, .sleep_ns = SHORT_NS};
        struct kit_plan plan =
            plan_of(&source, variant ? KIT_FOREIGN : KIT_NATIVE, &op, 2);
        struct hr_error err = {0};
        long number;
        plan.stages[0].options.name = "decode";
        hr__sys.now_ns = late_now;
        struct hr_pipeline *p = kit_start(&plan);
        HR_REQUIRE(p);
        for (int i = 0; i < 3; i++)
            HR_CHECK_EQ_INT(kit_next(p, &number), HR_OK);
        kit_gate_await(&gate);
        HR_CHECK_EQ_INT(hr_pipeline_stop(p, now() + 20 * MS, &err), HR_TIMEOUT);
        HR_CHECK(strstr(err.text, "stage 'decode' is still working on item 3 after"));
        struct hr_value value;
        HR_CHECK_EQ_INT(hr_pipeline_next(p, now(), &value, NULL), HR_END);
        atomic_store(&late_by_ns, 9950000000); /* of the 10 s that free waits */
        hr_pipeline_free(&p);
        atomic_store(&late_by_ns, 0);
        HR_CHECK_EQ_INT(atomic_load(&op.freed), 0);
        kit_gate_open(&gate);
        HR_CHECK(kit_await(is_freed, &op.freed));
        HR_CHECK(kit_threads_are(threads));
        hr__sys.now_ns = hr__sys_direct.now_ns;
        HR_CHECK_EQ_INT(fake_end(), 0);
    }
}

/* ---- rest ---- */

static int64_t cpu_ns(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return ((int64_t)usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000000 +
           ((int64_t)usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1000;
}

static void a_full_pipeline_rests(void)
{
    for (int foreign = 0; foreign < 2; foreign++) {
        struct kit_source source = numbers(1000000);
        struct kit_op op = {0};
        struct kit_plan plan =
            plan_of(&source, foreign ? KIT_FOREIGN : KIT_NATIVE, &op, 4);
        long number;
        plan.foreign_source = foreign;
        struct hr_pipeline *p = kit_start(&plan);
        HR_REQUIRE(p);
        for (int i = 0; i < 100; i++)
            HR_CHECK_EQ_INT(kit_next(p, &number), HR_OK);
        usleep(20000);
        int64_t begin = cpu_ns();
        usleep(300000);
        HR_CHECK(cpu_ns() - begin < 6 * MS);
        hr_pipeline_free(&p);
        HR_CHECK_EQ_INT(fake_end(), 0);
    }
}

/* ---- bytes ahead ---- */

static void batches_larger_than_the_bytes_ahead_come(void)
{
    for (int foreign = 0; foreign < 2; foreign++) {
        struct kit_source source = numbers(100);
        struct kit_plan plan = plan_of(&source, KIT_NATIVE, NULL, 2);
        enum hr_status end;
        source.form = KIT_OBJECT;
        source.bytes = 10 * MIB;
        plan.foreign_source = foreign;
        plan.stages[0] = (struct kit_stage){.kind = KIT_BATCH, .n = 32};
        struct hr_pipeline *p = kit_start(&plan);
        HR_REQUIRE(p);
        HR_CHECK_EQ_INT(kit_drain(p, false, NULL, 0, &end), 4);
        HR_CHECK_EQ_INT(end, HR_END);
        hr_pipeline_free(&p);
        HR_CHECK_EQ_INT(fake_end(), 0);
    }
}

static bool is_ahead(void *cookie)
{
    return atomic_load(&((struct kit_source *)cookie)->made) >= 40 + 2;
}

/* 64 MiB are 6.4 items: the seventh crosses the line and is the last. One more is in the
 * op, or with the consumer. The first pull knows no size yet. */
static void bytes_ahead_are_bounded(void)
{
    for (int variant = 0; variant < 4; variant++) {
        struct kit_gate gate = KIT_GATE(40);
        struct kit_source source = numbers(100);
        struct kit_op op = {
            .hook = kit_gate_hook, .cookie = &gate, .sleep_ns = SHORT_NS};
        struct kit_plan plan = plan_of(&source, KIT_NATIVE, &op, 2);
        enum hr_status end;
        long number;
        source.form = KIT_OBJECT;
        source.bytes = 10 * MIB;
        plan.foreign_source = variant & 1;
        plan.count = variant & 2 ? 0 : 1;
        plan.sink = plan.count ? 50 : 3;
        struct hr_pipeline *p = kit_start(&plan);
        HR_REQUIRE(p);
        for (int i = 0; i < 40; i++)
            HR_CHECK_EQ_INT(kit_next(p, &number), HR_OK);
        HR_CHECK(kit_await(is_ahead, &source));
        usleep(100000);
        HR_CHECK(atomic_load(&source.made) <= 40 + 1 + 7);
        kit_gate_open(&gate);
        HR_CHECK_EQ_INT(kit_drain(p, false, NULL, 0, &end), 60);
        HR_CHECK_EQ_INT(end, HR_END);
        hr_pipeline_free(&p);
        HR_CHECK_EQ_INT(fake_end(), 0);
    }
}

static const struct hr_test tests[] = {
    HR_TEST(next_waits_as_long_as_it_is_told),
    HR_TEST(a_long_task_keeps_no_ready_item_back),
    HR_TEST(a_long_task_keeps_no_worker_back),
    HR_TEST(a_stuck_op_is_named_and_left_behind),
    HR_TEST(a_full_pipeline_rests),
    HR_TEST(batches_larger_than_the_bytes_ahead_come),
    HR_TEST(bytes_ahead_are_bounded),
};

HR_TEST_MAIN(tests)
