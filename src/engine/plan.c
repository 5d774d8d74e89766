/* plan.c - building a plan: its stages. plan_graph.c has what lies between them. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/utf8.h"
#include "engine/engine.h"
#include "engine/plan.h"
#include "base/banned.h"

enum { STAGES_MAX = HR_SCHED_STAGES_MAX };

/* With these any channel stays below what the scheduler allows (2^20 places): behind the
 * source it has room for two batches, elsewhere for a batch or the sink's items and for
 * what as many tasks as `concurrency` may hold. */
enum { CONCURRENCY_MAX = 4096 };

#define TIMEOUT_MAX_NS INT64_C(1000000000000000000) /* added to a time it fits */

enum hr_status hr_plan_new(struct hr_plan **out, struct hr_error *err)
{
    *out = hr__calloc(1, sizeof(**out));
    return *out ? HR_OK : hr__nomem(err, "pipeline", "a plan", sizeof(**out));
}

void hr__stage_fini(struct hr_stage *stage)
{
    hr_source_free(&stage->source);
    hr_op_free(&stage->op);
    hr_router_free(&stage->router);
    if (stage->foreign.cls)
        stage->foreign.cls->free_state(stage->foreign.state);
    stage->foreign = (struct hr_foreign){NULL, NULL};
    hr__free(stage->key.name);
    stage->key.name = NULL;
}

void hr_plan_free(struct hr_plan **plan)
{
    if (!*plan)
        return;
    for (uint32_t i = 0; i < (*plan)->count; i++)
        hr__stage_fini(&(*plan)->stages[i]);
    hr__free((*plan)->stages);
    hr__free((*plan)->sched_stages);
    hr__free((*plan)->edges);
    hr__free(*plan);
    *plan = NULL;
}

void hr_source_free(struct hr_source *source)
{
    if (source->cls && source->cls->free_state)
        source->cls->free_state(source->state);
    *source = (struct hr_source){NULL, NULL};
}

/* ---- adding stages ---- */

static enum hr_status grow(struct hr_plan *plan, struct hr_error *err)
{
    if (plan->count < plan->capacity)
        return HR_OK;
    uint32_t capacity = plan->capacity ? plan->capacity * 2 : 8;
    struct hr_stage *stages = hr__realloc(plan->stages, capacity, sizeof(*stages));
    if (stages)
        plan->stages = stages;
    struct hr_sched_stage *sched_stages =
        hr__realloc(plan->sched_stages, capacity, sizeof(*sched_stages));
    if (sched_stages)
        plan->sched_stages = sched_stages;
    if (!stages || !sched_stages)
        return hr__nomem(err, "pipeline", "a stage", sizeof(*stages));
    plan->capacity = capacity;
    return HR_OK;
}

static enum hr_status check_place(const struct hr_plan *plan, bool is_source,
                                  struct hr_error *err)
{
    if (plan->complete)
        return hr_error_set(err, HR_ERR_STATE, "pipeline", 0,
                            "the plan has its sink already");
    if (is_source && plan->count > 0 && !plan->begins_branch)
        return hr_error_set(err, HR_ERR_STATE, "pipeline", 0,
                            "the plan has its source already");
    if (!is_source && (plan->count == 0 || plan->begins_branch))
        return hr_error_set(err, HR_ERR_STATE, "pipeline", 0,
                            "the %s needs a source first",
                            plan->begins_branch ? "branch" : "plan");
    if (plan->depth > 0 && !plan->routes[plan->depth - 1].in_path)
        return hr_error_set(err, HR_ERR_STATE, "pipeline", 0,
                            "the route needs a path first");
    if (plan->count == STAGES_MAX)
        return hr_error_set(err, HR_ERR_ARG, "pipeline", 0, "more than %d stages",
                            STAGES_MAX);
    return HR_OK;
}

