/* Pixel formats.
 *
 * In this order: the depth is changed, alpha is blended with the background or dropped,
 * colours become grey.
 *
 *     16 -> 8 bits   the upper 8
 *     8 -> 16 bits   times 257
 *     blending       (c * a + b * (max - a)) / max, rounded
 *     grey           (19595 R + 38470 G + 7471 B + 32768) / 65536, the weights of
 *                    BT.601 as in Pillow's convert("L")
 *     premultiplied  c * a / 255 rounded; back, 255 * c / a cut off, at most 255, as in
 *                    Pillow's convert("RGBa")
 *
 * The ways that most pictures take have loops of their own; one general loop serves the
 * others. */
#include "image/pixels.h"

#include <string.h>

#include "base/banned.h"

struct pixel {
    uint32_t r, g, b, a;
};

int hr__pix_fmt_channels(enum hr_pix_fmt pix_fmt)
{
    switch (pix_fmt) {
    case HR_GRAY:
    case HR_GRAY16:
        return 1;
    case HR_RGBA:
        return 4;
    default:
        return 3;
    }
}

int hr__pix_fmt_bytes(enum hr_pix_fmt pix_fmt)
{
    return pix_fmt == HR_GRAY16 || pix_fmt == HR_RGB48 ? 2 : 1;
}

/* a * b / max, rounded. */
static uint32_t times(uint32_t a, uint32_t b, uint32_t max)
{
    return max == 255 ? (a * b + 127) / 255
                      : (uint32_t)(((uint64_t)a * b + 32767) / 65535);
}

static uint32_t blend(uint32_t c, uint32_t b, uint32_t a, uint32_t max)
{
    uint64_t sum = (uint64_t)c * a + (uint64_t)b * (max - a);

    return max == 255 ? ((uint32_t)sum + 127) / 255 : (uint32_t)((sum + 32767) / 65535);
}

static uint32_t luma(uint32_t r, uint32_t g, uint32_t b)
{
    return (19595 * r + 38470 * g + 7471 * b + 32768) >> 16;
}

/* ---- the general loop ---- */

static uint32_t sample(const struct hr__conversion *c, const uint8_t *from, size_t i,
                       bool wide)
{
    uint16_t value;

    if (c->sample_bytes == 1)
        return wide ? from[i] * 257u : from[i];
    memcpy(&value, from + 2 * i, sizeof(value));
    return wide ? value : value >> 8;
}

static struct pixel read_pixel(const struct hr__conversion *c, const uint8_t *from,
                               size_t i, bool wide)
{
    size_t at = i * (size_t)c->channels;
    struct pixel p;

    p.r = sample(c, from, at, wide);
    p.g = c->channels > 2 ? sample(c, from, at + 1, wide) : p.r;
    p.b = c->channels > 2 ? sample(c, from, at + 2, wide) : p.r;
    p.a = c->channels % 2 == 0 ? sample(c, from, at + (size_t)c->channels - 1, wide)
                               : (wide ? 65535u : 255u);
    return p;
}

static void blend_pixel(struct pixel *p, int64_t background, uint32_t max)
{
    uint32_t scale = max / 255;

    p->r = blend(p->r, (background >> 16 & 255) * scale, p->a, max);
    p->g = blend(p->g, (background >> 8 & 255) * scale, p->a, max);
    p->b = blend(p->b, (background & 255) * scale, p->a, max);
    p->a = max;
}

static void put_wide(uint8_t *to, size_t i, uint32_t value)
{
    uint16_t v = (uint16_t)value;

    memcpy(to + 2 * i, &v, sizeof(v));
}

static void write_pixel(enum hr_pix_fmt fmt, uint8_t *to, size_t i, struct pixel p)
{
    switch (fmt) {
    case HR_RGB24:
    case HR_BGR24:
        to[3 * i] = (uint8_t)(fmt == HR_RGB24 ? p.r : p.b);
        to[3 * i + 1] = (uint8_t)p.g;
        to[3 * i + 2] = (uint8_t)(fmt == HR_RGB24 ? p.b : p.r);
        break;
    case HR_GRAY:
        to[i] = (uint8_t)luma(p.r, p.g, p.b);
        break;
    case HR_RGBA:
        to[4 * i] = (uint8_t)p.r;
        to[4 * i + 1] = (uint8_t)p.g;
        to[4 * i + 2] = (uint8_t)p.b;
        to[4 * i + 3] = (uint8_t)p.a;
        break;
    case HR_GRAY16:
        put_wide(to, i, luma(p.r, p.g, p.b));
        break;
    case HR_RGB48:
        put_wide(to, 3 * i, p.r);
        put_wide(to, 3 * i + 1, p.g);
        put_wide(to, 3 * i + 2, p.b);
        break;
    }
}

