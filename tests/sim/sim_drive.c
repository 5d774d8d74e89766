/* sim_drive.c - the real scheduler, served by virtual workers in random order.
 *
 * Every step does one thing a caller may do: claim, finish, take, credit, fetch
 * released handles, open or shut a gate, drain, cancel. The driver keeps its own books
 * of items, tasks and places, and holds each answer of the scheduler against them. */
#include <stdlib.h>
#include <string.h>

#include "sim_state.h"

/* ---- claim ---- */

static bool claim_inputs(struct drive *d, struct sim_task *task)
{
    struct sim_stage *s = &d->stages[task->claim.stage];
    const struct hr_sched_stage *plan = &d->plan->stages[task->claim.stage];
    uint32_t n = task->claim.input_count;
    struct leaves parts[8];

    if (n > plan->arity)
        return sim_fail(d, "more inputs than the arity");
    if (n == 0 && plan->kind != HR_STAGE_FOLD && plan->kind != HR_STAGE_SOURCE)
        return sim_fail(d, "a first claim of stage %u without input",
                        task->claim.stage);
    task->inputs = malloc(sizeof(hr_handle) * (n + 1));
    if (!task->inputs)
        abort();
    task->input_count = n;
    for (uint32_t i = 0; i < n; i++) {
        struct item *item = sim_item_of(d, task->claim.inputs[i]);

        task->inputs[i] = task->claim.inputs[i];
        if (!sim_item_arrives(d, task->inputs[i], task->claim.stage))
            return false;
        item->where = IN_TASK;
        parts[i] = item->leaves;
        if (i > 0 && item->epoch != task->epoch)
            return sim_fail(d, "stage %u: a batch of two epochs", task->claim.stage);
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
            return sim_fail(d, "fold %u: an item of epoch %u after %u flushes",
                            task->claim.stage, task->epoch, s->flushes);
    }
    if (task->epoch < s->epoch)
        return sim_fail(d, "stage %u: epoch %u after epoch %u", task->claim.stage,
                        task->epoch, s->epoch);
    if (task->epoch > s->epoch)
        s->short_batch = false;
    s->epoch = task->epoch;
    if (plan->kind == HR_STAGE_AGGREGATE) {
        bool is_short = task->input_count < plan->arity;

        if (s->short_batch || (is_short && plan->drop_last))
            return sim_fail(d, "stage %u: a short batch that may not be",
                            task->claim.stage);
        s->short_batch = is_short;
    }
    return true;
}