enum hr_status hr__plan_add(struct hr_plan *plan, enum hr_stage_kind kind,
                            enum hr_stage_body body, uint32_t lane, const char *name,
                            struct hr_error *err)
{
    enum hr_status status = check_place(plan, kind == HR_STAGE_SOURCE, err);
    if (status == HR_OK)
        status = grow(plan, err);
    if (status == HR_OK && kind != HR_STAGE_SOURCE && kind != HR_STAGE_MERGE)
        status = hr__plan_connect(plan, plan->tail, plan->count, err);
    if (status != HR_OK)
        return status;
    struct hr_stage *stage = &plan->stages[plan->count];
    *stage = (struct hr_stage){.body = body, .concurrency = 1, .fold_first = -1};
    (void)snprintf(stage->name, sizeof(stage->name), "%s", name);
    if (strlen(name) >= sizeof(stage->name))
        stage->name[hr__utf8_cut(name, sizeof(stage->name) - 1)] = '\0';
    plan->sched_stages[plan->count] = (struct hr_sched_stage){
        .kind = kind, .lane = lane, .concurrency = 1, .arity = 1, .failures_max = -1};
    plan->tail = plan->count++;
    if (kind == HR_STAGE_SOURCE) {
        plan->source_count++;
        plan->begins_branch = false;
    }
    return HR_OK;
}

/* What was added last goes again. */
static void take_back(struct hr_plan *plan)
{
    plan->count--;
    plan->tail = plan->edges[--plan->edge_count].from;
}

static struct hr_stage *last(struct hr_plan *plan)
{
    return &plan->stages[plan->count - 1];
}

static enum hr_status check_timeout(int64_t timeout_ns, struct hr_error *err)
{
    if (timeout_ns >= 0 && timeout_ns <= TIMEOUT_MAX_NS)
        return HR_OK;
    return hr_error_set(err, HR_ERR_ARG, "pipeline", 0,
                        "timeout_ns: %lld is not from 0 (none) to 10^18",
                        (long long)timeout_ns);
}

static enum hr_status check_options(const struct hr_stage_options *options,
                                    struct hr_error *err)
{
    if (options->fraction_den > 0 && options->fraction_num > options->fraction_den)
        return hr_error_set(err, HR_ERR_ARG, "pipeline", 0,
                            "max_failures: the fraction %u/%u is over 1",
                            options->fraction_num, options->fraction_den);
    if (options->limit_failures && options->max_failures < 0)
        return hr_error_set(err, HR_ERR_ARG, "pipeline", 0,
                            "max_failures: %lld is negative",
                            (long long)options->max_failures);
    if (options->concurrency > CONCURRENCY_MAX)
        return hr_error_set(err, HR_ERR_ARG, "pipeline", 0,
                            "concurrency: %u is over %d", options->concurrency,
                            CONCURRENCY_MAX);
    if (check_timeout(options->timeout_ns, err) != HR_OK)
        return HR_ERR_ARG;
    if (options->order != HR_OUTPUT_COMPLETION && options->order != HR_OUTPUT_INPUT)
        return hr_error_set(err, HR_ERR_ARG, "pipeline", 0,
                            "order: %d is none of enum hr_output_order",
                            (int)options->order);
    return HR_OK;
}

static enum hr_status apply_options(struct hr_plan *plan,
                                    const struct hr_stage_options *options,
                                    struct hr_error *err)
{
    struct hr_stage *stage = last(plan);
    struct hr_sched_stage *sched = &plan->sched_stages[plan->count - 1];
    if (options->concurrency > 0)
        stage->concurrency = sched->concurrency = options->concurrency;
    sched->order =
        options->order == HR_OUTPUT_INPUT ? HR_ORDER_INPUT : HR_ORDER_COMPLETION;
    if (options->limit_failures)
        sched->failures_max = options->max_failures;
    stage->timeout_ns = options->timeout_ns;
    sched->fraction_num = options->fraction_num;
    sched->fraction_den = options->fraction_den;
    stage->key =
        (struct hr_key){.used = options->has_key != 0, .index = options->key_index};
    if (options->has_key && options->key_name) {
        stage->key.name = hr__strdup(options->key_name);
        if (!stage->key.name)
            return hr__nomem(err, "pipeline", "a key", strlen(options->key_name));
    }
    return HR_OK;
}

