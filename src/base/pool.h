/* pool.h - what tests may change about the buffer pool. */
#ifndef HR_BASE_POOL_H
#define HR_BASE_POOL_H

#include <stddef.h>

/* Bytes that the pool keeps for reuse at most. */
#define HR_POOL_CACHED_MAX ((size_t)1 << 30)

#ifdef HR_TESTING
void hr__pool_set_cached_max(size_t bytes);
#endif

#endif
