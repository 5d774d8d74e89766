/* sched_plan.c - from a plan to a scheduler: checks, then the only allocations there are. */
#include "sched/sched_state.h"

#include "base/mem.h"

#include "base/banned.h"

enum { CAPACITY_SUM_MAX = 1 << 30, CONCURRENCY_MAX = 1 << 16 };

static const char *kind_name(enum hr_stage_kind kind)
{
    static const char *const names[] = {
        [HR_STAGE_SOURCE] = "source",
        [HR_STAGE_MAP] = "map",
        [HR_STAGE_FILTER] = "filter",
        [HR_STAGE_EXPAND] = "expand",
        [HR_STAGE_AGGREGATE] = "aggregate",
        [HR_STAGE_FOLD] = "fold",
        [HR_STAGE_DISAGGREGATE] = "disaggregate",
        [HR_STAGE_MERGE] = "merge",
        [HR_STAGE_ROUTE] = "route",
        [HR_STAGE_SINK] = "sink",
    };
    return names[kind];
}

static bool has_tasks(enum hr_stage_kind kind)
{
    return kind != HR_STAGE_MERGE && kind != HR_STAGE_SINK;
}

/* ---- checks ---- */

static enum hr_status refuse(struct hr_error *err, const struct hr_sched_plan *plan,
                             uint32_t stage, const char *rule, long long value)
{
    return hr_error_set(err, HR_ERR_ARG, "sched", 0, "stage %u (%s): %s, not %lld",
                        stage, kind_name(plan->stages[stage].kind), rule, value);
}

static enum hr_status check_stage(const struct hr_sched_plan *plan, uint32_t i,
                                  struct hr_error *err)
{
    const struct hr_sched_stage *stage = &plan->stages[i];
    bool serial = stage->kind == HR_STAGE_SOURCE || stage->kind == HR_STAGE_FOLD ||
                  stage->kind == HR_STAGE_ROUTE;

    if ((unsigned)stage->kind > HR_STAGE_SINK)
        return hr_error_set(err, HR_ERR_ARG, "sched", 0, "stage %u: unknown kind %d", i,
                            (int)stage->kind);
    if ((stage->kind == HR_STAGE_SINK) != (i == plan->stage_count - 1))
        return refuse(err, plan, i, "the sink must be the last stage, number",
                      plan->stage_count - 1);
    if (stage->lane >= HR_SCHED_LANES_MAX)
        return refuse(err, plan, i, "lane must be 0 to 7", stage->lane);
    if (!has_tasks(stage->kind))
        return HR_OK;
    if (stage->order != HR_ORDER_COMPLETION && stage->order != HR_ORDER_INPUT)
        return refuse(err, plan, i, "order must be completion or input", stage->order);
    if (stage->concurrency < 1 || stage->concurrency > (serial ? 1 : CONCURRENCY_MAX))
        return refuse(err, plan, i,
                      serial ? "concurrency must be 1"
                             : "concurrency must be 1 to 65536",
                      stage->concurrency);
    if (stage->arity < 1 || (stage->kind != HR_STAGE_AGGREGATE && stage->arity != 1))
        return refuse(err, plan, i, "arity must be 1, of an aggregate 1 or more",
                      stage->arity);
    if (stage->failures_max < -1)
        return refuse(err, plan, i, "failures_max must be -1 or more",
                      (long long)stage->failures_max);
    return HR_OK;
}

static enum hr_status check_edge(const struct hr_sched_plan *plan, uint32_t i,
                                 struct hr_error *err)
{
    const struct hr_sched_edge *edge = &plan->edges[i];
    const struct hr_sched_stage *to;

    if (edge->from >= edge->to || edge->to >= plan->stage_count)
        return hr_error_set(
            err, HR_ERR_ARG, "sched", 0,
            "edge %u: must lead from a lower to a higher stage below %u, "
            "not from %u to %u",
            i, plan->stage_count, edge->from, edge->to);
    if (edge->capacity < 1 || edge->capacity > HR_SCHED_CAPACITY_MAX)
        return hr_error_set(
            err, HR_ERR_ARG, "sched", 0,
            "edge %u (stage %u to %u): capacity must be 1 to %d, not %u", i, edge->from,
            edge->to, HR_SCHED_CAPACITY_MAX, edge->capacity);
    to = &plan->stages[edge->to];
    if (to->kind == HR_STAGE_AGGREGATE && edge->capacity < to->arity)
        return refuse(err, plan, edge->to,
                      "capacity of its in-edge must be at least its arity",
                      edge->capacity);
    return HR_OK;
}

static enum hr_status check_degrees(const struct hr_sched_plan *plan, uint32_t i,
                                    struct hr_error *err)
{
    enum hr_stage_kind kind = plan->stages[i].kind;
    uint32_t in = 0, out = 0;