static enum hr_status add_pipe(struct hr_plan *plan, enum hr_stage_kind kind,
                               enum hr_stage_body body, uint32_t lane,
                               const char *op_name,
                               const struct hr_stage_options *options,
                               struct hr_error *err)
{
    static const struct hr_stage_options defaults;
    if (!options)
        options = &defaults;
    enum hr_status status = check_options(options, err);
    if (status == HR_OK)
        status = hr__plan_add(plan, kind, body, lane,
                              options->name ? options->name : op_name, err);
    if (status != HR_OK)
        return status;
    status = apply_options(plan, options, err);
    if (status != HR_OK)
        take_back(plan);
    return status;
}

enum hr_status hr_plan_source(struct hr_plan *plan, struct hr_source *source,
                              struct hr_error *err)
{
    enum hr_status status = hr__plan_add(plan, HR_STAGE_SOURCE, HR_BODY_SOURCE,
                                         HR_LANE_NATIVE, source->cls->name, err);
    if (status != HR_OK)
        return status;
    last(plan)->source = *source;
    *source = (struct hr_source){NULL, NULL};
    return HR_OK;
}

enum hr_status hr_plan_pipe(struct hr_plan *plan, struct hr_op *op,
                            const struct hr_stage_options *options,
                            struct hr_error *err)
{
    enum hr_status status = add_pipe(plan, HR_STAGE_MAP, HR_BODY_OP, HR_LANE_NATIVE,
                                     op->cls->name, options, err);
    if (status != HR_OK)
        return status;
    last(plan)->op = *op;
    *op = (struct hr_op){NULL, NULL};
    return HR_OK;
}

enum hr_status hr_plan_aggregate(struct hr_plan *plan, uint32_t n, int drop_last,
                                 int columns, struct hr_error *err)
{
    if (n == 0 || n > HR_SCHED_CAPACITY_MAX)
        return hr_error_set(err, HR_ERR_ARG, "pipeline", 0,
                            "aggregate: n must be 1 to 1,048,576, got %u", n);
    char name[32];
    (void)snprintf(name, sizeof(name), "aggregate(%u)", n);
    enum hr_status status = hr__plan_add(plan, HR_STAGE_AGGREGATE, HR_BODY_COLLATE,
                                         HR_LANE_LIGHT, name, err);
    if (status != HR_OK)
        return status;
    plan->sched_stages[plan->count - 1].arity = n;
    plan->sched_stages[plan->count - 1].drop_last = drop_last != 0;
    last(plan)->columns = columns != 0;
    return HR_OK;
}

enum hr_status hr_plan_disaggregate(struct hr_plan *plan, struct hr_error *err)
{
    return hr__plan_add(plan, HR_STAGE_DISAGGREGATE, HR_BODY_SPREAD, HR_LANE_LIGHT,
                        "disaggregate", err);
}

static enum hr_status check_last(const struct hr_plan *plan, struct hr_error *err)
{
    enum hr_stage_body body =
        plan->count > 0 ? plan->stages[plan->count - 1].body : HR_BODY_SOURCE;
    const char *what = body == HR_BODY_SINK    ? "sink"
                       : body == HR_BODY_MERGE ? "join"
                       : body == HR_BODY_SOURCE || body == HR_BODY_FOREIGN_SOURCE
                           ? "source"
                           : NULL;
    if (!what)
        return HR_OK;
    return hr_error_set(err, HR_ERR_STATE, "pipeline", 0,
                        "the plan's last stage is its %s, not one that has tasks",
                        what);
}

enum hr_status hr_plan_on_error(struct hr_plan *plan, enum hr_on_error on_error,
                                struct hr_error *err)
{
    enum hr_status status = check_last(plan, err);
    if (status != HR_OK)
        return status;
    struct hr_sched_stage *sched = &plan->sched_stages[plan->count - 1];
    sched->cuts = last(plan)->raises = on_error == HR_ON_ERROR_RAISE;
    last(plan)->ordered = sched->order == HR_ORDER_INPUT;
    return HR_OK;
}

enum hr_status hr_plan_retry(struct hr_plan *plan, const struct hr_retry_policy *policy,
                             struct hr_error *err)
{
    enum hr_status status = check_last(plan, err);
    if (status != HR_OK)
        return status;
    if (plan->sched_stages[plan->count - 1].kind != HR_STAGE_MAP)
        return hr_error_set(err, HR_ERR_STATE, "pipeline", 0,
                            "retry: stage '%s' does not make one item of one",
                            last(plan)->name);
    if (policy->backoff_ns < 0 || policy->backoff_max_ns < 0)
        return hr_error_set(err, HR_ERR_ARG, "pipeline", 0,
                            "retry: backoff_ns %lld and backoff_max_ns %lld must be 0 "
                            "or more",
                            (long long)policy->backoff_ns,
                            (long long)policy->backoff_max_ns);
    last(plan)->retry = *policy;
    return HR_OK;
}

