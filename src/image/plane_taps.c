/* From a plane's samples to the target in one filter.
 *
 * A decoder that makes RGB first brings chroma to full size by an upsampling filter U,
 * and a resize then applies its filter R to that. Both are linear, so R(U(x)) is one
 * filter on the plane's own samples, with half as many taps where chroma has half the
 * samples: nothing is made at full size, and nothing is rounded there. U is what the
 * decoder would have done, so the result is that of the long way but for rounding:
 *
 *     repeated    c0 c0 c1 c1               libjpeg for factors other than 2
 *     centred     c0 3/4 c0 + 1/4 c1 …      JPEG ("fancy"), WebP, MPEG-1
 *     co-sited    c0 (c0 + c1)/2 c1 …       MPEG-2, H.264 and AV1 across
 *
 * At its ends a plane is continued by its last sample. What a crop leaves out is not
 * seen by R, but by U: a crop is cut out of the full picture.
 *
 * 14 bits are enough for 16 input samples per output: the error of a sum of rounded
 * weights stays below 1/20 of a level. The rounding error of all weights of an output is
 * given to the largest, so that a flat area keeps its level exactly. */
#include "image/plane_taps.h"

#include <string.h>

#include "base/mem.h"
#include "image/filter.h"
#include "base/banned.h"

#define ONE (1 << HR_PLANE_BITS)

/* How a table's filter lies over the full-size pixels. */
struct reach {
    double scale;   /* pixels per output */
    double inverse; /* 1 / the filter's stretch */
    double support; /* in pixels */
};

static struct reach reach_of(const struct hr__plane_key *key)
{
    double scale = (double)key->full / (double)key->out;
    double stretch = scale < 1.0 ? 1.0 : scale;

    return (struct reach){scale, 1.0 / stretch,
                          hr__filter_support(key->algo) * stretch};
}

/* Where pixel x lies between the samples k and k + 1: (part / whole) of the way. */
struct place {
    int64_t k;
    int64_t part;
    int64_t whole;
};

static struct place place_of(const struct hr__plane_key *key, int64_t x)
{
    int64_t whole = 2 * key->factor;
    int64_t at = 2 * x + (key->upsampling == HR_UPSAMPLE_CENTRED ? 1 - key->factor : 0);
    int64_t k = (at + whole) / whole - 1; /* rounded down: at >= -whole */

    return (struct place){k, at - k * whole, whole};
}

static int64_t clamp(int64_t k, int64_t own)
{
    return k < 0 ? 0 : k < own ? k : own - 1;
}

/* What output o sees: pixels lo … hi - 1 of the crop, own samples base … base + n - 1. */
struct span {
    double center;
    int64_t lo;
    int64_t hi;
    int64_t base;
    int64_t n;
};

static struct span span_of(const struct hr__plane_key *key, const struct reach *r,
                           int64_t o)
{
    double center = ((double)o + 0.5) * r->scale;
    int64_t lo = (int64_t)(center - r->support + 0.5);
    int64_t hi = (int64_t)(center + r->support + 0.5);
    int64_t next = key->factor > 1 && key->upsampling != HR_UPSAMPLE_REPEAT;
    struct span s = {.center = center};
    int64_t last;

    s.lo = lo < 0 ? 0 : lo;
    s.hi = hi > key->full ? key->full : hi;
    s.base = clamp(place_of(key, key->origin + s.lo).k, key->own);
    last = clamp(place_of(key, key->origin + s.hi - 1).k + next, key->own);
    s.n = last - s.base + 1;
    return s;
}

/* Add the weights of the span's pixels to own[n + 1]. Returns their sum. near and far
 * gather what falls to samples k and k + 1. */
