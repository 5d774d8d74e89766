/* explore.h - every schedule of a small plan, over the real scheduler.
 *
 *   explore.c         the plans, the search, the report
 *   explore_world.c   a state: the scheduler's whole memory and the books beside it; when
 *                     two states are the same; what must hold in each
 *   explore_events.c  what may happen in a state, and doing it
 *
 * The simulation (tests/sim) draws large plans and schedules at random. Here plans are so
 * small (2 to 4 items, 1 to 3 stages, 2 or 3 workers) that all that can happen is tried in
 * every order: each idle worker claims, with and without a second task on the slot; each
 * task at work ends in each way it can; the consumer takes or gives back a place;
 * released handles are fetched; the run is drained, cancelled or its gate shut, at every
 * step. States that were seen before are not gone through again, so the search ends. */
#ifndef HR_TESTS_EXPLORE_H
#define HR_TESTS_EXPLORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sched/sched.h"

enum { STAGES_MAX = 6, EDGES_MAX = 6, EPOCHS_MAX = 3, WORKERS_MAX = 3 };
enum { THINGS_MAX = 40, OPEN_MAX = 12, INPUTS_MAX = 3, NOTHING = 255 };

/* Only the kind, and what differs from a plain stage, need be given: see explore.c. */
struct small_plan {
    const char *name;
    struct hr_sched_stage stages[STAGES_MAX];
    struct hr_sched_edge edges[EDGES_MAX];
    uint32_t workers[WORKERS_MAX];    /* lanes of each; 0: there is none */
    uint8_t sizes[2][EPOCHS_MAX];     /* items of the first and second source, */
    uint8_t epochs;                   /* in so many epochs */
    uint8_t children;                 /* an expand gives 0 to this many */
    uint8_t failures, filters;        /* so many tasks fail, or filter, at most */
    bool ordered;                     /* items come out in the source's order */
    bool rides, gates, drains, stops; /* what is tried */
};

enum where { UNMADE, IN_SCHED, IN_TASK, DELIVERED, RELEASED, REFUSED, CONSUMED };

struct thing {
    hr_handle id; /* made of what it was made of: the same in every schedule */
    uint8_t where, epoch, to;
    uint8_t seq; /* its place in the source's order */
};

/* A task that was claimed and is not over. */
struct open_task {
    uint32_t task;
    uint8_t stage, worker; /* NOTHING: it is paused */
    uint8_t epoch, given, grant;
    uint8_t input_count, inputs[INPUTS_MAX]; /* things */
    bool closing, first_of_two, second_of_two;
};

struct world {
    struct hr_sched *sched;
    struct thing things[THINGS_MAX];
    struct open_task open[OPEN_MAX];
    uint8_t thing_count, open_count;
    uint8_t next_item[STAGES_MAX], next_epoch[STAGES_MAX], epoch_given[STAGES_MAX];
    uint8_t kept[STAGES_MAX]; /* fold: inputs since the last result, */
    uint8_t kept_epoch[STAGES_MAX];
    uint8_t failed[STAGES_MAX]; /* tasks, as far as they count */
    uint8_t failures, filters, lent, marks, last_seq;
    uint8_t cut_epoch, cut_seq; /* nothing may come that is after these */
    bool drained, cancelled, gate_shut, gate_was_shut, ended;
    bool policy_met; /* a stage or a source has ended the run */
};

/* const while a plan is explored */
extern const struct small_plan *plan;
extern uint32_t stage_count;
/* The state that is looked at. */
extern struct world *world;

/* Start anew with the plan. */
void world_new(const struct small_plan *small);
size_t world_size(void);
void world_save(void *to);
void world_restore(const void *from);

struct world_key {
    uint64_t a, b;
};

/* Equal for states from which the same can follow. */
struct world_key world_key(void);
/* The number of a thing that the scheduler speaks of, or NOTHING. */
uint8_t thing_of(hr_handle id);
uint8_t thing_add(hr_handle id, uint8_t epoch, uint8_t seq, uint8_t to);
/* NULL, or what is wrong with this state; `at_end`: and nothing can happen any more. */
const char *world_check(bool at_end);

enum event_kind {
    CLAIM,
    CLAIM_TWO,
    FINISH,
    TAKE,
    CREDIT,
    FETCH,
    OPEN_GATE,
    /* these must not be needed to get on: */
    SHUT_GATE,
    DRAIN,
    CANCEL
};

struct event {
    enum event_kind kind;
    uint8_t who;                  /* a worker, or the open task */
    enum hr_task_outcome outcome; /* of FINISH, */
    uint8_t count, path;          /* its outputs, and where a route sends it */
};

enum { EVENTS_MAX = 64 };

/* All that may happen now. */
uint32_t events_list(struct event *out);
/* NULL, or what is wrong with how the scheduler answered. */
const char *event_do(const struct event *event);
void event_print(const struct event *event);

#endif
