/* The portable set, which defines what is right. */
#include "image/plane_kernels.h"

#include "base/banned.h"

#define DOWN_SHIFT (HR_PLANE_BITS - HR_LEVEL_BITS)
#define COLOUR_SHIFT (HR_MATRIX_BITS + HR_LEVEL_BITS)

static int16_t to_level(int32_t value)
{
    if (value < INT16_MIN)
        return INT16_MIN;
    return value > INT16_MAX ? INT16_MAX : (int16_t)value;
}

static uint8_t to_byte(int32_t value)
{
    if (value < 0)
        return 0;
    return value > 255 ? 255 : (uint8_t)value;
}

/* By blocks, so that the inner loop runs along the row and the sums stay in reach. */
#define BLOCK 64

static void down_portable(const int16_t *weight, int64_t taps,
                          const uint8_t *const *rows, int16_t *out, size_t n)
{
    int32_t sum[BLOCK];

    for (size_t x = 0; x < n; x += BLOCK) {
        size_t len = n - x < BLOCK ? n - x : BLOCK;

        for (size_t i = 0; i < len; i++)
            sum[i] = 1 << (DOWN_SHIFT - 1);
        for (int64_t j = 0; j < taps; j++)
            for (size_t i = 0; i < len; i++)
                sum[i] += weight[j] * rows[j][x + i];
        for (size_t i = 0; i < len; i++)
            out[x + i] = to_level(sum[i] >> DOWN_SHIFT);
    }
}

static void across_portable(const struct hr__plane_taps *taps, const int16_t *in,
                            int16_t *out)
{
    for (int64_t o = 0; o < taps->key.count; o++) {
        const int16_t *weight = taps->weight + o * taps->width;
        const int16_t *from = in + taps->start[o];
        int32_t sum = 1 << (HR_PLANE_BITS - 1);

        for (int64_t i = 0; i < taps->used; i++)
            sum += weight[i] * from[i];
        out[o] = to_level(sum >> HR_PLANE_BITS);
    }
}

static void colour_portable(const struct hr__matrix *m, const int16_t *const in[3],
                            uint8_t *const out[3], size_t n)
{
    for (size_t i = 0; i < n; i++) {
        int32_t y = m->y * in[0][i];
        int32_t cb = in[1][i];
        int32_t cr = in[2][i];
        int32_t red = y + m->red_cr * cr;
        int32_t green = y + m->green_cb * cb + m->green_cr * cr;
        int32_t blue = y + m->blue_cb * cb;

        out[0][i] = to_byte((red + m->constant[0]) >> COLOUR_SHIFT);
        out[1][i] = to_byte((green + m->constant[1]) >> COLOUR_SHIFT);
        out[2][i] = to_byte((blue + m->constant[2]) >> COLOUR_SHIFT);
    }
}

const struct hr__plane_kernels hr__plane_kernels_portable = {
    down_portable, across_portable, colour_portable};
