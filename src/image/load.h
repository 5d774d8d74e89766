/* load.h - one picture from its source into pixels. */
#ifndef HR_IMAGE_LOAD_H
#define HR_IMAGE_LOAD_H

#include "image/take.h"

#define HR_NAME_BYTES 128 /* that of struct hr_slot_failure */

/* Whose picture it is, for messages and for draws. */
struct hr__load_id {
    const char *name; /* NULL: the source's own */
    int64_t item;     /* source index, -1: unknown */
    int64_t slot;     /* of a batch, -1: none */
    struct hr__pick pick;
};

/* Fail when a field of options is out of range. who: the operation, for the message. */
HR_MUST_USE enum hr_status
hr__image_options_check(const struct hr_image_options *options, const char *who,
                        struct hr_error *err);

/* The same for the arguments of a resize. */
HR_MUST_USE enum hr_status hr__image_resize_check(int64_t width, int64_t height,
                                                  enum hr_scale_algo algo,
                                                  struct hr_error *err);

/* Decode src into slot (height * width * 3 bytes as options say) or, when that is NULL,
 * into a new array *out. The error's text names the picture. */
HR_MUST_USE enum hr_status hr__load(struct hr_ctx *ctx, const struct hr_value *src,
                                    const struct hr__load_id *id,
                                    const struct hr_image_options *options,
                                    uint8_t *slot, struct hr_array **out,
                                    struct hr_error *err);

/* The source's name for messages, a long one shortened at its start. */
void hr__load_name(const struct hr_value *src, const char *name,
                   char out[HR_NAME_BYTES]);

#endif
