/* cpus.c - how many threads a pipeline gets when nobody says. */
#define _GNU_SOURCE /* sched_getaffinity */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#include "engine/cpus.h"
#include "base/banned.h"

static uint32_t affinity_count(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof(set), &set) != 0)
        return 1;
    int n = CPU_COUNT(&set);
    return n < 1 ? 1 : (uint32_t)n;
}

/* "QUOTA PERIOD" or "max PERIOD". */
uint32_t hr__cpus_of_quota(const char *text)
{
    char *end;
    unsigned long long quota = strtoull(text, &end, 10);
    if (end == text)
        return 0;
    unsigned long long period = strtoull(end, NULL, 10);
    return period == 0 ? 0 : (uint32_t)(quota / period + (quota % period != 0));
}

static uint32_t quota_count(void)
{
    char line[64];
    FILE *file = fopen("/sys/fs/cgroup/cpu.max", "re");
    if (!file)
        return 0;
    char *got = fgets(line, sizeof(line), file);
    (void)fclose(file);
    return got ? hr__cpus_of_quota(line) : 0;
}

static uint32_t positive_variable(const char *name)
{
    const char *text = getenv(name);
    if (!text)
        return 0;
    char *end;
    unsigned long n = strtoul(text, &end, 10);
    return *end || end == text || n > 4096 ? 0 : (uint32_t)n;
}

uint32_t hr__cpus_default(void)
{
    uint32_t n = positive_variable("HEADRACE_THREADS");
    if (n > 0)
        return n;
    n = affinity_count();
    uint32_t quota = quota_count();
    if (quota > 0 && quota < n)
        n = quota;
    uint32_t ranks = positive_variable("LOCAL_WORLD_SIZE");
    if (ranks > 1)
        n = n / ranks;
    return n < 1 ? 1 : n;
}
