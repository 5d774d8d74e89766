/* The inverse DCT in plain C, and what its input may be. */
#include "image/baseline_idct.h"

#include <stdlib.h>
#include <string.h>

#include "image/baseline_codes.h"
#include "base/banned.h"

#define FIXED_BITS 13 /* of the constants */
#define PASS1_BITS 2  /* kept between the passes */

/* ---- the range ----
 *
 * libjpeg's SIMD code keeps dequantised coefficients, and the results of the first pass,
 * in 16 bits, and adds inputs 0 and 4, 1 and 5, 3 and 7 of either pass in 16 bits. Other
 * sums have 32 bits and cannot leave them: constants of 61213 in all times 32768. So its
 * results are the right ones where
 *
 *  - products with the quantisation fit into 16 bits, and
 *  - results of the first pass have 15: then the sums at the head of the second do fit.
 *    Those of the first do as well: an input is 1/32 of a sum of the eight results times
 *    at most 1.3871, so at most 5682 if they are at most 16383.
 *
 * The pictures' own values are far below: 8-bit samples have coefficients of 1024 or so,
 * and results of the first pass of 4 times the sum of a few of them. */

static unsigned largest_of(const uint16_t quant[64])
{
    unsigned largest = 1;

    for (int i = 0; i < 64; i++)
        largest = quant[i] > largest ? quant[i] : largest;
    return largest;
}

void hr__dequant_init(struct hr__dequant *dequant, const uint16_t quant[64])
{
    unsigned largest = largest_of(quant);
    unsigned bits = HR_VALUE_BITS;

    for (int y = 0; y < 8; y++)
        for (int x = 0; x < 8; x++)
            dequant->factor[y][x] = dequant->factor[y][8 + x] =
                (int16_t)quant[8 * y + x];
    while (((1U << bits) - 1) * largest > INT16_MAX)
        bits--;
    dequant->large = 0;
    if (bits < HR_VALUE_BITS)
        dequant->large = (uint16_t)(UINT16_MAX << bits);
    dequant->dc_max = quant[0] > 0 ? INT16_MAX / quant[0] : INT16_MAX;
}

bool hr__idct_fits(const int16_t *block, const struct hr__dequant *dequant)
{
    for (int i = 0; i < 64; i++)
        if (abs(block[i] * dequant->factor[i / 8][i % 8]) > INT16_MAX)
            return false;
    return true;
}

/* ---- the transform ---- */

/* Eight inputs, `step` apart, to eight outputs without their scaling. */
static void transform(const int32_t *in, size_t step, int32_t out[8])
{
    int32_t even[4];
    int32_t sum = (in[0] + in[4 * step]) * (1 << FIXED_BITS);
    int32_t difference = (in[0] - in[4 * step]) * (1 << FIXED_BITS);
    int32_t outer = in[2 * step] * 10703 + in[6 * step] * 4433;
    int32_t inner = in[2 * step] * 4433 - in[6 * step] * 10704;

    even[0] = sum + outer;
    even[1] = difference + inner;
    even[2] = difference - inner;
    even[3] = sum - outer;
    for (size_t k = 0; k < 4; k++) {
        int32_t odd = 0;

        for (size_t i = 0; i < 4; i++)
            odd += in[(2 * i + 1) * step] * hr__idct_odd[i][k];
        out[k] = even[k] + odd;
        out[7 - k] = even[k] - odd;
    }
}

static int32_t descale(int32_t x, int bits)
{
    return (x + (1 << (bits - 1))) >> bits;
}

static uint8_t to_sample(int32_t x)
{
    x += 128;
    if (x < 0)
        return 0;
    return x > 255 ? 255 : (uint8_t)x;
}

static bool transform_block(const int16_t *block, const struct hr__dequant *dequant,
                            uint8_t *const *rows, size_t x0)
{
    int32_t work[64];
    int32_t line[8];

    for (int i = 0; i < 64; i++)
        work[i] = block[i] * dequant->factor[i / 8][i % 8];
    for (int x = 0; x < 8; x++) {
        transform(work + x, 8, line);
        for (int y = 0; y < 8; y++) {
            work[8 * y + x] = descale(line[y], FIXED_BITS - PASS1_BITS);
            if (abs(work[8 * y + x]) > HR_IDCT_MIDDLE_MAX)
                return false;
        }
    }
    for (int y = 0; y < 8; y++) {
        transform(work + 8 * (size_t)y, 1, line);
        for (int x = 0; x < 8; x++)
            rows[y][x0 + (size_t)x] =
                to_sample(descale(line[x], FIXED_BITS + PASS1_BITS + 3));
    }
    return true;
}

bool hr__baseline_idct_portable(struct hr__idct_blocks blocks,
                                const struct hr__dequant *dequant, uint8_t *const *rows,
                                size_t x)
{
    int16_t *pair = blocks.coef;

    for (int i = 0; i < blocks.n; i++, x += 8) {
        int16_t *block = i & 1 ? pair + blocks.second : pair;

        if (!hr__idct_fits(block, dequant) || !transform_block(block, dequant, rows, x))
            return false;
        memset(block, 0, 64 * sizeof(int16_t));
        if (i & 1)
            pair += blocks.next[i >> 1 & 1];
    }
    return true;
}
