/* engine_async_test.c - the engine and an event loop, played by a thread in C.
 *
 * The loop keeps what it was given, ends it in a random order, and looks at the
 * descriptor only when it has nothing to do: a bell that is not rung is a test that
 * hangs, and fails after 10 s. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/sys.h"
#include "engine/async.h"
#include "engine_kit.h"
#include "hr_test.h"

enum { MAX = 2000, TASKS_MAX = 256, STAGES_MAX = 4 };

/* ---- stages ---- */

/* Item n: fails if divisible by fail_every, is skipped by skip_every, else n + add. As an
 * expand: n % (fan + 1) outputs n * 10 + i. As a source: 0 … fan - 1. */
struct stage {
    char kind; /* A map, G expand, S source: on the loop. L: a function that awaits */
    long fail_every, skip_every, add, fan;
    long at_once_to; /* L: up to here the result is there at once */
    long stuck_at;   /* never ends before the run is cancelled, nor before `release` */
    void (*in_first)(void); /* L: happens in the call of item 0 */
    atomic_int freed;
};

static void free_state(void *state)
{
    atomic_fetch_add(&((struct stage *)state)->freed, 1);
}

static bool divides(long by, long n)
{
    return by && n % by == 0;
}

/* The outcome of a map. */
static void end_map(const struct stage *stage, long n, struct hr_call *call)
{
    call->out_count = 0;
    if (divides(stage->fail_every, n)) {
        call->outcome = HR_TASK_FAILED;
        (void)hr_error_set(&call->error, HR_ERR_FORMAT, "loop", 0, "%ld is bad", n);
        call->exception = fake_object_new(n, 0);
    } else if (divides(stage->skip_every, n)) {
        call->outcome = HR_TASK_FILTERED;
    } else {
        call->outcome = HR_TASK_DONE;
        call->out[0] = fake_object_new(n + stage->add, 0);
        call->out_count = 1;
    }
}

/* On a worker: the first part of a function that awaits. */
static size_t run_function(void *state, struct hr_call *calls, size_t count,
                           int64_t until_ns)
{
    const struct stage *stage = state;
    size_t made = 0;
    do {
        struct hr_call *call = &calls[made++];
        long n = kit_number(call->in);
        fake_expect(fake_is_attached(), "a call is made while not attached");
        call->exception = HR_VALUE_EMPTY;
        call->fatal = false;
        if (stage->in_first && n == 0)
            stage->in_first();
        if (n < stage->at_once_to) {
            end_map(stage, n, call);
            continue;
        }
        hr_value_release(call->in);
        call->outcome = HR_TASK_DONE;
        call->out[0] = fake_object_new(n, 0);
        call->out_count = 1;
        call->awaits = true;
    } while (made < count && !calls[made - 1].awaits &&
             hr__sys_direct.now_ns() < until_ns);
    return made;
}

static const struct hr_foreign_class stage_class = {.run = run_function,
                                                    .free_state = free_state};

/* ---- the loop ---- */

struct held {
    struct hr_async_task *task;
    long item, next, end;
};

static struct loop {
    struct hr_pipeline *pipeline;
    pthread_t thread;
    unsigned seed;
    atomic_bool started;
    atomic_bool release;       /* what is stuck may end */
    atomic_int asked, dropped; /* calls of start_loop by workers, and of drop_loop */
    struct held held[TASKS_MAX];
    size_t count;
    /* per stage, checked against its concurrency */
    struct hr_async_stage stages[STAGES_MAX];
    uint32_t at_work[STAGES_MAX];
} loop;

static unsigned draw(unsigned below)
{
    loop.seed = loop.seed * 1103515245 + 12345;
    return (loop.seed >> 16) % below;
}

/* Begin a task: its value is taken. */
static void hold(struct hr_async_task *task)
{
    struct hr_async_stage *stage = &loop.stages[task->stage];
    struct stage *state = stage->state;
    struct held *held = &loop.held[loop.count++];
    *held = (struct held){.task = task, .end = state->fan};
    fake_expect(++loop.at_work[task->stage] <= stage->concurrency,
                "more tasks than the concurrency");
    if (task->adopted) {
        held->item = kit_number(&task->call.out[0]);
        hr_value_release(&task->call.out[0]);
        task->call.awaits = false;
    } else if (task->call.in) {
        held->item = kit_number(task->call.in);
        hr_value_release(task->call.in);
    }
    task->call.out_count = 0;
    task->begun = true;
    if (stage->kind == HR_ASYNC_EXPAND)
        held->end = held->item % (state->fan + 1);
}

