/* sched.c - claiming and finishing tasks, and the sink.
 *
 * The scheduler is a set of small machines, one per stage, joined by bounded FIFOs:
 *
 *            claim: places reserved        finish: outputs put on them
 *   in-edge ───────────────▶ task (running) ───────────────▶ out-edge
 *              items leave      │    ▲ claim again    or held, until what was
 *              the FIFO         ▼    │                 started before has left
 *                              (paused) streams only
 *
 * Reserve, then run (R4). A thread never waits with an item in its hand, because the
 * place for the result exists before the work starts. All waiting is thereby in the
 * FIFOs, and memory is bounded by the plan: Σ capacity + Σ concurrency × arity.
 * Releasing a place when the *result* leaves, rather than limiting what is in flight by
 * a counter, is what keeps ordered output bounded too: a held result sits on its place.
 *
 * Why not wake-up lists, or a queue of ready tasks? A stage's readiness is a few
 * compares away, so it is recomputed for the stage of an event and its neighbours, and
 * kept as one bit. "Nearest the sink first" is then the highest bit of at most four
 * words per lane, and nothing is ever in a queue that must be corrected when a place is
 * lost or the run is cancelled.
 *
 * Streams (source, expand, disaggregate) take as many places as are free, up to
 * HR_SCHED_GRANT_MAX, and give the rest back when they pause: a slow generator must not
 * sit on room that its peers could use. Because a paused task has to get a place again,
 * tasks and marks behind it may never take the last one; see behind_has_room.
 *
 * An ended stage is told from an idle one without messages: edges close, and closing
 * runs down the graph as stages run dry.
 *
 * Cost: claim and finish of a map task together, its neighbours updated, is about 40 ns
 * (bench/sched_bench.c prints it). Nothing here is linear in the plan. */
#include "sched/edge.h"
#include "sched/sched_state.h"

#include "base/banned.h"

/* ---- choosing ---- */

int hr__sched_peek(const struct hr_sched *sched, uint32_t lanes)
{
    lanes &= (1u << HR_SCHED_LANES_MAX) - 1;
    for (uint32_t word = sched->words; word-- > 0;) {
        uint64_t bits = 0;

        for (uint32_t rest = lanes; rest != 0; rest &= rest - 1)
            bits |= sched->runnable[__builtin_ctz(rest)][word];
        if (bits != 0)
            return (int)(word * 64 + 63) - __builtin_clzll(bits);
    }
    return -1;
}

/* Inputs for how many new tasks? */
static uint32_t batches_queued(const struct stage *stage)
{
    uint32_t n;

    if (stage->plan.kind == HR_STAGE_SOURCE || stage->stopped)
        return 0;
    n = stage->in->run / stage->plan.arity;
    return n > 0 ? n : hr__stage_has_input(stage);
}

