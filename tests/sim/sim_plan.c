/* sim_plan.c - random plans, and the ops of their stages. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim.h"

uint64_t rng_next(struct rng *rng)
{
    uint64_t z = rng->state += UINT64_C(0x9e3779b97f4a7c15); /* splitmix64 */

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

uint32_t rng_below(struct rng *rng, uint32_t n)
{
    return (uint32_t)((rng_next(rng) >> 32) * n >> 32);
}

bool rng_chance(struct rng *rng, uint32_t percent)
{
    return rng_below(rng, 100) < percent;
}

uint64_t sim_mix(uint64_t a, uint64_t b)
{
    struct rng rng = {a * UINT64_C(0xd6e8feb86659fd93) + b};

    return rng_next(&rng);
}

/* ---- ops ---- */

static struct leaves leaves_new(uint32_t count)
{
    struct leaves leaves = {malloc(sizeof(uint64_t) * (count + 1)), count};

    if (!leaves.keys)
        abort();
    return leaves;
}

uint64_t sim_hash(const struct leaves *leaves)
{
    uint64_t hash = leaves->count;

    for (uint32_t i = 0; i < leaves->count; i++)
        hash = sim_mix(hash, leaves->keys[i]);
    return hash;
}

struct leaves sim_source_item(uint32_t stage, uint32_t index)
{
    struct leaves item = leaves_new(1);

    item.keys[0] = sim_mix(stage + 1, index);
    return item;
}

struct leaves sim_concat(const struct leaves *parts, uint32_t count)
{
    struct leaves all;
    uint32_t n = 0;

    for (uint32_t i = 0; i < count; i++)
        n += parts[i].count;
    all = leaves_new(n);
    n = 0;
    for (uint32_t i = 0; i < count; i++) {
        memcpy(all.keys + n, parts[i].keys, sizeof(uint64_t) * parts[i].count);
        n += parts[i].count;
    }
    return all;
}

struct sim_verdict sim_op_judge(const struct sim_plan *plan, uint32_t stage,
                                const struct leaves *input)
{
    const struct sim_op *op = &plan->ops[stage];
    enum hr_stage_kind kind = plan->stages[stage].kind;
    uint64_t hash = sim_mix(op->salt, sim_hash(input));
    struct sim_verdict verdict = {.outputs = 1};

    verdict.failed = !op->loose && hash % 100 < op->fail_percent;
    verdict.filtered =
        !op->loose && !verdict.failed && hash / 100 % 100 < op->filter_percent;
    if (kind == HR_STAGE_EXPAND)
        verdict.outputs =
            op->loose ? 2 : (uint32_t)(hash / 10000 % (op->children_max + 1));
    if (kind == HR_STAGE_DISAGGREGATE)
        verdict.outputs = input->count;
    if (kind == HR_STAGE_ROUTE)
        verdict.path = op->loose ? 0 : (uint32_t)(hash / 10000 % op->paths);
    return verdict;
}

struct leaves sim_op_output(const struct sim_plan *plan, uint32_t stage,
                            const struct leaves *input, uint32_t index)
{
    enum hr_stage_kind kind = plan->stages[stage].kind;
    struct leaves output;

    if (kind == HR_STAGE_DISAGGREGATE) {
        output = leaves_new(1);
        output.keys[0] = input->keys[index];
        return output;
    }
    output = sim_concat(input, 1);
    if (kind == HR_STAGE_MAP || kind == HR_STAGE_EXPAND) {
        for (uint32_t i = 0; i < output.count; i++)
            output.keys[i] =
                sim_mix(output.keys[i], sim_mix(plan->ops[stage].salt, index));
    }
    return output;
}

/* ---- plans ---- */

/* An edge that nobody consumes from yet. */
struct open_end {
    uint32_t from;
    bool ordered, loose, known;
    uint32_t growth; /* expands passed */
};

static uint32_t add_stage(struct sim_plan *plan, struct rng *rng,
                          enum hr_stage_kind kind)
{
    uint32_t i = plan->stage_count++;

    plan->stages[i] = (struct hr_sched_stage){
        .kind = kind,
        .order = HR_ORDER_COMPLETION,
        .lane = rng_below(rng, SIM_LANES),
        .concurrency = 1,
        .arity = 1,
        .failures_max = -1,
    };
    plan->ops[i] = (struct sim_op){.salt = rng_next(rng), .fail_at = UINT32_MAX};
    return i;
}

static void join(struct sim_plan *plan, struct rng *rng, uint32_t from, uint32_t to)
{
    uint32_t least = plan->stages[to].arity, capacity = least;

    if (rng_chance(rng, 60))
        capacity += rng_below(rng, rng_chance(rng, 15) ? 40 : 6);
    plan->edges[plan->edge_count++] = (struct hr_sched_edge){from, to, capacity};
}

