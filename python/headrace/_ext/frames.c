/* frames.c - convert_frames: equal pictures copied into one array. */
#include "ext.h"

#include <stdbool.h>
#include <string.h>

static bool same_form(const struct hr_array *a, const struct hr_array *b)
{
    size_t extents = (size_t)hr_array_ndim(a) * sizeof(int64_t);

    return hr_array_dtype(a) == hr_array_dtype(b) &&
           hr_array_ndim(a) == hr_array_ndim(b) &&
           memcmp(hr_array_shape(a), hr_array_shape(b), extents) == 0;
}

/* "(480, 640, 3) uint8", a new str. */
static PyObject *form_text(const struct hr_array *array)
{
    int ndim = hr_array_ndim(array);
    PyObject *shape = PyTuple_New(ndim);
    PyObject *text = NULL;

    for (int i = 0; shape && i < ndim; i++) {
        PyObject *extent = PyLong_FromLongLong(hr_array_shape(array)[i]);

        if (!extent)
            Py_CLEAR(shape);
        else
            PyTuple_SET_ITEM(shape, i, extent);
    }
    if (shape)
        text = PyUnicode_FromFormat("%R %s", shape,
                                    hrpy_dtypes[hr_array_dtype(array)].name);
    Py_XDECREF(shape);
    return text;
}

static void raise_different(size_t i, const struct hr_array *found,
                            const struct hr_array *first)
{
    PyObject *found_text = form_text(found);
    PyObject *first_text = found_text ? form_text(first) : NULL;

    if (first_text)
        PyErr_Format(PyExc_ValueError, "frames[%zu] is %U, but frames[0] is %U", i,
                     found_text, first_text);
    Py_XDECREF(found_text);
    Py_XDECREF(first_text);
}

/* Import each item of a tuple into the list's slots; they must be alike. */
static int import_frames(struct hrpy_state *state, PyObject *items,
                         const struct hr_value *list)
{
    struct hr_value *values = hr_list_peek(list);

    for (size_t i = 0; i < hr_list_size(list); i++) {
        PyObject *item = PyTuple_GET_ITEM(items, (Py_ssize_t)i);

        if (hrpy_import(state, item, HRPY_WANT_ARRAY, &values[i])) {
            hrpy_name_item("frames[%zd]", (Py_ssize_t)i);
            return -1;
        }
        if (!same_form(hr_value_peek_array(&values[i]), hr_value_peek_array(values))) {
            raise_different(i, hr_value_peek_array(&values[i]),
                            hr_value_peek_array(values));
            return -1;
        }
    }
    if (hr_array_ndim(hr_value_peek_array(values)) < HR_NDIM_MAX)
        return 0;
    PyErr_Format(PyExc_ValueError,
                 "frames have %d dimensions; at most %d can be stacked", HR_NDIM_MAX,
                 HR_NDIM_MAX - 1);
    return -1;
}

static PyObject *stack(struct hrpy_state *state, const struct hr_value *list)
{
    PyThreadState *detached;
    struct hr_value *values = hr_list_peek(list);
    struct hr_array *first = hr_value_peek_array(values);
    int ndim = hr_array_ndim(first);
    size_t nbytes = hr_array_nbytes(first);
    size_t n = hr_list_size(list);
    int64_t shape[HR_NDIM_MAX];
    struct hr_array *out = NULL;
    struct hr_error err = {0};
    enum hr_status status;

    shape[0] = (int64_t)n;
    memcpy(shape + 1, hr_array_shape(first), (size_t)ndim * sizeof(shape[0]));
    detached = hrpy_detach();
    status = hr_array_alloc(hr_array_dtype(first), ndim + 1, shape, &out, &err);
    for (size_t i = 0; status == HR_OK && nbytes > 0 && i < n; i++)
        memcpy((char *)hr_array_data(out) + i * nbytes,
               hr_array_data(hr_value_peek_array(&values[i])), nbytes);
    hrpy_reattach(detached);
    return status == HR_OK ? hrpy_buffer_new(state, &out, NULL, 0)
                           : hrpy_raise(state, &err);
}

PyObject *hrpy_convert_frames(PyObject *module, PyObject *frames)
{
    struct hrpy_state *state = hrpy_state_of_module(module);
    struct hr_value list = HR_VALUE_EMPTY;
    PyObject *result = NULL;
    PyObject *items;

    hrpy_drain_decrefs();
    if (!PyList_Check(frames) && !PyTuple_Check(frames))
        return PyErr_Format(PyExc_TypeError,
                            "frames must be a list or tuple of arrays, not %.100s",
                            Py_TYPE(frames)->tp_name);
    items = PySequence_Tuple(frames);
    if (!items)
        return NULL;
    if (PyTuple_GET_SIZE(items) == 0)
        PyErr_SetString(PyExc_ValueError, "frames is empty");
    else if (hr_list_new((size_t)PyTuple_GET_SIZE(items), &list) != HR_OK)
        PyErr_NoMemory();
    else if (import_frames(state, items, &list) == 0)
        result = stack(state, &list);
    hr_value_release(&list);
    Py_DECREF(items);
    return result;
}
