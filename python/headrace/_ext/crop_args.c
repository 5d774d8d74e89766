/* crop_args.c - crop, flip, seed and epoch.
 *
 * crop is a box, a sequence of boxes, or an object of headrace.io that says by its
 * attributes what is to be drawn: this file knows no class of that module. */
#include "crop_args.h"

#include "image_args.h"

int hrpy_box(PyObject *arg, const char *what, struct hr_box *out)
{
    int64_t *const fields[] = {&out->top, &out->left, &out->height, &out->width};
    PyObject *items = PySequence_Tuple(arg);

    if (!items)
        return -1;
    if (PyTuple_GET_SIZE(items) != 4) {
        PyErr_Format(PyExc_ValueError,
                     "%s must be (top, left, height, width), not %zd numbers", what,
                     PyTuple_GET_SIZE(items));
        Py_DECREF(items);
        return -1;
    }
    for (Py_ssize_t i = 0; i < 4 && !PyErr_Occurred(); i++) {
        PyObject *number = PyNumber_Index(PyTuple_GET_ITEM(items, i));

        *fields[i] = number ? PyLong_AsLongLong(number) : 0;
        Py_XDECREF(number);
        if (!number && PyErr_ExceptionMatches(PyExc_TypeError))
            PyErr_Format(PyExc_TypeError,
                         "%s must be (top, left, height, width) of ints, not %.100s",
                         what, Py_TYPE(PyTuple_GET_ITEM(items, i))->tp_name);
    }
    Py_DECREF(items);
    return PyErr_Occurred() ? -1 : 0;
}

/* Two floats from an attribute. */
static int read_pair(PyObject *arg, const char *name, double out[2])
{
    PyObject *value = PyObject_GetAttrString(arg, name);

    if (!value)
        return -1;
    PyObject *items = PySequence_Tuple(value);
    int good = items && PyTuple_GET_SIZE(items) == 2;

    for (Py_ssize_t i = 0; good && i < 2 && !PyErr_Occurred(); i++)
        out[i] = PyFloat_AsDouble(PyTuple_GET_ITEM(items, i));
    if (PyErr_Occurred() && PyErr_ExceptionMatches(PyExc_TypeError))
        PyErr_Format(PyExc_TypeError, "%s must be two numbers, not %R", name, value);
    else if (items && !good)
        PyErr_Format(PyExc_ValueError, "%s must be two numbers, not %R", name, value);
    Py_XDECREF(items);
    Py_DECREF(value);
    return PyErr_Occurred() ? -1 : 0;
}

static int read_centre(PyObject *arg, struct hr_image_options *out)
{
    PyObject *size = PyObject_GetAttrString(arg, "resize_size");

    out->crop = HR_CROP_CENTER;
    if (!size)
        return -1;
    int failed = size != Py_None &&
                 hrpy_image_number(size, "resize_size", 0, 65535, &out->resize_size);
    Py_DECREF(size);
    return failed ? -1 : 0;
}

/* One box for each slot. */
static int read_boxes(PyObject *arg, struct hrpy_slots *slots,
                      struct hr_image_options *out)
{
    PyObject *items = PySequence_Tuple(arg);
    Py_ssize_t n;
    int failed = 0;

    if (!items)
        return -1;
    n = PyTuple_GET_SIZE(items);
    slots->boxes = PyMem_Calloc((size_t)n + 1, sizeof(*slots->boxes));
    slots->box_count = n;
    if (!slots->boxes) {
        PyErr_NoMemory();
        failed = -1;
    }
    for (Py_ssize_t i = 0; failed == 0 && i < n; i++)
        failed = hrpy_box(PyTuple_GET_ITEM(items, i), "each crop", &slots->boxes[i]);
    Py_DECREF(items);
    out->boxes = slots->boxes;
    return failed;
}

/* A sequence whose first item is a number. 1, 0, or -1 with an exception set. */
static int is_box(PyObject *arg)
{
    PyObject *first;
    int result;

    if (PySequence_Size(arg) == 0)
        return 0;
    first = PySequence_GetItem(arg, 0);
    if (!first)
        return -1;
    result = PyIndex_Check(first) && !PySequence_Check(first);
    Py_DECREF(first);
    return result;
}

static int read_crop(PyObject *arg, struct hrpy_slots *slots,
                     struct hr_image_options *out)
{
    int box;

    if (!arg || arg == Py_None)
        return 0;
    if (PyObject_HasAttrString(arg, "resize_size"))
        return read_centre(arg, out);
    if (PyObject_HasAttrString(arg, "scale") && PyObject_HasAttrString(arg, "ratio")) {
        out->crop = HR_CROP_RANDOM;
        return read_pair(arg, "scale", out->scale) ||
                       read_pair(arg, "ratio", out->ratio)
                   ? -1
                   : 0;
    }
    if (!PySequence_Check(arg) || PyUnicode_Check(arg)) {
        PyErr_Format(PyExc_TypeError,
                     "crop must be None, (top, left, height, width), a CenterCrop or a "
                     "RandomResizedCrop, not %.100s",
                     Py_TYPE(arg)->tp_name);
        return -1;
    }
    box = is_box(arg);
    if (box < 0)
        return -1;
    if (!box && slots)
        return read_boxes(arg, slots, out);
    out->crop = HR_CROP_BOX;
    return hrpy_box(arg, "crop", &out->box);
}

