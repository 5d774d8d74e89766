/* histogram.c - reading a histogram; histogram.h says what it is. */
#include "engine/histogram.h"

#include "base/banned.h"

/* The time that stands for a bucket. */
static uint64_t bucket_ns(uint32_t bucket)
{
    uint32_t per_octave = 1u << HR_HISTOGRAM_SUB_BITS;
    if (bucket < 2 * per_octave)
        return bucket; /* one wide */
    uint32_t shift = bucket / per_octave - 1;
    uint64_t low = (uint64_t)(bucket - shift * per_octave) << shift;
    uint64_t width = (uint64_t)1 << shift;
    /* 2 low high / (low + high), with high = low + width */
    double mean = 2.0 * (double)low * (double)(low + width) / (double)(2 * low + width);
    return (uint64_t)mean; /* rounded up it could be off by more */
}

/* The smallest rank (from 1) that covers the share. total * ppm could overflow. */
static uint64_t rank_of(uint64_t total, uint32_t ppm)
{
    uint64_t whole = total / 1000000 * ppm;
    uint64_t rest = (total % 1000000 * ppm + 999999) / 1000000;
    uint64_t rank = whole + rest;
    return rank > 0 ? rank : 1;
}

void hr__histogram_quantiles(const struct hr_histogram *histogram, const uint32_t *ppm,
                             size_t count, uint64_t *out_ns)
{
    uint64_t total = 0, seen = 0;
    for (uint32_t i = 0; i < HR_HISTOGRAM_SIZE; i++)
        total += histogram->counts[i];
    uint32_t bucket = 0;
    for (size_t q = 0; q < count; q++) {
        out_ns[q] = 0;
        if (total == 0)
            continue;
        while (seen + histogram->counts[bucket] < rank_of(total, ppm[q]))
            seen += histogram->counts[bucket++];
        out_ns[q] = bucket_ns(bucket);
    }
}
