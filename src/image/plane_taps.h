/* plane_taps.h - weights that take a plane's own samples straight to the target: the
 * plane's upsampling to full size and the resize from there, as one filter. */
#ifndef HR_IMAGE_PLANE_TAPS_H
#define HR_IMAGE_PLANE_TAPS_H

#include <stdbool.h>
#include <stdint.h>

#include "headrace/image.h"
#include "image/tables.h"
#include "image/yuv.h"

/* Weights are 16-bit numbers with this many bits after the point; those of one output
 * add up to 1 exactly. */
#define HR_PLANE_BITS 14
/* Above this many input samples per output the weights are too coarse. */
#define HR_PLANE_SHRINK_MAX 16
/* Every output has a multiple of this many weights, and every table a multiple of this
 * many outputs: what is too much has the weights of the last. */
#define HR_PLANE_STEP 8

/* One direction of a plane. The picture is `factor * own` pixels long or up to
 * factor - 1 shorter; of it, `full` pixels from `origin` on are resized to `out`, and
 * outputs first … first + count - 1 of these are made, the last first with flip. */
struct hr__plane_key {
    int64_t own;
    int64_t factor;
    int64_t origin;
    int64_t full;
    int64_t out;
    int64_t first;
    int64_t count;
    enum hr__upsampling upsampling;
    enum hr_scale_algo algo;
    bool flip;
};

struct hr__plane_taps {
    struct hr__table table;
    struct hr__plane_key key;
    int64_t width;   /* weights per output, a multiple of HR_PLANE_STEP */
    int64_t used;    /* of these, the first that can be other than 0; even */
    int32_t *start;  /* [count, rounded up]: the first own sample of each */
    int16_t *weight; /* [count, rounded up][width] */
    /* The same for the AVX2 kernel: of eight outputs first those of 0 and 4, then of 1
     * and 5, and so on, of either HR_PLANE_STEP by turns. */
    int16_t *paired;
    int64_t low; /* own samples low … high - 1 have a weight somewhere */
    int64_t high;
};

/* Four tables a size (both directions of luma and chroma), for three sizes. */
#define HR_PLANE_CACHE 12

/* A worker's tables. Zero-initialised. */
struct hr__plane_cache {
    struct hr__plane_taps entry[HR_PLANE_CACHE];
    uint64_t clock;
};

/* The table for key, made when absent; full / out is at most HR_PLANE_SHRINK_MAX. *out
 * is borrowed; it stays valid during the next HR_PLANE_CACHE - 1 calls with other keys.
 * Errors: HR_ERR_LIMIT, HR_ERR_NOMEM. */
HR_MUST_USE enum hr_status hr__plane_taps_get(struct hr__plane_cache *cache,
                                              const struct hr__plane_key *key,
                                              const struct hr__plane_taps **out,
                                              struct hr_error *err);
void hr__plane_cache_fini(struct hr__plane_cache *cache);

#endif
