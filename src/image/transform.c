/* Pixels that are there already, through the tail of the loader. */
#include <string.h>

#include "base/mem.h"
#include "image/load.h"
#include "image/tail.h"
#include "base/banned.h"

#define BYTES_MAX ((uint64_t)1 << 30)

/* What a worker keeps. */
struct bench {
    struct hr__tail tail;
    uint8_t *row; /* a copy of a row that has no slack */
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

    hr__tail_fini(&b->tail);
    hr__free(b->row);
    hr__free(b);
}

static const struct hr_scratch_class bench_class = {"image transform", bench_new,
                                                    bench_free};

/* ---- what comes in and what goes out ---- */

/* (N, H, W, C), with 1 for what the array lacks. */
struct stack {
    int64_t count;
    int64_t height;
    int64_t width;
    int64_t channels;
};

static enum hr_status read_shape(const struct hr_array *src, const char *who,
                                 struct stack *out, struct hr_error *err)
{
    const int64_t *shape = hr_array_shape(src);
    int ndim = hr_array_ndim(src);

    if (hr_array_dtype(src) != HR_U8)
        return hr_error_set(err, HR_ERR_TYPE, "image", 0,
                            "%s: expected uint8 pixels, got %s", who,
                            hr_dtype_name(hr_array_dtype(src)));
    if (ndim < 2 || ndim > 4)
        return hr_error_set(err, HR_ERR_ARG, "image", 0,
                            "%s: expected (H, W), (H, W, C) or (N, H, W, C), got %d "
                            "dimensions",
                            who, ndim);
    out->count = ndim == 4 ? shape[0] : 1;
    out->height = shape[ndim == 4];
    out->width = shape[(ndim == 4) + 1];
    out->channels = ndim == 2 ? 1 : shape[ndim - 1];
    if (out->channels < 1 || out->channels > HR_CHANNELS_MAX)
        return hr_error_set(err, HR_ERR_ARG, "image", 0,
                            "%s: expected 1 to 4 channels, got %lld", who,
                            (long long)out->channels);
    if (out->height < 1 || out->width < 1)
        return hr_error_set(err, HR_ERR_ARG, "image", 0,
                            "%s: the picture has %lld x %lld pixels", who,
                            (long long)out->width, (long long)out->height);
    if (out->height > INT32_MAX / 2 || out->width > INT32_MAX / 2)
        return hr_error_set(err, HR_ERR_LIMIT, "image", 0,
                            "%s: the picture has %lld x %lld pixels: too long a side",
                            who, (long long)out->width, (long long)out->height);
    return HR_OK;
}

/* The output for pictures of the first one's fit; all of a stack have the same. */
static enum hr_status make_output(const struct hr_image_options *o, const char *who,
                                  const struct hr_array *src, const struct stack *s,
                                  const struct hr__tail_plan *plan,
                                  struct hr_array **out, struct hr_error *err)
{
    const struct hr__fit *f = &plan->fit;
    uint64_t value = hr_dtype_size(plan->form.dtype);
    uint64_t bytes = (uint64_t)f->out_width * (uint64_t)f->out_height *
                     (uint64_t)s->channels * value;
    int64_t flat[2] = {f->out_height, f->out_width};

    if (s->count > 0 && bytes > BYTES_MAX / (uint64_t)s->count)
        return hr_error_set(err, HR_ERR_LIMIT, "image", 0,
                            "%s: %lld pictures of %lld x %lld x %lld values, the "
                            "limit is %llu bytes",
                            who, (long long)s->count, (long long)f->out_width,
                            (long long)f->out_height, (long long)s->channels,
                            (unsigned long long)BYTES_MAX);
    return hr_array_ndim(src) == 2
               ? hr__form_new(&plan->form, o->into, 2, flat, out, err)
               : hr__form_array(&plan->form, o->into,
                                hr_array_ndim(src) == 4 ? s->count : -1, f->out_height,
                                f->out_width, out, err);
}

/* Rows are written while others are still to be read. */
static enum hr_status check_apart(const struct hr_array *src,
                                  const struct hr_array *out, const char *who,
                                  struct hr_error *err)
{
    uintptr_t from = (uintptr_t)hr_array_data(src);
    uintptr_t to = (uintptr_t)hr_array_data(out);

    if (from < to + hr_array_nbytes(out) && to < from + hr_array_nbytes(src))
        return hr_error_set(err, HR_ERR_ARG, "image", 0,
                            "%s: out shares memory with the pictures it is made of",
                            who);
    return HR_OK;
}

/* ---- one picture ---- */

static enum hr_status plan_one(const struct hr_image_options *o, const struct stack *s,
                               int64_t i, struct hr__tail_plan *plan,
                               struct hr_error *err)
{
    struct hr__pick pick = {
        .index = o->index + i,
        .box = o->boxes != NULL ? &o->boxes[i] : NULL,
        .flip = o->flips != NULL ? o->flips[i] != 0 : -1,
    };
    struct hr__take take;
    enum hr_status status;