    for (uint32_t k = 0; k < plan->edge_count; k++) {
        in += plan->edges[k].to == i;
        out += plan->edges[k].from == i;
    }
    if (kind == HR_STAGE_MERGE ? in < 1 || in > HR_SCHED_FAN_MAX
                               : in != (kind != HR_STAGE_SOURCE))
        return refuse(err, plan, i,
                      "must have one in-edge (source none, merge 1 to 64)", in);
    if (kind == HR_STAGE_ROUTE ? out < 1 || out > HR_SCHED_FAN_MAX
                               : out != (kind != HR_STAGE_SINK))
        return refuse(err, plan, i, "must have one out-edge (sink none, route 1 to 64)",
                      out);
    return HR_OK;
}

static enum hr_status check_plan(const struct hr_sched_plan *plan, struct hr_error *err)
{
    enum hr_status status;
    uint64_t places = 0;

    if (plan->stage_count < 2 || plan->stage_count > HR_SCHED_STAGES_MAX)
        return hr_error_set(err, HR_ERR_ARG, "sched", 0,
                            "a plan must have 2 to %d stages, not %u",
                            HR_SCHED_STAGES_MAX, plan->stage_count);
    for (uint32_t i = 0; i < plan->stage_count; i++) {
        if ((status = check_stage(plan, i, err)) != HR_OK)
            return status;
    }
    for (uint32_t i = 0; i < plan->edge_count; i++) {
        if ((status = check_edge(plan, i, err)) != HR_OK)
            return status;
        places += plan->edges[i].capacity;
    }
    if (places > CAPACITY_SUM_MAX)
        return hr_error_set(err, HR_ERR_ARG, "sched", 0,
                            "capacities must sum up to at most %d, not %llu",
                            CAPACITY_SUM_MAX, (unsigned long long)places);
    for (uint32_t i = 0; i < plan->stage_count; i++) {
        if ((status = check_degrees(plan, i, err)) != HR_OK)
            return status;
    }
    return HR_OK;
}

/* ---- construction ---- */

static uint32_t ring_size(uint32_t capacity)
{
    uint32_t size = 1;

    while (size < capacity)
        size *= 2;
    return size;
}

/* Running tasks, and those whose output waits on a place of the out-edge. */
static uint32_t slot_count(const struct stage *stage)
{
    return stage->serves ? stage->plan.concurrency + stage->out->capacity : 0;
}

static void wire_stages(struct hr_sched *sched, const struct hr_sched_plan *plan)
{
    struct edge **fan = sched->fans;

    for (uint32_t i = 0; i < plan->stage_count; i++) {
        struct stage *stage = &sched->stages[i];

        stage->plan = plan->stages[i];
        stage->index = i;
        stage->serves = has_tasks(stage->plan.kind);
        stage->streams = stage->plan.kind == HR_STAGE_SOURCE ||
                         stage->plan.kind == HR_STAGE_EXPAND ||
                         stage->plan.kind == HR_STAGE_DISAGGREGATE;
        stage->simple =
            stage->serves && !stage->streams && stage->plan.kind != HR_STAGE_ROUTE;
        stage->ready_word = &sched->runnable[stage->plan.lane][i / 64];
        stage->ready_bit = (uint64_t)stage->serves << (i % 64);
        stage->gate_open = true;
        stage->since_ns = sched->now_ns;
        stage->state = HR_STATE_STARVED;
        stage->watch = true;
        stage->ins = fan;
        for (uint32_t k = 0; k < plan->edge_count; k++) {
            if (plan->edges[k].to == i)
                *fan++ = &sched->edges[k];
        }
        stage->in_count = (uint32_t)(fan - stage->ins);
        stage->outs = fan;
        for (uint32_t k = 0; k < plan->edge_count; k++) {
            if (plan->edges[k].from == i)
                *fan++ = &sched->edges[k];
        }
        stage->out_count = (uint32_t)(fan - stage->outs);
        stage->in = stage->in_count > 0 ? stage->ins[0] : NULL;
        stage->out = stage->out_count > 0 ? stage->outs[0] : NULL;
    }
}

