/* load.h - one picture from its source into pixels. */
#ifndef HR_IMAGE_LOAD_H
#define HR_IMAGE_LOAD_H

#include "image/encoded.h"

#define HR_TARGET_MAX 65535 /* pixels of a target's side */

/* Fail when a field of options is out of range. who: the operation, for the message. */
HR_MUST_USE enum hr_status
hr__image_options_check(const struct hr_image_options *options, const char *who,
                        struct hr_error *err);

/* The same for the arguments of a resize. */
HR_MUST_USE enum hr_status hr__image_resize_check(int64_t width, int64_t height,
                                                  enum hr_scale_algo algo,
                                                  struct hr_error *err);

/* Decode src into slot (which has the size that options say) or, when that is NULL,
 * into a new array *out. The error's text names the picture. Of a picture that was kept
 * although it is not whole the error tells too, with HR_OK. */
HR_MUST_USE enum hr_status hr__load(struct hr_ctx *ctx, const struct hr_value *src,
                                    const struct hr__load_id *id,
                                    const struct hr_image_options *options,
                                    uint8_t *slot, struct hr_array **out,
                                    struct hr_error *err);

#endif