static void accept(struct hr_async_task *list)
{
    for (struct hr_async_task *next; list; list = next) {
        next = list->next;
        if (!list->begun)
            hold(list);
    }
}

static bool is_stuck(const struct held *held)
{
    const struct stage *state = loop.stages[held->task->stage].state;
    return state->stuck_at && held->item == state->stuck_at &&
           !atomic_load(&loop.release);
}

/* One more step of a stream. */
static void step_stream(struct held *held)
{
    struct hr_async_task *task = held->task;
    struct hr_call *call = &task->call;
    bool is_source = loop.stages[task->stage].kind == HR_ASYNC_SOURCE;
    uint32_t most = call->grant ? draw(call->grant) + 1 : 0;
    call->out_count = 0;
    while (call->out_count < most && held->next < held->end) {
        long n = is_source ? held->next : held->item * 10 + held->next;
        call->out[call->out_count++] = fake_object_new(n, 0);
        held->next++;
    }
    bool over = task->closing || task->over || held->next == held->end;
    call->outcome = over ? HR_TASK_DONE : HR_TASK_MORE;
}

/* Take a step of held task i if it can be made; is it to be handed in? */
static bool step(size_t i, bool cancelled)
{
    struct held *held = &loop.held[i];
    struct hr_async_task *task = held->task;
    struct hr_async_stage *stage = &loop.stages[task->stage];
    if (is_stuck(held))
        return false;
    if (stage->kind != HR_ASYNC_MAP) {
        if (task->call.grant == 0 && !task->closing && !task->over)
            return false;
        step_stream(held);
        return true;
    }
    if (cancelled && draw(2))
        task->call.outcome = HR_TASK_DONE; /* as it is */
    else
        end_map(stage->state, held->item, &task->call);
    return true;
}

/* Some of the held tasks, to be handed in. */
static struct hr_async_task *some(bool cancelled)
{
    struct hr_async_task *list = NULL;
    size_t left = 0, most = 1 + draw(6);
    size_t first = loop.count ? draw((unsigned)loop.count) : 0;
    for (size_t i = 0; i < loop.count; i++) {
        struct held held = loop.held[i];
        if (i >= first && most > 0 && step(i, cancelled)) {
            held = loop.held[i];
            most--;
            held.task->next = list;
            held.task->took_ns = 1000;
            list = held.task;
            if (held.task->call.outcome != HR_TASK_MORE) {
                loop.at_work[held.task->stage]--;
                continue;
            }
        }
        loop.held[left++] = held;
    }
    loop.count = left;
    return list;
}

static void sleep_on_descriptor(void *thread)
{
    struct pollfd bell = {.fd = hr__async_descriptor(loop.pipeline), .events = POLLIN};
    fake_leave();
    int ready = poll(&bell, 1, 10000);
    fake_enter();
    fake_expect(ready == 1, "the bell was not rung");
    hr__async_hush(loop.pipeline);
    (void)thread;
}

static void serve(void *thread)
{
    enum hr_async_state state = HR_ASYNC_RUNS;
    while (state != HR_ASYNC_ENDED) {
        struct hr_async_task *finished = draw(4) ? some(state != HR_ASYNC_RUNS) : NULL;
        int stage = draw(3) ? -1 : 1;
        struct hr_async_task *list =
            hr__async_exchange(loop.pipeline, finished, stage, &state);
        fake_expect(fake_is_attached(), "an exchange comes back attached");
        accept(list);
        if (!finished && !list && stage < 0 && state != HR_ASYNC_ENDED) {
            bool idle = true;
            for (size_t i = 0; i < loop.count; i++) {
                const struct hr_async_task *task = loop.held[i].task;
                bool stream = loop.stages[task->stage].kind != HR_ASYNC_MAP;
                idle = idle && (is_stuck(&loop.held[i]) ||
                                (stream && !task->call.grant && !task->closing));
            }
            if (idle && !loop.count)
                sleep_on_descriptor(thread);
            else if (idle)
                fake_sleep(200000);
        }
        hr__async_let_consumer_in(loop.pipeline);
    }
    fake_expect(loop.count == 0, "tasks are left at the end");
}

static const struct hr_runtime *runtime;

static void *loop_main(void *unused)
{
    (void)unused;
    void *thread = runtime->thread_new();
    (void)runtime->attach(thread);
    fake_expect(hr__async_begin(loop.pipeline, thread), "the loop is not expected");
    serve(thread);
    hr__async_leave(loop.pipeline);
    runtime->detach(thread);
    runtime->thread_free(thread);
    return NULL;
}

