/* All frames of one file into one array. What is drawn is drawn once for all of them, so
 * that a crop stands still. */
#include <string.h>

#include "image/load.h"
#include "image/limits.h"
#include "image/studio.h"
#include "base/banned.h"

/* Where the frames go. */
struct reel {
    int64_t frames;
    int64_t width; /* of each in the output */
    int64_t height;
    size_t frame_bytes;
    struct hr_array *array;
};

/* The array for all frames, once the limits allow it. */
static enum hr_status reel_init(struct reel *reel, const struct hr__opened *opened,
                                const struct hr_image_options *o, struct hr_error *err)
{
    struct hr__form form;

    hr__form_of(o, &form);
    reel->frames = opened->picture.frames > 0 ? opened->picture.frames : 1;
    hr__canvas_target(o, &opened->picture, &reel->width, &reel->height);
    reel->frame_bytes = (size_t)reel->width * (size_t)reel->height *
                        (size_t)form.channels * hr_dtype_size(form.dtype);
    if (reel->frames > o->frames_max)
        return hr_error_set(err, HR_ERR_LIMIT, "image", 0,
                            "image: %s of %lld frames, the limit is %lld frames",
                            opened->codec->name, (long long)reel->frames,
                            (long long)o->frames_max);
    if (reel->frame_bytes > o->bytes_max / (uint64_t)reel->frames)
        return hr_error_set(
            err, HR_ERR_LIMIT, "image", 0,
            "image: %lld frames of %lld x %lld pixels, the limit is %llu decoded bytes",
            (long long)reel->frames, (long long)reel->width, (long long)reel->height,
            (unsigned long long)o->bytes_max);
    return hr__form_array(&form, o->into, reel->frames, reel->height, reel->width,
                          &reel->array, err);
}

static enum hr_status paint_frame(struct hr__studio *studio, struct hr__opened *opened,
                                  const struct hr__input *in, const struct reel *reel,
                                  int64_t frame, struct hr_error *err)
{
    struct hr__canvas canvas = {.pick = {.index = in->options->index, .flip = -1}};
    int64_t width;
    int64_t height;
    enum hr_status status = hr__studio_turn(opened, frame, err);

    if (status != HR_OK)
        return status;
    hr__canvas_target(in->options, &opened->picture, &width, &height);
    if (width != reel->width || height != reel->height)
        return hr_error_set(
            err, HR_ERR_UNSUPPORTED, "image", 0,
            "image: frame %lld has %lld x %lld pixels, the first %lld x %lld; give a "
            "width and a height",
            (long long)frame, (long long)width, (long long)height,
            (long long)reel->width, (long long)reel->height);
    canvas.slot =
        (uint8_t *)hr_array_data(reel->array) + (size_t)frame * reel->frame_bytes;
    return hr__studio_paint(studio, opened, in, &canvas, err);
}

/* With allow_truncated, what follows the first damaged frame becomes zero. */
static enum hr_status paint_all(struct hr__studio *studio, struct hr__opened *opened,
                                const struct hr__input *in, const struct reel *reel,
                                struct hr_error *err)
{
    enum hr_status status = HR_OK;
    int64_t done = 0;

    while (status == HR_OK && err->status == HR_OK && done < reel->frames)
        status = paint_frame(studio, opened, in, reel, done++, err);
    if (status == HR_ERR_FORMAT && in->options->allow_truncated && done > 1) {
        status = HR_OK;
        done--;
    }
    if (status == HR_OK)
        memset((uint8_t *)hr_array_data(reel->array) + (size_t)done * reel->frame_bytes,
               0, (size_t)(reel->frames - done) * reel->frame_bytes);
    return status;
}

static enum hr_status load_all(struct hr__studio *studio, const struct hr__input *in,
                               struct hr_array **out, struct hr_error *err)
{
    struct hr__opened opened;
    struct reel reel = {0};
    enum hr_status status = hr__studio_open(studio, in, &opened, err);

    if (status == HR_OK)
        status = hr__limits_check(in->options, opened.codec->name, &opened.picture,
                                  in->size, err);
    if (status == HR_OK)
        status = reel_init(&reel, &opened, in->options, err);
    if (status == HR_OK)
        status = paint_all(studio, &opened, in, &reel, err);
    hr__studio_close(&opened);
    if (status != HR_OK)
        hr_array_unref(&reel.array);
    *out = reel.array;
    return status;
}

enum hr_status hr_image_load_frames(struct hr_ctx *ctx, const struct hr_value *src,
                                    const char *name,
                                    const struct hr_image_options *options,
                                    struct hr_array **out, struct hr_error *err)
{
    const struct hr__load_id id = {.name = name, .item = -1, .slot = -1};
    struct hr_image_options own = *options;
    struct hr__input in = {.options = &own, .ctx = ctx};
    struct hr_error detail = {0};
    struct hr_buffer *file = NULL;
    struct hr__studio *studio = NULL;
    enum hr_status status =
        hr__image_options_check(options, "load_image_frames", &detail);

    *out = NULL;
    if (hr_ctx_item(ctx) >= 0)
        own.index = hr_ctx_item(ctx);
    if (status == HR_OK)
        status = hr__studio_get(ctx, &studio, &detail);
    if (status == HR_OK)
        status = hr__source_open(src, options->encoded_max, &file, &in.data, &in.size,
                                 &detail);
    if (status == HR_OK)
        status = load_all(studio, &in, out, &detail);
    hr_buffer_unref(&file);
    if (detail.status >= HR_ERR_ARG) {
        hr__source_sign(&detail, src, &id);
        if (err != NULL)
            *err = detail;
    }
    return status;
}
