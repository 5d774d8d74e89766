/* baseline_idct.h - from coefficients to samples: libjpeg's "islow", value for value.
 * Source: C. Loeffler, A. Ligtenberg, G. Moschytz, "Practical fast 1-D DCT algorithms
 * with 11 multiplications", ICASSP 1989, in 13-bit fixed point. */
#ifndef HR_IMAGE_BASELINE_IDCT_H
#define HR_IMAGE_BASELINE_IDCT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A quantisation table, and what its coefficients may be. */
struct hr__dequant {
    int16_t factor[64]; /* in natural order */
    /* A coefficient beyond this is looked at more closely: see within_range. */
    uint16_t limit[64];
};

void hr__dequant_init(struct hr__dequant *dequant, const uint16_t quant[64]);

/* Transform n > 0 blocks that lie side by side. block[i]: 64 coefficients in natural
 * order, 32-byte aligned; they are 0 afterwards. Writes 8 * n samples to each of rows[0 …
 * 7], from sample x on; those behind the last may be written up to a multiple of 16.
 * False: a block has values that no picture has, with which 16-bit arithmetic and
 * libjpeg's differ. Both variants give the same. */
typedef bool (*hr__baseline_idct_fn)(int16_t *const *block, int n,
                                     const struct hr__dequant *dequant,
                                     uint8_t *const *rows, size_t x);
bool hr__baseline_idct_portable(int16_t *const *block, int n,
                                const struct hr__dequant *dequant, uint8_t *const *rows,
                                size_t x);
#if defined(__x86_64__)
bool hr__baseline_idct_avx2(int16_t *const *block, int n,
                            const struct hr__dequant *dequant, uint8_t *const *rows,
                            size_t x);
#endif

/* Does everything in the block's transform fit where libjpeg's SIMD code keeps it? */
bool hr__idct_within_range(const int16_t *block, const struct hr__dequant *dequant);

/* The constants of the odd part as a matrix, in 13 bits behind the point: what inputs
 * 1, 3, 5, 7 (rows) add to outputs 0 … 3 and take from outputs 7 … 4 (columns). */
static const int16_t hr__idct_odd[4][4] = {{11363, 9633, 6437, 2260},
                                           {9633, -2259, -11362, -6436},
                                           {6437, -11362, 2261, 9633},
                                           {2260, -6436, 9633, -11363}};

#endif
