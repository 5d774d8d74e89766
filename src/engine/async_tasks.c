/* async_tasks.c - tasks in the hands of the event loop's thread, as others see them. */
#include "engine/async_state.h"

#include "base/log.h"
#include "base/sys.h"
#include "engine/task.h"
#include "base/banned.h"

/* ---- tasks ---- */

/* There is always one: see tasks_needed. */
struct hr_async_task *hr__async_task_get_locked(struct hr_async *a, int64_t now_ns)
{
    struct hr_async_task *task = a->unused;
    if (task)
        a->unused = task->next;
    else
        task = &a->tasks[a->tasks_touched++];
    *task = (struct hr_async_task){
        .number = (uint32_t)(task - a->tasks), .used = true, .since_ns = now_ns};
    return task;
}

void hr__async_task_put_locked(struct hr_async *a, struct hr_async_task *task)
{
    task->used = false;
    task->next = a->unused;
    a->unused = task;
}

bool hr__async_adopt_locked(struct hr_pipeline *p, const struct hr_claim *claims,
                            struct hr_call *calls, uint32_t n, int64_t now_ns)
{
    struct hr_async *a = p->async;
    struct hr_async_task *before = NULL;
    if (atomic_load_explicit(&a->presence, memory_order_relaxed) == ABSENT)
        return false;
    p->stages[claims[0].stage].awaits = true;
    for (uint32_t i = 0; i < n; i++) {
        struct hr_async_task *task = hr__async_task_get_locked(a, now_ns);
        task->stage = claims[i].stage;
        task->claim = claims[i];
        task->call = calls[i];
        task->adopted = i == 0;
        task->rides = i > 0;
        calls[i].out_count = 0;
        calls[i].exception = HR_VALUE_EMPTY;
        if (before) {
            before->chain = task;
        } else {
            *a->adopted_end = task;
            a->adopted_end = &task->next;
        }
        before = task;
    }
    return true;
}

int64_t hr__async_item(const struct hr_pipeline *p, const struct hr_async_task *task)
{
    const struct hr_item *item = p->tasks[task->claim.task].item;
    return item ? item->index : -1;
}

int64_t hr__async_item_locked(const struct hr_pipeline *p,
                              const struct hr_async_task *task)
{
    const struct hr_feed *feed = hr__feed_of(p, task->stage);
    if (feed)
        return feed->index;
    return task->stage == 0 ? p->source_index : hr__async_item(p, task);
}

const struct hr_async_task *hr__async_oldest_locked(const struct hr_pipeline *p)
{
    const struct hr_async_task *oldest = NULL;
    for (uint32_t i = 0; p->async && i < p->async->tasks_touched; i++) {
        const struct hr_async_task *task = &p->async->tasks[i];
        if (task->used && (!oldest || task->since_ns < oldest->since_ns))
            oldest = task;
    }
    return oldest;
}

int64_t hr__async_in_flight_locked(const struct hr_pipeline *p, uint32_t stage,
                                   int64_t now_ns)
{
    int64_t sum = 0;
    for (uint32_t i = 0; p->async && i < p->async->tasks_touched; i++) {
        const struct hr_async_task *task = &p->async->tasks[i];
        if (task->used && !task->paused && task->stage == stage &&
            task->since_ns < now_ns)
            sum += now_ns - task->since_ns;
    }
    return sum;
}

int64_t hr__async_watch_locked(struct hr_pipeline *p, int64_t now_ns)
{
    int64_t next_ns = now_ns + p->task_deadline_ns;
    for (uint32_t i = 0; p->async && i < p->async->tasks_touched; i++) {
        struct hr_async_task *task = &p->async->tasks[i];
        /* A source may wait for its next item as long as it likes. */
        if (!task->used || task->paused || task->reported ||
            p->stages[task->stage].body == HR_BODY_FOREIGN_SOURCE)
            continue;
        int64_t due_ns = task->since_ns + p->task_deadline_ns;
        if (due_ns > now_ns) {
            next_ns = due_ns < next_ns ? due_ns : next_ns;
            continue;
        }
        task->reported = true;
        hr__log(HR_LOG_WARNING, "%s: item %lld is still awaited after %.3g s",
                p->stages[task->stage].name, (long long)hr__async_item_locked(p, task),
                (double)(now_ns - task->since_ns) / 1e9);
    }
    return next_ns;
}

/* ---- a thread that does not come ---- */

void hr__call_cannot_await(const struct hr_pipeline *p, const struct hr_stage *stage,
                           struct hr_call *call)
{
    call->awaits = false;
    /* pairs with hr__engine_cancel_locked */
    if (atomic_load_explicit(&p->cancel, memory_order_acquire))
        return; /* the scheduler refuses the item */
    call->outcome = HR_TASK_FAILED;
    (void)hr_error_set(&call->error, HR_ERR_THREAD, "pipeline", 0,
                       "stage '%s': no event loop could be started to await the "
                       "result",
                       stage->name);
}

/* What workers have given to it by now fails. Returns what is to be cleared and put. */
static struct hr_async_task *
fail_adopted_locked(struct hr_pipeline *p, struct hr_after *after) HR_ENGINE_LOCKED
{
    struct hr_async *a = p->async;
    struct hr_async_task *list = a->adopted;
    int64_t now_ns = HR_SYS(now_ns)();
    a->adopted = NULL;
    a->adopted_end = &a->adopted;
    for (struct hr_async_task *task = list; task; task = task->next) {
        hr__call_cannot_await(p, &p->stages[task->stage], &task->call);
        hr__call_finish_locked(p, &task->claim, &task->call, now_ns, after);
        if (task->chain) { /* finished in the order of the claims */
            task->chain->next = task->next;
            task->next = task->chain;
        }
    }
    hr__engine_pump_locked(p, now_ns, after);
    hr__engine_wake_workers_locked(p, -1, now_ns, after);
    hr__engine_wake_consumers_locked(p, -1, now_ns, after);
    return list;
}

void hr__async_abandon(struct hr_pipeline *p)
{
    struct hr_after after = {0};
    hr__engine_lock(p);
    if (!hr__async_change_presence(p->async, EXPECTED, ABSENT)) {
        hr__engine_unlock_only(p);
        return;
    }
    struct hr_async_task *list = fail_adopted_locked(p, &after);
    hr__engine_unlock(p, &after);
    for (struct hr_async_task *task = list; task; task = task->next)
        hr__call_clear(&task->call);
    hr__engine_lock(p);
    for (struct hr_async_task *task = list, *next; task; task = next) {
        next = task->next;
        hr__async_task_put_locked(p->async, task);
    }
    hr__engine_unlock_only(p);
    hr__worker_leave(&p->async->worker);
}
