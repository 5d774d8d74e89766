/* From pixels to files in memory. */
#include "image/encode.h"

#include <string.h>

#include "base/mem.h"
#include "base/banned.h"

#define FIRST_BYTES ((size_t)64 << 10)

/* What a side may be. */
static int64_t side_max(enum hr_image_format format)
{
    switch (format) {
    case HR_JPEG:
        return 65500;
    case HR_WEBP:
        return 16383;
    default:
        return INT32_MAX / 8;
    }
}

void hr_encode_options_init(struct hr_encode_options *options)
{
    memset(options, 0, sizeof(*options));
    options->size = sizeof(*options);
    options->quality = 75;
    options->compression = 6;
}

static enum hr_status bad(struct hr_error *err, const char *what, int64_t value)
{
    return hr_error_set(err, HR_ERR_ARG, "image", 0, "encode_image: %s, got %lld", what,
                        (long long)value);
}

enum hr_status hr__encode_options_check(const struct hr_encode_options *o,
                                        struct hr_error *err)
{
    if (o->size != sizeof(*o))
        return bad(err, "options.size is not that of this library", (int64_t)o->size);
    if ((unsigned)o->format > HR_WEBP)
        return bad(err, "format must be one of enum hr_image_format", o->format);
    if (o->quality < 0 || o->quality > 100)
        return bad(err, "quality must be 0 … 100", o->quality);
    if (o->compression < 0 || o->compression > 9)
        return bad(err, "compression must be 0 … 9", o->compression);
    return HR_OK;
}

bool hr__ink_append(struct hr__ink *ink, const void *bytes, size_t n)
{
    size_t room = ink->buffer != NULL ? hr_buffer_size(ink->buffer) : 0;
    struct hr_buffer *grown;

    if (n > room - ink->used) {
        size_t want = room > 0 ? 2 * room : FIRST_BYTES;

        if (want - ink->used < n)
            want = ink->used + n;
        if (hr_buffer_new(want, &grown, NULL) != HR_OK)
            return false;
        if (ink->used > 0)
            memcpy(hr_buffer_data(grown), hr_buffer_data(ink->buffer), ink->used);
        hr_buffer_unref(&ink->buffer);
        ink->buffer = grown;
    }
    memcpy((uint8_t *)hr_buffer_data(ink->buffer) + ink->used, bytes, n);
    ink->used += n;
    return true;
}

static enum hr_status read_shape(const struct hr_array *array, struct hr__drawing *d,
                                 const struct hr_encode_options *o,
                                 struct hr_error *err)
{
    const int64_t *shape = hr_array_shape(array);
    int ndim = hr_array_ndim(array);
    enum hr_dtype dtype = hr_array_dtype(array);
    int64_t channels = ndim == 3 ? shape[2] : 1;

    if (dtype != HR_U8 && !(dtype == HR_U16 && o->format == HR_PNG))
        return hr_error_set(err, HR_ERR_TYPE, "image", 0,
                            "encode_image: expected uint8 pixels%s, got %s",
                            o->format == HR_PNG ? " or uint16" : "",
                            hr_dtype_name(dtype));
    if (ndim != 2 && ndim != 3)
        return bad(err, "expected (H, W) or (H, W, C) pixels, of 2 or 3 dimensions",
                   ndim);
    if (channels < 1 || channels > 4 || (channels == 2 && o->format != HR_PNG))
        return bad(err, "expected 1, 3 or 4 channels", channels);
    if (channels == 4 && o->format == HR_JPEG)
        return bad(err, "JPEG has no alpha, expected 1 or 3 channels", channels);
    if (shape[0] < 1 || shape[1] < 1)
        return hr_error_set(
            err, HR_ERR_ARG, "image", 0,
            "encode_image: the picture has no pixels: it is %lld x %lld",
            (long long)shape[1], (long long)shape[0]);
    if (shape[0] > side_max(o->format) || shape[1] > side_max(o->format))
        return hr_error_set(
            err, HR_ERR_LIMIT, "image", 0,
            "encode_image: %lld x %lld pixels, sides of this format are "
            "limited to %lld",
            (long long)shape[1], (long long)shape[0], (long long)side_max(o->format));
    d->height = (int)shape[0];
    d->width = (int)shape[1];
    d->channels = (int)channels;
    d->wide = dtype == HR_U16;
    d->bgr = o->bgr != 0 && channels >= 3;
    d->pixels = hr_array_data(array);
    d->stride = (size_t)shape[1] * (size_t)channels << d->wide;
    return HR_OK;
}

#ifndef HR_HAVE_WEBP
enum hr_status hr__webp_encode(struct hr_ctx *ctx, const struct hr__drawing *drawing,
                               const struct hr_encode_options *options,
                               struct hr__ink *out, struct hr_error *err)
{
    (void)ctx;
    (void)drawing;
    (void)options;
    (void)out;
    return hr_error_set(err, HR_ERR_UNSUPPORTED, "image", 0,
                        "encode_image: WebP needs libwebp; this build is without it");
}
#endif

static enum hr_status encode(struct hr_ctx *ctx, const struct hr__drawing *d,
                             const struct hr_encode_options *o, struct hr__ink *ink,
                             struct hr_error *err)
{
    switch (o->format) {
    case HR_JPEG:
        return hr__jpeg_encode(ctx, d, o, ink, err);
    case HR_PNG:
        return hr__png_encode(ctx, d, o, ink, err);
    default:
        return hr__webp_encode(ctx, d, o, ink, err);
    }
}

enum hr_status hr_image_encode(struct hr_ctx *ctx, const struct hr_array *pixels,
                               const struct hr_encode_options *options,
                               struct hr_buffer **out, struct hr_error *err)
{
    struct hr__drawing drawing;
    struct hr__ink ink = {0};
    enum hr_status status = hr__encode_options_check(options, err);

    *out = NULL;
    if (status == HR_OK)
        status = read_shape(pixels, &drawing, options, err);
    if (status == HR_OK)
        status = encode(ctx, &drawing, options, &ink, err);
    if (status == HR_OK) /* as large as it is, out of one that grew */
        status = hr_buffer_new(ink.used, out, err);
    if (status == HR_OK)
        memcpy(hr_buffer_data(*out), hr_buffer_data(ink.buffer), ink.used);
    hr_buffer_unref(&ink.buffer);
    return status;
}
