/* Resize of pixels that are there already: the same passes as for a decoder's rows. */
#include <string.h>

#include "base/mem.h"
#include "image/load.h"
#include "image/resample.h"
#include "base/banned.h"

#define BYTES_MAX ((uint64_t)1 << 30)

/* What a worker keeps. */
struct bench {
    struct hr__resampler resampler;
    uint8_t *row; /* a copy of the last row, which has no slack */
    size_t row_bytes;
};

static enum hr_status bench_new(void **out, struct hr_error *err)
{
    *out = hr__calloc(1, sizeof(struct bench));
    return *out != NULL ? HR_OK
                        : hr__nomem(err, "image", "a resize", sizeof(struct bench));
}

static void bench_free(void *scratch)
{
    struct bench *b = scratch;

    hr__resampler_fini(&b->resampler);
    hr__free(b->row);
    hr__free(b);
}

static const struct hr_scratch_class bench_class = {"image resize", bench_new,
                                                    bench_free};

/* (N, H, W, C), with 1 for what the array lacks. */
struct stack {
    int64_t count;
    int64_t height;
    int64_t width;
    int64_t channels;
};

static enum hr_status read_shape(const struct hr_array *src, struct stack *out,
                                 struct hr_error *err)
{
    const int64_t *shape = hr_array_shape(src);
    int ndim = hr_array_ndim(src);

    if (hr_array_dtype(src) != HR_U8)
        return hr_error_set(err, HR_ERR_TYPE, "image", 0,
                            "resize: expected uint8 pixels, got %s",
                            hr_dtype_name(hr_array_dtype(src)));
    if (ndim < 2 || ndim > 4)
        return hr_error_set(
            err, HR_ERR_ARG, "image", 0,
            "resize: expected (H, W), (H, W, C) or (N, H, W, C), got %d "
            "dimensions",
            ndim);
    out->count = ndim == 4 ? shape[0] : 1;
    out->height = shape[ndim == 4];
    out->width = shape[(ndim == 4) + 1];
    out->channels = ndim == 2 ? 1 : shape[ndim - 1];
    if (out->channels < 1 || out->channels > 4)
        return hr_error_set(err, HR_ERR_ARG, "image", 0,
                            "resize: expected 1 to 4 channels, got %lld",
                            (long long)out->channels);
    if (out->height < 1 || out->width < 1)
        return hr_error_set(err, HR_ERR_ARG, "image", 0,
                            "resize: the picture has %lld x %lld pixels",
                            (long long)out->width, (long long)out->height);
    return HR_OK;
}

static enum hr_status new_output(const struct hr_array *src, const struct stack *s,
                                 int64_t width, int64_t height, struct hr_array **out,
                                 struct hr_error *err)
{
    int ndim = hr_array_ndim(src);
    int64_t shape[4];
    uint64_t bytes = (uint64_t)width * (uint64_t)height * (uint64_t)s->channels;

    if (s->count > 0 && bytes > BYTES_MAX / (uint64_t)s->count)
        return hr_error_set(err, HR_ERR_LIMIT, "image", 0,
                            "resize: %lld pictures of %lld x %lld x %lld bytes, the "
                            "limit is %llu bytes",
                            (long long)s->count, (long long)width, (long long)height,
                            (long long)s->channels, (unsigned long long)BYTES_MAX);
    memcpy(shape, hr_array_shape(src), (size_t)ndim * sizeof(shape[0]));
    shape[ndim == 4] = height;
    shape[(ndim == 4) + 1] = width;
    return hr_array_alloc(HR_U8, ndim, shape, out, err);
}

static enum hr_status reserve_row(struct bench *b, size_t bytes, struct hr_error *err)
{
    if (bytes + HR_ROW_SLACK <= b->row_bytes)
        return HR_OK;
    hr__free(b->row);
    b->row_bytes = 0;
    b->row = hr__calloc(bytes + HR_ROW_SLACK, 1);
    if (b->row == NULL)
        return hr__nomem(err, "image", "a row", bytes + HR_ROW_SLACK);
    b->row_bytes = bytes + HR_ROW_SLACK;
    return HR_OK;
}

/* Give rows to the resampler, and take what it makes of them. Returns where the next
 * row of the output goes. */
