/* sim_drive.c - the real scheduler, served by virtual workers in random order.
 *
 * Every step does one thing a caller may do: claim, finish, take, credit, fetch
 * released handles, open or shut a gate, drain, cancel. The driver keeps its own books
 * of items, tasks and places, and holds each answer of the scheduler against them. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim.h"

enum { TASKS_MAX = 4096, ALL_LANES = (1 << SIM_LANES) - 1, WORKERS_MAX = 8 };

enum where { IN_SCHED, IN_TASK, DELIVERED, RELEASED, REFUSED, CONSUMED };

struct item {
    struct leaves leaves;
    enum where where;
    uint32_t epoch;
    uint32_t from;       /* stage that made it */
    uint32_t to;         /* stage that will get it, merges passed over */
    uint32_t edge;       /* the edge it was put on */
    uint32_t start, sub; /* the task that made it, by start order; its how-manieth */
};

#define NONE UINT32_MAX /* no task */

struct sim_task {
    bool open, active;
    bool rides;      /* its slot went to the task `next` of the same thread */
    uint32_t before; /* which must be finished first, or NONE */
    struct hr_claim claim;
    hr_handle *inputs;
    uint32_t input_count;
    struct leaves input; /* all of them together */
    struct sim_verdict verdict;
    uint32_t given; /* outputs so far */
    uint32_t epoch, start;
    uint32_t granted;   /* of the claim at work */
    uint32_t path_edge; /* where granted places are booked: unless a route */
};

struct sim_stage {
    uint32_t open, starts, gate_shut;
    uint32_t epoch;   /* newest of its inputs */
    bool short_batch; /* aggregate: the short one of this epoch was seen */
    bool excess;      /* its failure policy is exceeded */
    bool unwanted;    /* it must start nothing any more */
    uint64_t in, tasks, failed, filtered, accepted;
    uint32_t flushes;
    struct leaves kept[8]; /* fold */
    uint32_t kept_count;
    uint32_t next_item;   /* source: number of the next item, */
    uint32_t next_epoch;  /* its epoch, */
    uint32_t epoch_given; /* and how many that has given */
    bool source_failed;
    uint32_t *last_sub; /* per start: last `sub` consumed of it, plus one */
    uint32_t last_sub_room;
    uint32_t last_start; /* plus one: order-keeping stages */
};

struct drive {
    const struct sim_plan *plan;
    struct rng *rng;
    bool verbose;
    struct sim_result *result;
    struct hr_sched *sched;
    int64_t now;
    char wrong[256];

    struct item *items;
    uint32_t item_count, item_room;
    struct sim_task tasks[TASKS_MAX];
    uint32_t active[256];
    uint32_t active_count;
    struct sim_stage stages[SIM_STAGES_MAX];
    uint32_t outs[SIM_STAGES_MAX][4]; /* edges out of a stage */
    uint32_t dest[SIM_EDGES_MAX];     /* where items on the edge end up */
    bool direct[SIM_EDGES_MAX];       /* without a merge in between */
    uint32_t load[SIM_EDGES_MAX];     /* items on it, and places granted for it */

    uint32_t worker_lanes[WORKERS_MAX];
    uint32_t workers;
    uint32_t marks_taken, lent, lent_items_edge;
    bool draining, cancelled, ended;
    int failed_stage;
    uint64_t released, refused;
    uint32_t gate_toggles;
    enum sim_stop stops[3];
    uint32_t stop_steps[3], stop_count;
    uint32_t weight_claim, weight_finish, weight_take, weight_release;
};

static bool fail(struct drive *d, const char *fmt, ...)
{
    va_list args;

    if (d->wrong[0])
        return false;
    va_start(args, fmt);
    vsnprintf(d->wrong, sizeof(d->wrong), fmt, args);
    va_end(args);
    return false;
}

#define SAY(d, ...)                                                                    \
    do {                                                                               \
        if ((d)->verbose) {                                                            \
            printf("%6llu ", (unsigned long long)(d)->result->steps);                  \
            printf(__VA_ARGS__);                                                       \
            putchar('\n');                                                             \
        }                                                                              \
    } while (0)

/* ---- items ---- */

static hr_handle item_add(struct drive *d, struct item item)
{
    if (d->item_count == d->item_room) {
        d->item_room = d->item_room * 2 + 64;
        d->items = realloc(d->items, sizeof(*d->items) * d->item_room);
        if (!d->items)
            abort();
    }
    item.where = IN_TASK;
    d->items[d->item_count++] = item;
    return d->item_count; /* handles are 1, 2, ... */
}

static struct item *item_of(struct drive *d, hr_handle handle)
{
    static struct item none = {.where = CONSUMED};

    if (handle < 1 || handle > d->item_count) {
        fail(d, "a handle that never was: %llu", (unsigned long long)handle);
        return &none;
    }
    return &d->items[handle - 1];
}

