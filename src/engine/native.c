/* native.c - tasks that need no language: ops, batches, lists, routes, sources in C.
 *
 * Each has the shape of the essay in worker.c: lock held on entry, dropped for the work,
 * taken again to finish. */
#include "engine/task.h"

#include "base/sys.h"
#include "base/banned.h"

#define SOURCE_SLICE_NS 1000000

static enum hr_task_outcome outcome_of(enum hr_status status)
{
    switch (status) {
    case HR_OK:
    case HR_CANCELLED: /* the scheduler refuses and counts it as released */
        return HR_TASK_DONE;
    case HR_SKIP:
        return HR_TASK_FILTERED;
    default:
        return HR_TASK_FAILED;
    }
}

static enum hr_status run_op(struct hr_worker *w, struct hr_stage *stage,
                             struct hr_item *item, struct hr_error *err)
{
    struct hr_value *field = hr__key_field(&stage->key, &item->value, err);
    if (!field)
        return err->status;
    struct hr_value out = HR_VALUE_EMPTY;
    w->ctx.base.item = item->index;
    hr__trail_at(w, item, field);
    enum hr_status status =
        stage->op.cls->run(stage->op.state, &w->ctx.base, field, &out, err);
    w->ctx.base.item = -1;
    if (status == HR_OK) {
        hr_value_release(field);
        *field = out;
    } else {
        hr__error_complete(err, status, stage->name);
    }
    return status;
}

/* Take more items of a stage with short tasks on the same slot: several for one turn of
 * the lock, but not longer than a wake-up takes. */
static uint32_t ride_locked(struct hr_worker *w, int64_t now_ns) HR_ENGINE_LOCKED
{
    struct hr_pipeline *p = w->pipeline;
    const struct hr_stage *stage = &p->stages[w->claims[0].stage];
    uint32_t n = 1;
    if (stage->body != HR_BODY_OP || !hr__stage_may_ride(stage))
        return n;
    int64_t most = HR_WAKE_COST_NS / stage->ema_ns;
    while (n < HR_SCHED_GRANT_MAX && n < most &&
           hr__sched_ride(p->sched, w->claims[n - 1].task, now_ns, &w->claims[n]))
        n++;
    return n;
}

static enum hr_status run_one(struct hr_worker *w, uint32_t i)
{
    const struct hr_claim *claim = &w->claims[i];
    w->calls[i].error.status = HR_OK;
    /* relaxed: for messages only */
    atomic_store_explicit(&w->item, w->calls[i].item->index, memory_order_relaxed);
    return run_op(w, &w->pipeline->stages[claim->stage], w->calls[i].item,
                  &w->calls[i].error);
}

static void finish_op_locked(struct hr_worker *w, uint32_t i, enum hr_status status,
                             int64_t end_ns, struct hr_after *after) HR_ENGINE_LOCKED
{
    struct hr_pipeline *p = w->pipeline;
    const struct hr_claim *claim = &w->claims[i];
    struct hr_error *err = &w->calls[i].error;
    struct hr_value none = HR_VALUE_EMPTY;
    hr__deadline_judge_locked(w, w->calls[i].item, end_ns, &status, err);
    bool again = outcome_of(status) == HR_TASK_FAILED &&
                 (p->stages[claim->stage].retry.statuses >> status & 1) != 0;
    if (hr__retry_later_locked(p, claim, again, end_ns, after))
        return;
    hr__engine_finish_item_locked(p, claim, w->calls[i].item, outcome_of(status), err,
                                  &none, end_ns, after);
}

/* w->claims[0 … n-1], one after another. */
static int64_t run_op_tasks(struct hr_worker *w, uint32_t n, int64_t now_ns,
                            struct hr_after *after) HR_ACQUIRE(hr__engine_role)
{
    struct hr_trace_ring *trace = hr__worker_trace(w);
    int64_t begun_ns = now_ns;
    enum hr_status status[HR_SCHED_GRANT_MAX];
    for (uint32_t i = 0; i < n; i++) {
        status[i] = run_one(w, i);
        if (trace)
            now_ns = hr__trace_task(trace, &w->claims[i], w->calls[i].item, now_ns);
    }
    int64_t end_ns = HR_SYS(now_ns)();
    hr__worker_lock(w);
    if (w->lost) {
        hr__worker_late_locked(w, w->calls[0].item, after);
        return end_ns;
    }
    for (uint32_t i = 0; i < n; i++)
        finish_op_locked(w, i, status[i], end_ns, after);
    hr__stage_account_locked(&w->pipeline->stages[w->claims[0].stage],
                             end_ns - begun_ns, n);
    return end_ns;
}

