/* plan_graph.c - what lies between a plan's stages: channels, routes; and the scheduler's
 * plan that comes of it.
 *
 * A plan is written down from source to sink, so that stages are numbered as the scheduler
 * wants them: each behind all that it gets items from. `tail` is the one that the next
 * comes behind. In a route each path begins behind the router again, and the last stages
 * of the paths are kept for the join. The scheduler takes a router's channels in the order
 * of its paths: so a path without stages gets its channel when it ends, with its far end
 * still open. */
#include "base/mem.h"
#include "engine/plan.h"
#include "base/banned.h"

/* How many items a source may be ahead: one that may wait, and so shows how often it was
 * asked, and one over what is in memory (see source.c). */
enum { READ_AHEAD = 16, READ_AHEAD_PROMPT = 1024 };
#define OPEN_END UINT32_MAX

enum hr_status hr__plan_connect(struct hr_plan *plan, uint32_t from, uint32_t to,
                                struct hr_error *err)
{
    if (plan->edge_count == plan->edges_max) {
        uint32_t max = plan->edges_max ? plan->edges_max * 2 : 8;
        struct hr_sched_edge *edges = hr__realloc(plan->edges, max, sizeof(*edges));
        if (!edges)
            return hr__nomem(err, "pipeline", "channels", max * sizeof(*edges));
        plan->edges = edges;
        plan->edges_max = max;
    }
    plan->edges[plan->edge_count++] = (struct hr_sched_edge){.from = from, .to = to};
    return HR_OK;
}

/* ---- routes ---- */

void hr_router_free(struct hr_router *router)
{
    if (router->cls && router->cls->free_state)
        router->cls->free_state(router->state);
    *router = (struct hr_router){NULL, NULL};
}

static enum hr_status begin_route(struct hr_plan *plan, enum hr_stage_body body,
                                  uint32_t lane, const char *name, struct hr_error *err)
{
    if (plan->depth == HR_PLAN_ROUTES_MAX)
        return hr_error_set(err, HR_ERR_ARG, "pipeline", 0,
                            "routes are more than %d deep", HR_PLAN_ROUTES_MAX);
    enum hr_status status = hr__plan_add(plan, HR_STAGE_ROUTE, body, lane, name, err);
    if (status == HR_OK)
        plan->routes[plan->depth++] = (struct hr_plan_route){.stage = plan->tail};
    return status;
}

enum hr_status hr_plan_route(struct hr_plan *plan, struct hr_router *router,
                             struct hr_error *err)
{
    enum hr_status status =
        begin_route(plan, HR_BODY_ROUTE, HR_LANE_NATIVE, router->cls->name, err);
    if (status != HR_OK)
        return status;
    plan->stages[plan->tail].router = *router;
    *router = (struct hr_router){NULL, NULL};
    return HR_OK;
}

enum hr_status hr__plan_foreign_route(struct hr_plan *plan, const char *name,
                                      struct hr_foreign *foreign, struct hr_error *err)
{
    enum hr_status status =
        begin_route(plan, HR_BODY_FOREIGN_ROUTE, HR_LANE_FOREIGN, name, err);
    if (status != HR_OK)
        return status;
    plan->stages[plan->tail].foreign = *foreign;
    *foreign = (struct hr_foreign){NULL, NULL};
    return HR_OK;
}

static enum hr_status end_path(struct hr_plan *plan, struct hr_plan_route *route,
                               struct hr_error *err)
{
    enum hr_status status = HR_OK;
    if (!route->in_path)
        return HR_OK;
    if (plan->tail == route->stage)
        status = hr__plan_connect(plan, route->stage, OPEN_END, err);
    if (status != HR_OK)
        return status;
    route->ends[route->end_count++] = plan->tail;
    route->in_path = false;
    return HR_OK;
}

static struct hr_plan_route *open_route(struct hr_plan *plan, struct hr_error *err)
{
    if (plan->depth > 0)
        return &plan->routes[plan->depth - 1];
    (void)hr_error_set(err, HR_ERR_STATE, "pipeline", 0,
                       "the plan has no route that is open");
    return NULL;
}

enum hr_status hr_plan_path(struct hr_plan *plan, struct hr_error *err)
{
    struct hr_plan_route *route = open_route(plan, err);
    if (!route)
        return HR_ERR_STATE;
    if (route->end_count + route->in_path == HR_SCHED_FAN_MAX)
        return hr_error_set(err, HR_ERR_ARG, "pipeline", 0,
                            "a route has more than %d paths", HR_SCHED_FAN_MAX);
    enum hr_status status = end_path(plan, route, err);
    if (status != HR_OK)
        return status;
    route->in_path = true;
    plan->tail = route->stage;
    return HR_OK;
}

/* The join gets an end of each path: its channel, or the open end of one. */
static enum hr_status connect_ends(struct hr_plan *plan,
                                   const struct hr_plan_route *route, uint32_t join,
                                   struct hr_error *err)
{
    enum hr_status status = HR_OK;
    uint32_t before = plan->edge_count;
    for (uint32_t i = 0; i < route->end_count && status == HR_OK; i++)
        if (route->ends[i] != route->stage)
            status = hr__plan_connect(plan, route->ends[i], join, err);
    if (status != HR_OK) {
        plan->edge_count = before;
        return status;
    }
    for (uint32_t e = 0; e < before; e++)
        if (plan->edges[e].from == route->stage && plan->edges[e].to == OPEN_END)
            plan->edges[e].to = join;
    return HR_OK;
}