static bool keeps_order(const struct drive *d, uint32_t stage)
{
    const struct hr_sched_stage *s = &d->plan->stages[stage];

    return s->order == HR_ORDER_INPUT || s->concurrency == 1;
}

/* The item leaves the queue in front of its consumer: is it its turn? */
static bool item_arrives(struct drive *d, hr_handle handle, uint32_t stage)
{
    struct item *item = item_of(d, handle);
    struct sim_stage *from = &d->stages[item->from];

    if (item->where != IN_SCHED)
        return fail(d, "item %u came twice, or was never given", (unsigned)handle);
    if (item->to != stage)
        return fail(d, "item %u came to stage %u, not %u", (unsigned)handle, stage,
                    item->to);
    d->load[item->edge]--;
    if (d->plan->stages[item->from].kind == HR_STAGE_ROUTE)
        return true; /* serial; its paths are looked at by epoch and the model */
    if (item->start >= from->last_sub_room) {
        uint32_t room = item->start * 2 + 16;

        from->last_sub = realloc(from->last_sub, sizeof(uint32_t) * room);
        if (!from->last_sub)
            abort();
        memset(from->last_sub + from->last_sub_room, 0,
               sizeof(uint32_t) * (room - from->last_sub_room));
        from->last_sub_room = room;
    }
    if (item->sub + 1 <= from->last_sub[item->start])
        return fail(d, "outputs of one task of stage %u changed order", item->from);
    from->last_sub[item->start] = item->sub + 1;
    if (keeps_order(d, item->from) && item->start + 1 < from->last_start)
        return fail(d, "stage %u does not keep its order", item->from);
    from->last_start = item->start + 1;
    return true;
}

/* A handle may be let go by cancel, by a failure further down, or as a dropped rest. */
static bool released_ok(struct drive *d, struct item *item)
{
    const struct hr_sched_stage *to = &d->plan->stages[item->to];

    if (item->where != IN_SCHED)
        return fail(d, "a handle was released that the scheduler did not have");
    if (!d->cancelled && !d->result->failed &&
        !(to->kind == HR_STAGE_AGGREGATE && to->drop_last))
        return fail(d, "a handle was released without need");
    item->where = RELEASED;
    d->load[item->edge]--;
    d->released++;
    return true;
}

static bool do_release(struct drive *d)
{
    hr_handle handles[5];
    size_t n;

    do {
        n = hr__sched_take_released(d->sched, handles, 5);
        for (size_t i = 0; i < n; i++) {
            SAY(d, "released (%u)", (unsigned)handles[i]);
            if (!released_ok(d, item_of(d, handles[i])))
                return false;
        }
    } while (n > 0);
    return true;
}

/* ---- failure policy, told independently ---- */

static void forbid_ancestors(struct drive *d, uint32_t stage)
{
    for (uint32_t k = 0; k < d->plan->edge_count; k++) {
        if (d->plan->edges[k].to == stage) {
            d->stages[d->plan->edges[k].from].unwanted = true;
            forbid_ancestors(d, d->plan->edges[k].from);
        }
    }
}

static void task_counted(struct drive *d, uint32_t stage)
{
    struct sim_stage *s = &d->stages[stage];
    const struct hr_sched_stage *plan = &d->plan->stages[stage];
    bool excess = plan->failures_max >= 0 && s->failed > (uint64_t)plan->failures_max;

    if (plan->kind == HR_STAGE_SOURCE || s->unwanted || d->cancelled)
        return;
    if (plan->fraction_den > 0 && s->tasks >= HR_SCHED_PROBATION)
        excess |= s->failed * plan->fraction_den > s->tasks * plan->fraction_num;
    if (!excess)
        return;
    SAY(d, "stage %u exceeds its policy", stage);
    s->excess = s->unwanted = true;
    if (d->failed_stage < 0)
        d->failed_stage = (int)stage;
    d->result->failed = true;
    forbid_ancestors(d, stage);
}

/* ---- claim ---- */

static bool claim_inputs(struct drive *d, struct sim_task *task)
{
    struct sim_stage *s = &d->stages[task->claim.stage];
    const struct hr_sched_stage *plan = &d->plan->stages[task->claim.stage];
    uint32_t n = task->claim.input_count;
    struct leaves parts[8];

    if (n > plan->arity)
        return fail(d, "more inputs than the arity");
    if (n == 0 && plan->kind != HR_STAGE_FOLD && plan->kind != HR_STAGE_SOURCE)
        return fail(d, "a first claim of stage %u without input", task->claim.stage);
    task->inputs = malloc(sizeof(hr_handle) * (n + 1));
    if (!task->inputs)
        abort();
    task->input_count = n;
    for (uint32_t i = 0; i < n; i++) {
        struct item *item = item_of(d, task->claim.inputs[i]);

        task->inputs[i] = task->claim.inputs[i];
        if (!item_arrives(d, task->inputs[i], task->claim.stage))
            return false;
        item->where = IN_TASK;
        parts[i] = item->leaves;
        if (i > 0 && item->epoch != task->epoch)
            return fail(d, "stage %u: a batch of two epochs", task->claim.stage);
        task->epoch = item->epoch;
    }
    s->in += n;
    task->input = sim_concat(parts, n);
    return true;
}

