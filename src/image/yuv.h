/* yuv.h - a picture in planes, as a decoder describes it. */
#ifndef HR_IMAGE_YUV_H
#define HR_IMAGE_YUV_H

#include <stdbool.h>
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
    int count;  /* 1: grey, 3: Y, Cb, Cr */
    bool whole; /* all rows come at once, in memory of the decoder's; no groups */
    struct hr__plane plane[HR_PLANES];
    enum hr__colour_space space;
    enum hr__colour_range range;
};

/* Planes of a picture that come whole, chroma having 1 / factor_x, 1 / factor_y of the
 * samples, which lie in the middle of their pixels. */
static inline struct hr__yuv hr__yuv_whole(int count, int64_t width, int64_t height,
                                           int factor_x, int factor_y)
{
    struct hr__yuv yuv = {.count = count, .whole = true};

    for (int i = 0; i < count; i++) {
        int x = i == 0 ? 1 : factor_x;
        int y = i == 0 ? 1 : factor_y;

        yuv.plane[i] = (struct hr__plane){
            .width = (width + x - 1) / x,
            .height = (height + y - 1) / y,
            .factor_x = x,
            .factor_y = y,
            .upsampling_x = HR_UPSAMPLE_CENTRED,
            .upsampling_y = HR_UPSAMPLE_CENTRED,
            .group = 1,
        };
    }
    return yuv;
}

#endif
