/* image_args.c - the arguments that image functions and their ops have in common. */
#include "image_args.h"

#define EXTENT_MAX 65535
#define OWN_COUNT 11 /* of the arguments before those of crops */

static const struct hrpy_choice formats[] = {
    {"rgb24", HR_RGB24}, {"bgr24", HR_BGR24},   {"gray", HR_GRAY},
    {"rgba", HR_RGBA},   {"gray16", HR_GRAY16}, {"rgb48", HR_RGB48},
};
static const struct hrpy_choice modes[] = {
    {"pad", HR_SCALE_PAD},
    {"crop", HR_SCALE_CROP},
    {NULL, HR_SCALE_STRETCH},
};
static const struct hrpy_choice algos[] = {
    {"box", HR_SCALE_BOX},
    {"bilinear", HR_SCALE_BILINEAR},
    {"bicubic", HR_SCALE_BICUBIC},
    {"lanczos", HR_SCALE_LANCZOS},
};
static const struct hrpy_choice orientations[] = {
    {"apply", HR_ORIENTATION_APPLY},
    {"ignore", HR_ORIENTATION_IGNORE},
};
static const struct hrpy_choice profiles[] = {
    {NULL, HR_ICC_IGNORE},
    {"srgb", HR_ICC_SRGB},
};

static int matches(PyObject *arg, const char *name)
{
    if (!name)
        return arg == Py_None;
    return PyUnicode_Check(arg) && PyUnicode_CompareWithASCIIString(arg, name) == 0;
}

int hrpy_image_choice(PyObject *arg, const char *what, const char *allowed,
                      const struct hrpy_choice *choices, size_t n, int *out)
{
    if (!arg)
        return 0;
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
    int value = (int)*out;

    if (hrpy_image_choice(arg, "pix_fmt",
                          "'rgb24', 'bgr24', 'gray', 'rgba', 'gray16' or 'rgb48'",
                          formats, CHOICE_COUNT(formats), &value))
        return -1;
    *out = (enum hr_pix_fmt)value;
    return 0;
}

int hrpy_image_mode(PyObject *arg, enum hr_scale_mode *out)
{
    int value = (int)*out;

    if (hrpy_image_choice(arg, "scale_mode", "'pad', 'crop' or None", modes,
                          CHOICE_COUNT(modes), &value))
        return -1;
    *out = (enum hr_scale_mode)value;
    return 0;
}

int hrpy_image_algo(PyObject *arg, enum hr_scale_algo *out)
{
    int value = (int)*out;

    if (hrpy_image_choice(arg, "scale_algo",
                          "'box', 'bilinear', 'bicubic' or 'lanczos'", algos,
                          CHOICE_COUNT(algos), &value))
        return -1;
    *out = (enum hr_scale_algo)value;
    return 0;
}

int hrpy_image_orientation(PyObject *arg, enum hr_orientation *out)
{
    int value = (int)*out;

    if (hrpy_image_choice(arg, "orientation", "'apply' or 'ignore'", orientations,
                          CHOICE_COUNT(orientations), &value))
        return -1;
    *out = (enum hr_orientation)value;
    return 0;
}

static int read_icc(PyObject *arg, enum hr_icc *out)
{
    int value = (int)*out;

    if (hrpy_image_choice(arg, "icc", "'srgb' or None", profiles,
                          CHOICE_COUNT(profiles), &value))
        return -1;
    *out = (enum hr_icc)value;
    return 0;
}

/* An int, at most INT64_MAX and at least -INT64_MAX; those beyond become these. */
static int read_int(PyObject *arg, const char *what, const char *type, int64_t *out)
{
    PyObject *number = PyBool_Check(arg) ? NULL : PyNumber_Index(arg);
    int overflow = 0;

    if (!number) {
        PyErr_Clear();
        PyErr_Format(PyExc_TypeError, "%s must be %s, not %.100s", what, type,
                     Py_TYPE(arg)->tp_name);
        return -1;
    }
    *out = PyLong_AsLongLongAndOverflow(number, &overflow);
    Py_DECREF(number);
    if (overflow != 0)
        *out = overflow < 0 ? -INT64_MAX : INT64_MAX;
    return 0;
}

static int check_range(PyObject *arg, const char *what, int64_t value, int64_t least,
                       int64_t most)
{
    if (value < least)
        PyErr_Format(PyExc_ValueError, "%s must be at least %lld, not %R", what,
                     (long long)least, arg);
    else if (value > most)
        PyErr_Format(PyExc_ValueError, "%s must be at most %lld, not %R", what,
                     (long long)most, arg);
    else
        return 0;
    return -1;
}

int hrpy_image_number(PyObject *arg, const char *what, int64_t least, int64_t most,
                      int64_t *out)
{
    if (read_int(arg, what, "an int", out))
        return -1;
    return check_range(arg, what, *out, least, most);
}

int hrpy_image_extent(PyObject *arg, const char *what, int required, int64_t *out)
{
    *out = 0;
    if (!required && (!arg || arg == Py_None))
        return 0;
    if (read_int(arg, what, required ? "an int" : "an int or None", out) ||
        check_range(arg, what, *out, 1, EXTENT_MAX)) {
        *out = 0;
        return -1;
    }
    return 0;
}

