/* make.c - a pipeline of a plan, and its end when the last reference goes.
 *
 * All that a run needs is made here, but for threads: what cannot be made is an error of
 * the constructor's, not of a task in the midst of an epoch. */
#include "engine/task.h"

#include "base/mem.h"
#include "base/sys.h"
#include "engine/cpus.h"
#include "engine/plan.h"
#include "base/banned.h"

#define DEADLINE_NS 30000000000

/* ---- fork ---- */

static _Atomic uint32_t fork_generation; /* relaxed: the child has one thread */
static pthread_once_t fork_once = PTHREAD_ONCE_INIT;

static void in_child(void)
{
    atomic_fetch_add_explicit(&fork_generation, 1, memory_order_relaxed);
    hr__crash_forget_threads();
}

static void watch_forks(void)
{
    (void)pthread_atfork(NULL, NULL, in_child);
}

bool hr__pipeline_forked(const struct hr_pipeline *p)
{
    return p->fork_generation !=
           atomic_load_explicit(&fork_generation, memory_order_relaxed);
}

/* ---- parts ---- */

static size_t items_needed(const struct hr_plan *plan)
{
    size_t n = 2 * HR_SCHED_GRANT_MAX;
    for (uint32_t e = 0; e < plan->edge_count; e++)
        n += hr__plan_places(plan, e);
    for (uint32_t i = 0; i + 1 < plan->count; i++)
        n += (size_t)plan->sched_stages[i].concurrency * plan->sched_stages[i].arity;
    return n;
}

static void mark_batched(struct hr_pipeline *p)
{
    for (uint32_t i = p->stage_count; i-- > 0;) /* channels lead to higher numbers */
        for (uint32_t e = 0; e < p->edge_count; e++) {
            const struct hr_stage *to = &p->stages[p->edges[e].to];
            if (p->edges[e].from == i &&
                (to->is_batched || to->body == HR_BODY_COLLATE ||
                 to->body == HR_BODY_FOREIGN_FOLD))
                p->stages[i].is_batched = true;
        }
}

static bool has_foreign_stage(const struct hr_plan *plan)
{
    for (uint32_t i = 1; i < plan->count; i++)
        if (plan->sched_stages[i].lane == HR_LANE_FOREIGN)
            return true;
    return false;
}

static bool has_retries(const struct hr_plan *plan)
{
    for (uint32_t i = 1; i < plan->count; i++)
        if (plan->stages[i].retry.times > 0)
            return true;
    return false;
}

void hr__worker_init(struct hr_pipeline *p, struct hr_worker *w, uint32_t number)
{
    w->pipeline = p;
    w->number = number;
    atomic_init(&w->stage, -1);
    atomic_init(&w->trail.slot, -1);
    atomic_init(&w->item, -1);
    atomic_init(&w->begun_ns, -1);
    atomic_init(&w->trace, NULL);
    hr__parker_init(&w->parker);
    hr__scratch_init(&w->scratch);
    w->ctx.worker = w;
    w->ctx.base = (struct hr_ctx){.scratch = &w->scratch,
                                  .for_each = hr__fork_for_each,
                                  .cancel = &p->cancel,
                                  .deadline_ns = INT64_MAX,
                                  .item = -1};
}

struct hr_worker *hr__worker_new(struct hr_pipeline *p, uint32_t number)
{
    struct hr_worker *w = hr__calloc(1, sizeof(*w));
    if (w)
        hr__worker_init(p, w, number);
    return w;
}

static enum hr_status make_parts(struct hr_pipeline *p, const struct hr_plan *plan,
                                 struct hr_error *err)
{
    enum hr_status status = hr__plan_schedule(plan, HR_SYS(now_ns)(), &p->sched, err);
    if (status != HR_OK)
        return status;
    if (hr__sink_init(&p->sink, hr__plan_places(plan, plan->edge_count - 1)) != HR_OK)
        return hr__nomem(err, "pipeline", "its sink", 0);
    p->workers = hr__calloc(p->worker_count, sizeof(struct hr_worker *));
    p->tasks = hr__calloc(hr__sched_task_count(p->sched), sizeof(*p->tasks));
    if (!p->workers || !p->tasks || !hr__items_reserve(&p->items, items_needed(plan)))
        return hr__nomem(err, "pipeline", "its threads and items", 0);
    for (uint32_t i = 0; i < p->worker_count; i++)
        if (!(p->workers[i] = hr__worker_new(p, i)))
            return hr__nomem(err, "pipeline", "its threads", 0);
    for (uint32_t i = 0; i < p->feed_count; i++)
        if (!plan->stages[p->feeds[i].stage].on_loop)
            p->feeds[i].worker = p->workers[p->worker_count - p->feed_count + i];
    status = has_retries(plan) ? hr__retries_init(p, err) : HR_OK;
    return status == HR_OK ? hr__async_new(p, plan, err) : status;
}

