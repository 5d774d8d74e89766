/* explore_world.c - a state: made, kept, told from others, checked.
 *
 * The scheduler allocates all it needs when it is made. Here that comes from an arena, so
 * that a state is kept by copying the arena and the books, and gone back to by copying
 * them back to where they were: every pointer in it stays right.
 *
 * The key of a state leaves out what can make no difference to what follows: where in its
 * ring a queue begins, which of the unused tasks comes next (so: what numbers tasks have),
 * what is left in memory that is not in use, and times (no time passes here). Things and
 * open tasks count as sets, for the books list them in the order in which they came up. */
#include <stdlib.h>
#include <string.h>

#include "explore.h"

#include "base/sys.h"
#include "sched/edge.h"
#include "sched/sched_state.h"

enum { ARENA_SIZE = 1 << 16 };

static struct {
    struct world world;
    _Alignas(max_align_t) unsigned char arena[ARENA_SIZE];
} state;
static size_t arena_used;

const struct small_plan *plan;
uint32_t stage_count;
struct world *world = &state.world;

static void *arena_zalloc(size_t count, size_t size)
{
    size_t begin = arena_used, bytes = count * size;

    bytes += -bytes % sizeof(max_align_t);
    if (bytes > ARENA_SIZE - begin)
        abort();
    arena_used += bytes;
    return memset(state.arena + begin, 0, bytes);
}

static void arena_release(void *ptr)
{
    (void)ptr;
}

void world_new(const struct small_plan *small)
{
    struct hr_sched_plan p = {.stages = small->stages, .edges = small->edges};
    struct hr_error err;

    while (small->stages[p.stage_count++].kind != HR_STAGE_SINK)
        ;
    while (p.edge_count < EDGES_MAX && small->edges[p.edge_count].capacity > 0)
        p.edge_count++;
    plan = small;
    stage_count = p.stage_count;
    memset(&state.world, 0, sizeof(state.world));
    arena_used = 0;
    hr__sys.zalloc = arena_zalloc;
    hr__sys.release = arena_release;
    if (hr__sched_new(&p, 0, &world->sched, &err) != HR_OK)
        abort();
    world->failures = plan->failures;
    world->filters = plan->filters;
    world->cut_epoch = world->cut_seq = NOTHING;
}

size_t world_size(void)
{
    return offsetof(__typeof__(state), arena) + arena_used;
}

void world_save(void *to)
{
    memcpy(to, &state, world_size());
}

void world_restore(const void *from)
{
    memcpy(&state, from, world_size());
}

/* ---- things ---- */

uint8_t thing_of(hr_handle id)
{
    for (uint8_t i = 0; i < world->thing_count; i++) {
        if (world->things[i].id == id)
            return i;
    }
    return NOTHING;
}

uint8_t thing_add(hr_handle id, uint8_t epoch, uint8_t seq, uint8_t to)
{
    if (world->thing_count == THINGS_MAX)
        abort();
    world->things[world->thing_count] = (struct thing){
        .id = id, .where = IN_TASK, .epoch = epoch, .to = to, .seq = seq};
    return world->thing_count++;
}

/* ---- the key ---- */

static void feed(struct world_key *key, uint64_t value)
{
    key->a = (key->a ^ value) * UINT64_C(0x9e3779b97f4a7c15);
    key->a ^= key->a >> 29;
    key->b = (key->b + value) * UINT64_C(0xd6e8feb86659fd93);
    key->b ^= key->b >> 32;
}

static void feed_edge(struct world_key *key, const struct edge *edge)
{
    feed(key, edge->queued);
    for (uint32_t i = 0; i < edge->queued; i++)
        feed(key, hr__edge_peek(edge, i));
    feed(key, edge->reserved);
    feed(key, edge->lent);
    feed(key, edge->room);
    feed(key, edge->closed);
}

static uint64_t place_of(const struct task *task)
{
    uint64_t place = 0;

    while ((task = task->prev))
        place++;
    return place;
}