static struct open_end add_source(struct sim_plan *plan, struct rng *rng,
                                  uint32_t items)
{
    uint32_t i = add_stage(plan, rng, HR_STAGE_SOURCE);
    struct sim_op *op = &plan->ops[i];
    uint32_t total = 0;

    op->marks = rng_chance(rng, 50) ? 0 : rng_below(rng, 5);
    for (uint32_t k = 0; k <= op->marks; k++) {
        bool none = op->marks > 0 && rng_chance(rng, 30);

        op->sizes[k] = none ? 0 : rng_below(rng, items / (op->marks + 1) + 2);
        total += op->sizes[k];
    }
    if (rng_chance(rng, 5))
        op->fail_at = rng_below(rng, total + 1);
    return (struct open_end){i, true, false, true, 0};
}

static void choose_policy(struct rng *rng, struct hr_sched_stage *stage)
{
    if (rng_chance(rng, 70))
        return;
    if (rng_chance(rng, 40)) {
        stage->cuts = true;
    } else if (rng_chance(rng, 50)) {
        stage->failures_max = rng_below(rng, 6);
    } else {
        stage->fraction_num = rng_below(rng, 4);
        stage->fraction_den = 10 + rng_below(rng, 40);
    }
}

static void choose_decisions(struct rng *rng, const struct open_end *end,
                             struct sim_plan *plan, uint32_t i)
{
    struct sim_op *op = &plan->ops[i];

    op->loose = end->loose;
    if (rng_chance(rng, 25)) {
        op->fail_percent = 1 + rng_below(rng, 30);
        choose_policy(rng, &plan->stages[i]);
    }
    if (rng_chance(rng, 25) && (plan->stages[i].kind == HR_STAGE_MAP ||
                                plan->stages[i].kind == HR_STAGE_ROUTE))
        op->filter_percent = rng_below(rng, 60);
    if (plan->stages[i].kind == HR_STAGE_FILTER)
        op->filter_percent = rng_below(rng, 100);
}

static void choose_tasks(struct rng *rng, struct open_end *end,
                         struct hr_sched_stage *stage)
{
    if (rng_chance(rng, 60))
        stage->concurrency = 1 + rng_below(rng, 7);
    if (rng_chance(rng, 50))
        stage->order = HR_ORDER_INPUT;
    if (stage->order == HR_ORDER_COMPLETION && stage->concurrency > 1)
        end->ordered = false;
}

static void add_batching(struct sim_plan *plan, struct rng *rng, struct open_end *end,
                         enum hr_stage_kind kind)
{
    uint32_t i = add_stage(plan, rng, kind);
    struct hr_sched_stage *stage = &plan->stages[i];
    bool was_ordered = end->ordered;

    stage->drop_last = rng_chance(rng, 40);
    end->known &= was_ordered || !stage->drop_last;
    if (kind == HR_STAGE_AGGREGATE) {
        stage->arity = 1 + rng_below(rng, 6);
        choose_tasks(rng, end, stage);
        plan->ops[i].loose = true; /* a batch is not failed or filtered here */
    } else {
        plan->ops[i].fold_every = 1 + rng_below(rng, 5);
        choose_decisions(rng, end, plan, i);
    }
    end->loose |= !was_ordered;
    join(plan, rng, end->from, i);
    end->from = i;
}

static void add_simple(struct sim_plan *plan, struct rng *rng, struct open_end *end,
                       enum hr_stage_kind kind)
{
    uint32_t i = add_stage(plan, rng, kind);

    choose_decisions(rng, end, plan, i);
    if (kind == HR_STAGE_EXPAND) {
        plan->ops[i].children_max = rng_below(rng, 4);
        end->growth++;
    }
    choose_tasks(rng, end, &plan->stages[i]);
    if (kind == HR_STAGE_DISAGGREGATE)
        end->loose = false;
    join(plan, rng, end->from, i);
    end->from = i;
}

static void add_chain(struct sim_plan *plan, struct rng *rng, struct open_end *end,
                      uint32_t length, uint32_t depth);

static void merge_ends(struct sim_plan *plan, struct rng *rng, struct open_end *ends,
                       uint32_t count)
{
    uint32_t i = add_stage(plan, rng, HR_STAGE_MERGE);

    for (uint32_t k = 0; k < count; k++) {
        join(plan, rng, ends[k].from, i);
        ends[0].loose |= ends[k].loose;
        ends[0].known &= ends[k].known;
        if (ends[k].growth > ends[0].growth)
            ends[0].growth = ends[k].growth;
    }
    ends[0].ordered &= count == 1;
    ends[0].from = i;
}

