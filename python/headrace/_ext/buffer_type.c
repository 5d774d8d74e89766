/* buffer_type.c - headrace.io.CPUBuffer: an array of the core as a Python object.
 *
 * The object holds one reference to a struct hr_array, and whoever looks at the memory
 * holds either the object (buffer protocol, __array_interface__) or a reference of its
 * own to the array (DLPack). So objects, consumers and pipelines may go in any order.
 *
 * It takes no part in garbage collection, for it cannot be in a cycle: it refers to its
 * type, which is immutable, and to `failures`, a tuple of frozen SlotFailure made here,
 * which hold ints and strings. */
#include "ext.h"

#include <stddef.h>
#include <structmember.h>

struct hrpy_buffer {
    PyObject_HEAD
    /* const after creation */
    struct hr_array *array;
    PyObject *failures;  /* a tuple, or NULL: none */
    PyObject *truncated; /* the same */
    Py_ssize_t shape[HR_NDIM_MAX];
    Py_ssize_t strides[HR_NDIM_MAX]; /* in bytes */
    /* kept by the interpreter */
    PyObject *weakrefs;
};

static struct hrpy_buffer *buffer_of(PyObject *self)
{
    return (struct hrpy_buffer *)self;
}

static const struct hrpy_dtype *dtype_of(PyObject *self)
{
    return &hrpy_dtypes[hr_array_dtype(buffer_of(self)->array)];
}

static int is_readonly(PyObject *self)
{
    return hr_buffer_is_readonly(hr_array_peek_buffer(buffer_of(self)->array));
}

/* ---- making ---- */

static PyObject *failure_new(struct hrpy_state *state, const struct hr_slot_failure *f)
{
    PyObject *name = PyUnicode_DecodeFSDefault(f->name);
    PyObject *reason = name ? hrpy_error_text(&f->error) : NULL;
    PyObject *failure = NULL;

    if (reason)
        failure = PyObject_CallFunction(state->slot_failure, "nOO", (Py_ssize_t)f->slot,
                                        name, reason);
    Py_XDECREF(name);
    Py_XDECREF(reason);
    return failure;
}

/* Those of the slots that hold what there was (kept) or nothing; NULL without an
 * exception when there are none. */
static PyObject *failures_new(struct hrpy_state *state,
                              const struct hr_slot_failure *failures, size_t n,
                              int kept)
{
    PyObject *tuple = NULL;
    Py_ssize_t count = 0;

    for (size_t i = 0; i < n; i++)
        count += failures[i].kept == kept;
    if (count > 0)
        tuple = PyTuple_New(count);
    for (size_t i = n; tuple && i > 0; i--) {
        PyObject *failure;

        if (failures[i - 1].kept != kept)
            continue;
        failure = failure_new(state, &failures[i - 1]);
        if (!failure) {
            Py_CLEAR(tuple);
            break;
        }
        PyTuple_SET_ITEM(tuple, --count, failure);
    }
    return tuple;
}

static void set_layout(struct hrpy_buffer *buffer)
{
    const int64_t *shape = hr_array_shape(buffer->array);
    Py_ssize_t stride = (Py_ssize_t)hr_dtype_size(hr_array_dtype(buffer->array));

    for (int i = hr_array_ndim(buffer->array) - 1; i >= 0; i--) {
        buffer->shape[i] = (Py_ssize_t)shape[i];
        buffer->strides[i] = stride;
        stride *= (Py_ssize_t)shape[i];
    }
}

PyObject *hrpy_buffer_new(struct hrpy_state *state, struct hr_array **array,
                          const struct hr_slot_failure *failures, size_t n)
{
    PyObject *self = state->buffer_type->tp_alloc(state->buffer_type, 0);
    struct hrpy_buffer *buffer = self ? buffer_of(self) : NULL;

    if (buffer) {
        buffer->array = *array;
        *array = NULL;
        set_layout(buffer);
        if (n > 0) {
            buffer->failures = failures_new(state, failures, n, 0);
            buffer->truncated = failures_new(state, failures, n, 1);
            if (PyErr_Occurred())
                Py_CLEAR(self);
        }
    }
    hr_array_unref(array);
    return self;
}

static void buffer_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    struct hrpy_buffer *buffer = buffer_of(self);

    if (buffer->weakrefs)
        PyObject_ClearWeakRefs(self);
    Py_XDECREF(buffer->failures);
    Py_XDECREF(buffer->truncated);
    hr_array_unref(&buffer->array);
    type->tp_free(self);
    Py_DECREF(type);
}

