/* outcome.c - what becomes of a task's items.
 *
 * Values become items here, and items become handles, which is all that the scheduler
 * knows of them. What it does not take is released after the lock was dropped. */
#include "engine/task.h"
#include "base/banned.h"

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
