/* The direct calls behind the sys table. */
#include "base/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "hr_test.h"

static void mapped_memory_is_zero_and_aligned(void)
{
    static const size_t sizes[] = {4096,    65536,         (2 << 20) - 4096,
                                   2 << 20, (2 << 20) + 1, 5 << 20};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        unsigned char *ptr = HR_SYS(map)(sizes[i]);
        HR_REQUIRE(ptr);
        size_t align = sizes[i] >= 2 << 20 ? 2 << 20 : 4096;
        HR_CHECK_EQ_INT((uintptr_t)ptr % align, 0);
        HR_CHECK_EQ_INT(ptr[0], 0);
        HR_CHECK_EQ_INT(ptr[sizes[i] - 1], 0);
        ptr[sizes[i] - 1] = 1;
        HR_SYS(unmap)(ptr, sizes[i]);
    }
    HR_CHECK(HR_SYS(map)(SIZE_MAX) == NULL);
    HR_CHECK(HR_SYS(map)(SIZE_MAX - (2 << 20)) == NULL);
}

static void *pending_mask(void *out)
{
    pthread_sigmask(SIG_SETMASK, NULL, out);
    return NULL;
}

static void threads_start_with_signals_blocked(void)
{
    sigset_t inside, before, after;
    pthread_t thread;
    pthread_sigmask(SIG_SETMASK, NULL, &before);
    HR_REQUIRE(HR_SYS(thread_start)(&thread, pending_mask, &inside) == 0);
    pthread_join(thread, NULL);
    pthread_sigmask(SIG_SETMASK, NULL, &after);
    static const int some[] = {SIGINT, SIGTERM, SIGUSR1, SIGCHLD, SIGALRM, SIGPIPE};
    for (size_t i = 0; i < sizeof(some) / sizeof(some[0]); i++) {
        HR_CHECK_EQ_INT(sigismember(&inside, some[i]), 1);
        HR_CHECK_EQ_INT(sigismember(&after, some[i]), sigismember(&before, some[i]));
    }
    /* Blocked, they would end the process past any handler. */
    static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS};
    for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++)
        HR_CHECK_EQ_INT(sigismember(&inside, faults[i]), 0);
}

static void files_are_read_at_a_place(void)
{
    char path[] = "/tmp/headrace-sys-XXXXXX";
    int made = mkstemp(path);
    HR_REQUIRE(made >= 0);
    HR_CHECK_EQ_INT(write(made, "headrace", 8), 8);
    close(made);

    int fd = HR_SYS(file_open)(path, O_RDONLY);
    HR_REQUIRE(fd >= 0);
    HR_CHECK_EQ_INT(fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    struct stat st;
    HR_CHECK_EQ_INT(HR_SYS(file_stat)(fd, &st), 0);
    HR_CHECK_EQ_INT(st.st_size, 8);
    char text[8] = "";
    HR_CHECK_EQ_INT(HR_SYS(file_read_at)(fd, text, 7, 4), 4);
    HR_CHECK_STR(text, "race");
    HR_CHECK_EQ_INT(HR_SYS(file_close)(fd), 0);
    unlink(path);
    HR_CHECK_EQ_INT(HR_SYS(file_open)(path, O_RDONLY), -1);
    HR_CHECK_EQ_INT(errno, ENOENT);
}

static void a_changed_word_is_not_waited_for(void)
{
    _Atomic uint32_t word = 3;
    HR_CHECK_EQ_INT(HR_SYS(futex_wait)(&word, 4, INT64_MAX), 0);
    HR_CHECK_EQ_INT(HR_SYS(futex_wait)(&word, 3, 1), ETIMEDOUT);
}

static void time_does_not_go_back(void)
{
    int64_t first = HR_SYS(now_ns)();
    HR_CHECK(first > 0);
    HR_CHECK(HR_SYS(now_ns)() >= first);
}

static const struct hr_test tests[] = {
    HR_TEST(mapped_memory_is_zero_and_aligned),
    HR_TEST(threads_start_with_signals_blocked),
    HR_TEST(files_are_read_at_a_place),
    HR_TEST(a_changed_word_is_not_waited_for),
    HR_TEST(time_does_not_go_back),
};

HR_TEST_MAIN(tests)