struct hr_array *hrpy_buffer_peek(PyObject *buffer)
{
    return buffer_of(buffer)->array;
}

/* ---- the buffer protocol ---- */

static int buffer_getbuffer(PyObject *self, Py_buffer *view, int flags)
{
    struct hrpy_buffer *buffer = buffer_of(self);

    view->obj = NULL;
    if ((flags & PyBUF_WRITABLE) == PyBUF_WRITABLE && is_readonly(self)) {
        PyErr_SetString(PyExc_BufferError, "CPUBuffer is read-only");
        return -1;
    }
    view->buf = hr_array_data(buffer->array);
    view->len = (Py_ssize_t)hr_array_nbytes(buffer->array);
    view->readonly = is_readonly(self);
    view->itemsize = (Py_ssize_t)hr_dtype_size(hr_array_dtype(buffer->array));
    view->format = NULL;
    if (flags & PyBUF_FORMAT)
        view->format = (char *)(uintptr_t)dtype_of(self)->format;
    /* Who does not ask for a shape sees plain bytes: one dimension, as memoryview. */
    view->ndim = (flags & PyBUF_ND) ? hr_array_ndim(buffer->array) : 1;
    view->shape = (flags & PyBUF_ND) ? buffer->shape : NULL;
    view->strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES ? buffer->strides : NULL;
    view->suboffsets = NULL;
    view->internal = NULL;
    view->obj = Py_NewRef(self);
    return 0;
}

/* ---- attributes ---- */

static PyObject *get_shape(PyObject *self, void *closure)
{
    int ndim = hr_array_ndim(buffer_of(self)->array);
    PyObject *shape = PyTuple_New(ndim);

    (void)closure;
    for (int i = 0; shape && i < ndim; i++) {
        PyObject *extent = PyLong_FromSsize_t(buffer_of(self)->shape[i]);

        if (!extent) {
            Py_CLEAR(shape);
            break;
        }
        PyTuple_SET_ITEM(shape, i, extent);
    }
    return shape;
}

static PyObject *get_dtype(PyObject *self, void *closure)
{
    (void)closure;
    return PyUnicode_FromString(dtype_of(self)->name);
}

static PyObject *get_ndim(PyObject *self, void *closure)
{
    (void)closure;
    return PyLong_FromLong(hr_array_ndim(buffer_of(self)->array));
}

static PyObject *get_nbytes(PyObject *self, void *closure)
{
    (void)closure;
    return PyLong_FromSize_t(hr_array_nbytes(buffer_of(self)->array));
}

static PyObject *get_readonly(PyObject *self, void *closure)
{
    (void)closure;
    return PyBool_FromLong(is_readonly(self));
}

static PyObject *get_truncated(PyObject *self, void *closure)
{
    PyObject *truncated = buffer_of(self)->truncated;

    (void)closure;
    return truncated ? Py_NewRef(truncated) : PyTuple_New(0);
}

static PyObject *get_failures(PyObject *self, void *closure)
{
    PyObject *failures = buffer_of(self)->failures;

    (void)closure;
    return failures ? Py_NewRef(failures) : PyTuple_New(0);
}

static PyObject *get_array_interface(PyObject *self, void *closure)
{
    struct hr_array *array = buffer_of(self)->array;
    int size = (int)hr_dtype_size(hr_array_dtype(array));
    char order = size == 1 ? '|' : PY_LITTLE_ENDIAN ? '<' : '>';
    PyObject *shape = get_shape(self, NULL);
    char typestr[8];

    (void)closure;
    if (!shape)
        return NULL;
    PyOS_snprintf(typestr, sizeof(typestr), "%c%c%d", order, dtype_of(self)->kind,
                  size);
    return Py_BuildValue("{s:N,s:s,s:(NO),s:O,s:i}", "shape", shape, "typestr", typestr,
                         "data", PyLong_FromVoidPtr(hr_array_data(array)),
                         is_readonly(self) ? Py_True : Py_False, "strides", Py_None,
                         "version", 3);
}

/* ---- methods ---- */

static Py_ssize_t buffer_length(PyObject *self)
{
    if (hr_array_ndim(buffer_of(self)->array) == 0) {
        PyErr_SetString(PyExc_TypeError, "len() of a CPUBuffer without dimensions");
        return -1;
    }
    return buffer_of(self)->shape[0];
}

