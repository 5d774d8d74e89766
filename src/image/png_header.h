/* png_header.h - what a PNG's chunks say before libpng sees them. */
#ifndef HR_IMAGE_PNG_HEADER_H
#define HR_IMAGE_PNG_HEADER_H

#include "image/codec.h"

struct hr__png_header {
    bool colour;      /* in the pixels or in the palette */
    bool alpha;       /* a channel of it, or a transparent colour */
    bool transparent; /* there is a transparent colour, or there are in the palette */
    bool interlaced;
    bool cut; /* the data end before the end */
};

/* Fill in what is stored; *out is otherwise left alone. Its profile is the chunk as it
 * lies in the file, with its name and compressed.
 * Errors: HR_ERR_FORMAT. */
HR_MUST_USE enum hr_status hr__png_header(const uint8_t *data, size_t size,
                                          struct hr__png_header *header,
                                          struct hr__picture *out,
                                          struct hr_error *err);

#endif
