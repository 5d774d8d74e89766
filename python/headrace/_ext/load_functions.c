/* load_functions.c - pictures from their sources: load_image, load_image_frames and
 * load_image_batch, and their ops for pipelines; as io_module.c. */
#include "ext.h"

#include "image_args.h"

#define COUNT HRPY_IMAGE_ARG_COUNT

/* ---- load_image, load_image_frames ---- */

/* Both take one source and the same arguments. */
struct loader {
    struct hrpy_params direct;
    struct hrpy_params bound;
    enum hr_status (*load)(struct hr_ctx *, const struct hr_value *, const char *,
                           const struct hr_image_options *, struct hr_array **,
                           struct hr_error *);
    enum hr_status (*bind)(const struct hr_image_options *, struct hr_op *,
                           struct hr_error *);
    int all_frames;
};

static const char *const one_names[] = {"src", HRPY_IMAGE_ARG_NAMES, "name", "index",
                                        "out"};

static const struct loader one_frame = {
    {"load_image", one_names, COUNT + 4, 1, COUNT + 4},
    {"load_image", one_names + 1, COUNT + 3, 0, 0},
    hr_image_load,
    hr_image_load_op,
    0,
};

static const struct loader all_frames = {
    {"load_image_frames", one_names, COUNT + 4, 1, COUNT + 4},
    {"load_image_frames", one_names + 1, COUNT + 3, 0, 0},
    hr_image_load_frames,
    hr_image_load_frames_op,
    1,
};

/* values: width, height, ... */
static int read_one_args(const struct loader *loader, PyObject *const *values,
                         struct hr_image_options *options)
{
    if (hrpy_image_options(values, NULL, options))
        return -1;
    if (!loader->all_frames || options->frame == 0)
        return 0;
    PyErr_SetString(PyExc_ValueError, "frame must be 0: all frames are loaded");
    return -1;
}

/* What was loaded as a CPUBuffer; detail: what it lacks, if allow_truncated kept it. */
static PyObject *export_picture(struct hrpy_state *state, struct hr_array **array,
                                const struct hr_value *src, const char *name,
                                const struct hr_error *detail)
{
    struct hr_slot_failure cut = {.kept = 1, .error = *detail};

    if (detail->status == HR_OK)
        return hrpy_buffer_new(state, array, NULL, 0);
    if (!name)
        name = src->cls == &hr_text_class ? hr_text_peek(src, NULL) : "<bytes>";
    PyOS_snprintf(cut.name, sizeof(cut.name), "%s", name);
    return hrpy_buffer_new(state, array, &cut, 1);
}

static PyObject *load_detached(struct hrpy_state *state, const struct loader *loader,
                               const struct hr_value *src, const char *name,
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
        status = loader->load(ctx, src, name, options, &array, &err);
    hrpy_ctx_release(state->ctx_pool, &ctx);
    hrpy_reattach(detached);
    if (status != HR_OK)
        return hrpy_raise_status(state, status, &err);
    return export_picture(state, &array, src, name, &err);
}

/* NULL or None gives no bytes; else a new bytes object. */
static int read_name(PyObject *arg, PyObject **bytes)
{
    *bytes = NULL;
    if (!arg || arg == Py_None)
        return 0;
    if (!PyUnicode_Check(arg)) {
        PyErr_Format(PyExc_TypeError, "name must be a str or None, not %.100s",
                     Py_TYPE(arg)->tp_name);
        return -1;
    }
    *bytes = hrpy_encode_path(arg, "name");
    return *bytes ? 0 : -1;
}

static PyObject *load_direct(PyObject *module, const struct loader *loader,
                             PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    struct hrpy_state *state = hrpy_state_of_module(module);
    struct hr_value src = HR_VALUE_EMPTY;
    struct hr_value into = HR_VALUE_EMPTY;
    struct hr_image_options options;
    PyObject *result = NULL;
    PyObject *name = NULL;
    PyObject *values[COUNT + 4];

    hrpy_drain_decrefs();
    if (hrpy_parse(&loader->direct, args, nargs, kwnames, values) ||
        read_one_args(loader, values + 1, &options) ||
        read_name(values[COUNT + 1], &name))
        return NULL;
    if (hrpy_image_direct(state, values + COUNT + 2, &options, &into) == 0 &&
        hrpy_import(state, values[0], HRPY_WANT_SOURCE, &src) == 0)
        result = load_detached(state, loader, &src,
                               name ? PyBytes_AS_STRING(name) : NULL, &options);
    hr_value_release(&src);
    hr_value_release(&into);
    Py_XDECREF(name);
    return result;
}

