/* deadline.c - tasks that take too long.
 *
 * Two timers of the event loop's thread look at what each worker is at:
 *
 *   the watchdog    tells in the log of any task that is over 30 s, once
 *   the deadlines   end tasks of stages that have a timeout; only if there is one
 *
 * A thread can't be killed. A task past its deadline is *written off*:
 *
 *     HELD ---- own return ------------> the worker reports what it made
 *       |
 *       +------ deadline, under lock --> LOST: reported here, as FAILED
 *                                          |  its thread is replaced
 *                                          +-- return --> dropped; the thread leaves
 *
 * The lock decides which of the two reports a task; nobody can do it twice. The worker
 * is the generation of its claims: who is lost holds none. Its successor is another
 * struct in the same place, so no number has to be compared.
 *
 * What the lost thread still uses (op, item, call, scratch, context) is its own or the
 * pipeline's, to which it holds a reference. What stands by task number in the pipeline
 * is used for other tasks at once, and is none of its business. docs/internals/
 * deadlines.md has the table.
 *
 * Tasks of such stages are claimed one at a time (hr__stage_may_ride): so the time since
 * the claim, or since the thread had attached, is the time of the call. It is noted for
 * statistics anyway; no clock is read and no timer set for a task. The timer sleeps
 * until the nearest deadline, but not longer than the shortest timeout: what begins
 * after a look is not due before. */
#include "engine/task.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/sys.h"
#include "base/banned.h"

#define WATCH_MIN_NS 10000000
#define LOOK_MIN_NS 1000000
#define GRACE_MIN_NS 100000000
#define GRACE_MAX_NS 1000000000
#define STUCK_MAX 256 /* threads at once: then the run ends */

static double seconds(int64_t ns)
{
    return (double)ns / 1e9;
}

int64_t hr__deadline_of(const struct hr_pipeline *p, const struct hr_stage *stage,
                        int64_t now_ns)
{
    return now_ns + (stage->timeout_ns ? stage->timeout_ns : p->task_deadline_ns);
}

int64_t hr__deadline_grace(const struct hr_stage *stage)
{
    if (stage->timeout_ns < GRACE_MIN_NS)
        return GRACE_MIN_NS;
    return stage->timeout_ns < GRACE_MAX_NS ? stage->timeout_ns : GRACE_MAX_NS;
}

/* ---- the watchdog ---- */

static int64_t watch(void *cookie, int64_t now_ns)
{
    struct hr_pipeline *p = cookie;
    hr__engine_lock(p);
    int64_t next_ns = hr__async_watch_locked(p, now_ns);
    for (uint32_t i = 0; i < p->worker_count; i++) {
        struct hr_worker *w = p->workers[i];
        if (w->stage < 0 || w->reported || !w->started)
            continue;
        int64_t due_ns = w->since_ns + p->task_deadline_ns;
        if (due_ns > now_ns) {
            next_ns = due_ns < next_ns ? due_ns : next_ns;
            continue;
        }
        w->reported = true;
        hr__log(HR_LOG_WARNING, "%s: item %lld is still running after %.3g s",
                p->stages[w->stage].name,
                (long long)atomic_load_explicit(&w->item, memory_order_relaxed),
                seconds(now_ns - w->since_ns));
    }
    hr__engine_unlock_only(p);
    return next_ns < now_ns + WATCH_MIN_NS ? now_ns + WATCH_MIN_NS : next_ns;
}

/* ---- the failure ---- */

static enum hr_status say_late(const struct hr_stage *stage, const struct hr_item *item,
                               const char *did, int64_t took_ns, int64_t timeout_ns,
                               struct hr_error *err)
{
    char which[128];
    hr__item_describe(item, which, sizeof(which));
    return hr_error_set(err, HR_ERR_DEADLINE, "pipeline", 0,
                        "stage '%s' %s %s after %.3g s; its timeout is %.3g s",
                        stage->name, did, which, seconds(took_ns), seconds(timeout_ns));
}

