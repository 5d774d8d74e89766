/* take.h - what is taken of a picture, and whether it is mirrored. */
#ifndef HR_IMAGE_TAKE_H
#define HR_IMAGE_TAKE_H

#include <stdbool.h>

#include "image/fit.h"

/* Which picture it is. */
struct hr__pick {
    int64_t index;            /* for draws */
    const struct hr_box *box; /* its own, or NULL: as the options say */
    int flip;                 /* its own, or -1: as the options say */
};

/* Fail when the options ask for what there is not. who: for the message. */
HR_MUST_USE enum hr_status hr__take_check(const struct hr_image_options *options,
                                          const char *who, struct hr_error *err);

/* Choose for a shown picture of that size.
 * Errors: HR_ERR_ARG (a box that leaves the picture). */
HR_MUST_USE enum hr_status hr__take_choose(const struct hr_image_options *options,
                                           const struct hr__pick *pick, int64_t width,
                                           int64_t height, struct hr__take *take,
                                           bool *flip, struct hr_error *err);

#endif