static bool check_epoch(struct drive *d, struct sim_task *task)
{
    struct sim_stage *s = &d->stages[task->claim.stage];
    const struct hr_sched_stage *plan = &d->plan->stages[task->claim.stage];

    if (plan->kind == HR_STAGE_SOURCE)
        return true;
    if (plan->kind == HR_STAGE_FOLD) {
        if (task->input_count == 0)
            task->epoch = s->flushes++;
        else if (task->epoch != s->flushes)
            return fail(d, "fold %u: an item of epoch %u after %u flushes",
                        task->claim.stage, task->epoch, s->flushes);
    }
    if (task->epoch < s->epoch)
        return fail(d, "stage %u: epoch %u after epoch %u", task->claim.stage,
                    task->epoch, s->epoch);
    if (task->epoch > s->epoch)
        s->short_batch = false;
    s->epoch = task->epoch;
    if (plan->kind == HR_STAGE_AGGREGATE) {
        bool is_short = task->input_count < plan->arity;

        if (s->short_batch || (is_short && plan->drop_last))
            return fail(d, "stage %u: a short batch that may not be",
                        task->claim.stage);
        s->short_batch = is_short;
    }
    return true;
}

static bool claim_first(struct drive *d, struct sim_task *task)
{
    struct sim_stage *s = &d->stages[task->claim.stage];

    if (task->open)
        return fail(d, "task %u started twice", task->claim.task);
    if (d->cancelled || s->unwanted)
        return fail(d, "stage %u: a task that must not start any more",
                    task->claim.stage);
    if (task->claim.closing)
        return fail(d, "a first claim that is closing");
    memset(&task->input, 0, sizeof(task->input));
    task->open = true;
    task->given = 0;
    task->epoch = 0;
    task->start = s->starts++;
    if (task->before == NONE &&
        ++s->open > d->plan->stages[task->claim.stage].concurrency)
        return fail(d, "stage %u: more tasks than its concurrency", task->claim.stage);
    if (!claim_inputs(d, task) || !check_epoch(d, task))
        return false;
    task->verdict = (struct sim_verdict){.outputs = 1};
    if (task->input_count > 0 &&
        d->plan->stages[task->claim.stage].kind != HR_STAGE_AGGREGATE)
        task->verdict = sim_op_judge(d->plan, task->claim.stage, &task->input);
    return true;
}

/* Book the granted places, and see that they are there. */
static bool book_grant(struct drive *d, struct sim_task *task)
{
    uint32_t stage = task->claim.stage;
    bool unwanted_flush = d->plan->stages[stage].kind == HR_STAGE_FOLD &&
                          task->input_count == 0 && d->plan->stages[stage].drop_last;
    uint32_t edge = d->outs[stage][0];

    if (task->claim.grant > HR_SCHED_GRANT_MAX ||
        (task->claim.grant == 0) != task->claim.closing)
        return fail(d, "stage %u: a grant of %u", stage, task->claim.grant);
    task->granted = 0;
    if (d->plan->stages[stage].kind == HR_STAGE_ROUTE || unwanted_flush)
        return true;
    task->granted = task->claim.grant;
    d->load[edge] += task->granted;
    if (d->load[edge] > d->plan->edges[edge].capacity && !do_release(d))
        return false; /* a dropped rest is booked only when it is seen */
    if (d->direct[edge] && d->load[edge] > d->plan->edges[edge].capacity)
        return fail(d, "edge %u: more places in use than there are", edge);
    return true;
}

/* Seen from outside: a READY stage's time runs in that state. */
static bool is_ready(struct drive *d, uint32_t stage)
{
    struct hr_sched_counts now, soon;

    hr__sched_counts(d->sched, stage, d->now, &now);
    hr__sched_counts(d->sched, stage, d->now + 1, &soon);
    return soon.time_ns[HR_STATE_READY] > now.time_ns[HR_STATE_READY];
}

static bool is_nearest_sink(struct drive *d, uint32_t stage, uint32_t lanes)
{
    for (uint32_t i = stage + 1; i + 1 < d->plan->stage_count; i++) {
        if ((lanes >> d->plan->stages[i].lane & 1) && is_ready(d, i))
            return fail(d, "stage %u was claimed before stage %u", stage, i);
    }
    return true;
}