void hr__deadline_judge_locked(struct hr_worker *w, struct hr_item *item,
                               int64_t now_ns, enum hr_status *status,
                               struct hr_error *err)
{
    struct hr_pipeline *p = w->pipeline;
    struct hr_stage *stage = &p->stages[w->claims[0].stage];
    bool late = stage->timeout_ns > 0 && now_ns >= w->ctx.base.deadline_ns &&
                (*status == HR_OK || *status == HR_SKIP || *status == HR_ERR_DEADLINE);
    if (p->cancelled || (!late && *status != HR_CANCELLED))
        return;
    stage->timed_out++;
    *status =
        say_late(stage, item, *status == HR_OK ? "was done with" : "gave up",
                 now_ns - w->since_ns,
                 stage->timeout_ns > 0 ? stage->timeout_ns : p->task_deadline_ns, err);
}

/* ---- writing off ---- */

/* Report the task that w holds, as somebody who finished it would. */
static void report_locked(struct hr_worker *w, int64_t now_ns,
                          struct hr_after *after) HR_ENGINE_LOCKED
{
    struct hr_pipeline *p = w->pipeline;
    const struct hr_claim *claim = &w->claims[0];
    struct hr_stage *stage = &p->stages[claim->stage];
    struct hr_task_state *state = &p->tasks[claim->task];
    struct hr_item *item =
        claim->input_count > 0 ? hr__item_of(claim->inputs[0]) : state->item;
    /* relaxed: see due_locked, which has found it past */
    int64_t begun_ns = atomic_load_explicit(&w->begun_ns, memory_order_relaxed);
    struct hr_value none = HR_VALUE_EMPTY;
    struct hr_error err = {0};
    *state = (struct hr_task_state){.item = NULL};
    if (claim->closing) { /* it is not wanted, so nothing is lost with it */
        hr__engine_finish_locked(p, claim->task, HR_TASK_DONE, NULL, 0, now_ns, after);
        return;
    }
    stage->timed_out++;
    hr__stage_account_locked(stage, now_ns - begun_ns, 1);
    if (stage->foreign.cls) {
        stage->attach_ns += (uint64_t)(begun_ns - w->since_ns);
        stage->attached_ns += (uint64_t)(now_ns - begun_ns);
        p->foreign_progress_ns = now_ns;
    }
    (void)say_late(stage, item, "was still working on", now_ns - begun_ns,
                   stage->timeout_ns, &err);
    hr__engine_fail_task_locked(p, claim, item, &err, &none, after);
    hr__engine_finish_locked(p, claim->task, HR_TASK_FAILED, NULL, 0, now_ns, after);
}

/* With it everybody who runs its slots: it does not come back before they do. */
static void lose_locked(struct hr_worker *w) HR_ENGINE_LOCKED
{
    struct hr_pipeline *p = w->pipeline;
    w->lost = true;
    w->reported = false;
    atomic_store_explicit(&w->begun_ns, -1, memory_order_relaxed); /* accounted */
    p->working--;
    p->lost_count++;
    p->stages[w->stage].stuck++;
    hr__session_leave_locked(w);
    hr__fork_close_locked(w);
    for (uint32_t i = 0; i < p->worker_count; i++) {
        struct hr_worker *other = p->workers[i];
        if (!other->lost && other->helping && other->helping->owner == w)
            lose_locked(other);
    }
}

/* A worker for place i: that of a thread which is gone, or a new one. */
static struct hr_worker *successor_locked(struct hr_pipeline *p,
                                          uint32_t i) HR_ENGINE_LOCKED
{
    struct hr_worker **at = &p->lost;
    while (*at && !(*at)->left)
        at = &(*at)->lost_next;
    struct hr_worker *w = *at;
    if (!w)
        return hr__worker_new(p, i);
    *at = w->lost_next;
    w->lost = w->left = w->started = w->attached = false;
    w->number = i;
    hr__scratch_init(&w->scratch);
    atomic_store_explicit(&w->trace, NULL, memory_order_release); /* hr__worker_trace */
    return w; /* its parker stays: a wake-up that comes late does no harm */
}

