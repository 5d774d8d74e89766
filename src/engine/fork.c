/* fork.c - slots of one task, run by several workers.
 *
 * An op that fills a batch calls hr_ctx_for_each with a function of a slot. The fork lies
 * on its owner's stack and on the pipeline's list; who has nothing nearer the sink to do
 * takes slots with one atomic addition each. The owner takes slots, too, and comes back
 * when none is left and the last helper has gone: a helper counts itself in and out under
 * the lock. */
#include "engine/task.h"

#include "base/sys.h"
#include "base/banned.h"

/* Run slots until none is left. */
static void fork_run(struct hr_fork *fork, struct hr_ctx *ctx)
{
    struct hr_trace_ring *trace =
        hr__worker_trace(((struct hr_engine_ctx *)ctx)->worker);
    struct hr_trace_what what = {HR_TRACE_SLOT, (int32_t)fork->stage, fork->item, 0,
                                 NULL};
    struct hr_trail *trail = &((struct hr_engine_ctx *)ctx)->worker->trail;
    int64_t outer = atomic_load_explicit(&trail->slot, memory_order_relaxed);
    size_t slot;
    while ((slot = atomic_fetch_add_explicit(&fork->next, 1, memory_order_relaxed)) <
           fork->count) {
        int64_t begin_ns = trace ? HR_SYS(now_ns)() : 0;
        atomic_store_explicit(&trail->slot, (int64_t)slot, memory_order_relaxed);
        fork->fn(fork->cookie, slot, ctx);
        what.number = (uint32_t)slot;
        if (trace)
            hr__trace_add(trace, &what, begin_ns, HR_SYS(now_ns)());
    }
    atomic_store_explicit(&trail->slot, outer, memory_order_relaxed);
}

static bool fork_has_slots(const struct hr_fork *fork)
{
    return atomic_load_explicit(&fork->next, memory_order_relaxed) < fork->count;
}

struct hr_fork *hr__fork_find_locked(const struct hr_pipeline *p)
{
    for (struct hr_fork *fork = p->forks; fork; fork = fork->link)
        if (fork_has_slots(fork))
            return fork;
    return NULL;
}

int64_t hr__fork_help_locked(struct hr_worker *w, struct hr_fork *fork, int64_t now_ns,
                             struct hr_after *after)
{
    struct hr_pipeline *p = w->pipeline;
    fork->helpers++;
    w->helping = fork;
    hr__worker_note_locked(w, (int32_t)fork->stage, fork->item, now_ns);
    hr__trail_follow(w, fork->owner);
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
        (void)hr__worker_park(w, HR_FOREVER, HR_TRACE_JOIN);
        hr__engine_lock(p);
    }
    hr__engine_unlock_only(p);
}
