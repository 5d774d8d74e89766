/* sys.h - the one table through which the library reaches the system.
 *
 * Memory, files, threads, parking and the clock go through HR_SYS(name)(...). The
 * product build compiles each to the direct call below. A build with HR_TESTING reads
 * a table that tests replace: to fail the N-th call, to fail from the N-th on, or to
 * run on virtual time. Nothing else in src/ may call the functions wrapped here
 * (banned.h poisons malloc and friends). */
#ifndef HR_BASE_SYS_H
#define HR_BASE_SYS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

/* Direct implementations, in sys.c. */
void *hr__sys_alloc(size_t size);
void *hr__sys_zalloc(size_t count, size_t size);
void *hr__sys_resize(void *ptr, size_t size);
void hr__sys_release(void *ptr);
/* Anonymous zero memory, aligned to pages; from 2 MiB on to 2 MiB, and then huge pages
 * are asked for. NULL on failure. */
void *hr__sys_map(size_t size);
void hr__sys_unmap(void *ptr, size_t size);
/* As open, pread, fstat, close. O_CLOEXEC is added. EINTR is the caller's to handle. */
int hr__sys_file_open(const char *path, int flags);
ssize_t hr__sys_file_read_at(int fd, void *buf, size_t count, off_t offset);
int hr__sys_file_stat(int fd, struct stat *st);
int hr__sys_file_close(int fd);
/* A counter to be written and read, which never block: eventfd. -1 and errno. */
int hr__sys_event_open(void);
/* A new or emptied file to write to; as write. */
int hr__sys_file_create(const char *path);
ssize_t hr__sys_file_write(int fd, const void *buf, size_t count);
/* 0 or an errno. In the new thread all signals are blocked but those of its own faults. */
int hr__sys_thread_start(pthread_t *thread, void *(*fn)(void *), void *arg);
/* CLOCK_MONOTONIC in nanoseconds. */
int64_t hr__sys_now_ns(void);
/* Sleep while *word == expected, until woken or deadline_ns (INT64_MAX: none).
 * 0 woken or changed (spurious returns are allowed), ETIMEDOUT, EINTR. */
int hr__sys_futex_wait(_Atomic uint32_t *word, uint32_t expected, int64_t deadline_ns);
void hr__sys_futex_wake(_Atomic uint32_t *word, int count);

struct hr_sys {
    void *(*alloc)(size_t size);
    void *(*zalloc)(size_t count, size_t size);
    void *(*resize)(void *ptr, size_t size);
    void (*release)(void *ptr);
    void *(*map)(size_t size);
    void (*unmap)(void *ptr, size_t size);
    int (*file_open)(const char *path, int flags);
    ssize_t (*file_read_at)(int fd, void *buf, size_t count, off_t offset);
    int (*file_stat)(int fd, struct stat *st);
    int (*file_close)(int fd);
    int (*event_open)(void);
    int (*file_create)(const char *path);
    ssize_t (*file_write)(int fd, const void *buf, size_t count);
    int (*thread_start)(pthread_t *thread, void *(*fn)(void *), void *arg);
    int64_t (*now_ns)(void);
    int (*futex_wait)(_Atomic uint32_t *word, uint32_t expected, int64_t deadline_ns);
    void (*futex_wake)(_Atomic uint32_t *word, int count);
};

#ifdef HR_TESTING
extern struct hr_sys hr__sys;              /* starts as the direct calls */
extern const struct hr_sys hr__sys_direct; /* to restore it from */
#define HR_SYS(name) (hr__sys.name)
#else
#define HR_SYS(name) hr__sys_##name
#endif

#endif
