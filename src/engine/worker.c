/* worker.c - the life of a worker.
 *
 *        +---------------------------------------------------------------+
 *        v                                                               |
 *     pump --ended--> leave                                              |
 *        |                                                               |
 *        +-- a fork-join has slots left ------> run slots (help) --------+
 *        +-- nearest task is foreign, allowed -> session (session.c) ----+
 *        +-- nearest task is native ----------> claim, run, finish ------+
 *        +-- nothing --------------------------> park -------------------+
 *
 * The lock is held in the left column and dropped in the right one.
 *
 * Parking. A worker parks on its own futex word and is taken off the list by the one who
 * wakes it. Somebody who makes work wakes somebody for it, with two exceptions that keep
 * futex calls out of the consumer's next() and out of no-op pipelines:
 *
 *   - The consumer wakes nobody while two or more items are ready. So workers park with a
 *     limit while items are ready: 1 ms, doubling to 50 ms while no room comes of it.
 *   - A short backlog (under 20 µs of work) is left to the threads that are awake, whose
 *     task may take longer this time than those before it did. So workers look again
 *     while others are awake. That is hardly ever of use: the interval stays what it is,
 *     doubles up to 50 ms when a look was useless, and goes back to 1 ms when it was not.
 *
 * Nothing waits longer than that, and a pipeline costs about 0.1 % of a core for each
 * worker that has nothing to do. */
#define _GNU_SOURCE /* pthread_setname_np */
#include "engine/engine.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/sys.h"
#include "base/banned.h"

#define PARK_MIN_NS 1000000
#define PARK_MAX_NS 50000000
#define SOURCE_SLICE_NS 1000000

static _Thread_local struct hr_worker *self_worker;

struct hr_worker *hr__worker_self(void)
{
    return self_worker;
}

void hr__worker_name(const struct hr_pipeline *p, uint32_t number, char *out,
                     size_t size)
{
    if ((int32_t)number == p->source_helper)
        (void)snprintf(out, size, "hr-source");
    else if (number != UINT32_MAX && number >= p->worker_count - p->feed_count &&
             p->feed_count > 0)
        (void)snprintf(out, size, "hr-source-%u",
                       (number - (p->worker_count - p->feed_count)) % 1000);
    else if (number == UINT32_MAX)
        (void)snprintf(out, size, "hr-asyncio");
    else
        (void)snprintf(out, size, "hr-work-%u", number % 10000);
}

void hr__worker_begin(struct hr_worker *w)
{
    char name[16];
    hr__worker_name(w->pipeline, w->number, name, sizeof(name));
    pthread_setname_np(pthread_self(), name);
    self_worker = w;
}

/* Take the lock from any side: an attached thread must not wait for it. */
void hr__worker_lock(struct hr_worker *w)
{
    struct hr_pipeline *p = w->pipeline;
    if (w->attached) {
        if (hr__engine_try_lock(p))
            return;
        p->runtime->detach(w->foreign_thread);
        w->attached = false;
    }
    hr__engine_lock(p);
}

static int park_traced(struct hr_worker *w, int64_t until_ns, enum hr_trace_kind kind)
{
    struct hr_trace_ring *trace = hr__worker_trace(w);
    if (!trace)
        return hr__park(&w->parker, until_ns);
    int64_t begin_ns = HR_SYS(now_ns)();
    int result = hr__park(&w->parker, until_ns);
    hr__trace_add(trace, &(struct hr_trace_what){kind, -1, -1, 0, NULL}, begin_ns,
                  HR_SYS(now_ns)());
    return result;
}

int hr__worker_park(struct hr_worker *w, int64_t until_ns)
{
    return park_traced(w, until_ns, HR_TRACE_PARK);
}

/* ---- fork-join ---- */

