/* explore.c - the plans, and the search through all their states.
 *
 * Depth first. Of each state it is demanded that
 *
 *   - every invariant holds (hr__sched_check, and the books: world_check);
 *   - somebody can get on: a worker, the consumer, or who fetches released handles. A
 *     stop, a drain or a shut gate do not count as that;
 *   - it is not come back to on any way: then every way ends, and since the last state of
 *     each is one where the end was told and nothing is left, every run ends, however
 *     unfairly its threads are scheduled.
 *
 * "Stop ends in bounded steps" is the longest way from any state after a cancel. It must
 * not be longer than the plan says, whatever was under way: each task in flight finishes
 * or is claimed and closed; each entry of the sink is taken; places are given back, and
 * released handles fetched, at most once for each of those; and the end is told. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "explore.h"

enum { TABLE_BITS = 22, DEPTH_MAX = 400 };

static const struct small_plan plans[] = {
#define STAGE_OF(KIND, TASKS, ITEMS, FAILURES, ...)                                    \
    {.kind = HR_STAGE_##KIND,                                                          \
     .concurrency = (TASKS),                                                           \
     .arity = (ITEMS),                                                                 \
     .failures_max = (FAILURES),                                                       \
     __VA_ARGS__}
#define STAGE(KIND, TASKS, ...) STAGE_OF(KIND, TASKS, 1, -1, __VA_ARGS__)
#define BATCH(TASKS, ITEMS, ...) STAGE_OF(AGGREGATE, TASKS, ITEMS, -1, __VA_ARGS__)
#define STRICT(KIND, TASKS, FAILURES) STAGE_OF(KIND, TASKS, 1, FAILURES, )
#define SOURCE STAGE(SOURCE, 1, )
#define SINK STAGE(SINK, 1, )
    {.name = "expand, as completed, into batches that fill their edge",
     .stages = {SOURCE, STAGE(EXPAND, 2, ), BATCH(1, 2, ), SINK},
     .edges = {{0, 1, 1}, {1, 2, 2}, {2, 3, 1}},
     .workers = {1, 1},
     .sizes = {{2, 1}},
     .epochs = 2,
     .children = 2,
     .failures = 1,
     .drains = true,
     .stops = true},
    {.name = "two maps, one place each",
     .stages = {SOURCE, STAGE(MAP, 2, ), STAGE(FILTER, 1, .lane = 1), SINK},
     .edges = {{0, 1, 1}, {1, 2, 1}, {2, 3, 1}},
     .workers = {1, 3},
     .sizes = {{4}},
     .epochs = 1,
     .failures = 1,
     .filters = 1,
     .gates = true,
     .drains = true,
     .stops = true},
    {.name = "batches whose rest is dropped",
     .stages = {SOURCE, BATCH(2, 2, .drop_last = true), SINK},
     .edges = {{0, 1, 3}, {1, 2, 2}},
     .workers = {1, 1, 1},
     .sizes = {{5, 1, 1}},
     .epochs = 3,
     .drains = true,
     .stops = true},
    {.name = "batches and their members again",
     .stages = {SOURCE, BATCH(1, 2, ), STAGE(DISAGGREGATE, 2, ), SINK},
     .edges = {{0, 1, 2}, {1, 2, 1}, {2, 3, 2}},
     .workers = {1, 1},
     .sizes = {{4}},
     .epochs = 1,
     .children = 2,
     .failures = 1,
     .drains = true,
     .stops = true},
    {.name = "fold, three epochs",
     .stages = {SOURCE, STAGE(FOLD, 1, ), STAGE(MAP, 2, ), SINK},
     .edges = {{0, 1, 2}, {1, 2, 1}, {2, 3, 2}},
     .workers = {1, 1},
     .sizes = {{3, 0, 2}},
     .epochs = 3,
     .failures = 1,
     .drains = true,
     .stops = true},
    {.name = "fold without a last result",
     .stages = {SOURCE, STAGE(FOLD, 1, .drop_last = true), STAGE(MAP, 1, ), SINK},
     .edges = {{0, 1, 2}, {1, 2, 1}, {2, 3, 1}},
     .workers = {1, 1},
     .sizes = {{3, 1}},
     .epochs = 2,
     .drains = true,
     .stops = true},
    {.name = "route, and a merge of its paths",
     .stages = {SOURCE, STAGE(ROUTE, 1, ), STRICT(MAP, 1, 0), STAGE(MERGE, 1, ), SINK},
     .edges = {{0, 1, 2}, {1, 2, 1}, {1, 3, 1}, {2, 3, 1}, {3, 4, 1}},
     .workers = {1, 1},
     .sizes = {{3, 1}},
     .epochs = 2,
     .failures = 2,
     .stops = true},
    {.name = "merge of two sources",
     .stages = {SOURCE, SOURCE, STAGE(MERGE, 1, ), SINK},
     .edges = {{0, 2, 1}, {1, 2, 2}, {2, 3, 2}},
     .workers = {1, 1},
     .sizes = {{2, 1}, {0, 2}},
     .epochs = 2,
     .failures = 1,
     .gates = true,
     .drains = true,
     .stops = true},
    {.name = "too many failures, further down",
     .stages = {SOURCE, STAGE(EXPAND, 1, ), STRICT(MAP, 2, 1), SINK},
     .edges = {{0, 1, 1}, {1, 2, 2}, {2, 3, 2}},
     .workers = {1, 1},
     .sizes = {{2}},
     .epochs = 1,
     .children = 2,
     .failures = 3,
     .stops = true},
    {.name = "a failure cuts, in order",
     .stages = {SOURCE, STAGE(MAP, 3, .order = HR_ORDER_INPUT, .cuts = true), SINK},
     .edges = {{0, 1, 3}, {1, 2, 3}},
     .workers = {1, 1, 1},
     .sizes = {{4, 1}},
     .epochs = 2,
     .failures = 3,
     .ordered = true,
     .stops = true},
    {.name = "a failure cuts, as completed, three epochs",
     .stages = {SOURCE, STAGE(MAP, 3, .cuts = true), SINK},
     .edges = {{0, 1, 4}, {1, 2, 4}},
     .workers = {1, 1, 1},
     .sizes = {{2, 1, 1}},
     .epochs = 3,
     .failures = 3,
     .stops = true},
    {.name = "a failure cuts a stream",
     .stages = {SOURCE, STAGE(EXPAND, 2, .order = HR_ORDER_INPUT, .cuts = true), SINK},
     .edges = {{0, 1, 2}, {1, 2, 3}},
     .workers = {1, 1},
     .sizes = {{2, 1}},
     .epochs = 2,
     .children = 2,
     .failures = 2,
     .ordered = true,
     .stops = true},
    {.name = "two tasks on one slot, then batches",
     .stages = {SOURCE, STAGE(MAP, 2, ), BATCH(1, 2, ), SINK},
     .edges = {{0, 1, 3}, {1, 2, 3}, {2, 3, 1}},
     .workers = {1, 1},
     .sizes = {{4, 2}},
     .epochs = 2,
     .failures = 1,
     .rides = true,
     .stops = true},
    {.name = "a worker for each lane",
     .stages = {SOURCE, STAGE(MAP, 2, .lane = 1, .order = HR_ORDER_INPUT),
                STAGE(MAP, 2, ), SINK},
     .edges = {{0, 1, 2}, {1, 2, 2}, {2, 3, 1}},
     .workers = {1, 2},
     .sizes = {{3, 1}},
     .epochs = 2,
     .failures = 1,
     .ordered = true,
     .gates = true,
     .drains = true,
     .stops = true},
    {.name = "map, as completed",
     .stages = {SOURCE, STAGE(MAP, 3, ), SINK},
     .edges = {{0, 1, 3}, {1, 2, 3}},
     .workers = {1, 1, 1},
     .sizes = {{4}},
     .epochs = 1,
     .failures = 1,
     .filters = 1,
     .gates = true,
     .drains = true,
     .stops = true},
    {.name = "map, in order, three epochs",
     .stages = {SOURCE, STAGE(MAP, 3, .order = HR_ORDER_INPUT), SINK},
     .edges = {{0, 1, 2}, {1, 2, 4}},
     .workers = {1, 1, 1},
     .sizes = {{3, 1, 2}},
     .epochs = 3,
     .failures = 1,
     .ordered = true,
     .drains = true,
     .stops = true},
    {.name = "expand, in order, two epochs",
     .stages = {SOURCE, STAGE(EXPAND, 2, .order = HR_ORDER_INPUT), SINK},
     .edges = {{0, 1, 2}, {1, 2, 3}},
     .workers = {1, 1},
     .sizes = {{2, 2}},
     .epochs = 2,
     .children = 2,
     .failures = 1,
     .ordered = true,
     .drains = true,
     .stops = true},
};

/* ---- what was seen ---- */