/* n items become one; the first item carries the batch, the others are spent. */
static int64_t run_collate_task(struct hr_worker *w, const struct hr_claim *claim,
                                struct hr_after *after) HR_ACQUIRE(hr__engine_role)
{
    struct hr_pipeline *p = w->pipeline;
    _Static_assert(sizeof(hr_handle) == sizeof(struct hr_item *),
                   "handles are pointers");
    struct hr_item **items = (struct hr_item **)(uintptr_t)claim->inputs;
    uint32_t n = claim->input_count;
    struct hr_error err = {0};
    struct hr_value batch = HR_VALUE_EMPTY, none = HR_VALUE_EMPTY;
    enum hr_status status =
        hr__collate(&p->stages[claim->stage], items, n, &batch, &err);
    if (status == HR_OK) {
        for (uint32_t i = 0; i < n; i++) {
            hr_value_release(&items[i]->value);
            hr_value_release(&items[i]->label);
        }
        items[0]->value = batch;
    }
    int64_t end_ns = HR_SYS(now_ns)();
    hr__worker_lock(w);
    for (uint32_t i = 1; i < n; i++) {
        if (status == HR_OK) {
            hr__items_put(&p->items, items[i]);
        } else {
            hr__engine_fail_item_locked(p, claim->stage, items[i], &err, &none);
            hr__engine_let_go(after, items[i]);
        }
    }
    hr__engine_finish_item_locked(p, claim, items[0],
                                  status == HR_OK ? HR_TASK_DONE : HR_TASK_FAILED, &err,
                                  &none, end_ns, after);
    return end_ns;
}

/* One step of taking a list apart. */
static int64_t run_spread_task(struct hr_worker *w, const struct hr_claim *claim,
                               struct hr_after *after) HR_ACQUIRE(hr__engine_role)
{
    struct hr_pipeline *p = w->pipeline;
    struct hr_task_state *state = &p->tasks[claim->task];
    if (claim->first)
        *state = (struct hr_task_state){.item = hr__item_of(claim->inputs[0])};
    struct hr_item *item = state->item;
    if (claim->closing) {
        int64_t closed_ns = HR_SYS(now_ns)();
        hr__worker_lock(w);
        hr__engine_finish_locked(p, claim->task, HR_TASK_DONE, NULL, 0, closed_ns,
                                 after);
        hr__engine_let_go(after, item);
        return closed_ns;
    }
    struct hr_error err = {0};
    struct hr_value none = HR_VALUE_EMPTY;
    bool usable = item->value.cls == &hr_list_class;
    if (!usable)
        (void)hr_error_set(&err, HR_ERR_TYPE, "pipeline", 0,
                           "disaggregate needs a list, got %s",
                           hr_value_kind(&item->value));
    usable = usable && hr__own_fields(&item->value, &err) == HR_OK;
    size_t size = usable ? hr_list_size(&item->value) : 0;
    size_t left = size - state->position;
    uint32_t count = left < claim->grant ? (uint32_t)left : claim->grant;
    int64_t end_ns = HR_SYS(now_ns)();
    hr__worker_lock(w);
    if (!usable) {
        hr__engine_finish_item_locked(p, claim, item, HR_TASK_FAILED, &err, &none,
                                      end_ns, after);
        return end_ns;
    }
    hr_handle handles[HR_SCHED_GRANT_MAX];
    uint32_t made = 0;
    int64_t *index = hr_list_peek_index(&item->value);
    for (uint32_t i = 0; i < count; i++) {
        size_t at = state->position + i;
        struct hr_item parent = {.index = index[at]};
        made +=
            hr__engine_wrap_locked(p, claim->stage, &parent,
                                   &hr_list_peek(&item->value)[at], 1, &handles[made]);
    }
    state->position += count;
    bool done = state->position == size;
    if (done)
        hr__engine_let_go(after, item);
    hr__engine_finish_locked(p, claim->task, done ? HR_TASK_DONE : HR_TASK_MORE,
                             handles, made, end_ns, after);
    return end_ns;
}

int64_t hr__source_ask_native(struct hr_source *source, struct hr_call *call,
                              bool quick, int64_t now_ns)
{
    enum hr_status status = HR_OK;
    int64_t begin_ns = now_ns;
    call->out_count = 0;
    call->error = (struct hr_error){0};
    while (status == HR_OK && call->out_count < call->grant &&
           now_ns - begin_ns < SOURCE_SLICE_NS) {
        struct hr_value *out = &call->out[call->out_count];
        status = source->cls->next(source->state, out, &call->error);
        if (!quick)
            now_ns = HR_SYS(now_ns)();
        if (status == HR_OK)
            call->out_count++;
        else
            hr__error_complete(&call->error, status, source->cls->name);
    }
    call->outcome = status == HR_OK      ? HR_TASK_MORE
                    : status == HR_EPOCH ? HR_TASK_EPOCH
                    : status == HR_END   ? HR_TASK_DONE
                                         : HR_TASK_FAILED;
    call->exception = HR_VALUE_EMPTY;
    call->prompt = source->cls->is_prompt != 0;
    return quick ? HR_SYS(now_ns)() : now_ns;
}

