/* colour.h - from luma and chroma to RGB. */
#ifndef HR_IMAGE_COLOUR_H
#define HR_IMAGE_COLOUR_H

#include "image/plane_kernels.h"
#include "image/yuv.h"

struct hr__matrix hr__matrix_of(enum hr__colour_space space,
                                enum hr__colour_range range);

#endif