struct seen {
    struct world_key key;
    uint16_t longest; /* events to the end, at most */
    uint8_t number;   /* of the plan that came here; other plans' states are no more */
    bool under_way;
};

static struct seen *table;
static uint8_t plan_number;
static uint64_t states, steps;
static uint32_t longest_stop, depth;
static struct event trail[DEPTH_MAX];
static const char *wrong;

static struct seen *find(struct world_key key)
{
    uint64_t i = key.a ^ key.b >> 7;

    for (;; i++) {
        struct seen *seen = &table[i & ((1u << TABLE_BITS) - 1)];

        if (seen->number != plan_number ||
            (seen->key.a == key.a && seen->key.b == key.b))
            return seen;
    }
}

/* ---- the search ---- */

static uint32_t stop_bound(void)
{
    uint32_t tasks = 0, places = 0;

    for (uint32_t i = 0; i < stage_count; i++)
        tasks += plan->stages[i].concurrency;
    if (plan->rides)
        tasks++;
    for (uint32_t k = 0; k < EDGES_MAX; k++)
        places =
            plan->edges[k].to == stage_count - 1 ? plan->edges[k].capacity : places;
    /* a task: finish, claim, close, and a fetch after each; an entry: take, credit;
     * the places lent before; what cancelling released, four at a time; the end */
    return 4 * tasks + 2 * places + 1 + THINGS_MAX / 4 + 1;
}

