/* yuv.h - a picture in planes, as a decoder describes it. */
#ifndef HR_IMAGE_YUV_H
#define HR_IMAGE_YUV_H

#include <stdint.h>

#define HR_PLANES 3
/* Rows of one plane that a decoder gives at a time, at most. */
#define HR_PLANE_GROUP 32

/* What a plane's samples say about the pixels between them. */
enum hr__upsampling {
    HR_UPSAMPLE_REPEAT = 0, /* each stands for its `factor` pixels */
    HR_UPSAMPLE_CENTRED,    /* linear; it sits in the middle of its pixels */
    HR_UPSAMPLE_COSITED     /* linear; it sits on the first of its pixels */
};

/* One plane as the decoder has it. */
struct hr__plane {
    int64_t width; /* its own samples */
    int64_t height;
    int factor_x; /* pixels per sample */
    int factor_y;
    enum hr__upsampling upsampling_x;
    enum hr__upsampling upsampling_y;
    int group;         /* rows that come at a time, the last time perhaps fewer */
    int64_t row_bytes; /* that the decoder writes of a row, at least width */
};

enum hr__colour_space {
    HR_COLOUR_BT601 = 0, /* JPEG, WebP, SD video */
    HR_COLOUR_BT709,     /* HD video */
    HR_COLOUR_BT2020     /* UHD video, non-constant luminance */
};

enum hr__colour_range {
    HR_RANGE_FULL = 0, /* 0 … 255 (JPEG) */
    HR_RANGE_LIMITED   /* luma 16 … 235, chroma 16 … 240 (video, WebP) */
};

/* A picture in planes, as its decoder has it. */
struct hr__yuv {
    int count; /* 1: grey, 3: Y, Cb, Cr */
    struct hr__plane plane[HR_PLANES];
    enum hr__colour_space space;
    enum hr__colour_range range;
};

#endif
