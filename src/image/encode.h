/* encode.h - what encoders share. */
#ifndef HR_IMAGE_ENCODE_H
#define HR_IMAGE_ENCODE_H

#include <stdbool.h>

#include "headrace/image.h"

/* Pixels to encode, borrowed. */
struct hr__drawing {
    int width;
    int height;
    int channels; /* 1 grey, 2 grey and alpha, 3 RGB, 4 RGBA */
    bool wide;    /* samples are uint16 in native order */
    bool bgr;
    const uint8_t *pixels;
    size_t stride;
};

/* Encoded bytes as they come. Zero-initialised. */
struct hr__ink {
    struct hr_buffer *buffer; /* larger than what is used */
    size_t used;
};

/* Append. False without memory. */
bool hr__ink_append(struct hr__ink *ink, const void *bytes, size_t n);

HR_MUST_USE enum hr_status
hr__encode_options_check(const struct hr_encode_options *options, struct hr_error *err);

/* Errors: HR_ERR_NOMEM, HR_CANCELLED, HR_ERR_DEADLINE; those of the format. */
HR_MUST_USE enum hr_status hr__jpeg_encode(struct hr_ctx *ctx,
                                           const struct hr__drawing *drawing,
                                           const struct hr_encode_options *options,
                                           struct hr__ink *out, struct hr_error *err);
HR_MUST_USE enum hr_status hr__png_encode(struct hr_ctx *ctx,
                                          const struct hr__drawing *drawing,
                                          const struct hr_encode_options *options,
                                          struct hr__ink *out, struct hr_error *err);
HR_MUST_USE enum hr_status hr__webp_encode(struct hr_ctx *ctx,
                                           const struct hr__drawing *drawing,
                                           const struct hr_encode_options *options,
                                           struct hr__ink *out, struct hr_error *err);

#endif