static bool start_loop(void *cookie)
{
    struct hr_error err = {0};
    bool attached = fake_is_attached();
    fake_expect(cookie == &loop, "start_loop has its cookie");
    fake_expect(atomic_load(&loop.dropped) == 0, "the cookie was dropped");
    if (attached)
        atomic_fetch_add(&loop.asked, 1), fake_leave();
    enum hr_status status = hr__async_expect(loop.pipeline, &err);
    if (attached)
        fake_enter();
    if (status == HR_OK) {
        loop.started = true;
        pthread_create(&loop.thread, NULL, loop_main, NULL);
    }
    return loop.started;
}

/* No thread is left that might start the loop. */
static void drop_loop(void *cookie)
{
    fake_expect(cookie == &loop, "drop_loop has the cookie");
    atomic_fetch_add(&loop.dropped, 1);
}

/* ---- building ---- */

struct plan {
    struct stage *stages; /* up to the first without a kind */
    long items;           /* of a native source */
    uint32_t concurrency;
    enum hr_output_order order;
    const char *key;
    int64_t deadline_ns;
};

static enum hr_status add_source(struct hr_plan *plan, long items)
{
    static char texts[MAX][24];
    static const char *names[MAX];
    struct hr_source source = {0};
    for (long i = 0; i < items; i++) {
        (void)snprintf(texts[i], sizeof(texts[i]), "%ld", i);
        names[i] = texts[i];
    }
    enum hr_status status = hr_source_of_texts(names, (size_t)items, &source, NULL);
    return status == HR_OK ? hr_plan_source(plan, &source, NULL) : status;
}

static enum hr_status add_stage(struct hr_plan *plan, const struct plan *want,
                                struct stage *stage)
{
    struct hr_foreign foreign = {&stage_class, stage};
    struct hr_stage_options options = {.name = "stage",
                                       .concurrency = want->concurrency,
                                       .order = want->order,
                                       .key_name = want->key,
                                       .has_key = want->key != NULL};
    atomic_store(&stage->freed, 0);
    enum hr_status status =
        stage->kind == 'S'
            ? hr__plan_foreign_source(plan, "source", &foreign, NULL)
            : hr__plan_foreign_pipe(plan, &foreign, stage->kind == 'G', &options, NULL);
    if (status == HR_OK && stage->kind != 'L')
        hr__plan_on_loop(plan);
    return status;
}

/* A pipeline with its loop, not started. */
static struct hr_pipeline *build(const struct plan *want, unsigned seed)
{
    struct fake_settings settings = {.start_loop = start_loop, .drop_loop = drop_loop};
    struct hr_pipeline_options options = {.num_threads = 2,
                                          .task_deadline_ns = want->deadline_ns};
    struct hr_plan *plan = NULL;
    struct hr_pipeline *p = NULL;
    runtime = fake_begin(&settings);
    bool ok = hr_plan_new(&plan, NULL) == HR_OK;
    if (ok)
        hr__plan_runtime(plan, runtime);
    if (ok && want->stages[0].kind != 'S')
        ok = add_source(plan, want->items) == HR_OK;
    for (struct stage *stage = want->stages; ok && stage->kind; stage++)
        ok = add_stage(plan, want, stage) == HR_OK;
    ok = ok && hr_plan_sink(plan, 3, NULL) == HR_OK;
    ok = ok && hr_pipeline_new(&plan, &options, &p, NULL) == HR_OK;
    hr_plan_free(&plan);
    memset(&loop, 0, sizeof(loop));
    loop.pipeline = p;
    loop.seed = seed;
    for (uint32_t i = 0; ok && i < STAGES_MAX; i++)
        (void)hr__async_stage(p, i, &loop.stages[i]);
    if (ok)
        hr__async_set_cookie(p, &loop);
    return p;
}

static struct hr_pipeline *start(const struct plan *want, unsigned seed)
{
    struct hr_pipeline *p = build(want, seed);
    HR_CHECK(p != NULL);
    if (!p)
        return NULL;
    HR_CHECK_EQ_INT(hr_pipeline_start(p, NULL), HR_OK);
    if (hr__async_needed(p))
        (void)start_loop(&loop); /* false: the run is over, or a worker was first */
    return p;
}

