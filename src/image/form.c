/* What the output is, from the options. */
#include <math.h>

#include "image/finish.h"
#include "image/pixels.h"
#include "base/banned.h"

void hr__form_of(const struct hr_image_options *o, struct hr__form *out)
{
    *out = (struct hr__form){
        .layout = o->layout,
        .dtype = hr__pix_fmt_bytes(o->pix_fmt) == 2 ? HR_U16 : o->dtype,
        .channels = hr__pix_fmt_channels(o->pix_fmt),
    };
    for (int i = 0; i < HR_CHANNELS_MAX; i++) {
        out->mean[i] = o->mean[i];
        out->std[i] = o->std[i];
    }
}

/* Such that every factor is a finite float. */
static bool is_usable(double mean, double std)
{
    return fabs(std) >= 1e-30 && fabs(std) <= 1e30 && fabs(mean) <= 1e30 &&
           fabs(mean / std) <= 1e30;
}

enum hr_status hr__form_check(const struct hr_image_options *o, const char *who,
                              struct hr_error *err)
{
    bool plain = o->dtype == HR_U8;

    if ((unsigned)o->layout > HR_CHW)
        return hr_error_set(err, HR_ERR_ARG, "image", 0,
                            "%s: layout must be one of enum hr_layout, got %d", who,
                            (int)o->layout);
    if (!plain && o->dtype != HR_F16 && o->dtype != HR_BF16 && o->dtype != HR_F32)
        return hr_error_set(
            err, HR_ERR_ARG, "image", 0,
            "%s: dtype must be uint8, float16, bfloat16 or float32, got %s", who,
            hr_dtype_name(o->dtype));
    if (!plain && hr__pix_fmt_bytes(o->pix_fmt) == 2)
        return hr_error_set(err, HR_ERR_ARG, "image", 0,
                            "%s: dtype %s goes with pixel formats of 8 bits", who,
                            hr_dtype_name(o->dtype));
    for (int i = 0; i < HR_CHANNELS_MAX; i++) {
        if (plain && (o->mean[i] != 0 || o->std[i] != 1))
            return hr_error_set(err, HR_ERR_ARG, "image", 0,
                                "%s: mean and std go with a dtype of float16, bfloat16 "
                                "or float32",
                                who);
        if (!is_usable(o->mean[i], o->std[i]))
            return hr_error_set(
                err, HR_ERR_ARG, "image", 0,
                "%s: mean and std must be finite, and std not 0, got %g and %g", who,
                o->mean[i], o->std[i]);
    }
    return HR_OK;
}
