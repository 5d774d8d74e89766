/* sim_make.c - random plans.
 *
 * What is rare in plans of everything (a hundred tasks in front of a failure fraction, two
 * failures at once where the first one cuts) is common in plans that aim at it: a plan is
 * drawn by the chances of one of several aims. tests/sim/mutants.py shows what that is
 * good for: it meets each of its faults within some two thousand seeds. */
#include <string.h>

#include "sim.h"

struct aim {
    uint32_t percent;     /* of all plans; the others are chances of one thing */
    uint32_t items, more; /* of all sources: items + 0 to more */
    uint32_t full;        /* a source gives all its items, not just some of them */
    uint32_t chain;       /* one source, no merge in front */
    uint32_t length;      /* stages of the last chain, at most */
    uint32_t marks;       /* a source has epochs */
    uint32_t fails;       /* a stage fails now and then, */
    uint32_t fail_most;   /* at most so many percent of its tasks, */
    uint32_t policy;      /* and then does not tolerate everything: */
    uint32_t cuts;        /* the first failure cuts, */
    uint32_t counts;      /* else failures are counted, else it is a fraction */
    uint32_t expand;      /* a stage is an expand */
    uint32_t parallel;    /* a stage runs several tasks at once */
    uint32_t input;       /* a stage keeps the order of its inputs */
    uint32_t spare;       /* an edge has more places than its consumer needs */
};

static const struct aim aims[] = {
    /*  items      chain     marks         policy     expand       spare */
    {40, 4, 40, 0, 65, 5, 50, 25, 30, 30, 40, 50, 15, 60, 50, 60}, /* anything, small */
    {6, 100, 160, 0, 65, 5, 50, 25, 30, 30, 40, 50, 15, 60, 50, 60}, /* and long */
    /* a failure fraction, and its probation */
    {9, 97, 40, 100, 95, 3, 30, 80, 50, 90, 0, 10, 10, 60, 50, 60},
    /* several failures at once where the first one cuts */
    {20, 20, 40, 60, 95, 2, 50, 75, 70, 90, 85, 60, 50, 95, 65, 95},
    /* many epochs under way, much held back */
    {15, 20, 40, 60, 90, 3, 90, 15, 30, 30, 40, 50, 30, 90, 60, 95},
    /* few places */
    {10, 8, 30, 60, 75, 5, 70, 15, 30, 30, 40, 50, 40, 90, 70, 20},
};

static const struct aim *choose_aim(struct rng *rng)
{
    uint32_t roll = rng_below(rng, 100);
    const struct aim *aim = aims;

    while (roll >= aim->percent)
        roll -= aim++->percent;
    return aim;
}

struct maker {
    struct sim_plan *plan;
    struct rng *rng;
    const struct aim *aim;
};

/* An edge that nobody consumes from yet. */
struct open_end {
    uint32_t from;
    bool ordered, loose, known;
    uint32_t growth; /* expands passed */
};

static uint32_t add_stage(const struct maker *m, enum hr_stage_kind kind)
{
    struct sim_plan *plan = m->plan;
    uint32_t i = plan->stage_count++;

    plan->stages[i] = (struct hr_sched_stage){
        .kind = kind,
        .order = HR_ORDER_COMPLETION,
        .lane = rng_below(m->rng, SIM_LANES),
        .concurrency = 1,
        .arity = 1,
        .failures_max = -1,
    };
    plan->ops[i] = (struct sim_op){.salt = rng_next(m->rng), .fail_at = UINT32_MAX};
    return i;
}

static void join(const struct maker *m, uint32_t from, uint32_t to)
{
    struct sim_plan *plan = m->plan;
    uint32_t least = plan->stages[to].arity, capacity = least;

    if (rng_chance(m->rng, m->aim->spare))
        capacity += rng_below(m->rng, rng_chance(m->rng, 15) ? 40 : 8);
    plan->edges[plan->edge_count++] = (struct hr_sched_edge){from, to, capacity};
}

