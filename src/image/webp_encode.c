/* WebP out of pixels, by libwebp: lossy by quality, or lossless. */
#include <webp/encode.h>

#include "base/mem.h"
#include "image/encode.h"
#include "image/pixels.h"
#include "base/banned.h"

static int on_write(const uint8_t *bytes, size_t n, const WebPPicture *picture)
{
    return hr__ink_append(picture->custom_ptr, bytes, n);
}

/* libwebp asks now and then whether to go on. */
static int on_progress(int percent, const WebPPicture *picture)
{
    (void)percent;
    return !hr_ctx_cancelled(picture->user_data);
}

/* libwebp takes RGB, so grey is spread. */
static int import_grey(WebPPicture *picture, const struct hr__drawing *d)
{
    const struct hr__conversion spread = {
        .channels = 1, .sample_bytes = 1, .to = HR_RGB24, .background = -1};
    size_t stride = (size_t)d->width * 3;
    struct hr_buffer *rgb;
    int done;

    if (hr_buffer_new(stride * (size_t)d->height, &rgb, NULL) != HR_OK)
        return 0;
    for (int y = 0; y < d->height; y++)
        hr__convert_row(&spread, d->pixels + (size_t)y * d->stride,
                        (uint8_t *)hr_buffer_data(rgb) + (size_t)y * stride,
                        (size_t)d->width);
    done = WebPPictureImportRGB(picture, hr_buffer_data(rgb), (int)stride);
    hr_buffer_unref(&rgb);
    return done;
}

static int import(WebPPicture *picture, const struct hr__drawing *d)
{
    int stride = (int)d->stride;

    if (d->channels == 1)
        return import_grey(picture, d);
    if (d->channels == 3)
        return d->bgr ? WebPPictureImportBGR(picture, d->pixels, stride)
                      : WebPPictureImportRGB(picture, d->pixels, stride);
    return d->bgr ? WebPPictureImportBGRA(picture, d->pixels, stride)
                  : WebPPictureImportRGBA(picture, d->pixels, stride);
}

enum hr_status hr__webp_encode(struct hr_ctx *ctx, const struct hr__drawing *drawing,
                               const struct hr_encode_options *options,
                               struct hr__ink *out, struct hr_error *err)
{
    WebPConfig config;
    WebPPicture picture;
    enum hr_status status = hr_ctx_check(ctx, err);
    int done;

    if (status != HR_OK)
        return status;
    if (!WebPConfigInit(&config) || !WebPPictureInit(&picture))
        return hr_error_set(err, HR_ERR_UNSUPPORTED, "image", 0,
                            "encode_image: this libwebp is of another version");
    config.quality = (float)options->quality;
    config.lossless = options->lossless != 0;
    config.exact = config.lossless;
    picture.use_argb = config.lossless;
    picture.width = drawing->width;
    picture.height = drawing->height;
    picture.writer = on_write;
    picture.custom_ptr = out;
    picture.progress_hook = on_progress;
    picture.user_data = ctx;
    done = import(&picture, drawing) && WebPEncode(&config, &picture);
    WebPPictureFree(&picture);
    if (done)
        return HR_OK;
    status = hr_ctx_check(ctx, err);
    return status != HR_OK ? status : hr__nomem(err, "image", "a WebP encoder", 0);
}