/* Now and then the thread takes more inputs of the stage on the same slot. */
static bool do_ride(struct drive *d, uint32_t lead)
{
    struct hr_claim claim;

    while (rng_below(d->rng, 2) == 0 && d->active_count < 256 &&
           hr__sched_ride(d->sched, lead, d->now, &claim)) {
        struct sim_task *task = &d->tasks[claim.task];

        SAY(d, "ride stage %u task %u behind task %u input (%u)", claim.stage,
            claim.task, lead, (unsigned)claim.inputs[0]);
        if (task->active || claim.stage != d->tasks[lead].claim.stage)
            return fail(d, "task %u rides, but is at work or of another stage",
                        claim.task);
        task->claim = claim;
        task->before = lead;
        task->rides = false;
        d->tasks[lead].rides = true;
        if (!claim_first(d, task))
            return false;
        task->active = true;
        d->active[d->active_count++] = claim.task;
        if (!book_grant(d, task))
            return false;
        lead = claim.task;
    }
    return true;
}

static bool do_claim(struct drive *d, uint32_t lanes)
{
    struct hr_claim claim;
    int peeked = hr__sched_peek(d->sched, lanes);
    uint32_t ready = hr__sched_ready(d->sched, lanes, 3);
    struct sim_task *task;

    if (peeked >= 0 && !is_nearest_sink(d, (uint32_t)peeked, lanes))
        return false;
    if (!hr__sched_claim(d->sched, lanes, d->now, &claim))
        return peeked < 0 && ready == 0 ? true
                                        : fail(d, "peek or ready promised a task");
    if (peeked != (int)claim.stage || ready == 0)
        return fail(d, "peek or ready did not tell of the task");
    if (claim.task >= TASKS_MAX || d->active_count == 256)
        return fail(d, "task number too high");
    if (!(lanes >> d->plan->stages[claim.stage].lane & 1))
        return fail(d, "stage %u claimed by the wrong lane", claim.stage);
    SAY(d, "claim stage %u task %u grant %u inputs %u (%u)%s%s", claim.stage,
        claim.task, claim.grant, claim.input_count,
        claim.input_count ? (unsigned)claim.inputs[0] : 0, claim.first ? " first" : "",
        claim.closing ? " closing" : "");
    task = &d->tasks[claim.task];
    task->claim = claim;
    task->before = NONE;
    task->rides = false;
    if (task->active)
        return fail(d, "task %u claimed while at work", claim.task);
    if (claim.first ? !claim_first(d, task) : !task->open)
        return fail(d, "task %u continued, but not begun", claim.task);
    if (d->plan->stages[claim.stage].kind == HR_STAGE_SOURCE && !claim.closing &&
        (d->stages[claim.stage].gate_shut || d->draining))
        return fail(d, "source %u runs with its gate shut or drained", claim.stage);
    if (!claim.first && !claim.closing &&
        (d->cancelled ||
         (d->stages[claim.stage].unwanted && !d->stages[claim.stage].excess)))
        return fail(d, "task %u goes on after cancel", claim.task);
    task->active = true;
    d->active[d->active_count++] = claim.task;
    return book_grant(d, task) && do_ride(d, claim.task);
}

/* ---- finish ---- */

struct report {
    enum hr_task_outcome outcome;
    hr_handle outputs[HR_SCHED_GRANT_MAX];
    uint32_t count;
};

static void give(struct drive *d, struct sim_task *task, struct report *report,
                 struct leaves leaves, uint32_t edge)
{
    struct item item = {.leaves = leaves,
                        .epoch = task->epoch,
                        .from = task->claim.stage,
                        .to = d->dest[edge],
                        .edge = edge,
                        .start = task->start,
                        .sub = task->given++};

    report->outputs[report->count++] = item_add(d, item);
}

static void run_source(struct drive *d, struct sim_task *task, struct report *report)
{
    struct sim_stage *s = &d->stages[task->claim.stage];
    const struct sim_op *op = &d->plan->ops[task->claim.stage];
    uint32_t want = rng_below(d->rng, task->claim.grant + 1);

    report->outcome = HR_TASK_MORE;
    task->epoch = s->next_epoch;
    for (;;) {
        if (s->epoch_given == op->sizes[s->next_epoch])
            break;
        if (s->next_item == op->fail_at) {
            report->outcome = HR_TASK_FAILED;
            return;
        }
        if (report->count >= want)
            return;
        give(d, task, report, sim_source_item(task->claim.stage, s->next_item++),
             d->outs[task->claim.stage][0]);
        s->epoch_given++;
    }
    if (s->next_epoch == op->marks) {
        report->outcome = HR_TASK_DONE;
    } else if (report->count < task->claim.grant) {
        report->outcome = HR_TASK_EPOCH;
        s->next_epoch++;
        s->epoch_given = 0;
    }
}

