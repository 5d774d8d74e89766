/* filter.h - the resampling filters, as functions of the distance from their centre. */
#ifndef HR_IMAGE_FILTER_H
#define HR_IMAGE_FILTER_H

#include <math.h>

#include "headrace/image.h"

/* A filter is zero outside -support … support. */
static inline double hr__filter_support(enum hr_scale_algo algo)
{
    static const double support[] = {
        [HR_SCALE_BOX] = 0.5,
        [HR_SCALE_BILINEAR] = 1.0,
        [HR_SCALE_BICUBIC] = 2.0,
        [HR_SCALE_LANCZOS] = 3.0,
    };

    return support[algo];
}

static inline double hr__filter_sinc(double x)
{
    if (x == 0.0)
        return 1.0;
    x *= M_PI;
    return sin(x) / x;
}

/* Keys' cubic convolution with a = -1/2. */
static inline double hr__filter_keys(double x)
{
    const double a = -0.5;

    x = fabs(x);
    if (x < 1.0)
        return ((a + 2.0) * x - (a + 3.0)) * x * x + 1;
    if (x < 2.0)
        return (((x - 5) * x + 8) * x - 4) * a;
    return 0.0;
}

/* The order of operations is part of the contract with taps.c. Inlined where algo is a
 * constant, the switch is gone. */
static inline __attribute__((always_inline)) double
hr__filter_value(enum hr_scale_algo algo, double x)
{
    switch (algo) {
    case HR_SCALE_BOX:
        return x > -0.5 && x <= 0.5 ? 1.0 : 0.0;
    case HR_SCALE_BILINEAR:
        x = fabs(x);
        return x < 1.0 ? 1.0 - x : 0.0;
    case HR_SCALE_BICUBIC:
        return hr__filter_keys(x);
    default:
        return x >= -3.0 && x < 3.0 ? hr__filter_sinc(x) * hr__filter_sinc(x / 3) : 0.0;
    }
}

#endif