static PyObject *load_bound(PyObject *module, const struct loader *loader,
                            PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    struct hrpy_state *state = hrpy_state_of_module(module);
    struct hr_image_options options;
    struct hr_op op = {NULL, NULL};
    struct hr_error err = {0};
    enum hr_status status;
    PyObject *values[COUNT + 3];

    if (hrpy_parse(&loader->bound, args, nargs, kwnames, values) ||
        read_one_args(loader, values, &options) ||
        hrpy_image_no_direct(values + COUNT + 1))
        return NULL;
    if (values[COUNT] && values[COUNT] != Py_None) {
        PyErr_SetString(PyExc_ValueError,
                        "name labels one picture; a pipeline uses each item's own");
        return NULL;
    }
    status = loader->bind(&options, &op, &err);
    if (status != HR_OK)
        return hrpy_raise_status(state, status, &err);
    return hrpy_op_new(state, &op, HRPY_WANT_SOURCE);
}

static PyObject *load_image(PyObject *module, PyObject *const *args, Py_ssize_t nargs,
                            PyObject *kwnames)
{
    return load_direct(module, &one_frame, args, nargs, kwnames);
}

static PyObject *load_image_op(PyObject *module, PyObject *const *args,
                               Py_ssize_t nargs, PyObject *kwnames)
{
    return load_bound(module, &one_frame, args, nargs, kwnames);
}

static PyObject *load_image_frames(PyObject *module, PyObject *const *args,
                                   Py_ssize_t nargs, PyObject *kwnames)
{
    return load_direct(module, &all_frames, args, nargs, kwnames);
}

static PyObject *load_image_frames_op(PyObject *module, PyObject *const *args,
                                      Py_ssize_t nargs, PyObject *kwnames)
{
    return load_bound(module, &all_frames, args, nargs, kwnames);
}

/* ---- load_image_batch ---- */

/* values: width, height, ..., strict. */
static int read_batch_args(PyObject *const *values, struct hrpy_slots *slots,
                           struct hr_image_options *options, int *strict)
{
    if (hrpy_image_options(values, slots, options))
        return -1;
    if (options->width == 0 || options->height == 0) {
        PyErr_Format(PyExc_ValueError,
                     "%s must be an int: all pictures of a batch have one size",
                     options->width == 0 ? "width" : "height");
        return -1;
    }
    *strict = values[COUNT] ? PyObject_IsTrue(values[COUNT]) : 1;
    return *strict < 0 ? -1 : 0;
}

static PyObject *load_batch_detached(struct hrpy_state *state,
                                     const struct hr_value *srcs,
                                     const struct hr_image_options *options, int strict)
{
    PyThreadState *detached;
    struct hr_value batch = HR_VALUE_EMPTY;
    struct hr_ctx *ctx = NULL;
    struct hr_error err = {0};
    enum hr_status status;

    detached = hrpy_detach();
    status = hrpy_ctx_acquire(state->ctx_pool, &ctx, &err);
    if (status == HR_OK)
        status = hr_image_load_batch(ctx, hr_list_peek(srcs), hr_list_size(srcs), NULL,
                                     options, strict, &batch, &err);
    hrpy_ctx_release(state->ctx_pool, &ctx);
    hrpy_reattach(detached);
    if (status != HR_OK)
        return hrpy_raise_status(state, status, &err);
    return hrpy_export(state, &batch);
}

