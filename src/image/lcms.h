/* lcms.h - colours by profile, by Little CMS. */
#ifndef HR_IMAGE_LCMS_H
#define HR_IMAGE_LCMS_H

#include "image/codec.h"

/* The way from one picture's colours to sRGB. */
struct hr__colours;

/* What picture's profile asks for; *out is NULL when there is nothing to do: no profile,
 * or one for another kind of pixels than the rows are. Of ink there is always something.
 * Errors: HR_ERR_FORMAT (a damaged profile), HR_ERR_UNSUPPORTED (this build is without
 * Little CMS), HR_ERR_NOMEM. */
HR_MUST_USE enum hr_status hr__colours_new(const struct hr__picture *picture,
                                           struct hr__colours **out,
                                           struct hr_error *err);
void hr__colours_free(struct hr__colours **colours);

/* Convert a row, in place (to == from) or, as ink must be, into one of RGB. */
void hr__colours_row(const struct hr__colours *colours, const uint8_t *from,
                     uint8_t *to, size_t pixels);

#endif