static void run_stream(struct drive *d, struct sim_task *task, struct report *report)
{
    uint32_t stage = task->claim.stage, left = task->verdict.outputs - task->given;
    uint32_t n = rng_below(d->rng, task->claim.grant + 1);

    for (n = n < left ? n : left; n > 0; n--)
        give(d, task, report, sim_op_output(d->plan, stage, &task->input, task->given),
             d->outs[stage][0]);
    if (task->given < task->verdict.outputs || rng_chance(d->rng, 20))
        report->outcome = HR_TASK_MORE;
    else
        report->outcome = task->verdict.failed ? HR_TASK_FAILED : HR_TASK_DONE;
}

static void run_fold(struct drive *d, struct sim_task *task, struct report *report)
{
    uint32_t stage = task->claim.stage;
    struct sim_stage *s = &d->stages[stage];

    if (task->verdict.failed) {
        report->outcome = HR_TASK_FAILED;
        return;
    }
    if (task->input_count > 0) {
        s->kept[s->kept_count++] = sim_concat(&task->input, 1);
        if (s->kept_count < d->plan->ops[stage].fold_every)
            return;
    }
    if (s->kept_count > 0)
        give(d, task, report, sim_concat(s->kept, s->kept_count), d->outs[stage][0]);
    while (s->kept_count > 0)
        free(s->kept[--s->kept_count].keys);
}

static void run_single(struct drive *d, struct sim_task *task, struct report *report)
{
    uint32_t stage = task->claim.stage;
    uint32_t edge = d->outs[stage][task->verdict.path];

    if (task->verdict.failed)
        report->outcome = HR_TASK_FAILED;
    else if (task->verdict.filtered)
        report->outcome = rng_chance(d->rng, 50) ? HR_TASK_FILTERED : HR_TASK_DONE;
    else if (d->plan->stages[stage].kind == HR_STAGE_AGGREGATE)
        give(d, task, report, sim_concat(&task->input, 1), edge);
    else
        give(d, task, report, sim_op_output(d->plan, stage, &task->input, 0), edge);
}

static void run_op(struct drive *d, struct sim_task *task, struct report *report)
{
    if (task->claim.closing)
        return;
    switch (d->plan->stages[task->claim.stage].kind) {
    case HR_STAGE_SOURCE:
        run_source(d, task, report);
        return;
    case HR_STAGE_EXPAND:
    case HR_STAGE_DISAGGREGATE:
        run_stream(d, task, report);
        return;
    case HR_STAGE_FOLD:
        run_fold(d, task, report);
        return;
    default:
        run_single(d, task, report);
    }
}

static void task_ends(struct drive *d, struct sim_task *task,
                      const struct report *report)
{
    struct sim_stage *s = &d->stages[task->claim.stage];
    bool failed = report->outcome == HR_TASK_FAILED;

    task->open = false;
    if (!task->rides)
        s->open--;
    s->tasks++;
    s->failed += failed;
    s->filtered += !failed && report->count == 0 && task->verdict.filtered;
    for (uint32_t i = 0; i < task->input_count; i++) {
        struct item *item = item_of(d, task->inputs[i]);

        item->where = CONSUMED;
    }
    free(task->inputs);
    free(task->input.keys);
    if (failed && d->plan->stages[task->claim.stage].kind == HR_STAGE_SOURCE &&
        d->failed_stage < 0 && !d->cancelled)
        d->failed_stage = (int)task->claim.stage;
    task_counted(d, task->claim.stage);
}

/* All outputs must be taken, unless nobody wants any: then none. */
static bool judge_taken(struct drive *d, const struct sim_task *task,
                        const struct report *report, uint32_t taken, bool refuse,
                        bool flush)
{
    struct sim_stage *s = &d->stages[task->claim.stage];

    if (taken != (refuse ? 0 : report->count))
        return fail(d, "stage %u: %u of %u outputs were taken", task->claim.stage,
                    taken, report->count);
    for (uint32_t i = 0; i < report->count; i++) {
        struct item *item = item_of(d, report->outputs[i]);

        item->where = refuse ? REFUSED : IN_SCHED;
        if (!refuse)
            d->load[item->edge]++;
    }
    s->accepted += taken;
    if (!flush) /* what an unwanted flush gives is not booked by the scheduler */
        d->refused += report->count - taken;
    return true;
}

/* A random task at work; of those that ride on one slot the first. */
static uint32_t pick_task(struct drive *d)
{
    uint32_t index = d->active[rng_below(d->rng, d->active_count)], pick = 0;

    while (d->tasks[index].before != NONE)
        index = d->tasks[index].before;
    while (d->active[pick] != index)
        pick++;
    return pick;
}

