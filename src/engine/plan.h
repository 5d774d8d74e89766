/* plan.h - a plan, which plan.c and plan_graph.c make and a pipeline is made of. */
#ifndef HR_ENGINE_PLAN_H
#define HR_ENGINE_PLAN_H

#include "engine/engine.h"

/* A route of a plan in the making. */
struct hr_plan_route {
    uint32_t stage;
    uint32_t ends[HR_SCHED_FAN_MAX]; /* the last stage of each path; empty: the route */
    uint32_t end_count;
    bool in_path;
};

enum { HR_PLAN_ROUTES_MAX = 8 };

struct hr_plan {
    struct hr_stage *stages;
    struct hr_sched_stage *sched_stages;
    uint32_t count, capacity;
    struct hr_sched_edge *edges; /* their capacities are worked out in the end */
    uint32_t edge_count, edges_max;
    uint32_t tail; /* the stage that the next one comes behind */
    struct hr_plan_route routes[HR_PLAN_ROUTES_MAX];
    uint32_t depth;                      /* routes that are open */
    uint32_t branches[HR_SCHED_FAN_MAX]; /* the last stage of each */
    uint32_t branch_count;
    bool begins_branch; /* a source has to come */
    uint32_t source_count;
    uint32_t sink_buffer;
    bool complete; /* has its sink */
    const struct hr_runtime *runtime;
};

void hr__stage_fini(struct hr_stage *stage);
/* plan.c: add a stage, behind the plan's tail unless it is a source or a merge. */
enum hr_status hr__plan_add(struct hr_plan *plan, enum hr_stage_kind kind,
                            enum hr_stage_body body, uint32_t lane, const char *name,
                            struct hr_error *err);

/* plan_graph.c */

/* A channel between two stages. */
enum hr_status hr__plan_connect(struct hr_plan *plan, uint32_t from, uint32_t to,
                                struct hr_error *err);
/* Its places. */
uint32_t hr__plan_places(const struct hr_plan *plan, uint32_t edge);
/* Items that the source may be ahead; prompt: see hr_call. */
uint32_t hr__plan_read_ahead(const struct hr_plan *plan, bool prompt);
/* Settles the capacities of the plan's channels. */
enum hr_status hr__plan_schedule(const struct hr_plan *plan, int64_t now_ns,
                                 struct hr_sched **out, struct hr_error *err);

#endif
