#include "engine_kit.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/mutex.h"
#include "base/sys.h"

static void pause_ns(int64_t ns)
{
    struct timespec time = {ns / 1000000000, ns % 1000000000};
    if (ns > 0)
        nanosleep(&time, NULL);
}

/* ---- values ---- */

static enum hr_status text_of(long number, struct hr_value *out)
{
    char text[32];
    int len = snprintf(text, sizeof(text), "%ld", number);
    return hr_text_new(text, (size_t)len, out);
}

static enum hr_status record_of(long number, bool named, size_t bytes,
                                struct hr_value *out)
{
    static const char *const names[] = {"x", "y"};
    struct hr_keys *keys = NULL;
    struct hr_value x = HR_VALUE_EMPTY;
    enum hr_status status = hr_keys_new(2, named ? names : NULL, &keys);
    if (status == HR_OK)
        status = text_of(number, &x);
    if (status == HR_OK)
        status = hr_record_new(keys, out);
    if (status == HR_OK) {
        hr_record_peek(out)[0] = x;
        hr_record_peek(out)[1] = fake_object_new(number, bytes);
    } else {
        hr_value_release(&x);
    }
    hr_keys_unref(&keys);
    return status;
}

static enum hr_status make(const struct kit_source *source, long number,
                           struct hr_value *out)
{
    *out = HR_VALUE_EMPTY;
    switch (source->form) {
    case KIT_OBJECT:
        *out = fake_object_new(number, source->bytes);
        return HR_OK;
    case KIT_RECORD:
    case KIT_TUPLE:
        return record_of(number, source->form == KIT_RECORD, source->bytes, out);
    default:
        return text_of(number, out);
    }
}

long kit_number(const struct hr_value *value)
{
    if (value->cls == &fake_object_class)
        return fake_object_number(value);
    if (value->cls == &hr_record_class)
        return kit_number(&hr_record_peek(value)[0]);
    return value->cls == &hr_text_class ? atol(hr_text_peek(value, NULL)) : -2;
}

/* A value of the same kind for another number. */
static enum hr_status like(const struct hr_value *value, long number,
                           struct hr_value *out)
{
    if (value->cls == &hr_text_class)
        return text_of(number, out);
    if (number == kit_number(value))
        *out = value->cls->share(value);
    else
        *out = fake_object_new(number, 0);
    return HR_OK;
}

/* ---- native ---- */

static bool source_begin(struct kit_source *source)
{
    bool alone = !atomic_flag_test_and_set(&source->busy);
    fake_expect(alone, "a source advanced by two threads");
    fake_expect(hr__mutex_held_count() == 0, "a lock is held in a source");
    if (source->hook)
        source->hook(source->cookie, atomic_load(&source->made));
    pause_ns(source->sleep_ns);
    return alone;
}

static enum hr_status source_step(struct kit_source *source, struct hr_value *out,
                                  struct hr_error *err)
{
    long number = atomic_load_explicit(&source->made, memory_order_relaxed);
    if (number == source->end)
        return HR_END;
    if (source->pass && number % source->pass == 0 && number > source->marked) {
        source->marked = number;
        return HR_EPOCH;
    }
    if (number == source->fail_at || number == source->fatal_at)
        return hr_error_set(err, HR_ERR_IO, "kit", 5, "source broken at %ld", number);
    if (make(source, number, out) != HR_OK)
        return hr_error_set(err, HR_ERR_NOMEM, "kit", 0, "no memory for item %ld",
                            number);
    atomic_store_explicit(&source->made, number + 1, memory_order_release);
    return HR_OK;
}

static enum hr_status source_next(void *state, struct hr_value *out,
                                  struct hr_error *err)
{
    struct kit_source *source = state;
    (void)source_begin(source);
    enum hr_status status = source_step(source, out, err);
    atomic_flag_clear(&source->busy);
    return status;
}

