/* plan.h - what pipeline.c takes from a plan. */
#ifndef HR_ENGINE_PLAN_H
#define HR_ENGINE_PLAN_H

#include "engine/engine.h"

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
