/* pool.h - what the core alone may ask of the buffer pool, and tests may change. */
#ifndef HR_BASE_POOL_H
#define HR_BASE_POOL_H

#include <stddef.h>

#include "headrace/buffer.h"

/* Bytes that the pool keeps for reuse at most. */
#define HR_POOL_CACHED_MAX ((size_t)1 << 30)

/* hr_buffer_new, and `room` bytes beside the data, aligned to 16, which live as long as
 * the buffer. */
HR_MUST_USE enum hr_status hr__buffer_new_beside(size_t size, size_t room,
                                                 struct hr_buffer **out, void **beside,
                                                 struct hr_error *err);

#ifdef HR_TESTING
void hr__pool_set_cached_max(size_t bytes);
#endif

#endif