static int read_flips(PyObject *arg, struct hrpy_slots *slots,
                      struct hr_image_options *out)
{
    PyObject *items = PySequence_Tuple(arg);
    Py_ssize_t n;

    if (!items)
        return -1;
    n = PyTuple_GET_SIZE(items);
    slots->flips = PyMem_Calloc((size_t)n + 1, 1);
    slots->flip_count = n;
    if (!slots->flips)
        PyErr_NoMemory();
    for (Py_ssize_t i = 0; slots->flips && i < n; i++)
        slots->flips[i] = PyObject_IsTrue(PyTuple_GET_ITEM(items, i)) > 0;
    Py_DECREF(items);
    out->flips = slots->flips;
    return PyErr_Occurred() ? -1 : 0;
}

static int read_flip(PyObject *arg, struct hrpy_slots *slots,
                     struct hr_image_options *out)
{
    if (!arg)
        return 0;
    if (slots && PySequence_Check(arg) && !PyUnicode_Check(arg))
        return read_flips(arg, slots, out);
    out->flip = PyFloat_AsDouble(arg);
    if (PyErr_Occurred()) {
        if (PyErr_ExceptionMatches(PyExc_TypeError))
            PyErr_Format(PyExc_TypeError,
                         "flip must be a bool or a probability, not %.100s",
                         Py_TYPE(arg)->tp_name);
        return -1;
    }
    if (out->flip >= 0 && out->flip <= 1)
        return 0;
    PyErr_Format(PyExc_ValueError, "flip must be 0 to 1, not %R", arg);
    return -1;
}

/* An int; of a large one the lower 64 bits. */
static int read_number(PyObject *arg, const char *what, uint64_t *out)
{
    if (!arg)
        return 0;
    if (!PyLong_Check(arg)) {
        PyErr_Format(PyExc_TypeError, "%s must be an int, not %.100s", what,
                     Py_TYPE(arg)->tp_name);
        return -1;
    }
    *out = PyLong_AsUnsignedLongLongMask(arg);
    return PyErr_Occurred() ? -1 : 0;
}

int hrpy_crop_options(PyObject *const *values, struct hrpy_slots *slots,
                      struct hr_image_options *out)
{
    return read_crop(values[0], slots, out) || read_flip(values[1], slots, out) ||
                   read_number(values[2], "seed", &out->seed) ||
                   read_number(values[3], "epoch", &out->epoch)
               ? -1
               : 0;
}

int hrpy_slots_check(const struct hrpy_slots *slots, Py_ssize_t n)
{
    const char *what = slots->boxes && slots->box_count != n ? "crop" : "flip";
    Py_ssize_t count =
        slots->boxes && slots->box_count != n ? slots->box_count : slots->flip_count;

    if ((!slots->boxes || slots->box_count == n) &&
        (!slots->flips || slots->flip_count == n))
        return 0;
    PyErr_Format(PyExc_ValueError, "%s has %zd entries for %zd sources", what, count,
                 n);
    return -1;
}

void hrpy_slots_fini(struct hrpy_slots *slots)
{
    PyMem_Free(slots->boxes);
    PyMem_Free(slots->flips);
    *slots = (struct hrpy_slots){0};
}

/* ---- draws ---- */

/* values: seed, epoch, index. */
static int read_key(PyObject *const *values, struct hr_image_options *out)
{
    uint64_t index = 0;

    if (read_number(values[0], "seed", &out->seed) ||
        read_number(values[1], "epoch", &out->epoch) ||
        read_number(values[2], "index", &index))
        return -1;
    out->index = (int64_t)index;
    return 0;
}

PyObject *hrpy_draw_box(PyObject *module, PyObject *const *args, Py_ssize_t nargs)
{
    struct hr_image_options options;
    struct hr_error err = {0};
    struct hr_box box;
    int64_t width;
    int64_t height;
    int flip;

    if (nargs != 6)
        return PyErr_Format(PyExc_TypeError, "draw_box() takes 6 arguments, not %zd",
                            nargs);
    hr_image_options_init(&options);
    width = PyLong_AsLongLong(args[0]);
    height = PyLong_AsLongLong(args[1]);
    if (PyErr_Occurred() || read_crop(args[2], NULL, &options) ||
        read_key(args + 3, &options))
        return NULL;
    if (options.crop == HR_CROP_CENTER)
        options.crop = HR_CROP_NONE; /* it takes all */
    if (hr_image_draw(&options, width, height, &box, &flip, &err) != HR_OK)
        return hrpy_raise(hrpy_state_of_module(module), &err);
    return Py_BuildValue("(LLLL)", (long long)box.top, (long long)box.left,
                         (long long)box.height, (long long)box.width);
}

PyObject *hrpy_draw_flip(PyObject *module, PyObject *const *args, Py_ssize_t nargs)
{
    struct hr_image_options options;
    struct hr_error err = {0};
    struct hr_box box;
    int flip;

    if (nargs != 4)
        return PyErr_Format(PyExc_TypeError, "draw_flip() takes 4 arguments, not %zd",
                            nargs);
    hr_image_options_init(&options);
    if (read_flip(args[0], NULL, &options) || read_key(args + 1, &options))
        return NULL;
    if (hr_image_draw(&options, 1, 1, &box, &flip, &err) != HR_OK)
        return hrpy_raise(hrpy_state_of_module(module), &err);
    return PyBool_FromLong(flip);
}