static struct open_end add_source(const struct maker *m, uint32_t items)
{
    uint32_t i = add_stage(m, HR_STAGE_SOURCE);
    struct sim_op *op = &m->plan->ops[i];
    bool full = rng_chance(m->rng, m->aim->full);
    uint32_t total = 0;

    op->marks = rng_chance(m->rng, m->aim->marks) ? rng_below(m->rng, 5) : 0;
    for (uint32_t k = 0; k <= op->marks; k++) {
        bool none = op->marks > 0 && rng_chance(m->rng, 30);
        uint32_t most = items / (op->marks + 1) + 1;

        op->sizes[k] = none ? 0 : full ? most : rng_below(m->rng, most + 1);
        total += op->sizes[k];
    }
    if (rng_chance(m->rng, 5))
        op->fail_at = rng_below(m->rng, total + 1);
    return (struct open_end){i, true, false, true, 0};
}

/* A fraction is anything, or about what the op will come to. */
static void choose_fraction(struct rng *rng, struct hr_sched_stage *stage,
                            uint32_t fail_percent)
{
    stage->fraction_num = rng_below(rng, 4);
    stage->fraction_den = 10 + rng_below(rng, 40);
    if (rng_chance(rng, 50)) {
        stage->fraction_den = 100;
        stage->fraction_num = fail_percent * (50 + rng_below(rng, 70)) / 100;
    }
}

static void choose_policy(const struct maker *m, struct hr_sched_stage *stage,
                          uint32_t fail_percent)
{
    if (!rng_chance(m->rng, m->aim->policy))
        return;
    if (rng_chance(m->rng, m->aim->cuts))
        stage->cuts = true;
    else if (rng_chance(m->rng, m->aim->counts))
        stage->failures_max = rng_below(m->rng, 6);
    else
        choose_fraction(m->rng, stage, fail_percent);
}

static void choose_decisions(const struct maker *m, const struct open_end *end,
                             uint32_t i)
{
    struct sim_op *op = &m->plan->ops[i];
    struct hr_sched_stage *stage = &m->plan->stages[i];

    op->loose = end->loose;
    if (rng_chance(m->rng, m->aim->fails)) {
        op->fail_percent = 1 + rng_below(m->rng, m->aim->fail_most);
        choose_policy(m, stage, op->fail_percent);
    }
    if (rng_chance(m->rng, 25) &&
        (stage->kind == HR_STAGE_MAP || stage->kind == HR_STAGE_ROUTE))
        op->filter_percent = rng_below(m->rng, 60);
    if (stage->kind == HR_STAGE_FILTER)
        op->filter_percent = rng_below(m->rng, 100);
}

static void choose_tasks(const struct maker *m, struct open_end *end,
                         struct hr_sched_stage *stage)
{
    if (rng_chance(m->rng, m->aim->parallel))
        stage->concurrency = 1 + rng_below(m->rng, 7);
    if (rng_chance(m->rng, m->aim->input))
        stage->order = HR_ORDER_INPUT;
    if (stage->order == HR_ORDER_COMPLETION && stage->concurrency > 1)
        end->ordered = false;
}

static void add_batching(const struct maker *m, struct open_end *end,
                         enum hr_stage_kind kind)
{
    uint32_t i = add_stage(m, kind);
    struct hr_sched_stage *stage = &m->plan->stages[i];
    bool was_ordered = end->ordered;

    stage->drop_last = rng_chance(m->rng, 40);
    end->known &= was_ordered || !stage->drop_last;
    if (kind == HR_STAGE_AGGREGATE) {
        stage->arity = 1 + rng_below(m->rng, 6);
        choose_tasks(m, end, stage);
        m->plan->ops[i].loose = true; /* a batch is not failed or filtered here */
    } else {
        m->plan->ops[i].fold_every = 1 + rng_below(m->rng, 5);
        choose_decisions(m, end, i);
    }
    end->loose |= !was_ordered;
    join(m, end->from, i);
    end->from = i;
}