enum hr_status hr_plan_sink(struct hr_plan *plan, uint32_t buffer_size,
                            struct hr_error *err)
{
    if (buffer_size == 0 || buffer_size > HR_SCHED_CAPACITY_MAX)
        return hr_error_set(err, HR_ERR_ARG, "pipeline", 0,
                            "sink: buffer_size must be 1 to 1,048,576, got %u",
                            buffer_size);
    if (plan->depth > 0)
        return hr_error_set(err, HR_ERR_STATE, "pipeline", 0,
                            "the sink comes in the midst of a route");
    if (plan->branch_count > 0)
        return hr_error_set(err, HR_ERR_STATE, "pipeline", 0,
                            "the plan has branches that were not merged");
    enum hr_status status =
        hr__plan_add(plan, HR_STAGE_SINK, HR_BODY_SINK, HR_LANE_NATIVE, "sink", err);
    if (status != HR_OK)
        return status;
    plan->sink_buffer = buffer_size;
    plan->complete = true;
    return HR_OK;
}

void hr__plan_runtime(struct hr_plan *plan, const struct hr_runtime *runtime)
{
    plan->runtime = runtime;
}

enum hr_status hr__plan_foreign_source(struct hr_plan *plan, const char *name,
                                       struct hr_foreign *foreign, struct hr_error *err)
{
    enum hr_status status = hr__plan_add(plan, HR_STAGE_SOURCE, HR_BODY_FOREIGN_SOURCE,
                                         HR_LANE_SOURCE, name, err);
    if (status != HR_OK)
        return status;
    last(plan)->foreign = *foreign;
    *foreign = (struct hr_foreign){NULL, NULL};
    return HR_OK;
}

enum hr_status hr__plan_foreign_pipe(struct hr_plan *plan, struct hr_foreign *foreign,
                                     bool expand,
                                     const struct hr_stage_options *options,
                                     struct hr_error *err)
{
    enum hr_status status =
        add_pipe(plan, expand ? HR_STAGE_EXPAND : HR_STAGE_MAP,
                 expand ? HR_BODY_FOREIGN_EXPAND : HR_BODY_FOREIGN_MAP, HR_LANE_FOREIGN,
                 "stage", options, err);
    if (status != HR_OK)
        return status;
    last(plan)->foreign = *foreign;
    *foreign = (struct hr_foreign){NULL, NULL};
    return HR_OK;
}

enum hr_status hr__plan_timeout(struct hr_plan *plan, int64_t timeout_ns,
                                struct hr_error *err)
{
    enum hr_status status = check_last(plan, err);
    if (status == HR_OK)
        status = check_timeout(timeout_ns, err);
    if (status == HR_OK)
        last(plan)->timeout_ns = timeout_ns;
    return status;
}

void hr__plan_on_loop(struct hr_plan *plan)
{
    last(plan)->on_loop = true;
    plan->sched_stages[plan->count - 1].lane = HR_LANE_ASYNC;
}

enum hr_status hr__plan_foreign_fold(struct hr_plan *plan, struct hr_foreign *foreign,
                                     bool drop_last,
                                     const struct hr_stage_options *options,
                                     struct hr_error *err)
{
    if (options && options->timeout_ns != 0)
        return hr_error_set(
            err, HR_ERR_ARG, "pipeline", 0,
            "timeout_ns: an aggregator has none, since it is one object "
            "for all calls");
    enum hr_status status = add_pipe(plan, HR_STAGE_FOLD, HR_BODY_FOREIGN_FOLD,
                                     HR_LANE_FOREIGN, "aggregate", options, err);
    if (status != HR_OK)
        return status;
    plan->sched_stages[plan->count - 1].drop_last = drop_last;
    last(plan)->foreign = *foreign;
    *foreign = (struct hr_foreign){NULL, NULL};
    return HR_OK;
}
