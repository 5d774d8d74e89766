/* image_module.c - functions behind headrace.io that are about pictures and give no
 * pixels: headers, encoding. As in io_module.c: arguments attached, work
 * detached, export attached. */
#include "ext.h"

#include "image_args.h"

/* Run a bound op on one object: what the function and its op have in common. Takes *op. */
static PyObject *run_op(struct hrpy_state *state, struct hr_op *op, PyObject *item,
                        enum hrpy_want want)
{
    PyThreadState *detached;
    struct hr_value in = HR_VALUE_EMPTY;
    struct hr_value out = HR_VALUE_EMPTY;
    struct hr_ctx *ctx = NULL;
    struct hr_error err = {0};
    enum hr_status status;

    if (hrpy_import(state, item, want, &in)) {
        hr_op_free(op);
        return NULL;
    }
    detached = hrpy_detach();
    status = hrpy_ctx_acquire(state->ctx_pool, &ctx, &err);
    if (status == HR_OK)
        status = op->cls->run(op->state, ctx, &in, &out, &err);
    hrpy_ctx_release(state->ctx_pool, &ctx);
    hr_op_free(op);
    hrpy_reattach(detached);
    hr_value_release(&in);
    return status == HR_OK ? hrpy_export(state, &out)
                           : hrpy_raise_status(state, status, &err);
}

/* The op itself, or what it gives for item. Takes *op. */
static PyObject *finish(struct hrpy_state *state, enum hr_status status,
                        struct hr_error *err, struct hr_op *op, PyObject *item,
                        enum hrpy_want want)
{
    if (status != HR_OK)
        return hrpy_raise_status(state, status, err);
    return item ? run_op(state, op, item, want) : hrpy_op_new(state, op, want);
}

/* ---- image_info ---- */

/* values: orientation, limits. */
static int info_options(PyObject *const *values, struct hr_image_options *options)
{
    hr_image_options_init(options);
    if (hrpy_image_orientation(values[0], &options->orientation) ||
        hrpy_image_limits(values[1], options))
        return -1;
    return 0;
}

static PyObject *image_info(PyObject *module, PyObject *const *args, Py_ssize_t nargs,
                            PyObject *kwnames)
{
    static const char *const names[] = {"src", "orientation", "limits"};
    static const struct hrpy_params params = {"image_info", names, 3, 1, 3};
    struct hrpy_state *state = hrpy_state_of_module(module);
    struct hr_image_options options;
    struct hr_op op = {NULL, NULL};
    struct hr_error err = {0};
    PyObject *values[3];

    hrpy_drain_decrefs();
    if (hrpy_parse(&params, args, nargs, kwnames, values) ||
        info_options(values + 1, &options))
        return NULL;
    return finish(state, hr_image_info_op(&options, &op, &err), &err, &op, values[0],
                  HRPY_WANT_SOURCE);
}

static PyObject *image_info_op(PyObject *module, PyObject *const *args,
                               Py_ssize_t nargs, PyObject *kwnames)
{
    static const char *const names[] = {"orientation", "limits"};
    static const struct hrpy_params params = {"image_info", names, 2, 0, 0};
    struct hrpy_state *state = hrpy_state_of_module(module);
    struct hr_image_options options;
    struct hr_op op = {NULL, NULL};
    struct hr_error err = {0};
    PyObject *values[2];

    if (hrpy_parse(&params, args, nargs, kwnames, values) ||
        info_options(values, &options))
        return NULL;
    return finish(state, hr_image_info_op(&options, &op, &err), &err, &op, NULL,
                  HRPY_WANT_SOURCE);
}

/* values: orientation, limits, strict. */
static int infos_options(PyObject *const *values, struct hr_image_options *options,
                         int *strict)
{
    *strict = values[2] ? PyObject_IsTrue(values[2]) : 1;
    return *strict < 0 ? -1 : info_options(values, options);
}

