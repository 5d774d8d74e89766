/* sys.c - the direct calls behind HR_SYS, and in test builds the table of them. */
#define HR_BASE_SYS_C
#include "base/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/banned.h"

#define HUGE_PAGE ((size_t)2 << 20)
#define NS_PER_S 1000000000

void *hr__sys_alloc(size_t size)
{
    return malloc(size);
}

void *hr__sys_zalloc(size_t count, size_t size)
{
    return calloc(count, size);
}

void *hr__sys_resize(void *ptr, size_t size)
{
    return realloc(ptr, size);
}

void hr__sys_release(void *ptr)
{
    free(ptr);
}

static void *map_pages(size_t size)
{
    void *ptr =
        mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return ptr == MAP_FAILED ? NULL : ptr;
}

/* Map more than needed and give back what lies outside the aligned part. */
static void *map_huge(size_t size)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t used, all;
    if (__builtin_add_overflow(size, page - 1, &used))
        return NULL;
    used &= ~(page - 1);
    if (__builtin_add_overflow(used, HUGE_PAGE, &all))
        return NULL;
    char *ptr = map_pages(all);
    if (!ptr)
        return NULL;
    size_t before = -(uintptr_t)ptr & (HUGE_PAGE - 1);
    if (before)
        munmap(ptr, before);
    munmap(ptr + before + used, HUGE_PAGE - before);
    (void)madvise(ptr + before, used, MADV_HUGEPAGE); /* a wish; kernels may lack it */
    return ptr + before;
}

void *hr__sys_map(size_t size)
{
    return size >= HUGE_PAGE ? map_huge(size) : map_pages(size);
}

void hr__sys_unmap(void *ptr, size_t size)
{
    munmap(ptr, size);
}

int hr__sys_file_open(const char *path, int flags)
{
    return open(path, flags | O_CLOEXEC);
}

ssize_t hr__sys_file_read_at(int fd, void *buf, size_t count, off_t offset)
{
    return pread(fd, buf, count, offset);
}

int hr__sys_file_stat(int fd, struct stat *st)
{
    return fstat(fd, st);
}

int hr__sys_file_close(int fd)
{
    return close(fd);
}

int hr__sys_event_open(void)
{
    return eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
}

int hr__sys_file_create(const char *path)
{
    return open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
}

ssize_t hr__sys_file_write(int fd, const void *buf, size_t count)
{
    return write(fd, buf, count);
}

int hr__sys_thread_start(pthread_t *thread, void *(*fn)(void *), void *arg)
{
    /* A thread inherits its maker's mask, so it is blocked before there is a thread. */
    static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS};
    sigset_t mask, old;
    sigfillset(&mask);
    for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++)
        sigdelset(&mask, faults[i]); /* blocked, they end the process without a word */
    int code = pthread_sigmask(SIG_SETMASK, &mask, &old);
    if (code)
        return code;
    code = pthread_create(thread, NULL, fn, arg);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return code;
}

int64_t hr__sys_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * NS_PER_S + now.tv_nsec;
}

int hr__sys_futex_wait(_Atomic uint32_t *word, uint32_t expected, int64_t deadline_ns)
{
    struct timespec until;
    const struct timespec *limit = NULL;
    if (deadline_ns != INT64_MAX) {
        if (deadline_ns < 0)
            deadline_ns = 0; /* the kernel refuses negative times */
        until.tv_sec = (time_t)(deadline_ns / NS_PER_S);
        until.tv_nsec = (long)(deadline_ns % NS_PER_S);
        limit = &until;
    }
    /* The BITSET form alone takes an absolute CLOCK_MONOTONIC time. */
    long result =
        syscall(SYS_futex, (uint32_t *)word, FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG,
                expected, limit, NULL, FUTEX_BITSET_MATCH_ANY);
    if (result == 0 || errno == EAGAIN)
        return 0;
    return errno;
}

void hr__sys_futex_wake(_Atomic uint32_t *word, int count)
{
    syscall(SYS_futex, (uint32_t *)word, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, count, NULL,
            NULL, 0);
}

#ifdef HR_TESTING

#define HR_SYS_DIRECT                                                                  \
    {.alloc = hr__sys_alloc,                                                           \
     .zalloc = hr__sys_zalloc,                                                         \
     .resize = hr__sys_resize,                                                         \
     .release = hr__sys_release,                                                       \
     .map = hr__sys_map,                                                               \
     .unmap = hr__sys_unmap,                                                           \
     .file_open = hr__sys_file_open,                                                   \
     .file_read_at = hr__sys_file_read_at,                                             \
     .file_stat = hr__sys_file_stat,                                                   \
     .event_open = hr__sys_event_open,                                                 \
     .file_close = hr__sys_file_close,                                                 \
     .file_create = hr__sys_file_create,                                               \
     .file_write = hr__sys_file_write,                                                 \
     .thread_start = hr__sys_thread_start,                                             \
     .now_ns = hr__sys_now_ns,                                                         \
     .futex_wait = hr__sys_futex_wait,                                                 \
     .futex_wake = hr__sys_futex_wake}

struct hr_sys hr__sys = HR_SYS_DIRECT;
const struct hr_sys hr__sys_direct = HR_SYS_DIRECT;

#endif
