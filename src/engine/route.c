/* route.c - routers: which of several paths an item takes.
 *
 * A router's task holds a place in every path, since nobody knows before where its item
 * will go; so one path that stands still stands in the way of all. It is serial: items
 * come to each path in their order. What joins the paths again is no task (sched/stage.c).
 */
#include "base/sys.h"
#include "engine/task.h"
#include "base/banned.h"

void hr__route_finish_locked(struct hr_pipeline *p, const struct hr_claim *claim,
                             struct hr_item *item, enum hr_task_outcome outcome,
                             uint32_t path, const struct hr_error *err,
                             struct hr_value *exception, int64_t now_ns,
                             struct hr_after *after)
{
    if (outcome != HR_TASK_DONE) {
        hr__engine_finish_item_locked(p, claim, item, outcome, err, exception, now_ns,
                                      after);
        return;
    }
    if (hr__sched_finish_route(p->sched, claim->task, path, hr__handle_of(item),
                               now_ns) == 0)
        hr__engine_let_go(after, item);
}

static enum hr_status ask(struct hr_worker *w, struct hr_stage *stage,
                          const struct hr_item *item, uint32_t *path,
                          struct hr_error *err)
{
    enum hr_status status = stage->router.cls->route(stage->router.state, &w->ctx.base,
                                                     &item->value, path, err);
    if (status == HR_OK && *path >= stage->path_count)
        return hr_error_set(err, HR_ERR_ARG, "pipeline", 0,
                            "router '%s' chose path %u of %u", stage->name, *path,
                            stage->path_count);
    if (status != HR_OK)
        hr__error_complete(err, status, stage->name);
    return status;
}

int64_t hr__route_run_task(struct hr_worker *w, const struct hr_claim *claim,
                           struct hr_after *after)
{
    struct hr_pipeline *p = w->pipeline;
    struct hr_item *item = hr__item_of(claim->inputs[0]);
    struct hr_error err = {0};
    struct hr_value none = HR_VALUE_EMPTY;
    uint32_t path = 0;
    enum hr_status status = ask(w, &p->stages[claim->stage], item, &path, &err);
    enum hr_task_outcome outcome = status == HR_OK || status == HR_CANCELLED
                                       ? HR_TASK_DONE /* cancelled: to be refused */
                                   : status == HR_SKIP ? HR_TASK_FILTERED
                                                       : HR_TASK_FAILED;
    int64_t end_ns = HR_SYS(now_ns)();
    hr__worker_lock(w);
    if (status == HR_CANCELLED && !p->cancelled) {
        outcome = HR_TASK_FAILED;
        (void)hr_error_set(&err, HR_ERR_DEADLINE, "pipeline", 0,
                           "stage '%s' took longer than its deadline",
                           p->stages[claim->stage].name);
    }
    hr__route_finish_locked(p, claim, item, outcome, path, &err, &none, end_ns, after);
    return end_ns;
}
