/* engine_deadline_test.c - calls that take too long, and threads that come back late.
 *
 * Most of it on virtual time: a test puts the clock forward by minutes, once nothing is
 * under way but what is stuck. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/sys.h"
#include "engine_kit.h"
#include "hr_test.h"

enum { END = 10, AT = 3, MAX = 4096 };

#define TIMEOUT_NS INT64_C(400000000000)
#define GRACE_NS INT64_C(1000000000)

/* ---- virtual time ---- */

static _Atomic int64_t ahead_ns;

static int64_t virtual_now(void)
{
    return hr__sys_direct.now_ns() + atomic_load(&ahead_ns);
}

/* The waiter looks at the clock every millisecond of real time. */
static int virtual_wait(_Atomic uint32_t *word, uint32_t expected, int64_t deadline_ns)
{
    if (deadline_ns != INT64_MAX && virtual_now() >= deadline_ns)
        return hr__sys_direct.futex_wait(word, expected, 1);
    (void)hr__sys_direct.futex_wait(word, expected, hr__sys_direct.now_ns() + 1000000);
    return 0; /* as spurious returns are allowed */
}

static void time_begin(void)
{
    atomic_store(&ahead_ns, 0);
    hr__sys.now_ns = virtual_now;
    hr__sys.futex_wait = virtual_wait;
}

static void time_end(void)
{
    hr__sys.now_ns = hr__sys_direct.now_ns;
    hr__sys.futex_wait = hr__sys_direct.futex_wait;
}

static void time_pass(int64_t ns)
{
    atomic_fetch_add(&ahead_ns, ns);
}

/* ---- ops that are stuck ---- */

struct stall {
    struct kit_gate gate;
    long at;      /* the item it happens to; -1: to all */
    int call;     /* ... in the n-th call for it, from 0 */
    size_t slots; /* a fork-join: */
    size_t slot;  /* ... in this one */
    bool obeys;   /* native: until the token says so */
    bool nested;  /* ... in a fork-join of that slot's own */
    atomic_int calls[END];
};

static void wait_for_token(struct hr_ctx *ctx)
{
    while (!hr_ctx_cancelled(ctx))
        usleep(200);
}

static void be_stuck(struct stall *stall, struct hr_ctx *ctx, long number)
{
    if (stall->obeys) {
        atomic_fetch_add(&stall->calls[0], 1); /* it is in */
        wait_for_token(ctx);
        return;
    }
    if (!ctx)
        fake_leave(); /* as whatever blocks in a language with one big lock does */
    kit_gate_hook(&stall->gate, ctx, number);
    if (!ctx)
        fake_enter();
}

static void inner_slot(void *cookie, size_t slot, struct hr_ctx *ctx)
{
    if (slot == 0)
        be_stuck(cookie, ctx, AT);
}

static void outer_slot(void *cookie, size_t slot, struct hr_ctx *ctx)
{
    struct stall *stall = cookie;
    if (slot != stall->slot)
        return;
    if (stall->nested)
        hr_ctx_for_each(ctx, 3, inner_slot, stall);
    else
        be_stuck(stall, ctx, AT);
}

static void hook(void *cookie, struct hr_ctx *ctx, long number)
{
    struct stall *stall = cookie;
    if (stall->at >= 0 && number != stall->at)
        return;
    if (stall->call > 0 && atomic_fetch_add(&stall->calls[number], 1) != stall->call)
        return;
    if (stall->slots > 0)
        hr_ctx_for_each(ctx, stall->slots, outer_slot, stall);
    else
        be_stuck(stall, ctx, number);
}

static int inside(struct stall *stall)
{
    pthread_mutex_lock(&stall->gate.mutex);
    int n = stall->gate.inside;
    pthread_mutex_unlock(&stall->gate.mutex);
    return n;
}

/* ---- pipelines ---- */

static struct hr_stage_stats stats_of(struct hr_pipeline *p)
{
    struct hr_stage_stats stats[4];
    (void)hr_pipeline_stats(p, stats, 4);
    return stats[1];
}

static bool is_written_off(void *p)
{
    return stats_of(p).timed_out > 0;
}

static bool is_back(void *p)
{
    return stats_of(p).stuck == 0;
}

/* Nothing is under way but what is stuck; a clock that jumps would hit it, too. (Where
 * expand tasks wait for their turn it can't be told; one thread is quiet by itself.) */