static void fill_edges(struct hr_sched *sched, const struct hr_sched_plan *plan)
{
    for (uint32_t i = 0; i < plan->edge_count; i++) {
        struct edge *edge = &sched->edges[i];
        uint32_t discards;

        edge->index = i;
        edge->from = &sched->stages[plan->edges[i].from];
        edge->to = &sched->stages[plan->edges[i].to];
        edge->capacity = edge->room = plan->edges[i].capacity;
        edge->mask = ring_size(edge->capacity) - 1;
        edge->from->behind_max =
            edge->capacity -
            (edge->to->plan.kind == HR_STAGE_AGGREGATE ? edge->to->plan.arity : 1);
        /* what a cut takes back leaves room for more, to be discarded once again */
        discards = edge->from->plan.cuts ? 2 * edge->capacity : edge->capacity;
        sched->released_size += discards;
        sched->discards_left += discards;
    }
    for (uint32_t i = 0; i < plan->stage_count; i++) {
        const struct hr_sched_stage *stage = &plan->stages[i];

        if (stage->kind == HR_STAGE_AGGREGATE && stage->drop_last)
            sched->released_size += stage->arity - 1;
    }
}

static uint64_t handle_slots(const struct hr_sched *sched)
{
    uint64_t n = sched->released_size;

    for (uint32_t i = 0; i < sched->edge_count; i++)
        n += (uint64_t)sched->edges[i].mask + 1;
    for (uint32_t i = 0; i < sched->stage_count; i++) {
        const struct stage *stage = &sched->stages[i];

        n += (uint64_t)slot_count(stage) * stage->plan.arity;
    }
    return n;
}

static void share_out(struct hr_sched *sched)
{
    hr_handle *slot = sched->slots;
    struct task *task = sched->tasks;

    sched->released = slot;
    slot += sched->released_size;
    for (uint32_t i = 0; i < sched->edge_count; i++) {
        sched->edges[i].ring = slot;
        slot += (size_t)sched->edges[i].mask + 1;
    }
    for (uint32_t i = 0; i < sched->stage_count; i++) {
        struct stage *stage = &sched->stages[i];

        for (uint32_t k = slot_count(stage); k > 0; k--, task++) {
            task->stage = stage;
            task->inputs = slot;
            slot += stage->plan.arity;
            task->link = stage->unused;
            stage->unused = task;
        }
    }
}

static enum hr_status allocate(struct hr_sched *sched, const struct hr_sched_plan *plan,
                               struct hr_error *err)
{
    uint64_t slots;

    sched->stages = hr__calloc(plan->stage_count, sizeof(*sched->stages));
    sched->edges = hr__calloc(plan->edge_count, sizeof(*sched->edges));
    sched->fans = hr__calloc((size_t)plan->edge_count * 2, sizeof(*sched->fans));
    if (!sched->stages || !sched->edges || !sched->fans)
        return hr__nomem(err, "sched", "the stages",
                         plan->stage_count * sizeof(struct stage));

    wire_stages(sched, plan);
    fill_edges(sched, plan);
    for (uint32_t i = 0; i < plan->stage_count; i++)
        sched->task_count += slot_count(&sched->stages[i]);
    slots = handle_slots(sched);

    sched->tasks = hr__calloc(sched->task_count, sizeof(*sched->tasks));
    if (slots <= SIZE_MAX / sizeof(hr_handle))
        sched->slots = hr__calloc((size_t)slots, sizeof(hr_handle));
    if (!sched->tasks || !sched->slots)
        return hr__nomem(err, "sched", "queues and tasks",
                         (size_t)slots * sizeof(hr_handle));
    share_out(sched);
    return HR_OK;
}

enum hr_status hr__sched_new(const struct hr_sched_plan *plan, int64_t now_ns,
                             struct hr_sched **out, struct hr_error *err)
{
    struct hr_sched *sched = NULL;
    enum hr_status status;

    *out = NULL;
    if ((status = check_plan(plan, err)) != HR_OK)
        return status;
    sched = hr__calloc(1, sizeof(*sched));
    if (!sched)
        return hr__nomem(err, "sched", "a scheduler", sizeof(*sched));
    sched->stage_count = plan->stage_count;
    sched->edge_count = plan->edge_count;
    sched->words = (plan->stage_count + 63) / 64;
    sched->live = plan->stage_count - 1;
    sched->now_ns = now_ns;
    sched->failed_stage = -1;
    if ((status = allocate(sched, plan, err)) != HR_OK) {
        hr__sched_free(&sched);
        return status;
    }
    sched->sink = &sched->stages[plan->stage_count - 1];
    for (uint32_t i = 0; i < plan->stage_count; i++)
        hr__stage_touch(sched, &sched->stages[i]);
    hr__sched_settle(sched);
    *out = sched;
    return HR_OK;
}

void hr__sched_free(struct hr_sched **sched_ptr)
{
    struct hr_sched *sched = *sched_ptr;

    if (!sched)
        return;
    hr__free(sched->slots);
    hr__free(sched->tasks);
    hr__free(sched->fans);
    hr__free(sched->edges);
    hr__free(sched->stages);
    hr__free(sched);
    *sched_ptr = NULL;
}
