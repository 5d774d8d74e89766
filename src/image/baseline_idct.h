/* baseline_idct.h - from coefficients to samples: libjpeg's "islow", value for value.
 * Source: C. Loeffler, A. Ligtenberg, G. Moschytz, "Practical fast 1-D DCT algorithms
 * with 11 multiplications", ICASSP 1989, in 13-bit fixed point. */
#ifndef HR_IMAGE_BASELINE_IDCT_H
#define HR_IMAGE_BASELINE_IDCT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A quantisation table. */
struct hr__dequant {
    int16_t factor[8][16]; /* rows in natural order, each twice: for two blocks */
    int dc_max;            /* DC coefficients beyond it leave 16 bits */
    /* An AC coefficient with none of these bits in its magnitude stays within 16 bits.
     * 0: all do that the entropy decoder gives. */
    uint16_t large;
};

void hr__dequant_init(struct hr__dequant *dequant, const uint16_t quant[64]);

/* Blocks that lie side by side, and where their coefficients are, counted in these: 64
 * for each in natural order, 32-byte aligned. DC coefficients are within dc_max. */
struct hr__idct_blocks {
    int16_t *coef; /* of the first */
    int n;         /* > 0 */
    size_t second; /* from the first block of a pair to the second */
    size_t
        next[2]; /* and to the first of the next pair: from an even pair, an odd one */
};

/* Transform the blocks, whose coefficients are 0 afterwards. Writes 8 * n samples to each
 * of rows[0 … 7], from sample x on; those behind the last may be written up to a multiple
 * of 16. False: a block has values that no picture has, with which libjpeg's SIMD code
 * leaves 16 bits. Both variants give the same. */
typedef bool (*hr__baseline_idct_fn)(struct hr__idct_blocks blocks,
                                     const struct hr__dequant *dequant,
                                     uint8_t *const *rows, size_t x);
bool hr__baseline_idct_portable(struct hr__idct_blocks blocks,
                                const struct hr__dequant *dequant, uint8_t *const *rows,
                                size_t x);
#if defined(__x86_64__)
bool hr__baseline_idct_avx2(struct hr__idct_blocks blocks,
                            const struct hr__dequant *dequant, uint8_t *const *rows,
                            size_t x);
#endif

/* Do the products of all coefficients fit into 16 bits? */
bool hr__idct_fits(const int16_t *block, const struct hr__dequant *dequant);

/* What the first pass may give at most: see baseline_idct.c. */
#define HR_IDCT_MIDDLE_MAX 16383

/* The constants of the odd part as a matrix, in 13 bits behind the point: what inputs
 * 1, 3, 5, 7 (rows) add to outputs 0 … 3 and take from outputs 7 … 4 (columns). */
static const int16_t hr__idct_odd[4][4] = {{11363, 9633, 6437, 2260},
                                           {9633, -2259, -11362, -6436},
                                           {6437, -11362, 2261, 9633},
                                           {2260, -6436, 9633, -11363}};

#endif