static bool is_quiet(void *p)
{
    struct hr_stage_stats stats[4];
    struct hr_pipeline_summary summary;
    (void)hr_pipeline_snapshot(p, &summary, stats, 4);
    return summary.num_threads == 1 ||
           (stats[1].running == 1 && stats[1].queued == 0 && stats[0].items_out == END);
}

/* The same where several threads may be in one fork-join: nothing has moved for long. */
static bool await_still(struct hr_pipeline *p)
{
    uint64_t last = 0;
    int polls = 0;
    for (int i = 0; i < 10000 && polls < 50; i++) {
        usleep(1000);
        struct hr_stage_stats stats = stats_of(p);
        polls = stats.running == 1 && stats.items_out == last ? polls + 1 : 0;
        last = stats.items_out;
        if (stats.running == 1 && last == END - 1)
            return true;
    }
    return polls == 50;
}

static void await_stuck(struct stall *stall, struct hr_pipeline *p)
{
    kit_gate_await(&stall->gate);
    HR_CHECK(stall->slots > 0 ? await_still(p) : kit_await(is_quiet, p));
}

static struct kit_plan plan_of(struct kit_source *source, enum kit_kind kind,
                               struct kit_op *op, uint32_t threads)
{
    struct fake_settings settings = {0};
    return (struct kit_plan){
        .source = source,
        .stages = {{.kind = kind,
                    .op = op,
                    .options = {.concurrency = 2, .timeout_ns = TIMEOUT_NS}}},
        .count = 1,
        .sink = 64,
        .options = {.num_threads = threads, .task_deadline_ns = INT64_C(1) << 60},
        .runtime = fake_begin(&settings)};
}

static struct kit_source numbers(long end)
{
    return (struct kit_source){
        .end = end, .fail_at = -1, .fatal_at = -1, .form = KIT_OBJECT};
}

/* An expand has as many outputs as it likes. */
static void *nothing(void *arg)
{
    return arg;
}

/* With the first thread ThreadSanitizer starts one of its own. */
static int threads_before(void)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, nothing, NULL) == 0)
        pthread_join(thread, NULL);
    usleep(1000); /* it may be listed for a moment still */
    return kit_thread_count();
}

static bool is_in(void *count)
{
    return atomic_load((atomic_int *)count) > 0;
}

/* The last thread of it has gone, and freed the pipeline. */
static void check_gone(struct kit_op *op, int threads)
{
    HR_CHECK(kit_await(is_in, &op->freed));
    HR_CHECK(kit_threads_are(threads));
    HR_CHECK_EQ_INT(fake_end(), 0);
}

static void check_ledger(struct hr_pipeline *p, enum kit_kind kind)
{
    struct hr_stage_stats stats = stats_of(p);
    if (kind != KIT_EXPAND)
        HR_CHECK_EQ_INT(stats.items_in, stats.items_out + stats.filtered +
                                            stats.failed + stats.released);
    HR_CHECK_EQ_INT(stats.running, 0);
}

/* Item AT, and it alone, has failed by its deadline after so long. */
static void check_failure(struct hr_pipeline *p)
{
    struct hr_failure failure;
    char text[128];
    HR_REQUIRE(hr_pipeline_failure(p, 0, &failure) == HR_OK);
    HR_CHECK_EQ_INT(failure.error.status, HR_ERR_DEADLINE);
    HR_CHECK_EQ_INT(failure.index, AT);
    (void)snprintf(text, sizeof(text), "item %d after 40", AT);
    HR_CHECK(strstr(failure.error.text, text)); /* 400, and the grace, and a bit */
    HR_CHECK(strstr(failure.error.text, " s; its timeout is 400 s"));
    HR_CHECK(strstr(failure.error.text, "stage 'op'") ||
             strstr(failure.error.text, "stage 'stage'"));
    HR_CHECK_EQ_INT(hr_pipeline_failure(p, 1, &failure), HR_END);
}

/* ---- tests ---- */

