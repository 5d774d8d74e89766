/* array.c - shape and element type over a buffer; all size arithmetic is checked. */
#include "headrace/array.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "base/mem.h"
#include "base/pool.h"
#include "base/banned.h"

struct hr_array {
    /* const after creation */
    struct hr_buffer *buffer; /* owned reference */
    char *data;
    size_t nbytes;
    enum hr_dtype dtype;
    int ndim;
    int64_t shape[HR_NDIM_MAX];
    bool beside; /* this lies in the buffer's block */
    /* atomic: holders, as in buffer.c */
    _Atomic uint32_t refs;
};

size_t hr_dtype_size(enum hr_dtype dtype)
{
    static const unsigned char size[HR_DTYPE_COUNT] = {
        [HR_U8] = 1,  [HR_I8] = 1,   [HR_U16] = 2,  [HR_I16] = 2, [HR_U32] = 4,
        [HR_I32] = 4, [HR_U64] = 8,  [HR_I64] = 8,  [HR_F16] = 2, [HR_F32] = 4,
        [HR_F64] = 8, [HR_BOOL] = 1, [HR_BF16] = 2,
    };
    return (unsigned)dtype < HR_DTYPE_COUNT ? size[dtype] : 0;
}

const char *hr_dtype_name(enum hr_dtype dtype)
{
    static const char *const name[HR_DTYPE_COUNT] = {
        [HR_U8] = "uint8",      [HR_I8] = "int8",     [HR_U16] = "uint16",
        [HR_I16] = "int16",     [HR_U32] = "uint32",  [HR_I32] = "int32",
        [HR_U64] = "uint64",    [HR_I64] = "int64",   [HR_F16] = "float16",
        [HR_F32] = "float32",   [HR_F64] = "float64", [HR_BOOL] = "bool",
        [HR_BF16] = "bfloat16",
    };
    return (unsigned)dtype < HR_DTYPE_COUNT ? name[dtype] : "unknown";
}

/* Bytes of an array of that shape. */
static enum hr_status shape_bytes(enum hr_dtype dtype, int ndim, const int64_t *shape,
                                  size_t *out, struct hr_error *err)
{
    size_t bytes = hr_dtype_size(dtype);
    bool empty = false;
    *out = 0;
    if (bytes == 0)
        return hr_error_set(err, HR_ERR_ARG, "array", 0, "array: dtype %d is not known",
                            (int)dtype);
    if (ndim < 0 || ndim > HR_NDIM_MAX)
        return hr_error_set(err, HR_ERR_ARG, "array", 0,
                            "array: ndim must be 0 to %d, not %d", HR_NDIM_MAX, ndim);
    for (int i = 0; i < ndim; i++) {
        if (shape[i] < 0)
            return hr_error_set(err, HR_ERR_ARG, "array", 0,
                                "array: shape[%d] must not be negative, but is %lld", i,
                                (long long)shape[i]);
        if (shape[i] == 0)
            empty = true;
        else if (!hr__mul(bytes, (uint64_t)shape[i], &bytes) || bytes > PTRDIFF_MAX)
            return hr_error_set(err, HR_ERR_ARG, "array", 0,
                                "array: a size beyond what memory can address, "
                                "at shape[%d] = %lld",
                                i, (long long)shape[i]);
    }
    *out = empty ? 0 : bytes;
    return HR_OK;
}

static void init(struct hr_array *array, struct hr_buffer *buffer, size_t offset,
                 size_t nbytes, enum hr_dtype dtype, int ndim, const int64_t *shape)
{
    char *base = hr_buffer_data(buffer);

    *array = (struct hr_array){
        .buffer = buffer,
        .data = base ? base + offset : NULL,
        .nbytes = nbytes,
        .dtype = dtype,
        .ndim = ndim,
    };
    if (ndim > 0)
        memcpy(array->shape, shape, (size_t)ndim * sizeof(*shape));
    atomic_init(&array->refs, 1);
}

enum hr_status hr_array_new(struct hr_buffer **buffer, size_t offset,
                            enum hr_dtype dtype, int ndim, const int64_t *shape,
                            struct hr_array **out, struct hr_error *err)
{
    *out = NULL;
    size_t nbytes, end;
    enum hr_status status = shape_bytes(dtype, ndim, shape, &nbytes, err);
    if (status != HR_OK)
        return status;
    size_t size = hr_buffer_size(*buffer);
    if (!hr__add(offset, nbytes, &end) || end > size)
        return hr_error_set(err, HR_ERR_ARG, "array", 0,
                            "array: %zu bytes from offset %zu leave the buffer of %zu",
                            nbytes, offset, size);
    struct hr_array *array = hr__malloc(sizeof(*array));
    if (!array)
        return hr__nomem(err, "array", "an array's header", sizeof(*array));
    init(array, *buffer, offset, nbytes, dtype, ndim, shape);
    *buffer = NULL;
    *out = array;
    return HR_OK;
}

enum hr_status hr_array_alloc(enum hr_dtype dtype, int ndim, const int64_t *shape,
                              struct hr_array **out, struct hr_error *err)
{
    *out = NULL;
    size_t nbytes;
    enum hr_status status = shape_bytes(dtype, ndim, shape, &nbytes, err);
    if (status != HR_OK)
        return status;
    struct hr_buffer *buffer;
    void *beside;
    status = hr__buffer_new_beside(nbytes, sizeof(**out), &buffer, &beside, err);
    if (status != HR_OK)
        return status;
    *out = beside;
    init(*out, buffer, 0, nbytes, dtype, ndim, shape);
    (*out)->beside = true;
    return HR_OK;
}

struct hr_array *hr_array_ref(struct hr_array *array)
{
    /* relaxed: the caller holds a reference already. */
    uint32_t old = atomic_fetch_add_explicit(&array->refs, 1, memory_order_relaxed);
    assert(old > 0);
    (void)old;
    return array;
}

void hr_array_unref(struct hr_array **array)
{
    struct hr_array *old = *array;
    if (!old)
        return;
    *array = NULL;
    /* acq_rel: pairs with itself in the other holders. */
    if (atomic_fetch_sub_explicit(&old->refs, 1, memory_order_acq_rel) != 1)
        return;
    struct hr_buffer *buffer = old->buffer;
    if (!old->beside)
        hr__free(old);
    hr_buffer_unref(&buffer);
}

void *hr_array_data(const struct hr_array *array)
{
    return array->data;
}

size_t hr_array_nbytes(const struct hr_array *array)
{
    return array->nbytes;
}

enum hr_dtype hr_array_dtype(const struct hr_array *array)
{
    return array->dtype;
}

int hr_array_ndim(const struct hr_array *array)
{
    return array->ndim;
}

const int64_t *hr_array_shape(const struct hr_array *array)
{
    return array->shape;
}

struct hr_buffer *hr_array_peek_buffer(const struct hr_array *array)
{
    return array->buffer;
}