static void convert_any(const struct hr__conversion *c, const uint8_t *from,
                        uint8_t *to, size_t pixels)
{
    bool wide = hr__pix_fmt_bytes(c->to) == 2;
    uint32_t max = wide ? 65535 : 255;

    for (size_t i = 0; i < pixels; i++) {
        struct pixel p = read_pixel(c, from, i, wide);

        if (c->background >= 0)
            blend_pixel(&p, c->background, max);
        if (c->premultiply) {
            p.r = times(p.r, p.a, 255);
            p.g = times(p.g, p.a, 255);
            p.b = times(p.b, p.a, 255);
        }
        write_pixel(c->to, to, i, p);
    }
}

/* ---- loops of their own, for bytes ---- */

static void grey_to_rgb(const uint8_t *from, uint8_t *to, size_t pixels)
{
    for (size_t i = 0; i < pixels; i++)
        to[3 * i] = to[3 * i + 1] = to[3 * i + 2] = from[i];
}

static void rgb_to_bgr(const uint8_t *from, uint8_t *to, size_t pixels)
{
    for (size_t i = 0; i < pixels; i++) {
        to[3 * i] = from[3 * i + 2];
        to[3 * i + 1] = from[3 * i + 1];
        to[3 * i + 2] = from[3 * i];
    }
}

static void rgb_to_grey(const uint8_t *from, uint8_t *to, size_t pixels)
{
    for (size_t i = 0; i < pixels; i++)
        to[i] = (uint8_t)luma(from[3 * i], from[3 * i + 1], from[3 * i + 2]);
}

static void rgba_to_rgb(const uint8_t *from, uint8_t *to, size_t pixels)
{
    for (size_t i = 0; i < pixels; i++)
        memcpy(to + 3 * i, from + 4 * i, 3);
}

static void blend_rgba(const uint8_t *from, uint8_t *to, size_t pixels,
                       int64_t background)
{
    const uint32_t under[3] = {background >> 16 & 255, background >> 8 & 255,
                               background & 255};

    for (size_t i = 0; i < pixels; i++, from += 4, to += 3)
        for (int c = 0; c < 3; c++)
            to[c] = (uint8_t)blend(from[c], under[c], from[3], 255);
}

bool hr__convert_keeps(const struct hr__conversion *c)
{
    bool alpha_changes = c->channels % 2 == 0 && (c->background >= 0 || c->premultiply);

    return c->to != HR_BGR24 && c->channels == hr__pix_fmt_channels(c->to) &&
           c->sample_bytes == hr__pix_fmt_bytes(c->to) && !alpha_changes;
}

void hr__convert_row(const struct hr__conversion *c, const uint8_t *from, uint8_t *to,
                     size_t pixels)
{
    bool bytes = c->sample_bytes == 1;

    if (bytes && c->channels == 1 && (c->to == HR_RGB24 || c->to == HR_BGR24))
        grey_to_rgb(from, to, pixels);
    else if (bytes && c->channels == 3 && c->to == HR_BGR24)
        rgb_to_bgr(from, to, pixels);
    else if (bytes && c->channels == 3 && c->to == HR_GRAY)
        rgb_to_grey(from, to, pixels);
    else if (bytes && c->channels == 4 && c->to == HR_RGB24 && c->background >= 0)
        blend_rgba(from, to, pixels, c->background);
    else if (bytes && c->channels == 4 && c->to == HR_RGB24)
        rgba_to_rgb(from, to, pixels);
    else
        convert_any(c, from, to, pixels);
}

void hr__cmyk_row(const uint8_t *cmyk, uint8_t *rgb, size_t pixels, bool inverted)
{
    unsigned flip = inverted ? 0 : 255;

    for (size_t i = 0; i < pixels; i++, cmyk += 4, rgb += 3) {
        unsigned white = cmyk[3] ^ flip;

        for (int c = 0; c < 3; c++)
            rgb[c] = (uint8_t)(white - times(255 - (cmyk[c] ^ flip), white, 255));
    }
}

void hr__unpremultiply_row(uint8_t *rgba, size_t pixels)
{
    for (size_t i = 0; i < pixels; i++, rgba += 4) {
        uint32_t a = rgba[3];

        if (a == 0 || a == 255)
            continue;
        for (int c = 0; c < 3; c++) {
            uint32_t value = 255u * rgba[c] / a;

            rgba[c] = value > 255 ? 255 : (uint8_t)value;
        }
    }
}
