/* file.c - whole files into pooled buffers.
 *
 * A sample is read by a plain loop of pread: from the page cache that costs about 20 us
 * for 64 KB, and a worker that waits for a disk keeps none of the others from working.
 * O_NONBLOCK lets the open of a FIFO return at once, so that it can be refused; it does
 * nothing to regular files. The size is asked before and compared after: a file that is
 * written while it is read must not become half a sample. */
#include "headrace/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/sys.h"
#include "base/banned.h"

#define BYTES_MAX_DEFAULT ((uint64_t)256 << 20)

/* The system's words for errno; strerror_r is the one that threads may call. */
static enum hr_status io_error(struct hr_error *err, const char *what, const char *path,
                               int code)
{
    char text[96];

    if (strerror_r(code, text, sizeof(text)) != 0)
        snprintf(text, sizeof(text), "error %d", code);
    return hr_error_set(err, HR_ERR_IO, "file", code, "file: cannot %s '%s': %s", what,
                        path, text);
}

static const char *file_kind(mode_t mode)
{
    if (S_ISDIR(mode))
        return "is a directory";
    if (S_ISFIFO(mode))
        return "is a FIFO";
    if (S_ISSOCK(mode))
        return "is a socket";
    return "is a device";
}

/* Its size, if it is a regular file within the limit. */
static enum hr_status check(int fd, const char *path, uint64_t bytes_max, size_t *size,
                            struct hr_error *err)
{
    struct stat st;

    if (HR_SYS(file_stat)(fd, &st) != 0)
        return io_error(err, "stat", path, errno);
    if (!S_ISREG(st.st_mode))
        return hr_error_set(err, HR_ERR_FORMAT, "file", 0,
                            "file: '%s' %s, expected a regular file", path,
                            file_kind(st.st_mode));
    if ((uint64_t)st.st_size > bytes_max)
        return hr_error_set(err, HR_ERR_LIMIT, "file", 0,
                            "file: '%s' has %lld bytes, the limit is %llu", path,
                            (long long)st.st_size, (unsigned long long)bytes_max);
    *size = (size_t)st.st_size;
    return HR_OK;
}

/* pread until size bytes are there or the file ends. */
static enum hr_status read_all(int fd, const char *path, char *to, size_t size,
                               size_t *got, struct hr_error *err)
{
    *got = 0;
    while (*got < size) {
        ssize_t n = HR_SYS(file_read_at)(fd, to + *got, size - *got, (off_t)*got);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return io_error(err, "read", path, errno);
        if (n == 0)
            break;
        *got += (size_t)n;
    }
    return HR_OK;
}

static enum hr_status fill(int fd, const char *path, struct hr_buffer *buffer,
                           struct hr_error *err)
{
    char *data = hr_buffer_data(buffer);
    size_t size = hr_buffer_size(buffer);
    struct stat st;
    size_t got;
    enum hr_status status = read_all(fd, path, data, size, &got, err);

    if (status != HR_OK)
        return status;
    if (HR_SYS(file_stat)(fd, &st) != 0)
        return io_error(err, "stat", path, errno);
    /* Files of /proc and the like say 0 and have contents all the same. */
    char more;
    if (size == 0 && HR_SYS(file_read_at)(fd, &more, 1, 0) > 0 && st.st_size == 0)
        return hr_error_set(err, HR_ERR_FORMAT, "file", 0,
                            "file: '%s' tells no size, expected a file on a disk",
                            path);
    if (got != size && (uint64_t)st.st_size == size)
        return hr_error_set(err, HR_ERR_FORMAT, "file", 0,
                            "file: '%s' ends after %zu of %zu bytes, expected a file "
                            "on a disk that does not change meanwhile",
                            path, got, size);
    if ((uint64_t)st.st_size != size)
        return hr_error_set(
            err, HR_ERR_FORMAT, "file", 0,
            "file: '%s' changed from %zu to %lld bytes while it was read", path, size,
            (long long)st.st_size);
    memset(data + size, 0, HR_BUFFER_TAIL);
    return HR_OK;
}

enum hr_status hr_file_read(const char *path, uint64_t bytes_max,
                            struct hr_buffer **out, struct hr_error *err)
{
    struct hr_buffer *buffer = NULL;
    size_t size = 0;
    enum hr_status status;
    int fd;

    *out = NULL;
    do
        fd = HR_SYS(file_open)(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    while (fd < 0 && errno == EINTR);
    if (fd < 0)
        return io_error(err, "open", path, errno);
    status = check(fd, path, bytes_max, &size, err);
    if (status == HR_OK)
        status = hr_buffer_new(size, &buffer, err);
    if (status == HR_OK)
        status = fill(fd, path, buffer, err);
    if (status == HR_OK) {
        *out = buffer;
        buffer = NULL;
    }
    hr_buffer_unref(&buffer);
    HR_SYS(file_close)(fd);
    return status;
}

/* ---- as an op ---- */

struct read_state {
    uint64_t bytes_max;
};

static enum hr_status read_run(void *state, struct hr_ctx *ctx,
                               const struct hr_value *in, struct hr_value *out,
                               struct hr_error *err)
{
    const struct read_state *s = state;
    struct hr_buffer *buffer;
    enum hr_status status;
    const char *path;
    size_t length;

    *out = HR_VALUE_EMPTY;
    if (in->cls != &hr_text_class)
        return hr_error_set(err, HR_ERR_TYPE, "file", 0,
                            "read_file: expected a path, got %s", hr_value_kind(in));
    path = hr_text_peek(in, &length);
    if (strlen(path) != length)
        return hr_error_set(err, HR_ERR_ARG, "file", 0,
                            "file: a path holds a NUL byte after %zu bytes",
                            strlen(path));
    status = hr_ctx_check(ctx, err);
    if (status == HR_OK)
        status = hr_file_read(path, s->bytes_max, &buffer, err);
    if (status == HR_OK)
        *out = hr_value_of_bytes(&buffer);
    return status;
}

static const struct hr_op_class read_class = {"read_file", read_run, hr__free};

enum hr_status hr_file_read_op(uint64_t bytes_max, struct hr_op *out,
                               struct hr_error *err)
{
    struct read_state *s = hr__calloc(1, sizeof(*s));

    *out = (struct hr_op){NULL, NULL};
    if (s == NULL)
        return hr__nomem(err, "file", "an operation", sizeof(*s));
    s->bytes_max = bytes_max != 0 ? bytes_max : BYTES_MAX_DEFAULT;
    *out = (struct hr_op){&read_class, s};
    return HR_OK;
}
