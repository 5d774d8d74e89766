/* jpeg_header.h - what the markers before a JPEG's first scan say. */
#ifndef HR_IMAGE_JPEG_HEADER_H
#define HR_IMAGE_JPEG_HEADER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "headrace/status.h"

struct hr__jpeg_header {
    int width;
    int height;
    int bits; /* of a sample */
    int components;
    uint8_t sampling[4]; /* per component: horizontal factor << 4 | vertical */
    bool several_scans;  /* progressive, or a first scan without all components */
    bool ycc;            /* three components are Y, Cb, Cr, by libjpeg's rules */
    int orientation;     /* EXIF's; 0: none */
    const uint8_t *icc;  /* a profile's first chunk, in the data; NULL: none */
    size_t icc_size;     /* of that chunk */
    int icc_chunks;      /* the profile is spread over so many */
    const uint8_t *mpf;  /* the directory of a multi-picture file; NULL: none */
    size_t mpf_size;
};

/* Errors: HR_ERR_FORMAT. */
HR_MUST_USE enum hr_status hr__jpeg_header(const uint8_t *data, size_t size,
                                           struct hr__jpeg_header *out,
                                           struct hr_error *err);

/* How many pictures a multi-picture file says that it has; 1 for any other. */
int64_t hr__jpeg_pictures(const struct hr__jpeg_header *header);
/* Where picture n > 0 of them begins in the data, and how long it is. False when it does
 * not lie in the data. */
bool hr__jpeg_picture(const struct hr__jpeg_header *header, const uint8_t *data,
                      size_t size, int64_t n, size_t *at, size_t *length);

/* A profile's chunks put together, in the order of the data. to: NULL to count, else
 * room for what that gave. Returns the size. */
size_t hr__jpeg_profile(const uint8_t *data, size_t size, uint8_t *to);

#endif
