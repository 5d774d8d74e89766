/* limits.h - what is refused before memory is spent on it. */
#ifndef HR_IMAGE_LIMITS_H
#define HR_IMAGE_LIMITS_H

#include "image/codec.h"

/* Refuse a picture that breaks a limit of the options. format: "JPEG", ...;
 * encoded: the size of its data.
 * Errors: HR_ERR_LIMIT; HR_ERR_FORMAT for a picture without pixels. */
HR_MUST_USE enum hr_status hr__limits_check(const struct hr_image_options *options,
                                            const char *format,
                                            const struct hr__picture *picture,
                                            size_t encoded, struct hr_error *err);

/* Refuse an output of that many bytes per pixel. */
HR_MUST_USE enum hr_status hr__limits_target(const struct hr_image_options *options,
                                             int64_t width, int64_t height,
                                             size_t pixel_bytes, struct hr_error *err);

#endif
