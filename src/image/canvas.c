/* The way of the rows: see canvas.h. A picture that needs no resize is decoded straight
 * into its place; any other goes through a few staging rows, warm in the cache. */
#include "image/canvas.h"

#include <string.h>

#include "base/mem.h"
#include "base/banned.h"

#define CHANNELS 3
/* Staging rows begin at an odd multiple of this. libjpeg-turbo writes rows that are
 * aligned to its vectors past the cache, and the resize that reads them next would wait
 * for memory: 0.2 ms per picture of 640 x 400. */
#define MISALIGN 8
/* Expansion is judged only above this many bytes, where it can hurt. */
#define EXPANSION_FREE ((uint64_t)64 << 20)
#define EXPANSION_MAX 1000

enum hr_status hr__canvas_check(const struct hr__canvas *canvas, const char *format,
                                int64_t width, int64_t height, struct hr_error *err)
{
    const struct hr_image_options *o = canvas->options;
    uint64_t w = (uint64_t)width;
    uint64_t h = (uint64_t)height;

    if (width < 1 || height < 1)
        return hr_error_set(err, HR_ERR_FORMAT, "image", 0,
                            "image: %s says its size is %lld x %lld", format,
                            (long long)width, (long long)height);
    if (w > o->side_max || h > o->side_max)
        return hr_error_set(
            err, HR_ERR_LIMIT, "image", 0,
            "image: %s of %lld x %lld pixels, sides are limited to %llu", format,
            (long long)width, (long long)height, (unsigned long long)o->side_max);
    if (w > INT32_MAX || h > INT32_MAX || w * h > o->pixels_max)
        return hr_error_set(err, HR_ERR_LIMIT, "image", 0,
                            "image: %s of %lld x %lld pixels, the limit is %llu pixels",
                            format, (long long)width, (long long)height,
                            (unsigned long long)o->pixels_max);
    if (w * h * CHANNELS > o->bytes_max)
        return hr_error_set(
            err, HR_ERR_LIMIT, "image", 0,
            "image: %s of %lld x %lld pixels, the limit is %llu decoded "
            "bytes",
            format, (long long)width, (long long)height,
            (unsigned long long)o->bytes_max);
    return HR_OK;
}

static enum hr_status check_expansion(const struct hr__canvas *c, const char *format,
                                      uint64_t raw_bytes, struct hr_error *err)
{
    if (raw_bytes <= EXPANSION_FREE || raw_bytes / EXPANSION_MAX < c->encoded)
        return HR_OK;
    return hr_error_set(err, HR_ERR_LIMIT, "image", 0,
                        "image: %s of %zu bytes expands to %llu, the limit is %d:1",
                        format, c->encoded, (unsigned long long)raw_bytes,
                        EXPANSION_MAX);
}

/* Make the output unless there is one, and blacken what the picture leaves free. */
static enum hr_status prepare_output(struct hr__canvas *c, struct hr_error *err)
{
    const struct hr__fit *f = &c->fit;
    int64_t shape[3] = {f->out_height, f->out_width, CHANNELS};
    uint8_t *pixels = c->slot;
    size_t left = (size_t)f->put_x * CHANNELS;
    size_t middle = (size_t)f->kept_width * CHANNELS;
    size_t above = (size_t)f->put_y;
    size_t below = (size_t)f->out_height - above - (size_t)f->kept_height;
    enum hr_status status;

    c->stride = (size_t)f->out_width * CHANNELS;
    if (pixels == NULL) {
        if ((uint64_t)f->out_width * (uint64_t)f->out_height >
            c->options->bytes_max / CHANNELS)
            return hr_error_set(err, HR_ERR_LIMIT, "image", 0,
                                "image: a target of %lld x %lld pixels, the limit is "
                                "%llu decoded bytes",
                                (long long)f->out_width, (long long)f->out_height,
                                (unsigned long long)c->options->bytes_max);
        status = hr_array_alloc(HR_U8, 3, shape, &c->array, err);
        if (status != HR_OK)
            return status;
        pixels = hr_array_data(c->array);
    }
    memset(pixels, 0, above * c->stride);
    memset(pixels + ((size_t)f->out_height - below) * c->stride, 0, below * c->stride);
    if (middle < c->stride)
        for (size_t y = above; y < (size_t)f->out_height - below; y++) {
            memset(pixels + y * c->stride, 0, left);
            memset(pixels + y * c->stride + left + middle, 0,
                   c->stride - left - middle);
        }
    c->origin = pixels + above * c->stride + left;
    return HR_OK;
}

