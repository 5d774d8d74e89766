/* async.c - coroutine stages: the engine's side of an event loop it does not own.
 *
 *   workers, consumer            lock                the loop's thread
 *   ------------------           ----                -----------------
 *   put an item in front ──► lane ASYNC has work
 *   unlock: armed and due? ──► descriptor ─────────► wakes in its select
 *                                 ◄── exchange: hands in what is finished,
 *                                     claims all that the lane has
 *   finish, consume          ◄── pump, wake-ups      awaits the tasks ...
 *
 * Tasks are claimed only up to a stage's concurrency and with places reserved, like any
 * other: back-pressure, order and the ledger are the scheduler's, none is made here.
 *
 * The descriptor (an eventfd) is written once when something comes up while the thread
 * has nothing on its way: it arms the bell in an exchange that moved nothing, and whoever
 * drops the lock over new work disarms and rings it. A busy loop is never rung: it comes
 * by after each turn of its own. So a stage of no-ops makes no system call for it, and an
 * idle one none at all. call_soon_threadsafe per item costs 10 to 30 µs instead.
 *
 * A worker whose function returned something to await gives the claim away: the task is
 * in flight as before, only in other hands (adopt). Of claims that ride on one slot the
 * later ones go along as a chain, for the slot counts once against the concurrency.
 *
 * Attached all the time, the thread can advance a fast source for free, as a leader does.
 * It runs none of the other lanes: what takes long there would hold up the loop.
 *
 * The thread keeps the language's lock for as long as it has something to do. Beside a
 * thread that computes, CPython hands that lock over only after 5 ms; so when a consumer
 * wants in, it is let in (hr__async_let_consumer_in). */
#include "engine/async.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/sys.h"
#include "engine/engine.h"
#include "engine/plan.h"
#include "base/banned.h"

#define LET_IN_NS 1000000
#define LIGHT_NS 100000

enum { ABSENT, EXPECTED, PRESENT }; /* the loop's thread */

struct hr_async {
    /* const after creation */
    struct hr_async_task *tasks;
    uint32_t task_count;
    bool needed;
    void *cookie; /* taken away by the pipeline's owner once no worker is left */

    int bell; /* written before `presence` is set; -1: not yet */
    /* set to EXPECTED with release, read with acquire: who sees it sees the bell */
    _Atomic uint32_t presence;
    _Atomic bool stands_off; /* seq_cst, as consumer_wants is next to it */

    /* under the pipeline's lock */
    bool armed, told_cancelled, told_ended;
    _Atomic uint32_t ringing; /* up under lock, down (release) without it */
    uint32_t tasks_touched;   /* those behind have never been used */
    struct hr_async_task *unused;
    struct hr_async_task *adopted, **adopted_end;

    struct hr_worker worker; /* the loop's thread */
};

/* ---- making ---- */

/* A task for all that can be in flight; of a stage that may turn out to await, also for
 * the claims that ride when it does. */
static uint32_t tasks_needed(const struct hr_plan *plan, uint32_t num_threads,
                             bool *needed)
{
    uint32_t n = 0;
    bool may_ride = false;
    for (uint32_t i = 0; i < plan->count; i++) {
        bool on_loop = plan->sched_stages[i].lane == HR_LANE_ASYNC;
        bool may_await = plan->stages[i].body == HR_BODY_FOREIGN_MAP;
        if (on_loop || may_await)
            n += plan->sched_stages[i].concurrency;
        *needed = *needed || on_loop;
        may_ride = may_ride || (may_await && !on_loop);
    }
    return may_ride ? n + num_threads * HR_SCHED_GRANT_MAX : n;
}

enum hr_status hr__async_new(struct hr_pipeline *p, const struct hr_plan *plan,
                             struct hr_error *err)
{
    bool needed = false;
    uint32_t n = tasks_needed(plan, p->num_threads, &needed);
    if (n == 0)
        return HR_OK;
    struct hr_async *a = hr__calloc(1, sizeof(*a));
    struct hr_async_task *tasks = a ? hr__calloc(n, sizeof(*tasks)) : NULL;
    if (!tasks) {
        hr__free(a);
        return hr__nomem(err, "pipeline", "tasks of an event loop", n * sizeof(*tasks));
    }
    a->tasks = tasks; /* zero pages: none is there before it is used */
    a->task_count = n;
    a->needed = needed;
    a->bell = -1;
    a->adopted_end = &a->adopted;
    hr__worker_init(p, &a->worker, UINT32_MAX);
    p->async = a;
    return HR_OK;
}