static bool can_get_on(const struct event *events, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (events[i].kind < SHUT_GATE)
            return true;
    }
    return count == 0;
}

static bool go_wrong(const char *what)
{
    if (!wrong && what) {
        wrong = what;
        printf("# %s: %s, after\n", plan->name, what);
        for (uint32_t i = 0; i < depth; i++)
            event_print(&trail[i]);
    }
    return what != NULL;
}

static uint32_t explore(void);

/* Everything that can happen in this state. Returns the longest way to the end. */
static uint32_t try_all(const struct event *events, uint32_t count)
{
    unsigned char *here = malloc(world_size());
    uint32_t longest = 0;

    if (!here)
        abort();
    world_save(here);
    for (uint32_t i = 0; i < count && !wrong; i++) {
        uint32_t way;

        trail[depth++] = events[i];
        steps++;
        if (!go_wrong(event_do(&events[i]))) {
            way = 1 + explore();
            longest = way > longest ? way : longest;
        }
        depth--;
        world_restore(here);
    }
    free(here);
    return longest;
}

static uint32_t explore(void)
{
    struct event events[EVENTS_MAX];
    uint32_t count, longest;
    struct seen *seen = find(world_key());

    if (seen->number == plan_number) {
        go_wrong(seen->under_way ? "a way leads back to where it was" : NULL);
        return seen->longest;
    }
    if (++states > (1u << TABLE_BITS) * 3 / 4 || depth == DEPTH_MAX) {
        go_wrong("the plan is too large to be explored");
        return 0;
    }
    *seen = (struct seen){world_key(), 0, plan_number, true};
    count = events_list(events);
    if (go_wrong(world_check(count == 0)) ||
        go_wrong(can_get_on(events, count) ? NULL : "nobody can get on"))
        return 0;
    longest = try_all(events, count);
    seen->under_way = false;
    seen->longest = (uint16_t)longest;
    if (world->cancelled && longest > longest_stop)
        longest_stop = longest;
    return longest;
}

static bool explore_plan(const struct small_plan *small, uint32_t number)
{
    plan_number = (uint8_t)number;
    states = steps = 0;
    longest_stop = depth = 0;
    wrong = NULL;
    world_new(small);
    explore();
    if (longest_stop > stop_bound())
        go_wrong("a stop takes more steps than the plan allows");
    printf("%s %u - %s: %" PRIu64 " states, %" PRIu64
           " events, a stop ends after %u of them at most\n",
           wrong ? "not ok" : "ok", number, small->name, states, steps, longest_stop);
    return !wrong;
}

/* explore [--bail]: the latter stops at the first plan that fails. */
int main(int argc, char **argv)
{
    uint32_t count = sizeof(plans) / sizeof(plans[0]), failed = 0;
    bool bail = argc > 1 && strcmp(argv[1], "--bail") == 0;

    table = calloc((size_t)1 << TABLE_BITS, sizeof(*table));
    if (!table)
        abort();
    printf("TAP version 13\n1..%u\n", count);
    for (uint32_t i = 0; i < count && !(bail && failed > 0); i++) {
        failed += !explore_plan(&plans[i], i + 1);
        fflush(stdout);
    }
    free(table);
    return failed > 0;
}
