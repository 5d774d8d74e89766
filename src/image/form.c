/* What the output is, from the options. */
#include <math.h>
#include <stdio.h>

#include "image/finish.h"
#include "image/pixels.h"
#include "base/banned.h"

void hr__form_of(const struct hr_image_options *o, struct hr__form *out)
{
    bool wide = hr__pix_fmt_bytes(o->pix_fmt) == 2;

    *out = (struct hr__form){
        .layout = o->layout,
        .dtype = wide && o->dtype == HR_U8 ? HR_U16 : o->dtype,
        .wide = wide,
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

static bool has_form(const struct hr_array *array, enum hr_dtype dtype, int ndim,
                     const int64_t *shape)
{
    enum hr_dtype its = hr_array_dtype(array);
    bool good = its == dtype || (dtype == HR_BF16 && (its == HR_U16 || its == HR_I16));

    if (!good || hr_array_ndim(array) != ndim)
        return false;
    for (int i = 0; i < ndim; i++)
        if (hr_array_shape(array)[i] != shape[i])
            return false;
    return true;
}

/* "(3, 224, 224) of uint8" */
static void describe(enum hr_dtype dtype, int ndim, const int64_t *shape, char *out,
                     size_t size)
{
    int n = snprintf(out, size, "(");

    for (int i = 0; i < ndim && n > 0 && (size_t)n < size; i++)
        n += snprintf(out + n, size - (size_t)n, "%s%lld", i > 0 ? ", " : "",
                      (long long)shape[i]);
    if (n > 0 && (size_t)n < size)
        snprintf(out + n, size - (size_t)n, ") of %s", hr_dtype_name(dtype));
}

static enum hr_status check_into(struct hr_array *into, enum hr_dtype dtype, int ndim,
                                 const int64_t *shape, struct hr_error *err)
{
    char want[128];
    char found[256];

    if (!has_form(into, dtype, ndim, shape)) {
        describe(dtype, ndim, shape, want, sizeof(want));
        describe(hr_array_dtype(into), hr_array_ndim(into), hr_array_shape(into), found,
                 sizeof(found));
        return hr_error_set(err, HR_ERR_ARG, "image", 0,
                            "image: out must have the shape %s, but has %s", want,
                            found);
    }
    if (hr_buffer_is_readonly(hr_array_peek_buffer(into)))
        return hr_error_set(err, HR_ERR_ARG, "image", 0, "image: out is read-only");
    return HR_OK;
}

enum hr_status hr__form_new(const struct hr__form *form, struct hr_array *into,
                            int ndim, const int64_t *shape, struct hr_array **out,
                            struct hr_error *err)
{
    enum hr_status status;

    if (into == NULL)
        return hr_array_alloc(form->dtype, ndim, shape, out, err);
    status = check_into(into, form->dtype, ndim, shape, err);
    *out = status == HR_OK ? hr_array_ref(into) : NULL;
    return status;
}

enum hr_status hr__form_array(const struct hr__form *form, struct hr_array *into,
                              int64_t count, int64_t height, int64_t width,
                              struct hr_array **out, struct hr_error *err)
{
    bool first = form->layout == HR_CHW;
    int64_t shape[4] = {count, first ? form->channels : height, first ? height : width,
                        first ? width : form->channels};
    int skipped = count < 0;

    return hr__form_new(form, into, 4 - skipped, shape + skipped, out, err);
}
