#include "async_kit.h"

#include <poll.h>
#include <string.h>

#include "base/sys.h"
#include "hr_test.h"

struct loop loop;

/* ---- stages ---- */

static void free_state(void *state)
{
    atomic_fetch_add(&((struct loop_stage *)state)->freed, 1);
}

bool loop_divides(long by, long n)
{
    return by && n % by == 0;
}

/* The outcome of a map. */
static void end_map(const struct loop_stage *stage, long n, struct hr_call *call)
{
    call->out_count = 0;
    if (loop_divides(stage->fail_every, n)) {
        call->outcome = HR_TASK_FAILED;
        (void)hr_error_set(&call->error, HR_ERR_FORMAT, "loop", 0, "%ld is bad", n);
        call->exception = fake_object_new(n, 0);
    } else if (loop_divides(stage->skip_every, n)) {
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
    const struct loop_stage *stage = state;
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

static unsigned draw(unsigned below)
{
    loop.seed = loop.seed * 1103515245 + 12345;
    return (loop.seed >> 16) % below;
}

/* Begin a task: its value is taken. */
static void hold(struct hr_async_task *task)
{
    struct hr_async_stage *stage = &loop.stages[task->stage];
    struct loop_stage *state = stage->state;
    struct loop_held *held = &loop.held[loop.count++];
    *held = (struct loop_held){.task = task, .end = state->fan};
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

static bool is_stuck(const struct loop_held *held)
{
    const struct loop_stage *state = loop.stages[held->task->stage].state;
    return state->stuck_at && held->item == state->stuck_at &&
           !atomic_load(&loop.release);
}

/* One more step of a stream. */
static void step_stream(struct loop_held *held)
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
    struct loop_held *held = &loop.held[i];
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
        struct loop_held held = loop.held[i];
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

static void *loop_main(void *unused)
{
    (void)unused;
    void *thread = loop.runtime->thread_new();
    (void)loop.runtime->attach(thread);
    fake_expect(hr__async_begin(loop.pipeline, thread), "the loop is not expected");
    serve(thread);
    hr__async_leave(loop.pipeline);
    loop.runtime->detach(thread);
    loop.runtime->thread_free(thread);
    return NULL;
}

bool loop_begin(void *cookie)
{
    struct hr_error err = {0};
    bool attached = fake_is_attached();
    fake_expect(cookie == &loop, "loop_begin has its cookie");
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

static enum hr_status add_source(struct hr_plan *plan, long items)
{
    static char texts[LOOP_ITEMS_MAX][24];
    static const char *names[LOOP_ITEMS_MAX];
    struct hr_source source = {0};
    for (long i = 0; i < items; i++) {
        (void)snprintf(texts[i], sizeof(texts[i]), "%ld", i);
        names[i] = texts[i];
    }
    enum hr_status status = hr_source_of_texts(names, (size_t)items, &source, NULL);
    if (status == HR_OK)
        status = hr_plan_source(plan, &source, NULL);
    hr_source_free(&source); /* empty, if the plan has it */
    return status;
}

static enum hr_status add_stage(struct hr_plan *plan, const struct loop_plan *want,
                                struct loop_stage *stage)
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

struct hr_pipeline *loop_build(const struct loop_plan *want, unsigned seed)
{
    struct fake_settings settings = {.start_loop = loop_begin, .drop_loop = drop_loop};
    struct hr_pipeline_options options = {.num_threads = 2,
                                          .task_deadline_ns = want->deadline_ns};
    struct hr_plan *plan = NULL;
    struct hr_pipeline *p = NULL;
    const struct hr_runtime *runtime = fake_begin(&settings);
    bool ok = hr_plan_new(&plan, NULL) == HR_OK;
    if (ok)
        hr__plan_runtime(plan, runtime);
    if (ok && want->stages[0].kind != 'S')
        ok = add_source(plan, want->items) == HR_OK;
    for (struct loop_stage *stage = want->stages; ok && stage->kind; stage++)
        ok = add_stage(plan, want, stage) == HR_OK;
    ok = ok && hr_plan_sink(plan, 3, NULL) == HR_OK;
    ok = ok && hr_pipeline_new(&plan, &options, &p, NULL) == HR_OK;
    hr_plan_free(&plan);
    memset(&loop, 0, sizeof(loop));
    loop.runtime = runtime;
    loop.pipeline = p;
    loop.seed = seed;
    for (uint32_t i = 0; ok && i < LOOP_STAGES_MAX; i++)
        (void)hr__async_stage(p, i, &loop.stages[i]);
    if (ok)
        hr__async_set_cookie(p, &loop);
    return p;
}

struct hr_pipeline *loop_start(const struct loop_plan *want, unsigned seed)
{
    struct hr_pipeline *p = loop_build(want, seed);
    HR_CHECK(p != NULL);
    if (!p)
        return NULL;
    HR_CHECK_EQ_INT(hr_pipeline_start(p, NULL), HR_OK);
    if (hr__async_needed(p))
        (void)loop_begin(&loop); /* false: the run is over, or a worker was first */
    return p;
}

/* The end of p, which was stopped or came to its end. */
void loop_finish(struct hr_pipeline *p, const struct loop_plan *plan)
{
    struct hr_error err = {0};
    HR_CHECK_EQ_INT(hr_pipeline_stop(p, hr__sys_direct.now_ns() + 10000000000, &err),
                    HR_OK);
    if (loop.started)
        pthread_join(loop.thread, NULL);
    struct hr_stage_stats stats[LOOP_STAGES_MAX + 2];
    size_t n = hr_pipeline_stats(p, stats, LOOP_STAGES_MAX + 2);
    for (size_t i = 0; i < n; i++)
        HR_CHECK_EQ_INT(stats[i].running, 0);
    HR_CHECK_EQ_INT(atomic_load(&loop.dropped), 0);
    hr_pipeline_free(&p);
    HR_CHECK_EQ_INT(atomic_load(&loop.dropped), 1);
    for (struct loop_stage *stage = plan->stages; stage->kind; stage++)
        HR_CHECK_EQ_INT(atomic_load(&stage->freed), 1);
    HR_CHECK_EQ_INT(fake_end(), 0);
}