/* All others come, in time and with as many threads as before; then the late one. */
static void run_stuck(enum kit_kind kind, uint32_t threads, bool ordered, bool release)
{
    struct stall stall = {.gate = KIT_GATE(0), .at = AT};
    struct kit_source source = numbers(END);
    struct kit_op op = {.hook = hook, .cookie = &stall, .fan = END};
    struct kit_plan plan = plan_of(&source, kind, &op, threads);
    long got[MAX];
    enum hr_status end;
    int before = threads_before();
    plan.stages[0].options.order = ordered ? HR_OUTPUT_INPUT : HR_OUTPUT_COMPLETION;
    time_begin();
    struct hr_pipeline *p = kit_start(&plan);
    HR_REQUIRE(p);
    await_stuck(&stall, p);
    time_pass(TIMEOUT_NS + (kind == KIT_NATIVE ? GRACE_NS : 0));
    HR_CHECK(kit_await(is_written_off, p));
    size_t n = kit_drain(p, false, got, MAX, &end);
    HR_CHECK_EQ_INT(end, HR_END);
    kit_sort(got, n);
    if (kind != KIT_EXPAND) {
        HR_CHECK_EQ_INT(n, END - 1);
        for (long i = 0; i < END - 1; i++)
            HR_CHECK_EQ_INT(got[i], i + (i >= AT));
    } else {
        HR_CHECK_EQ_INT(n, 45 - AT); /* n of each n, below 10 */
        HR_CHECK_EQ_INT(stats_of(p).items_in, END);
    }
    check_failure(p);
    check_ledger(p, kind);
    HR_CHECK_EQ_INT(stats_of(p).stuck, 1);
    HR_CHECK_EQ_INT(stats_of(p).late, 0);
    HR_CHECK_EQ_INT(inside(&stall), 1);
    if (release) {
        kit_gate_open(&stall.gate);
        HR_CHECK(kit_await(is_back, p));
        HR_CHECK_EQ_INT(stats_of(p).late, 1);
        HR_CHECK_EQ_INT(hr_pipeline_next(p, 0, &(struct hr_value){0}, NULL), HR_END);
    }
    HR_CHECK_EQ_INT(hr_pipeline_stop(p, HR_NO_DEADLINE, NULL), HR_OK);
    hr_pipeline_free(&p);
    kit_gate_open(&stall.gate);
    check_gone(&op, before);
    time_end();
}

static void a_stuck_call_is_written_off(void)
{
    static const enum kit_kind kinds[] = {KIT_NATIVE, KIT_FOREIGN, KIT_EXPAND};
    for (int i = 0; i < 36; i++)
        run_stuck(kinds[i % 3], 1 + (uint32_t)i / 3 % 3,
                  i % 2 && kinds[i % 3] != KIT_EXPAND, i >= 18);
}

/* Two of the generator's items are delivered, the third is not. In the end the iterator
 * is dropped, too. */
static void a_generator_is_stuck_in_its_third_item(void)
{
    struct stall stall = {.gate = KIT_GATE(0), .at = AT, .call = 2};
    struct kit_source source = numbers(END);
    struct kit_op op = {.hook = hook, .cookie = &stall, .fan = END};
    struct kit_plan plan = plan_of(&source, KIT_EXPAND, &op, 1);
    long got[MAX];
    enum hr_status end;
    int before = threads_before();
    plan.stages[0].options.order = HR_OUTPUT_INPUT;
    plan.sink = 64;
    time_begin();
    struct hr_pipeline *p = kit_start(&plan);
    HR_REQUIRE(p);
    await_stuck(&stall, p);
    time_pass(TIMEOUT_NS);
    HR_CHECK_EQ_INT(kit_drain(p, false, got, MAX, &end), 44);
    HR_CHECK_EQ_INT(end, HR_END);
    size_t at = 0;
    for (long item = 0; item < END; item++)
        for (long i = 0; i < (item == AT ? 2 : item); i++)
            HR_CHECK_EQ_INT(got[at++], item * 1000 + i);
    check_failure(p);
    check_ledger(p, KIT_EXPAND);
    kit_gate_open(&stall.gate);
    HR_CHECK(kit_await(is_back, p));
    hr_pipeline_free(&p);
    check_gone(&op, before);
    time_end();
}

static void run_raise(enum kit_kind kind)
{
    struct stall stall = {.gate = KIT_GATE(0), .at = AT};
    struct kit_source source = numbers(END);
    struct kit_op op = {.hook = hook, .cookie = &stall};
    struct kit_plan plan = plan_of(&source, kind, &op, 2);
    struct hr_failure failure;
    long got[MAX];
    enum hr_status end;
    int before = threads_before();
    plan.stages[0].options.order = HR_OUTPUT_INPUT;
    plan.stages[0].on_error = HR_ON_ERROR_RAISE;
    time_begin();
    struct hr_pipeline *p = kit_start(&plan);
    HR_REQUIRE(p);
    await_stuck(&stall, p);
    time_pass(TIMEOUT_NS + GRACE_NS);
    HR_CHECK_EQ_INT(kit_drain(p, false, got, MAX, &end), AT);
    HR_CHECK_EQ_INT(end, HR_ERR_DEADLINE);
    HR_CHECK(hr__pipeline_final_failure(p, &failure));
    HR_CHECK_EQ_INT(failure.index, AT);
    HR_CHECK_EQ_INT(hr_pipeline_stop(p, HR_NO_DEADLINE, NULL), HR_OK);
    check_ledger(p, kind);
    kit_gate_open(&stall.gate);
    hr_pipeline_free(&p);
    check_gone(&op, before);
    time_end();
}