/* The end of p, which was stopped or came to its end. */
static void finish(struct hr_pipeline *p, const struct plan *plan)
{
    struct hr_error err = {0};
    HR_CHECK_EQ_INT(hr_pipeline_stop(p, hr__sys_direct.now_ns() + 10000000000, &err),
                    HR_OK);
    if (loop.started)
        pthread_join(loop.thread, NULL);
    struct hr_stage_stats stats[STAGES_MAX + 2];
    size_t n = hr_pipeline_stats(p, stats, STAGES_MAX + 2);
    for (size_t i = 0; i < n; i++)
        HR_CHECK_EQ_INT(stats[i].running, 0);
    HR_CHECK_EQ_INT(atomic_load(&loop.dropped), 0);
    hr_pipeline_free(&p);
    HR_CHECK_EQ_INT(atomic_load(&loop.dropped), 1);
    for (struct stage *stage = plan->stages; stage->kind; stage++)
        HR_CHECK_EQ_INT(atomic_load(&stage->freed), 1);
    HR_CHECK_EQ_INT(fake_end(), 0);
}

/* ---- the model ---- */

static size_t model(const struct plan *plan, long *out)
{
    size_t count = 0;
    for (long i = 0; i < plan->items; i++)
        out[count++] = i;
    for (const struct stage *stage = plan->stages; stage->kind; stage++) {
        static long next[MAX];
        size_t n = 0;
        if (stage->kind == 'S') {
            while ((long)n < stage->fan)
                next[n] = (long)n, n++;
        }
        for (size_t i = 0; i < count; i++) {
            long item = out[i];
            if (stage->kind == 'G') {
                for (long k = 0; k < item % (stage->fan + 1); k++)
                    next[n++] = item * 10 + k;
            } else if (!divides(stage->fail_every, item) &&
                       !divides(stage->skip_every, item)) {
                next[n++] = item + stage->add;
            }
        }
        memcpy(out, next, n * sizeof(*out));
        count = n;
    }
    return count;
}

static void run_and_compare(const struct plan *plan, unsigned seed, bool attached)
{
    static long want[MAX], got[MAX];
    enum hr_status end;
    struct hr_pipeline *p = start(plan, seed);
    HR_REQUIRE(p);
    size_t n = model(plan, want);
    size_t count = kit_drain(p, attached, got, MAX, &end);
    HR_CHECK_EQ_INT(end, HR_END);
    HR_CHECK_EQ_INT(count, n);
    if (plan->order == HR_OUTPUT_COMPLETION) {
        kit_sort(want, n);
        kit_sort(got, count);
    }
    HR_CHECK(memcmp(want, got, count * sizeof(*got)) == 0);
    finish(p, plan);
}

#define MAP {.kind = 'A', .fail_every = 7, .skip_every = 5, .add = 1}
#define EXPAND {.kind = 'G', .fan = 20}
#define SOURCE {.kind = 'S', .fan = 90}
#define AWAITS {.kind = 'L', .fail_every = 7, .skip_every = 5, .add = 1}
#define LATE {.kind = 'L', .add = 1, .at_once_to = 60}

static void chains_give_what_loops_give(void)
{
    static struct stage chains[][4] = {
        {MAP},          {EXPAND},       {SOURCE},         {AWAITS},
        {LATE},         {MAP, MAP},     {MAP, EXPAND},    {EXPAND, MAP},
        {SOURCE, MAP},  {SOURCE, LATE}, {AWAITS, EXPAND}, {SOURCE, EXPAND, MAP},
        {LATE, AWAITS},
    };
    unsigned seed = 0;
    for (size_t i = 0; i < sizeof(chains) / sizeof(chains[0]); i++) {
        for (uint32_t c = 1; c <= 7; c += 3) {
            for (int order = 0; order < 2; order++) {
                struct plan plan = {.stages = chains[i],
                                    .items = chains[i][0].kind == 'S' ? 0 : 90,
                                    .concurrency = c,
                                    .order =
                                        order ? HR_OUTPUT_INPUT : HR_OUTPUT_COMPLETION};
                seed++;
                run_and_compare(&plan, seed, seed % 2);
            }
        }
    }
}

static void an_empty_source_ends(void)
{
    static struct stage stages[] = {MAP, AWAITS, {0}};
    struct plan plan = {.stages = stages, .concurrency = 3};
    run_and_compare(&plan, 1, false);
}

/* The watchdog looks at tasks all the time, in a thread of its own. */
static void watched_while_they_go_on(void)
{
    static struct stage stages[] = {MAP, EXPAND, {0}};
    struct plan plan = {
        .stages = stages, .items = 90, .concurrency = 3, .deadline_ns = 20000};
    for (unsigned seed = 1; seed < 20; seed++)
        run_and_compare(&plan, seed, seed % 2);
}

