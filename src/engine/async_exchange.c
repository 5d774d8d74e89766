/* async_exchange.c - the event loop's thread hands in what is finished and gets what is to
 * be done, in one turn of the lock; see async.c. */
#include "engine/async_state.h"

#include <errno.h>

#include "base/sys.h"
#include "engine/task.h"
#include "base/banned.h"

#define LET_IN_NS 1000000
#define LIGHT_NS 100000

/* ---- lists ---- */

struct list {
    struct hr_async_task *first, **end;
};

static void append(struct list *list, struct hr_async_task *task)
{
    task->next = NULL;
    *list->end = task;
    list->end = &task->next;
}

/* ---- the exchange ---- */

static void settle(struct hr_pipeline *p, struct hr_async_task *task)
{
    task->stays = !task->over && (task->call.outcome == HR_TASK_MORE ||
                                  task->call.outcome == HR_TASK_EPOCH);
    if (!task->over)
        hr__call_settle(&p->stages[task->stage], &task->call);
}

static void finish_locked(struct hr_pipeline *p, struct hr_async_task *task,
                          int64_t now_ns, struct hr_after *after) HR_ENGINE_LOCKED
{
    struct hr_call *call = &task->call;
    if (task->over)
        return;
    struct hr_stage *stage = &p->stages[task->stage];
    stage->awaited_ns += (uint64_t)task->took_ns;
    if (stage->body == HR_BODY_FOREIGN_SOURCE && p->feed_count > 0) {
        hr__feed_finish_locked(p, hr__feed_of(p, task->stage), &task->claim, call,
                               now_ns, after);
    } else if (task->stage == 0) {
        call->prompt = true; /* see claim_all_locked */
        hr__source_finish_locked(p, &task->claim, call, 0, now_ns, after);
    } else {
        if (stage->on_loop)
            hr__stage_smooth_locked(stage, task->took_ns, !task->stays);
        hr__call_finish_locked(p, &task->claim, call, now_ns, after);
    }
    stage->timed_out += call->timed_out;
    call->timed_out = false;
    task->took_ns = 0;
    task->over = task->stays && call->outcome == HR_TASK_FAILED;
}

/* What became of a task that was finished, or paused. */
static void put_away_locked(struct hr_async *a, struct hr_async_task *task,
                            struct list *begin) HR_ENGINE_LOCKED
{
    if (task->stays) {
        task->call.out_count = 0;
        task->call.grant = 0;
        task->paused = true;
        return;
    }
    if (task->chain)
        append(begin, task->chain);
    hr__async_task_put_locked(a, task);
}

static void finish_all_locked(struct hr_pipeline *p, struct hr_async_task *finished,
                              int64_t now_ns, struct list *begin,
                              struct hr_after *after) HR_ENGINE_LOCKED
{
    struct hr_async *a = p->async;
    bool rest = false;
    for (struct hr_async_task *task = finished; task; task = task->next) {
        finish_locked(p, task, now_ns, after);
        rest = rest || hr__call_has_rest(&task->call);
    }
    if (rest) { /* not under a lock */
        hr__engine_unlock(p, after);
        for (struct hr_async_task *task = finished; task; task = task->next)
            hr__call_clear(&task->call);
        hr__worker_lock(&a->worker);
    }
    for (struct hr_async_task *task = finished, *next; task; task = next) {
        next = task->next;
        put_away_locked(a, task, begin);
    }
}

static struct hr_async_task *task_of_claim_locked(struct hr_pipeline *p,
                                                  const struct hr_claim *claim,
                                                  int64_t now_ns) HR_ENGINE_LOCKED
{
    struct hr_async_task *task = p->tasks[claim->task].on_loop;
    if (claim->first || !task) /* not a stream that goes on */
        task = hr__async_task_get_locked(p->async, now_ns);
    task->paused = false;
    task->since_ns = now_ns;
    task->stage = claim->stage;
    task->claim = *claim;
    task->closing = claim->closing;
    return task;
}

static void claim_all_locked(struct hr_pipeline *p, int64_t now_ns,
                             struct list *begin) HR_ENGINE_LOCKED
{
    struct hr_claim claim;
    while (hr__retry_take_locked(p, HR_LANES_ASYNC, &claim) ||
           hr__sched_claim(p->sched, HR_LANES_ASYNC, now_ns, &claim)) {
        if (claim.stage == 1)
            hr__source_taken_locked(p, &claim, now_ns);
        struct hr_async_task *task = task_of_claim_locked(p, &claim, now_ns);
        hr__call_note_locked(p, &claim, &task->call);
        if (p->stages[claim.stage].body != HR_BODY_FOREIGN_SOURCE || p->feed_count > 0)
            task->call.grant = claim.grant; /* what is given is handed in in time */
        if (p->stages[claim.stage].body != HR_BODY_FOREIGN_MAP)
            p->tasks[claim.task].on_loop = task;
        append(begin, task);
    }
}

static void take_adopted_locked(struct hr_async *a, struct list *begin) HR_ENGINE_LOCKED
{
    while (a->adopted) {
        struct hr_async_task *task = a->adopted;
        a->adopted = task->next;
        append(begin, task);
    }
    a->adopted_end = &a->adopted;
}

static void wake_others_locked(struct hr_pipeline *p, int stage, int64_t now_ns,
                               struct hr_after *after) HR_ENGINE_LOCKED
{
    hr__engine_wake_workers_locked(p, stage, now_ns, after);
    hr__engine_wake_helper_locked(p, after);
    if (stage < 0) /* else when the loop's turn is over */
        hr__engine_wake_consumers_locked(p, -1, now_ns, after);
}