/* None, or (red, green, blue). */
static int read_background(PyObject *arg, int64_t *out)
{
    int64_t rgb = 0;

    if (!arg || arg == Py_None)
        return 0;
    if (!PyTuple_Check(arg) || PyTuple_GET_SIZE(arg) != 3) {
        PyErr_Format(PyExc_TypeError,
                     "background must be a tuple (red, green, blue) or None, not %R",
                     arg);
        return -1;
    }
    for (Py_ssize_t i = 0; i < 3; i++) {
        int64_t level;

        if (hrpy_image_number(PyTuple_GET_ITEM(arg, i), "background", 0, 255, &level))
            return -1;
        rgb = rgb << 8 | level;
    }
    *out = rgb;
    return 0;
}

static int read_limit(PyObject *limits, const char *name, int64_t most, int64_t *out)
{
    PyObject *value = PyObject_GetAttrString(limits, name);
    char what[64];
    int failed;

    if (!value)
        return -1;
    PyOS_snprintf(what, sizeof(what), "limits.%s", name);
    failed = hrpy_image_number(value, what, 1, most, out);
    Py_DECREF(value);
    return failed;
}

int hrpy_image_limits(PyObject *arg, struct hr_image_options *out)
{
    int64_t pixels;
    int64_t side;
    int64_t decoded;
    int64_t encoded;
    int64_t expansion;
    int64_t scans;

    if (!arg || arg == Py_None)
        return 0;
    if (!PyObject_HasAttrString(arg, "decoded_bytes")) {
        PyErr_Format(PyExc_TypeError,
                     "limits must be an ImageLimits or None, not %.100s",
                     Py_TYPE(arg)->tp_name);
        return -1;
    }
    if (read_limit(arg, "pixels", INT64_MAX, &pixels) ||
        read_limit(arg, "side", INT32_MAX, &side) ||
        read_limit(arg, "decoded_bytes", INT64_MAX, &decoded) ||
        read_limit(arg, "encoded_bytes", INT64_MAX, &encoded) ||
        read_limit(arg, "expansion", INT64_MAX, &expansion) ||
        read_limit(arg, "scans", INT32_MAX, &scans) ||
        read_limit(arg, "frames", INT64_MAX, &out->frames_max))
        return -1;
    out->pixels_max = (uint64_t)pixels;
    out->side_max = (uint64_t)side;
    out->bytes_max = (uint64_t)decoded;
    out->encoded_max = (uint64_t)encoded;
    out->expansion_max = (uint64_t)expansion;
    out->scans_max = (int32_t)scans;
    return 0;
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

static enum hr_dtype samples_of(enum hr_pix_fmt pix_fmt)
{
    return pix_fmt == HR_GRAY16 || pix_fmt == HR_RGB48 ? HR_U16 : HR_U8;
}

int hrpy_image_options(PyObject *const *values, struct hrpy_slots *slots,
                       struct hr_image_options *out)
{
    PyObject *const *crop = values + OWN_COUNT;
    PyObject *const *form = crop + HRPY_CROP_ARG_COUNT;
    PyObject *const *road = form + HRPY_FORM_ARG_COUNT;

    hr_image_options_init(out);
    if (hrpy_image_extent(values[0], "width", 0, &out->width) ||
        hrpy_image_extent(values[1], "height", 0, &out->height) ||
        read_format(values[2], &out->pix_fmt) ||
        hrpy_image_mode(values[3], &out->mode) ||
        hrpy_image_algo(values[4], &out->algo) ||
        read_background(values[5], &out->background) ||
        hrpy_image_orientation(values[6], &out->orientation) ||
        (values[7] &&
         hrpy_image_number(values[7], "frame", 0, INT64_MAX, &out->frame)) ||
        read_icc(values[8], &out->icc) || read_flag(values[9], &out->allow_truncated) ||
        hrpy_image_limits(values[10], out) || hrpy_crop_options(crop, slots, out) ||
        hrpy_form_options(form, samples_of(out->pix_fmt), channels_of(out->pix_fmt),
                          out) ||
        read_flag(road[0], &out->exact))
        return -1;
    return read_flag(road[1], &out->draft);
}

/* Put the argument's name before the text of the TypeError that is set. */
static void name_argument(const char *name)
{
    PyObject *type, *value, *traceback;

    if (!PyErr_ExceptionMatches(PyExc_TypeError))
        return;
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_Format(PyExc_TypeError, "%s: %S", name, value);
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(traceback);
}

int hrpy_image_direct(struct hrpy_state *state, PyObject *const *values,
                      struct hr_image_options *options, struct hr_value *into)
{
    if (values[0] && hrpy_image_number(values[0], "index", -INT64_MAX / 2,
                                       INT64_MAX / 2, &options->index))
        return -1;
    if (!values[1] || values[1] == Py_None)
        return 0;
    if (hrpy_import_memory(state, values[1], into)) {
        name_argument("out");
        return -1;
    }
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
