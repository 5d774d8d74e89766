/* canvas.h - where a decoder's rows go: through the resize to their place in the output.
 *
 *     begin(size) -> { rows() -> decode into them -> put() } until all rows are put
 */
#ifndef HR_IMAGE_CANVAS_H
#define HR_IMAGE_CANVAS_H

#include "image/fit.h"
#include "image/resample.h"

/* What a worker keeps from picture to picture. */
struct hr__easel {
    struct hr__resampler resampler;
    uint8_t *staging; /* HR_PUSH_ROWS rows with HR_ROW_SLACK each */
    size_t staging_bytes;
};

struct hr__canvas {
    /* set by the caller */
    struct hr_ctx *ctx;
    const struct hr_image_options *options;
    struct hr__easel *easel;
    uint8_t *slot;  /* the output's pixels; NULL: begin makes an array */
    size_t encoded; /* bytes of the encoded picture */
    /* set by begin */
    struct hr_array *array; /* owned by the caller from then on */
    struct hr__fit fit;
    int64_t width;
    int64_t height;
    size_t stride;     /* of the output */
    uint8_t *origin;   /* the first kept pixel in the output */
    bool direct;       /* rows are decoded in place */
    size_t row_stride; /* of the staging rows */
    int64_t rows_put;
};

/* Refuse a size that breaks a limit of the options. format: "JPEG", ... */
HR_MUST_USE enum hr_status hr__canvas_check(const struct hr__canvas *canvas,
                                            const char *format, int64_t width,
                                            int64_t height, struct hr_error *err);

/* Begin a picture of that size, after the same checks. raw_bytes: what its pixels take
 * before any conversion, for the limit on expansion. */
HR_MUST_USE enum hr_status hr__canvas_begin(struct hr__canvas *canvas,
                                            const char *format, int64_t width,
                                            int64_t height, uint64_t raw_bytes,
                                            struct hr_error *err);

/* Where to decode the next rows (RGB, 3 * width bytes each) to: rows[HR_PUSH_ROWS].
 * Returns how many there are, 0 at the end. */
int hr__canvas_rows(struct hr__canvas *canvas, uint8_t **rows);

/* The next n rows are ready: those of hr__canvas_rows, or others that have HR_ROW_SLACK
 * readable bytes behind them. Also looks for a cancelled task.
 * Errors: HR_CANCELLED, HR_ERR_DEADLINE. */
HR_MUST_USE enum hr_status hr__canvas_put(struct hr__canvas *canvas,
                                          const uint8_t *const *rows, int n,
                                          struct hr_error *err);

void hr__easel_fini(struct hr__easel *easel);

#endif