void hr__async_free(struct hr_pipeline *p)
{
    struct hr_async *a = p->async;
    if (!a)
        return;
    if (a->bell >= 0)
        (void)HR_SYS(file_close)(a->bell);
    hr__free(a->tasks);
    hr__free(a);
    p->async = NULL;
}

bool hr__async_stage(const struct hr_pipeline *p, uint32_t i,
                     struct hr_async_stage *out)
{
    if (i >= p->stage_count)
        return false;
    const struct hr_stage *stage = &p->stages[i];
    if (!stage->on_loop && stage->body != HR_BODY_FOREIGN_MAP)
        return false;
    *out = (struct hr_async_stage){
        .name = stage->name,
        .kind = stage->body == HR_BODY_FOREIGN_SOURCE   ? HR_ASYNC_SOURCE
                : stage->body == HR_BODY_FOREIGN_EXPAND ? HR_ASYNC_EXPAND
                                                        : HR_ASYNC_MAP,
        .concurrency = stage->concurrency,
        .state = stage->foreign.state,
        .on_loop = stage->on_loop,
    };
    return true;
}

bool hr__async_needed(const struct hr_pipeline *p)
{
    return p->async && p->async->needed;
}

void hr__async_set_cookie(struct hr_pipeline *p, void *cookie)
{
    if (p->async)
        p->async->cookie = cookie;
}

void hr__async_ref(struct hr_pipeline *p)
{
    /* relaxed: the caller's own reference keeps it alive */
    atomic_fetch_add_explicit(&p->refs, 1, memory_order_relaxed);
}

void hr__async_unref(struct hr_pipeline *p)
{
    hr__pipeline_unref(p);
}

/* ---- the thread comes and goes ---- */

enum hr_status hr__async_expect(struct hr_pipeline *p, struct hr_error *err)
{
    struct hr_async *a = p->async;
    enum hr_status status = HR_AGAIN;
    hr__engine_lock(p);
    if (atomic_load_explicit(&a->presence, memory_order_relaxed) == ABSENT &&
        !p->ended && !p->cancelled) {
        status = HR_OK;
        if (a->bell < 0)
            a->bell = HR_SYS(event_open)();
        if (a->bell < 0)
            status =
                hr_error_set(err, HR_ERR_IO, "pipeline", errno,
                             "no descriptor for the event loop: %s", strerror(errno));
    }
    if (status == HR_OK) {
        p->alive++;
        hr__async_ref(p);
        /* pairs with hr__async_ensure */
        atomic_store_explicit(&a->presence, EXPECTED, memory_order_release);
    }
    hr__engine_unlock_only(p);
    return status;
}

/* Of who starts the thread, and gives it up, and the thread itself, one is first. */
static bool change_presence(struct hr_async *a, uint32_t from, uint32_t to)
{
    return atomic_compare_exchange_strong(&a->presence, &from, to);
}

bool hr__async_begin(struct hr_pipeline *p, void *thread)
{
    struct hr_worker *w = &p->async->worker;
    if (!change_presence(p->async, EXPECTED, PRESENT))
        return false;
    hr__worker_begin(w);
    w->foreign_thread = thread;
    w->attached = true;
    return true;
}

void hr__async_leave(struct hr_pipeline *p)
{
    struct hr_worker *w = &p->async->worker;
    const struct hr_runtime *runtime = p->runtime;
    void *thread = w->foreign_thread;
    w->foreign_thread = NULL; /* it is not ours to be forgotten */
    runtime->detach(thread);
    w->attached = false;
    hr__engine_lock(p); /* see hr__async_adopt_locked */
    atomic_store_explicit(&p->async->presence, ABSENT, memory_order_release);
    hr__engine_unlock_only(p);
    hr__worker_leave(w); /* p may be gone */
    runtime->reenter(thread);
}