static PyObject *image_info_batch(PyObject *module, PyObject *const *args,
                                  Py_ssize_t nargs, PyObject *kwnames)
{
    static const char *const names[] = {"srcs", "orientation", "limits", "strict"};
    static const struct hrpy_params params = {"image_info_batch", names, 4, 1, 4};
    struct hrpy_state *state = hrpy_state_of_module(module);
    struct hr_image_options options;
    struct hr_op op = {NULL, NULL};
    struct hr_error err = {0};
    PyObject *values[4];
    int strict;

    hrpy_drain_decrefs();
    if (hrpy_parse(&params, args, nargs, kwnames, values) ||
        infos_options(values + 1, &options, &strict))
        return NULL;
    return finish(state, hr_image_info_batch_op(&options, strict, &op, &err), &err, &op,
                  values[0], HRPY_WANT_LIST);
}

static PyObject *image_info_batch_op(PyObject *module, PyObject *const *args,
                                     Py_ssize_t nargs, PyObject *kwnames)
{
    static const char *const names[] = {"orientation", "limits", "strict"};
    static const struct hrpy_params params = {"image_info_batch", names, 3, 0, 0};
    struct hrpy_state *state = hrpy_state_of_module(module);
    struct hr_image_options options;
    struct hr_op op = {NULL, NULL};
    struct hr_error err = {0};
    PyObject *values[3];
    int strict;

    if (hrpy_parse(&params, args, nargs, kwnames, values) ||
        infos_options(values, &options, &strict))
        return NULL;
    return finish(state, hr_image_info_batch_op(&options, strict, &op, &err), &err, &op,
                  NULL, HRPY_WANT_LIST);
}

/* ---- encode_image ---- */

#define ENCODE_ARG_NAMES "format", "quality", "compression", "lossless", "pix_fmt"
#define ENCODE_ARG_COUNT 5

static int encode_options(PyObject *const *values, struct hr_encode_options *options)
{
    static const struct hrpy_choice formats[] = {
        {"jpeg", HR_JPEG}, {"png", HR_PNG}, {"webp", HR_WEBP}};
    static const struct hrpy_choice orders[] = {{NULL, 0}, {"bgr24", 1}};
    int64_t quality;
    int64_t compression;
    int format;
    int bgr;

    hr_encode_options_init(options);
    quality = options->quality;
    compression = options->compression;
    format = (int)options->format;
    bgr = 0;
    if (hrpy_image_choice(values[0], "format", "'jpeg', 'png' or 'webp'", formats, 3,
                          &format) ||
        (values[1] && hrpy_image_number(values[1], "quality", 0, 100, &quality)) ||
        (values[2] &&
         hrpy_image_number(values[2], "compression", 0, 9, &compression)) ||
        hrpy_image_choice(values[4], "pix_fmt", "'bgr24' or None", orders, 2, &bgr))
        return -1;
    options->format = (enum hr_image_format)format;
    options->quality = (int32_t)quality;
    options->compression = (int32_t)compression;
    options->bgr = bgr;
    options->lossless = values[3] ? PyObject_IsTrue(values[3]) : 0;
    return options->lossless < 0 ? -1 : 0;
}

static PyObject *encode_image(PyObject *module, PyObject *const *args, Py_ssize_t nargs,
                              PyObject *kwnames)
{
    static const char *const names[] = {"image", ENCODE_ARG_NAMES};
    static const struct hrpy_params params = {
        "encode_image", names, ENCODE_ARG_COUNT + 1, 1, ENCODE_ARG_COUNT + 1};
    struct hrpy_state *state = hrpy_state_of_module(module);
    struct hr_encode_options options;
    struct hr_op op = {NULL, NULL};
    struct hr_error err = {0};
    PyObject *values[ENCODE_ARG_COUNT + 1];

    hrpy_drain_decrefs();
    if (hrpy_parse(&params, args, nargs, kwnames, values) ||
        encode_options(values + 1, &options))
        return NULL;
    return finish(state, hr_image_encode_op(&options, &op, &err), &err, &op, values[0],
                  HRPY_WANT_ARRAY);
}

