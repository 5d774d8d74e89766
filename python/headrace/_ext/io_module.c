/* io_module.c - the functions behind headrace.io, and their ops for pipelines.
 *
 * Each follows one pattern: read the arguments and import the source attached, work
 * detached with a context from the pool, export the result attached. The Python face
 * (headrace/io) holds signatures and documentation; nothing is decided twice. */
#include "ext.h"

#include "image_args.h"
#include "transform_functions.h"

/* ---- resize ---- */

struct target {
    int64_t width;
    int64_t height;
    enum hr_scale_algo algo;
};

/* values: width, height, scale_algo. */
static int read_target(PyObject *const *values, struct target *out)
{
    out->algo = HR_SCALE_BICUBIC;
    if (hrpy_image_extent(values[0], "width", 1, &out->width) ||
        hrpy_image_extent(values[1], "height", 1, &out->height))
        return -1;
    return hrpy_image_algo(values[2], &out->algo);
}

static PyObject *resize_detached(struct hrpy_state *state, const struct hr_array *image,
                                 const struct target *target)
{
    PyThreadState *detached;
    struct hr_array *array = NULL;
    struct hr_ctx *ctx = NULL;
    struct hr_error err = {0};
    enum hr_status status;

    detached = hrpy_detach();
    status = hrpy_ctx_acquire(state->ctx_pool, &ctx, &err);
    if (status == HR_OK)
        status = hr_image_resize(ctx, image, target->width, target->height,
                                 target->algo, &array, &err);
    hrpy_ctx_release(state->ctx_pool, &ctx);
    hrpy_reattach(detached);
    if (status != HR_OK)
        return hrpy_raise_status(state, status, &err);
    return hrpy_buffer_new(state, &array, NULL, 0);
}

static PyObject *resize(PyObject *module, PyObject *const *args, Py_ssize_t nargs,
                        PyObject *kwnames)
{
    static const char *const names[] = {"image", "width", "height", "scale_algo"};
    static const struct hrpy_params params = {"resize", names, 4, 3, 4};
    struct hrpy_state *state = hrpy_state_of_module(module);
    struct hr_value image = HR_VALUE_EMPTY;
    struct target target;
    PyObject *values[4];
    PyObject *result;

    hrpy_drain_decrefs();
    if (hrpy_parse(&params, args, nargs, kwnames, values) ||
        read_target(values + 1, &target) ||
        hrpy_import(state, values[0], HRPY_WANT_ARRAY, &image))
        return NULL;
    result = resize_detached(state, hr_value_peek_array(&image), &target);
    hr_value_release(&image);
    return result;
}

static PyObject *resize_op(PyObject *module, PyObject *const *args, Py_ssize_t nargs,
                           PyObject *kwnames)
{
    static const char *const names[] = {"width", "height", "scale_algo"};
    static const struct hrpy_params params = {"resize", names, 3, 2, 0};
    struct hrpy_state *state = hrpy_state_of_module(module);
    struct hr_op op = {NULL, NULL};
    struct hr_error err = {0};
    enum hr_status status;
    struct target target;
    PyObject *values[3];

    if (hrpy_parse(&params, args, nargs, kwnames, values) ||
        read_target(values, &target))
        return NULL;
    status = hr_image_resize_op(target.width, target.height, target.algo, &op, &err);
    if (status != HR_OK)
        return hrpy_raise_status(state, status, &err);
    return hrpy_op_new(state, &op, HRPY_WANT_ARRAY);
}

/* ---- read_file ---- */

#define READ_FILE_MAX ((uint64_t)256 << 20)

static PyObject *read_file(PyObject *module, PyObject *path)
{
    PyThreadState *detached;
    struct hrpy_state *state = hrpy_state_of_module(module);
    struct hr_value text = HR_VALUE_EMPTY;
    struct hr_value bytes = HR_VALUE_EMPTY;
    struct hr_buffer *buffer = NULL;
    struct hr_error err = {0};
    enum hr_status status;

    hrpy_drain_decrefs();
    if (hrpy_import(state, path, HRPY_WANT_SOURCE, &text))
        return NULL;
    if (text.cls != &hr_text_class) {
        hr_value_release(&text);
        return PyErr_Format(PyExc_TypeError,
                            "path must be a str or os.PathLike, not %.100s",
                            Py_TYPE(path)->tp_name);
    }
    detached = hrpy_detach();
    status = hr_file_read(hr_text_peek(&text, NULL), READ_FILE_MAX, &buffer, &err);
    hrpy_reattach(detached);
    hr_value_release(&text);
    if (status != HR_OK)
        return hrpy_raise_status(state, status, &err);
    bytes = hr_value_of_bytes(&buffer);
    return hrpy_export(state, &bytes);
}

static PyObject *read_file_op(PyObject *module, PyObject *ignored)
{
    struct hrpy_state *state = hrpy_state_of_module(module);
    struct hr_op op = {NULL, NULL};
    struct hr_error err = {0};
    enum hr_status status = hr_file_read_op(READ_FILE_MAX, &op, &err);

    (void)ignored;
    if (status != HR_OK)
        return hrpy_raise_status(state, status, &err);
    return hrpy_op_new(state, &op, HRPY_WANT_SOURCE);
}

