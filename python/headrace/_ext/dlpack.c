/* dlpack.c - CPUBuffer.__dlpack__.
 *
 * What a consumer gets is one block: the DLPack struct, the array it keeps alive, and
 * shape and strides. Its deleter may run in any thread, attached or not, long after the
 * CPUBuffer is gone; so it touches no Python object, only the array's own count.
 *
 * A capsule that nobody consumed still has its first name when it is destroyed, and
 * then calls the deleter itself. */
#include "ext.h"

#include <string.h>

#include "base/mem.h"
#include "dlpack.h"

#define LEGACY "dltensor"
#define VERSIONED "dltensor_versioned"

struct export {
    union {
        struct dl_managed legacy;
        struct dl_managed_versioned versioned;
    } form;
    struct hr_array *array;
    int64_t shape[HR_NDIM_MAX];
    int64_t strides[HR_NDIM_MAX];
};

/* What the caller of __dlpack__ asked for. */
struct request {
    int versioned;
    int copy;
};

static void export_free(struct export *export)
{
    hr_array_unref(&export->array);
    hr__free(export);
}

static void delete_legacy(struct dl_managed *managed)
{
    export_free(managed->context);
}

static void delete_versioned(struct dl_managed_versioned *managed)
{
    export_free(managed->context);
}

static void destroy_legacy(PyObject *capsule)
{
    if (PyCapsule_IsValid(capsule, LEGACY))
        delete_legacy(PyCapsule_GetPointer(capsule, LEGACY));
}

static void destroy_versioned(PyObject *capsule)
{
    if (PyCapsule_IsValid(capsule, VERSIONED))
        delete_versioned(PyCapsule_GetPointer(capsule, VERSIONED));
}

static void fill_tensor(struct export *export, struct dl_tensor *tensor)
{
    enum hr_dtype dtype = hr_array_dtype(export->array);
    int64_t stride = 1;

    tensor->ndim = hr_array_ndim(export->array);
    for (int i = tensor->ndim - 1; i >= 0; i--) {
        export->shape[i] = hr_array_shape(export->array)[i];
        export->strides[i] = stride;
        stride *= export->shape[i];
    }
    tensor->data = hr_array_data(export->array);
    tensor->device = (struct dl_device){DL_CPU, 0};
    tensor->dtype = (struct dl_data_type){hrpy_dtypes[dtype].dlpack,
                                          (uint8_t)(8 * hr_dtype_size(dtype)), 1};
    tensor->shape = export->shape;
    tensor->strides = export->strides;
    tensor->byte_offset = 0;
}

static PyObject *capsule_legacy(struct export *export)
{
    struct dl_managed *managed = &export->form.legacy;

    fill_tensor(export, &managed->tensor);
    managed->context = export;
    managed->deleter = delete_legacy;
    return PyCapsule_New(managed, LEGACY, destroy_legacy);
}

static PyObject *capsule_versioned(struct export *export, uint64_t flags)
{
    struct dl_managed_versioned *managed = &export->form.versioned;

    managed->version.major = DL_MAJOR;
    managed->version.minor = DL_MINOR;
    managed->flags = flags;
    fill_tensor(export, &managed->tensor);
    managed->context = export;
    managed->deleter = delete_versioned;
    return PyCapsule_New(managed, VERSIONED, destroy_versioned);
}

/* ---- the request ---- */

static int two_ints(PyObject *obj, const char *what, long *first, long *second)
{
    if (!PyTuple_Check(obj) || PyTuple_GET_SIZE(obj) != 2) {
        PyErr_Format(PyExc_TypeError, "%s must be a tuple of two ints or None, not %R",
                     what, obj);
        return -1;
    }
    *first = PyLong_AsLong(PyTuple_GET_ITEM(obj, 0));
    if (*first == -1 && PyErr_Occurred())
        return -1;
    *second = PyLong_AsLong(PyTuple_GET_ITEM(obj, 1));
    return *second == -1 && PyErr_Occurred() ? -1 : 0;
}

static int is_given(PyObject *arg)
{
    return arg && arg != Py_None;
}

/* values: stream, max_version, dl_device, copy. */
static int read_request(PyObject *const *values, struct request *out)
{
    long first = 0;
    long second = 0;

    if (is_given(values[0])) {
        PyErr_Format(PyExc_BufferError,
                     "stream must be None for memory on the CPU, "
                     "not %R",
                     values[0]);
        return -1;
    }
    if (is_given(values[1])) {
        if (two_ints(values[1], "max_version", &first, &second))
            return -1;
        out->versioned = first >= DL_MAJOR;
    }
    if (is_given(values[2])) {
        if (two_ints(values[2], "dl_device", &first, &second))
            return -1;
        if (first != DL_CPU || second != 0) {
            PyErr_Format(PyExc_BufferError,
                         "CPUBuffer can be exported to the CPU (1, 0), not to %R",
                         values[2]);
            return -1;
        }
    }
    if (is_given(values[3])) {
        out->copy = PyObject_IsTrue(values[3]);
        if (out->copy < 0)
            return -1;
    }
    return 0;
}

/* ---- the export ---- */

static struct hr_array *array_copy(struct hrpy_state *state, const struct hr_array *src)
{
    PyThreadState *detached;
    struct hr_array *copy = NULL;
    struct hr_error err = {0};
    enum hr_status status;

    detached = hrpy_detach();
    status = hr_array_alloc(hr_array_dtype(src), hr_array_ndim(src),
                            hr_array_shape(src), &copy, &err);
    if (status == HR_OK)
        memcpy(hr_array_data(copy), hr_array_data(src), hr_array_nbytes(src));
    hrpy_reattach(detached);
    return status == HR_OK ? copy : hrpy_raise(state, &err);
}

static PyObject *export_new(struct hrpy_state *state, struct hr_array *src,
                            const struct request *request)
{
    uint64_t flags = request->copy ? DL_FLAG_IS_COPIED : 0;
    struct export *export = hr__calloc(1, sizeof(*export));
    PyObject *capsule;

    if (!export)
        return PyErr_NoMemory();
    export->array = request->copy ? array_copy(state, src) : hr_array_ref(src);
    if (!export->array) {
        export_free(export);
        return NULL;
    }
    if (hr_buffer_is_readonly(hr_array_peek_buffer(export->array)))
        flags |= DL_FLAG_READ_ONLY;
    capsule =
        request->versioned ? capsule_versioned(export, flags) : capsule_legacy(export);
    if (!capsule)
        export_free(export);
    return capsule;
}

PyObject *hrpy_dlpack_export(PyObject *self, PyObject *const *args, Py_ssize_t nargs,
                             PyObject *kwnames)
{
    static const char *const names[] = {"stream", "max_version", "dl_device", "copy"};
    static const struct hrpy_params params = {"__dlpack__", names, 4, 0, 0};
    struct hr_array *array = hrpy_buffer_peek(self);
    struct request request = {0, 0};
    PyObject *values[4];

    if (hrpy_parse(&params, args, nargs, kwnames, values) ||
        read_request(values, &request))
        return NULL;
    if (!request.versioned && !request.copy &&
        hr_buffer_is_readonly(hr_array_peek_buffer(array))) {
        PyErr_SetString(PyExc_BufferError,
                        "a read-only CPUBuffer needs max_version=(1, 0): older DLPack "
                        "cannot say read-only");
        return NULL;
    }
    return export_new(hrpy_state_of_type(Py_TYPE(self)), array, &request);
}