static bool do_finish(struct drive *d)
{
    uint32_t pick = pick_task(d);
    uint32_t index = d->active[pick], taken, edge;
    struct sim_task *task = &d->tasks[index];
    const struct hr_sched_stage *plan = &d->plan->stages[task->claim.stage];
    struct sim_stage *s = &d->stages[task->claim.stage];
    struct report report = {.outcome = HR_TASK_DONE};
    bool flush =
        plan->kind == HR_STAGE_FOLD && plan->drop_last && task->input_count == 0;
    bool refuse = d->cancelled || (s->unwanted && !s->excess) || flush;

    d->active[pick] = d->active[--d->active_count];
    for (uint32_t i = 0; i < d->active_count; i++) {
        if (d->tasks[d->active[i]].before == index)
            d->tasks[d->active[i]].before = NONE;
    }
    task->active = false;
    run_op(d, task, &report);
    SAY(d, "finish stage %u task %u outcome %d outputs %u (%u)", task->claim.stage,
        index, (int)report.outcome, report.count,
        report.count ? (unsigned)report.outputs[0] : 0);
    edge = d->outs[task->claim.stage][0];
    d->load[edge] -= task->granted;
    if (plan->kind == HR_STAGE_ROUTE && report.count == 1)
        taken = hr__sched_finish_route(d->sched, index, task->verdict.path,
                                       report.outputs[0], d->now);
    else
        taken = hr__sched_finish(d->sched, index, report.outcome, report.outputs,
                                 report.count, d->now);
    if (!judge_taken(d, task, &report, taken, refuse, flush))
        return false;
    if (report.outcome != HR_TASK_MORE && report.outcome != HR_TASK_EPOCH)
        task_ends(d, task, &report);
    return true;
}

/* ---- the consumer and the rest ---- */

static bool deliver(struct drive *d, hr_handle handle)
{
    struct item *item = item_of(d, handle);
    uint32_t edge = item->edge;

    if (!item_arrives(d, handle, d->plan->stage_count - 1))
        return false;
    if (item->epoch != d->marks_taken)
        return fail(d, "an item of epoch %u after %u marks", item->epoch,
                    d->marks_taken);
    if (d->direct[edge]) { /* its place stays in use until credited */
        d->load[edge]++;
        d->lent_items_edge++;
    }
    item->where = DELIVERED;
    sim_list_add(&d->result->out.epochs[d->marks_taken], sim_concat(&item->leaves, 1));
    return true;
}

static bool do_take(struct drive *d, bool *got)
{
    hr_handle handle = 0;
    enum hr_take take = hr__sched_take(d->sched, &handle, d->now);

    *got = take == HR_TAKE_ITEM || take == HR_TAKE_EPOCH;
    if (*got || take == HR_TAKE_END)
        SAY(d, "take %d (%u)", (int)take, (unsigned)handle);
    if ((handle != 0) != (take == HR_TAKE_ITEM))
        return fail(d, "take: handle and answer do not agree");
    d->lent += *got;
    if (take == HR_TAKE_ITEM)
        return deliver(d, handle);
    if (take == HR_TAKE_EPOCH && ++d->marks_taken >= SIM_EPOCHS_MAX)
        return fail(d, "more marks than epochs");
    if (take == HR_TAKE_END) {
        if (!hr__sched_ended(d->sched) || d->active_count > 0)
            return fail(d, "END while tasks are at work");
        d->ended = true;
    }
    d->result->out.marks = d->marks_taken;
    return true;
}

static void do_credit(struct drive *d, uint32_t n)
{
    uint32_t last = d->plan->edge_count;

    hr__sched_credit(d->sched, n, d->now);
    d->lent -= n;
    while (d->plan->edges[--last].to != d->plan->stage_count - 1)
        ;
    /* which of them were marks is not booked: at most n items' places */
    n = n < d->lent_items_edge ? n : d->lent_items_edge;
    if (d->lent_items_edge - n > d->lent)
        n = d->lent_items_edge - d->lent;
    d->lent_items_edge -= n;
    d->load[last] -= n;
}

static void do_gate(struct drive *d)
{
    uint32_t i = rng_below(d->rng, d->plan->stage_count);

    if (d->plan->stages[i].kind != HR_STAGE_SOURCE || d->gate_toggles == 0)
        return;
    d->gate_toggles--;
    d->stages[i].gate_shut ^= 1;
    SAY(d, "gate of %u %s", i, d->stages[i].gate_shut ? "shut" : "open");
    hr__sched_gate(d->sched, i, !d->stages[i].gate_shut, d->now);
}

static void open_gates(struct drive *d)
{
    for (uint32_t i = 0; i < d->plan->stage_count; i++) {
        if (d->stages[i].gate_shut) {
            d->stages[i].gate_shut = 0;
            hr__sched_gate(d->sched, i, true, d->now);
        }
    }
}

