/* stack.c - equal pictures copied into one array, with a new first dimension. */
#include <stdio.h>
#include <string.h>

#include "headrace/image.h"
#include "headrace/op.h"
#include "base/banned.h"

/* What a value shows of itself as an array. */
struct form {
    enum hr_dtype dtype;
    int ndim;
    int64_t shape[HR_NDIM_MAX];
    const void *data;
    size_t nbytes;
};

static void form_of_array(const struct hr_array *array, struct form *out)
{
    out->dtype = hr_array_dtype(array);
    out->ndim = hr_array_ndim(array);
    memcpy(out->shape, hr_array_shape(array), (size_t)out->ndim * sizeof(*out->shape));
    out->data = hr_array_data(array);
    out->nbytes = hr_array_nbytes(array);
}

/* Arrays, the array of a batch, and bytes as one dimension of uint8. 0: it is none. */
static int read_form(const struct hr_value *value, struct form *out)
{
    const struct hr_buffer *bytes = hr_value_peek_bytes(value);

    if (value->cls == &hr_array_class) {
        form_of_array(hr_value_peek_array(value), out);
    } else if (value->cls == &hr_batch_class) {
        form_of_array(hr_batch_peek_array(value), out);
    } else if (bytes != NULL) {
        out->dtype = HR_U8;
        out->ndim = 1;
        out->shape[0] = (int64_t)hr_buffer_size(bytes);
        out->data = hr_buffer_data(bytes);
        out->nbytes = hr_buffer_size(bytes);
    } else {
        return 0;
    }
    return 1;
}

static int same_form(const struct form *a, const struct form *b)
{
    return a->dtype == b->dtype && a->ndim == b->ndim &&
           memcmp(a->shape, b->shape, (size_t)a->ndim * sizeof(*a->shape)) == 0;
}

/* "(480, 640, 3) uint8", as Python writes it. */
enum { FORM_TEXT_MAX = 24 * HR_NDIM_MAX + 16 };

static void form_text(const struct form *form, char *out)
{
    size_t used = (size_t)snprintf(out, FORM_TEXT_MAX, "(");

    for (int i = 0; i < form->ndim; i++)
        used += (size_t)snprintf(out + used, FORM_TEXT_MAX - used, "%s%lld",
                                 i > 0 ? ", " : "", (long long)form->shape[i]);
    (void)snprintf(out + used, FORM_TEXT_MAX - used, "%s) %s",
                   form->ndim == 1 ? "," : "", hr_dtype_name(form->dtype));
}

static enum hr_status different(size_t i, const struct form *found,
                                const struct form *first, struct hr_error *err)
{
    char found_text[FORM_TEXT_MAX];
    char first_text[FORM_TEXT_MAX];

    form_text(found, found_text);
    form_text(first, first_text);
    return hr_error_set(err, HR_ERR_ARG, "image", 0,
                        "frames[%zu] is %s, but frames[0] is %s", i, found_text,
                        first_text);
}

static enum hr_status check(const struct hr_value *frames, size_t n, struct form *first,
                            struct hr_error *err)
{
    struct form other;

    for (size_t i = 0; i < n; i++) {
        if (!read_form(&frames[i], i == 0 ? first : &other))
            return hr_error_set(err, HR_ERR_TYPE, "image", 0,
                                "frames[%zu]: expected an array, got %s", i,
                                hr_value_kind(&frames[i]));
        if (i > 0 && !same_form(&other, first))
            return different(i, &other, first, err);
    }
    if (n == 0)
        return hr_error_set(err, HR_ERR_ARG, "image", 0, "frames is empty");
    if (first->ndim == HR_NDIM_MAX)
        return hr_error_set(err, HR_ERR_ARG, "image", 0,
                            "frames have %d dimensions; at most %d can be stacked",
                            HR_NDIM_MAX, HR_NDIM_MAX - 1);
    return HR_OK;
}

enum hr_status hr_image_stack(const struct hr_value *frames, size_t n,
                              struct hr_array **out, struct hr_error *err)
{
    struct form first = {0};
    struct form frame;
    int64_t shape[HR_NDIM_MAX];
    enum hr_status status = check(frames, n, &first, err);

    *out = NULL;
    if (status != HR_OK)
        return status;
    shape[0] = (int64_t)n;
    memcpy(shape + 1, first.shape, (size_t)first.ndim * sizeof(*shape));
    status = hr_array_alloc(first.dtype, first.ndim + 1, shape, out, err);
    for (size_t i = 0; status == HR_OK && i < n; i++) {
        if (read_form(&frames[i], &frame) && frame.nbytes > 0)
            memcpy((char *)hr_array_data(*out) + i * frame.nbytes, frame.data,
                   frame.nbytes);
    }
    return status;
}

static enum hr_status stack_run(void *state, struct hr_ctx *ctx,
                                const struct hr_value *in, struct hr_value *out,
                                struct hr_error *err)
{
    struct hr_array *array = NULL;
    enum hr_status status;

    (void)state;
    (void)ctx;
    *out = HR_VALUE_EMPTY;
    if (in->cls != &hr_list_class)
        return hr_error_set(err, HR_ERR_TYPE, "image", 0,
                            "convert_frames: expected a list of arrays, got %s",
                            hr_value_kind(in));
    status = hr_image_stack(hr_list_peek(in), hr_list_size(in), &array, err);
    if (status == HR_OK)
        *out = hr_value_of_array(&array);
    return status;
}

void hr_image_stack_op(struct hr_op *out)
{
    static const struct hr_op_class stack_class = {"convert_frames", stack_run, NULL};

    *out = (struct hr_op){&stack_class, NULL};
}