static void a_stuck_call_may_end_the_run(void)
{
    run_raise(KIT_NATIVE);
    run_raise(KIT_FOREIGN);
}

/* It says HR_OK after its deadline, and has failed all the same; no thread is lost. */
static void a_native_op_that_obeys_keeps_its_thread(void)
{
    for (uint32_t retries = 0; retries < 2; retries++) {
        struct stall stall = {.gate = KIT_GATE(0), .at = AT, .obeys = true};
        struct kit_source source = numbers(END);
        struct kit_op op = {.hook = hook, .cookie = &stall};
        struct kit_plan plan = plan_of(&source, KIT_NATIVE, &op, 2);
        enum hr_status end;
        plan.stages[0].retry = (struct hr_retry_policy){
            .times = retries, .statuses = UINT64_C(1) << HR_ERR_DEADLINE};
        time_begin();
        struct hr_pipeline *p = kit_start(&plan);
        HR_REQUIRE(p);
        for (uint32_t i = 0; i <= retries; i++) { /* each attempt has the whole time */
            HR_CHECK(kit_await(is_in, &stall.calls[0]));
            HR_CHECK(kit_await(is_quiet, p));
            atomic_store(&stall.calls[0], 0);
            HR_CHECK_EQ_INT(stats_of(p).timed_out, i);
            time_pass(TIMEOUT_NS);
        }
        HR_CHECK_EQ_INT(kit_drain(p, false, NULL, 0, &end), END - 1);
        check_failure(p);
        check_ledger(p, KIT_NATIVE);
        HR_CHECK_EQ_INT(stats_of(p).timed_out, 1 + retries);
        HR_CHECK_EQ_INT(stats_of(p).retried, retries);
        HR_CHECK_EQ_INT(stats_of(p).stuck + stats_of(p).late, 0);
        hr_pipeline_free(&p);
        time_end();
        HR_CHECK_EQ_INT(fake_end(), 0);
    }
}

/* Whoever is in the fork-join is lost with its owner: one is stuck, one waits for it. */
static void run_fork(size_t slot, bool nested, uint32_t threads)
{
    struct stall stall = {
        .gate = KIT_GATE(0), .at = AT, .slots = 4, .slot = slot, .nested = nested};
    struct kit_source source = numbers(END);
    struct kit_op op = {.hook = hook, .cookie = &stall};
    struct kit_plan plan = plan_of(&source, KIT_NATIVE, &op, threads);
    enum hr_status end;
    int before = threads_before();
    time_begin();
    struct hr_pipeline *p = kit_start(&plan);
    HR_REQUIRE(p);
    await_stuck(&stall, p);
    time_pass(TIMEOUT_NS + GRACE_NS);
    HR_CHECK_EQ_INT(kit_drain(p, false, NULL, 0, &end), END - 1);
    HR_CHECK_EQ_INT(end, HR_END);
    check_failure(p);
    check_ledger(p, KIT_NATIVE);
    uint64_t stuck = stats_of(p).stuck;
    HR_CHECK(stuck >= 1 && stuck <= threads);
    kit_gate_open(&stall.gate);
    HR_CHECK(kit_await(is_back, p));
    HR_CHECK_EQ_INT(stats_of(p).late, 1);
    HR_CHECK_EQ_INT(hr_pipeline_stop(p, HR_NO_DEADLINE, NULL), HR_OK);
    hr_pipeline_free(&p);
    check_gone(&op, before);
    time_end();
}

static void a_slot_that_is_stuck_takes_its_fork_join_along(void)
{
    for (int i = 0; i < 24; i++)
        run_fork((size_t)i % 4, i & 4, 1 + (uint32_t)i % 3);
}

/* ---- threads that can't be had ---- */

static atomic_int starts_left;

