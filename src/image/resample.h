/* resample.h - a picture resized row by row, as it comes out of a decoder. */
#ifndef HR_IMAGE_RESAMPLE_H
#define HR_IMAGE_RESAMPLE_H

#include "image/fit.h"
#include "image/kernels.h"

/* The picture is resized to scaled_width x scaled_height, of which only the kept
 * rectangle at (cut_x, cut_y) is made.
 *
 * Rounding depends on the direction of counting and on which pass is first. A picture
 * that will be turned after its resize gives the same bytes as one that was turned
 * before if that is said here: mirror_x, mirror_y: columns, rows come last first;
 * transposed: rows are to become columns. */
struct hr__resample_plan {
    int64_t width; /* of the input */
    int64_t height;
    int64_t scaled_width;
    int64_t scaled_height;
    int64_t cut_x;
    int64_t cut_y;
    int64_t kept_width;
    int64_t kept_height;
    int channels; /* 1 … 4 */
    enum hr_scale_algo algo;
    bool wide; /* samples are uint16 in native order, not bytes */
    bool mirror_x;
    bool mirror_y;
    bool transposed;
    bool flip; /* columns of the result come out last first */
};

/* Rows given to hr__resample_push at most. */
#define HR_PUSH_ROWS 8

/* A worker's resampler; zero-initialised, used again and again. */
struct hr__resampler {
    const struct hr__kernels *narrow; /* for bytes; NULL: the best */
    struct hr__taps_cache cache;
    /* one picture */
    const struct hr__kernels *kernels;
    struct hr__resample_plan plan;
    const struct hr__taps *across; /* NULL: the width stays */
    const struct hr__taps *down;   /* NULL: the height stays */
    bool down_first;               /* the order of the two passes */
    int64_t rows_in;               /* pushed so far */
    int64_t rows_out;              /* made so far */
    /* The ring of rows that wait for the vertical pass: row y lives at y % ring_rows.
     * Two rows more, for the passage between the passes, lie behind it. */
    uint8_t *ring;
    size_t ring_bytes;
    size_t ring_stride;
    int64_t ring_rows;
    const uint8_t **window; /* the rows of one call of kernels->down */
    size_t window_count;
};

/* Begin a picture. Errors: HR_ERR_LIMIT, HR_ERR_NOMEM. */
HR_MUST_USE enum hr_status hr__resample_begin(struct hr__resampler *r,
                                              const struct hr__resample_plan *plan,
                                              struct hr_error *err);
/* Give the next n <= HR_PUSH_ROWS rows, each with HR_ROW_SLACK readable bytes behind
 * it; then take what can be made of them. */
void hr__resample_push(struct hr__resampler *r, const uint8_t *const *rows, int n);
/* The next n rows are left out, all of them being outside of the span. */
void hr__resample_skip(struct hr__resampler *r, int64_t n);
/* Make the next row of the kept rectangle, if what it needs is there: kept_width
 * pixels, and nothing behind them. False: not yet, or no more. After plan.height rows
 * all can be made. */
bool hr__resample_take(struct hr__resampler *r, uint8_t *to);
/* What is looked at of the input. */
void hr__resample_needs(const struct hr__resampler *r, struct hr__take *out);

void hr__resampler_fini(struct hr__resampler *r);

#endif
