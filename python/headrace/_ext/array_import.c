/* array_import.c - bytes and arrays of Python objects.
 *
 * Memory is adopted, not copied, and the Python object stays alive through the value. A
 * value's release may run in a worker that is not attached, so whatever belongs to
 * Python is given up through hrpy_defer. A foreign buffer stays exported while its value
 * lives: a bytearray cannot be resized meanwhile, which is what makes it safe to read it
 * without the GIL.
 *
 * Strided arrays (a crop, a transposed tensor, a row of every second pixel) are the
 * exception: they are copied, attached, because everything behind here walks through
 * memory from its beginning to its end. */
#include "foreign.h"

#include "base/mem.h"

/* ---- memory ---- */

static void release_bytes(void *cookie)
{
    hrpy_decref(cookie);
}

static void drop_view(void *ptr)
{
    PyBuffer_Release(ptr);
    hr__free(ptr);
}

static void release_view(void *cookie)
{
    hrpy_defer(drop_view, cookie);
}

/* bytes need no export: they cannot change. */
static struct hr_buffer *wrap_bytes(struct hrpy_state *state, PyObject *bytes)
{
    struct hr_buffer *buffer = NULL;
    struct hr_error err = {0};

    if (hr_buffer_wrap(PyBytes_AS_STRING(bytes), (size_t)PyBytes_GET_SIZE(bytes),
                       HR_BUFFER_READONLY, release_bytes, bytes, &buffer,
                       &err) != HR_OK)
        return hrpy_raise(state, &err);
    Py_INCREF(bytes);
    return buffer;
}

/* The exporter's reason stays in the message: it need not be the strides. */
static void refuse_view(PyObject *obj)
{
    PyObject *type, *why, *traceback;

    PyErr_Fetch(&type, &why, &traceback);
    PyErr_Format(PyExc_TypeError,
                 "expected a C-contiguous buffer; this %.100s is not one (%S)",
                 Py_TYPE(obj)->tp_name, why ? why : type);
    Py_XDECREF(type);
    Py_XDECREF(why);
    Py_XDECREF(traceback);
}

/* Export obj into a view on the heap. flags: as PyObject_GetBuffer. */
static Py_buffer *view_new(PyObject *obj, int flags)
{
    Py_buffer *view = hr__calloc(1, sizeof(*view));

    if (!view) {
        PyErr_NoMemory();
        return NULL;
    }
    if (PyObject_GetBuffer(obj, view, flags) == 0)
        return view;
    hr__free(view);
    if (PyErr_ExceptionMatches(PyExc_BufferError) ||
        PyErr_ExceptionMatches(PyExc_ValueError))
        refuse_view(obj);
    return NULL;
}

/* Takes the view in any case. */
static struct hr_buffer *wrap_view(struct hrpy_state *state, Py_buffer *view)
{
    unsigned flags = view->readonly ? HR_BUFFER_READONLY : 0;
    struct hr_buffer *buffer = NULL;
    struct hr_error err = {0};

    if (hr_buffer_wrap(view->buf, (size_t)view->len, flags, release_view, view, &buffer,
                       &err) == HR_OK)
        return buffer;
    drop_view(view);
    return hrpy_raise(state, &err);
}

int hrpy_import_bytes(struct hrpy_state *state, PyObject *obj, struct hr_value *out)
{
    struct hr_buffer *buffer = NULL;

    if (PyBytes_CheckExact(obj)) {
        buffer = wrap_bytes(state, obj);
    } else {
        Py_buffer *view = view_new(obj, PyBUF_ND);

        if (view)
            buffer = wrap_view(state, view);
    }
    if (!buffer)
        return -1;
    *out = hr_value_of_bytes(&buffer);
    return 0;
}

/* ---- arrays ---- */

static int array_refused(PyObject *obj, const Py_buffer *view)
{
    if (view->ndim > HR_NDIM_MAX)
        PyErr_Format(PyExc_TypeError, "expected at most %d dimensions, found %d",
                     HR_NDIM_MAX, view->ndim);
    else
        PyErr_Format(PyExc_TypeError,
                     "expected elements of a plain number type, found %.100s of '%s'",
                     Py_TYPE(obj)->tp_name, view->format ? view->format : "?");
    return -1;
}

/* What an array is, read from its view. */
struct description {
    enum hr_dtype dtype;
    int ndim;
    int64_t shape[HR_NDIM_MAX];
};

static int describe(PyObject *obj, const Py_buffer *view, struct description *out)
{
    out->dtype = hrpy_dtype_of_format(view->format, view->itemsize);
    out->ndim = view->ndim;
    if (out->dtype == HR_DTYPE_COUNT || out->ndim > HR_NDIM_MAX)
        return array_refused(obj, view);
    for (int i = 0; i < out->ndim; i++)
        out->shape[i] = view->shape[i];
    return 0;
}

