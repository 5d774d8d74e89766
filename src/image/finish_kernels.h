/* finish_kernels.h - the inner loops that bring rows of bytes into the layout and the
 * type of the output, one set per instruction set. All sets give the same bits. */
#ifndef HR_IMAGE_FINISH_KERNELS_H
#define HR_IMAGE_FINISH_KERNELS_H

#include <stddef.h>
#include <stdint.h>

#include "headrace/array.h"

/* After so many values the factors repeat: a multiple of every number of channels, and
 * of a vector. */
#define HR_FINISH_PERIOD 24

/* Value i becomes i * scale[i % HR_FINISH_PERIOD] + bias[i % HR_FINISH_PERIOD], in
 * single precision, the product rounded before the addition. */
struct hr__finish_line {
    float scale[HR_FINISH_PERIOD];
    float bias[HR_FINISH_PERIOD];
};

/* No row needs slack. */
struct hr__finish_kernels {
    /* n pixels: three rows of one channel to one of three, and back. */
    void (*interleave)(const uint8_t *const in[3], uint8_t *out, size_t n);
    void (*separate)(const uint8_t *in, uint8_t *const out[3], size_t n);
    /* n values, rounded to nearest, ties to even. */
    void (*to_f32)(const struct hr__finish_line *line, const uint8_t *in, float *out,
                   size_t n);
    void (*to_f16)(const struct hr__finish_line *line, const uint8_t *in, uint16_t *out,
                   size_t n);
    void (*to_bf16)(const struct hr__finish_line *line, const uint8_t *in,
                    uint16_t *out, size_t n);
};

extern const struct hr__finish_kernels hr__finish_kernels_portable;
/* n values of 16 bits to HR_F16, HR_BF16 or HR_F32, on every machine. */
void hr__finish_wide(enum hr_dtype dtype, const struct hr__finish_line *line,
                     const void *in, void *out, size_t n);
#if defined(__x86_64__)
extern const struct hr__finish_kernels hr__finish_kernels_sse41;
extern const struct hr__finish_kernels hr__finish_kernels_avx2;
#endif

#endif
