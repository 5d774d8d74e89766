/* plane_kernels.h - the inner loops from planes to RGB, one set per instruction set. All
 * sets give the same bytes.
 *
 * Between the passes a sample is a 16-bit number with HR_LEVEL_BITS bits after the
 * point: a filter may overshoot 0 … 255, and is rounded once more only at the end. */
#ifndef HR_IMAGE_PLANE_KERNELS_H
#define HR_IMAGE_PLANE_KERNELS_H

#include <stddef.h>
#include <stdint.h>

#include "image/plane_taps.h"

#define HR_LEVEL_BITS 6
/* Rows of levels must be readable and writable for this many samples past their end. */
#define HR_LEVEL_SLACK 32

/* From Y, Cb, Cr to red, green, blue; 13 bits after the point. See colour.c. */
#define HR_MATRIX_BITS 13
struct hr__matrix {
    int16_t y;
    int16_t red_cr;
    int16_t green_cb;
    int16_t green_cr;
    int16_t blue_cb;
    int32_t constant[3]; /* of red, green, blue, with the half for rounding */
};

struct hr__plane_kernels {
    /* n levels from `taps` rows of samples, taps even: each is the sum of
     * weight[j] * rows[j]. The rows need no slack. */
    void (*down)(const int16_t *weight, int64_t taps, const uint8_t *const *rows,
                 int16_t *out, size_t n);
    /* All outputs of the table from a row of levels that begins with sample 0. */
    void (*across)(const struct hr__plane_taps *taps, const int16_t *in, int16_t *out);
    /* n pixels from levels; out: rows of red, green, blue, without slack. */
    void (*colour)(const struct hr__matrix *matrix, const int16_t *const in[3],
                   uint8_t *const out[3], size_t n);
};

extern const struct hr__plane_kernels hr__plane_kernels_portable;
#if defined(__x86_64__)
extern const struct hr__plane_kernels hr__plane_kernels_sse41;
extern const struct hr__plane_kernels hr__plane_kernels_avx2;
#endif

#endif