static void do_stop(struct drive *d, enum sim_stop stop)
{
    SAY(d, stop == SIM_STOP_DRAIN ? "drain" : "cancel");
    if (stop == SIM_STOP_DRAIN) {
        hr__sched_drain(d->sched, d->now);
        d->draining = true;
    } else {
        hr__sched_cancel(d->sched, d->now);
        d->cancelled = true;
    }
    if (stop > d->result->stop)
        d->result->stop = stop;
}

/* ---- the loop ---- */

/* Everybody does all they can: something must move, or the run must have ended. */
static bool push_on(struct drive *d, bool *moved)
{
    uint32_t before = d->active_count;
    bool got;

    open_gates(d);
    if (d->lent > 0)
        do_credit(d, d->lent);
    if (!do_release(d) || !do_take(d, &got))
        return false;
    *moved = got;
    if (d->ended || got)
        return true;
    if (before > 0) {
        *moved = true;
        return do_finish(d);
    }
    if (!do_claim(d, ALL_LANES))
        return false;
    *moved = d->active_count > before;
    return true;
}

static bool step(struct drive *d)
{
    uint32_t roll = rng_below(d->rng, d->weight_claim + d->weight_finish +
                                          2 * d->weight_take + d->weight_release + 2);
    bool moved = true;

    d->now += rng_below(d->rng, 1000);
    if (roll < d->weight_claim)
        return d->active_count == d->workers ||
               do_claim(d, d->worker_lanes[rng_below(d->rng, d->workers)]);
    if ((roll -= d->weight_claim) < d->weight_finish)
        return d->active_count == 0 || do_finish(d);
    if ((roll -= d->weight_finish) < d->weight_take)
        return do_take(d, &moved);
    if ((roll -= d->weight_take) < d->weight_take) {
        if (d->lent > 0)
            do_credit(d, 1 + rng_below(d->rng, d->lent));
        return true;
    }
    if ((roll -= d->weight_take) < d->weight_release)
        return do_release(d);
    if (d->gate_toggles > 0 && rng_chance(d->rng, 50)) {
        do_gate(d);
        return true;
    }
    return push_on(d, &moved) &&
           (moved || d->ended || fail(d, "deadlock: nobody can do anything"));
}

static void set_up(struct drive *d)
{
    const struct sim_plan *plan = d->plan;
    uint32_t all = 0;

    for (uint32_t i = 0; i < plan->stage_count; i++) {
        uint32_t n = 0;

        for (uint32_t k = 0; k < plan->edge_count; k++) {
            if (plan->edges[k].from == i)
                d->outs[i][n++] = k;
        }
    }
    for (uint32_t k = 0; k < plan->edge_count; k++) {
        d->dest[k] = plan->edges[k].to;
        d->direct[k] = plan->stages[d->dest[k]].kind != HR_STAGE_MERGE &&
                       plan->stages[plan->edges[k].from].kind != HR_STAGE_ROUTE;
        while (plan->stages[d->dest[k]].kind == HR_STAGE_MERGE)
            d->dest[k] = plan->edges[d->outs[d->dest[k]][0]].to;
    }
    d->workers = 1 + rng_below(d->rng, WORKERS_MAX);
    for (uint32_t i = 0; i < d->workers; i++) {
        d->worker_lanes[i] = rng_chance(d->rng, 50) ? ALL_LANES : rng_below(d->rng, 8);
        all |= d->worker_lanes[i];
    }
    d->worker_lanes[0] |= ALL_LANES & ~all;
    d->gate_toggles = rng_chance(d->rng, 30) ? rng_below(d->rng, 20) : 0;
    d->weight_claim = 20 + rng_below(d->rng, 30);
    d->weight_finish = 10 + rng_below(d->rng, 30);
    d->weight_take = 1 + rng_below(d->rng, 8);
    d->weight_release = rng_below(d->rng, 3);
    d->failed_stage = -1;
    d->now = 1000;
}

static bool check_step(struct drive *d)
{
    const char *wrong = hr__sched_check(d->sched);

    if (wrong)
        return fail(d, "check: %s", wrong);
    if (hr__sched_failed_stage(d->sched) != d->failed_stage)
        return fail(d, "failed stage is %d, not %d", hr__sched_failed_stage(d->sched),
                    d->failed_stage);
    return true;
}

/* Zero to three stops, of any kind, one after the other. */
static void plan_stops(struct drive *d)
{
    uint32_t at = rng_below(d->rng, rng_chance(d->rng, 20) ? 1000 : 120);

    if (!rng_chance(d->rng, 35))
        return;
    do {
        d->stops[d->stop_count] =
            rng_chance(d->rng, 40) ? SIM_STOP_DRAIN : SIM_STOP_CANCEL;
        d->stop_steps[d->stop_count++] = at;
        at += rng_below(d->rng, 60);
    } while (d->stop_count < 3 && rng_chance(d->rng, 30));
}

