/* taps.h - resize weights: which input samples make an output sample, and how much of
 * each. */
#ifndef HR_IMAGE_TAPS_H
#define HR_IMAGE_TAPS_H

#include <stdbool.h>
#include <stdint.h>

#include "headrace/image.h"
#include "image/tables.h"

/* Weights are fixed-point numbers with this many bits after the point. */
#define HR_TAPS_BITS 22
/* The SIMD kernels multiply 16-bit numbers: weight = high * 2^15 + low,
 * with low in 0 … 2^15 - 1. */
#define HR_TAPS_LOW_BITS 15

/* What a table is made for: outputs first … first + count - 1 of the `out` samples
 * that `in` samples are resized to. With mirror, samples come last first, both those
 * that go in and those that come out; with flip, only those that come out. */
struct hr__taps_key {
    int64_t in;
    int64_t out;
    int64_t first;
    int64_t count;
    enum hr_scale_algo algo;
    bool mirror;
    bool flip;
};

/* Every output has 2 * pairs weights, for the inputs from start on; those beyond the
 * filter's reach are 0. Near the end start is moved down, so that all 2 * pairs inputs
 * exist, unless there are fewer than that altogether. */
struct hr__taps {
    struct hr__table table;
    struct hr__taps_key key;
    int64_t pairs;
    int32_t *start;  /* [count], never falling (flip: never rising) */
    int32_t *weight; /* [count][2 * pairs] */
    /* [count][pairs][2]: of weights 2j and 2j+1 the low parts, then the high parts,
     * each two in one 32-bit word as pmaddwd wants them. */
    int32_t *split;
};

#define HR_TAPS_CACHE 8

/* A worker's tables. Zero-initialised. */
struct hr__taps_cache {
    struct hr__taps entry[HR_TAPS_CACHE];
    uint64_t clock;
};

/* The table for key, made when absent. *out is borrowed; it stays valid during the
 * next HR_TAPS_CACHE - 1 calls with other keys.
 * Errors: HR_ERR_LIMIT (a side over 2^31 - 1 or a table that would not fit memory),
 * HR_ERR_NOMEM. */
HR_MUST_USE enum hr_status hr__taps_get(struct hr__taps_cache *cache,
                                        const struct hr__taps_key *key,
                                        const struct hr__taps **out,
                                        struct hr_error *err);
void hr__taps_cache_fini(struct hr__taps_cache *cache);

#endif
