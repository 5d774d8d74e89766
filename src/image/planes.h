/* planes.h - a picture in planes resized, and coloured at its final size, as its rows
 * come out of a decoder. */
#ifndef HR_IMAGE_PLANES_H
#define HR_IMAGE_PLANES_H

#include "image/colour.h"
#include "image/fit.h"
#include "image/kernels.h"
#include "image/yuv.h"

struct hr__planes_plan {
    struct hr__fit fit; /* of the picture as stored */
    enum hr_scale_algo algo;
    bool flip; /* columns of the result come out last first */
    int count; /* 1: grey, 3: Y, Cb, Cr */
    struct hr__plane plane[HR_PLANES];
    struct hr__matrix matrix;
};

/* One plane on its way. */
struct hr__lane {
    const struct hr__plane_taps *across;
    const struct hr__plane_taps *down;
    /* Row y of the plane lives at base + (y % rows) * stride. */
    const uint8_t *base;
    size_t stride;
    int64_t rows;
    uint8_t *ring; /* where base points, unless the rows are the caller's */
    size_t ring_bytes;
    int64_t rows_in; /* given so far */
    int16_t *mid;    /* a row after the vertical pass; its first sample is sample 0 */
    size_t mid_count;
};

/* A worker's state; zero-initialised, used again and again. */
struct hr__planes {
    const struct hr__plane_kernels *kernels; /* NULL: the best */
    struct hr__plane_cache cache;
    struct hr__lane lane[HR_PLANES];
    const uint8_t **window; /* the rows of one call of kernels->down */
    size_t window_count;
    int16_t *level[HR_PLANES]; /* rows after both passes */
    size_t level_count;
    /* one picture */
    struct hr__planes_plan plan;
    int64_t rows_out; /* made so far */
};

/* True when the plan's geometry is within what the 14-bit weights can do. */
bool hr__planes_can(const struct hr__fit *fit);

/* Begin a picture; then one of hr__planes_stream and hr__planes_frame.
 * Errors: HR_ERR_LIMIT, HR_ERR_NOMEM. */
HR_MUST_USE enum hr_status hr__planes_begin(struct hr__planes *p,
                                            const struct hr__planes_plan *plan,
                                            struct hr_error *err);

/* The rows will come in groups, by hr__planes_rows and hr__planes_put.
 * Errors: HR_ERR_LIMIT, HR_ERR_NOMEM. */
HR_MUST_USE enum hr_status hr__planes_stream(struct hr__planes *p,
                                             struct hr_error *err);
/* Where to decode the next group of a plane to: rows[plan.plane[i].group]. */
void hr__planes_rows(struct hr__planes *p, int plane, uint8_t **rows);
/* The next group of every plane is there; then take what can be made. */
void hr__planes_put(struct hr__planes *p);
/* Groups 0 … *first - 1 need not be decoded, and none from *end on. */
void hr__planes_span(const struct hr__planes *p, int64_t *first, int64_t *end);
/* Columns outside of *left … *right - 1 of the picture are not looked at, in any plane. */
void hr__planes_columns(const struct hr__planes *p, int64_t *left, int64_t *right);

/* Forget the groups that came: all will come again. */
void hr__planes_rewind(struct hr__planes *p);

/* All rows are there: those of a plane begin `stride` bytes apart. */
void hr__planes_frame(struct hr__planes *p, const uint8_t *const base[HR_PLANES],
                      const size_t stride[HR_PLANES]);

/* Make the next output row, if what it needs is there: rows of red, green and blue,
 * fit.kept_width bytes each. False: not yet, or no more. */
bool hr__planes_take(struct hr__planes *p, uint8_t *const rgb[HR_PLANES]);

void hr__planes_fini(struct hr__planes *p);

#endif