static void source_free(void *state)
{
    struct kit_source *source = state;
    fake_expect(hr__mutex_held_count() == 0, "a lock is held while a source is freed");
    atomic_fetch_add(&source->freed, 1);
}

static enum hr_status op_judge(struct kit_op *op, long n, struct hr_error *err)
{
    if (op->flaky_every && n % op->flaky_every == 0 &&
        atomic_fetch_add(&op->tries[n % 512], 1) < op->flaky_times)
        return hr_error_set(err, HR_ERR_IO, "kit", 11, "%ld is not ready", n);
    if (op->fail_every && n % op->fail_every == 0)
        return hr_error_set(err, HR_ERR_FORMAT, "kit", 7, "%ld is no good", n);
    return op->skip_every && n % op->skip_every == 0 ? HR_SKIP : HR_OK;
}

static enum hr_status op_run(void *state, struct hr_ctx *ctx, const struct hr_value *in,
                             struct hr_value *out, struct hr_error *err)
{
    struct kit_op *op = state;
    long n = kit_number(in);
    fake_expect(hr__mutex_held_count() == 0, "a lock is held in an op");
    fake_expect(!fake_is_attached(), "a native op runs attached");
    atomic_fetch_add(&op->calls, 1);
    if (op->hook)
        op->hook(op->cookie, ctx, n);
    pause_ns(op->sleep_ns);
    enum hr_status status = op_judge(op, n, err);
    if (status == HR_OK && like(in, n + op->add, out) != HR_OK)
        status = hr_error_set(err, HR_ERR_NOMEM, "kit", 0, "no memory for %ld", n);
    return status;
}

static void op_free(void *state)
{
    fake_expect(hr__mutex_held_count() == 0, "a lock is held while an op is freed");
    atomic_fetch_add(&((struct kit_op *)state)->freed, 1);
}

static const struct hr_source_class source_class = {"source", source_next, source_free,
                                                    0};
static const struct hr_op_class op_class = {"op", op_run, op_free};

/* ---- foreign ---- */

static void call_fail(struct hr_call *call, const struct hr_error *err, bool fatal)
{
    call->outcome = HR_TASK_FAILED;
    call->error = *err;
    call->exception = fake_object_new(-7, 0);
    call->fatal = fatal;
}

static void begin_call(struct hr_call *call)
{
    fake_expect(fake_is_attached(), "a call is made while not attached");
    fake_expect(hr__mutex_held_count() == 0, "a lock is held during a call");
    fake_expect(call->grant >= 1 && call->grant <= HR_SCHED_GRANT_MAX,
                "a strange grant");
    call->out_count = 0;
    call->exception = HR_VALUE_EMPTY;
    call->fatal = false;
    call->again = false;
}

static size_t source_run(void *state, struct hr_call *calls, size_t count,
                         int64_t until_ns)
{
    struct kit_source *source = state;
    struct hr_call *call = calls;
    struct hr_error err = {0};
    fake_expect(count == 1, "a source is called once at a time");
    begin_call(call);
    enum hr_status status = HR_OK;
    while (status == HR_OK && call->out_count < call->grant) {
        (void)source_begin(source);
        status = source_step(source, &call->out[call->out_count], &err);
        atomic_flag_clear(&source->busy);
        call->out_count += status == HR_OK;
        if (hr__sys_direct.now_ns() >= until_ns)
            break;
    }
    call->outcome = status == HR_OK      ? HR_TASK_MORE
                    : status == HR_EPOCH ? HR_TASK_EPOCH
                                         : HR_TASK_DONE;
    if (status != HR_OK && status != HR_END && status != HR_EPOCH)
        call_fail(call, &err, atomic_load(&source->made) == source->fatal_at);
    return 1;
}

static void op_pause(const struct kit_op *op)
{
    if (op->let_go)
        fake_sleep(op->sleep_ns);
    else
        pause_ns(op->sleep_ns);
}