static void feed_list(struct world_key *key, const struct task_list *list)
{
    feed(key, list->count);
    for (const struct task *task = list->first; task; task = task->link)
        feed(key, place_of(task));
}

static void feed_task(struct world_key *key, const struct task *task)
{
    feed(key, (uint64_t)task->phase << 32 | task->epoch);
    feed(key, (uint64_t)task->places << 32 | task->input_count);
    for (uint32_t i = 0; i < task->input_count; i++)
        feed(key, task->inputs[i]);
    feed(key, (uint64_t)task->rides | (uint64_t)task->behind << 1 |
                  (uint64_t)task->closing << 2 | (uint64_t)task->refused << 3);
    feed(key, task->held);
}

static void feed_stage(struct world_key *key, const struct stage *stage)
{
    uint64_t flags = (uint64_t)stage->gate_open | (uint64_t)stage->over << 1 |
                     (uint64_t)stage->flushed << 2 | (uint64_t)stage->stopped << 3 |
                     (uint64_t)stage->cancelled << 4 | (uint64_t)stage->ended << 5 |
                     (uint64_t)stage->watch << 6;

    for (const struct task *task = stage->first; task; task = task->next)
        feed_task(key, task);
    feed_list(key, &stage->eager);
    feed_list(key, &stage->paused);
    feed(key, (uint64_t)stage->running << 32 | stage->riding);
    feed(key, (uint64_t)stage->active << 32 | stage->held);
    feed(key, (uint64_t)stage->behind << 32 | stage->turn);
    feed(key, (uint64_t)stage->epoch_in << 32 | stage->epoch_out);
    feed(key, flags << 8 | (uint64_t)stage->state);
    feed(key, stage->in_items);
    feed(key, stage->out_items);
    feed(key, stage->failed);
    feed(key, stage->tasks);
    feed(key, stage->filtered);
    feed(key, stage->dropped);
    feed(key, stage->absorbed);
    feed(key, stage->discarded_in);
    feed(key, stage->discarded_out);
    feed(key, stage->inputs_done);
}

static void feed_sched(struct world_key *key, const struct hr_sched *sched)
{
    for (uint32_t i = 0; i < sched->edge_count; i++)
        feed_edge(key, &sched->edges[i]);
    for (uint32_t i = 0; i < sched->stage_count; i++)
        feed_stage(key, &sched->stages[i]);
    feed(key, sched->released_count);
    for (uint32_t i = 0; i < sched->released_count; i++)
        feed(key, sched->released[(sched->released_head + i) % sched->released_size]);
    feed(key, (uint64_t)sched->live << 32 | sched->discards_left);
    feed(key, (uint64_t)sched->drop_waits << 32 | (uint32_t)sched->failed_stage);
}

static struct world_key key_of_open(const struct open_task *open)
{
    struct world_key key = {open->stage, open->worker};

    feed(&key, place_of(&world->sched->tasks[open->task]));
    feed(&key, (uint64_t)open->epoch << 16 | (uint64_t)open->given << 8 | open->grant);
    for (uint32_t i = 0; i < open->input_count; i++)
        feed(&key, world->things[open->inputs[i]].id);
    feed(&key, (uint64_t)open->closing | (uint64_t)open->first_of_two << 1 |
                   (uint64_t)open->second_of_two << 2);
    return key;
}

struct world_key world_key(void)
{
    struct world_key key = {0}, sum = {0};

