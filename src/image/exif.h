/* exif.h - the one thing of EXIF that bears on pixels. */
#ifndef HR_IMAGE_EXIF_H
#define HR_IMAGE_EXIF_H

#include <stddef.h>
#include <stdint.h>

/* The orientation, 1 … 8, of EXIF data that begin with a TIFF header ("II*\0" or
 * "MM\0*"), with or without "Exif\0\0" before it; 0 when they do not tell a valid one. */
int hr__exif_orientation(const uint8_t *data, size_t size);

#endif