static void map_call(struct kit_op *op, struct hr_call *call)
{
    struct hr_error err = {0};
    begin_call(call);
    fake_expect(call->in != NULL, "a map call has an input");
    long n = kit_number(call->in);
    atomic_fetch_add(&op->calls, 1);
    if (op->hook)
        op->hook(op->cookie, NULL, n);
    op_pause(op);
    enum hr_status status = op_judge(op, n, &err);
    bool fatal = op->fatal_at && n == op->fatal_at;
    if (fatal)
        status = hr_error_set(&err, HR_ERR_FOREIGN, "kit", 0, "SystemExit: at %ld", n);
    call->outcome = status == HR_SKIP ? HR_TASK_FILTERED : HR_TASK_DONE;
    if (status != HR_OK && status != HR_SKIP) {
        call_fail(call, &err, fatal);
        call->again = status == HR_ERR_IO;
    } else if (status == HR_OK) {
        call->out[0] = fake_object_new(n + op->add, 0);
        call->out_count = 1;
    }
}

static size_t map_run(void *state, struct hr_call *calls, size_t count,
                      int64_t until_ns)
{
    size_t made = 0;
    fake_expect(count >= 1, "a run has calls");
    do
        map_call(state, &calls[made++]);
    while (made < count && hr__sys_direct.now_ns() < until_ns);
    return made;
}

static size_t fold_run(void *state, struct hr_call *calls, size_t count,
                       int64_t until_ns)
{
    struct kit_op *op = state;
    struct hr_call *call = calls;
    struct hr_error err = {0};
    long n = call->in ? kit_number(call->in) : 0;
    (void)until_ns;
    begin_call(call);
    fake_expect(count == 1, "a fold is called once at a time");
    fake_expect(atomic_fetch_add(&op->calls, 1) % 2 == 0,
                "a fold called by two threads");
    op_pause(op);
    call->outcome = HR_TASK_DONE;
    if (call->in && op_judge(op, n, &err) != HR_OK) {
        call_fail(call, &err, op->fatal_at && n == op->fatal_at);
    } else if (call->in) {
        hr_value_release(call->in);
        op->folded++;
        op->sum += n;
    }
    if (op->folded >= op->fan || (!call->in && op->folded > 0)) {
        call->out[call->out_count++] = fake_object_new(op->sum, 0);
        op->folded = 0;
        op->sum = 0;
    }
    atomic_fetch_add(&op->calls, 1);
    return 1;
}

static struct fake_iterator *open_iterator(struct kit_op *op, struct hr_call *call)
{
    struct fake_iterator *iterator = fake_iterator_new();
    iterator->item = kit_number(call->in);
    iterator->end = (uint32_t)(iterator->item % (op->fan + 1));
    iterator->ends_badly = op->bad_end && iterator->item % op->bad_end == 0;
    hr_value_release(call->in);
    return iterator;
}

static size_t expand_run(void *state, struct hr_call *calls, size_t count,
                         int64_t until_ns)
{
    struct kit_op *op = state;
    struct hr_call *call = calls;
    struct hr_error err = {0};
    begin_call(call);
    fake_expect(count == 1, "an expand stage is called once at a time");
    fake_expect((call->in != NULL) == (call->iterator == NULL),
                "an expand call has an input or an iterator");
    struct fake_iterator *iterator = call->iterator;
    if (!iterator)
        iterator = open_iterator(op, call);
    atomic_fetch_add(&op->calls, 1);
    if (op->hook)
        op->hook(op->cookie, NULL, iterator->item);
    op_pause(op);
    while (iterator->next < iterator->end && call->out_count < call->grant) {
        call->out[call->out_count++] =
            fake_object_new(iterator->item * 1000 + iterator->next++, 0);
        if (hr__sys_direct.now_ns() >= until_ns)
            break;
    }
    call->iterator = iterator;
    call->outcome = HR_TASK_MORE;
    if (iterator->next < iterator->end)
        return 1;
    call->outcome = HR_TASK_DONE;
    bool fatal = op->fatal_at && iterator->item == op->fatal_at;
    if (iterator->ends_badly || fatal) {
        (void)hr_error_set(&err, HR_ERR_FOREIGN, "kit", 0, "ValueError: %ld is no good",
                           iterator->item);
        call_fail(call, &err, fatal);
    }
    call->iterator = NULL;
    fake_iterator_drop(iterator);
    return 1;
}