/* Run slots until none is left. */
static void fork_run(struct hr_fork *fork, struct hr_ctx *ctx)
{
    struct hr_trace_ring *trace =
        hr__worker_trace(((struct hr_engine_ctx *)ctx)->worker);
    struct hr_trace_what what = {HR_TRACE_SLOT, (int32_t)fork->stage, fork->item, 0,
                                 NULL};
    size_t slot;
    while ((slot = atomic_fetch_add_explicit(&fork->next, 1, memory_order_relaxed)) <
           fork->count) {
        int64_t begin_ns = trace ? HR_SYS(now_ns)() : 0;
        fork->fn(fork->cookie, slot, ctx);
        what.number = (uint32_t)slot;
        if (trace)
            hr__trace_add(trace, &what, begin_ns, HR_SYS(now_ns)());
    }
}

static bool fork_has_slots(const struct hr_fork *fork)
{
    return atomic_load_explicit(&fork->next, memory_order_relaxed) < fork->count;
}

static struct hr_fork *find_fork_locked(const struct hr_pipeline *p) HR_ENGINE_LOCKED
{
    for (struct hr_fork *fork = p->forks; fork; fork = fork->link)
        if (fork_has_slots(fork))
            return fork;
    return NULL;
}

/* Take part in a fork-join of another worker. */
static int64_t help_locked(struct hr_worker *w, struct hr_fork *fork, int64_t now_ns,
                           struct hr_after *after) HR_ENGINE_LOCKED
{
    struct hr_pipeline *p = w->pipeline;
    fork->helpers++;
    w->helping = fork;
    hr__worker_note_locked(w, (int32_t)fork->stage, fork->item, now_ns);
    w->ctx.base.deadline_ns = fork->owner->ctx.base.deadline_ns;
    hr__engine_wake_consumers_locked(p, -1, now_ns, after);
    if (fork->count - atomic_load_explicit(&fork->next, memory_order_relaxed) > 1)
        hr__engine_wake_one_locked(p, after); /* slots for one more */
    hr__engine_unlock(p, after);
    fork_run(fork, &w->ctx.base);
    int64_t end_ns = HR_SYS(now_ns)();
    hr__engine_lock(p);
    p->stages[fork->stage].busy_ns += (uint64_t)(end_ns - now_ns);
    if (--fork->helpers == 0)
        hr__engine_wake_add(after, &fork->owner->parker);
    w->helping = NULL;
    if (w->lost)
        hr__worker_late_locked(w, NULL, after);
    hr__worker_note_locked(w, -1, -1, end_ns);
    return end_ns;
}

static void fork_unlink_locked(struct hr_pipeline *p,
                               struct hr_fork *fork) HR_ENGINE_LOCKED
{
    struct hr_fork **at = &p->forks;
    if (!fork->listed)
        return;
    while (*at != fork)
        at = &(*at)->link;
    *at = fork->link;
    fork->listed = false;
}

void hr__fork_close_locked(struct hr_worker *w)
{
    struct hr_pipeline *p = w->pipeline;
    for (struct hr_fork *fork = p->forks, *next; fork; fork = next) {
        next = fork->link;
        if (fork->owner == w)
            fork_unlink_locked(p, fork);
    }
}

void hr__fork_for_each(struct hr_ctx *ctx, size_t n, hr_slot_fn fn, void *cookie)
{
    struct hr_worker *w = ((struct hr_engine_ctx *)ctx)->worker;
    struct hr_pipeline *p = w->pipeline;
    struct hr_fork fork = {.fn = fn,
                           .cookie = cookie,
                           .count = n,
                           .stage =
                               (uint32_t)w->stage, /* written by this thread alone */
                           .item = atomic_load_explicit(&w->item, memory_order_relaxed),
                           .owner = w};
    struct hr_after after = {0};
    if (n > 1) {
        hr__engine_lock(p);
        fork.link = p->forks;
        fork.listed = !w->lost; /* else nobody may come in who would be lost, too */
        if (fork.listed)
            p->forks = &fork;
        size_t wanted = n - 1 < HR_WAKE_MAX ? n - 1 : HR_WAKE_MAX;
        for (size_t i = 0; fork.listed && i < wanted && p->parked; i++)
            hr__engine_wake_one_locked(p, &after); /* they wake more, if need be */
        hr__engine_unlock(p, &after);
    }
    fork_run(&fork, ctx);
    if (n <= 1)
        return;
    hr__engine_lock(p);
    fork_unlink_locked(p, &fork);
    while (fork.helpers > 0) {
        hr__engine_unlock_only(p);
        park_traced(w, HR_FOREVER, HR_TRACE_JOIN);
        hr__engine_lock(p);
    }
    hr__engine_unlock_only(p);
}

