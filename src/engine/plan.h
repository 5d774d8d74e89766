/* plan.h - what pipeline.c takes from a plan. */
#ifndef HR_ENGINE_PLAN_H
#define HR_ENGINE_PLAN_H

#include "engine/engine.h"

void hr__stage_fini(struct hr_stage *stage);
/* Places of the channel behind stage i. */
uint32_t hr__plan_places(const struct hr_plan *plan, uint32_t i);
/* Items that the source may be ahead; prompt: see hr_call. */
uint32_t hr__plan_read_ahead(const struct hr_plan *plan, bool prompt);
enum hr_status hr__plan_schedule(const struct hr_plan *plan, int64_t now_ns,
                                 struct hr_sched **out, struct hr_error *err);

#endif