static PyObject *load_image_batch(PyObject *module, PyObject *const *args,
                                  Py_ssize_t nargs, PyObject *kwnames)
{
    static const char *const names[] = {"srcs", HRPY_IMAGE_ARG_NAMES, "strict", "index",
                                        "out"};
    static const struct hrpy_params params = {"load_image_batch", names, COUNT + 4, 3,
                                              COUNT + 4};
    struct hrpy_state *state = hrpy_state_of_module(module);
    struct hr_value srcs = HR_VALUE_EMPTY;
    struct hr_image_options options;
    PyObject *result = NULL;
    PyObject *values[COUNT + 4];
    struct hr_value into = HR_VALUE_EMPTY;
    struct hrpy_slots slots = {0};
    int strict;

    hrpy_drain_decrefs();
    if (hrpy_parse(&params, args, nargs, kwnames, values))
        return NULL;
    if (read_batch_args(values + 1, &slots, &options, &strict) == 0 &&
        hrpy_image_direct(state, values + COUNT + 2, &options, &into) == 0 &&
        hrpy_import(state, values[0], HRPY_WANT_LIST, &srcs) == 0) {
        size_t n = hr_list_size(&srcs);

        if (n == 0)
            PyErr_SetString(PyExc_ValueError, "srcs is empty");
        else if (hrpy_slots_check(&slots, (Py_ssize_t)n) == 0)
            result = load_batch_detached(state, &srcs, &options, strict);
    }
    hr_value_release(&srcs);
    hr_value_release(&into);
    hrpy_slots_fini(&slots);
    return result;
}

static PyObject *load_image_batch_op(PyObject *module, PyObject *const *args,
                                     Py_ssize_t nargs, PyObject *kwnames)
{
    static const char *const names[] = {HRPY_IMAGE_ARG_NAMES, "strict", "index", "out"};
    static const struct hrpy_params params = {"load_image_batch", names, COUNT + 3, 2,
                                              0};
    struct hrpy_state *state = hrpy_state_of_module(module);
    struct hr_image_options options;
    struct hr_op op = {NULL, NULL};
    struct hr_error err = {0};
    enum hr_status status;
    PyObject *values[COUNT + 3];
    int strict;

    if (hrpy_parse(&params, args, nargs, kwnames, values) ||
        read_batch_args(values, NULL, &options, &strict) ||
        hrpy_image_no_direct(values + COUNT + 1))
        return NULL;
    status = hr_image_load_batch_op(&options, strict, &op, &err);
    if (status != HR_OK)
        return hrpy_raise_status(state, status, &err);
    return hrpy_op_new(state, &op, HRPY_WANT_LIST);
}

/* ---- the table ---- */

#define FAST(function)                                                                 \
    (PyCFunction)(void (*)(void))(function), METH_FASTCALL | METH_KEYWORDS
#define ONE_SIGNATURE                                                                  \
    "width=None, height=None, " HRPY_IMAGE_SIGNATURE ", name=None, index=0, out=None)"
#define BATCH_SIGNATURE                                                                \
    "width, height, " HRPY_IMAGE_SIGNATURE ", strict=True, index=0, out=None)"

PyMethodDef hrpy_load_methods[] = {
    {"load_image", FAST(load_image),
     "load_image($module, src, " ONE_SIGNATURE "\n--\n\nSee headrace.io.load_image."},
    {"load_image_op", FAST(load_image_op),
     "load_image_op($module, *, " ONE_SIGNATURE
     "\n--\n\nheadrace.io.load_image with its arguments bound."},
    {"load_image_frames", FAST(load_image_frames),
     "load_image_frames($module, src, " ONE_SIGNATURE
     "\n--\n\nSee headrace.io.load_image_frames."},
    {"load_image_frames_op", FAST(load_image_frames_op),
     "load_image_frames_op($module, *, " ONE_SIGNATURE
     "\n--\n\nheadrace.io.load_image_frames with its arguments bound."},
    {"load_image_batch", FAST(load_image_batch),
     "load_image_batch($module, srcs, " BATCH_SIGNATURE
     "\n--\n\nSee headrace.io.load_image_batch."},
    {"load_image_batch_op", FAST(load_image_batch_op),
     "load_image_batch_op($module, *, " BATCH_SIGNATURE
     "\n--\n\nheadrace.io.load_image_batch with its arguments bound."},
    {NULL, NULL, 0, NULL},
};