static void stop_at_any_moment(void)
{
    static struct stage chains[][4] = {
        {MAP, EXPAND}, {SOURCE, MAP}, {AWAITS, MAP}, {SOURCE, LATE, EXPAND}};
    for (unsigned seed = 0; seed < 60; seed++) {
        struct stage *stages = chains[seed % 4];
        struct plan plan = {.stages = stages,
                            .items = stages[0].kind == 'S' ? 0 : 500,
                            .concurrency = 1 + seed % 5,
                            .order = seed % 3 ? HR_OUTPUT_INPUT : HR_OUTPUT_COMPLETION};
        struct hr_pipeline *p = start(&plan, seed);
        HR_REQUIRE(p);
        long number;
        for (unsigned i = 0; i < seed % 13; i++)
            (void)kit_next(p, &number);
        finish(p, &plan);
    }
}

static void misfits_fail_before_they_are_begun(void)
{
    static struct stage stages[] = {MAP, {0}};
    struct plan plan = {.stages = stages, .items = 40, .concurrency = 3, .key = "x"};
    enum hr_status end;
    long got[8];
    struct hr_pipeline_summary summary;
    struct hr_pipeline *p = start(&plan, 1);
    HR_REQUIRE(p);
    HR_CHECK_EQ_INT(kit_drain(p, false, got, 8, &end), 0);
    HR_CHECK_EQ_INT(end, HR_END);
    hr_pipeline_summary(p, &summary);
    HR_CHECK_EQ_INT(summary.failed, 40); /* texts, where records are needed */
    finish(p, &plan);
}

static void what_is_stuck_is_named(void)
{
    static struct stage stages[] = {{.kind = 'A', .stuck_at = 5}, {0}};
    struct plan plan = {
        .stages = stages, .items = 20, .concurrency = 2, .order = HR_OUTPUT_INPUT};
    struct hr_error err = {0};
    long number;
    struct hr_pipeline *p = start(&plan, 1);
    HR_REQUIRE(p);
    for (long i = 0; i < 5; i++) {
        HR_CHECK_EQ_INT(kit_next(p, &number), HR_OK);
        HR_CHECK_EQ_INT(number, i);
    }
    HR_CHECK_EQ_INT(hr_pipeline_stop(p, hr__sys_direct.now_ns() + 50000000, &err),
                    HR_TIMEOUT);
    HR_CHECK(strstr(err.text, "'stage' still awaits item 5") != NULL);
    atomic_store(&loop.release, true);
    finish(p, &plan);
}

static void a_thread_that_does_not_come(void)
{
    static struct stage stages[] = {MAP, {0}};
    struct plan plan = {.stages = stages, .items = 20, .concurrency = 2};
    struct hr_pipeline *p = build(&plan, 1);
    HR_REQUIRE(p);
    HR_CHECK_EQ_INT(hr_pipeline_start(p, NULL), HR_OK);
    HR_CHECK_EQ_INT(hr__async_expect(p, NULL), HR_OK);
    HR_CHECK_EQ_INT(hr__async_expect(p, NULL), HR_AGAIN);
    hr__async_abandon(p);
    finish(p, &plan);
}

static bool refuse_loop(void *cookie)
{
    (void)cookie;
    return false;
}

static void no_loop_for_a_function_that_awaits(void)
{
    static struct stage stages[] = {{.kind = 'L', .add = 1, .at_once_to = 30}, {0}};
    struct plan plan = {
        .stages = stages, .items = 50, .concurrency = 2, .order = HR_OUTPUT_INPUT};
    enum hr_status end;
    long got[64];
    struct hr_failure failure;
    struct hr_pipeline *p = build(&plan, 1);
    HR_REQUIRE(p);
    ((struct hr_runtime *)(uintptr_t)runtime)->start_loop = refuse_loop;
    HR_CHECK_EQ_INT(hr_pipeline_start(p, NULL), HR_OK);
    HR_CHECK_EQ_INT(kit_drain(p, false, got, 64, &end), 30);
    HR_CHECK_EQ_INT(hr_pipeline_failure(p, 19, &failure), HR_OK);
    HR_CHECK_EQ_INT(failure.error.status, HR_ERR_THREAD);
    HR_CHECK_EQ_INT(hr_pipeline_failure(p, 20, &failure), HR_END);
    finish(p, &plan);
}

