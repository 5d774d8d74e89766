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

/* torchvision's rule for one direction: what is too long loses half of it, a half pixel
 * to the even side; what is too short is surrounded. */
static void centre_even(int64_t scaled, int64_t out, int64_t *cut, int64_t *kept,
                        int64_t *put)
{
    int64_t half = (scaled - out) / 2;

    centre(scaled, out, cut, kept, put);
    if (scaled > out)
        *cut = half + ((scaled - out) % 2 != 0 && half % 2 != 0);
}

static void fit_centre(const struct hr_image_options *options, struct hr__fit *out)
{
    int64_t width = out->take_width;
    int64_t height = out->take_height;
    int64_t size = options->resize_size;

    out->scaled_width = width;
    out->scaled_height = height;
    if (size > 0) {
        out->scaled_width = width <= height ? size : size * width / height;
        out->scaled_height = width <= height ? size * height / width : size;
    }
    centre_even(out->scaled_width, out->out_width, &out->cut_x, &out->kept_width,
                &out->put_x);
    centre_even(out->scaled_height, out->out_height, &out->cut_y, &out->kept_height,
                &out->put_y);
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
    if (options->crop == HR_CROP_CENTER) {
        fit_centre(options, out);
        return;
    }
    if (options->crop != HR_CROP_RANDOM && options->mode != HR_SCALE_STRETCH) {
        if (wide == (options->mode == HR_SCALE_PAD))
            out->scaled_height = scale(w, height, width);
        else
            out->scaled_width = scale(h, width, height);
    }
    centre(out->scaled_width, w, &out->cut_x, &out->kept_width, &out->put_x);
    centre(out->scaled_height, h, &out->cut_y, &out->kept_height, &out->put_y);
}
