/* Options of the image functions: their defaults, and what they may be. */
#include <string.h>

#include "image/finish.h"
#include "image/load.h"
#include "base/banned.h"

void hr_image_options_init(struct hr_image_options *options)
{
    memset(options, 0, sizeof(*options));
    options->size = sizeof(*options);
    options->pix_fmt = HR_RGB24;
    options->mode = HR_SCALE_PAD;
    options->algo = HR_SCALE_BICUBIC;
    options->background = -1;
    options->pixels_max = 178956970;
    options->side_max = 65535;
    options->bytes_max = (uint64_t)1 << 30;
    options->encoded_max = (uint64_t)256 << 20;
    options->expansion_max = 1000;
    options->frames_max = 10000;
    options->scans_max = 100;
    for (int i = 0; i < 4; i++)
        options->std[i] = 1;
    options->scale[0] = 0.08;
    options->scale[1] = 1;
    options->ratio[0] = 3.0 / 4;
    options->ratio[1] = 4.0 / 3;
}

static enum hr_status bad(struct hr_error *err, const char *who, const char *what,
                          int64_t value)
{
    return hr_error_set(err, HR_ERR_ARG, "image", 0, "%s: %s, got %lld", who, what,
                        (long long)value);
}

enum hr_status hr__image_options_check(const struct hr_image_options *o,
                                       const char *who, struct hr_error *err)
{
    if (o->size != sizeof(*o))
        return bad(err, who, "options.size is not that of this library",
                   (int64_t)o->size);
    if (o->width < 0 || o->width > HR_TARGET_MAX)
        return bad(err, who, "width must be 0 … 65535", o->width);
    if (o->height < 0 || o->height > HR_TARGET_MAX)
        return bad(err, who, "height must be 0 … 65535", o->height);
    if ((unsigned)o->pix_fmt > HR_RGB48)
        return bad(err, who, "pix_fmt must be one of enum hr_pix_fmt", o->pix_fmt);
    if ((unsigned)o->mode > HR_SCALE_CROP)
        return bad(err, who, "mode must be one of enum hr_scale_mode", o->mode);
    if ((unsigned)o->algo > HR_SCALE_LANCZOS)
        return bad(err, who, "algo must be one of enum hr_scale_algo", o->algo);
    if ((unsigned)o->icc > HR_ICC_SRGB)
        return bad(err, who, "icc must be one of enum hr_icc", o->icc);
    if (o->frame < 0)
        return bad(err, who, "frame must be at least 0", o->frame);
    if (o->background < -1 || o->background > 0xffffff)
        return bad(err, who, "background must be 0xrrggbb or -1", o->background);
    if ((unsigned)o->orientation > HR_ORIENTATION_IGNORE)
        return bad(err, who, "orientation must be one of enum hr_orientation",
                   o->orientation);
    if (hr__form_check(o, who, err) != HR_OK)
        return HR_ERR_ARG;
    return hr__take_check(o, who, err);
}