enum hr_status hr_plan_join(struct hr_plan *plan, struct hr_error *err)
{
    struct hr_plan_route *route = open_route(plan, err);
    if (!route)
        return HR_ERR_STATE;
    if (route->end_count + route->in_path == 0)
        return hr_error_set(err, HR_ERR_STATE, "pipeline", 0,
                            "the route has no path to be joined");
    enum hr_status status = end_path(plan, route, err);
    if (status != HR_OK)
        return status;
    route->in_path = true; /* for what follows to be added */
    status =
        hr__plan_add(plan, HR_STAGE_MERGE, HR_BODY_MERGE, HR_LANE_NATIVE, "join", err);
    route->in_path = false;
    if (status != HR_OK)
        return status;
    uint32_t join = plan->tail;
    status = connect_ends(plan, route, join, err);
    if (status != HR_OK) {
        plan->count--;
        plan->tail = route->stage;
        return status;
    }
    plan->stages[route->stage].path_count = route->end_count;
    plan->depth--;
    return HR_OK;
}

/* ---- merges ---- */

enum hr_status hr_plan_branch(struct hr_plan *plan, struct hr_error *err)
{
    if (plan->count == 0 || plan->complete || plan->depth > 0 || plan->begins_branch)
        return hr_error_set(err, HR_ERR_STATE, "pipeline", 0,
                            "a branch begins behind a source or a stage, and not in a "
                            "route");
    if (plan->branch_count == HR_SCHED_FAN_MAX - 1)
        return hr_error_set(err, HR_ERR_ARG, "pipeline", 0, "more than %d branches",
                            HR_SCHED_FAN_MAX);
    plan->branches[plan->branch_count++] = plan->tail;
    plan->begins_branch = true;
    return HR_OK;
}

enum hr_status hr_plan_merge(struct hr_plan *plan, uint32_t n, struct hr_error *err)
{
    uint32_t others = n > 0 ? n - 1 : plan->branch_count;
    if (others == 0 || others > plan->branch_count || plan->depth > 0)
        return hr_error_set(err, HR_ERR_STATE, "pipeline", 0,
                            "the plan has not %u branches to be merged", others + 1);
    uint32_t last = plan->tail, before = plan->edge_count;
    uint32_t first = plan->branch_count - others;
    enum hr_status status =
        hr__plan_add(plan, HR_STAGE_MERGE, HR_BODY_MERGE, HR_LANE_NATIVE, "merge", err);
    if (status != HR_OK)
        return status;
    for (uint32_t i = first; i < plan->branch_count && status == HR_OK; i++)
        status = hr__plan_connect(plan, plan->branches[i], plan->tail, err);
    if (status == HR_OK)
        status = hr__plan_connect(plan, last, plan->tail, err);
    if (status != HR_OK) {
        plan->edge_count = before;
        plan->count--;
        plan->tail = last;
        return status;
    }
    plan->branch_count = first;
    return HR_OK;
}

/* ---- the scheduler's plan ---- */

static uint32_t max_u32(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

/* At least twice a batch, so that half of it can be refilled while the other half is used.
 * Where nothing is between source and sink the user has set it. */
uint32_t hr__plan_read_ahead(const struct hr_plan *plan, bool prompt)
{
    const struct hr_sched_stage *next = &plan->sched_stages[1];
    bool is_sink = next->kind == HR_STAGE_SINK;
    uint32_t least = is_sink ? plan->sink_buffer : max_u32(2, 2 * next->arity);
    uint32_t places =
        max_u32(prompt && !is_sink ? READ_AHEAD_PROMPT : READ_AHEAD, least);
    return places < HR_SCHED_CAPACITY_MAX ? places : HR_SCHED_CAPACITY_MAX;
}

/* Places between two stages: what its tasks hold, and two more, or a whole
 * batch, so that the next stage finds work. In input order a finished result keeps its
 * place until its turn: the places are the reorder window, and as many more let the other
 * tasks go on beside a slow one. Behind the source it is the longest read-ahead. Near the
 * limit of the scheduler there is less to spare. */
uint32_t hr__plan_places(const struct hr_plan *plan, uint32_t edge)
{
    const struct hr_sched_stage *from = &plan->sched_stages[plan->edges[edge].from];
    const struct hr_sched_stage *to = &plan->sched_stages[plan->edges[edge].to];
    uint32_t next =
        to->kind == HR_STAGE_SINK ? plan->sink_buffer : max_u32(2, to->arity);
    uint32_t held = from->concurrency;
    if (from->order == HR_ORDER_INPUT && held > 1)
        held *= 2;
    uint32_t places = held + next;
    if (from->kind == HR_STAGE_SOURCE && plan->source_count == 1)
        return hr__plan_read_ahead(plan, true);
    if (from->kind == HR_STAGE_SOURCE)
        places = max_u32(READ_AHEAD, 2 * next);
    return places < HR_SCHED_CAPACITY_MAX ? places : HR_SCHED_CAPACITY_MAX;
}

enum hr_status hr__plan_schedule(const struct hr_plan *plan, int64_t now_ns,
                                 struct hr_sched **out, struct hr_error *err)
{
    for (uint32_t e = 0; e < plan->edge_count; e++)
        plan->edges[e].capacity = hr__plan_places(plan, e);
    struct hr_sched_plan sched_plan = {.stages = plan->sched_stages,
                                       .stage_count = plan->count,
                                       .edges = plan->edges,
                                       .edge_count = plan->edge_count};
    return hr__sched_new(&sched_plan, now_ns, out, err);
}