static uint32_t min_u32(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* For a READY stage. Streams may take all room with one task: they count one, plus
 * those that need none. */
static uint32_t stage_ready(const struct stage *stage)
{
    uint32_t n;

    if (stage->streams) {
        n = stage->eager.count;
        return n > 0 ? n : 1;
    }
    n = stage->plan.concurrency - stage->running;
    n = min_u32(n, batches_queued(stage));
    for (uint32_t i = 0; i < stage->out_count; i++)
        n = min_u32(n, stage->outs[i]->room);
    return n > 0 ? n : 1; /* a flush without a result needs no room */
}

uint32_t hr__sched_ready(const struct hr_sched *sched, uint32_t lanes, uint32_t max)
{
    uint32_t n = 0;

    lanes &= (1u << HR_SCHED_LANES_MAX) - 1;
    for (uint32_t word = sched->words; word-- > 0 && n < max;) {
        uint64_t bits = 0;

        for (uint32_t rest = lanes; rest != 0; rest &= rest - 1)
            bits |= sched->runnable[__builtin_ctz(rest)][word];
        for (; bits != 0 && n < max; bits &= bits - 1)
            n += stage_ready(
                &sched->stages[word * 64 + (uint32_t)__builtin_ctzll(bits)]);
    }
    return min_u32(n, max);
}

/* ---- claim ---- */

static struct task *task_start(struct stage *stage)
{
    struct task *task = stage->unused;

    assert(task);
    stage->unused = task->link;
    task->phase = TASK_RUNNING;
    task->epoch = stage->epoch_in;
    task->places = 0;
    task->input_count = 0;
    task->rides = false;
    task->behind = false;
    task->closing = false;
    task->refused = false;
    task->held = 0;
    task->next = NULL;
    task->prev = stage->last;
    if (stage->last)
        stage->last->next = task;
    else
        stage->first = task;
    stage->last = task;
    stage->running++;
    stage->active++;
    return task;
}

static void task_feed(struct hr_sched *sched, struct task *task)
{
    struct stage *stage = task->stage;
    uint32_t n = min_u32(stage->plan.arity, stage->in->run);

    for (uint32_t i = 0; i < n; i++)
        task->inputs[i] = hr__edge_shift(stage->in);
    hr__edge_free(sched, stage->in, n);
    task->input_count = n;
    stage->in_items += n;
}

/* All kinds but streams: one place (a route: in every path). */
static struct task *claim_single(struct hr_sched *sched, struct stage *stage)
{
    struct task *task = task_start(stage);

    task_feed(sched, task);
    if (task->input_count == 0 && stage->plan.drop_last)
        return task; /* a flush whose result nobody wants */
    task->places = 1;
    for (uint32_t i = 0; i < stage->out_count; i++)
        hr__edge_reserve(stage->outs[i], 1);
    return task;
}

/* Peers that could start at once get their share of the room. In input order these are
 * behind, and need one place each; it is kept for those whose input is yet to come, too,
 * since a task that waits for something keeps its places meanwhile. */
static uint32_t fair_share(const struct stage *stage, uint32_t room)
{
    uint32_t idle = stage->plan.concurrency - stage->active;
    uint32_t peers;

    if (idle == 0 || room == 0)
        return room;
    if (stage->plan.order == HR_ORDER_INPUT) {
        peers = min_u32(stage->plan.concurrency - stage->running,
                        stage->behind_max - stage->behind);
        return room - min_u32(peers, room - 1);
    }
    peers = min_u32(idle, stage->paused.count + batches_queued(stage));
    return peers > 0 ? (room - 1) / (peers + 1) + 1 : room;
}

static struct task *resume(struct stage *stage)
{
    struct task_list *list = &stage->eager;
    struct task *task;

    if (stage->paused.first && stage->out->room > 0)
        list = &stage->paused;
    if (!list->first)
        return NULL;
    task = hr__task_dequeue(list);
    task->phase = TASK_RUNNING;
    stage->active++;
    return task;
}

static struct task *claim_stream(struct hr_sched *sched, struct stage *stage)
{
    struct task *task = resume(stage);
    uint32_t more;

    if (!task) {
        task = task_start(stage);
        if (stage->in)
            task_feed(sched, task);
        task->behind = !hr__task_may_deliver(task);
        stage->behind += task->behind;
    }
    if (task->closing)
        return task;
    if (task->behind) {
        more = 1 - task->places;
    } else {
        more = fair_share(stage, stage->out->room);
        more = min_u32(more, HR_SCHED_GRANT_MAX - task->places);
    }
    hr__edge_reserve(stage->out, more);
    task->places += more;
    return task;
}

bool hr__sched_is_ready(const struct hr_sched *sched, uint32_t stage)
{
    return sched->stages[stage].serves && sched->stages[stage].state == HR_STATE_READY;
}

static void claim(struct hr_sched *sched, struct stage *stage, int64_t now_ns,
                  struct hr_claim *out)
{
    struct task *task;

    hr__sched_set_now(sched, now_ns);
    out->first = !stage->paused.first && !stage->eager.first;
    task = stage->streams ? claim_stream(sched, stage) : claim_single(sched, stage);
    out->stage = stage->index;
    out->task = (uint32_t)(task - sched->tasks);
    out->closing = task->closing;
    out->grant = stage->streams ? task->places : 1;
    out->input_count = out->first ? task->input_count : 0;
    out->inputs = task->inputs;
    hr__stage_settle(sched, stage);
}

bool hr__sched_claim(struct hr_sched *sched, uint32_t lanes, int64_t now_ns,
                     struct hr_claim *out)
{
    int index = hr__sched_peek(sched, lanes);

    if (index >= 0)
        claim(sched, &sched->stages[index], now_ns, out);
    return index >= 0;
}

bool hr__sched_claim_stage(struct hr_sched *sched, uint32_t stage, int64_t now_ns,
                           struct hr_claim *out)
{
    bool ready = hr__sched_is_ready(sched, stage);

    if (ready)
        claim(sched, &sched->stages[stage], now_ns, out);
    return ready;
}

bool hr__sched_ride(struct hr_sched *sched, uint32_t index, int64_t now_ns,
                    struct hr_claim *out)
{
    struct task *lead = &sched->tasks[index];
    struct stage *stage = lead->stage;
    struct task *task;

    if ((stage->plan.kind != HR_STAGE_MAP && stage->plan.kind != HR_STAGE_FILTER) ||
        stage->plan.failures_max >= 0 || stage->plan.fraction_den > 0 ||
        stage->plan.cuts || stage->stopped || !hr__stage_has_input(stage) ||
        !hr__stage_has_room(stage))
        return false;
    assert(lead->phase == TASK_RUNNING && !lead->rides);
    hr__sched_set_now(sched, now_ns);
    task = claim_single(sched, stage);
    lead->rides = true; /* the slot is the new one's */
    stage->running--;
    stage->riding++;
    *out = (struct hr_claim){.stage = stage->index,
                             .task = (uint32_t)(task - sched->tasks),
                             .grant = 1,
                             .input_count = task->input_count,
                             .inputs = task->inputs,
                             .first = true};
    hr__stage_settle(sched, stage);
    return true;
}

/* ---- finish ---- */

static bool is_refused(const struct task *task)
{
    return task->refused || task->stage->cancelled;
}

bool hr__sched_refused(const struct hr_sched *sched, uint32_t index)
{
    return is_refused(&sched->tasks[index]);
}

/* Give back n of the task's places (a route's: in every path). */
static void give_back(struct task *task, uint32_t n)
{
    struct stage *stage = task->stage;

    task->places -= n;
    for (uint32_t i = 0; i < stage->out_count; i++)
        hr__edge_unreserve(stage->outs[i], n);
}

static void task_over(struct hr_sched *sched, struct task *task, bool failed)
{
    struct stage *stage = task->stage;

    if (failed && stage->plan.cuts && !is_refused(task))
        hr__stage_cut(sched, task);
    if (task->rides)
        stage->riding--;
    else
        stage->running--;
    stage->tasks++;
    stage->failed += failed;
    stage->inputs_done += task->input_count;
    if (task->held) {
        task->phase = TASK_DONE;
        stage->held++;
    } else {
        hr__task_retire(task);
        if (stage->plan.order == HR_ORDER_INPUT || hr__stage_mark_pending(stage))
            hr__stage_deliver(sched, stage);
    }
    if (stage->plan.kind == HR_STAGE_SOURCE)
        stage->over = true;
    if (failed || stage->tasks == HR_SCHED_PROBATION)
        hr__stage_judge(sched, stage, failed);
}

/* The one output of a task goes to the edge `path`; the other paths get their place
 * back. */
static void put_single(struct hr_sched *sched, struct task *task, uint32_t path,
                       hr_handle output)
{
    struct stage *stage = task->stage;

    task->places = 0;
    for (uint32_t i = 0; i < stage->out_count; i++) {
        if (i != path)
            hr__edge_unreserve(stage->outs[i], 1);
    }
    hr__edge_push(sched, stage->outs[path], output);
    stage->out_items++;
}

static bool finish_single(struct hr_sched *sched, struct task *task,
                          enum hr_task_outcome outcome, hr_handle output, uint32_t path)
{
    struct stage *stage = task->stage;
    bool failed = outcome == HR_TASK_FAILED;
    bool taken = false;

    if (outcome != HR_TASK_DONE || output == 0 || task->places == 0) {
        if (outcome == HR_TASK_DONE && stage->plan.kind == HR_STAGE_FOLD)
            stage->absorbed++;
        else if (!failed)
            stage->filtered++;
        give_back(task, task->places);
    } else if (is_refused(task)) {
        stage->discarded_out++;
        give_back(task, task->places);
    } else if (hr__task_may_deliver(task)) {
        put_single(sched, task, path, output);
        taken = true;
    } else {
        task->held = output;
        taken = true;
    }
    if (stage->plan.kind == HR_STAGE_FOLD && task->input_count == 0)
        stage->flushed = true;
    task_over(sched, task, failed);
    return taken;
}

static void put_many(struct hr_sched *sched, struct task *task,
                     const hr_handle *outputs, uint32_t count, bool mark)
{
    struct stage *stage = task->stage;

    assert(count + mark <= task->places);
    for (uint32_t i = 0; i < count; i++)
        hr__edge_push(sched, stage->out, outputs[i]);
    if (mark)
        hr__edge_push(sched, stage->out, 0);
    task->places -= count + mark;
    stage->out_items += count;
}

static void task_pause(struct task *task)
{
    struct stage *stage = task->stage;

    task->phase = TASK_PAUSED;
    if (is_refused(task) || (stage->plan.kind == HR_STAGE_SOURCE && stage->over))
        hr__task_close(task);
    else if (!task->behind)
        hr__task_enqueue(&stage->paused, task);
    else if (!task->held)
        hr__task_enqueue(&stage->eager, task);
    /* else it waits for its turn: task_unblock */
}

static uint32_t finish_stream(struct hr_sched *sched, struct task *task,
                              enum hr_task_outcome outcome, const hr_handle *outputs,
                              uint32_t count)
{
    struct stage *stage = task->stage;
    bool more = outcome == HR_TASK_MORE || outcome == HR_TASK_EPOCH;
    uint32_t taken = count;

    if (task->closing)
        more = false;
    if (is_refused(task) || task->closing) {
        stage->discarded_out += count;
        taken = 0;
    } else if (!task->behind) {
        put_many(sched, task, outputs, count, outcome == HR_TASK_EPOCH);
    } else if (count > 0) {
        assert(count == 1);
        task->held = outputs[0];
    }
    if (!task->behind) {
        give_back(task, task->places);
    } else if (is_refused(task) || (!more && !task->held)) {
        task->behind = false;
        stage->behind--;
        give_back(task, task->places);
    }
    if (more)
        task_pause(task);
    else
        task_over(sched, task, outcome == HR_TASK_FAILED);
    return taken;
}

static struct task *task_end_run(struct hr_sched *sched, uint32_t index, int64_t now_ns)
{
    struct task *task = &sched->tasks[index];

    assert(index < sched->task_count && task->phase == TASK_RUNNING);
    hr__sched_set_now(sched, now_ns);
    task->stage->active--;
    return task;
}

uint32_t hr__sched_finish(struct hr_sched *sched, uint32_t task_index,
                          enum hr_task_outcome outcome, const hr_handle *outputs,
                          uint32_t count, int64_t now_ns)
{
    struct task *task = task_end_run(sched, task_index, now_ns);
    uint32_t taken;

    if (task->stage->streams) {
        taken = finish_stream(sched, task, outcome, outputs, count);
    } else {
        assert(count <= 1 && outcome != HR_TASK_MORE && outcome != HR_TASK_EPOCH);
        taken = finish_single(sched, task, outcome, count > 0 ? outputs[0] : 0, 0);
    }
    hr__stage_settle(sched, task->stage);
    return taken;
}

uint32_t hr__sched_finish_route(struct hr_sched *sched, uint32_t task_index,
                                uint32_t path, hr_handle output, int64_t now_ns)
{
    struct task *task = task_end_run(sched, task_index, now_ns);
    bool taken;

    assert(task->stage->plan.kind == HR_STAGE_ROUTE && path < task->stage->out_count);
    taken = finish_single(sched, task, HR_TASK_DONE, output, path);
    hr__stage_settle(sched, task->stage);
    return taken;
}

void hr__sched_gate(struct hr_sched *sched, uint32_t index, bool open, int64_t now_ns)
{
    struct stage *stage = &sched->stages[index];

    hr__sched_set_now(sched, now_ns);
    stage->gate_open = open;
    hr__stage_settle(sched, stage);
}
