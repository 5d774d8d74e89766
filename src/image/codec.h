/* codec.h - what a decoder is: one struct of functions per format.
 *
 *     hr__sniff -> hr__codec -> open: the header, as a struct hr__picture
 *                            -> the limits are checked, the canvas is begun
 *                            -> read: rows in order onto the canvas
 *                            -> close
 *
 * The loader (load.c) goes that way; a codec knows its format and nothing of limits,
 * sizes of targets, pixel formats of outputs or orientation. Each codec is one file,
 * NAME.c, or several, NAME_*.c, which alone see its library's headers. */
#ifndef HR_IMAGE_CODEC_H
#define HR_IMAGE_CODEC_H

#include <stdbool.h>
#include <string.h>

#include "headrace/image.h"
#include "image/yuv.h"

struct hr__canvas;

/* The encoded bytes, borrowed from open to close. */
struct hr__input {
    const uint8_t *data;
    size_t size;
    const struct hr_image_options *options;
    struct hr_ctx *ctx;
};

/* What a header says. Zeroed before open fills it. */
struct hr__picture {
    int64_t width; /* as stored */
    int64_t height;
    /* The rows that read gives: 1 grey, 2 grey and alpha, 3 RGB, 4 RGBA; alpha is not
     * multiplied into the colours. Samples of 2 bytes are in native order and use all
     * 16 bits. A codec may give less than is stored where the options ask for less. */
    int channels;
    int sample_bytes;
    /* The rows are 4 bytes of cyan, magenta, yellow and black instead, 255 being no ink,
     * and the profile has to make colours of them: hr__wants_ink. */
    bool ink;
    /* what is stored, for hr_image_info */
    int stored_channels;
    int stored_bits;     /* of a sample, or of a palette's index */
    int orientation;     /* EXIF's, 1 … 8; 0 counts as 1 */
    int64_t frames;      /* 0 counts as 1 */
    uint64_t raw_bytes;  /* of all stored samples, for the limit on expansion */
    uint64_t work_bytes; /* held while decoding, beyond a few rows: decoded bytes too */
    bool shrinks;        /* read can decode at 1/2, 1/4 and 1/8 of the size */
    /* What read gives where the canvas asks for planes; count 0: it has none. */
    struct hr__yuv yuv;
    const uint8_t *icc; /* the colour profile, borrowed until close, or NULL */
    size_t icc_size;
};

struct hr__codec {
    const char *name; /* "JPEG", for messages */
    /* A decoder, used by one thread for picture after picture. */
    enum hr_status (*create)(void **out, struct hr_error *err);
    void (*destroy)(void *decoder);
    /* Read the header, and of the data no more than that takes. close must follow,
     * whatever came of it. */
    enum hr_status (*open)(void *decoder, const struct hr__input *in,
                           struct hr__picture *out, struct hr_error *err);
    /* Turn to frame n: more than at the last call, less than frames; after open it is
     * frame 0. Describes the frame where frames differ. NULL: there is one frame. */
    enum hr_status (*turn)(void *decoder, int64_t n, struct hr__picture *out,
                           struct hr_error *err);
    /* Put all rows of the frame on the canvas, which was begun with the picture. On an
     * error the rows put so far are good. */
    enum hr_status (*read)(void *decoder, struct hr__canvas *canvas,
                           struct hr_error *err);
    void (*close)(void *decoder);
};

/* True when alpha shows in the output, so that a codec gives it if there is any. */
static inline bool hr__wants_alpha(const struct hr_image_options *options)
{
    return options->pix_fmt == HR_RGBA || options->background >= 0;
}

/* True when the output has 16 bits, so that a codec gives 2-byte samples if it has
 * more than 8 bits of them. */
static inline bool hr__wants_16(const struct hr_image_options *options)
{
    return options->pix_fmt == HR_GRAY16 || options->pix_fmt == HR_RGB48;
}

static inline bool hr__wants_grey(const struct hr_image_options *options)
{
    return options->pix_fmt == HR_GRAY || options->pix_fmt == HR_GRAY16;
}

/* True when CMYK is to go through the picture's own profile. */
static inline bool hr__wants_ink(const struct hr_image_options *options,
                                 const struct hr__picture *picture)
{
    return options->icc == HR_ICC_SRGB && picture->icc_size >= 20 &&
           memcmp(picture->icc + 16, "CMYK", 4) == 0;
}

extern const struct hr__codec hr__codec_jpeg;
extern const struct hr__codec hr__codec_png;
extern const struct hr__codec hr__codec_bmp;
extern const struct hr__codec hr__codec_webp;
extern const struct hr__codec hr__codec_gif;
extern const struct hr__codec hr__codec_tiff;
extern const struct hr__codec hr__codec_avif;

#endif
