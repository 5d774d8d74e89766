/* explore_events.c - what may happen in a state, and how the scheduler must answer. */
#include <stdio.h>
#include <string.h>

#include "explore.h"

#include "sched/sched_state.h"

static uint64_t mix(uint64_t a, uint64_t b)
{
    uint64_t z = a * UINT64_C(0x9e3779b97f4a7c15) ^ (b + UINT64_C(0x7f4a7c15f39cc060));

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    return z ^ (z >> 31);
}

static enum hr_stage_kind kind_of(uint32_t stage)
{
    return plan->stages[stage].kind;
}

/* Where items of the stage come to, by its path. */
static uint8_t next_of(uint32_t stage, uint32_t path)
{
    for (uint32_t k = 0;; k++) {
        if (plan->edges[k].from != stage || plan->edges[k].capacity == 0)
            continue;
        if (path-- > 0)
            continue;
        stage = plan->edges[k].to;
        return kind_of(stage) == HR_STAGE_MERGE ? next_of(stage, 0) : (uint8_t)stage;
    }
}

static const uint8_t *sizes_of(uint32_t stage)
{
    return plan->sizes[stage == 0 ? 0 : 1];
}

/* ---- what may happen ---- */

struct list {
    struct event *events;
    uint32_t count;
};

static void add(struct list *list, struct event event)
{
    list->events[list->count++] = event;
}

static bool is_idle(uint32_t worker)
{
    for (uint32_t i = 0; i < world->open_count; i++) {
        if (world->open[i].worker == worker)
            return false;
    }
    return true;
}

/* An idle worker before this one could do just the same. */
static bool another_could(uint32_t worker)
{
    for (uint32_t w = 0; w < worker; w++) {
        if (plan->workers[w] == plan->workers[worker] && is_idle(w))
            return true;
    }
    return false;
}

static void list_claims(struct list *list)
{
    for (uint8_t w = 0; w < WORKERS_MAX && plan->workers[w] != 0; w++) {
        if (!is_idle(w) || another_could(w) ||
            hr__sched_peek(world->sched, plan->workers[w]) < 0)
            continue;
        add(list, (struct event){.kind = CLAIM, .who = w});
        if (plan->rides)
            add(list, (struct event){.kind = CLAIM_TWO, .who = w});
    }
}

static void add_finish(struct list *list, uint8_t who, enum hr_task_outcome outcome,
                       uint32_t count)
{
    add(list, (struct event){FINISH, who, outcome, (uint8_t)count, 0});
}

static void list_source(struct list *list, uint8_t who, const struct open_task *open)
{
    uint32_t e = world->next_epoch[open->stage];
    uint32_t left = sizes_of(open->stage)[e] - world->epoch_given[open->stage];

    for (uint32_t n = 0; n <= left && n <= open->grant; n++) {
        if (n > 0)
            add_finish(list, who, HR_TASK_MORE, n);
        if (n == left && e + 1u == plan->epochs)
            add_finish(list, who, HR_TASK_DONE, n);
        else if (n == left && n < open->grant)
            add_finish(list, who, HR_TASK_EPOCH, n);
    }
    if (world->failures > 0)
        add_finish(list, who, HR_TASK_FAILED, 0);
}

static void list_stream(struct list *list, uint8_t who, const struct open_task *open)
{
    bool exact = kind_of(open->stage) == HR_STAGE_DISAGGREGATE;
    uint32_t left = plan->children - open->given;

    for (uint32_t n = 0; n <= left && n <= open->grant; n++) {
        if (n > 0)
            add_finish(list, who, HR_TASK_MORE, n);
        if (n == left || !exact)
            add_finish(list, who, HR_TASK_DONE, n);
    }
    if (world->failures > 0)
        add_finish(list, who, HR_TASK_FAILED, 0);
}

static void list_single(struct list *list, uint8_t who, const struct open_task *open)
{
    enum hr_stage_kind kind = kind_of(open->stage);
    bool flush = kind == HR_STAGE_FOLD && open->input_count == 0;
    bool absorbs = kind == HR_STAGE_FOLD && !flush && world->kept[open->stage] == 0;

    if (!absorbs && !(flush && world->kept[open->stage] == 0))
        add_finish(list, who, HR_TASK_DONE, 1);
    else
        add_finish(list, who, HR_TASK_DONE, 0);
    if (kind == HR_STAGE_ROUTE)
        add(list, (struct event){FINISH, who, HR_TASK_DONE, 1, 1});
    if (world->failures > 0 && !flush)
        add_finish(list, who, HR_TASK_FAILED, 0);
    if (world->filters > 0 && (kind == HR_STAGE_MAP || kind == HR_STAGE_FILTER))
        add_finish(list, who, HR_TASK_FILTERED, 0);
}