    *plan = (struct hr__tail_plan){
        .width = s->width,
        .height = s->height,
        .algo = o->algo,
    };
    status = hr__take_choose(o, &pick, s->width, s->height, &take, &plan->flip, err);
    if (status != HR_OK)
        return status;
    hr__fit(&take, o, &plan->fit);
    hr__form_of(o, &plan->form);
    plan->form.channels = (int)s->channels;
    return HR_OK;
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

/* All rows of one picture. Those near `end`, where the memory may end, go through a
 * copy. */
static void push_all(struct bench *b, const uint8_t *from, const uint8_t *end,
                     const struct stack *s)
{
    size_t stride = (size_t)s->width * (size_t)s->channels;
    const uint8_t *rows[HR_PUSH_ROWS];
    int n = 0;

    for (int64_t y = 0; y < s->height; y++, from += stride) {
        bool near = (size_t)(end - from) < stride + HR_ROW_SLACK;

        if (near && n > 0) {
            hr__tail_push(&b->tail, rows, n);
            n = 0;
        }
        if (near)
            memcpy(b->row, from, stride);
        rows[n++] = near ? b->row : from;
        if (n == HR_PUSH_ROWS || near || y == s->height - 1) {
            hr__tail_push(&b->tail, rows, n);
            n = 0;
        }
    }
}

static enum hr_status transform_all(struct hr_ctx *ctx, struct bench *b,
                                    const struct hr_image_options *o,
                                    const struct hr_array *src, const struct stack *s,
                                    struct hr_array *out, struct hr_error *err)
{
    size_t in_bytes = (size_t)(s->width * s->height * s->channels);
    size_t out_bytes = s->count > 0 ? hr_array_nbytes(out) / (size_t)s->count : 0;
    const uint8_t *from = hr_array_data(src);
    const uint8_t *end = from + hr_array_nbytes(src);
    uint8_t *to = hr_array_data(out);
    enum hr_status status = reserve_row(b, (size_t)s->width * (size_t)s->channels, err);

    for (int64_t i = 0; status == HR_OK && i < s->count; i++) {
        struct hr__tail_plan plan;

        status = plan_one(o, s, i, &plan, err);
        if (status == HR_OK)
            status = hr__tail_begin(&b->tail, &plan, NULL, to, err);
        if (status == HR_OK) {
            push_all(b, from, end, s);
            hr__tail_flush(&b->tail);
        }
        hr__tail_end(&b->tail);
        from += in_bytes;
        to += out_bytes;
        if (status == HR_OK)
            status = hr_ctx_check(ctx, err);
    }
    return status;
}

/* A box that is not the same for all has to have a size to be brought to. */
static enum hr_status check_sizes(const struct hr_image_options *o,
                                  const struct stack *s, struct hr_error *err)
{
    bool vary = o->crop == HR_CROP_RANDOM || o->boxes != NULL;

    if (s->count > 1 && vary && (o->width == 0 || o->height == 0))
        return hr_error_set(err, HR_ERR_ARG, "image", 0,
                            "transform: crops of several pictures need a width and a "
                            "height");
    return HR_OK;
}

/* who: for messages. */
static enum hr_status transform(struct hr_ctx *ctx, const struct hr_array *src,
                                const struct hr_image_options *o, const char *who,
                                struct hr_array **out, struct hr_error *err)
{
    struct hr__tail_plan first;
    struct hr_array *made = NULL;
    struct stack s = {0};
    void *scratch = NULL;
    enum hr_status status = read_shape(src, who, &s, err);

    if (status == HR_OK)
        status = check_sizes(o, &s, err);
    if (status == HR_OK)
        status = hr_ctx_scratch(ctx, &bench_class, &scratch, err);
    if (status == HR_OK)
        status = plan_one(o, &s, 0, &first, err);
    if (status == HR_OK)
        status = make_output(o, who, src, &s, &first, &made, err);
    if (status == HR_OK)
        status = check_apart(src, made, who, err);
    if (status == HR_OK)
        status = transform_all(ctx, scratch, o, src, &s, made, err);
    if (status != HR_OK)
        hr_array_unref(&made);
    *out = made;
    return status;
}

enum hr_status hr_image_transform(struct hr_ctx *ctx, const struct hr_array *src,
                                  const struct hr_image_options *options,
                                  struct hr_array **out, struct hr_error *err)
{
    enum hr_status status = hr__image_options_check(options, "transform", err);

    *out = NULL;
    return status == HR_OK ? transform(ctx, src, options, "transform", out, err)
                           : status;
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
    struct hr_image_options options;
    enum hr_status status = hr__image_resize_check(width, height, algo, err);

    *out = NULL;
    if (status != HR_OK)
        return status;
    hr_image_options_init(&options);
    options.width = width;
    options.height = height;
    options.mode = HR_SCALE_STRETCH;
    options.algo = algo;
    return transform(ctx, src, &options, "resize", out, err);
}

const char *hr_image_simd(void)
{
    return hr__kernels_best()->name;
}
