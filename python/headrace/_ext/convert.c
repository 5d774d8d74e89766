/* convert.c - Python objects to the core's values and back.
 *
 * Paths are copied, they are short; bytes and arrays are adopted (array_import.c). */
#include "foreign.h"

#include <string.h>

/* ---- opaque objects ---- */

static void object_release(struct hr_value *value)
{
    hrpy_decref(value->ptr);
}

/* A second reference can only be taken by an attached thread: the engine shares values
 * of a host language nowhere else (records of an expand stage's outputs). */
static struct hr_value object_share(const struct hr_value *value)
{
    if (!hrpy_is_attached())
        return HR_VALUE_EMPTY;
    return hrpy_value_of_object(value->ptr);
}

const struct hr_value_class hrpy_object_class = {
    .name = "object",
    .release = object_release,
    .share = object_share,
};

struct hr_value hrpy_value_of_object(PyObject *obj)
{
    return (struct hr_value){&hrpy_object_class, Py_NewRef(obj)};
}

/* ---- paths ---- */

static int nul_refused(const char *what)
{
    PyErr_Format(PyExc_ValueError, "%s contains a NUL character", what);
    return -1;
}

PyObject *hrpy_encode_path(PyObject *text, const char *what)
{
    PyObject *bytes = PyUnicode_EncodeFSDefault(text);

    if (bytes && strlen(PyBytes_AS_STRING(bytes)) != (size_t)PyBytes_GET_SIZE(bytes)) {
        Py_CLEAR(bytes);
        nul_refused(what);
    }
    return bytes;
}

static int import_text(const char *bytes, Py_ssize_t size, struct hr_value *out)
{
    if (memchr(bytes, '\0', (size_t)size))
        return nul_refused("path");
    if (hr_text_new(bytes, (size_t)size, out) != HR_OK) {
        PyErr_NoMemory();
        return -1;
    }
    return 0;
}

static int import_str(PyObject *text, struct hr_value *out)
{
    PyObject *bytes;
    int result;

    if (PyUnicode_IS_COMPACT_ASCII(text))
        return import_text(PyUnicode_DATA(text), PyUnicode_GET_LENGTH(text), out);
    bytes = PyUnicode_EncodeFSDefault(text);
    if (!bytes)
        return -1;
    result = import_text(PyBytes_AS_STRING(bytes), PyBytes_GET_SIZE(bytes), out);
    Py_DECREF(bytes);
    return result;
}

static int import_pathlike(PyObject *obj, struct hr_value *out)
{
    PyObject *path = PyOS_FSPath(obj); /* a str or bytes */
    int result;

    if (!path)
        return -1;
    if (PyUnicode_Check(path))
        result = import_str(path, out);
    else
        result = import_text(PyBytes_AS_STRING(path), PyBytes_GET_SIZE(path), out);
    Py_DECREF(path);
    return result;
}

static int is_pathlike(PyObject *obj)
{
    PyObject *method = NULL;
    int found;

    /* Looked up on the type, as os.fspath does. */
    method = PyObject_GetAttrString((PyObject *)Py_TYPE(obj), "__fspath__");
    found = method != NULL;
    if (!found)
        PyErr_Clear();
    Py_XDECREF(method);
    return found;
}

/* ---- sources and lists of them ---- */

static int import_source(struct hrpy_state *state, PyObject *obj, struct hr_value *out)
{
    if (PyUnicode_Check(obj))
        return import_str(obj, out);
    if (PyBytes_Check(obj) || PyByteArray_Check(obj) || PyMemoryView_Check(obj))
        return hrpy_import_bytes(state, obj, out);
    if (!PyObject_CheckBuffer(obj) && is_pathlike(obj))
        return import_pathlike(obj, out);
    return hrpy_import_array(state, obj, "a path, encoded bytes or an array of them",
                             out);
}

/* Subclasses stay as they are: UnicodeEncodeError takes more than a text. */
void hrpy_name_item(const char *format, Py_ssize_t i)
{
    PyObject *type = PyErr_Occurred();
    PyObject *value;
    PyObject *traceback;
    PyObject *name;

    if (type != PyExc_TypeError && type != PyExc_ValueError)
        return;
    PyErr_Fetch(&type, &value, &traceback);
    name = PyUnicode_FromFormat(format, i);
    if (name)
        PyErr_Format(type, "%U: %S", name, value);
    Py_XDECREF(name);
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(traceback);
}

/* want: what each item has to be; `what` names them in messages. */
static int import_list(struct hrpy_state *state, PyObject *obj, enum hrpy_want want,
                       const char *what, struct hr_value *out)
{
    PyObject *items;
    int result = 0;

    if (!PyList_Check(obj) && !PyTuple_Check(obj)) {
        PyErr_Format(PyExc_TypeError, "expected a list or tuple of %s, found %.100s",
                     what, Py_TYPE(obj)->tp_name);
        return -1;
    }
    items = PySequence_Tuple(obj); /* __fspath__ may change the list meanwhile */
    if (!items)
        return -1;
    if (hr_list_new((size_t)PyTuple_GET_SIZE(items), out) != HR_OK) {
        PyErr_NoMemory();
        result = -1;
    }
    for (Py_ssize_t i = 0; result == 0 && i < PyTuple_GET_SIZE(items); i++) {
        result =
            hrpy_import(state, PyTuple_GET_ITEM(items, i), want, hr_list_peek(out) + i);
        if (result)
            hrpy_name_item("item %zd", i);
    }
    Py_DECREF(items);
    if (result)
        hr_value_release(out);
    return result;
}