static bool run(struct drive *d)
{
    uint64_t limit = 400000;
    uint32_t next = 0;

    plan_stops(d);
    while (!d->ended) {
        while (next < d->stop_count && d->result->steps == d->stop_steps[next]) {
            do_stop(d, d->stops[next++]);
            if (d->cancelled) /* each step is bound to bring the end nearer */
                limit = d->result->steps + 20000;
        }
        if (!step(d) || !check_step(d))
            return false;
        if (++d->result->steps > limit)
            return fail(d, "no end in sight");
    }
    return do_release(d);
}

/* ---- after the end ---- */

static bool check_counts(struct drive *d, uint32_t stage, uint64_t *released)
{
    struct hr_sched_counts counts;
    const struct sim_stage *s = &d->stages[stage];
    const struct hr_sched_stage *plan = &d->plan->stages[stage];
    uint64_t time = 0;

    hr__sched_counts(d->sched, stage, d->now, &counts);
    *released += counts.released;
    for (int i = 0; i < HR_STATE_COUNT; i++)
        time += counts.time_ns[i];
    if (time != (uint64_t)d->now - 1000)
        return fail(d, "stage %u: its times do not add up", stage);
    if (counts.running || counts.held || counts.queued)
        return fail(d, "stage %u: something is left in it", stage);
    if (plan->kind == HR_STAGE_MERGE || plan->kind == HR_STAGE_SINK)
        return true;
    if (counts.failed != s->failed || counts.tasks != s->tasks)
        return fail(d, "stage %u: wrong count of tasks or failures", stage);
    if (!d->cancelled && !d->result->failed) {
        bool drops = plan->kind == HR_STAGE_AGGREGATE && plan->drop_last;

        if (counts.out != s->accepted || counts.released != 0)
            return fail(d, "stage %u: wrong count of outputs", stage);
        if (drops ? counts.in < s->in || counts.filtered != counts.in - s->in
                  : counts.in != s->in || counts.filtered != s->filtered)
            return fail(d, "stage %u: wrong count of inputs or filtered", stage);
    }
    return true;
}

static bool check_end(struct drive *d)
{
    struct hr_edge_fill fill;
    uint64_t released = 0, dropped = 0;
    struct hr_sched_counts counts;

    for (uint32_t i = 0; i < d->item_count; i++) {
        if (d->items[i].where == IN_SCHED || d->items[i].where == IN_TASK)
            return fail(d, "item %u was lost", i + 1);
    }
    for (uint32_t i = 0; i < d->plan->stage_count; i++) {
        const struct hr_sched_stage *plan = &d->plan->stages[i];

        if (!check_counts(d, i, &released))
            return false;
        hr__sched_counts(d->sched, i, d->now, &counts);
        if (plan->kind == HR_STAGE_AGGREGATE)
            dropped += counts.filtered;
    }
    if (released + dropped != d->released + d->refused)
        return fail(d, "released handles do not add up");
    for (uint32_t k = 0; k < d->plan->edge_count; k++) {
        hr__sched_edge_fill(d->sched, k, &fill);
        if (fill.reserved != 0 || (d->lent == 0 && fill.filled != 0))
            return fail(d, "edge %u: places are in use after the end", k);
    }
    return true;
}

static void tear_down(struct drive *d)
{
    for (uint32_t i = 0; i < d->item_count; i++)
        free(d->items[i].leaves.keys);
    for (uint32_t i = 0; i < TASKS_MAX; i++) {
        if (d->tasks[i].open) {
            free(d->tasks[i].inputs);
            free(d->tasks[i].input.keys);
        }
    }
    for (uint32_t i = 0; i < SIM_STAGES_MAX; i++) {
        free(d->stages[i].last_sub);
        while (d->stages[i].kept_count > 0)
            free(d->stages[i].kept[--d->stages[i].kept_count].keys);
    }
    free(d->items);
    hr__sched_free(&d->sched);
}

const char *sim_drive(const struct sim_plan *plan, struct rng *rng, bool verbose,
                      struct sim_result *result)
{
    static char wrong[sizeof(((struct drive *)0)->wrong)];
    static struct drive d;
    struct hr_sched_plan p = {plan->stages, plan->stage_count, plan->edges,
                              plan->edge_count};
    struct hr_error err;

    memset(&d, 0, sizeof(d));
    d.plan = plan;
    d.rng = rng;
    d.verbose = verbose;
    d.result = result;
    set_up(&d);
    if (hr__sched_new(&p, d.now, &d.sched, &err) != HR_OK)
        fail(&d, "the plan was refused: %s", err.text);
    else if (run(&d))
        check_end(&d);
    tear_down(&d);
    memcpy(wrong, d.wrong, sizeof(wrong));
    return wrong[0] ? wrong : NULL;
}
