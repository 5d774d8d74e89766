/* What a TIFF's samples become:
 *
 *     grey     1, 2, 4, 8, 16 bits; below 8 stretched to 0 … 255; white may be 0
 *     palette  1, 2, 4, 8 bits; the colours' upper 8 bits
 *     RGB      8, 16 bits
 *     CMYK     8 bits, 0 is no ink
 *     alpha    if it was multiplied into the colours, that is undone: 255 * c / a cut off
 *
 * Where 8 bits are wanted of 16, the upper ones are taken. */
#include "image/tiff_unpack.h"

#include <string.h>

#include "image/pixels.h"
#include "base/banned.h"

/* Sample s of pixel x of a band's row, 0 … 2^bits - 1. */
static unsigned sample(const struct hr__tiff_layout *t, const uint8_t *row, int64_t x,
                       unsigned s)
{
    size_t i = (size_t)x;
    uint16_t wide;

    if (t->planes)
        row += s * t->band_stride * t->band_rows;
    else
        i = i * t->samples + s;
    if (t->bits == 8)
        return row[i];
    if (t->bits == 16) {
        memcpy(&wide, row + 2 * i, sizeof(wide));
        return wide;
    }
    return (unsigned)row[i * t->bits / 8] >> (8 - t->bits - i * t->bits % 8) &
           ((1u << t->bits) - 1);
}

/* The same, in the depth of the rows that are given. */
static unsigned level(const struct hr__tiff_layout *t, const uint8_t *row, int64_t x,
                      unsigned s)
{
    unsigned value = sample(t, row, x, s);

    if (t->bits < 8)
        value = value * 255 / ((1u << t->bits) - 1);
    return t->bits == 16 && t->sample_bytes == 1 ? value >> 8 : value;
}

static void put_level(const struct hr__tiff_layout *t, uint8_t *to, size_t i,
                      unsigned value)
{
    uint16_t wide = (uint16_t)value;

    if (t->sample_bytes == 1)
        to[i] = (uint8_t)value;
    else
        memcpy(to + 2 * i, &wide, sizeof(wide));
}

/* The colour that was multiplied by alpha. */
static unsigned divided(const struct hr__tiff_layout *t, unsigned value, unsigned alpha)
{
    unsigned max = t->sample_bytes == 2 ? 65535 : 255;

    if (!t->premultiplied || alpha == 0 || alpha >= max)
        return value;
    value = (unsigned)((uint64_t)value * max / alpha);
    return value > max ? max : value;
}

static void unpack_palette(const struct hr__tiff_layout *t, const uint8_t *row,
                           uint8_t *to)
{
    size_t channels = (size_t)t->channels;

    for (int64_t x = 0; x < t->width; x++, to += channels) {
        unsigned index = sample(t, row, x, 0);

        to[0] = (uint8_t)(t->red[index] >> 8);
        to[1] = (uint8_t)(t->green[index] >> 8);
        to[2] = (uint8_t)(t->blue[index] >> 8);
        if (channels == 4)
            to[3] = (uint8_t)level(t, row, x, t->alpha);
    }
}

static void unpack_cmyk(const struct hr__tiff_layout *t, const uint8_t *row,
                        uint8_t *to)
{
    size_t channels = (size_t)t->channels;

    for (int64_t x = 0; x < t->width; x++, to += channels) {
        uint8_t ink[4];

        for (unsigned s = 0; s < 4; s++)
            ink[s] = (uint8_t)sample(t, row, x, s);
        if (t->ink) {
            for (unsigned s = 0; s < 4; s++)
                to[s] = ink[s] ^ 255;
            continue;
        }
        hr__cmyk_row(ink, to, 1, false);
        if (channels == 4)
            to[3] = (uint8_t)level(t, row, x, t->alpha);
    }
}

static void unpack_levels(const struct hr__tiff_layout *t, const uint8_t *row,
                          uint8_t *to)
{
    size_t channels = (size_t)t->channels;
    size_t colours = channels >= 3 ? 3 : 1;
    unsigned max = t->sample_bytes == 2 ? 65535 : 255;
    unsigned flip = t->colour == HR_TIFF_GREY_INVERTED ? max : 0;
    size_t at = 0;

    for (int64_t x = 0; x < t->width; x++) {
        unsigned alpha = t->alpha != 0 ? level(t, row, x, t->alpha) : max;

        for (unsigned c = 0; c < colours; c++)
            put_level(t, to, at++, divided(t, level(t, row, x, c), alpha) ^ flip);
        if (channels > colours)
            put_level(t, to, at++, alpha);
    }
}

void hr__tiff_unpack(const struct hr__tiff_layout *t, const uint8_t *row, uint8_t *to)
{
    bool plain = t->bits == 8 && !t->planes && t->alpha == 0 &&
                 t->samples == t->channels && t->colour != HR_TIFF_GREY_INVERTED;

    if (t->colour == HR_TIFF_PALETTE)
        unpack_palette(t, row, to);
    else if (t->colour == HR_TIFF_CMYK)
        unpack_cmyk(t, row, to);
    else if (plain)
        memcpy(to, row, (size_t)t->width * t->samples);
    else
        unpack_levels(t, row, to);
}
