/* Files: whole files read into pooled buffers. */
#ifndef HEADRACE_FILE_H
#define HEADRACE_FILE_H

#include "headrace/op.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Read a regular file. A directory, FIFO or device is refused, as is one larger than
 * bytes_max; a file that changes size while it is read is an error. The buffer's size
 * is the file's; at least 64 zero bytes follow it in memory.
 * Errors: HR_ERR_IO (code = errno), HR_ERR_FORMAT (not a regular file, changed),
 * HR_ERR_LIMIT, HR_ERR_NOMEM. Threads: any. Blocks: for the read. */
HR_API HR_MUST_USE enum hr_status hr_file_read(const char *path, uint64_t bytes_max,
                                               struct hr_buffer **out,
                                               struct hr_error *err);

/* As an op: a text value in, a bytes value out. bytes_max 0: 256 MiB. */
HR_API HR_MUST_USE enum hr_status hr_file_read_op(uint64_t bytes_max, struct hr_op *out,
                                                  struct hr_error *err);

#ifdef __cplusplus
}
#endif

#endif
