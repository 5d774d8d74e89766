/* sim.h - the parts of the scheduler's simulation.
 *
 *   sim_make.c    a random plan
 *   sim_plan.c    what the op of each stage does
 *   sim_model.c   what must come out of it, worked out one stage after the other
 *   sim_drive.c   the real scheduler, served by virtual workers in random order (with
 *                 sim_books.c and sim_ops.c)
 *   sim.c         the command line, and the comparison of the two
 *
 * An item is a vector of leaves (64-bit keys) of one epoch. Ops decide by a hash of the
 * leaves alone, so what they do does not depend on the schedule. Where the schedule
 * decides what is in a batch (unordered input), the batch is `loose`: ops after it let
 * everything pass, so the leaves that must come out are still known. */
#ifndef HR_TESTS_SIM_H
#define HR_TESTS_SIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sched/sched.h"

enum { SIM_STAGES_MAX = 64, SIM_EDGES_MAX = 96, SIM_EPOCHS_MAX = 6, SIM_LANES = 3 };

struct rng {
    uint64_t state;
};

uint64_t rng_next(struct rng *rng);
uint32_t rng_below(struct rng *rng, uint32_t n);
bool rng_chance(struct rng *rng, uint32_t percent);
uint64_t sim_mix(uint64_t a, uint64_t b);

struct leaves {
    uint64_t *keys;
    uint32_t count;
};

/* What the op of a stage does. Percentages of items, chosen by hash. */
struct sim_op {
    uint64_t salt;
    uint32_t filter_percent, fail_percent;
    uint32_t children_max;          /* expand: 0 to this many */
    uint32_t fold_every;            /* fold: a result after this many inputs */
    bool loose;                     /* its items' contents depend on the schedule */
    uint32_t paths;                 /* route */
    uint32_t sizes[SIM_EPOCHS_MAX]; /* source: items in epoch 0 … marks (the last one
                                       ends with the source) */
    uint32_t marks;
    uint32_t fail_at; /* source: fails before giving this item; UINT32_MAX never */
};

struct sim_plan {
    struct hr_sched_stage stages[SIM_STAGES_MAX];
    struct sim_op ops[SIM_STAGES_MAX];
    struct hr_sched_edge edges[SIM_EDGES_MAX];
    uint32_t stage_count, edge_count;
    bool ordered; /* the sequence at the sink is determined */
    bool loose;   /* the batches there depend on the schedule, */
    bool known;   /* but their leaves do not */
};

void sim_plan_make(struct sim_plan *plan, struct rng *rng);
void sim_plan_print(const struct sim_plan *plan);

/* The op of the stage on the item: how it ends, and for how many outputs. */
struct sim_verdict {
    bool failed, filtered;
    uint32_t outputs;
    uint32_t path;
};

struct sim_verdict sim_op_judge(const struct sim_plan *plan, uint32_t stage,
                                const struct leaves *input);
/* Output `index` of it. The result is the caller's to free. */
struct leaves sim_op_output(const struct sim_plan *plan, uint32_t stage,
                            const struct leaves *input, uint32_t index);
struct leaves sim_source_item(uint32_t stage, uint32_t index);
struct leaves sim_concat(const struct leaves *parts, uint32_t count);
uint64_t sim_hash(const struct leaves *leaves);

/* A sequence of items, epoch by epoch. */
struct sim_list {
    struct leaves *items;
    uint32_t count, room;
};

struct sim_stream {
    struct sim_list epochs[SIM_EPOCHS_MAX];
    uint32_t marks;
};

void sim_list_add(struct sim_list *list, struct leaves item);
void sim_stream_free(struct sim_stream *stream);

/* What the sink gets when nothing stops the run. False: it cannot be told, because a
 * failure policy ends the run somewhere. */
bool sim_model_run(const struct sim_plan *plan, struct sim_stream *out);

enum sim_stop { SIM_STOP_NEVER, SIM_STOP_DRAIN, SIM_STOP_CANCEL };

struct sim_result {
    struct sim_stream out;
    enum sim_stop stop;
    bool failed; /* a policy ended the run */
    uint64_t steps;
};

/* Returns NULL, or what went wrong. */
const char *sim_drive(const struct sim_plan *plan, struct rng *rng, bool verbose,
                      struct sim_result *result);

#endif
