/* One picture: source -> bytes -> decoder -> canvas. */
#include "image/load.h"

#include "image/studio.h"
#include "base/banned.h"

static enum hr_status load(struct hr__studio *studio, const struct hr__input *in,
                           struct hr__canvas *canvas, struct hr_error *err)
{
    struct hr__opened opened;
    enum hr_status status = hr__studio_open(studio, in, &opened, err);

    if (status == HR_OK)
        status = hr__studio_turn(&opened, in->options->frame, err);
    if (status == HR_OK)
        status = hr__studio_paint(studio, &opened, in, canvas, err);
    hr__studio_close(&opened);
    return status;
}

enum hr_status hr__load(struct hr_ctx *ctx, const struct hr_value *src,
                        const struct hr__load_id *id,
                        const struct hr_image_options *options, uint8_t *slot,
                        struct hr_array **out, struct hr_error *err)
{
    struct hr__canvas canvas = {.pick = id->pick, .slot = slot};
    struct hr__input in = {.options = options, .ctx = ctx};
    struct hr_error detail = {0};
    struct hr_buffer *file = NULL;
    struct hr__studio *studio;
    enum hr_status status = hr__studio_get(ctx, &studio, &detail);

    if (status == HR_OK)
        status = hr_ctx_check(ctx, &detail);
    if (status == HR_OK)
        status = hr__source_open(src, options->encoded_max, &file, &in.data, &in.size,
                                 &detail);
    if (status == HR_OK)
        status = load(studio, &in, &canvas, &detail);
    hr_buffer_unref(&file);
    if (status != HR_OK)
        hr_array_unref(&canvas.array);
    if (out != NULL)
        *out = canvas.array;
    if (detail.status >= HR_ERR_ARG) {
        hr__source_sign(&detail, src, id);
        if (err != NULL)
            *err = detail;
    }
    return status;
}

enum hr_status hr_image_load(struct hr_ctx *ctx, const struct hr_value *src,
                             const char *name, const struct hr_image_options *options,
                             struct hr_array **out, struct hr_error *err)
{
    int64_t item = hr_ctx_item(ctx);
    const struct hr__load_id id = {
        .name = name,
        .item = -1,
        .slot = -1,
        .pick = {.index = item >= 0 ? item : options->index, .flip = -1},
    };
    enum hr_status status = hr__image_options_check(options, "load_image", err);

    *out = NULL;
    if (status != HR_OK)
        return status;
    return hr__load(ctx, src, &id, options, NULL, out, err);
}
