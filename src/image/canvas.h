/* canvas.h - where a decoder's rows go: through conversion into the tail, which brings
 * them to their place in the output.
 *
 *     begin(picture) -> { rows() -> decode into them -> put() } until all rows are put
 *                       -> flush -> end
 */
#ifndef HR_IMAGE_CANVAS_H
#define HR_IMAGE_CANVAS_H

#include "image/codec.h"
#include "image/pixels.h"
#include "image/tail.h"
#include "image/take.h"

/* Rows that a worker keeps, with room for HR_PUSH_ROWS. */
struct hr__staging {
    uint8_t *rows;
    size_t bytes;
    size_t stride;
};

/* What a worker keeps from picture to picture. */
struct hr__easel {
    struct hr__tail tail;
    struct hr__staging decoded;
    struct hr__staging converted;
};

struct hr__canvas {
    /* set by the caller */
    struct hr_ctx *ctx;
    const struct hr_image_options *options;
    struct hr__pick pick;
    struct hr__easel *easel;
    uint8_t *slot; /* the output's pixels; NULL: begin makes an array */
    const struct hr__colours *colours; /* done to decoded rows; NULL: nothing */
    /* set by begin */
    struct hr_array *array; /* owned by the caller from then on */
    int64_t width;          /* of the stored picture, as it is to be decoded */
    int64_t height;
    int shrink; /* it is to be decoded at 1 / shrink of its size */
    struct hr__conversion conversion;
    bool ink;      /* rows are CMYK, which `colours` makes RGB */
    bool blank;    /* rows are zeros in place of what is missing: no colours */
    bool converts; /* rows go through conversion */
    bool planar;   /* the decoder is to give planes, not rows */
    int64_t rows_put;
};

/* The size of the output that a picture will have. */
void hr__canvas_target(const struct hr_image_options *options,
                       const struct hr__picture *picture, int64_t *width,
                       int64_t *height);

/* Begin a picture that the limits allow. hr__canvas_end must follow. */
HR_MUST_USE enum hr_status hr__canvas_begin(struct hr__canvas *canvas,
                                            const struct hr__picture *picture,
                                            struct hr_error *err);

/* Where to decode the next rows (width pixels as the picture says) to:
 * rows[HR_PUSH_ROWS]. Returns how many there are, 0 at the end. */
int hr__canvas_rows(struct hr__canvas *canvas, uint8_t **rows);

/* How long a row is that hr__canvas_rows gives. */
size_t hr__canvas_row_bytes(const struct hr__canvas *canvas);
/* What is looked at of the stored picture. A decoder may leave out the rest. */
struct hr__take hr__canvas_needs(const struct hr__canvas *canvas);
/* The next n rows are left out, all of them being outside of that. */
void hr__canvas_skip(struct hr__canvas *canvas, int64_t n);

/* The next n rows are ready: those of hr__canvas_rows, or others that have HR_ROW_SLACK
 * readable bytes behind them. Also looks for a cancelled task.
 * Errors: HR_CANCELLED, HR_ERR_DEADLINE. */
HR_MUST_USE enum hr_status hr__canvas_put(struct hr__canvas *canvas,
                                          const uint8_t *const *rows, int n,
                                          struct hr_error *err);

/* Put n rows that lie stride bytes apart, the last with HR_ROW_SLACK behind it too. */
HR_MUST_USE enum hr_status hr__canvas_put_all(struct hr__canvas *canvas,
                                              const uint8_t *pixels, size_t stride,
                                              int64_t n, struct hr_error *err);

/* If canvas.planar: groups 0 … *first - 1 are not looked at, and none from *end on. */
void hr__canvas_groups(const struct hr__canvas *canvas, int64_t *first, int64_t *end);
/* If canvas.planar: columns outside of *left … *right - 1 are not looked at. */
void hr__canvas_columns(const struct hr__canvas *canvas, int64_t *left, int64_t *right);
/* If canvas.planar: how many planes are wanted, 1 (luma) or 3. */
int hr__canvas_planes(const struct hr__canvas *canvas);
/* Instead of rows, if canvas.planar: where to decode the next group of a plane to,
 * rows[group], and that the next group of every plane is there. */
void hr__canvas_plane_rows(struct hr__canvas *canvas, int plane, uint8_t **rows);
HR_MUST_USE enum hr_status hr__canvas_put_planes(struct hr__canvas *canvas,
                                                 struct hr_error *err);
/* The same at once, if the picture's planes are whole: rows begin `stride` bytes apart. */
HR_MUST_USE enum hr_status hr__canvas_put_frame(struct hr__canvas *canvas,
                                                const uint8_t *const base[HR_PLANES],
                                                const size_t stride[HR_PLANES],
                                                struct hr_error *err);

/* If canvas.planar: forget the groups given so far; all of them will come again. */
void hr__canvas_rewind(struct hr__canvas *canvas);

/* All is given. */
void hr__canvas_flush(struct hr__canvas *canvas);

/* Drop what begin made, but for the array. */
void hr__canvas_end(struct hr__canvas *canvas);

void hr__easel_fini(struct hr__easel *easel);

#endif
