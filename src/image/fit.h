/* fit.h - where a picture lands in its target. */
#ifndef HR_IMAGE_FIT_H
#define HR_IMAGE_FIT_H

#include "headrace/image.h"

#define HR_TARGET_MAX 65535 /* pixels of a target's side */

/* What is taken of a picture: a rectangle inside it. */
struct hr__take {
    int64_t x;
    int64_t y;
    int64_t width;
    int64_t height;
};

/* The taken rectangle is scaled as if it were all there is; the kept rectangle of that
 * is put at (put_x, put_y) of the output. */
struct hr__fit {
    int64_t take_x;
    int64_t take_y;
    int64_t take_width;
    int64_t take_height;
    int64_t scaled_width;
    int64_t scaled_height;
    int64_t cut_x; /* the kept rectangle in the scaled one */
    int64_t cut_y;
    int64_t kept_width;
    int64_t kept_height;
    int64_t put_x;
    int64_t put_y;
    int64_t out_width;
    int64_t out_height;
};

/* Sides of the rectangle and targets in options: 1 … 2^31 - 1 (targets also 0). */
void hr__fit(const struct hr__take *take, const struct hr_image_options *options,
             struct hr__fit *out);

#endif
