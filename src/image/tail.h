/* tail.h - what every picture goes through once a decoder has rows: crop, resize, colour,
 * orientation, flip, layout, type, and its place in the output.
 *
 *     begin(plan) -> { push(rows) | plane_rows(), put_planes() } until all are given -> end
 *                 -> put_frame(planes) -> end
 */
#ifndef HR_IMAGE_TAIL_H
#define HR_IMAGE_TAIL_H

#include "image/finish.h"
#include "image/place.h"
#include "image/planes.h"
#include "image/resample.h"

struct hr__tail_plan {
    int64_t width; /* of the picture as stored */
    int64_t height;
    struct hr__turn turn; /* from stored to shown */
    struct hr__fit fit;   /* of the shown picture */
    bool flip;            /* the result is mirrored */
    enum hr_scale_algo algo;
    struct hr__form form;
    bool reversed;      /* three channels are blue, green, red; planes only */
    bool premultiplied; /* colours of RGBA rows are; they are not to be in the output */
};

/* A worker's tail; zero-initialised, used again and again. */
struct hr__tail {
    struct hr__resampler resampler;
    struct hr__planes planes;
    struct hr__finish finish;
    const struct hr__finish_kernels *kernels;
    /* one picture */
    struct hr__tail_plan plan;
    struct hr__fit stored; /* the fit, seen through the turn */
    bool resizes;
    bool planar;
    struct hr_buffer *resized; /* stored order, until it can be turned */
    struct hr_buffer *held;    /* shown order, until it can be finished */
    struct hr__placement placement;
    int64_t rows_in;
    int64_t rows_out;
};

/* True when what is taken of the picture changes its size: planes can then go the short
 * way. */
bool hr__tail_resizes(const struct hr__tail_plan *plan);

/* Begin a picture whose rows have form.channels channels; yuv: or planes (NULL: rows).
 * pixels: the output, as form and fit say. hr__tail_end must follow.
 * Errors: HR_ERR_LIMIT, HR_ERR_NOMEM. */
HR_MUST_USE enum hr_status hr__tail_begin(struct hr__tail *t,
                                          const struct hr__tail_plan *plan,
                                          const struct hr__yuv *yuv, void *pixels,
                                          struct hr_error *err);

/* What is looked at of the stored picture's rows. */
struct hr__take hr__tail_needs(const struct hr__tail *t);
/* The next n rows are left out, all of them being outside of that. */
void hr__tail_skip(struct hr__tail *t, int64_t n);

/* Where row y of the picture goes just as it is, or NULL. */
uint8_t *hr__tail_in_place(struct hr__tail *t, int64_t y);
/* The next n <= HR_PUSH_ROWS rows, each with HR_ROW_SLACK readable bytes behind it. */
void hr__tail_push(struct hr__tail *t, const uint8_t *const *rows, int n);

/* Where to decode the next group of a plane to: rows[group]. */
void hr__tail_plane_rows(struct hr__tail *t, int plane, uint8_t **rows);
/* The next group of every plane is there. */
void hr__tail_put_planes(struct hr__tail *t);
/* Or, if yuv.whole: all rows of every plane, which begin `stride` bytes apart. */
void hr__tail_put_frame(struct hr__tail *t, const uint8_t *const base[HR_PLANES],
                        const size_t stride[HR_PLANES]);

/* Forget the groups that came: all of them will come again. */
void hr__tail_rewind(struct hr__tail *t);

/* Once all is given: write what was held back. */
void hr__tail_flush(struct hr__tail *t);

/* Drop what begin made. */
void hr__tail_end(struct hr__tail *t);
void hr__tail_fini(struct hr__tail *t);

#endif
