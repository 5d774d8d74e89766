/* tiff_unpack.h - from the samples that a TIFF stores to rows of the kind that a
 * codec gives. */
#ifndef HR_IMAGE_TIFF_UNPACK_H
#define HR_IMAGE_TIFF_UNPACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum hr__tiff_colour {
    HR_TIFF_OTHER = 0,
    HR_TIFF_GREY,
    HR_TIFF_GREY_INVERTED, /* 0 is white */
    HR_TIFF_PALETTE,
    HR_TIFF_RGB,
    HR_TIFF_CMYK
};

/* How samples lie in a band: the rows of a strip, or of a row of tiles. */
struct hr__tiff_layout {
    enum hr__tiff_colour colour;
    uint16_t samples;   /* per pixel */
    uint16_t bits;      /* of each: 1, 2, 4, 8 or 16 */
    uint16_t alpha;     /* index of its sample, 0: none */
    bool premultiplied; /* colours are, by it */
    bool planes;        /* samples lie apart, one plane behind the other */
    uint32_t band_rows;
    size_t band_stride;  /* bytes of a row, of one plane if they lie apart */
    const uint16_t *red; /* the palette, borrowed */
    const uint16_t *green;
    const uint16_t *blue;
    /* the rows to make, as in struct hr__picture */
    int64_t width;
    int channels;
    int sample_bytes;
    bool ink;
};

/* One row of a band, which begins at `row` in its first plane. */
void hr__tiff_unpack(const struct hr__tiff_layout *layout, const uint8_t *row,
                     uint8_t *to);

#endif