/* Takes the view in any case. */
static int adopt(struct hrpy_state *state, PyObject *obj, Py_buffer *view,
                 struct hr_value *out)
{
    struct hr_buffer *buffer = NULL;
    struct hr_array *array = NULL;
    struct hr_error err = {0};
    struct description d;

    if (describe(obj, view, &d)) {
        drop_view(view);
        return -1;
    }
    buffer = wrap_view(state, view);
    if (!buffer)
        return -1;
    if (hr_array_new(&buffer, 0, d.dtype, d.ndim, d.shape, &array, &err) != HR_OK) {
        hr_buffer_unref(&buffer);
        hrpy_raise(state, &err);
        return -1;
    }
    *out = hr_value_of_array(&array);
    return 0;
}

static int copy(struct hrpy_state *state, PyObject *obj, Py_buffer *view,
                struct hr_value *out)
{
    struct hr_array *array = NULL;
    struct hr_error err = {0};
    struct description d;

    if (describe(obj, view, &d))
        return -1;
    if (hr_array_alloc(d.dtype, d.ndim, d.shape, &array, &err) != HR_OK) {
        hrpy_raise(state, &err);
        return -1;
    }
    if (PyBuffer_ToContiguous(hr_array_data(array), view, view->len, 'C')) {
        hr_array_unref(&array);
        return -1;
    }
    *out = hr_value_of_array(&array);
    return 0;
}

/* An object with the buffer protocol whose memory is not contiguous, or that will not
 * show it in another way. */
static int import_strided(struct hrpy_state *state, PyObject *obj, struct hr_value *out)
{
    Py_buffer *view = view_new(obj, PyBUF_FULL_RO);
    int result;

    if (!view)
        return -1;
    result = copy(state, obj, view, out);
    drop_view(view);
    return result;
}

static int import_view(struct hrpy_state *state, PyObject *obj, bool may_copy,
                       struct hr_value *out)
{
    Py_buffer *view = view_new(obj, PyBUF_ND | PyBUF_FORMAT);

    if (view)
        return adopt(state, obj, view, out);
    if (!may_copy || !PyErr_ExceptionMatches(PyExc_TypeError))
        return -1;
    PyErr_Clear();
    return import_strided(state, obj, out);
}

/* An object without the buffer protocol that can show itself as a NumPy array, as
 * torch.Tensor does. */
static int import_by_numpy(struct hrpy_state *state, PyObject *obj, bool may_copy,
                           struct hr_value *out)
{
    PyObject *array = PyObject_CallMethod(obj, "numpy", NULL);
    int result;

    if (!array)
        return -1;
    if (PyObject_CheckBuffer(array)) {
        result = import_view(state, array, may_copy, out);
    } else {
        PyErr_Format(PyExc_TypeError, "%.100s.numpy() returned no array but %.100s",
                     Py_TYPE(obj)->tp_name, Py_TYPE(array)->tp_name);
        result = -1;
    }
    Py_DECREF(array);
    return result;
}

static int has_numpy(PyObject *obj)
{
    return !PyType_Check(obj) && PyObject_HasAttrString(obj, "numpy");
}

/* expected: for the message. may_copy: strided memory is copied, not refused. */
static int import_any(struct hrpy_state *state, PyObject *obj, const char *expected,
                      bool may_copy, struct hr_value *out)
{
    if (Py_IS_TYPE(obj, state->buffer_type)) {
        struct hr_array *array = hr_array_ref(hrpy_buffer_peek(obj));

        *out = hr_value_of_array(&array);
        return 0;
    }
    if (PyObject_CheckBuffer(obj))
        return import_view(state, obj, may_copy, out);
    if (has_numpy(obj))
        return import_by_numpy(state, obj, may_copy, out);
    if (!PyType_Check(obj) && PyObject_HasAttrString(obj, "__array_interface__"))
        return hrpy_import_interface(state, obj, out);
    PyErr_Format(PyExc_TypeError, "expected %s, found %.100s", expected,
                 Py_TYPE(obj)->tp_name);
    return -1;
}

int hrpy_import_array(struct hrpy_state *state, PyObject *obj, const char *expected,
                      struct hr_value *out)
{
    return import_any(state, obj, expected, true, out);
}

int hrpy_import_memory(struct hrpy_state *state, PyObject *obj, struct hr_value *out)
{
    return import_any(state, obj,
                      "an array (CPUBuffer or any object with the buffer protocol)",
                      false, out);
}