static bool promise_loop(void *cookie)
{
    (void)cookie;
    fake_leave();
    enum hr_status status = hr__async_expect(loop.pipeline, NULL);
    fake_enter();
    return status == HR_OK;
}

/* What workers gave to a loop that is then given up fails, and nothing hangs. */
static void a_promised_thread_that_does_not_come(void)
{
    static struct stage stages[] = {{.kind = 'L', .add = 1, .at_once_to = 7}, {0}};
    struct plan plan = {
        .stages = stages, .items = 50, .concurrency = 3, .order = HR_OUTPUT_INPUT};
    enum hr_status end;
    long got[64], number;
    struct hr_failure failure;
    struct hr_pipeline *p = build(&plan, 1);
    HR_REQUIRE(p);
    ((struct hr_runtime *)(uintptr_t)runtime)->start_loop = promise_loop;
    HR_CHECK_EQ_INT(hr_pipeline_start(p, NULL), HR_OK);
    for (long i = 0; i < 7; i++)
        HR_CHECK_EQ_INT(kit_next(p, &number), HR_OK);
    struct hr_stage_stats stats[3];
    do
        (void)hr_pipeline_stats(p, stats, 3);
    while (stats[1].running < 3);
    ((struct hr_runtime *)(uintptr_t)runtime)->start_loop = refuse_loop;
    hr__async_abandon(p);
    HR_CHECK_EQ_INT(kit_drain(p, false, got, 64, &end), 0);
    HR_CHECK_EQ_INT(end, HR_END);
    HR_CHECK_EQ_INT(hr_pipeline_failure(p, 42, &failure), HR_OK);
    HR_CHECK_EQ_INT(hr_pipeline_failure(p, 43, &failure), HR_END);
    finish(p, &plan);
}

/* As a destructor does that runs in a call. */
static void let_go(void)
{
    struct hr_pipeline *p = loop.pipeline;
    fake_leave();
    hr_pipeline_free(&p);
    fake_enter();
}

static bool is_one(void *number)
{
    return atomic_load((atomic_int *)number) == 1;
}

/* The worker that is in the call may ask for a loop still. */
static void a_pipeline_let_go_by_a_call_of_its_own(void)
{
    static struct stage stages[] = {{.kind = 'L', .in_first = let_go}, {0}};
    struct plan plan = {.stages = stages, .items = 50, .concurrency = 2};
    struct hr_pipeline *p = build(&plan, 1);
    HR_REQUIRE(p);
    hr__async_ref(p);
    HR_CHECK_EQ_INT(hr_pipeline_start(p, NULL), HR_OK);
    HR_CHECK(kit_await(is_one, &loop.dropped));
    HR_CHECK(atomic_load(&loop.asked) > 0);
    hr__async_unref(p);
    HR_CHECK(kit_await(is_one, &stages[0].freed));
    if (loop.started) /* all that is left of it is its thread */
        pthread_join(loop.thread, NULL);
    HR_CHECK_EQ_INT(fake_end(), 0);
}

static int no_event(void)
{
    errno = EMFILE;
    return -1;
}

static void no_descriptor(void)
{
    static struct stage stages[] = {MAP, {0}};
    struct plan plan = {.stages = stages, .items = 20, .concurrency = 2};
    struct hr_error err = {0};
    struct hr_pipeline *p = build(&plan, 1);
    HR_REQUIRE(p);
    HR_CHECK_EQ_INT(hr_pipeline_start(p, NULL), HR_OK);
    hr__sys.event_open = no_event;
    HR_CHECK_EQ_INT(hr__async_expect(p, &err), HR_ERR_IO);
    hr__sys.event_open = hr__sys_direct.event_open;
    HR_CHECK_EQ_INT(err.code, EMFILE);
    finish(p, &plan);
}

static const struct hr_test tests[] = {
    HR_TEST(chains_give_what_loops_give),
    HR_TEST(an_empty_source_ends),
    HR_TEST(watched_while_they_go_on),
    HR_TEST(stop_at_any_moment),
    HR_TEST(misfits_fail_before_they_are_begun),
    HR_TEST(what_is_stuck_is_named),
    HR_TEST(a_thread_that_does_not_come),
    HR_TEST(no_loop_for_a_function_that_awaits),
    HR_TEST(a_promised_thread_that_does_not_come),
    HR_TEST(a_pipeline_let_go_by_a_call_of_its_own),
    HR_TEST(no_descriptor),
};
HR_TEST_MAIN(tests)
