/* image_args.c - the arguments that image functions and their ops have in common. */
#include "image_args.h"

#define EXTENT_MAX 65535

struct choice {
    const char *name; /* NULL: None */
    int value;
};

static const struct choice formats[] = {{"rgb24", HR_RGB24}};
static const struct choice modes[] = {
    {"pad", HR_SCALE_PAD},
    {"crop", HR_SCALE_CROP},
    {NULL, HR_SCALE_STRETCH},
};
static const struct choice algos[] = {
    {"box", HR_SCALE_BOX},
    {"bilinear", HR_SCALE_BILINEAR},
    {"bicubic", HR_SCALE_BICUBIC},
    {"lanczos", HR_SCALE_LANCZOS},
};

static int matches(PyObject *arg, const char *name)
{
    if (!name)
        return arg == Py_None;
    return PyUnicode_Check(arg) && PyUnicode_CompareWithASCIIString(arg, name) == 0;
}

/* `allowed` is the list of choices as the message says it. */
static int read_choice(PyObject *arg, const char *what, const char *allowed,
                       const struct choice *choices, size_t n, int *out)
{
    for (size_t i = 0; i < n; i++) {
        if (matches(arg, choices[i].name)) {
            *out = choices[i].value;
            return 0;
        }
    }
    PyErr_Format(PyExc_ValueError, "%s must be %s, not %R", what, allowed, arg);
    return -1;
}

#define CHOICE_COUNT(table) (sizeof(table) / sizeof((table)[0]))

static int read_format(PyObject *arg, enum hr_pix_fmt *out)
{
    int value = HR_RGB24;

    if (!arg)
        return 0;
    if (read_choice(arg, "pix_fmt", "'rgb24'", formats, CHOICE_COUNT(formats), &value))
        return -1;
    *out = (enum hr_pix_fmt)value;
    return 0;
}

int hrpy_image_mode(PyObject *arg, enum hr_scale_mode *out)
{
    int value = HR_SCALE_PAD;

    if (!arg)
        return 0;
    if (read_choice(arg, "scale_mode", "'pad', 'crop' or None", modes,
                    CHOICE_COUNT(modes), &value))
        return -1;
    *out = (enum hr_scale_mode)value;
    return 0;
}

int hrpy_image_algo(PyObject *arg, enum hr_scale_algo *out)
{
    int value = HR_SCALE_BICUBIC;

    if (!arg)
        return 0;
    if (read_choice(arg, "scale_algo", "'box', 'bilinear', 'bicubic' or 'lanczos'",
                    algos, CHOICE_COUNT(algos), &value))
        return -1;
    *out = (enum hr_scale_algo)value;
    return 0;
}

int hrpy_image_extent(PyObject *arg, const char *what, int required, int64_t *out)
{
    PyObject *number;
    int overflow = 0;

    *out = 0;
    if (!required && (!arg || arg == Py_None))
        return 0;
    number = PyBool_Check(arg) ? NULL : PyNumber_Index(arg);
    if (!number) {
        PyErr_Clear();
        PyErr_Format(PyExc_TypeError, "%s must be an int%s, not %.100s", what,
                     required ? "" : " or None", Py_TYPE(arg)->tp_name);
        return -1;
    }
    *out = PyLong_AsLongLongAndOverflow(number, &overflow);
    Py_DECREF(number);
    if (overflow == 0 && *out >= 1 && *out <= EXTENT_MAX)
        return 0;
    if (overflow < 0 || (overflow == 0 && *out < 1))
        PyErr_Format(PyExc_ValueError, "%s must be at least 1, not %R", what, arg);
    else
        PyErr_Format(PyExc_ValueError, "%s must be at most %d, not %R", what,
                     EXTENT_MAX, arg);
    *out = 0;
    return -1;
}

/* NULL keeps *out. */
static int read_flag(PyObject *arg, int *out)
{
    int value = arg ? PyObject_IsTrue(arg) : *out;

    if (value < 0)
        return -1;
    *out = value;
    return 0;
}

static int channels_of(enum hr_pix_fmt pix_fmt)
{
    return pix_fmt == HR_RGBA ? 4 : pix_fmt == HR_GRAY || pix_fmt == HR_GRAY16 ? 1 : 3;
}

int hrpy_image_options(PyObject *const *values, struct hrpy_slots *slots,
                       struct hr_image_options *out)
{
    PyObject *const *crop = values + 5;
    PyObject *const *form = crop + HRPY_CROP_ARG_COUNT;
    PyObject *const *road = form + HRPY_FORM_ARG_COUNT;

    hr_image_options_init(out);
    if (hrpy_image_extent(values[0], "width", 0, &out->width) ||
        hrpy_image_extent(values[1], "height", 0, &out->height) ||
        read_format(values[2], &out->pix_fmt) ||
        hrpy_image_mode(values[3], &out->mode) ||
        hrpy_image_algo(values[4], &out->algo) || hrpy_crop_options(crop, slots, out) ||
        hrpy_form_options(form, channels_of(out->pix_fmt), out) ||
        read_flag(road[0], &out->exact))
        return -1;
    return read_flag(road[1], &out->draft);
}

int hrpy_image_direct(struct hrpy_state *state, PyObject *const *values,
                      struct hr_image_options *options, struct hr_value *into)
{
    if (values[0]) {
        options->index = PyLong_AsLongLong(values[0]);
        if (PyErr_Occurred())
            return -1;
    }
    if (!values[1] || values[1] == Py_None)
        return 0;
    if (hrpy_import(state, values[1], HRPY_WANT_ARRAY, into))
        return -1;
    options->into = hr_value_peek_array(into);
    return 0;
}

int hrpy_image_no_direct(PyObject *const *values)
{
    int index = values[0] ? PyObject_IsTrue(values[0]) : 0;

    if (index < 0)
        return -1;
    if (index)
        PyErr_SetString(PyExc_ValueError,
                        "index is for direct calls; a pipeline knows each item's own");
    else if (values[1] && values[1] != Py_None)
        PyErr_SetString(PyExc_ValueError,
                        "out is for direct calls; a pipeline makes its own arrays");
    else
        return 0;
    return -1;
}
