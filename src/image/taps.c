/* Resize weights.
 *
 * One output sample o of `out` sees the input around its centre (o + 1/2) * in / out.
 * The filter is stretched by the down-scaling factor (never shrunk), which is what
 * antialiases; its values at the centres of the input samples in reach, divided by
 * their sum, are the weights. They are then rounded, half away from zero, to 22 bits
 * after the point.
 *
 * Results must equal Pillow's to the last bit, so the order of the floating-point
 * operations is part of the contract: additions from left to right, multiplication by
 * the reciprocal of the stretch rather than division by it, no fused multiply-add.
 * That is why contraction is switched off for this file.
 *
 * A table for 640 -> 224 bicubic takes about 20 us, as long as resizing 40 rows; so
 * each worker keeps the last few. */
#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#elif defined(__GNUC__)
#pragma GCC optimize("fp-contract=off")
#endif

#include "image/taps.h"

#include <limits.h>
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "image/filter.h"
#include "base/banned.h"

/* How a table's filter lies over the input. */
struct reach {
    double scale;   /* input samples per output sample */
    double stretch; /* of the filter, >= 1 */
    double support; /* in input samples */
};

static void reach_init(struct reach *r, const struct hr__taps_key *key)
{
    r->scale = (double)key->in / (double)key->out;
    r->stretch = r->scale < 1.0 ? 1.0 : r->scale;
    r->support = hr__filter_support(key->algo) * r->stretch;
}

static int32_t to_fixed(double weight)
{
    double scaled = weight * (1 << HR_TAPS_BITS);

    return (int32_t)(weight < 0 ? scaled - 0.5 : scaled + 0.5);
}

/* The filter's values at the input samples lo … hi - 1; returns their sum. */
static inline __attribute__((always_inline)) double sample(enum hr_scale_algo algo,
                                                           double center,
                                                           double inverse, int64_t lo,
                                                           int64_t hi, double *real)
{
    double sum = 0.0;

    for (int64_t i = lo; i < hi; i++) {
        real[i - lo] = hr__filter_value(algo, ((double)i - center + 0.5) * inverse);
        sum += real[i - lo];
    }
    return sum;
}

/* One loop per filter. */
static double sample_any(enum hr_scale_algo algo, double center, double inverse,
                         int64_t lo, int64_t hi, double *real)
{
    switch (algo) {
    case HR_SCALE_BOX:
        return sample(HR_SCALE_BOX, center, inverse, lo, hi, real);
    case HR_SCALE_BILINEAR:
        return sample(HR_SCALE_BILINEAR, center, inverse, lo, hi, real);
    case HR_SCALE_BICUBIC:
        return sample(HR_SCALE_BICUBIC, center, inverse, lo, hi, real);
    default:
        return sample(HR_SCALE_LANCZOS, center, inverse, lo, hi, real);
    }
}

/* The weights of one output as real numbers in real[0 … *used - 1]. */
static void weigh(const struct reach *r, const struct hr__taps_key *key, int64_t o,
                  double *real, int32_t *start, int32_t *used)
{
    double center = ((double)o + 0.5) * r->scale;
    int64_t lo = (int64_t)(center - r->support + 0.5);
    int64_t hi = (int64_t)(center + r->support + 0.5);
    double sum;

    if (lo < 0)
        lo = 0;
    if (hi > key->in)
        hi = key->in;
    sum = sample_any(key->algo, center, 1.0 / r->stretch, lo, hi, real);
    for (int64_t i = 0; sum != 0.0 && i < hi - lo; i++)
        real[i] /= sum;
    *start = (int32_t)lo;
    *used = (int32_t)(hi - lo);
}

static void split_weights(const int32_t *weight, int64_t pairs, int32_t *split)
{
    const uint32_t low = (1u << HR_TAPS_LOW_BITS) - 1;

    for (int64_t j = 0; j < 2 * pairs; j += 2) {
        uint32_t a_high = (uint32_t)(weight[j] >> HR_TAPS_LOW_BITS);
        uint32_t b_high = (uint32_t)(weight[j + 1] >> HR_TAPS_LOW_BITS);

        split[j] = (int32_t)(((uint32_t)weight[j] & low) |
                             ((uint32_t)weight[j + 1] & low) << 16);
        split[j + 1] = (int32_t)((a_high & 0xffff) | b_high << 16);
    }
}