static bool claim_first(struct drive *d, struct sim_task *task)
{
    struct sim_stage *s = &d->stages[task->claim.stage];

    if (task->open)
        return sim_fail(d, "task %u started twice", task->claim.task);
    if (d->cancelled || s->unwanted)
        return sim_fail(d, "stage %u: a task that must not start any more",
                        task->claim.stage);
    if (task->claim.closing)
        return sim_fail(d, "a first claim that is closing");
    memset(&task->input, 0, sizeof(task->input));
    task->open = true;
    task->given = 0;
    task->epoch = 0;
    task->start = s->starts++;
    if (task->before == NONE &&
        ++s->open > d->plan->stages[task->claim.stage].concurrency)
        return sim_fail(d, "stage %u: more tasks than its concurrency",
                        task->claim.stage);
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
        return sim_fail(d, "stage %u: a grant of %u", stage, task->claim.grant);
    task->granted = 0;
    if (d->plan->stages[stage].kind == HR_STAGE_ROUTE || unwanted_flush)
        return true;
    task->granted = task->claim.grant;
    d->load[edge] += task->granted;
    if (d->load[edge] > d->plan->edges[edge].capacity && !sim_release(d))
        return false; /* a dropped rest is booked only when it is seen */
    if (d->direct[edge] && d->load[edge] > d->plan->edges[edge].capacity)
        return sim_fail(d, "edge %u: more places in use than there are", edge);
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
            return sim_fail(d, "stage %u was claimed before stage %u", stage, i);
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
            return sim_fail(d, "task %u rides, but is at work or of another stage",
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
                                        : sim_fail(d, "peek or ready promised a task");
    if (peeked != (int)claim.stage || ready == 0)
        return sim_fail(d, "peek or ready did not tell of the task");
    if (claim.task >= TASKS_MAX || d->active_count == 256)
        return sim_fail(d, "task number too high");
    if (!(lanes >> d->plan->stages[claim.stage].lane & 1))
        return sim_fail(d, "stage %u claimed by the wrong lane", claim.stage);
    SAY(d, "claim stage %u task %u grant %u inputs %u (%u)%s%s", claim.stage,
        claim.task, claim.grant, claim.input_count,
        claim.input_count ? (unsigned)claim.inputs[0] : 0, claim.first ? " first" : "",
        claim.closing ? " closing" : "");
    task = &d->tasks[claim.task];
    task->claim = claim;
    task->before = NONE;
    task->rides = false;
    if (task->active)
        return sim_fail(d, "task %u claimed while at work", claim.task);
    if (claim.first ? !claim_first(d, task) : !task->open)
        return sim_fail(d, "task %u continued, but not begun", claim.task);
    if (d->plan->stages[claim.stage].kind == HR_STAGE_SOURCE && !claim.closing &&
        (d->stages[claim.stage].gate_shut || d->draining))
        return sim_fail(d, "source %u runs with its gate shut or drained", claim.stage);
    if (!claim.first && !claim.closing &&
        (d->cancelled ||
         (d->stages[claim.stage].unwanted && !d->stages[claim.stage].excess) ||
         sim_is_cut_off(d, claim.stage, task->start, task->epoch)))
        return sim_fail(d, "task %u goes on after cancel", claim.task);
    task->active = true;
    d->active[d->active_count++] = claim.task;
    return book_grant(d, task) && do_ride(d, claim.task);
}

/* ---- finish ---- */

static void task_ends(struct drive *d, struct sim_task *task,
                      const struct sim_report *report)
{
    struct sim_stage *s = &d->stages[task->claim.stage];
    bool failed = report->outcome == HR_TASK_FAILED;

    task->open = false;
    if (failed && d->plan->stages[task->claim.stage].cuts && !d->cancelled &&
        (!s->unwanted || s->excess) &&
        !sim_is_cut_off(d, task->claim.stage, task->start, task->epoch)) {
        s->cut = true;
        s->cut_start = task->start;
        s->cut_epoch = task->epoch;
    }
    if (!task->rides)
        s->open--;
    s->tasks++;
    s->failed += failed;
    s->filtered += !failed && report->count == 0 && task->verdict.filtered;
    for (uint32_t i = 0; i < task->input_count; i++) {
        struct item *item = sim_item_of(d, task->inputs[i]);

        item->where = CONSUMED;
    }
    free(task->inputs);
    free(task->input.keys);
    if (failed && d->plan->stages[task->claim.stage].kind == HR_STAGE_SOURCE &&
        d->failed_stage < 0 && !d->cancelled)
        d->failed_stage = (int)task->claim.stage;
    sim_task_counted(d, task->claim.stage);
}

/* All outputs must be taken, unless nobody wants any: then none. */
static bool judge_taken(struct drive *d, const struct sim_task *task,
                        const struct sim_report *report, uint32_t taken, bool refuse,
                        bool flush)
{
    struct sim_stage *s = &d->stages[task->claim.stage];

    if (taken != (refuse ? 0 : report->count))
        return sim_fail(d, "stage %u: %u of %u outputs were taken", task->claim.stage,
                        taken, report->count);
    for (uint32_t i = 0; i < report->count; i++) {
        struct item *item = sim_item_of(d, report->outputs[i]);

        item->where = refuse ? REFUSED : IN_SCHED;
        if (!refuse)
            d->load[item->edge]++;
    }
    s->accepted += taken;
    if (!flush) /* what an unwanted flush gives is not booked by the scheduler */
        d->refused += report->count - taken;
    return true;
}

/* A task at work, as the mood has it; of those that ride on one slot the first. */
static uint32_t pick_task(struct drive *d)
{
    uint32_t index, pick = 0;

    for (int tries = 0; tries < 4; tries++) {
        index =
            d->active[d->pick == PICK_OLDEST   ? 0
                      : d->pick == PICK_NEWEST ? d->active_count - 1
                                               : rng_below(d->rng, d->active_count)];
        if (d->tasks[index].claim.stage != d->slow_stage)
            break;
    }
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
    struct sim_report report = {.outcome = HR_TASK_DONE};
    bool flush =
        plan->kind == HR_STAGE_FOLD && plan->drop_last && task->input_count == 0;
    bool refuse = d->cancelled || (s->unwanted && !s->excess) ||
                  sim_is_cut_off(d, task->claim.stage, task->start, task->epoch);

    if (hr__sched_refused(d->sched, index) != refuse)
        return sim_fail(d, "task %u is refused, or not, wrongly", index);
    refuse = refuse || flush;
    d->active_count--; /* the others stay in the order of their claims */
    memmove(&d->active[pick], &d->active[pick + 1],
            sizeof(d->active[0]) * (d->active_count - pick));
    for (uint32_t i = 0; i < d->active_count; i++) {
        if (d->tasks[d->active[i]].before == index)
            d->tasks[d->active[i]].before = NONE;
    }
    task->active = false;
    sim_run_op(d, task, &report);
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
    struct item *item = sim_item_of(d, handle);
    uint32_t edge = item->edge;

    if (!sim_item_arrives(d, handle, d->plan->stage_count - 1))
        return false;
    if (item->epoch != d->marks_taken)
        return sim_fail(d, "an item of epoch %u after %u marks", item->epoch,
                        d->marks_taken);
    if (d->direct[edge]) { /* its place stays in use until credited */
        d->load[edge]++;
        d->lent_items_edge++;
    }
    item->where = DELIVERED;
    sim_list_add(&d->result->out.epochs[d->marks_taken], sim_concat(&item->leaves, 1));
    return true;
}

/* In a chain: no stage was cut in an epoch that has ended. (Behind a merge the others go
 * on.) */
static bool mark_is_wanted(const struct drive *d)
{
    for (uint32_t i = 0; i < d->plan->stage_count; i++) {
        if (d->plan->stages[i].kind == HR_STAGE_MERGE)
            return true;
    }
    for (uint32_t i = 0; i < d->plan->stage_count; i++) {
        if (d->stages[i].cut && d->stages[i].cut_epoch < d->marks_taken)
            return false;
    }
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
        return sim_fail(d, "take: handle and answer do not agree");
    d->lent += *got;
    if (take == HR_TAKE_ITEM)
        return deliver(d, handle);
    if (take == HR_TAKE_EPOCH && ++d->marks_taken >= SIM_EPOCHS_MAX)
        return sim_fail(d, "more marks than epochs");
    if (take == HR_TAKE_EPOCH && !mark_is_wanted(d))
        return sim_fail(d, "a mark came after the failure that cut its epoch");
    if (take == HR_TAKE_END) {
        if (!hr__sched_ended(d->sched) || d->active_count > 0)
            return sim_fail(d, "END while tasks are at work");
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
    if (!sim_release(d) || !do_take(d, &got))
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

/* One idle worker claims, or each. */
static bool claim_some(struct drive *d)
{
    uint32_t n = d->all_claim ? d->workers : 1;

    while (n-- > 0 && d->active_count < d->workers) {
        if (!do_claim(d, d->worker_lanes[rng_below(d->rng, d->workers)]))
            return false;
    }
    return true;
}

/* For some steps: how often each thing is done, and which task at work is finished.
 * Extremes are likely, so that tasks pile up, or places, or what the consumer leaves. */
static void change_mood(struct drive *d)
{
    static const uint32_t weights[] = {1, 8, 30, 60};
    static const enum sim_pick picks[] = {PICK_ANY, PICK_ANY, PICK_OLDEST, PICK_NEWEST};

    d->all_claim = rng_chance(d->rng, 60);
    d->weight_claim = weights[rng_below(d->rng, 4)];
    d->weight_finish = weights[rng_below(d->rng, 4)];
    d->weight_take = rng_below(d->rng, 10);
    d->weight_release = rng_below(d->rng, 3);
    d->pick = picks[rng_below(d->rng, 4)];
    d->slow_stage = rng_below(d->rng, d->plan->stage_count);
    d->mood_steps = 1 + rng_below(d->rng, 60);
}

static bool step(struct drive *d)
{
    if (d->mood_steps-- == 0)
        change_mood(d);

    uint32_t roll = rng_below(d->rng, d->weight_claim + d->weight_finish +
                                          2 * d->weight_take + d->weight_release + 2);
    bool moved = true;

    d->now += rng_below(d->rng, 1000);
    if (roll < d->weight_claim)
        return claim_some(d);
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
        return sim_release(d);
    if (d->gate_toggles > 0 && rng_chance(d->rng, 50)) {
        do_gate(d);
        return true;
    }
    return push_on(d, &moved) &&
           (moved || d->ended || sim_fail(d, "deadlock: nobody can do anything"));
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
    d->workers = 1 + rng_below(d->rng, rng_chance(d->rng, 50) ? 6 : WORKERS_MAX);
    for (uint32_t i = 0; i < d->workers; i++) {
        d->worker_lanes[i] = rng_chance(d->rng, 70) ? ALL_LANES : rng_below(d->rng, 8);
        all |= d->worker_lanes[i];
    }
    d->worker_lanes[0] |= ALL_LANES & ~all;
    d->gate_toggles = rng_chance(d->rng, 30) ? rng_below(d->rng, 20) : 0;
    d->failed_stage = -1;
    d->now = 1000;
}

static bool check_step(struct drive *d)
{
    const char *wrong = hr__sched_check(d->sched);

    if (wrong)
        return sim_fail(d, "check: %s", wrong);
    if (hr__sched_failed_stage(d->sched) != d->failed_stage)
        return sim_fail(d, "failed stage is %d, not %d",
                        hr__sched_failed_stage(d->sched), d->failed_stage);
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
            return sim_fail(d, "no end in sight");
    }
    return sim_release(d);
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
        sim_fail(&d, "the plan was refused: %s", err.text);
    else if (run(&d))
        sim_check_end(&d);
    tear_down(&d);
    memcpy(wrong, d.wrong, sizeof(wrong));
    return wrong[0] ? wrong : NULL;
}