static int few_starts(pthread_t *thread, void *(*fn)(void *), void *arg)
{
    if (atomic_fetch_sub(&starts_left, 1) <= 0)
        return EAGAIN;
    return hr__sys_direct.thread_start(thread, fn, arg);
}

/* With another thread the run goes on; without one it ends. The late one is needed
 * still, to end what there is to be ended. */
static void run_unreplaced(uint32_t threads, enum kit_kind kind)
{
    struct stall stall = {.gate = KIT_GATE(0), .at = AT};
    struct kit_source source = numbers(END);
    struct kit_op op = {.hook = hook, .cookie = &stall};
    struct kit_plan plan = plan_of(&source, kind, &op, threads);
    enum hr_status end;
    int before = threads_before();
    atomic_store(&starts_left, (int)threads + 1); /* and the event loop's */
    hr__sys.thread_start = few_starts;
    time_begin();
    struct hr_pipeline *p = kit_start(&plan);
    HR_REQUIRE(p);
    await_stuck(&stall, p);
    time_pass(TIMEOUT_NS + GRACE_NS);
    size_t n = kit_drain(p, false, NULL, 0, &end);
    if (threads > 1) {
        HR_CHECK_EQ_INT(n, END - 1);
        HR_CHECK_EQ_INT(end, HR_END);
    } else {
        HR_CHECK_EQ_INT(end, HR_ERR_THREAD);
        HR_CHECK_EQ_INT(hr_pipeline_stop(p, virtual_now(), NULL), HR_OK);
    }
    check_failure(p);
    kit_gate_open(&stall.gate);
    HR_CHECK(kit_await(is_back, p));
    HR_CHECK_EQ_INT(hr_pipeline_stop(p, HR_NO_DEADLINE, NULL), HR_OK);
    check_ledger(p, kind);
    hr_pipeline_free(&p);
    check_gone(&op, before);
    time_end();
    hr__sys.thread_start = hr__sys_direct.thread_start;
}

static void without_a_new_thread_the_rest_goes_on(void)
{
    run_unreplaced(2, KIT_NATIVE);
    run_unreplaced(2, KIT_FOREIGN);
    run_unreplaced(1, KIT_NATIVE);
    run_unreplaced(1, KIT_FOREIGN);
}

/* ---- real time ---- */

static const int64_t short_ns = 20000000;

/* Nothing but the timeout ends it. */
static void stop_does_not_wait_for_what_is_lost(void)
{
    static const enum kit_kind kinds[] = {KIT_NATIVE, KIT_FOREIGN, KIT_EXPAND};
    for (int i = 0; i < 6; i++) {
        struct stall stall = {.gate = KIT_GATE(0), .at = -1};
        struct kit_source source = numbers(100);
        struct kit_op op = {.hook = hook, .cookie = &stall, .fan = 10};
        struct kit_plan plan = plan_of(&source, kinds[i % 3], &op, 2);
        int before = threads_before();
        plan.stages[0].options.timeout_ns = short_ns;
        struct hr_pipeline *p = kit_start(&plan);
        HR_REQUIRE(p);
        kit_gate_await(&stall.gate);
        HR_CHECK_EQ_INT(hr_pipeline_stop(p, HR_NO_DEADLINE, NULL), HR_OK);
        check_ledger(p, kinds[i % 3]);
        HR_CHECK(stats_of(p).stuck > 0);
        HR_CHECK(inside(&stall) > 0);
        if (i < 3)
            kit_gate_open(&stall.gate); /* it may come back at any point of the end */
        hr_pipeline_free(&p);
        kit_gate_open(&stall.gate);
        check_gone(&op, before);
    }
}

/* All items are stuck for ever: there is an end to that. */
static void too_many_stuck_threads_end_the_run(void)
{
    struct stall stall = {.gate = KIT_GATE(0), .at = -1};
    struct kit_source source = numbers(100000);
    struct kit_op op = {.hook = hook, .cookie = &stall};
    struct kit_plan plan = plan_of(&source, KIT_FOREIGN, &op, 4);
    enum hr_status end;
    int before = threads_before();
    plan.stages[0].options.timeout_ns = 1;
    plan.stages[0].options.concurrency = 8;
    struct hr_pipeline *p = kit_start(&plan);
    HR_REQUIRE(p);
    HR_CHECK_EQ_INT(kit_drain(p, false, NULL, 0, &end), 0);
    HR_CHECK_EQ_INT(end, HR_ERR_LIMIT);
    HR_CHECK_EQ_INT(hr_pipeline_stop(p, HR_NO_DEADLINE, NULL), HR_OK);
    HR_CHECK(stats_of(p).stuck >= 256 && stats_of(p).stuck < 266);
    check_ledger(p, KIT_FOREIGN);
    hr_pipeline_free(&p);
    kit_gate_open(&stall.gate);
    check_gone(&op, before);
}