/* ---- native tasks ---- */

void hr__worker_note_locked(struct hr_worker *w, int32_t stage, int64_t item,
                            int64_t now_ns)
{
    if ((stage == 0) != (w->stage == 0)) { /* relaxed: for this thread; see there */
        uint32_t change = stage == 0 ? 1 : UINT32_MAX;
        atomic_fetch_add_explicit(&w->pipeline->in_source, change,
                                  memory_order_relaxed);
    }
    w->stage = stage;
    atomic_store_explicit(&w->item, item, memory_order_relaxed);
    w->since_ns = now_ns;
    atomic_store_explicit(&w->begun_ns, now_ns, memory_order_relaxed); /* statistics */
    w->reported = false;
}

/* Items with values out[0 … count-1], taken from the free list, into handles. When there
 * is no memory for an item it is given up as failed, and its value stays where it is, to
 * be released without the lock. Returns how many items there are. */
uint32_t hr__engine_wrap_locked(struct hr_pipeline *p, uint32_t stage,
                                const struct hr_item *parent, struct hr_value *out,
                                uint32_t count, hr_handle *handles)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < count; i++) {
        struct hr_item *item = hr__items_get(&p->items);
        int64_t index = parent ? parent->index : p->source_index++;
        if (!item) {
            struct hr_item lost = {.index = index};
            struct hr_error err = {0};
            struct hr_value none = HR_VALUE_EMPTY;
            (void)hr_error_set(&err, HR_ERR_NOMEM, "pipeline", 0,
                               "no memory for an item");
            hr__engine_fail_item_locked(p, stage, &lost, &err, &none);
            continue;
        }
        item->index = index;
        item->value = out[i];
        out[i] = HR_VALUE_EMPTY;
        if (parent && parent->label.cls)
            item->label = parent->label.cls->share(&parent->label);
        else
            hr__item_set_label(item);
        handles[n++] = hr__handle_of(item);
    }
    return n;
}

/* Give the scheduler what a task made; what it does not want is released. */
void hr__engine_finish_locked(struct hr_pipeline *p, uint32_t task,
                              enum hr_task_outcome outcome, const hr_handle *handles,
                              uint32_t count, int64_t now_ns, struct hr_after *after)
{
    uint32_t taken = hr__sched_finish(p->sched, task, outcome, handles, count, now_ns);
    for (uint32_t i = taken; i < count; i++)
        hr__engine_let_go(after, hr__item_of(handles[i]));
}

void hr__engine_let_go(struct hr_after *after, struct hr_item *item)
{
    item->next = after->released;
    after->released = item;
}

/* A task of one item ended: with the item itself, filtered, or failed. exception: taken
 * or left to the caller. */
void hr__engine_finish_item_locked(struct hr_pipeline *p, const struct hr_claim *claim,
                                   struct hr_item *item, enum hr_task_outcome outcome,
                                   const struct hr_error *err,
                                   struct hr_value *exception, int64_t now_ns,
                                   struct hr_after *after)
{
    hr_handle handle = hr__handle_of(item);
    if (outcome == HR_TASK_DONE) {
        hr__engine_finish_locked(p, claim->task, outcome, &handle, 1, now_ns, after);
        return;
    }
    if (outcome == HR_TASK_FAILED)
        hr__engine_fail_task_locked(p, claim, item, err, exception, after);
    (void)hr__sched_finish(p->sched, claim->task, outcome, NULL, 0, now_ns);
    hr__engine_let_go(after, item);
}