static void drop_iterator(void *state, void *iterator)
{
    (void)state;
    fake_iterator_drop(iterator);
}

static const struct hr_foreign_class foreign_source = {source_run, drop_iterator,
                                                       source_free};
static const struct hr_foreign_class foreign_map = {map_run, drop_iterator, op_free};
static const struct hr_foreign_class foreign_fold = {fold_run, drop_iterator, op_free};
static const struct hr_foreign_class foreign_expand = {expand_run, drop_iterator,
                                                       op_free};

/* ---- building ---- */

static enum hr_status add_source(const struct kit_plan *plan, struct hr_plan *built,
                                 struct hr_error *err)
{
    struct hr_source native = {&source_class, plan->source};
    struct hr_foreign foreign = {&foreign_source, plan->source};
    if (plan->native)
        return hr_plan_source(built, plan->native, err);
    atomic_flag_clear(&plan->source->busy);
    if (plan->foreign_source)
        return hr__plan_foreign_source(built, "source", &foreign, err);
    return hr_plan_source(built, &native, err);
}

static enum hr_status add_stage(const struct kit_stage *stage, struct hr_plan *built,
                                struct hr_error *err)
{
    struct hr_op native = {&op_class, stage->op};
    struct hr_foreign map = {&foreign_map, stage->op};
    struct hr_foreign expand = {&foreign_expand, stage->op};
    struct hr_foreign fold = {&foreign_fold, stage->op};
    switch (stage->kind) {
    case KIT_NATIVE:
        return hr_plan_pipe(built, &native, &stage->options, err);
    case KIT_FOREIGN:
        return hr__plan_foreign_pipe(built, &map, false, &stage->options, err);
    case KIT_EXPAND:
        return hr__plan_foreign_pipe(built, &expand, true, &stage->options, err);
    case KIT_FOLD:
        return hr__plan_foreign_fold(built, &fold, stage->drop_last, &stage->options,
                                     err);
    case KIT_BATCH:
    case KIT_COLUMNS:
        return hr_plan_aggregate(built, stage->n, stage->drop_last,
                                 stage->kind == KIT_COLUMNS, err);
    default:
        return hr_plan_disaggregate(built, err);
    }
}

enum hr_status kit_build(const struct kit_plan *plan, struct hr_pipeline **out,
                         struct hr_error *err)
{
    struct hr_plan *built = NULL;
    *out = NULL;
    enum hr_status status = hr_plan_new(&built, err);
    if (status == HR_OK && plan->runtime)
        hr__plan_runtime(built, plan->runtime);
    if (status == HR_OK)
        status = add_source(plan, built, err);
    for (int i = 0; status == HR_OK && i < plan->count; i++) {
        status = add_stage(&plan->stages[i], built, err);
        if (status == HR_OK && plan->stages[i].on_error)
            status = hr_plan_on_error(built, plan->stages[i].on_error, err);
        if (status == HR_OK && plan->stages[i].retry.times)
            status = hr_plan_retry(built, &plan->stages[i].retry, err);
    }
    if (status == HR_OK)
        status = hr_plan_sink(built, plan->sink ? plan->sink : 3, err);
    if (status == HR_OK)
        status = hr_pipeline_new(&built, &plan->options, out, err);
    hr_plan_free(&built);
    return status;
}

