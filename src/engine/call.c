/* call.c - one call of foreign code, from its claim to its end.
 *
 *     note (lock) --> ready --> run by the class --> settle --> finish (lock) --> clear
 *
 * Without the lock values move: the input out of its item or one field of it, outputs into
 * items or records. Under it only handles do. What is left at the end is cleared: an
 * output for which there was no memory for an item, an exception for which the ledger had
 * no room. */
#include "engine/task.h"
#include "base/banned.h"

/* ---- before ---- */

void hr__call_note_locked(struct hr_pipeline *p, const struct hr_claim *claim,
                          struct hr_call *call)
{
    call->grant = 1; /* an expand may wait after each output */
    call->quick = claim->stage == 0 && hr__source_is_quick_locked(p);
    if (claim->stage == 0)
        call->grant = hr__source_grant_locked(p, claim->grant);
    else if (claim->first)
        p->tasks[claim->task] = (struct hr_task_state){
            .item = claim->input_count > 0 ? hr__item_of(claim->inputs[0]) : NULL};
    call->item = p->tasks[claim->task].item;
    call->iterator = p->tasks[claim->task].iterator;
}

static void prepare_call(struct hr_call *call, struct hr_value *in)
{
    call->in = in;
    call->outcome = HR_TASK_FAILED;
    call->out_count = 0;
    call->end_ns = 0;
    call->error.status = HR_OK;
    call->exception = HR_VALUE_EMPTY;
    call->fatal = false;
    call->again = false;
    call->awaits = false;
    call->timed_out = false;
}

/* When its key does not fit the call has failed before it is made; it keeps its place, for
 * tasks that ride are finished in order. */
void hr__call_ready(struct hr_pipeline *p, const struct hr_claim *claim,
                    struct hr_call *call)
{
    struct hr_stage *stage = &p->stages[claim->stage];
    struct hr_value *field = NULL;
    struct hr_error err = {0};
    if (claim->input_count > 0)
        field = hr__key_field(&stage->key, &call->item->value, &err);
    prepare_call(call, field);
    if (err.status != HR_OK)
        call->error = err;
}

/* One that has failed in hr__call_ready. */
bool hr__call_is_misfit(const struct hr_claim *claim, const struct hr_call *call)
{
    return claim->input_count > 0 && !call->in;
}

/* ---- after, without the lock ---- */

/* A record of the item's fields, shared, with *value in the place of `field`. Takes
 * *value on success. */
static enum hr_status wrap_in_record(const struct hr_value *item,
                                     const struct hr_value *field,
                                     struct hr_value *value)
{
    struct hr_keys *keys = hr_record_peek_keys(item);
    const struct hr_value *from = hr_record_peek(item);
    struct hr_value record = HR_VALUE_EMPTY;
    enum hr_status status = hr_record_new(keys, &record);
    if (status != HR_OK)
        return status;
    struct hr_value *to = hr_record_peek(&record);
    for (size_t i = 0; i < hr_keys_size(keys); i++) {
        if (&from[i] == field || !from[i].cls)
            continue;
        if (!from[i].cls->share) {
            hr_value_release(&record);
            return HR_ERR_TYPE;
        }
        to[i] = from[i].cls->share(&from[i]);
    }
    to[field - from] = *value;
    *value = record;
    return HR_OK;
}

/* Give each output of a keyed expand its record. When one can't be made the task fails
 * there. */
static void wrap_in_records(struct hr_stage *stage, struct hr_value *item,
                            struct hr_call *call)
{
    const struct hr_value *field = hr__key_field(&stage->key, item, NULL);
    enum hr_status status = HR_OK;
    uint32_t n = 0;
    while (n < call->out_count &&
           (status = wrap_in_record(item, field, &call->out[n])) == HR_OK)
        n++;
    if (status == HR_OK)
        return;
    for (uint32_t o = n; o < call->out_count; o++)
        hr_value_release(&call->out[o]);
    call->out_count = n;
    hr__foreign_close(stage, call);
    call->outcome = HR_TASK_FAILED;
    (void)hr_error_set(&call->error, status, "pipeline", 0,
                       status == HR_ERR_NOMEM
                           ? "stage '%s': no memory for a record"
                           : "stage '%s': not all other fields can be shared by the "
                             "items that one became",
                       stage->name);
}

/* No lock: the run does not want this task any more. */
void hr__foreign_close(struct hr_stage *stage, struct hr_call *call)
{
    if (call->iterator)
        stage->foreign.cls->drop_iterator(stage->foreign.state, call->iterator);
    call->iterator = NULL;
    call->outcome = HR_TASK_DONE;
}

/* The output of a map goes into its item, those of an expand into records. */
void hr__call_settle(struct hr_stage *stage, struct hr_call *call)
{
    if (stage->body == HR_BODY_FOREIGN_EXPAND && stage->key.used && call->out_count > 0)
        wrap_in_records(stage, &call->item->value, call);
    bool keeps_item =
        stage->body == HR_BODY_FOREIGN_MAP || stage->body == HR_BODY_FOREIGN_ROUTE;
    if (!keeps_item || call->outcome != HR_TASK_DONE || call->awaits || !call->in ||
        call->out_count == 0)
        return; /* a misfit, or nothing to settle */
    hr_value_release(call->in);
    *call->in = call->out[0];
    call->out[0] = HR_VALUE_EMPTY;
}

