/* sim_plan.c - random numbers, the ops of a plan's stages, and how a plan reads. */
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
    if (verdict.failed && hash / 100 % 2)
        verdict.outputs = 0; /* else a stream fails behind its last output */
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
