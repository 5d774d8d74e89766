/* cpus.h - how many threads a pipeline gets when nobody says. */
#ifndef HR_ENGINE_CPUS_H
#define HR_ENGINE_CPUS_H

#include <stdint.h>

/* HEADRACE_THREADS if set; else the CPUs that affinity and the cgroup's quota allow,
 * divided by LOCAL_WORLD_SIZE; at least 1. */
uint32_t hr__cpus_default(void);

/* CPUs, rounded up, of a cgroup v2 cpu.max line; 0: no limit. */
uint32_t hr__cpus_of_quota(const char *text);

#endif
