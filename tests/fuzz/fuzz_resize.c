/* Parameters of resize and crop: arbitrary numbers for a picture of one colour, as pixels
 * and as a JPEG. Whatever is not refused has the size that was asked for and, of pixels,
 * no colour but that and the black around. */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "headrace/headrace.h"
#include "pictures.h"

#define LEVEL 200
#define SIDE 4096            /* of the source, in one direction */
#define PIXELS_MAX (1 << 20) /* of a target: larger ones only take longer */

/* The numbers come from the data; behind their end they are 0. */
struct numbers {
    const uint8_t *data;
    size_t size;
};

static uint64_t take(struct numbers *n, size_t bytes)
{
    uint64_t value = 0;

    for (; bytes > 0 && n->size > 0; bytes--, n->size--)
        value = value << 8 | *n->data++;
    return value;
}

/* Mostly small, else anything. */
static int64_t take_length(struct numbers *n)
{
    uint64_t kind = take(n, 1);

    if (kind < 192)
        return (int64_t)(kind % 96);
    if (kind < 224)
        return (int64_t)take(n, 2);
    return (int64_t)take(n, 8);
}

static double take_real(struct numbers *n)
{
    uint64_t bits = take(n, 1);
    double value;

    if (bits < 192)
        return (double)bits / 64;
    bits = take(n, 8);
    memcpy(&value, &bits, sizeof(value));
    return value;
}

/* One of the target's sides, beside a side of `other` of the target or the source. */
static void limit(int64_t *side, int64_t other)
{
    if (*side > 0 && *side < 65536 && other > 0 && other < 65536 &&
        *side * other > PIXELS_MAX)
        *side = 1 + *side % 16;
}

static void choose(struct numbers *n, int64_t own_width, int64_t own_height,
                   struct hr_image_options *o)
{
    static const enum hr_dtype dtypes[] = {HR_U8, HR_U8, HR_F32, HR_F16, HR_BF16};

    hr_image_options_init(o);
    o->mode = (enum hr_scale_mode)(take(n, 1) % 3);
    o->algo = (enum hr_scale_algo)(take(n, 1) % 4);
    o->crop = (enum hr_crop)(take(n, 1) % 4);
    o->layout = take(n, 1) % 2 ? HR_CHW : HR_HWC;
    o->dtype = dtypes[take(n, 1) % 5];
    o->exact = (int)(take(n, 1) % 2);
    o->width = take_length(n);
    o->height = take_length(n);
    o->box =
        (struct hr_box){take_length(n), take_length(n), take_length(n), take_length(n)};
    o->resize_size = take_length(n);
    o->flip = take_real(n);
    for (int i = 0; i < 2; i++) {
        o->scale[i] = take_real(n);
        o->ratio[i] = take_real(n);
    }
    o->seed = take(n, 8);
    o->index = (int64_t)take(n, 8);
    limit(&o->width, own_height);
    limit(&o->height, own_width);
    limit(&o->height, o->width);
    limit(&o->resize_size, own_width);
    limit(&o->resize_size, own_height);
}

/* (H, W), (H, W, C) or (N, H, W, C), all of LEVEL. */
static struct hr_array *choose_source(struct numbers *n)
{
    int64_t shape[4] = {1, 1, 1, 1};
    int ndim = 2 + (int)(take(n, 1) % 3);
    int rows = ndim == 4;
    struct hr_array *array;

    if (ndim > 2)
        shape[ndim - 1] = 1 + (int64_t)(take(n, 1) % 4);
    if (ndim == 4)
        shape[0] = 1 + (int64_t)(take(n, 1) % 2);
    if (take(n, 1) % 2) {
        shape[rows] = 1 + (int64_t)(take(n, 1) % 64);
        shape[rows + 1] = 1 + (int64_t)(take(n, 1) % 64);
    } else {
        shape[rows + (int)(take(n, 1) % 2)] = 1 + (int64_t)(take(n, 2) % SIDE);
    }
    if (hr_array_alloc(HR_U8, ndim, shape, &array, NULL) != HR_OK)
        abort();
    memset(hr_array_data(array), LEVEL, hr_array_nbytes(array));
    return array;
}

static void check(const struct hr_array *array, const struct hr_image_options *o,
                  bool pixels)
{
    int ndim = hr_array_ndim(array);
    const int64_t *shape = hr_array_shape(array);
    int rows = o->layout == HR_CHW ? ndim - 2 : ndim - 3;
    const uint8_t *sample = hr_array_data(array);

    if (ndim > 2 && ((o->height > 0 && shape[rows] != o->height) ||
                     (o->width > 0 && shape[rows + 1] != o->width)))
        abort();
    for (size_t i = 0; pixels && o->dtype == HR_U8 && i < hr_array_nbytes(array); i++)
        if (sample[i] != LEVEL && sample[i] != 0)
            abort();
}

static void run_pixels(struct hr_ctx *ctx, struct numbers *n, bool resize)
{
    struct hr_array *source = choose_source(n);
    struct hr_array *array;
    int rows = hr_array_ndim(source) == 4;
    const int64_t *shape = hr_array_shape(source);
    struct hr_image_options o;
    enum hr_status status;

    choose(n, shape[rows + 1], shape[rows], &o);
    if (resize) {
        o.layout = HR_HWC;
        o.dtype = HR_U8;
        status = hr_image_resize(ctx, source, o.width, o.height, o.algo, &array, NULL);
    } else {
        status = hr_image_transform(ctx, source, &o, &array, NULL);
    }
    if (status == HR_OK)
        check(array, &o, true);
    hr_array_unref(&array);
    hr_array_unref(&source);
}

static void run_jpeg(struct hr_ctx *ctx, struct numbers *n)
{
    static struct blob jpeg;
    struct hr_image_options o;
    struct hr_array *array;
    struct hr_value src;

    if (jpeg.size == 0) {
        uint8_t samples[41 * 30 * 3];

        memset(samples, LEVEL, sizeof(samples));
        jpeg = jpeg_of(samples, 41, 30, (struct jpeg_how){.colour = RGB, 2, 2});
    }
    choose(n, 41, 30, &o);
    src = bytes_of(&jpeg);
    if (hr_image_load(ctx, &src, NULL, &o, &array, NULL) == HR_OK)
        check(array, &o, false);
    hr_array_unref(&array);
    hr_value_release(&src);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct numbers n = {data, size};
    struct hr_ctx *ctx;
    uint64_t kind = take(&n, 1) % 4;

    if (hr_ctx_new(&ctx, NULL) != HR_OK)
        abort();
    if (kind < 3)
        run_pixels(ctx, &n, kind == 0);
    else
        run_jpeg(ctx, &n);
    hr_ctx_free(&ctx);
    return 0;
}