bool hr__async_is_there(const struct hr_pipeline *p)
{
    /* pairs with hr__async_expect */
    return p->async &&
           atomic_load_explicit(&p->async->presence, memory_order_acquire) != ABSENT;
}

bool hr__async_ensure(struct hr_pipeline *p)
{
    struct hr_async *a = p->async;
    if (hr__async_is_there(p))
        return true;
    if (a->cookie && p->runtime->start_loop)
        (void)p->runtime->start_loop(a->cookie);
    return hr__async_is_there(p); /* it may be another one who is starting it */
}

struct hr_async_task *hr__async_task(struct hr_pipeline *p, uint32_t n)
{
    return &p->async->tasks[n];
}

/* ---- the bell ---- */

bool hr__async_due_locked(struct hr_pipeline *p)
{
    struct hr_async *a = p->async;
    if (!a->armed)
        return false;
    bool due = a->adopted || p->cancelled != a->told_cancelled ||
               p->ended != a->told_ended ||
               hr__sched_peek(p->sched, HR_LANES_ASYNC) >= 0 ||
               hr__retry_peek_locked(p, HR_LANES_ASYNC) >= 0;
    a->armed = !due;
    if (due)
        atomic_fetch_add_explicit(&a->ringing, 1, memory_order_relaxed);
    return due;
}

void hr__async_ring(struct hr_pipeline *p)
{
    const uint64_t one = 1;
    /* It can't fail: the counter is far from full. */
    while (write(p->async->bell, &one, sizeof(one)) < 0 && errno == EINTR)
        continue;
    /* pairs with hr__async_close */
    atomic_fetch_sub_explicit(&p->async->ringing, 1, memory_order_release);
}

void hr__async_close(struct hr_pipeline *p)
{
    struct hr_async *a = p->async;
    if (!a)
        return;
    hr__engine_lock(p);
    if (a->bell >= 0 && atomic_load_explicit(&a->ringing, memory_order_acquire) == 0) {
        (void)HR_SYS(file_close)(a->bell);
        a->bell = -1;
    }
    hr__engine_unlock_only(p);
}

int hr__async_descriptor(const struct hr_pipeline *p)
{
    return p->async->bell;
}

void hr__async_hush(struct hr_pipeline *p)
{
    uint64_t count;
    while (read(p->async->bell, &count, sizeof(count)) < 0 && errno == EINTR)
        continue;
}

/* ---- tasks ---- */

/* There is always one: see tasks_needed. */
static struct hr_async_task *task_get_locked(struct hr_async *a,
                                             int64_t now_ns) HR_ENGINE_LOCKED
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

static void task_put_locked(struct hr_async *a,
                            struct hr_async_task *task) HR_ENGINE_LOCKED
{
    task->used = false;
    task->next = a->unused;
    a->unused = task;
}

struct list {
    struct hr_async_task *first, **end;
};

static void append(struct list *list, struct hr_async_task *task)
{
    task->next = NULL;
    *list->end = task;
    list->end = &task->next;
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
        struct hr_async_task *task = task_get_locked(a, now_ns);
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

int64_t hr__async_item_locked(const struct hr_pipeline *p,
                              const struct hr_async_task *task)
{
    if (task->stage == 0)
        return p->source_index;
    const struct hr_item *item = p->tasks[task->claim.task].item;
    return item ? item->index : -1;
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
        if (!task->used || task->paused || task->reported || task->stage == 0)
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
    if (!change_presence(p->async, EXPECTED, ABSENT)) {
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
        task_put_locked(p->async, task);
    }
    hr__engine_unlock_only(p);
    hr__worker_leave(&p->async->worker);
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
    if (task->stage == 0) {
        call->prompt = true; /* see claim_all_locked */
        hr__source_finish_locked(p, &task->claim, call, 0, now_ns, after);
    } else {
        if (stage->on_loop)
            hr__stage_smooth_locked(stage, task->took_ns, !task->stays);
        hr__call_finish_locked(p, &task->claim, call, now_ns, after);
    }
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
    task_put_locked(a, task);
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
        task = task_get_locked(p->async, now_ns);
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
        if (claim.stage != 0)
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
