#include "fault.h"

#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>

#include "base/sys.h"
#include "headrace/buffer.h"

/* const while armed */
static unsigned fault_kinds;
static enum fault_mode fault_mode;
static uint64_t fault_at;
/* atomic: counted by any thread */
static _Atomic uint64_t calls;
static _Atomic uint64_t failed;

static bool fails(enum fault_kind kind)
{
    if (!(fault_kinds & (unsigned)kind))
        return false;
    uint64_t n = atomic_fetch_add(&calls, 1) + 1;
    bool hit = fault_mode == FAULT_ONCE ? n == fault_at : n >= fault_at;
    if (hit)
        atomic_fetch_add(&failed, 1);
    return hit;
}

static void *fault_alloc(size_t size)
{
    return fails(FAULT_MEMORY) ? NULL : hr__sys_direct.alloc(size);
}

static void *fault_zalloc(size_t count, size_t size)
{
    return fails(FAULT_MEMORY) ? NULL : hr__sys_direct.zalloc(count, size);
}

static void *fault_resize(void *ptr, size_t size)
{
    return fails(FAULT_MEMORY) ? NULL : hr__sys_direct.resize(ptr, size);
}

static void *fault_map(size_t size)
{
    return fails(FAULT_MEMORY) ? NULL : hr__sys_direct.map(size);
}

static int file_failure(void)
{
    errno = EIO;
    return -1;
}

static int fault_open(const char *path, int flags)
{
    return fails(FAULT_FILE) ? file_failure() : hr__sys_direct.file_open(path, flags);
}

static ssize_t fault_read_at(int fd, void *buf, size_t count, off_t offset)
{
    return fails(FAULT_FILE) ? file_failure()
                             : hr__sys_direct.file_read_at(fd, buf, count, offset);
}

static int fault_stat(int fd, struct stat *st)
{
    return fails(FAULT_FILE) ? file_failure() : hr__sys_direct.file_stat(fd, st);
}

/* Linux closes the descriptor even when close reports an error. */
static int fault_close(int fd)
{
    bool fail = fails(FAULT_FILE);
    int result = hr__sys_direct.file_close(fd);
    return fail ? file_failure() : result;
}

static int fault_create(const char *path)
{
    return fails(FAULT_FILE) ? file_failure() : hr__sys_direct.file_create(path);
}

static ssize_t fault_write(int fd, const void *buf, size_t count)
{
    return fails(FAULT_FILE) ? file_failure()
                             : hr__sys_direct.file_write(fd, buf, count);
}

static int fault_thread_start(pthread_t *thread, void *(*fn)(void *), void *arg)
{
    return fails(FAULT_THREAD) ? EAGAIN : hr__sys_direct.thread_start(thread, fn, arg);
}

void fault_arm(unsigned kinds, enum fault_mode mode, uint64_t n)
{
    fault_kinds = kinds;
    fault_mode = mode;
    fault_at = n;
    atomic_store(&calls, 0);
    atomic_store(&failed, 0);
    hr__sys.alloc = fault_alloc;
    hr__sys.zalloc = fault_zalloc;
    hr__sys.resize = fault_resize;
    hr__sys.map = fault_map;
    hr__sys.file_open = fault_open;
    hr__sys.file_read_at = fault_read_at;
    hr__sys.file_stat = fault_stat;
    hr__sys.file_close = fault_close;
    hr__sys.file_create = fault_create;
    hr__sys.file_write = fault_write;
    hr__sys.thread_start = fault_thread_start;
}

uint64_t fault_disarm(void)
{
    hr__sys.alloc = hr__sys_direct.alloc;
    hr__sys.zalloc = hr__sys_direct.zalloc;
    hr__sys.resize = hr__sys_direct.resize;
    hr__sys.map = hr__sys_direct.map;
    hr__sys.file_open = hr__sys_direct.file_open;
    hr__sys.file_read_at = hr__sys_direct.file_read_at;
    hr__sys.file_stat = hr__sys_direct.file_stat;
    hr__sys.file_close = hr__sys_direct.file_close;
    hr__sys.file_create = hr__sys_direct.file_create;
    hr__sys.file_write = hr__sys_direct.file_write;
    hr__sys.thread_start = hr__sys_direct.thread_start;
    return atomic_load(&failed);
}

uint64_t fault_calls(void)
{
    return atomic_load(&calls);
}

static uint64_t live_buffers(void)
{
    struct hr_pool_stats stats;
    hr_pool_stats(&stats);
    return stats.live_count;
}

/* Print unless ok; the number of failures. */
static int expect(bool ok, const char *what, enum fault_mode mode, uint64_t n)
{
    if (!ok)
        printf("# fault %s call %" PRIu64 ": %s\n", mode == FAULT_ONCE ? "at" : "from",
               n, what);
    return !ok;
}

static bool may_return(enum hr_status status)
{
    return status == HR_OK || status == HR_ERR_NOMEM || status == HR_ERR_IO ||
           status == HR_ERR_THREAD;
}

static uint64_t loop(unsigned kinds, enum fault_mode mode, fault_fn fn, void *cookie,
                     int *failures)
{
    uint64_t live = live_buffers();
    for (uint64_t n = 1;; n++) {
        hr_pool_trim();
        fault_arm(kinds, mode, n);
        enum hr_status status = fn(cookie);
        uint64_t met = fault_disarm();
        if (met == 0) {
            *failures += expect(status == HR_OK, "untouched, but it failed", mode, n);
            return n - 1;
        }
        *failures += expect(may_return(status), "a status that does not fit", mode, n);
        *failures += expect(live_buffers() == live, "buffers were left", mode, n);
        hr_pool_trim();
        *failures += expect(fn(cookie) == HR_OK, "the next run failed", mode, n);
        *failures += expect(live_buffers() == live, "the next run left some", mode, n);
    }
}

uint64_t fault_loop(unsigned kinds, fault_fn fn, void *cookie, int *failures)
{
    return loop(kinds, FAULT_ONCE, fn, cookie, failures) +
           loop(kinds, FAULT_FROM, fn, cookie, failures);
}