static inline __attribute__((always_inline)) double
gather(const struct hr__plane_key *key, enum hr_scale_algo algo, const struct reach *r,
       const struct span *s, double *own)
{
    struct place p = place_of(key, key->origin + s->lo);
    double unit = key->upsampling == HR_UPSAMPLE_REPEAT ? 0 : 1.0 / (double)p.whole;
    double near = 0.0;
    double far = 0.0;
    double sum = 0.0;

    for (int64_t i = s->lo; i < s->hi; i++) {
        double w = hr__filter_value(algo, ((double)i - s->center + 0.5) * r->inverse);
        double part = w * ((double)p.part * unit);

        sum += w;
        near += w - part;
        far += part;
        p.part += 2;
        if (p.part >= p.whole) {
            own[clamp(p.k, key->own) - s->base] += near;
            near = far;
            far = 0.0;
            p.part -= p.whole;
            p.k++;
        }
    }
    own[clamp(p.k, key->own) - s->base] += near;
    own[clamp(p.k + 1, key->own) - s->base] += far;
    return sum;
}

/* The same where the samples are the pixels. */
static inline __attribute__((always_inline)) double
gather_plain(enum hr_scale_algo algo, const struct reach *r, const struct span *s,
             double *own)
{
    double sum = 0.0;

    for (int64_t i = s->lo; i < s->hi; i++) {
        double w = hr__filter_value(algo, ((double)i - s->center + 0.5) * r->inverse);

        sum += w;
        own[i - s->lo] = w;
    }
    return sum;
}

static inline __attribute__((always_inline)) double
gather_by(const struct hr__plane_key *key, enum hr_scale_algo algo,
          const struct reach *r, const struct span *s, double *own)
{
    if (key->factor == 1)
        return gather_plain(algo, r, s, own);
    return gather(key, algo, r, s, own);
}

/* One loop per filter. */
static double gather_any(const struct hr__plane_key *key, const struct reach *r,
                         const struct span *s, double *own)
{
    switch (key->algo) {
    case HR_SCALE_BOX:
        return gather_by(key, HR_SCALE_BOX, r, s, own);
    case HR_SCALE_BILINEAR:
        return gather_by(key, HR_SCALE_BILINEAR, r, s, own);
    case HR_SCALE_BICUBIC:
        return gather_by(key, HR_SCALE_BICUBIC, r, s, own);
    default:
        return gather_by(key, HR_SCALE_LANCZOS, r, s, own);
    }
}

/* Round the n weights so that they add up to ONE. */
static void round_weights(const double *own, double sum, int16_t *weight, int64_t n)
{
    double unit = ONE / sum;
    int32_t rest = ONE;
    int64_t largest = 0;

    for (int64_t i = 0; i < n; i++) {
        double scaled = own[i] * unit;
        int32_t w = (int32_t)(scaled < 0 ? scaled - 0.5 : scaled + 0.5);

        weight[i] = (int16_t)w;
        rest -= w;
        if (own[i] > own[largest])
            largest = i;
    }
    weight[largest] = (int16_t)(weight[largest] + rest);
}

/* One row of the table: output o, put at place `at`. */
static void fill_one(struct hr__plane_taps *t, const struct reach *r, int64_t o,
                     int64_t at, double *own)
{
    struct span s = span_of(&t->key, r, o);
    int16_t *weight = t->weight + at * t->width;
    double sum;

    memset(own, 0, ((size_t)s.n + 1) * sizeof(*own));
    sum = gather_any(&t->key, r, &s, own);
    round_weights(own, sum, weight, s.n);
    memset(weight + s.n, 0, (size_t)(t->width - s.n) * sizeof(*weight));
    t->start[at] = (int32_t)s.base;
    t->low = s.base < t->low ? s.base : t->low;
    t->high = s.base + s.n > t->high ? s.base + s.n : t->high;
}

static int64_t rounded_up(int64_t n)
{
    return (n + HR_PLANE_STEP - 1) / HR_PLANE_STEP * HR_PLANE_STEP;
}

/* Lay the arrays out in one block, which is replaced when it is too small. Returns the
 * room for one output's weights, or NULL with *status set. */
static double *make_room(struct hr__plane_taps *t, enum hr_status *status,
                         struct hr_error *err)
{
    size_t count = (size_t)rounded_up(t->key.count);
    size_t width = (size_t)t->width;
    size_t reals = width + 1;
    size_t cells;
    size_t bytes;