struct hr_pipeline *kit_start(const struct kit_plan *plan)
{
    struct hr_pipeline *pipeline = NULL;
    struct hr_error err = {0};
    enum hr_status status = kit_build(plan, &pipeline, &err);
    if (status == HR_OK)
        status = hr_pipeline_start(pipeline, &err);
    if (status != HR_OK)
        printf("# %s\n", err.text);
    fake_expect(status == HR_OK, "the pipeline starts");
    return pipeline;
}

/* ---- consuming ---- */

enum hr_status kit_next(struct hr_pipeline *pipeline, long *number)
{
    struct hr_value value;
    struct hr_error err = {0};
    enum hr_status status = hr_pipeline_next(pipeline, HR_NO_DEADLINE, &value, &err);
    *number = status == HR_OK ? kit_number(&value) : -1;
    hr_value_release(&value);
    return status;
}

enum hr_status kit_next_attached(struct hr_pipeline *pipeline, long *number)
{
    struct hr_value value;
    struct hr_error err = {0};
    enum hr_status status;
    fake_enter();
    hr__pipeline_refill(pipeline);
    while ((status = hr__pipeline_try_next(pipeline, HR_EPOCH_ANY, &value, &err)) ==
           HR_AGAIN) {
        fake_leave();
        (void)hr__pipeline_wait(pipeline, HR_EPOCH_ANY, HR_NO_DEADLINE);
        hr__pipeline_want(pipeline, true);
        fake_enter();
        hr__pipeline_want(pipeline, false);
    }
    *number = status == HR_OK ? kit_number(&value) : -1;
    hr_value_release(&value);
    fake_leave();
    return status;
}

size_t kit_drain(struct hr_pipeline *pipeline, bool attached, long *numbers, size_t max,
                 enum hr_status *end)
{
    size_t count = 0;
    long number;
    while ((*end = attached ? kit_next_attached(pipeline, &number)
                            : kit_next(pipeline, &number)) == HR_OK) {
        if (count < max)
            numbers[count] = number;
        count++;
    }
    return count;
}

static int by_value(const void *a, const void *b)
{
    long x = *(const long *)a, y = *(const long *)b;
    return (x > y) - (x < y);
}

void kit_sort(long *numbers, size_t count)
{
    qsort(numbers, count, sizeof(*numbers), by_value);
}

/* ---- gates ---- */

void kit_gate_hook(void *cookie, struct hr_ctx *ctx, long number)
{
    struct kit_gate *gate = cookie;
    (void)ctx;
    if (number < gate->from)
        return;
    pthread_mutex_lock(&gate->mutex);
    gate->inside++;
    pthread_cond_broadcast(&gate->changed);
    while (!gate->open)
        pthread_cond_wait(&gate->changed, &gate->mutex);
    gate->inside--;
    pthread_mutex_unlock(&gate->mutex);
}

void kit_gate_open(struct kit_gate *gate)
{
    pthread_mutex_lock(&gate->mutex);
    gate->open = true;
    pthread_cond_broadcast(&gate->changed);
    pthread_mutex_unlock(&gate->mutex);
}

void kit_gate_await(struct kit_gate *gate)
{
    pthread_mutex_lock(&gate->mutex);
    while (gate->inside == 0)
        pthread_cond_wait(&gate->changed, &gate->mutex);
    pthread_mutex_unlock(&gate->mutex);
}

/* ---- the process ---- */

static int entries(const char *path)
{
    int count = 0;
    DIR *dir = opendir(path);
    while (dir && readdir(dir))
        count++;
    if (dir)
        closedir(dir);
    return count;
}

int kit_thread_count(void)
{
    return entries("/proc/self/task");
}

int kit_fd_count(void)
{
    return entries("/proc/self/fd");
}

bool kit_await(bool (*ready)(void *cookie), void *cookie)
{
    for (int i = 0; i < 10000 && !ready(cookie); i++)
        pause_ns(1000000);
    return ready(cookie);
}

static bool is_thread_count(void *cookie)
{
    return kit_thread_count() == *(const int *)cookie;
}

bool kit_threads_are(int count)
{
    return kit_await(is_thread_count, &count);
}