static uint8_t *pass(struct bench *b, const uint8_t *const *rows, int n, uint8_t *to,
                     size_t stride)
{
    hr__resample_push(&b->resampler, rows, n);
    while (hr__resample_take(&b->resampler, to))
        to += stride;
    return to;
}

/* All rows of one picture. Those near `end`, where the memory may end, go through a
 * copy. */
static void pass_all(struct bench *b, const uint8_t *from, const uint8_t *end,
                     const struct stack *s, uint8_t *to, size_t out_stride)
{
    size_t stride = (size_t)s->width * (size_t)s->channels;
    const uint8_t *rows[HR_PUSH_ROWS];
    int n = 0;

    for (int64_t y = 0; y < s->height; y++, from += stride) {
        bool near = (size_t)(end - from) < stride + HR_ROW_SLACK;

        if (near && n > 0) {
            to = pass(b, rows, n, to, out_stride);
            n = 0;
        }
        if (near)
            memcpy(b->row, from, stride);
        rows[n++] = near ? b->row : from;
        if (n == HR_PUSH_ROWS || near || y == s->height - 1) {
            to = pass(b, rows, n, to, out_stride);
            n = 0;
        }
    }
}

static enum hr_status resize_all(struct hr_ctx *ctx, struct bench *b,
                                 const struct hr_array *src, const struct stack *s,
                                 struct hr__resample_plan *plan, struct hr_array *out,
                                 struct hr_error *err)
{
    size_t stride = (size_t)plan->kept_width * (size_t)s->channels;
    size_t in_bytes = (size_t)(s->width * s->height * s->channels);
    const uint8_t *from = hr_array_data(src);
    const uint8_t *end = from + hr_array_nbytes(src);
    uint8_t *to = hr_array_data(out);
    enum hr_status status = reserve_row(b, (size_t)s->width * (size_t)s->channels, err);

    for (int64_t i = 0; status == HR_OK && i < s->count; i++) {
        status = hr__resample_begin(&b->resampler, plan, err);
        if (status != HR_OK)
            break;
        pass_all(b, from, end, s, to, stride);
        from += in_bytes;
        to += stride * (size_t)plan->kept_height;
        status = hr_ctx_check(ctx, err);
    }
    return status;
}

enum hr_status hr__image_resize_check(int64_t width, int64_t height,
                                      enum hr_scale_algo algo, struct hr_error *err)
{
    if (width < 1 || width > HR_TARGET_MAX || height < 1 || height > HR_TARGET_MAX)
        return hr_error_set(
            err, HR_ERR_ARG, "image", 0,
            "resize: width and height must be 1 … 65535, got %lld x %lld",
            (long long)width, (long long)height);
    if ((unsigned)algo > HR_SCALE_LANCZOS)
        return hr_error_set(err, HR_ERR_ARG, "image", 0,
                            "resize: algo must be one of enum hr_scale_algo, got %d",
                            (int)algo);
    return HR_OK;
}

enum hr_status hr_image_resize(struct hr_ctx *ctx, const struct hr_array *src,
                               int64_t width, int64_t height, enum hr_scale_algo algo,
                               struct hr_array **out, struct hr_error *err)
{
    struct hr__resample_plan plan = {
        .scaled_width = width,
        .scaled_height = height,
        .kept_width = width,
        .kept_height = height,
        .algo = algo,
    };
    struct hr_array *made = NULL;
    struct stack s = {0};
    void *scratch;
    enum hr_status status = hr__image_resize_check(width, height, algo, err);

    *out = NULL;
    if (status == HR_OK)
        status = read_shape(src, &s, err);
    if (status == HR_OK)
        status = hr_ctx_scratch(ctx, &bench_class, &scratch, err);
    if (status == HR_OK)
        status = new_output(src, &s, width, height, &made, err);
    if (status == HR_OK) {
        plan.width = s.width;
        plan.height = s.height;
        plan.channels = (int)s.channels;
        status = resize_all(ctx, scratch, src, &s, &plan, made, err);
    }
    if (status != HR_OK)
        hr_array_unref(&made);
    *out = made;
    return status;
}

const char *hr_image_simd(void)
{
    return hr__kernels_best()->name;
}
