/* array_interface.c - objects that show their memory by __array_interface__ alone, as
 * PIL.Image does: version 3 of NumPy's protocol, C-contiguous, in native byte order. */
#include "ext.h"

#include <string.h>

static int refused(const char *what)
{
    PyErr_Format(PyExc_TypeError, "__array_interface__ %s", what);
    return -1;
}

/* "|u1", "<f4" and their like; HR_DTYPE_COUNT for what is none of ours. */
static enum hr_dtype dtype_of(PyObject *typestr)
{
    const char *text = PyUnicode_Check(typestr) ? PyUnicode_AsUTF8(typestr) : NULL;
    const char native = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? '<' : '>';

    if (!text || strlen(text) != 3 || (text[0] != '|' && text[0] != native))
        return HR_DTYPE_COUNT;
    for (int i = 0; i < HR_DTYPE_COUNT; i++)
        if (hrpy_dtypes[i].kind == text[1] &&
            hr_dtype_size((enum hr_dtype)i) == (size_t)(text[2] - '0'))
            return (enum hr_dtype)i;
    return HR_DTYPE_COUNT;
}

static int read_shape(PyObject *tuple, int64_t *shape, int *ndim)
{
    if (!tuple || !PyTuple_Check(tuple) || PyTuple_GET_SIZE(tuple) > HR_NDIM_MAX)
        return refused("has no shape of at most 8 dimensions");
    *ndim = (int)PyTuple_GET_SIZE(tuple);
    for (int i = 0; i < *ndim; i++) {
        shape[i] = PyLong_AsLongLong(PyTuple_GET_ITEM(tuple, i));
        if (shape[i] < 0)
            return PyErr_Occurred() ? -1 : refused("has a negative extent");
    }
    return 0;
}

static void release_object(void *obj)
{
    hrpy_decref(obj);
}

/* Memory at an address, which obj keeps alive. */
static int wrap_address(PyObject *obj, PyObject *pair, size_t nbytes,
                        struct hr_buffer **out)
{
    void *address = PyLong_AsVoidPtr(PyTuple_GET_ITEM(pair, 0));
    int readonly = PyObject_IsTrue(PyTuple_GET_ITEM(pair, 1));

    if (PyErr_Occurred())
        return -1;
    if (hr_buffer_wrap(address, nbytes, readonly ? HR_BUFFER_READONLY : 0,
                       release_object, Py_NewRef(obj), out, NULL) == HR_OK)
        return 0;
    Py_DECREF(obj);
    PyErr_NoMemory();
    return -1;
}

static int wrap_data(struct hrpy_state *state, PyObject *obj, PyObject *data,
                     size_t nbytes, struct hr_buffer **out)
{
    struct hr_value bytes = HR_VALUE_EMPTY;

    if (data && PyTuple_Check(data) && PyTuple_GET_SIZE(data) == 2)
        return wrap_address(obj, data, nbytes, out);
    if (!data || !PyObject_CheckBuffer(data))
        return refused("has no data");
    if (hrpy_import_bytes(state, data, &bytes))
        return -1;
    *out = hr_buffer_ref(hr_value_peek_bytes(&bytes));
    hr_value_release(&bytes);
    return 0;
}

static int import_dict(struct hrpy_state *state, PyObject *obj, PyObject *dict,
                       struct hr_value *out)
{
    PyObject *typestr = PyDict_GetItemString(dict, "typestr");
    PyObject *strides = PyDict_GetItemString(dict, "strides");
    enum hr_dtype dtype = typestr ? dtype_of(typestr) : HR_DTYPE_COUNT;
    struct hr_buffer *buffer = NULL;
    struct hr_array *array = NULL;
    struct hr_error err = {0};
    int64_t shape[HR_NDIM_MAX];
    size_t nbytes;
    int ndim;

    if (dtype == HR_DTYPE_COUNT)
        return refused("has elements of no plain number type");
    if (strides && strides != Py_None)
        return refused("has strides; a C-contiguous array is expected");
    if (read_shape(PyDict_GetItemString(dict, "shape"), shape, &ndim))
        return -1;
    nbytes = hr_dtype_size(dtype);
    for (int i = 0; i < ndim; i++)
        if (__builtin_mul_overflow(nbytes, (size_t)shape[i], &nbytes))
            return refused("has a shape too large");
    if (wrap_data(state, obj, PyDict_GetItemString(dict, "data"), nbytes, &buffer))
        return -1;
    if (hr_array_new(&buffer, 0, dtype, ndim, shape, &array, &err) != HR_OK) {
        hr_buffer_unref(&buffer);
        hrpy_raise(state, &err);
        return -1;
    }
    *out = hr_value_of_array(&array);
    return 0;
}

int hrpy_import_interface(struct hrpy_state *state, PyObject *obj, struct hr_value *out)
{
    PyObject *dict = PyObject_GetAttrString(obj, "__array_interface__");
    int result;

    if (!dict)
        return -1;
    result =
        PyDict_Check(dict) ? import_dict(state, obj, dict, out) : refused("is no dict");
    Py_DECREF(dict);
    return result;
}