/* Some items take longer than allowed, some about as long. */
static void hook_dawdle(void *cookie, struct hr_ctx *ctx, long number)
{
    useconds_t us = (useconds_t)(number * 7919 % 4000);
    (void)cookie;
    if (number % 5 == 0)
        us = 0;
    if (!ctx)
        fake_leave();
    usleep(us);
    if (!ctx)
        fake_enter();
}

static void run_dawdle(enum kit_kind kind, uint32_t concurrency, bool ordered)
{
    struct kit_source source = numbers(200);
    struct kit_op op = {.hook = hook_dawdle, .fan = 3};
    struct kit_plan plan = plan_of(&source, kind, &op, 3);
    long got[MAX], last = -1;
    enum hr_status end;
    int before = threads_before();
    plan.stages[0].options.timeout_ns = 2000000;
    plan.stages[0].options.concurrency = concurrency;
    plan.stages[0].options.order = ordered ? HR_OUTPUT_INPUT : HR_OUTPUT_COMPLETION;
    struct hr_pipeline *p = kit_start(&plan);
    HR_REQUIRE(p);
    size_t n = kit_drain(p, concurrency % 2, got, MAX, &end);
    HR_CHECK_EQ_INT(end, HR_END);
    for (size_t i = 0; ordered && i < n; i++) {
        HR_CHECK(got[i] > last);
        last = got[i];
    }
    struct hr_stage_stats stats = stats_of(p);
    if (kind != KIT_EXPAND)
        HR_CHECK_EQ_INT(n + stats.failed, 200);
    HR_CHECK_EQ_INT(stats.items_in, 200);
    HR_CHECK_EQ_INT(stats.failed, stats.timed_out);
    HR_CHECK(stats.failed > 0);
    HR_CHECK(kit_await(is_back, p));
    hr_pipeline_free(&p);
    check_gone(&op, before);
}

static void around_the_deadline_each_item_is_told_of_once(void)
{
    static const enum kit_kind kinds[] = {KIT_NATIVE, KIT_FOREIGN, KIT_EXPAND};
    for (uint32_t i = 0; i < 12; i++)
        run_dawdle(kinds[i % 3], 1 + i % 4, i & 1);
}

/* ---- arguments ---- */

static void timeouts_that_do_not_fit(void)
{
    struct kit_source source = numbers(1);
    struct kit_op op = {.fan = 2};
    struct kit_plan plan = plan_of(&source, KIT_NATIVE, &op, 1);
    struct hr_pipeline *p;
    struct hr_error err;
    static const int64_t wrong[] = {-1, INT64_MIN, INT64_C(1000000000000000001)};
    for (int i = 0; i < 3; i++) {
        plan.stages[0].options.timeout_ns = wrong[i];
        HR_CHECK_EQ_INT(kit_build(&plan, &p, &err), HR_ERR_ARG);
        HR_CHECK(strstr(err.text, "timeout_ns"));
    }
    plan.stages[0].options.timeout_ns = 1;
    plan.stages[0].kind = KIT_FOLD;
    HR_CHECK_EQ_INT(kit_build(&plan, &p, &err), HR_ERR_ARG);
    HR_CHECK(strstr(err.text, "aggregator"));
    HR_CHECK_EQ_INT(fake_end(), 0);
}

static const struct hr_test tests[] = {
    HR_TEST(a_stuck_call_is_written_off),
    HR_TEST(a_generator_is_stuck_in_its_third_item),
    HR_TEST(a_stuck_call_may_end_the_run),
    HR_TEST(a_native_op_that_obeys_keeps_its_thread),
    HR_TEST(a_slot_that_is_stuck_takes_its_fork_join_along),
    HR_TEST(without_a_new_thread_the_rest_goes_on),
    HR_TEST(stop_does_not_wait_for_what_is_lost),
    HR_TEST(too_many_stuck_threads_end_the_run),
    HR_TEST(around_the_deadline_each_item_is_told_of_once),
    HR_TEST(timeouts_that_do_not_fit),
};

HR_TEST_MAIN(tests)