static void add_simple(const struct maker *m, struct open_end *end,
                       enum hr_stage_kind kind)
{
    uint32_t i = add_stage(m, kind);

    choose_decisions(m, end, i);
    if (kind == HR_STAGE_EXPAND) {
        m->plan->ops[i].children_max = rng_below(m->rng, 4);
        end->growth++;
    }
    choose_tasks(m, end, &m->plan->stages[i]);
    if (kind == HR_STAGE_DISAGGREGATE)
        end->loose = false;
    join(m, end->from, i);
    end->from = i;
}

static void add_chain(const struct maker *m, struct open_end *end, uint32_t length,
                      uint32_t depth);

static void merge_ends(const struct maker *m, struct open_end *ends, uint32_t count)
{
    uint32_t i = add_stage(m, HR_STAGE_MERGE);

    for (uint32_t k = 0; k < count; k++) {
        join(m, ends[k].from, i);
        ends[0].loose |= ends[k].loose;
        ends[0].known &= ends[k].known;
        if (ends[k].growth > ends[0].growth)
            ends[0].growth = ends[k].growth;
    }
    ends[0].ordered &= count == 1;
    ends[0].from = i;
}

/* A route, its paths, and the merge that ends the region. */
static void add_region(const struct maker *m, struct open_end *end, uint32_t depth)
{
    uint32_t i = add_stage(m, HR_STAGE_ROUTE);
    uint32_t paths = 1 + rng_below(m->rng, 4);
    struct open_end ends[4];

    choose_decisions(m, end, i);
    m->plan->ops[i].paths = paths;
    join(m, end->from, i);
    end->from = i;
    for (uint32_t k = 0; k < paths; k++) {
        ends[k] = *end;
        add_chain(m, &ends[k], rng_below(m->rng, 4), depth + 1);
    }
    merge_ends(m, ends, paths);
    *end = ends[0];
}

static void add_chain(const struct maker *m, struct open_end *end, uint32_t length,
                      uint32_t depth)
{
    while (length-- > 0 && m->plan->stage_count < SIM_STAGES_MAX - 24) {
        uint32_t roll = rng_below(m->rng, 100);

        if (end->growth < 2 && rng_chance(m->rng, m->aim->expand))
            add_simple(m, end, HR_STAGE_EXPAND);
        else if (roll < 40)
            add_simple(m, end, HR_STAGE_MAP);
        else if (roll < 52)
            add_simple(m, end, HR_STAGE_FILTER);
        else if (roll < 70)
            add_batching(m, end, HR_STAGE_AGGREGATE);
        else if (roll < 79)
            add_batching(m, end, HR_STAGE_FOLD);
        else if (roll < 88 || depth >= 2)
            add_simple(m, end, HR_STAGE_DISAGGREGATE);
        else
            add_region(m, end, depth);
    }
}

void sim_plan_make(struct sim_plan *plan, struct rng *rng)
{
    struct maker m = {plan, rng, choose_aim(rng)};
    struct open_end ends[4];
    uint32_t chains = rng_chance(rng, m.aim->chain) ? 1 : 1 + rng_below(rng, 4);
    uint32_t items = m.aim->items + rng_below(rng, m.aim->more + 1);
    uint32_t sink;

    memset(plan, 0, sizeof(*plan));
    for (uint32_t i = 0; i < chains; i++) {
        ends[i] = add_source(&m, items / chains);
        if (chains > 1)
            add_chain(&m, &ends[i], rng_below(rng, 3), 1);
    }
    if (chains > 1 || rng_chance(rng, 5))
        merge_ends(&m, ends, chains);
    add_chain(&m, &ends[0], rng_below(rng, m.aim->length + 1), 0);
    sink = add_stage(&m, HR_STAGE_SINK);
    join(&m, ends[0].from, sink);
    plan->ordered = ends[0].ordered;
    plan->loose = ends[0].loose;
    plan->known = ends[0].known;
}