static enum hr_status prepare_staging(struct hr__canvas *c, struct hr_error *err)
{
    struct hr__easel *easel = c->easel;
    size_t bytes;

    c->row_stride =
        ((size_t)c->width * CHANNELS + HR_ROW_SLACK + MISALIGN + 63) & ~(size_t)63;
    bytes = c->row_stride * HR_PUSH_ROWS + MISALIGN;
    if (bytes > easel->staging_bytes) {
        hr__free(easel->staging);
        easel->staging_bytes = 0;
        /* Zeroed: kernels read the slack, with weight 0. */
        easel->staging = hr__calloc(bytes, 1);
        if (easel->staging == NULL)
            return hr__nomem(err, "image", "rows of a picture", bytes);
        easel->staging_bytes = bytes;
    }
    return HR_OK;
}

static enum hr_status prepare_resample(struct hr__canvas *c, struct hr_error *err)
{
    const struct hr__fit *f = &c->fit;
    struct hr__resample_plan plan = {
        .width = c->width,
        .height = c->height,
        .scaled_width = f->scaled_width,
        .scaled_height = f->scaled_height,
        .cut_x = f->cut_x,
        .cut_y = f->cut_y,
        .kept_width = f->kept_width,
        .kept_height = f->kept_height,
        .channels = CHANNELS,
        .algo = c->options->algo,
    };

    return hr__resample_begin(&c->easel->resampler, &plan, c->origin, c->stride, err);
}

enum hr_status hr__canvas_begin(struct hr__canvas *c, const char *format, int64_t width,
                                int64_t height, uint64_t raw_bytes,
                                struct hr_error *err)
{
    enum hr_status status = hr__canvas_check(c, format, width, height, err);

    if (status == HR_OK)
        status = check_expansion(c, format, raw_bytes, err);
    if (status != HR_OK)
        return status;
    c->width = width;
    c->height = height;
    c->rows_put = 0;
    hr__fit(width, height, c->options, &c->fit);
    status = prepare_output(c, err);
    c->direct = c->fit.kept_width == width && c->fit.kept_height == height &&
                c->fit.scaled_width == width && c->fit.scaled_height == height;
    if (status == HR_OK && !c->direct)
        status = prepare_staging(c, err);
    if (status == HR_OK && !c->direct)
        status = prepare_resample(c, err);
    return status;
}

int hr__canvas_rows(struct hr__canvas *c, uint8_t **rows)
{
    int64_t left = c->height - c->rows_put;
    int n = left < HR_PUSH_ROWS ? (int)left : HR_PUSH_ROWS;

    for (int i = 0; i < n; i++)
        rows[i] = c->direct ? c->origin + (size_t)(c->rows_put + i) * c->stride
                            : c->easel->staging + MISALIGN + (size_t)i * c->row_stride;
    return n;
}

enum hr_status hr__canvas_put(struct hr__canvas *c, const uint8_t *const *rows, int n,
                              struct hr_error *err)
{
    if (!c->direct)
        hr__resample_push(&c->easel->resampler, rows, n);
    for (int i = 0; c->direct && i < n; i++) {
        uint8_t *to = c->origin + (size_t)(c->rows_put + i) * c->stride;

        if (to != rows[i])
            memcpy(to, rows[i], (size_t)c->width * CHANNELS);
    }
    c->rows_put += n;
    return hr_ctx_check(c->ctx, err);
}

void hr__easel_fini(struct hr__easel *easel)
{
    hr__resampler_fini(&easel->resampler);
    hr__free(easel->staging);
    easel->staging = NULL;
    easel->staging_bytes = 0;
}
