/* feed.c - the sources of a plan that has several.
 *
 * A source may wait for its next item as long as it likes, and those of a merge wait for
 * each other's sake least of all: so each has a thread of its own, native ones as well,
 * which claims that stage alone. It asks for one item at a time, or for several of a source
 * that never waits, and parks when there is no room. What source.c does for a single
 * source, so that a stream of short tasks costs next to nothing (the consumer and attached
 * workers advance it, too), is left out: where several are merged there are threads to wake
 * anyway. The read-ahead is bounded by places, not by bytes.
 *
 * Sources on the event loop stay there; only their items are counted here. Each source
 * numbers its own items. */
#include "base/mem.h"
#include "base/sys.h"
#include "engine/plan.h"
#include "engine/task.h"
#include "base/banned.h"

#define SLICE_NS 1000000
#define WAKE_MAX 4

/* ---- making ---- */

static bool is_source(const struct hr_stage *stage)
{
    return stage->body == HR_BODY_SOURCE || stage->body == HR_BODY_FOREIGN_SOURCE;
}

enum hr_status hr__feeds_new(struct hr_pipeline *p, const struct hr_plan *plan,
                             struct hr_error *err)
{
    p->feeds = hr__calloc(plan->source_count, sizeof(*p->feeds));
    if (!p->feeds)
        return hr__nomem(err, "pipeline", "its sources", plan->source_count);
    for (uint32_t i = 0; i < plan->count; i++) {
        if (!is_source(&plan->stages[i]))
            continue;
        p->feeds[p->feed_count++].stage = i;
        if (!plan->stages[i].on_loop)
            plan->sched_stages[i].lane = HR_LANE_FEED;
    }
    return HR_OK;
}

struct hr_feed *hr__feed_of(const struct hr_pipeline *p, uint32_t stage)
{
    for (uint32_t i = 0; i < p->feed_count; i++)
        if (p->feeds[i].stage == stage)
            return &p->feeds[i];
    return NULL;
}

void hr__feeds_wake_locked(struct hr_pipeline *p, struct hr_after *after)
{
    uint32_t woken = 0;
    for (uint32_t i = 0; i < p->feed_count; i++) {
        const struct hr_feed *feed = &p->feeds[i];
        if (!feed->worker || !hr__sched_is_ready(p->sched, feed->stage))
            continue;
        if (woken++ == WAKE_MAX || after->wake_count == HR_WAKE_MAX)
            return;
        hr__engine_wake_add(after, &feed->worker->parker);
    }
}

/* ---- what came of advancing it ---- */

void hr__feed_finish_locked(struct hr_pipeline *p, struct hr_feed *feed,
                            const struct hr_claim *claim, struct hr_call *call,
                            int64_t now_ns, struct hr_after *after)
{
    hr_handle handles[HR_SCHED_GRANT_MAX];
    uint32_t n = 0;
    for (uint32_t i = 0; i < call->out_count; i++) {
        struct hr_item at = {.index = feed->index++};
        n +=
            hr__engine_wrap_locked(p, claim->stage, &at, &call->out[i], 1, &handles[n]);
    }
    if (call->outcome == HR_TASK_FAILED && !p->cancelled) { /* else nobody asked */
        struct hr_item at = {.index = feed->index};
        hr__ledger_end(&p->ledger, p->stages[claim->stage].name, &at, &call->error,
                       &call->exception);
    }
    hr__engine_finish_locked(p, claim->task, call->outcome, handles, n, now_ns, after);
    if (call->fatal)
        hr__engine_cancel_locked(p, now_ns, after);
}

/* ---- its thread ---- */

/* Neither locked nor attached on entry; maybe attached on return. *now_ns: as of
 * hr__session_enter. False: the language is ending. */
static bool ask(struct hr_worker *w, struct hr_stage *stage, struct hr_call *call,
                int64_t *now_ns)
{
    if (stage->body == HR_BODY_SOURCE) {
        (void)hr__source_ask_native(&stage->source, call, false, *now_ns);
        return true;
    }
    if (!hr__session_enter(w, now_ns))
        return false;
    (void)stage->foreign.cls->run(stage->foreign.state, call, 1, *now_ns + SLICE_NS);
    return true;
}

static void prepare(const struct hr_claim *claim, struct hr_call *call)
{
    bool prompt = call->prompt;
    *call =
        (struct hr_call){.grant = prompt ? claim->grant : 1, .outcome = HR_TASK_DONE};
}

/* The source is claimed. Lock held on entry and on return; returns the time. */
static int64_t pull_locked(struct hr_worker *w, struct hr_feed *feed, int64_t now_ns,
                           struct hr_after *after) HR_ENGINE_LOCKED
{
    struct hr_pipeline *p = w->pipeline;
    struct hr_stage *stage = &p->stages[feed->stage];
    const struct hr_claim *claim = &w->claims[0];
    struct hr_call *call = &w->calls[0];
    int64_t asked_ns = now_ns;
    hr__worker_note_locked(w, (int32_t)feed->stage, feed->index, now_ns);
    hr__engine_unlock(p, after);
    prepare(claim, call);
    bool refused = !claim->closing && !ask(w, stage, call, &now_ns);
    if ((claim->closing || refused) && stage->body == HR_BODY_FOREIGN_SOURCE)
        hr__foreign_close(stage, call);
    int64_t begin_ns = now_ns;
    now_ns = HR_SYS(now_ns)();
    if (w->attached) {
        p->runtime->detach(w->foreign_thread);
        w->attached = false;
    }
    hr__engine_lock(p);
    stage->attach_ns += (uint64_t)(begin_ns - asked_ns);
    if (refused)
        hr__session_refused_locked(w, feed->stage, now_ns, after);
    else if (!claim->closing)
        hr__stage_account_locked(stage, now_ns - begin_ns, call->out_count);
    hr__feed_finish_locked(p, feed, claim, call, now_ns, after);
    hr__worker_clear_calls_locked(w, 1, after);
    hr__worker_note_locked(w, -1, -1, now_ns);
    return now_ns;
}

static struct hr_feed *feed_of_worker(const struct hr_worker *w)
{
    struct hr_feed *feed = w->pipeline->feeds;
    while (feed->worker != w)
        feed++;
    return feed;
}

void *hr__feed_main(void *arg)
{
    struct hr_worker *w = arg;
    struct hr_pipeline *p = w->pipeline;
    struct hr_feed *feed = feed_of_worker(w);
    struct hr_after after = {0};
    hr__worker_begin(w);
    hr__engine_lock(p);
    int64_t now_ns = HR_SYS(now_ns)();
    for (;;) {
        hr__engine_pump_locked(p, now_ns, &after);
        hr__engine_wake_consumers_locked(p, -1, now_ns, &after);
        if (p->ended)
            break;
        hr__engine_wake_workers_locked(p, -1, now_ns, &after);
        if (hr__sched_claim_stage(p->sched, feed->stage, now_ns, &w->claims[0])) {
            hr__feeds_wake_locked(p, &after);
            now_ns = pull_locked(w, feed, now_ns, &after);
            continue;
        }
        hr__feeds_wake_locked(p, &after);
        hr__engine_unlock(p, &after);
        (void)hr__worker_park(w, HR_FOREVER, HR_TRACE_PARK);
        hr__engine_lock(p);
        now_ns = HR_SYS(now_ns)();
    }
    hr__engine_unlock(p, &after);
    hr__worker_leave(w);
    return NULL;
}