static void keep_locked(struct hr_pipeline *p, struct hr_worker *w) HR_ENGINE_LOCKED
{
    w->lost_next = p->lost;
    p->lost = w;
}

/* A fresh thread for place i, whose worker is lost. */
static enum hr_status replace_locked(struct hr_pipeline *p, uint32_t i,
                                     struct hr_error *err) HR_ENGINE_LOCKED
{
    struct hr_worker *lost = p->workers[i];
    struct hr_worker *w = successor_locked(p, i);
    if (!w)
        return hr__nomem(err, "pipeline", "a thread", sizeof(*w));
    enum hr_status status = hr__worker_start_locked(p, w, err);
    if (status != HR_OK) {
        w->lost = w->left = true;
        keep_locked(p, w);
        return status;
    }
    p->workers[i] = w;
    p->working++;
    (void)pthread_detach(lost->thread);
    keep_locked(p, lost);
    return HR_OK;
}

/* Nobody is left to work, or nobody would be before long. */
static void give_up_locked(struct hr_pipeline *p, uint32_t stage,
                           const struct hr_error *err, int64_t now_ns,
                           struct hr_after *after) HR_ENGINE_LOCKED
{
    struct hr_value none = HR_VALUE_EMPTY;
    if (p->cancelled)
        return; /* the consumer has been told of the end */
    hr__ledger_end(&p->ledger, p->stages[stage].name, NULL, err, &none);
    hr__engine_cancel_locked(p, now_ns, after);
}

static void replace_all_locked(struct hr_pipeline *p, uint32_t stage, int64_t now_ns,
                               struct hr_after *after) HR_ENGINE_LOCKED
{
    struct hr_error why = {0}, err = {0};
    enum hr_status status = HR_OK;
    for (uint32_t i = 0; i < p->num_threads && status == HR_OK; i++)
        if (p->workers[i]->lost)
            status = replace_locked(p, i, &why);
    if (status != HR_OK)
        hr__log(HR_LOG_WARNING, "a stuck thread could not be replaced: %s", why.text);
    if (p->working == 0) {
        (void)hr_error_set(&err, HR_ERR_THREAD, "pipeline", why.code,
                           "stage '%s': all threads are stuck, and could not be "
                           "replaced: %s",
                           p->stages[stage].name, why.text);
        give_up_locked(p, stage, &err, now_ns, after);
    } else if (p->lost_count >= STUCK_MAX) {
        (void)hr_error_set(&err, HR_ERR_LIMIT, "pipeline", 0,
                           "stage '%s': %u threads are stuck in operations that have "
                           "not ended by their timeout",
                           p->stages[stage].name, p->lost_count);
        give_up_locked(p, stage, &err, now_ns, after);
    }
}

static void write_off_locked(struct hr_worker *w, int64_t now_ns,
                             struct hr_after *after) HR_ENGINE_LOCKED
{
    struct hr_pipeline *p = w->pipeline;
    uint32_t stage = (uint32_t)w->stage;
    report_locked(w, now_ns, after);
    lose_locked(w);
    hr__engine_pump_locked(p, now_ns, after);
    if (!p->ended)
        replace_all_locked(p, stage, now_ns, after);
    hr__engine_wake_workers_locked(p, -1, now_ns, after);
    hr__engine_wake_helper_locked(p, after);
    hr__engine_wake_consumers_locked(p, -1, now_ns, after);
    hr__pipeline_tell_stoppers_locked(p);
}