/* ---- the end, under the lock ---- */

static void fatal_locked(struct hr_pipeline *p, struct hr_stage *stage,
                         const struct hr_item *item, struct hr_call *call,
                         int64_t now_ns, struct hr_after *after) HR_ENGINE_LOCKED
{
    if (p->cancelled)
        return; /* the consumer has been told of the end */
    /* The run's end and the item's entry both have it. */
    struct hr_value copy = HR_VALUE_EMPTY;
    if (call->exception.cls)
        copy = call->exception.cls->share(&call->exception);
    hr__ledger_end(&p->ledger, stage->name, item, &call->error, &copy);
    hr_value_release(&copy); /* not the last one: no foreign code under the lock */
    hr__engine_cancel_locked(p, now_ns, after);
}

static void finish_map_locked(struct hr_pipeline *p, const struct hr_claim *claim,
                              struct hr_call *call, int64_t now_ns,
                              struct hr_after *after) HR_ENGINE_LOCKED
{
    struct hr_task_state *state = &p->tasks[claim->task];
    struct hr_item *item = state->item;
    bool again = call->outcome == HR_TASK_FAILED && call->again && !call->fatal;
    if (hr__retry_later_locked(p, claim, again, now_ns, after))
        return;
    state->item = NULL;
    if (call->fatal)
        fatal_locked(p, &p->stages[claim->stage], item, call, now_ns, after);
    if (p->stages[claim->stage].body == HR_BODY_FOREIGN_ROUTE)
        hr__route_finish_locked(p, claim, item, call->outcome, call->path, &call->error,
                                &call->exception, now_ns, after);
    else
        hr__engine_finish_item_locked(p, claim, item, call->outcome, &call->error,
                                      &call->exception, now_ns, after);
}

static void finish_expand_locked(struct hr_pipeline *p, const struct hr_claim *claim,
                                 struct hr_call *call, int64_t now_ns,
                                 struct hr_after *after) HR_ENGINE_LOCKED
{
    struct hr_task_state *state = &p->tasks[claim->task];
    struct hr_item *item = state->item;
    hr_handle handles[HR_SCHED_GRANT_MAX];
    uint32_t n = hr__engine_wrap_locked(p, claim->stage, item, call->out,
                                        call->out_count, handles);
    state->iterator = call->iterator;
    if (call->fatal)
        fatal_locked(p, &p->stages[claim->stage], item, call, now_ns, after);
    if (call->outcome == HR_TASK_FAILED)
        hr__engine_fail_task_locked(p, claim, item, &call->error, &call->exception,
                                    after);
    if (call->outcome != HR_TASK_MORE) {
        state->item = NULL;
        hr__engine_let_go(after, item);
    }
    hr__engine_finish_locked(p, claim->task, call->outcome, handles, n, now_ns, after);
}

/* A fold's result is a new item, numbered as the first that was taken since the result
 * before. A flush has no item. */
static void finish_fold_locked(struct hr_pipeline *p, const struct hr_claim *claim,
                               struct hr_call *call, int64_t now_ns,
                               struct hr_after *after) HR_ENGINE_LOCKED
{
    struct hr_stage *stage = &p->stages[claim->stage];
    struct hr_item *item = p->tasks[claim->task].item;
    struct hr_item none = {.index = -1};
    hr_handle handle = 0;
    p->tasks[claim->task].item = NULL;
    if (item && stage->fold_first < 0 && call->outcome == HR_TASK_DONE)
        stage->fold_first = item->index;
    struct hr_item first = {.index = stage->fold_first};
    uint32_t n = hr__engine_wrap_locked(p, claim->stage, &first, call->out,
                                        call->out_count, &handle);
    if (call->out_count > 0 || !item)
        stage->fold_first = -1;
    if (call->fatal)
        fatal_locked(p, stage, item, call, now_ns, after);
    if (call->outcome == HR_TASK_FAILED)
        hr__engine_fail_task_locked(p, claim, item ? item : &none, &call->error,
                                    &call->exception, after);
    if (item)
        hr__engine_let_go(after, item);
    hr__engine_finish_locked(p, claim->task, call->outcome, &handle, n, now_ns, after);
}

void hr__call_finish_locked(struct hr_pipeline *p, const struct hr_claim *claim,
                            struct hr_call *call, int64_t now_ns,
                            struct hr_after *after)
{
    enum hr_stage_body body = p->stages[claim->stage].body;
    if (body == HR_BODY_FOREIGN_MAP || body == HR_BODY_FOREIGN_ROUTE)
        finish_map_locked(p, claim, call, now_ns, after);
    else if (body == HR_BODY_FOREIGN_FOLD)
        finish_fold_locked(p, claim, call, now_ns, after);
    else
        finish_expand_locked(p, claim, call, now_ns, after);
}

/* ---- what is left ---- */

bool hr__call_has_rest(const struct hr_call *call)
{
    for (uint32_t i = 0; i < call->out_count; i++)
        if (call->out[i].cls)
            return true;
    return call->exception.cls != NULL;
}

void hr__call_clear(struct hr_call *call)
{
    for (uint32_t i = 0; i < call->out_count; i++)
        hr_value_release(&call->out[i]);
    call->out_count = 0;
    hr_value_release(&call->exception);
}