static void reenter(struct hr_pipeline *p)
{
    struct hr_worker *w = &p->async->worker;
    if (w->attached)
        return;
    p->runtime->reenter(w->foreign_thread);
    w->attached = true;
}

/* Collate and take apart, as a leader does, what is done sooner than a worker is woken for
 * it. Returns the time. */
static int64_t run_light_locked(struct hr_pipeline *p, int64_t now_ns,
                                struct hr_after *after) HR_ENGINE_LOCKED
{
    struct hr_worker *w = &p->async->worker;
    int64_t until_ns = now_ns + LIGHT_NS;
    int stage;
    while ((stage = hr__sched_peek(p->sched, HR_LANES_LIGHT)) >= 0 &&
           p->stages[stage].ema_ns > 0 && p->stages[stage].ema_ns < HR_WAKE_COST_NS &&
           now_ns < until_ns &&
           hr__sched_claim(p->sched, HR_LANES_LIGHT, now_ns, &w->claims[0])) {
        now_ns = hr__worker_run_native_locked(w, now_ns, after);
        hr__engine_pump_locked(p, now_ns, after);
    }
    return now_ns;
}

/* One turn of the lock. handed_in: by the thread itself. */
static void turn(struct hr_pipeline *p, struct hr_async_task *finished, bool handed_in,
                 int stage, struct list *begin, enum hr_async_state *state)
{
    struct hr_async *a = p->async;
    struct hr_after after = {0};
    hr__worker_lock(&a->worker);
    int64_t now_ns = HR_SYS(now_ns)();
    finish_all_locked(p, finished, now_ns, begin, &after);
    hr__engine_pump_locked(p, now_ns, &after);
    now_ns = run_light_locked(p, now_ns, &after);
    claim_all_locked(p, now_ns, begin);
    if (hr__source_pull_attached_locked(&a->worker, &now_ns, &after))
        claim_all_locked(p, now_ns, begin);
    take_adopted_locked(a, begin);
    a->told_cancelled = p->cancelled;
    a->told_ended = p->ended;
    *state = p->ended       ? HR_ASYNC_ENDED
             : p->cancelled ? HR_ASYNC_CANCELLED
                            : HR_ASYNC_RUNS;
    a->armed = stage < 0 && !handed_in && !begin->first;
    wake_others_locked(p, stage, now_ns, &after);
    hr__engine_unlock(p, &after);
}

/* No lock: make the calls of `claimed` ready and put them behind `begin`. Those that have
 * failed before they are made are returned. */
static struct hr_async_task *
make_ready(struct hr_pipeline *p, struct hr_async_task *claimed, struct list *begin)
{
    struct list misfits = {NULL, &misfits.first};
    for (struct hr_async_task *task = claimed, *next; task; task = next) {
        next = task->next;
        if (!task->adopted && !task->rides)
            hr__call_ready(p, &task->claim, &task->call);
        bool fits = task->adopted || !hr__call_is_misfit(&task->claim, &task->call);
        append(fits ? begin : &misfits, task);
    }
    return misfits.first;
}

struct hr_async_task *hr__async_exchange(struct hr_pipeline *p,
                                         struct hr_async_task *finished, int stage,
                                         enum hr_async_state *state)
{
    struct list begin = {NULL, &begin.first};
    bool handed_in = finished != NULL;
    do {
        struct list claimed = {NULL, &claimed.first};
        for (struct hr_async_task *task = finished; task; task = task->next)
            settle(p, task);
        turn(p, finished, handed_in || begin.first, stage, &claimed, state);
        finished = make_ready(p, claimed.first, &begin);
    } while (finished);
    reenter(p);
    return begin.first;
}

void hr__async_left(struct hr_pipeline *p, uint32_t stage, bool back)
{
    hr__worker_lock(&p->async->worker);
    p->stages[stage].stuck += back ? UINT32_MAX : 1;
    p->stages[stage].late += back;
    hr__engine_unlock_only(p);
    reenter(p);
}

void hr__async_describe(const struct hr_async_task *task, char *out, size_t size)
{
    hr__item_describe(task->call.item, out, size);
}

void hr__async_fatal(struct hr_pipeline *p, const char *stage,
                     const struct hr_error *err, struct hr_value *exception)
{
    struct hr_after after = {0};
    hr__worker_lock(&p->async->worker);
    hr__ledger_end(&p->ledger, stage, NULL, err, exception);
    hr__engine_cancel_locked(p, HR_SYS(now_ns)(), &after);
    hr__engine_unlock(p, &after);
    hr_value_release(exception);
    reenter(p);
}

void hr__async_let_consumer_in(struct hr_pipeline *p)
{
    struct hr_async *a = p->async;
    struct hr_worker *w = &a->worker;
    if (p->runtime->parallel || atomic_load(&p->consumer_wants) == 0)
        return;
    p->runtime->detach(w->foreign_thread);
    w->attached = false;
    int64_t until_ns = HR_SYS(now_ns)() + LET_IN_NS;
    atomic_store(&a->stands_off, true); /* before the look, see _consumer_is_in */
    while (atomic_load(&p->consumer_wants) > 0 &&
           hr__park(&w->parker, until_ns) != ETIMEDOUT)
        continue;
    atomic_store(&a->stands_off, false);
    reenter(p);
}

void hr__async_consumer_is_in(struct hr_pipeline *p)
{
    if (p->async && atomic_load(&p->async->stands_off))
        hr__unpark(&p->async->worker.parker);
}