static void list_finishes(struct list *list)
{
    for (uint8_t i = 0; i < world->open_count; i++) {
        const struct open_task *open = &world->open[i];

        if (open->worker == NOTHING || open->second_of_two)
            continue;
        if (open->closing)
            add_finish(list, i, HR_TASK_DONE, 0);
        else if (kind_of(open->stage) == HR_STAGE_SOURCE)
            list_source(list, i, open);
        else if (world->sched->tasks[open->task].stage->streams)
            list_stream(list, i, open);
        else
            list_single(list, i, open);
    }
}

uint32_t events_list(struct event *out)
{
    struct list list = {out, 0};
    const struct hr_sched *sched = world->sched;

    list_claims(&list);
    list_finishes(&list);
    if (!world->ended && (sched->sink->in->queued > 0 || hr__sched_ended(sched)))
        add(&list, (struct event){.kind = TAKE});
    if (world->lent > 0)
        add(&list, (struct event){.kind = CREDIT});
    if (sched->released_count > 0)
        add(&list, (struct event){.kind = FETCH});
    if (world->gate_shut)
        add(&list, (struct event){.kind = OPEN_GATE});
    if (world->ended)
        return list.count;
    if (plan->gates && !world->gate_was_shut)
        add(&list, (struct event){.kind = SHUT_GATE});
    if (plan->drains && !world->drained && !world->cancelled)
        add(&list, (struct event){.kind = DRAIN});
    if (plan->stops && !world->cancelled)
        add(&list, (struct event){.kind = CANCEL});
    return list.count;
}

/* ---- claims ---- */

static const char *take_inputs(struct open_task *open, const struct hr_claim *claim)
{
    if (claim->input_count > plan->stages[claim->stage].arity)
        return "more inputs than the stage takes";
    for (uint32_t i = 0; i < claim->input_count; i++) {
        uint8_t n = thing_of(claim->inputs[i]);

        if (n == NOTHING || world->things[n].where != IN_SCHED)
            return "an input that the scheduler did not have";
        if (world->things[n].to != claim->stage)
            return "an input that was on its way to another stage";
        if (i > 0 && world->things[n].epoch != open->epoch)
            return "a batch of two epochs";
        if (world->kept[claim->stage] > 0 &&
            world->kept_epoch[claim->stage] != world->things[n].epoch)
            return "a fold got the next epoch before its flush";
        world->things[n].where = IN_TASK;
        open->inputs[open->input_count++] = n;
        open->epoch = world->things[n].epoch;
    }
    return NULL;
}

static const char *start_task(const struct hr_claim *claim, uint8_t worker)
{
    struct open_task *open = &world->open[world->open_count++];

    *open = (struct open_task){.task = claim->task,
                               .stage = (uint8_t)claim->stage,
                               .worker = worker,
                               .grant = (uint8_t)claim->grant};
    if (claim->closing)
        return "a first claim that is closing";
    if (world->cancelled)
        return "a task was started after the run was cancelled";
    if (kind_of(claim->stage) == HR_STAGE_SOURCE &&
        (world->drained || (world->gate_shut && claim->stage == 0)))
        return "a source was started that may not run";
    return take_inputs(open, claim);
}

static const char *resume_task(const struct hr_claim *claim, uint8_t worker)
{
    for (uint32_t i = 0; i < world->open_count; i++) {
        struct open_task *open = &world->open[i];

        if (open->task != claim->task)
            continue;
        if (open->worker != NOTHING)
            return "a task was claimed that is at work";
        if (!claim->closing && world->cancelled)
            return "a task goes on after the run was cancelled";
        open->worker = worker;
        open->grant = (uint8_t)claim->grant;
        open->closing = claim->closing;
        return NULL;
    }
    return "a task goes on that was never started";
}

static const char *do_claim(const struct event *event)
{
    struct hr_claim claim, second;
    const char *wrong;

    if (!hr__sched_claim(world->sched, plan->workers[event->who], 0, &claim))
        return "peek promised a task that cannot be claimed";
    if (!(plan->workers[event->who] >> plan->stages[claim.stage].lane & 1))
        return "a task of a lane that the worker does not serve";
    if ((claim.grant == 0) != claim.closing)
        return "a grant of no place, or a closing claim with one";
    wrong =
        claim.first ? start_task(&claim, event->who) : resume_task(&claim, event->who);
    if (wrong || event->kind == CLAIM ||
        !hr__sched_ride(world->sched, claim.task, 0, &second))
        return wrong;
    if (second.stage != claim.stage || !second.first)
        return "a task rides that is of another stage, or goes on";
    world->open[world->open_count - 1].first_of_two = true;
    wrong = start_task(&second, event->who);
    world->open[world->open_count - 1].second_of_two = true;
    return wrong;
}

