/* form_args.c - layout, dtype, mean and std. */
#include "form_args.h"

#include <math.h>

#define CHANNELS_MAX 4

static int read_layout(PyObject *arg, enum hr_layout *out)
{
    if (!arg)
        return 0;
    if (PyUnicode_Check(arg) && PyUnicode_CompareWithASCIIString(arg, "HWC") == 0)
        *out = HR_HWC;
    else if (PyUnicode_Check(arg) && PyUnicode_CompareWithASCIIString(arg, "CHW") == 0)
        *out = HR_CHW;
    else
        return PyErr_Format(PyExc_ValueError, "layout must be 'HWC' or 'CHW', not %R",
                            arg),
               -1;
    return 0;
}

/* The name of a dtype: of "float32", numpy.float32, numpy.dtype("float32") and
 * torch.float32 alike. A new reference. */
static PyObject *dtype_name(PyObject *arg)
{
    PyObject *text;
    PyObject *name;
    Py_ssize_t dot;

    if (PyType_Check(arg))
        return PyObject_GetAttrString(arg, "__name__");
    text = PyObject_Str(arg);
    if (!text)
        return NULL;
    dot = PyUnicode_FindChar(text, '.', 0, PyUnicode_GET_LENGTH(text), -1);
    name = dot < -1 ? NULL
                    : PyUnicode_Substring(text, dot + 1, PyUnicode_GET_LENGTH(text));
    Py_DECREF(text);
    return name;
}

/* HR_U8 in *out means that samples are as `plain` says: HR_U8 or HR_U16. */
static int read_dtype(PyObject *arg, enum hr_dtype plain, enum hr_dtype *out)
{
    static const enum hr_dtype known[] = {HR_U8, HR_U16, HR_F16, HR_BF16, HR_F32};
    const size_t count = sizeof(known) / sizeof(known[0]);
    PyObject *name;
    size_t i = 0;

    if (!arg || arg == Py_None)
        return 0;
    name = dtype_name(arg);
    if (!name)
        return -1;
    while (i < count && PyUnicode_CompareWithASCIIString(name, hr_dtype_name(known[i])))
        i++;
    Py_DECREF(name);
    if (i == count || (i < 2 && known[i] != plain)) {
        PyErr_Format(PyExc_ValueError,
                     "dtype must be None, '%s', 'float16', 'bfloat16' or 'float32', "
                     "not %R",
                     hr_dtype_name(plain), arg);
        return -1;
    }
    *out = i < 2 ? HR_U8 : known[i];
    return 0;
}

/* A number, or one for each channel. */
static int read_numbers(PyObject *arg, const char *what, int channels, double *out)
{
    PyObject *items;
    Py_ssize_t n;

    if (!arg || arg == Py_None)
        return 0;
    if (PyFloat_Check(arg) || PyLong_Check(arg)) {
        double value = PyFloat_AsDouble(arg);

        for (int i = 0; i < CHANNELS_MAX; i++)
            out[i] = value;
        return value == -1.0 && PyErr_Occurred() ? -1 : 0;
    }
    items = PySequence_Tuple(arg);
    if (!items) {
        PyErr_Format(PyExc_TypeError, "%s must be a number or a sequence, not %.100s",
                     what, Py_TYPE(arg)->tp_name);
        return -1;
    }
    n = PyTuple_GET_SIZE(items);
    if (n < 1 || n > CHANNELS_MAX || (channels > 0 && n != channels)) {
        PyErr_Format(PyExc_ValueError,
                     "%s must have %d numbers, one for each channel, "
                     "not %zd",
                     what, channels > 0 ? channels : CHANNELS_MAX, n);
        Py_DECREF(items);
        return -1;
    }
    for (Py_ssize_t i = 0; i < n; i++)
        out[i] = PyFloat_AsDouble(PyTuple_GET_ITEM(items, i));
    Py_DECREF(items);
    return PyErr_Occurred() ? -1 : 0;
}

/* What C checks too, with the argument's name. */
static int check_numbers(PyObject *const *values, const struct hr_image_options *o)
{
    for (int i = 0; i < CHANNELS_MAX; i++) {
        if (!isfinite(o->mean[i]) || !isfinite(o->std[i])) {
            PyErr_Format(PyExc_ValueError, "%s must be finite, not %R",
                         isfinite(o->mean[i]) ? "std" : "mean",
                         values[isfinite(o->mean[i]) ? 3 : 2]);
            return -1;
        }
        if (o->std[i] == 0) {
            PyErr_Format(PyExc_ValueError, "std must not be 0, but is %R", values[3]);
            return -1;
        }
    }
    if (o->dtype == HR_U8 &&
        ((values[2] && values[2] != Py_None) || (values[3] && values[3] != Py_None))) {
        PyErr_SetString(PyExc_ValueError,
                        "mean and std need a dtype of 'float16', 'bfloat16' or "
                        "'float32'");
        return -1;
    }
    return 0;
}

int hrpy_form_options(PyObject *const *values, enum hr_dtype plain, int channels,
                      struct hr_image_options *out)
{
    if (read_layout(values[0], &out->layout) ||
        read_dtype(values[1], plain, &out->dtype) ||
        read_numbers(values[2], "mean", channels, out->mean) ||
        read_numbers(values[3], "std", channels, out->std))
        return -1;
    return check_numbers(values, out);
}