static PyObject *buffer_repr(PyObject *self)
{
    struct hrpy_buffer *buffer = buffer_of(self);
    const char *readonly = is_readonly(self) ? ", readonly=True" : "";
    PyObject *shape = get_shape(self, NULL);
    PyObject *repr = NULL;

    if (!shape)
        return NULL;
    if (buffer->failures)
        repr = PyUnicode_FromFormat(
            "CPUBuffer(shape=%R, dtype='%s'%s, failed slots: %zd)", shape,
            dtype_of(self)->name, readonly, PyTuple_GET_SIZE(buffer->failures));
    else
        repr = PyUnicode_FromFormat("CPUBuffer(shape=%R, dtype='%s'%s)", shape,
                                    dtype_of(self)->name, readonly);
    Py_DECREF(shape);
    return repr;
}

static PyObject *buffer_dlpack_device(PyObject *self, PyObject *ignored)
{
    (void)self;
    (void)ignored;
    return Py_BuildValue("(ii)", 1, 0); /* kDLCPU */
}

PyDoc_STRVAR(
    doc_type,
    "An array in pooled memory: C-contiguous, on the CPU, of fixed shape.\n\n"
    "Made by headrace's functions and pipelines. numpy.asarray(buffer),\n"
    "numpy.from_dlpack(buffer), torch.from_dlpack(buffer) and memoryview(buffer)\n"
    "share its memory and keep it alive, in whatever order things are deleted.");
PyDoc_STRVAR(
    doc_dlpack,
    "__dlpack__($self, *, stream=None, max_version=None, dl_device=None, "
    "copy=None)\n--\n\n"
    "A DLPack capsule that shares the memory and owns a reference to it.\n\n"
    "Versioned (1.0) when max_version is at least (1, 0), else legacy, which\n"
    "cannot say that memory is read-only: BufferError for a read-only buffer.\n"
    "copy=True gives the consumer memory of its own. BufferError also for a\n"
    "stream or a device other than the CPU.");
PyDoc_STRVAR(doc_dlpack_device, "__dlpack_device__($self, /)\n--\n\n"
                                "(1, 0): the CPU, as DLPack numbers devices.");

#if PY_VERSION_HEX < 0x030C0000
/* Later versions make it from the slot. */
static PyObject *buffer_buffer(PyObject *self, PyObject *flags)
{
    (void)flags;
    return PyMemoryView_FromObject(self);
}
#endif

static PyMethodDef buffer_methods[] = {
#if PY_VERSION_HEX < 0x030C0000
    {"__buffer__", buffer_buffer, METH_O,
     "__buffer__($self, flags, /)\n--\n\nA memoryview of the buffer."},
#endif
    {"__dlpack__", (PyCFunction)(void (*)(void))hrpy_dlpack_export,
     METH_FASTCALL | METH_KEYWORDS, doc_dlpack},
    {"__dlpack_device__", buffer_dlpack_device, METH_NOARGS, doc_dlpack_device},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef buffer_attributes[] = {
    {"shape", get_shape, NULL, "Extent of each dimension, a tuple of ints.", NULL},
    {"dtype", get_dtype, NULL, "Element type by NumPy's name, e.g. 'uint8'.", NULL},
    {"ndim", get_ndim, NULL, "Number of dimensions.", NULL},
    {"nbytes", get_nbytes, NULL, "Size in bytes.", NULL},
    {"readonly", get_readonly, NULL, "True when the memory must not be written.", NULL},
    {"truncated", get_truncated, NULL,
     "Slots whose picture is not whole, kept by allow_truncated: a tuple of "
     "SlotFailure.",
     NULL},
    {"failures", get_failures, NULL,
     "The slots of a batch that could not be loaded, as a tuple of SlotFailure.\n\n"
     "Empty except for batches loaded with strict=False. Failed slots are zero.",
     NULL},
    {"__array_interface__", get_array_interface, NULL,
     "NumPy's array interface, version 3.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMemberDef buffer_members[] = {
    {"__weaklistoffset__", T_PYSSIZET, offsetof(struct hrpy_buffer, weakrefs), READONLY,
     NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot buffer_slots[] = {
    {Py_tp_doc, (void *)(uintptr_t)doc_type},
    {Py_tp_dealloc, buffer_dealloc},
    {Py_tp_repr, buffer_repr},
    {Py_tp_methods, buffer_methods},
    {Py_tp_getset, buffer_attributes},
    {Py_tp_members, buffer_members},
    {Py_sq_length, buffer_length},
    {Py_bf_getbuffer, buffer_getbuffer},
    {0, NULL},
};

PyType_Spec hrpy_buffer_spec = {
    .name = "headrace.io.CPUBuffer",
    .basicsize = sizeof(struct hrpy_buffer),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION |
             Py_TPFLAGS_IMMUTABLETYPE,
    .slots = buffer_slots,
};