/* Lay the arrays out in one block, which is replaced when it is too small. Returns the
 * room for one output's weights, or NULL with *status set. */
static double *make_room(struct hr__taps *t, enum hr_status *status,
                         struct hr_error *err)
{
    size_t count = (size_t)t->key.count;
    size_t width = 2 * (size_t)t->pairs;
    size_t cells;
    size_t words;
    size_t bytes;

    if (!hr__mul(count, width, &cells) || !hr__mul(cells, 2, &words) ||
        !hr__add(words, count + 2 * width, &words) || !hr__mul(words, 4, &bytes)) {
        *status = hr_error_set(err, HR_ERR_LIMIT, "image", 0,
                               "resize of %lld samples to %lld needs too large a table",
                               (long long)t->key.in, (long long)t->key.out);
        return NULL;
    }
    *status = hr__table_reserve(&t->table, bytes, err);
    if (*status != HR_OK)
        return NULL;
    t->weight =
        (int32_t *)((double *)t->table.block + width); /* doubles are aligned first */
    t->split = t->weight + cells;
    t->start = t->split + cells;
    return t->table.block;
}

static void reverse(double *real, int32_t n)
{
    for (int32_t i = 0; i < n / 2; i++) {
        double last = real[n - 1 - i];

        real[n - 1 - i] = real[i];
        real[i] = last;
    }
}

/* One row of the table. */
static void fill_one(struct hr__taps *t, const struct reach *r, int64_t o, double *real)
{
    int64_t width = 2 * t->pairs;
    int64_t at = t->key.flip ? t->key.count - 1 - o : o;
    int32_t *weight = t->weight + at * width;
    int32_t start;
    int32_t used;
    int64_t moved;

    weigh(r, &t->key, t->key.first + (t->key.mirror ? t->key.count - 1 - o : o), real,
          &start, &used);
    if (t->key.mirror) {
        start = (int32_t)t->key.in - start - used;
        reverse(real, used);
    }
    moved = start + width - t->key.in;
    if (moved < 0)
        moved = 0;
    if (moved > start)
        moved = start;
    memset(weight, 0, (size_t)width * sizeof(*weight));
    for (int32_t i = 0; i < used; i++)
        weight[moved + i] = to_fixed(real[i]);
    t->start[at] = (int32_t)(start - moved);
    split_weights(weight, t->pairs, t->split + at * width);
}

static enum hr_status fill(void *table, const void *key, struct hr_error *err)
{
    struct hr__taps *t = table;
    struct reach r;
    double *real;
    double most;
    enum hr_status status = HR_OK;

    t->key = *(const struct hr__taps_key *)key;
    if (t->key.in > INT32_MAX / 2 || t->key.out > INT32_MAX)
        return hr_error_set(err, HR_ERR_LIMIT, "image", 0,
                            "resize of %lld samples to %lld: too long a side",
                            (long long)t->key.in, (long long)t->key.out);
    reach_init(&r, &t->key);
    most = floor(2 * r.support) + 1;
    if (most > (double)t->key.in)
        most = (double)t->key.in;
    t->pairs = ((int64_t)most + 1) / 2;
    real = make_room(t, &status, err);
    if (real == NULL)
        return status;
    for (int64_t o = 0; o < t->key.count; o++)
        fill_one(t, &r, o, real);
    return HR_OK;
}

static bool same_key(const void *table, const void *key)
{
    const struct hr__taps_key *a = &((const struct hr__taps *)table)->key;
    const struct hr__taps_key *b = key;

    return a->in == b->in && a->out == b->out && a->first == b->first &&
           a->count == b->count && a->algo == b->algo && a->mirror == b->mirror &&
           a->flip == b->flip;
}

static const struct hr__table_kind kind = {sizeof(struct hr__taps), same_key, fill};

enum hr_status hr__taps_get(struct hr__taps_cache *cache,
                            const struct hr__taps_key *key, const struct hr__taps **out,
                            struct hr_error *err)
{
    void *found;
    enum hr_status status = hr__tables_get(&kind, cache->entry, HR_TAPS_CACHE,
                                           &cache->clock, key, &found, err);

    *out = found;
    return status;
}

void hr__taps_cache_fini(struct hr__taps_cache *cache)
{
    hr__tables_fini(&kind, cache->entry, HR_TAPS_CACHE);
    memset(cache, 0, sizeof(*cache));
}
