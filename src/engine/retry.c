/* retry.c - tasks that failed and are tried again.
 *
 *     running --failed, attempts left--> waiting --due--> due --taken--> running
 *                                           |              |
 *                                           +--------------+--not wanted any more--> over
 *
 * A task that waits stays claimed: it keeps its slot, its input, its reserved place and,
 * in input order, its turn. So a service that fails is never asked by more than
 * `concurrency` at a time, what waits is bounded like everything else, and a retry, which
 * needs nothing that it has not, can't dead-lock. No thread is kept.
 *
 * The time before the n-th retry is random, uniform from 0 to backoff × 2^(n-1), with an
 * upper limit ("full jitter"): of the usual schemes it makes the fewest calls collide.
 *
 * The event loop's timer moves what is due to a list from which workers take before they
 * claim anew. Cancelling, or a failure that ends the run, empties both lists at once. */
#include "base/mem.h"
#include "base/sys.h"
#include "engine/task.h"
#include "base/banned.h"

static int64_t move_due(void *cookie, int64_t now_ns);

enum hr_status hr__retries_init(struct hr_pipeline *p, struct hr_error *err)
{
    uint32_t count = hr__sched_task_count(p->sched);
    p->retries.tasks = hr__calloc(count, sizeof(*p->retries.tasks));
    if (!p->retries.tasks)
        return hr__nomem(err, "pipeline", "retries", count * sizeof(struct hr_retry));
    p->retries.timer = (struct hr_timer){.fn = move_due, .cookie = p};
    p->retries.random = (uint64_t)HR_SYS(now_ns)() | 1;
    return HR_OK;
}

void hr__retries_fini(struct hr_pipeline *p)
{
    hr__free(p->retries.tasks);
    p->retries.tasks = NULL;
}

/* ---- when ---- */

/* Marsaglia's xorshift64*: enough to spread calls. */
static uint64_t random_locked(struct hr_retries *retries)
{
    uint64_t x = retries->random;
    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    retries->random = x;
    return x * UINT64_C(0x2545f4914f6cdd1d);
}

/* Before the retry that follows so many failed attempts. */
static int64_t most_ns(const struct hr_retry_policy *policy, uint32_t attempts)
{
    int64_t most = policy->backoff_ns;
    for (uint32_t i = 1; i < attempts && most < policy->backoff_max_ns; i++)
        most = most <= policy->backoff_max_ns / 2 ? most * 2 : policy->backoff_max_ns;
    return most < policy->backoff_max_ns ? most : policy->backoff_max_ns;
}

static void wait_locked(struct hr_retries *retries, struct hr_retry *retry)
{
    struct hr_retry **at = &retries->waiting;
    while (*at && (*at)->due_ns <= retry->due_ns)
        at = &(*at)->next;
    retry->next = *at;
    *at = retry;
}

bool hr__retry_later_locked(struct hr_pipeline *p, const struct hr_claim *claim,
                            bool may_retry, int64_t now_ns, struct hr_after *after)
{
    struct hr_retries *retries = &p->retries;
    struct hr_stage *stage = &p->stages[claim->stage];
    struct hr_task_state *state = &p->tasks[claim->task];
    if (!may_retry || state->attempts >= stage->retry.times ||
        hr__sched_refused(p->sched, claim->task))
        return false;
    state->attempts++;
    stage->retried++;
    uint64_t range = (uint64_t)most_ns(&stage->retry, state->attempts) + 1;
    struct hr_retry *retry = &retries->tasks[claim->task];
    retry->claim = *claim;
    retry->claim.first = false;
    retry->due_ns = now_ns + (int64_t)(random_locked(retries) % range);
    wait_locked(retries, retry);
    if (retries->waiting == retry) {
        hr__loop_hurry(&p->loop, &retries->timer, retry->due_ns);
        if (after->wake_count < HR_WAKE_MAX)
            hr__engine_wake_add(after, &p->loop.parker);
        else
            hr__unpark(&p->loop.parker);
    }
    return true;
}

/* ---- due ---- */

static void make_due_locked(struct hr_retries *retries)
{
    struct hr_retry *retry = retries->waiting;
    retries->waiting = retry->next;
    retry->next = NULL;
    if (retries->due)
        retries->due_last->next = retry;
    else
        retries->due = retry;
    retries->due_last = retry;
}

static int64_t move_due(void *cookie, int64_t now_ns)
{
    struct hr_pipeline *p = cookie;
    struct hr_retries *retries = &p->retries;
    struct hr_after after = {0};
    hr__engine_lock(p);
    while (retries->waiting && retries->waiting->due_ns <= now_ns) {
        make_due_locked(retries);
        hr__engine_wake_one_locked(p, &after);
    }
    int64_t next_ns = retries->waiting ? retries->waiting->due_ns : HR_FOREVER;
    hr__engine_unlock(p, &after);
    return next_ns;
}

static uint32_t lane_of(const struct hr_pipeline *p, const struct hr_retry *retry)
{
    const struct hr_stage *stage = &p->stages[retry->claim.stage];
    if (stage->on_loop)
        return HR_LANE_ASYNC;
    return stage->foreign.cls ? HR_LANE_FOREIGN : HR_LANE_NATIVE;
}

int hr__retry_peek_locked(const struct hr_pipeline *p, uint32_t lanes)
{
    for (const struct hr_retry *retry = p->retries.due; retry; retry = retry->next)
        if (lanes >> lane_of(p, retry) & 1)
            return (int)retry->claim.stage;
    return -1;
}

bool hr__retry_take_locked(struct hr_pipeline *p, uint32_t lanes, struct hr_claim *out)
{
    struct hr_retry *before = NULL;
    for (struct hr_retry *retry = p->retries.due; retry; retry = retry->next) {
        if (lanes >> lane_of(p, retry) & 1) {
            if (before)
                before->next = retry->next;
            else
                p->retries.due = retry->next;
            if (p->retries.due_last == retry)
                p->retries.due_last = before;
            *out = retry->claim;
            return true;
        }
        before = retry;
    }
    return false;
}

/* ---- the end ---- */

static void drop_locked(struct hr_pipeline *p, const struct hr_claim *claim,
                        int64_t now_ns, struct hr_after *after) HR_ENGINE_LOCKED
{
    hr_handle handle = claim->inputs[0];
    p->tasks[claim->task].item = NULL;
    hr__engine_finish_locked(p, claim->task, HR_TASK_DONE, &handle, 1, now_ns, after);
}

static struct hr_retry *sweep_list_locked(struct hr_pipeline *p, struct hr_retry **at,
                                          int64_t now_ns,
                                          struct hr_after *after) HR_ENGINE_LOCKED
{
    struct hr_retry *last = NULL;
    while (*at) {
        struct hr_retry *retry = *at;
        if (hr__sched_refused(p->sched, retry->claim.task)) {
            *at = retry->next;
            drop_locked(p, &retry->claim, now_ns, after);
        } else {
            last = retry;
            at = &retry->next;
        }
    }
    return last;
}

void hr__retry_sweep_locked(struct hr_pipeline *p, int64_t now_ns,
                            struct hr_after *after)
{
    if (!p->cancelled && hr__sched_failed_stage(p->sched) < 0)
        return;
    (void)sweep_list_locked(p, &p->retries.waiting, now_ns, after);
    p->retries.due_last = sweep_list_locked(p, &p->retries.due, now_ns, after);
}