/* ---- finishes ---- */

static hr_handle make_output(const struct open_task *open, const struct event *event,
                             uint32_t index)
{
    hr_handle id = mix(open->stage + 1u, open->given + index);
    uint8_t seq = (uint8_t)(open->given + index), epoch = open->epoch;

    if (kind_of(open->stage) == HR_STAGE_SOURCE) {
        seq = world->next_item[open->stage]++;
        id = mix(open->stage + 1u, 1000u + seq);
        epoch = world->next_epoch[open->stage];
        world->epoch_given[open->stage]++;
        seq = (uint8_t)(seq * 8); /* room for children */
    }
    for (uint32_t i = 0; i < open->input_count; i++)
        id = mix(id, world->things[open->inputs[i]].id);
    if (open->input_count > 0)
        seq = (uint8_t)(world->things[open->inputs[0]].seq + seq);
    else if (kind_of(open->stage) == HR_STAGE_FOLD)
        id = mix(id, (uint64_t)world->sched->stages[open->stage].epoch_in);
    thing_add(id, epoch, seq, next_of(open->stage, event->path));
    return id;
}

/* A flush without input belongs to the epoch whose inputs are over. */
static void set_flush_epoch(struct open_task *open)
{
    if (kind_of(open->stage) == HR_STAGE_FOLD && open->input_count == 0)
        open->epoch = (uint8_t)world->sched->stages[open->stage].epoch_in;
}

/* A failure that ends the run, as the plan says. */
static bool ends_run(uint32_t stage)
{
    const struct hr_sched_stage *s = &plan->stages[stage];

    if (world->cancelled || world->policy_met)
        return false;
    world->failed[stage]++;
    return s->kind == HR_STAGE_SOURCE || s->cuts ||
           (s->failures_max >= 0 && world->failed[stage] > s->failures_max);
}

/* In a chain: what comes after a failed task of a stage that cuts must not come out. */
static void note_cut(const struct open_task *open)
{
    const struct hr_sched_stage *s = &plan->stages[open->stage];

    if (!s->cuts)
        return;
    if (open->epoch < world->cut_epoch)
        world->cut_epoch = open->epoch;
    if (s->order == HR_ORDER_INPUT &&
        world->things[open->inputs[0]].seq < world->cut_seq)
        world->cut_seq = world->things[open->inputs[0]].seq;
}

static void keep_books(struct open_task *open, const struct event *event)
{
    uint8_t stage = open->stage;

    if (event->outcome == HR_TASK_FAILED) {
        world->failures--;
        world->policy_met |= ends_run(stage);
    }
    if (event->outcome == HR_TASK_FILTERED)
        world->filters--;
    if (event->outcome == HR_TASK_EPOCH) {
        world->next_epoch[stage]++;
        world->epoch_given[stage] = 0;
    }
    if (kind_of(stage) == HR_STAGE_FOLD && event->outcome == HR_TASK_DONE) {
        world->kept[stage] = event->count == 0 && open->input_count > 0;
        world->kept_epoch[stage] = open->epoch;
    }
}

static void close_task(uint8_t who)
{
    struct open_task *open = &world->open[who];

    for (uint32_t i = 0; i < open->input_count; i++)
        world->things[open->inputs[i]].where = CONSUMED;
    for (uint32_t i = 0; i < world->open_count; i++) {
        if (open->first_of_two && world->open[i].worker == open->worker)
            world->open[i].second_of_two = false; /* now its turn has come */
    }
    memmove(open, open + 1, sizeof(*open) * (size_t)(--world->open_count - who));
}