static PyObject *encode_image_op(PyObject *module, PyObject *const *args,
                                 Py_ssize_t nargs, PyObject *kwnames)
{
    static const char *const names[] = {ENCODE_ARG_NAMES};
    static const struct hrpy_params params = {"encode_image", names, ENCODE_ARG_COUNT,
                                              0, 0};
    struct hrpy_state *state = hrpy_state_of_module(module);
    struct hr_encode_options options;
    struct hr_op op = {NULL, NULL};
    struct hr_error err = {0};
    PyObject *values[ENCODE_ARG_COUNT];

    if (hrpy_parse(&params, args, nargs, kwnames, values) ||
        encode_options(values, &options))
        return NULL;
    return finish(state, hr_image_encode_op(&options, &op, &err), &err, &op, NULL,
                  HRPY_WANT_ARRAY);
}

/* ---- ImageInfo ---- */

static PyStructSequence_Field info_fields[] = {
    {"width", "Width in pixels, as shown; as stored with orientation='ignore'."},
    {"height", "Height in pixels, likewise."},
    {"format", "'JPEG', 'PNG', 'WebP', 'GIF', 'BMP', 'TIFF' or 'AVIF'."},
    {"channels", "Stored channels; 1 for grey or a palette, alpha included."},
    {"bit_depth", "Bits of a stored sample, or of a palette's index."},
    {"frames", "Frames of an animation, or pages; 1 for a still picture."},
    {"orientation", "EXIF's number, 1 to 8."},
    {"has_icc", "There is a colour profile."},
    {NULL, NULL},
};

PyStructSequence_Desc hrpy_info_desc = {
    .name = "headrace.io.ImageInfo",
    .doc = "What a picture's header says.",
    .fields = info_fields,
    .n_in_sequence = 8,
};

PyObject *hrpy_info_new(struct hrpy_state *state, const struct hr_image_info *info)
{
    PyObject *self = PyStructSequence_New(state->info_type);
    PyObject *items[8];

    if (!self)
        return NULL;
    items[0] = PyLong_FromLongLong(info->width);
    items[1] = PyLong_FromLongLong(info->height);
    items[2] = PyUnicode_FromString(info->format);
    items[3] = PyLong_FromLong(info->channels);
    items[4] = PyLong_FromLong(info->bits);
    items[5] = PyLong_FromLongLong(info->frames);
    items[6] = PyLong_FromLong(info->orientation);
    items[7] = PyBool_FromLong(info->has_icc);
    for (Py_ssize_t i = 0; i < 8; i++)
        PyStructSequence_SetItem(self, i, items[i]);
    if (PyErr_Occurred())
        Py_CLEAR(self);
    return self;
}

/* ---- the table ---- */

#define FAST(function)                                                                 \
    (PyCFunction)(void (*)(void))(function), METH_FASTCALL | METH_KEYWORDS
#define ENCODE_SIGNATURE                                                               \
    "format='jpeg', quality=75, compression=6, lossless=False, pix_fmt=None"

PyMethodDef hrpy_image_methods[] = {
    {"image_info", FAST(image_info),
     "image_info($module, src, orientation='apply', limits=None)\n--\n\n"
     "See headrace.io.image_info."},
    {"image_info_op", FAST(image_info_op),
     "image_info_op($module, *, orientation='apply', limits=None)\n--\n\n"
     "headrace.io.image_info with its arguments bound."},
    {"image_info_batch", FAST(image_info_batch),
     "image_info_batch($module, srcs, orientation='apply', limits=None, strict=True)\n"
     "--\n\nSee headrace.io.image_info_batch."},
    {"image_info_batch_op", FAST(image_info_batch_op),
     "image_info_batch_op($module, *, orientation='apply', limits=None, strict=True)\n"
     "--\n\nheadrace.io.image_info_batch with its arguments bound."},
    {"encode_image", FAST(encode_image),
     "encode_image($module, image, " ENCODE_SIGNATURE
     ")\n--\n\nSee headrace.io.encode_image."},
    {"encode_image_op", FAST(encode_image_op),
     "encode_image_op($module, *, " ENCODE_SIGNATURE
     ")\n--\n\nheadrace.io.encode_image with its arguments bound."},
    {NULL, NULL, 0, NULL},
};