/* A route, its paths, and the merge that ends the region. */
static void add_region(struct sim_plan *plan, struct rng *rng, struct open_end *end,
                       uint32_t depth)
{
    uint32_t i = add_stage(plan, rng, HR_STAGE_ROUTE);
    uint32_t paths = 1 + rng_below(rng, 4);
    struct open_end ends[4];

    choose_decisions(rng, end, plan, i);
    plan->ops[i].paths = paths;
    join(plan, rng, end->from, i);
    end->from = i;
    for (uint32_t k = 0; k < paths; k++) {
        ends[k] = *end;
        add_chain(plan, rng, &ends[k], rng_below(rng, 4), depth + 1);
    }
    merge_ends(plan, rng, ends, paths);
    *end = ends[0];
}

static void add_chain(struct sim_plan *plan, struct rng *rng, struct open_end *end,
                      uint32_t length, uint32_t depth)
{
    while (length-- > 0 && plan->stage_count < SIM_STAGES_MAX - 24) {
        uint32_t roll = rng_below(rng, 100);

        if (roll < 35)
            add_simple(plan, rng, end, HR_STAGE_MAP);
        else if (roll < 45)
            add_simple(plan, rng, end, HR_STAGE_FILTER);
        else if (roll < 60 && end->growth < 2)
            add_simple(plan, rng, end, HR_STAGE_EXPAND);
        else if (roll < 75)
            add_batching(plan, rng, end, HR_STAGE_AGGREGATE);
        else if (roll < 82)
            add_batching(plan, rng, end, HR_STAGE_FOLD);
        else if (roll < 90 || depth >= 2)
            add_simple(plan, rng, end, HR_STAGE_DISAGGREGATE);
        else
            add_region(plan, rng, end, depth);
    }
}

void sim_plan_make(struct sim_plan *plan, struct rng *rng)
{
    struct open_end ends[4];
    uint32_t chains = rng_chance(rng, 65) ? 1 : 1 + rng_below(rng, 4);
    uint32_t items = rng_chance(rng, 6) ? 260 : 4 + rng_below(rng, 40);
    uint32_t sink;

    memset(plan, 0, sizeof(*plan));
    for (uint32_t i = 0; i < chains; i++) {
        ends[i] = add_source(plan, rng, items / chains);
        if (chains > 1)
            add_chain(plan, rng, &ends[i], rng_below(rng, 3), 1);
    }
    if (chains > 1 || rng_chance(rng, 5))
        merge_ends(plan, rng, ends, chains);
    add_chain(plan, rng, &ends[0], rng_below(rng, 6), 0);
    sink = add_stage(plan, rng, HR_STAGE_SINK);
    join(plan, rng, ends[0].from, sink);
    plan->ordered = ends[0].ordered;
    plan->loose = ends[0].loose;
    plan->known = ends[0].known;
}

void sim_plan_print(const struct sim_plan *plan)
{
    static const char *const kinds[] = {"source",    "map",  "filter",       "expand",
                                        "aggregate", "fold", "disaggregate", "merge",
                                        "route",     "sink"};

    for (uint32_t i = 0; i < plan->stage_count; i++) {
        const struct hr_sched_stage *s = &plan->stages[i];
        const struct sim_op *op = &plan->ops[i];

        printf("stage %u %s: order %s lane %u concurrency %u arity %u%s%s "
               "failures_max %" PRId64 " fraction %u/%u\n",
               i, kinds[s->kind], s->order == HR_ORDER_INPUT ? "input" : "completion",
               s->lane, s->concurrency, s->arity, s->drop_last ? " drop_last" : "",
               s->cuts ? " cuts" : "", s->failures_max, s->fraction_num,
               s->fraction_den);
        printf("    op: filter %u%% fail %u%% children %u fold %u%s",
               op->filter_percent, op->fail_percent, op->children_max, op->fold_every,
               op->loose ? " loose" : "");
        for (uint32_t k = 0; s->kind == HR_STAGE_SOURCE && k <= op->marks; k++)
            printf("%s%u", k == 0 ? " epochs " : ", ", op->sizes[k]);
        printf(" fail_at %d\n", (int)op->fail_at);
    }
    for (uint32_t i = 0; i < plan->edge_count; i++)
        printf("edge %u: %u -> %u capacity %u\n", i, plan->edges[i].from,
               plan->edges[i].to, plan->edges[i].capacity);
    printf("sink: ordered %d loose %d known %d\n", plan->ordered, plan->loose,
           plan->known);
}
