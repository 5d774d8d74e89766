/* exif.h - directories of tags, as EXIF and multi-picture JPEGs have them. */
#ifndef HR_IMAGE_EXIF_H
#define HR_IMAGE_EXIF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The values of one tag, borrowed from the data. */
struct hr__exif_tag {
    int type;
    uint32_t count;
    const uint8_t *values;
    bool big; /* numbers are big-endian */
};

/* Find a tag in the first directory of data that begin with a TIFF header ("II*\0" or
 * "MM\0*"), with or without "Exif\0\0" before it. False when it is not there, or its
 * values do not lie in the data. */
bool hr__exif_find(const uint8_t *data, size_t size, uint32_t number,
                   struct hr__exif_tag *out);

/* A number of 1 to 4 bytes in a tag's byte order. */
uint32_t hr__exif_number(const uint8_t *at, int bytes, bool big);

/* The orientation, 1 … 8; 0 when the data do not tell a valid one. */
int hr__exif_orientation(const uint8_t *data, size_t size);

#endif