int hrpy_import(struct hrpy_state *state, PyObject *obj, enum hrpy_want want,
                struct hr_value *out)
{
    *out = HR_VALUE_EMPTY;
    switch (want) {
    case HRPY_WANT_SOURCE:
        return import_source(state, obj, out);
    case HRPY_WANT_LIST:
        return import_list(state, obj, HRPY_WANT_SOURCE, "sources", out);
    case HRPY_WANT_ARRAYS:
        return import_list(state, obj, HRPY_WANT_ARRAY, "arrays", out);
    case HRPY_WANT_ARRAY:
        return hrpy_import_array(
            state, obj, "an array (CPUBuffer or any object with the buffer protocol)",
            out);
    case HRPY_WANT_OBJECT:
        break;
    }
    *out = hrpy_value_of_object(obj);
    return 0;
}

/* ---- values to objects ---- */

static PyObject *export_text(const struct hr_value *value)
{
    size_t size = 0;
    const char *text = hr_text_peek(value, &size);

    return PyUnicode_DecodeFSDefaultAndSize(text, (Py_ssize_t)size);
}

static PyObject *export_bytes(struct hrpy_state *state, const struct hr_value *value)
{
    struct hr_buffer *buffer = hr_buffer_ref(hr_value_peek_bytes(value));
    int64_t size = (int64_t)hr_buffer_size(buffer);
    struct hr_array *array = NULL;
    struct hr_error err = {0};

    if (hr_array_new(&buffer, 0, HR_U8, 1, &size, &array, &err) != HR_OK) {
        hr_buffer_unref(&buffer);
        return hrpy_raise(state, &err);
    }
    return hrpy_buffer_new(state, &array, NULL, 0);
}

static PyObject *export_array(struct hrpy_state *state, const struct hr_value *value)
{
    struct hr_array *array = hr_array_ref(hr_value_peek_array(value));

    return hrpy_buffer_new(state, &array, NULL, 0);
}

static PyObject *export_batch(struct hrpy_state *state, const struct hr_value *value)
{
    struct hr_array *array = hr_array_ref(hr_batch_peek_array(value));
    size_t n = 0;
    const struct hr_slot_failure *failures = hr_batch_peek_failures(value, &n);

    return hrpy_buffer_new(state, &array, failures, n);
}

static PyObject *export_list(struct hrpy_state *state, const struct hr_value *value)
{
    size_t n = hr_list_size(value);
    PyObject *list = PyList_New((Py_ssize_t)n);

    for (size_t i = 0; list && i < n; i++) {
        PyObject *item = hrpy_export(state, hr_list_peek(value) + i);

        if (!item) {
            Py_CLEAR(list);
            break;
        }
        PyList_SET_ITEM(list, (Py_ssize_t)i, item);
    }
    return list;
}

static PyObject *export_tuple(struct hrpy_state *state, const struct hr_value *value)
{
    size_t n = hr_keys_size(hr_record_peek_keys(value));
    PyObject *tuple = PyTuple_New((Py_ssize_t)n);

    for (size_t i = 0; tuple && i < n; i++) {
        PyObject *field = hrpy_export(state, hr_record_peek(value) + i);

        if (!field) {
            Py_CLEAR(tuple);
            break;
        }
        PyTuple_SET_ITEM(tuple, (Py_ssize_t)i, field);
    }
    return tuple;
}

static PyObject *export_dict(struct hrpy_state *state, const struct hr_value *value)
{
    const struct hr_keys *keys = hr_record_peek_keys(value);
    PyObject *dict = PyDict_New();

    for (size_t i = 0; dict && i < hr_keys_size(keys); i++) {
        PyObject *field = hrpy_export(state, hr_record_peek(value) + i);
        int failed = !field || PyDict_SetItemString(dict, hr_keys_name(keys, i), field);

        Py_XDECREF(field);
        if (failed)
            Py_CLEAR(dict);
    }
    return dict;
}

static PyObject *export_record(struct hrpy_state *state, const struct hr_value *value)
{
    const struct hr_keys *keys = hr_record_peek_keys(value);

    if (hr_keys_size(keys) > 0 && hr_keys_name(keys, 0))
        return export_dict(state, value);
    return export_tuple(state, value);
}

static PyObject *export_any(struct hrpy_state *state, const struct hr_value *value)
{
    if (!value->cls)
        Py_RETURN_NONE;
    if (value->cls == &hr_array_class)
        return export_array(state, value);
    if (value->cls == &hr_batch_class)
        return export_batch(state, value);
    if (value->cls == &hr_bytes_class)
        return export_bytes(state, value);
    if (value->cls == &hr_text_class)
        return export_text(value);
    if (value->cls == &hr_list_class)
        return export_list(state, value);
    if (value->cls == &hr_record_class)
        return export_record(state, value);
    if (value->cls == &hr_image_info_class)
        return hrpy_info_new(state, hr_image_info_peek(value));
    if (hrpy_misfit_peek(value))
        return Py_NewRef(hrpy_misfit_peek(value));
    PyErr_Format(PyExc_SystemError, "a value of kind '%s' has no Python form",
                 hr_value_kind(value));
    return NULL;
}

PyObject *hrpy_export(struct hrpy_state *state, struct hr_value *value)
{
    PyObject *obj;

    if (value->cls == &hrpy_object_class) { /* its reference moves; the usual case */
        obj = value->ptr;
        *value = HR_VALUE_EMPTY;
        return obj;
    }
    obj = export_any(state, value);
    hr_value_release(value);
    return obj;
}
