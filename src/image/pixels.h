/* pixels.h - rows as decoders give them into pixels of the output. */
#ifndef HR_IMAGE_PIXELS_H
#define HR_IMAGE_PIXELS_H

#include "image/codec.h"

/* Samples of a pixel, and bytes of a sample. */
int hr__pix_fmt_channels(enum hr_pix_fmt pix_fmt);
int hr__pix_fmt_bytes(enum hr_pix_fmt pix_fmt);

/* From what, to what. */
struct hr__conversion {
    int channels; /* of the input: 1 grey, 2 grey and alpha, 3 RGB, 4 RGBA */
    int sample_bytes;
    enum hr_pix_fmt to;
    int64_t background; /* 0xrrggbb, -1: none */
    bool premultiply;   /* HR_RGBA: multiply alpha into the colours */
};

/* True when pixels stay what they are. */
bool hr__convert_keeps(const struct hr__conversion *c);
/* from and to do not overlap. */
void hr__convert_row(const struct hr__conversion *c, const uint8_t *from, uint8_t *to,
                     size_t pixels);
/* CMYK of 8 bits to RGB: red is (255 - k) - c * (255 - k) / 255, rounded, as in Pillow.
 * inverted: 255 is no ink. */
void hr__cmyk_row(const uint8_t *cmyk, uint8_t *rgb, size_t pixels, bool inverted);
/* The colours of premultiplied RGBA pixels, in place. */
void hr__unpremultiply_row(uint8_t *rgba, size_t pixels);

#endif
