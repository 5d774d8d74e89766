/* Scale modes. The rules are in headrace/image.h; they are those of FFmpeg's scale
 * (force_original_aspect_ratio), pad and crop filters. */
#include "image/fit.h"

#include "base/banned.h"

/* a * b / c rounded half up, at least 1. a, b, c are below 2^31. */
static int64_t scale(int64_t a, int64_t b, int64_t c)
{
    int64_t value = (2 * a * b + c) / (2 * c);

    return value < 1 ? 1 : value;
}

/* Of one direction: what is kept of the scaled picture and where it goes, centred. */
static void centre(int64_t scaled, int64_t out, int64_t *cut, int64_t *kept,
                   int64_t *put)
{
    *cut = scaled > out ? (scaled - out) / 2 : 0;
    *put = scaled < out ? (out - scaled) / 2 : 0;
    *kept = scaled < out ? scaled : out;
}

void hr__fit(const struct hr__take *take, const struct hr_image_options *options,
             struct hr__fit *out)
{
    int64_t width = take->width;
    int64_t height = take->height;
    int64_t w = options->width != 0 ? options->width : width;
    int64_t h = options->height != 0 ? options->height : height;
    /* True when w / width < h / height: filling the width leaves rows free. */
    int wide = w * height < h * width;

    *out = (struct hr__fit){
        .take_x = take->x,
        .take_y = take->y,
        .take_width = width,
        .take_height = height,
        .scaled_width = w,
        .scaled_height = h,
        .out_width = w,
        .out_height = h,
    };
    if (options->mode == HR_SCALE_PAD || options->mode == HR_SCALE_CROP) {
        if (wide == (options->mode == HR_SCALE_PAD))
            out->scaled_height = scale(w, height, width);
        else
            out->scaled_width = scale(h, width, height);
    }
    centre(out->scaled_width, w, &out->cut_x, &out->kept_width, &out->put_x);
    centre(out->scaled_height, h, &out->cut_y, &out->kept_height, &out->put_y);
}