    if (!hr__mul(count, width, &cells) || !hr__add(cells, count, &cells) ||
        !hr__add(cells, 2 * reals, &cells) || !hr__mul(cells, 4, &bytes)) {
        *status = hr_error_set(err, HR_ERR_LIMIT, "image", 0,
                               "resize of %lld samples to %lld needs too large a table",
                               (long long)t->key.full, (long long)t->key.out);
        return NULL;
    }
    *status = hr__table_reserve(&t->table, bytes, err);
    if (*status != HR_OK)
        return NULL;
    t->start =
        (int32_t *)((double *)t->table.block + reals); /* doubles are aligned first */
    t->weight = (int16_t *)(t->start + count);
    t->paired = t->weight + count * width;
    return t->table.block;
}

static void pair_weights(struct hr__plane_taps *t)
{
    const size_t step = HR_PLANE_STEP * sizeof(*t->weight);
    int16_t *to = t->paired;

    for (int64_t o = 0; o < t->key.count; o += 8)
        for (int64_t i = 0; i < 4; i++) {
            const int16_t *first = t->weight + (o + i) * t->width;
            const int16_t *second = first + 4 * t->width;

            for (int64_t k = 0; k < t->width; k += HR_PLANE_STEP) {
                memcpy(to, first + k, step);
                memcpy(to + HR_PLANE_STEP, second + k, step);
                to += (size_t)2 * HR_PLANE_STEP;
            }
        }
}

static enum hr_status fill(void *table, const void *wanted, struct hr_error *err)
{
    struct hr__plane_taps *t = table;
    const struct hr__plane_key *key = wanted;
    struct reach r = reach_of(key);
    enum hr_status status = HR_OK;
    double *own;

    if (key->full < 1 || key->full > INT32_MAX / 4 || key->own > INT32_MAX / 4 ||
        key->out < 1 || key->full / HR_PLANE_SHRINK_MAX > key->out)
        return hr_error_set(err, HR_ERR_LIMIT, "image", 0,
                            "resize of %lld samples to %lld: out of range",
                            (long long)key->full, (long long)key->out);
    t->key = *key;
    t->used = 0;
    for (int64_t i = 0; i < key->count; i++) {
        struct span s = span_of(key, &r, key->first + i);

        t->used = s.n > t->used ? s.n : t->used;
    }
    t->used += t->used % 2;
    t->width = rounded_up(t->used);
    own = make_room(t, &status, err);
    if (own == NULL)
        return status;
    t->low = INT64_MAX;
    t->high = 0;
    for (int64_t i = 0; i < key->count; i++)
        fill_one(t, &r, key->first + i, key->flip ? key->count - 1 - i : i, own);
    for (int64_t i = key->count; i < rounded_up(key->count); i++) {
        t->start[i] = t->start[i - 1];
        memcpy(t->weight + i * t->width, t->weight + (i - 1) * t->width,
               (size_t)t->width * sizeof(*t->weight));
    }
    pair_weights(t);
    return HR_OK;
}

static bool same_key(const void *table, const void *key)
{
    const struct hr__plane_key *a = &((const struct hr__plane_taps *)table)->key;
    const struct hr__plane_key *b = key;

    return a->own == b->own && a->factor == b->factor && a->origin == b->origin &&
           a->full == b->full && a->out == b->out && a->first == b->first &&
           a->count == b->count && a->upsampling == b->upsampling &&
           a->algo == b->algo && a->flip == b->flip;
}

static const struct hr__table_kind kind = {sizeof(struct hr__plane_taps), same_key,
                                           fill};

enum hr_status hr__plane_taps_get(struct hr__plane_cache *cache,
                                  const struct hr__plane_key *key,
                                  const struct hr__plane_taps **out,
                                  struct hr_error *err)
{
    void *found;
    enum hr_status status = hr__tables_get(&kind, cache->entry, HR_PLANE_CACHE,
                                           &cache->clock, key, &found, err);

    *out = found;
    return status;
}

void hr__plane_cache_fini(struct hr__plane_cache *cache)
{
    hr__tables_fini(&kind, cache->entry, HR_PLANE_CACHE);
    memset(cache, 0, sizeof(*cache));
}
