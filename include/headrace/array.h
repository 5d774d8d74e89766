/* Arrays: a typed, C-contiguous, n-dimensional view of a buffer. Immutable once made,
 * shared by reference count. */
#ifndef HEADRACE_ARRAY_H
#define HEADRACE_ARRAY_H

#include "headrace/buffer.h"

#ifdef __cplusplus
extern "C" {
#endif

#define HR_NDIM_MAX 8

enum hr_dtype {
    HR_U8 = 0,
    HR_I8,
    HR_U16,
    HR_I16,
    HR_U32,
    HR_I32,
    HR_U64,
    HR_I64,
    HR_F16,
    HR_F32,
    HR_F64,
    HR_BOOL,
    HR_BF16, /* the upper half of a float32 */
    HR_DTYPE_COUNT
};

/* Bytes per element; 0 for a value that is no dtype. */
HR_API size_t hr_dtype_size(enum hr_dtype dtype);
/* "uint8" and its like, for messages; "unknown" for a value that is no dtype. */
HR_API const char *hr_dtype_name(enum hr_dtype dtype);

struct hr_array;

/* View `buffer` from byte `offset` as shape[ndim] elements of dtype.
 * Ownership: takes *buffer on HR_OK and nulls it; otherwise it stays the caller's.
 * Threads: any.   Errors: HR_ERR_ARG (the view leaves the buffer), HR_ERR_NOMEM. */
HR_API HR_MUST_USE enum hr_status
hr_array_new(struct hr_buffer **buffer, size_t offset, enum hr_dtype dtype, int ndim,
             const int64_t *shape, struct hr_array **out, struct hr_error *err);

/* Allocate a buffer and view all of it. The content is unspecified.
 * Errors: HR_ERR_ARG (negative extent, overflow), HR_ERR_NOMEM. Threads: any. */
HR_API HR_MUST_USE enum hr_status hr_array_alloc(enum hr_dtype dtype, int ndim,
                                                 const int64_t *shape,
                                                 struct hr_array **out,
                                                 struct hr_error *err);

HR_API struct hr_array *hr_array_ref(struct hr_array *array);
HR_API void hr_array_unref(struct hr_array **array);

/* Threads: any, as long as the caller holds a reference. */
HR_API void *hr_array_data(const struct hr_array *array);
HR_API size_t hr_array_nbytes(const struct hr_array *array);
HR_API enum hr_dtype hr_array_dtype(const struct hr_array *array);
HR_API int hr_array_ndim(const struct hr_array *array);
HR_API const int64_t *hr_array_shape(const struct hr_array *array);
HR_API struct hr_buffer *hr_array_peek_buffer(const struct hr_array *array);

#ifdef __cplusplus
}
#endif

#endif
