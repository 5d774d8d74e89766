/* Buffers: the one kind of memory that arrays live in.
 *
 * A buffer is a reference-counted block, aligned to HR_BUFFER_ALIGN bytes. Blocks of
 * our own come from a process-wide pool of size classes, so that steady work maps no
 * fresh page; foreign memory is adopted by hr_buffer_wrap.
 *
 * At least HR_BUFFER_TAIL bytes after the end of a pool buffer's data are memory of the
 * same block: vector code and bit readers may read them (they hold anything), and their
 * filler may write them. Wrapped memory promises nothing beyond its size. */
#ifndef HEADRACE_BUFFER_H
#define HEADRACE_BUFFER_H

#include "headrace/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define HR_BUFFER_ALIGN 256
#define HR_BUFFER_TAIL 64

struct hr_buffer;

typedef void (*hr_release_fn)(void *cookie);

/* Allocate size bytes (0 is allowed) from the pool. The content is unspecified.
 * Ownership: *out holds one reference.   Threads: any.   Errors: HR_ERR_NOMEM. */
HR_API HR_MUST_USE enum hr_status hr_buffer_new(size_t size, struct hr_buffer **out,
                                                struct hr_error *err);

enum hr_buffer_flags {
    HR_BUFFER_READONLY = 1 /* exported as read-only to everybody */
};

/* Adopt foreign memory. release(cookie) (NULL: nothing to do) runs once, in whichever
 * thread drops the last reference; it is not called when this function fails.
 * Errors: HR_ERR_NOMEM. Threads: any. */
HR_API HR_MUST_USE enum hr_status hr_buffer_wrap(void *data, size_t size,
                                                 unsigned flags, hr_release_fn release,
                                                 void *cookie, struct hr_buffer **out,
                                                 struct hr_error *err);

/* Add a reference and return the same buffer. Threads: any. */
HR_API struct hr_buffer *hr_buffer_ref(struct hr_buffer *buffer);

/* Drop a reference and null *buffer; NULL is accepted. Threads: any. */
HR_API void hr_buffer_unref(struct hr_buffer **buffer);

/* Threads: any, as long as the caller holds a reference. */
HR_API void *hr_buffer_data(const struct hr_buffer *buffer);
HR_API size_t hr_buffer_size(const struct hr_buffer *buffer);
HR_API int hr_buffer_is_readonly(const struct hr_buffer *buffer);

/* What the pool holds, for tests and reports. */
struct hr_pool_stats {
    uint64_t live_bytes;   /* blocks that somebody references; not wrapped memory */
    uint64_t cached_bytes; /* kept for reuse: at most 1 GiB */
    uint64_t live_count;   /* buffers referenced, wrapped ones included */
    uint64_t mapped_total; /* blocks ever obtained from the system */
};

/* Exact while no other thread makes or drops buffers, else a moment's sum.
 * Threads: any. */
HR_API void hr_pool_stats(struct hr_pool_stats *out);

/* Give every cached block back to the system. Threads: any. */
HR_API void hr_pool_trim(void);

#ifdef __cplusplus
}
#endif

#endif
