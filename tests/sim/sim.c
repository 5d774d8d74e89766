/* sim.c - simulation of the scheduler: sim [--seeds N] [--first S] | --seed X
 * [--verbose]
 *
 * A seed is a random plan and a random schedule. Where nothing stopped the run, what
 * the sink got is compared with the sequential model: as a sequence where the plan
 * determines one, else as a multiset, epoch by epoch. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim.h"

struct tally {
    uint64_t steps, compared, sequences, stopped, failed;
};

static int compare_keys(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

static bool same_multiset(uint64_t *a, uint64_t *b, uint32_t count)
{
    qsort(a, count, sizeof(*a), compare_keys);
    qsort(b, count, sizeof(*b), compare_keys);
    return memcmp(a, b, sizeof(*a) * count) == 0;
}

static bool same_sequence(const struct sim_list *a, const struct sim_list *b)
{
    for (uint32_t i = 0; i < a->count; i++) {
        if (sim_hash(&a->items[i]) != sim_hash(&b->items[i]))
            return false;
    }
    return true;
}

/* As a multiset of items, or, where batches are the schedule's, of leaves. */
static bool same_contents(const struct sim_plan *plan, const struct sim_list *a,
                          const struct sim_list *b)
{
    struct leaves all_a = sim_concat(a->items, a->count);
    struct leaves all_b = sim_concat(b->items, b->count);
    bool same = all_a.count == all_b.count;

    if (!plan->loose) {
        for (uint32_t i = 0; same && i < a->count; i++) {
            all_a.keys[i] = sim_hash(&a->items[i]);
            all_b.keys[i] = sim_hash(&b->items[i]);
        }
        same = same && same_multiset(all_a.keys, all_b.keys, a->count);
    } else {
        same = same && same_multiset(all_a.keys, all_b.keys, all_a.count);
    }
    free(all_a.keys);
    free(all_b.keys);
    return same;
}

static const char *compare(const struct sim_plan *plan, const struct sim_stream *want,
                           const struct sim_stream *got)
{
    if (want->marks != got->marks)
        return "the sink got a wrong number of marks";
    for (uint32_t e = 0; e <= want->marks && plan->known; e++) {
        const struct sim_list *a = &want->epochs[e], *b = &got->epochs[e];

        if (a->count != b->count)
            return "the sink got too many items, or too few";
        if (plan->ordered ? !same_sequence(a, b) : !same_contents(plan, a, b))
            return "the sink got other items than the model";
    }
    return NULL;
}

static const char *run_seed(uint64_t seed, bool verbose, struct tally *tally)
{
    struct sim_plan plan;
    struct sim_result result = {0};
    struct sim_stream want;
    struct rng rng = {seed};
    const char *wrong;
    bool certain;

    sim_plan_make(&plan, &rng);
    if (verbose)
        sim_plan_print(&plan);
    certain = sim_model_run(&plan, &want);
    wrong = sim_drive(&plan, &rng, verbose, &result);
    tally->steps += result.steps;
    tally->stopped += result.stop != SIM_STOP_NEVER;
    tally->failed += result.failed;
    if (result.failed && !plan.known)
        certain = false; /* the schedule decided what the failing stage got */
    if (!wrong && certain && result.stop == SIM_STOP_NEVER) {
        wrong = result.failed ? "a policy ended the run, but the model has no excess"
                              : compare(&plan, &want, &result.out);
        tally->compared += plan.known;
        tally->sequences += plan.known && plan.ordered;
    }
    sim_stream_free(&want);
    sim_stream_free(&result.out);
    return wrong;
}

int main(int argc, char **argv)
{
    uint64_t first = 1, seeds = 20000;
    struct tally tally = {0};
    bool verbose = false;

    for (int i = 1; i < argc; i++) {
        uint64_t *number = strcmp(argv[i], "--seeds") == 0   ? &seeds
                           : strcmp(argv[i], "--first") == 0 ? &first
                           : strcmp(argv[i], "--seed") == 0  ? &first
                                                             : NULL;

        if (strcmp(argv[i], "--verbose") == 0) {
            verbose = true;
        } else if (number && i + 1 < argc) {
            seeds = strcmp(argv[i], "--seed") == 0 ? 1 : seeds;
            *number = strtoull(argv[++i], NULL, 10);
        } else {
            fprintf(stderr,
                    "usage: %s [--seeds N] [--first S] | --seed X [--verbose]\n",
                    argv[0]);
            return 2;
        }
    }
    for (uint64_t seed = first; seed - first < seeds; seed++) {
        const char *wrong = run_seed(seed, verbose, &tally);

        if (wrong) {
            printf("sim: %s; replay: %s --seed %" PRIu64 " --verbose\n", wrong, argv[0],
                   seed);
            return 1;
        }
    }
    printf("sim: %" PRIu64 " seeds, %" PRIu64 " steps; %" PRIu64
           " compared with the model (%" PRIu64 " as sequences), %" PRIu64
           " stopped on the way, %" PRIu64 " ended by a failure policy\n",
           seeds, tally.steps, tally.compared, tally.sequences, tally.stopped,
           tally.failed);
    return 0;
}
