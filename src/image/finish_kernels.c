/* The portable set, which defines what is right. */
#include "image/finish_kernels.h"

#include <string.h>

#include "base/banned.h"

static void interleave_portable(const uint8_t *const in[3], uint8_t *out, size_t n)
{
    for (size_t i = 0; i < n; i++)
        for (int c = 0; c < 3; c++)
            out[3 * i + (size_t)c] = in[c][i];
}

static void separate_portable(const uint8_t *in, uint8_t *const out[3], size_t n)
{
    for (size_t i = 0; i < n; i++)
        for (int c = 0; c < 3; c++)
            out[c][i] = in[3 * i + (size_t)c];
}

static float value_of(const struct hr__finish_line *line, const uint8_t *in, size_t i)
{
    size_t k = i % HR_FINISH_PERIOD;

    return (float)in[i] * line->scale[k] + line->bias[k];
}

static void to_f32_portable(const struct hr__finish_line *line, const uint8_t *in,
                            float *out, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = value_of(line, in, i);
}

static uint32_t bits_of(float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

/* Shift right, rounding to nearest, ties to even. shift: 1 … 31. */
static uint32_t round_shift(uint32_t value, unsigned shift)
{
    uint32_t half = 1u << (shift - 1);
    uint32_t odd = value >> shift & 1;

    return (value + half - 1 + odd) >> shift;
}

/* Finite values only. Half precision has 5 bits of exponent and 10 of fraction. */
static uint16_t half_of(float value)
{
    uint32_t bits = bits_of(value);
    uint32_t sign = bits >> 16 & 0x8000;
    uint32_t size = bits & 0x7fffffff;
    uint32_t exponent = size >> 23;
    uint32_t half;

    if (exponent >= 143) { /* 2^16 and above */
        half = 0x7c00;
    } else if (exponent >= 113) { /* normal; rounding up may reach infinity */
        half = round_shift(size - (112u << 23), 13);
    } else if (exponent >= 102) { /* subnormal: units of 2^-24 */
        half = round_shift((size & 0x7fffff) | 0x800000, 126 - exponent);
    } else {
        half = 0;
    }
    return (uint16_t)(sign | half);
}

static void to_f16_portable(const struct hr__finish_line *line, const uint8_t *in,
                            uint16_t *out, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = half_of(value_of(line, in, i));
}

static void to_bf16_portable(const struct hr__finish_line *line, const uint8_t *in,
                             uint16_t *out, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = (uint16_t)round_shift(bits_of(value_of(line, in, i)), 16);
}

void hr__finish_wide(enum hr_dtype dtype, const struct hr__finish_line *line,
                     const void *in, void *out, size_t n)
{
    const uint16_t *samples = in;

    for (size_t i = 0; i < n; i++) {
        size_t k = i % HR_FINISH_PERIOD;
        float value = (float)samples[i] * line->scale[k] + line->bias[k];

        if (dtype == HR_F32)
            ((float *)out)[i] = value;
        else if (dtype == HR_F16)
            ((uint16_t *)out)[i] = half_of(value);
        else
            ((uint16_t *)out)[i] = (uint16_t)round_shift(bits_of(value), 16);
    }
}

const struct hr__finish_kernels hr__finish_kernels_portable = {
    interleave_portable, separate_portable, to_f32_portable, to_f16_portable,
    to_bf16_portable};
