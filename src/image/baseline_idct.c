/* The inverse DCT in plain C, and what its input may be. */
#include "image/baseline_idct.h"

#include <stdlib.h>
#include <string.h>

#include "base/banned.h"

#define FIXED_BITS 13 /* of the constants */
#define PASS1_BITS 2  /* kept between the passes */

/* ---- the range ----
 *
 * libjpeg's SIMD code keeps dequantised coefficients, and the results of the first pass,
 * in 16 bits, and adds results 0 and 4, 1 and 5, 3 and 7 of a row in 16 bits. A result is
 * at most 4 * 1.3871 * (the sum of the magnitudes in its column). So all is well when
 * such pairs of columns have magnitudes of 32767 / 5.5484 = 5905 in all, and single ones
 * too. Blocks of 8-bit samples have at most 4 * 1024 before quantisation (Parseval's
 * theorem and Cauchy's inequality over 16 coefficients).
 *
 * To sum up for every block costs too much; so first each coefficient is compared with a
 * limit of its own: 1030 for DC and 320 for others, 1030 + 15 * 320 < 5905. Edges in
 * photographs exceed it at times; then the sums are made. */
#define PAIR_MAX 5905
#define DC_MAX 1030
#define AC_MAX 320

void hr__dequant_init(struct hr__dequant *dequant, const uint16_t quant[64])
{
    for (int i = 0; i < 64; i++) {
        unsigned most = i == 0 ? DC_MAX : AC_MAX;
        unsigned limit = quant[i] == 0 ? UINT16_MAX : most / quant[i];

        dequant->factor[i] = (int16_t)quant[i];
        dequant->limit[i] = (uint16_t)limit;
    }
}

bool hr__idct_within_range(const int16_t *block, const struct hr__dequant *dequant)
{
    int32_t sum[8] = {0};

    for (int i = 0; i < 64; i++) {
        int32_t magnitude = abs(block[i] * dequant->factor[i]);

        if (magnitude > PAIR_MAX)
            return false;
        sum[i & 7] += magnitude;
    }
    return sum[0] + sum[4] <= PAIR_MAX && sum[1] + sum[5] <= PAIR_MAX &&
           sum[3] + sum[7] <= PAIR_MAX && sum[2] <= PAIR_MAX && sum[6] <= PAIR_MAX;
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

static void transform_block(const int16_t *block, const struct hr__dequant *dequant,
                            uint8_t *const *rows, size_t x0)
{
    int32_t work[64];
    int32_t line[8];

    for (int i = 0; i < 64; i++)
        work[i] = block[i] * dequant->factor[i];
    for (int x = 0; x < 8; x++) {
        transform(work + x, 8, line);
        for (int y = 0; y < 8; y++)
            work[8 * y + x] = descale(line[y], FIXED_BITS - PASS1_BITS);
    }
    for (int y = 0; y < 8; y++) {
        transform(work + 8 * (size_t)y, 1, line);
        for (int x = 0; x < 8; x++)
            rows[y][x0 + (size_t)x] =
                to_sample(descale(line[x], FIXED_BITS + PASS1_BITS + 3));
    }
}

bool hr__baseline_idct_portable(int16_t *const *block, int n,
                                const struct hr__dequant *dequant, uint8_t *const *rows,
                                size_t x)
{
    for (int i = 0; i < n; i++, x += 8) {
        if (!hr__idct_within_range(block[i], dequant))
            return false;
        transform_block(block[i], dequant, rows, x);
        memset(block[i], 0, 64 * sizeof(int16_t));
    }
    return true;
}
