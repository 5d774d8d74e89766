/* engine_noop.c with an engine that keeps no statistics of its tasks: what those cost.
 *
 * The linker gives the engine's calls of hr__stage_account_locked to the function below
 * (--wrap), which does what the engine needs for itself, the smoothed time, and neither
 * adds up times nor fills the histogram. */
#include "engine/engine.h"
#include "engine_noop.c"

void __wrap_hr__stage_account_locked(struct hr_stage *stage, int64_t task_ns,
                                     uint32_t tasks);

void __wrap_hr__stage_account_locked(struct hr_stage *stage, int64_t task_ns,
                                     uint32_t tasks)
{
    int64_t each_ns = tasks > 0 ? task_ns / tasks : 0;

    if (tasks == 0)
        return;
    if (each_ns < 1)
        each_ns = 1;
    stage->ema_ns =
        stage->ema_ns == 0 ? each_ns : stage->ema_ns + (each_ns - stage->ema_ns) / 8;
}
