/* sim_state.h - what the parts of the driver share: its own books of a run.
 *
 *   sim_books.c   items, places and failures as they should be; the reckoning at the end
 *   sim_ops.c     what a virtual worker reports when it finishes a task
 *   sim_drive.c   the steps */
#ifndef HR_TESTS_SIM_STATE_H
#define HR_TESTS_SIM_STATE_H

#include <stdio.h>

#include "sim.h"

enum { TASKS_MAX = 4096, ALL_LANES = (1 << SIM_LANES) - 1, WORKERS_MAX = 20 };

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
    bool unwanted;    /* it must start nothing any more, */
    bool excess;      /* but for its own failures alone: its tasks deliver */
    bool cut;         /* a failure cut it, of the task */
    uint32_t cut_start, cut_epoch;
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

enum sim_pick { PICK_ANY, PICK_OLDEST, PICK_NEWEST };

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
    uint32_t mood_steps; /* until it changes: */
    uint32_t weight_claim, weight_finish, weight_take, weight_release;
    bool all_claim;
    enum sim_pick pick;
    uint32_t slow_stage;
};

/* What went wrong first; always false. */
bool sim_fail(struct drive *d, const char *fmt, ...) HR_PRINTF(2, 3);

#define SAY(d, ...)                                                                    \
    do {                                                                               \
        if ((d)->verbose) {                                                            \
            printf("%6llu ", (unsigned long long)(d)->result->steps);                  \
            printf(__VA_ARGS__);                                                       \
            putchar('\n');                                                             \
        }                                                                              \
    } while (0)

hr_handle sim_item_add(struct drive *d, struct item item);
/* Never NULL; an unknown handle fails the run. */
struct item *sim_item_of(struct drive *d, hr_handle handle);
/* The item leaves the queue in front of its consumer: is it its turn? */
bool sim_item_arrives(struct drive *d, hr_handle handle, uint32_t stage);
/* Does what that task makes come after a failure that cut its stage? */
bool sim_is_cut_off(const struct drive *d, uint32_t stage, uint32_t start,
                    uint32_t epoch);
/* Fetch all released handles. */
bool sim_release(struct drive *d);
/* The books of the stage have one more task; its failure policy is applied. */
void sim_task_counted(struct drive *d, uint32_t stage);
/* The run has ended: does everything add up? */
bool sim_check_end(struct drive *d);

struct sim_report {
    enum hr_task_outcome outcome;
    hr_handle outputs[HR_SCHED_GRANT_MAX];
    uint32_t count;
};

void sim_run_op(struct drive *d, struct sim_task *task, struct sim_report *report);

#endif