/* What nobody took of the finished calls[0 … n-1] is released. Lock held on entry and on
 * return; dropped if there is something. */
void hr__worker_clear_calls_locked(struct hr_worker *w, uint32_t n,
                                   struct hr_after *after)
{
    bool rest = false;
    for (uint32_t i = 0; i < n; i++)
        rest = rest || hr__call_has_rest(&w->calls[i]);
    if (!rest)
        return;
    atomic_store_explicit(&w->begun_ns, -1, memory_order_relaxed); /* stats.c */
    hr__engine_unlock(w->pipeline, after);
    for (uint32_t i = 0; i < n; i++)
        hr__call_clear(&w->calls[i]);
    hr__worker_lock(w);
}

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

/* The item that a task is about: for a source, the one it is to make. */
static int64_t item_index_locked(const struct hr_pipeline *p,
                                 const struct hr_claim *claim) HR_ENGINE_LOCKED
{
    if (claim->input_count > 0)
        return hr__item_of(claim->inputs[0])->index;
    const struct hr_item *item = p->tasks[claim->task].item;
    return item ? item->index : p->source_index;
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
    int64_t index = item_index_locked(p, claim);
    uint32_t grant = hr__source_grant_locked(p, claim->grant);
    bool quick = hr__source_is_quick_locked(p);
    hr__worker_note_locked(w, (int32_t)claim->stage, index, now_ns);
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

/* ---- parking ---- */

static void unlist_parked_locked(struct hr_pipeline *p,
                                 struct hr_worker *w) HR_ENGINE_LOCKED
{
    struct hr_worker **at = &p->parked;
    while (*at != w)
        at = &(*at)->parked_next;
    *at = w->parked_next;
    p->parked_count--;
    w->parked = false;
}

static void longer(int64_t *limit_ns)
{
    *limit_ns = *limit_ns < PARK_MAX_NS / 2 ? *limit_ns * 2 : PARK_MAX_NS;
}

/* Was the last look of use? */
static void judge_look(struct hr_worker *w, bool found)
{
    if (w->looked && found)
        w->look_limit_ns = PARK_MIN_NS;
    else if (w->looked)
        longer(&w->look_limit_ns);
    w->looked = false;
}

static void found_work(struct hr_worker *w)
{
    w->room_limit_ns = PARK_MIN_NS;
    judge_look(w, true);
}

enum park_kind { PARK_FOR_GOOD, PARK_FOR_TURN, PARK_FOR_ROOM, PARK_AND_LOOK };

/* Why and how long to park (see the top of the file). */
static enum park_kind park_kind_locked(struct hr_worker *w, int64_t now_ns,
                                       int64_t *until_ns) HR_ENGINE_LOCKED
{
    struct hr_pipeline *p = w->pipeline;
    if (hr__sched_peek(p->sched, HR_LANES_FOREIGN) >= 0 ||
        hr__retry_peek_locked(p, HR_LANES_FOREIGN) >= 0) {
        *until_ns = now_ns + PARK_MIN_NS; /* a second leader may be due: session.c */
        return PARK_FOR_TURN;
    }
    hr__mutex_lock(&p->sink.lock);
    bool ready = p->sink.count > 0;
    hr__mutex_unlock(&p->sink.lock);
    /* pairs with the pop in consumer.c: credit is given before the count goes down */
    if (ready || atomic_load_explicit(&p->sink.credit, memory_order_acquire) > 0) {
        *until_ns = now_ns + w->room_limit_ns;
        return PARK_FOR_ROOM;
    }
    bool alone = p->parked_count + 1 == p->working;
    *until_ns = alone ? HR_FOREVER : now_ns + w->look_limit_ns;
    return alone ? PARK_FOR_GOOD : PARK_AND_LOOK;
}

static int64_t park_locked(struct hr_worker *w, int64_t now_ns,
                           struct hr_after *after) HR_ENGINE_LOCKED
{
    struct hr_pipeline *p = w->pipeline;
    judge_look(w, false);
    int64_t until_ns;
    enum park_kind kind = park_kind_locked(w, now_ns, &until_ns);
    w->parked = true;
    w->parked_next = p->parked;
    p->parked = w;
    p->parked_count++;
    hr__engine_unlock(p, after);
    bool timed_out = hr__worker_park(w, until_ns) == ETIMEDOUT;
    hr__engine_lock(p);
    if (w->parked)
        unlist_parked_locked(p, w);
    w->looked = timed_out && kind == PARK_AND_LOOK;
    if (!timed_out)
        w->room_limit_ns = PARK_MIN_NS;
    else if (kind == PARK_FOR_ROOM)
        longer(&w->room_limit_ns);
    return HR_SYS(now_ns)();
}

/* ---- the loop ---- */

static int64_t work_once_locked(struct hr_worker *w, int64_t now_ns,
                                struct hr_after *after) HR_ENGINE_LOCKED
{
    struct hr_pipeline *p = w->pipeline;
    struct hr_fork *fork = find_fork_locked(p);
    if (fork) {
        found_work(w);
        return help_locked(w, fork, now_ns, after);
    }
    if (hr__retry_take_locked(p, HR_LANES_NATIVE, &w->claims[0]))
        return hr__worker_run_native_locked(w, now_ns, after);
    if (hr__retry_peek_locked(p, HR_LANES_FOREIGN) >= 0 &&
        hr__session_allowed_locked(p, now_ns))
        return hr__session_run_locked(w, now_ns, after);
    int native = hr__sched_peek(p->sched, HR_LANES_NATIVE);
    int foreign = -1;
    if (hr__session_allowed_locked(p, now_ns))
        foreign = hr__sched_peek(p->sched, hr__session_lanes_locked(p));
    if (foreign > native) {
        found_work(w);
        return hr__session_run_locked(w, now_ns, after);
    }
    if (native >= 0 &&
        hr__sched_claim(p->sched, HR_LANES_NATIVE, now_ns, &w->claims[0])) {
        found_work(w);
        return hr__worker_run_native_locked(w, now_ns, after);
    }
    hr__engine_wake_helper_locked(p, after);
    hr__engine_wake_consumers_locked(p, -1, now_ns, after);
    return park_locked(w, now_ns, after);
}

/* The last thing a thread of a pipeline does. */
void hr__worker_leave(struct hr_worker *w)
{
    struct hr_pipeline *p = w->pipeline;
    hr__scratch_fini(&w->scratch);
    if (w->foreign_thread)
        p->runtime->thread_free(w->foreign_thread);
    w->foreign_thread = NULL;
    if (self_worker == w)
        self_worker = NULL; /* the thread itself may live on */
    hr__engine_lock(p);
    p->alive--;
    p->lost_count -= w->lost;
    w->left = w->lost; /* it may be used for another thread from now on */
    hr__pipeline_tell_stoppers_locked(p);
    void *cookie = hr__async_take_cookie_locked(p);
    hr__engine_unlock_only(p);
    hr__async_drop_cookie(p, cookie);
    hr__pipeline_unref(p);
}

void *hr__worker_main(void *arg)
{
    struct hr_worker *w = arg;
    struct hr_pipeline *p = w->pipeline;
    struct hr_after after = {0};
    hr__worker_begin(w);
    w->room_limit_ns = w->look_limit_ns = PARK_MIN_NS;
    hr__engine_lock(p);
    int64_t now_ns = HR_SYS(now_ns)();
    for (;;) {
        hr__engine_pump_locked(p, now_ns, &after);
        if (p->ended || w->lost)
            break;
        now_ns = work_once_locked(w, now_ns, &after);
    }
    hr__engine_wake_consumers_locked(p, -1, now_ns, &after);
    hr__engine_unlock(p, &after);
    hr__worker_leave(w);
    return NULL;
}
