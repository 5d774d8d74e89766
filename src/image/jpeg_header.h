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
    size_t icc_size;
    int icc_chunks; /* the profile is spread over so many */
};

/* Errors: HR_ERR_FORMAT. */
HR_MUST_USE enum hr_status hr__jpeg_header(const uint8_t *data, size_t size,
                                           struct hr__jpeg_header *out,
                                           struct hr_error *err);

#endif