/* When the task that w holds is to be written off, as things stand. */
static int64_t due_locked(const struct hr_worker *w) HR_ENGINE_LOCKED
{
    const struct hr_pipeline *p = w->pipeline;
    if (!w->started || w->lost || w->stage < 0 || w->helping ||
        p->stages[w->stage].timeout_ns == 0)
        return HR_FOREVER;
    const struct hr_stage *stage = &p->stages[w->stage];
    /* relaxed: a stale one says that it has not attached yet; the next look sees it */
    int64_t begun_ns = atomic_load_explicit(&w->begun_ns, memory_order_relaxed);
    if (begun_ns < 0 || begun_ns == HR_FOREVER)
        return HR_FOREVER;
    int64_t grace_ns = stage->foreign.cls ? 0 : hr__deadline_grace(stage);
    return begun_ns + stage->timeout_ns + grace_ns;
}

static int64_t look(void *cookie, int64_t now_ns)
{
    struct hr_pipeline *p = cookie;
    struct hr_after after = {0};
    int64_t next_ns = now_ns + p->shortest_timeout_ns;
    hr__engine_lock(p);
    for (uint32_t i = 0; i < p->num_threads; i++) {
        int64_t due_ns = due_locked(p->workers[i]);
        if (due_ns <= now_ns)
            write_off_locked(p->workers[i], now_ns, &after);
        else if (due_ns < next_ns)
            next_ns = due_ns;
    }
    bool ended = p->ended;
    hr__engine_unlock(p, &after);
    if (ended)
        return HR_FOREVER;
    return next_ns < now_ns + LOOK_MIN_NS ? now_ns + LOOK_MIN_NS : next_ns;
}

/* ---- coming back ---- */

void hr__worker_late_locked(struct hr_worker *w, struct hr_item *item,
                            struct hr_after *after)
{
    struct hr_pipeline *p = w->pipeline;
    struct hr_stage *stage = &p->stages[w->stage];
    stage->stuck--;
    if (item) {
        stage->late++;
        hr__engine_let_go(after, item);
    }
    if (p->workers[w->number] != w)
        return;
    w->lost = false; /* nobody could be had in its place */
    p->lost_count--;
    p->working++;
}

void hr__deadlines_tell_stuck_locked(struct hr_pipeline *p)
{
    for (struct hr_worker *w = p->lost; w; w = w->lost_next) {
        if (w->left || w->reported || w->stage < 0)
            continue;
        w->reported = true;
        hr__log(HR_LOG_WARNING,
                "a thread is stuck in stage '%s', item %lld, since %.3g s; it is left "
                "behind",
                p->stages[w->stage].name,
                (long long)atomic_load_explicit(&w->item, memory_order_relaxed),
                seconds(HR_SYS(now_ns)() - w->since_ns));
    }
}

void hr__deadlines_free_lost(struct hr_pipeline *p)
{
    while (p->lost) {
        struct hr_worker *w = p->lost;
        p->lost = w->lost_next;
        hr__free(w);
    }
}

/* ---- life ---- */

void hr__deadlines_init(struct hr_pipeline *p)
{
    p->watchdog = (struct hr_timer){.fn = watch, .cookie = p};
    p->deadlines = (struct hr_timer){.fn = look, .cookie = p};
    for (uint32_t i = 0; i < p->stage_count; i++) {
        int64_t timeout_ns = p->stages[i].timeout_ns;
        if (timeout_ns > 0 &&
            (p->shortest_timeout_ns == 0 || timeout_ns < p->shortest_timeout_ns))
            p->shortest_timeout_ns = timeout_ns;
    }
}

void hr__deadlines_start(struct hr_pipeline *p)
{
    p->watchdog.due_ns = p->started_ns + p->task_deadline_ns;
    hr__loop_add(&p->loop, &p->watchdog);
    p->deadlines.due_ns = p->started_ns + p->shortest_timeout_ns;
    if (p->shortest_timeout_ns > 0)
        hr__loop_add(&p->loop, &p->deadlines);
}
