/* histogram.h - how long the tasks of a stage took: counts by time, log-linear.
 *
 *     0 1 ... 7 | 8 9 ... 15 | 16 18 ... 30 | 32 36 ... 60 | ...      lower bounds, ns
 *
 * Eight buckets to each power of two, so a bucket is at most an eighth as wide as its
 * lower bound. A time is told as the harmonic mean of its bucket's bounds, which is off by
 * (high - low) / (high + low) at most: 1/17, or 5.9 %. Times under 8 ns are exact, those
 * over 2^46 ns (19 hours) count as that.
 *
 * Not the P-square estimate, which other loaders use: it is wrong for few samples, costs
 * more, and cannot be merged. Fixed size, no allocation; adding takes some 2 ns. */
#ifndef HR_ENGINE_HISTOGRAM_H
#define HR_ENGINE_HISTOGRAM_H

#include <stddef.h>
#include <stdint.h>

enum {
    HR_HISTOGRAM_SUB_BITS = 3,
    HR_HISTOGRAM_BITS_MAX = 46,
    HR_HISTOGRAM_SIZE = (HR_HISTOGRAM_BITS_MAX - HR_HISTOGRAM_SUB_BITS + 1)
        << HR_HISTOGRAM_SUB_BITS
};

/* Guarded by whatever guards its owner. Zeroed is empty. */
struct hr_histogram {
    uint64_t counts[HR_HISTOGRAM_SIZE];
};

static inline uint32_t hr__histogram_bucket(int64_t ns)
{
    uint64_t v = ns > 0 ? (uint64_t)ns : 0;
    if (v >> HR_HISTOGRAM_BITS_MAX)
        return HR_HISTOGRAM_SIZE - 1;
    if (v >> HR_HISTOGRAM_SUB_BITS == 0)
        return (uint32_t)v;
    uint32_t shift = 63u - HR_HISTOGRAM_SUB_BITS - (uint32_t)__builtin_clzll(v);
    return (shift << HR_HISTOGRAM_SUB_BITS) + (uint32_t)(v >> shift);
}

/* n times the same. */
static inline void hr__histogram_add(struct hr_histogram *histogram, int64_t ns,
                                     uint32_t n)
{
    histogram->counts[hr__histogram_bucket(ns)] += n;
}

/* By nearest rank: the smallest time that at least ppm[i] millionths of all did not
 * exceed. ppm rises. All 0 when it is empty. */
void hr__histogram_quantiles(const struct hr_histogram *histogram, const uint32_t *ppm,
                             size_t count, uint64_t *out_ns);

#endif
