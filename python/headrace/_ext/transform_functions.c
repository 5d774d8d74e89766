/* transform_functions.c - the loader's augmentations for arrays; as io_module.c. */
#include "transform_functions.h"

#define NAMES                                                                          \
    "width", "height", "scale_mode", "scale_algo", HRPY_CROP_ARG_NAMES,                \
        HRPY_FORM_ARG_NAMES, "index", "out"
#define DIRECT (4 + HRPY_CROP_ARG_COUNT + HRPY_FORM_ARG_COUNT) /* index, out */
#define COUNT (DIRECT + 2)

/* values: width, height, ... */
static int read_options(PyObject *const *values, struct hrpy_slots *slots,
                        struct hr_image_options *out)
{
    PyObject *const *crop = values + 4;

    hr_image_options_init(out);
    out->mode = HR_SCALE_STRETCH;
    if (hrpy_image_extent(values[0], "width", 0, &out->width) ||
        hrpy_image_extent(values[1], "height", 0, &out->height) ||
        hrpy_image_mode(values[2], &out->mode) ||
        hrpy_image_algo(values[3], &out->algo) || hrpy_crop_options(crop, slots, out))
        return -1;
    return hrpy_form_options(crop + HRPY_CROP_ARG_COUNT, HR_U8, 0, out);
}

static PyObject *transform_detached(struct hrpy_state *state,
                                    const struct hr_array *image,
                                    const struct hr_image_options *options)
{
    PyThreadState *detached;
    struct hr_array *array = NULL;
    struct hr_ctx *ctx = NULL;
    struct hr_error err = {0};
    enum hr_status status;

    detached = hrpy_detach();
    status = hrpy_ctx_acquire(state->ctx_pool, &ctx, &err);
    if (status == HR_OK)
        status = hr_image_transform(ctx, image, options, &array, &err);
    hrpy_ctx_release(state->ctx_pool, &ctx);
    hrpy_reattach(detached);
    if (status == HR_OK)
        return hrpy_buffer_new(state, &array, NULL, 0);
    err.status = status;
    return hrpy_raise(state, &err);
}

/* Pictures in an array: what slots are there for. */
static Py_ssize_t pictures_of(const struct hr_array *image)
{
    return hr_array_ndim(image) == 4 ? (Py_ssize_t)hr_array_shape(image)[0] : 1;
}

PyObject *hrpy_transform(PyObject *module, PyObject *const *args, Py_ssize_t nargs,
                         PyObject *kwnames)
{
    static const char *const names[] = {"image", NAMES};
    static const struct hrpy_params params = {"transform", names, COUNT + 1, 1,
                                              COUNT + 1};
    struct hrpy_state *state = hrpy_state_of_module(module);
    struct hr_value image = HR_VALUE_EMPTY;
    struct hr_value into = HR_VALUE_EMPTY;
    struct hr_image_options options;
    struct hrpy_slots slots = {0};
    PyObject *values[COUNT + 1];
    PyObject *result = NULL;

    hrpy_drain_decrefs();
    if (hrpy_parse(&params, args, nargs, kwnames, values))
        return NULL;
    if (read_options(values + 1, &slots, &options) == 0 &&
        hrpy_image_direct(state, values + 1 + DIRECT, &options, &into) == 0 &&
        hrpy_import(state, values[0], HRPY_WANT_ARRAY, &image) == 0) {
        const struct hr_array *array = hr_value_peek_array(&image);

        if (hrpy_slots_check(&slots, pictures_of(array)) == 0)
            result = transform_detached(state, array, &options);
    }
    hr_value_release(&image);
    hr_value_release(&into);
    hrpy_slots_fini(&slots);
    return result;
}

PyObject *hrpy_transform_op(PyObject *module, PyObject *const *args, Py_ssize_t nargs,
                            PyObject *kwnames)
{
    static const char *const names[] = {NAMES};
    static const struct hrpy_params params = {"transform", names, COUNT, 0, 0};
    struct hrpy_state *state = hrpy_state_of_module(module);
    struct hr_op op = {NULL, NULL};
    struct hr_error err = {0};
    struct hr_image_options options;
    PyObject *values[COUNT];

    if (hrpy_parse(&params, args, nargs, kwnames, values) ||
        read_options(values, NULL, &options) || hrpy_image_no_direct(values + DIRECT))
        return NULL;
    err.status = hr_image_transform_op(&options, &op, &err);
    if (err.status != HR_OK)
        return hrpy_raise(state, &err);
    return hrpy_op_new(state, &op, HRPY_WANT_ARRAY);
}