/* ---- buffers ---- */

static PyObject *as_buffer(PyObject *module, PyObject *obj)
{
    struct hrpy_state *state = hrpy_state_of_module(module);
    struct hr_value array = HR_VALUE_EMPTY;

    hrpy_drain_decrefs();
    if (hrpy_import_memory(state, obj, &array))
        return NULL;
    return hrpy_export(state, &array);
}

static PyObject *pool_stats(PyObject *module, PyObject *ignored)
{
    struct hr_pool_stats stats;

    (void)module;
    (void)ignored;
    hrpy_drain_decrefs();
    hr_pool_stats(&stats);
    return Py_BuildValue("{s:K,s:K,s:K,s:K}", "live_bytes",
                         (unsigned long long)stats.live_bytes, "cached_bytes",
                         (unsigned long long)stats.cached_bytes, "live_count",
                         (unsigned long long)stats.live_count, "mapped_total",
                         (unsigned long long)stats.mapped_total);
}

static PyObject *pool_trim(PyObject *module, PyObject *ignored)
{
    PyThreadState *detached;
    (void)module;
    (void)ignored;
    hrpy_drain_decrefs();
    detached = hrpy_detach();
    hr_pool_trim();
    hrpy_reattach(detached);
    Py_RETURN_NONE;
}

static PyObject *image_simd(PyObject *module, PyObject *ignored)
{
    (void)module;
    (void)ignored;
    return PyUnicode_FromString(hr_image_simd());
}

static PyObject *jpeg_counts(PyObject *module, PyObject *ignored)
{
    uint64_t own;
    uint64_t libjpeg;

    (void)module;
    (void)ignored;
    hr_image_jpeg_counts(&own, &libjpeg);
    return Py_BuildValue("{s:K,s:K}", "headrace", (unsigned long long)own, "libjpeg",
                         (unsigned long long)libjpeg);
}

/* ---- the table ---- */

#define FAST(function) ((PyCFunction)(void (*)(void))(function))

PyMethodDef hrpy_io_methods[] = {
    {"draw_box", FAST(hrpy_draw_box), METH_FASTCALL,
     "draw_box($module, width, height, crop, seed, epoch, index, /)\n--\n\n"
     "What a RandomResizedCrop takes: (top, left, height, width)."},
    {"draw_flip", FAST(hrpy_draw_flip), METH_FASTCALL,
     "draw_flip($module, p, seed, epoch, index, /)\n--\n\n"
     "Whether a picture is flipped."},
    {"transform", FAST(hrpy_transform), METH_FASTCALL | METH_KEYWORDS,
     "transform($module, image, width=None, height=None, " HRPY_TRANSFORM_SIGNATURE
     ", index=0, out=None)\n--\n\nSee headrace.io.transform."},
    {"transform_op", FAST(hrpy_transform_op), METH_FASTCALL | METH_KEYWORDS,
     "transform_op($module, *, width=None, height=None, " HRPY_TRANSFORM_SIGNATURE
     ", index=0, out=None)\n--\n\n"
     "headrace.io.transform with its arguments bound."},
    {"resize", FAST(resize), METH_FASTCALL | METH_KEYWORDS,
     "resize($module, image, width, height, scale_algo='bicubic')\n--\n\n"
     "See headrace.io.resize."},
    {"resize_op", FAST(resize_op), METH_FASTCALL | METH_KEYWORDS,
     "resize_op($module, *, width, height, scale_algo='bicubic')\n--\n\n"
     "headrace.io.resize with its arguments bound."},
    {"read_file", read_file, METH_O,
     "read_file($module, path, /)\n--\n\nSee headrace.io.read_file."},
    {"read_file_op", read_file_op, METH_NOARGS,
     "read_file_op($module, /)\n--\n\nheadrace.io.read_file as an operation."},
    {"convert_frames", hrpy_convert_frames, METH_O,
     "convert_frames($module, frames, /)\n--\n\nSee headrace.io.convert_frames."},
    {"convert_frames_op", hrpy_convert_frames_op, METH_NOARGS,
     "convert_frames_op($module)\n--\n\nheadrace.io.convert_frames."},
    {"as_buffer", as_buffer, METH_O,
     "as_buffer($module, obj, /)\n--\n\n"
     "A CPUBuffer that shares an array's memory and keeps it alive."},
    {"pool_stats", pool_stats, METH_NOARGS,
     "pool_stats($module, /)\n--\n\n"
     "What the buffer pool holds: live_bytes, cached_bytes, live_count, mapped_total."},
    {"pool_trim", pool_trim, METH_NOARGS,
     "pool_trim($module, /)\n--\n\n"
     "Give the buffer pool's cached memory back to the system."},
    {"image_simd", image_simd, METH_NOARGS,
     "image_simd($module, /)\n--\n\n"
     "Instruction set of the resize kernels: 'avx2', 'sse4.1' or 'portable'."},
    {"jpeg_counts", jpeg_counts, METH_NOARGS,
     "jpeg_counts($module, /)\n--\n\nSee headrace.io.jpeg_counts."},
    {NULL, NULL, 0, NULL},
};