static void free_all(struct hr_pipeline *p)
{
    hr__pipeline_free_traces(p);
    if (p->sched) {
        hr__sink_fini(&p->sink);
        hr_handle handle;
        while (hr__sched_take_released(p->sched, &handle, 1) > 0)
            hr__item_list_clear(hr__item_of(handle));
    }
    hr__call_clear(&p->refill_call);
    hr__async_free(p);
    for (uint32_t i = 0; i < p->stage_count; i++)
        hr__stage_fini(&p->stages[i]);
    hr__free(p->stages);
    hr__free(p->edges);
    hr__free(p->feeds);
    hr__ledger_fini(&p->ledger);
    hr__items_fini(&p->items);
    for (uint32_t i = 0; p->workers && i < p->worker_count; i++)
        hr__free(p->workers[i]);
    hr__free(p->workers);
    hr__deadlines_free_lost(p);
    hr__free(p->tasks);
    hr__retries_fini(p);
    hr__sched_free(&p->sched);
    hr__loop_fini(&p->loop);
    hr__mutex_fini(&p->lock);
    hr__free(p);
}

void hr__pipeline_unref(struct hr_pipeline *p)
{
    /* acq_rel: the last one sees what the others did */
    if (atomic_fetch_sub_explicit(&p->refs, 1, memory_order_acq_rel) == 1)
        free_all(p);
}

enum hr_status hr_pipeline_new(struct hr_plan **plan,
                               const struct hr_pipeline_options *options,
                               struct hr_pipeline **out, struct hr_error *err)
{
    static const struct hr_pipeline_options defaults;
    *out = NULL;
    if (!options)
        options = &defaults;
    if (!(*plan)->complete)
        return hr_error_set(err, HR_ERR_STATE, "pipeline", 0, "the plan has no %s",
                            (*plan)->count ? "sink" : "source");
    if (options->num_threads > 4096)
        return hr_error_set(err, HR_ERR_ARG, "pipeline", 0,
                            "num_threads: %u is over 4096", options->num_threads);
    struct hr_pipeline *p = hr__calloc(1, sizeof(*p));
    if (!p)
        return hr__nomem(err, "pipeline", "a pipeline", sizeof(*p));
    (void)pthread_once(&fork_once, watch_forks);
    hr__mutex_init(&p->lock, HR_RANK_ENGINE);
    hr__loop_init(&p->loop);
    p->refs = 1;
    p->fork_generation = atomic_load_explicit(&fork_generation, memory_order_relaxed);
    p->num_threads = options->num_threads ? options->num_threads : hr__cpus_default();
    p->task_deadline_ns =
        options->task_deadline_ns > 0 ? options->task_deadline_ns : DEADLINE_NS;
    p->runtime = (*plan)->runtime;
    p->has_foreign_stage = has_foreign_stage(*plan);
    p->first_arity = (*plan)->sched_stages[1].arity;
    p->read_ahead_prompt = hr__plan_read_ahead(*plan, true);
    p->read_ahead_slow = hr__plan_read_ahead(*plan, false);
    enum hr_status status = HR_OK;
    if ((*plan)->source_count > 1)
        status = hr__feeds_new(p, *plan, err);
    if (status != HR_OK) {
        free_all(p);
        return status;
    }
    bool helper = (*plan)->sched_stages[0].lane == HR_LANE_SOURCE;
    p->worker_count = p->num_threads + helper + p->feed_count;
    p->source_helper = helper ? (int32_t)p->num_threads : -1;
    status = make_parts(p, *plan, err);
    if (status != HR_OK) {
        free_all(p);
        return status;
    }
    p->stages = (*plan)->stages;
    p->stage_count = (*plan)->count;
    p->edges = (*plan)->edges;
    p->edge_count = (*plan)->edge_count;
    (*plan)->edges = NULL;
    mark_batched(p);
    hr__deadlines_init(p);
    (*plan)->stages = NULL;
    (*plan)->count = 0;
    hr_plan_free(plan);
    *out = p;
    return HR_OK;
}