static const char *do_finish(const struct event *event)
{
    struct open_task *open = &world->open[event->who];
    bool refused = hr__sched_refused(world->sched, open->task);
    bool nobody_wants = kind_of(open->stage) == HR_STAGE_FOLD &&
                        plan->stages[open->stage].drop_last && open->input_count == 0;
    hr_handle outputs[HR_SCHED_GRANT_MAX];
    uint32_t taken, first = world->thing_count;

    if (refused != (world->cancelled || (refused && world->policy_met)))
        return "outputs are refused without need, or taken after a cancel";
    set_flush_epoch(open);
    if (event->outcome == HR_TASK_FAILED && !refused)
        note_cut(open);
    for (uint32_t i = 0; i < event->count; i++)
        outputs[i] = make_output(open, event, i);
    open->given = (uint8_t)(open->given + event->count);
    keep_books(open, event);
    taken = kind_of(open->stage) == HR_STAGE_ROUTE && event->count == 1
                ? hr__sched_finish_route(world->sched, open->task, event->path,
                                         outputs[0], 0)
                : hr__sched_finish(world->sched, open->task, event->outcome, outputs,
                                   event->count, 0);
    if (taken != (refused || nobody_wants ? 0 : event->count))
        return "a wrong number of outputs was taken";
    for (uint32_t i = 0; i < event->count; i++)
        world->things[first + i].where = refused || nobody_wants ? REFUSED : IN_SCHED;
    if (world->policy_met != (hr__sched_failed_stage(world->sched) >= 0))
        return "a failure policy ended the run, or did not, wrongly";
    if (event->outcome != HR_TASK_MORE && event->outcome != HR_TASK_EPOCH)
        close_task(event->who);
    else
        open->worker = NOTHING;
    return NULL;
}

/* ---- the consumer and the rest ---- */

static const char *do_take(void)
{
    hr_handle id = 0;
    enum hr_take take = hr__sched_take(world->sched, &id, 0);
    struct thing *thing;

    if (take == HR_TAKE_NONE)
        return "there was something for the consumer, and then not";
    if (take == HR_TAKE_END) {
        world->ended = true;
        return world->open_count > 0 ? "the end was told while tasks are open" : NULL;
    }
    world->lent++;
    if (take == HR_TAKE_EPOCH) {
        world->last_seq = 0;
        if (world->marks >= world->cut_epoch)
            return "a mark came after the failure that cut its epoch";
        return ++world->marks >= plan->epochs ? "more marks than epochs" : NULL;
    }
    if (thing_of(id) == NOTHING)
        return "an item that never was";
    thing = &world->things[thing_of(id)];
    if (thing->where != IN_SCHED || thing->to != stage_count - 1)
        return "an item came twice, or past a stage";
    if (thing->epoch != world->marks)
        return "an item came in a wrong epoch";
    if (thing->epoch > world->cut_epoch || thing->seq / 8 > world->cut_seq / 8)
        return "an item came after the failure that cut its stage";
    if (plan->ordered && thing->seq < world->last_seq)
        return "an item came out of order";
    thing->where = DELIVERED;
    world->last_seq = plan->ordered ? thing->seq : 0;
    return NULL;
}

static const char *do_fetch(void)
{
    hr_handle ids[4];
    size_t n = hr__sched_take_released(world->sched, ids, 4);

    for (size_t i = 0; i < n; i++) {
        struct thing *thing;

        if (thing_of(ids[i]) == NOTHING)
            return "a handle was released that never was";
        thing = &world->things[thing_of(ids[i])];
        if (thing->where != IN_SCHED)
            return "a handle was released that the scheduler did not have";
        if (!world->cancelled && !world->policy_met &&
            !(kind_of(thing->to) == HR_STAGE_AGGREGATE &&
              plan->stages[thing->to].drop_last))
            return "a handle was released without need";
        thing->where = RELEASED;
    }
    return NULL;
}

const char *event_do(const struct event *event)
{
    switch (event->kind) {
    case CLAIM:
    case CLAIM_TWO:
        return do_claim(event);
    case FINISH:
        return do_finish(event);
    case TAKE:
        return do_take();
    case CREDIT:
        hr__sched_credit(world->sched, world->lent, 0);
        world->lent = 0;
        return NULL;
    case FETCH:
        return do_fetch();
    case OPEN_GATE:
    case SHUT_GATE:
        world->gate_shut = event->kind == SHUT_GATE;
        world->gate_was_shut = true;
        hr__sched_gate(world->sched, 0, !world->gate_shut, 0);
        return NULL;
    case DRAIN:
        world->drained = true;
        hr__sched_drain(world->sched, 0);
        return NULL;
    default:
        world->cancelled = true;
        hr__sched_cancel(world->sched, 0);
        return NULL;
    }
}

void event_print(const struct event *event)
{
    static const char *const names[] = {"claim",  "claim two", "finish",    "take",
                                        "credit", "fetch",     "open gate", "shut gate",
                                        "drain",  "cancel"};

    printf("#   %s", names[event->kind]);
    if (event->kind == CLAIM || event->kind == CLAIM_TWO)
        printf(" by worker %u", event->who);
    if (event->kind == FINISH)
        printf(": open task %u, outcome %d, %u outputs, path %u", event->who,
               (int)event->outcome, event->count, event->path);
    printf("\n");
}
