/* fit.h - where a picture lands in its target. */
#ifndef HR_IMAGE_FIT_H
#define HR_IMAGE_FIT_H

#include "headrace/image.h"

/* The picture is scaled as a whole; the kept rectangle of that is put at (put_x, put_y)
 * of the output. */
struct hr__fit {
    int64_t scaled_width;
    int64_t scaled_height;
    int64_t cut_x; /* the kept rectangle in the scaled picture */
    int64_t cut_y;
    int64_t kept_width;
    int64_t kept_height;
    int64_t put_x;
    int64_t put_y;
    int64_t out_width;
    int64_t out_height;
};

/* width, height: the picture's, 1 … 2^31 - 1, as are the targets in options. */
void hr__fit(int64_t width, int64_t height, const struct hr_image_options *options,
             struct hr__fit *out);

#endif