/* grant, quick: see hr__source_grant_locked, hr__source_is_quick_locked. */
static int64_t run_source_task(struct hr_worker *w, const struct hr_claim *claim,
                               uint32_t grant, bool quick, int64_t now_ns,
                               struct hr_after *after) HR_ACQUIRE(hr__engine_role)
{
    struct hr_pipeline *p = w->pipeline;
    struct hr_source *source = &p->stages[claim->stage].source;
    struct hr_call *call = &w->calls[0];
    int64_t end_ns = now_ns;
    call->grant = grant;
    call->out_count = 0;
    call->outcome = HR_TASK_DONE;
    call->exception = HR_VALUE_EMPTY;
    if (!claim->closing)
        end_ns = hr__source_ask_native(source, call, quick, now_ns);
    hr__worker_lock(w);
    hr__source_finish_locked(p, claim, call, end_ns - now_ns, end_ns, after);
    hr__worker_clear_calls_locked(w, 1, after);
    return end_ns;
}

/* The item that a task is about; NULL: a source's, which is to make it. */
static const struct hr_item *item_locked(const struct hr_pipeline *p,
                                         const struct hr_claim *claim) HR_ENGINE_LOCKED
{
    return claim->input_count > 0 ? hr__item_of(claim->inputs[0])
                                  : p->tasks[claim->task].item;
}

/* For the trace: a task that is none of an op. A source's has moved its index on. */
static void trace_other_locked(struct hr_worker *w, int64_t index, int64_t begin_ns,
                               int64_t end_ns) HR_ENGINE_LOCKED
{
    struct hr_trace_ring *trace = hr__worker_trace(w);
    uint32_t stage = w->claims[0].stage;
    if (!trace)
        return;
    struct hr_trace_what what = {HR_TRACE_TASK, (int32_t)stage, index, 0, NULL};
    if (w->pipeline->stages[stage].body == HR_BODY_SOURCE) {
        what.kind = HR_TRACE_PULL;
        what.number = (uint32_t)(w->pipeline->source_index - index);
    }
    hr__trace_add(trace, &what, begin_ns, end_ns);
}

int64_t hr__worker_run_native_locked(struct hr_worker *w, int64_t now_ns,
                                     struct hr_after *after)
{
    struct hr_pipeline *p = w->pipeline;
    const struct hr_claim *claim = &w->claims[0];
    struct hr_stage *stage = &p->stages[claim->stage];
    uint32_t count = ride_locked(w, now_ns);
    for (uint32_t i = 0; claim->stage == 1 && i < count; i++)
        hr__source_taken_locked(p, &w->claims[i], now_ns);
    /* Claims borrow their inputs of the scheduler, which may have use for the place when
     * a late op comes back. */
    for (uint32_t i = 0; stage->body == HR_BODY_OP && i < count; i++)
        w->calls[i].item = hr__item_of(w->claims[i].inputs[0]);
    if (claim->first && stage->body == HR_BODY_OP)
        p->tasks[claim->task].attempts = 0;
    const struct hr_item *item = item_locked(p, claim);
    int64_t index = item ? item->index : p->source_index;
    uint32_t grant = hr__source_grant_locked(p, claim->grant);
    bool quick = hr__source_is_quick_locked(p);
    hr__worker_note_locked(w, (int32_t)claim->stage, index, now_ns);
    hr__trail_at(w, item, NULL);
    w->ctx.base.deadline_ns = hr__deadline_of(p, stage, now_ns);
    hr__engine_wake_workers_locked(p, (int)claim->stage, now_ns, after);
    hr__engine_wake_helper_locked(p, after);
    if (!w->attached) /* else at the end of the session */
        hr__engine_wake_consumers_locked(p, (int)claim->stage, now_ns, after);
    hr__engine_unlock(p, after);
    int64_t end_ns = now_ns;
    switch (stage->body) {
    case HR_BODY_OP:
        end_ns = run_op_tasks(w, count, now_ns, after);
        break;
    case HR_BODY_COLLATE:
        end_ns = run_collate_task(w, claim, after);
        break;
    case HR_BODY_SPREAD:
        end_ns = run_spread_task(w, claim, after);
        break;
    case HR_BODY_ROUTE:
        end_ns = hr__route_run_task(w, claim, after);
        break;
    default:
        end_ns = run_source_task(w, claim, grant, quick, now_ns, after);
        break;
    }
    if (stage->body != HR_BODY_SOURCE && stage->body != HR_BODY_OP && !claim->closing)
        hr__stage_account_locked(stage, end_ns - now_ns, 1);
    if (stage->body != HR_BODY_OP && !claim->closing)
        trace_other_locked(w, index, now_ns, end_ns);
    hr__worker_note_locked(w, -1, -1, end_ns);
    return end_ns;
}