    feed_sched(&key, world->sched);
    for (uint32_t i = 0; i < world->thing_count; i++) {
        const struct thing *thing = &world->things[i];
        struct world_key one = {thing->id, thing->where};

        feed(&one,
             (uint64_t)thing->epoch << 16 | (uint64_t)thing->to << 8 | thing->seq);
        sum.a += one.a;
        sum.b += one.b;
    }
    for (uint32_t i = 0; i < world->open_count; i++) {
        struct world_key one = key_of_open(&world->open[i]);

        sum.a += one.a;
        sum.b += one.b;
    }
    feed(&key, sum.a);
    feed(&key, sum.b);
    for (uint32_t i = 0; i < stage_count; i++)
        feed(&key, (uint64_t)world->next_item[i] << 24 |
                       (uint64_t)world->next_epoch[i] << 16 |
                       (uint64_t)world->epoch_given[i] << 8 | world->kept[i] |
                       (uint64_t)world->kept_epoch[i] << 40 |
                       (uint64_t)world->failed[i] << 32);
    feed(&key, (uint64_t)world->failures << 32 | (uint64_t)world->filters << 24 |
                   (uint64_t)world->lent << 16 | (uint64_t)world->marks << 8 |
                   world->last_seq);
    feed(&key, (uint64_t)world->cut_epoch << 8 | world->cut_seq);
    feed(&key, (uint64_t)world->drained | (uint64_t)world->cancelled << 1 |
                   (uint64_t)world->gate_shut << 2 |
                   (uint64_t)world->gate_was_shut << 3 | (uint64_t)world->ended << 4 |
                   (uint64_t)world->policy_met << 5);
    return key;
}

/* ---- what must hold ---- */

static const char *check_open(void)
{
    uint32_t slots[STAGES_MAX] = {0};

    for (uint32_t i = 0; i < world->open_count; i++) {
        const struct open_task *open = &world->open[i];

        slots[open->stage] += !open->first_of_two;
        if (open->grant > HR_SCHED_GRANT_MAX)
            return "a grant that is too large";
    }
    for (uint32_t i = 0; i < stage_count; i++) {
        if (slots[i] > plan->stages[i].concurrency)
            return "more tasks than the stage's concurrency";
    }
    return NULL;
}

/* The places there are on the way to a stage, through merges. */
static uint32_t places_to(uint32_t stage)
{
    uint32_t n = 0;

    for (uint32_t k = 0; k < EDGES_MAX; k++) {
        if (plan->edges[k].capacity == 0 || plan->edges[k].to != stage)
            continue;
        n += plan->edges[k].capacity;
        if (plan->stages[plan->edges[k].from].kind == HR_STAGE_MERGE)
            n += places_to(plan->edges[k].from);
    }
    return n;
}

/* What is on the way has a place there, results that wait for their turn included. */
static const char *check_places(void)
{
    uint32_t there[STAGES_MAX] = {0};

    for (uint32_t i = 0; i < world->thing_count; i++)
        there[world->things[i].to] += world->things[i].where == IN_SCHED;
    there[stage_count - 1] += world->lent;
    for (uint32_t i = 0; i < stage_count; i++) {
        if (there[i] > places_to(i))
            return "more items than places";
    }
    return NULL;
}

static const char *check_the_end(void)
{
    if (!world->ended)
        return "nothing can happen any more, but the end was not told";
    for (uint32_t i = 0; i < world->thing_count; i++) {
        if (world->things[i].where == IN_SCHED || world->things[i].where == IN_TASK)
            return "an item was lost";
    }
    if (world->cancelled || world->policy_met)
        return NULL;
    for (uint32_t i = 0; i < stage_count; i++) {
        if (world->kept[i] > 0)
            return "a fold was not flushed at the end";
    }
    if (!world->drained && world->marks + 1 != plan->epochs)
        return "a mark was lost";
    return NULL;
}

/* The end is told when all has ended, and not before. */
static const char *check_end_is_told(void)
{
    struct hr_sched *sched = world->sched;
    hr_handle id;

    if (sched->sink->in->queued > 0)
        return NULL; /* there is something to take, which would change the state */
    if (hr__sched_take(sched, &id, 0) == HR_TAKE_END
            ? world->open_count > 0
            : world->open_count == 0 && hr__sched_ended(sched))
        return "the end was told while tasks are open, or was not told";
    return NULL;
}

const char *world_check(bool at_end)
{
    const char *wrong = hr__sched_check(world->sched);

    if (!wrong)
        wrong = check_end_is_told();
    if (!wrong)
        wrong = check_open();
    if (!wrong)
        wrong = check_places();
    if (!wrong && at_end)
        wrong = check_the_end();
    return wrong;
}
