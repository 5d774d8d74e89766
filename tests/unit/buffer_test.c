/* Buffers and their pool. */
#include "headrace/buffer.h"

#include <sys/wait.h>
#include <unistd.h>

#include "base/pool.h"
#include "base/sys.h"
#include "fault.h"
#include "hr_test.h"

static struct hr_pool_stats stats(void)
{
    struct hr_pool_stats out;
    hr_pool_stats(&out);
    return out;
}

static struct hr_buffer *buffer_of(size_t size)
{
    struct hr_buffer *buffer = NULL;
    HR_CHECK_EQ_INT(hr_buffer_new(size, &buffer, NULL), HR_OK);
    return buffer;
}

static void blocks_are_aligned_and_have_a_tail(void)
{
    for (size_t size = 0; size < 10 << 20; size = size * 5 / 4 + 37) {
        struct hr_buffer *buffer = buffer_of(size);
        HR_REQUIRE(buffer);
        HR_CHECK_EQ_INT((uintptr_t)hr_buffer_data(buffer) % HR_BUFFER_ALIGN, 0);
        HR_CHECK_EQ_INT(hr_buffer_size(buffer), size);
        HR_CHECK_EQ_INT(hr_buffer_is_readonly(buffer), 0);
        memset(hr_buffer_data(buffer), 0xA5, size + HR_BUFFER_TAIL);
        hr_buffer_unref(&buffer);
        HR_CHECK(buffer == NULL);
    }
}

/* A class is less than a quarter larger than its request with header (64), the way to
 * the next multiple of 256 (240 at most), and tail (64); the smallest step is 256. */
static void blocks_waste_less_than_a_quarter(void)
{
    for (size_t size = 1; size < (size_t)1 << 26; size = size * 9 / 8 + 1) {
        uint64_t before = stats().live_bytes;
        struct hr_buffer *buffer = buffer_of(size);
        uint64_t block = stats().live_bytes - before;
        uint64_t need = size + 64 + 240 + 64;
        HR_CHECK(block >= need);
        HR_CHECK(block < need + need / 4 + 256);
        hr_buffer_unref(&buffer);
    }
}

static void neighbours_do_not_overlap(void)
{
    enum { N = 64 };
    struct hr_buffer *buffer[N];
    for (int i = 0; i < N; i++) {
        buffer[i] = buffer_of(1000 + 700 * (size_t)(i % 8));
        HR_REQUIRE(buffer[i]);
        memset(hr_buffer_data(buffer[i]), i,
               hr_buffer_size(buffer[i]) + HR_BUFFER_TAIL);
    }
    for (int i = 0; i < N; i++) {
        const unsigned char *data = hr_buffer_data(buffer[i]);
        size_t wrong = 0;
        for (size_t k = 0; k < hr_buffer_size(buffer[i]) + HR_BUFFER_TAIL; k++)
            wrong += data[k] != i;
        HR_CHECK_EQ_INT(wrong, 0);
        hr_buffer_unref(&buffer[i]);
    }
}

static void steady_work_maps_nothing(void)
{
    static const size_t sizes[] = {0, 100, 5000, 63000, 150528, 4816896};
    enum { N = sizeof(sizes) / sizeof(sizes[0]) };
    uint64_t warm = 0;
    for (int round = 0; round < 50; round++) {
        struct hr_buffer *buffer[N];
        struct hr_buffer *wrapped = NULL;
        for (int i = 0; i < N; i++)
            buffer[i] = buffer_of(sizes[i]);
        HR_CHECK_EQ_INT(hr_buffer_wrap(&warm, 8, 0, NULL, NULL, &wrapped, NULL), HR_OK);
        hr_buffer_unref(&wrapped);
        for (int i = 0; i < N; i++)
            hr_buffer_unref(&buffer[i]);
        if (round == 0)
            warm = stats().mapped_total;
    }
    HR_CHECK_EQ_INT(stats().mapped_total, warm);
}

static void steady_work_asks_the_system_for_nothing(void)
{
    struct hr_buffer *buffer = buffer_of(150528);
    hr_buffer_unref(&buffer);
    fault_arm(FAULT_ANY, FAULT_FROM, 1);
    for (int i = 0; i < 100; i++) {
        buffer = buffer_of(150528);
        hr_buffer_unref(&buffer);
    }
    HR_CHECK_EQ_INT(fault_calls(), 0);
    HR_CHECK_EQ_INT(fault_disarm(), 0);
}

static void counters_tell_live_from_cached(void)
{
    hr_pool_trim();
    struct hr_pool_stats zero = stats();
    HR_CHECK_EQ_INT(zero.cached_bytes, 0);
    struct hr_buffer *a = buffer_of(100000), *b = buffer_of(100000);
    struct hr_pool_stats two = stats();
    HR_CHECK_EQ_INT(two.live_count, zero.live_count + 2);
    HR_CHECK_EQ_INT(two.mapped_total, zero.mapped_total + 2);
    /* 100,368 bytes with head and tail; classes near it are 96, 112 Ki: 98,304, 114,688
     */
    HR_CHECK_EQ_INT(two.live_bytes - zero.live_bytes, 2 * 114688);
    hr_buffer_unref(&a);
    struct hr_pool_stats one = stats();
    HR_CHECK_EQ_INT(one.live_bytes - zero.live_bytes, 114688);
    HR_CHECK_EQ_INT(one.cached_bytes, 114688);
    hr_buffer_unref(&b);
    HR_CHECK_EQ_INT(stats().cached_bytes, 2 * 114688);
    hr_pool_trim();
    HR_CHECK_EQ_INT(stats().cached_bytes, 0);
    HR_CHECK_EQ_INT(stats().live_count, zero.live_count);
}

static void references_are_counted(void)
{
    struct hr_buffer *buffer = buffer_of(10);
    uint64_t live = stats().live_count;
    struct hr_buffer *second = hr_buffer_ref(buffer);
    HR_CHECK(second == buffer);
    hr_buffer_unref(&buffer);
    HR_CHECK(buffer == NULL);
    HR_CHECK_EQ_INT(stats().live_count, live);
    hr_buffer_unref(&second);
    HR_CHECK_EQ_INT(stats().live_count, live - 1);
    hr_buffer_unref(&second);
}

static void count_release(void *cookie)
{
    ++*(int *)cookie;
}

static void wrapped_memory_is_released_once_at_the_end(void)
{
    int released = 0;
    char data[5];
    struct hr_buffer *buffer, *second;
    HR_REQUIRE(hr_buffer_wrap(data, 5, HR_BUFFER_READONLY, count_release, &released,
                              &buffer, NULL) == HR_OK);
    HR_CHECK(hr_buffer_data(buffer) == data);
    HR_CHECK_EQ_INT(hr_buffer_size(buffer), 5);
    HR_CHECK_EQ_INT(hr_buffer_is_readonly(buffer), 1);
    second = hr_buffer_ref(buffer);
    hr_buffer_unref(&buffer);
    HR_CHECK_EQ_INT(released, 0);
    hr_buffer_unref(&second);
    HR_CHECK_EQ_INT(released, 1);

    /* The header is used again: nothing of the wrap may be left in it. */
    buffer = buffer_of(0);
    HR_CHECK_EQ_INT(hr_buffer_is_readonly(buffer), 0);
    hr_buffer_unref(&buffer);
    HR_CHECK_EQ_INT(released, 1);
}

static void what_cannot_be_had_is_no_memory(void)
{
    static const size_t sizes[] = {SIZE_MAX,     SIZE_MAX - 64,   SIZE_MAX - 400,
                                   SIZE_MAX / 2, (size_t)1 << 60, (size_t)1 << 49};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        struct hr_buffer *buffer = (struct hr_buffer *)&sizes;
        struct hr_error err = {0};
        HR_CHECK_EQ_INT(hr_buffer_new(sizes[i], &buffer, &err), HR_ERR_NOMEM);
        HR_CHECK(buffer == NULL);
        HR_CHECK_STR(err.origin, "buffer");
    }
}

static void the_cache_is_bounded_and_old_classes_drain(void)
{
    hr_pool_trim();
    hr__pool_set_cached_max(1 << 20);
    struct hr_buffer *small[8], *large[8], *huge = buffer_of(3 << 20);
    for (int i = 0; i < 8; i++)
        small[i] = buffer_of(200000); /* a block of 224 Ki */
    for (int i = 0; i < 8; i++)
        large[i] = buffer_of(300000); /* a block of 320 Ki */
    for (int i = 0; i < 4; i++)
        hr_buffer_unref(&small[i]);
    HR_CHECK_EQ_INT(stats().cached_bytes, 4 * 229376);
    for (int i = 0; i < 8; i++) {
        hr_buffer_unref(&large[i]);
        HR_CHECK(stats().cached_bytes <= 1 << 20);
    }
    HR_CHECK_EQ_INT(stats().cached_bytes, 3 * 327680); /* the small ones are gone */
    hr_buffer_unref(&huge); /* alone larger than what may be kept */
    HR_CHECK_EQ_INT(stats().cached_bytes, 3 * 327680);
    for (int i = 4; i < 8;
         i++) /* and the other way round: three large ones make room */
        hr_buffer_unref(&small[i]);
    HR_CHECK_EQ_INT(stats().cached_bytes, 4 * 229376);
    hr__pool_set_cached_max(HR_POOL_CACHED_MAX);
    hr_pool_trim();
}

enum { THREADS = 4, ROUNDS = 3000, SLOTS = 8 };

static void *churn(void *arg)
{
    struct hr_buffer *kept = arg;
    struct hr_buffer *slot[SLOTS] = {NULL};
    uint32_t seed = (uint32_t)(uintptr_t)&slot;
    for (int i = 0; i < ROUNDS; i++) {
        seed = seed * 1664525u + 1013904223u;
        struct hr_buffer **at = &slot[(seed >> 8) % SLOTS];
        hr_buffer_unref(at);
        if (seed >> 31) {
            *at = hr_buffer_ref(kept);
            continue;
        }
        *at = buffer_of((seed >> 12) % 3000);
        memset(hr_buffer_data(*at), i & 255, hr_buffer_size(*at));
    }
    for (int i = 0; i < SLOTS; i++)
        hr_buffer_unref(&slot[i]);
    return NULL;
}

static void counters_are_exact_after_many_threads(void)
{
    hr__pool_set_cached_max(16 << 10); /* so that eviction runs too */
    uint64_t live = stats().live_count;
    uint64_t bytes = stats().live_bytes;
    struct hr_buffer *shared = buffer_of(77);
    pthread_t thread[THREADS];
    for (int i = 0; i < THREADS; i++)
        HR_REQUIRE(HR_SYS(thread_start)(&thread[i], churn, shared) == 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    hr_buffer_unref(&shared);
    HR_CHECK_EQ_INT(stats().live_count, live);
    HR_CHECK_EQ_INT(stats().live_bytes, bytes);
    HR_CHECK(stats().cached_bytes <= (16 << 10) + THREADS * 4096);
    hr__pool_set_cached_max(HR_POOL_CACHED_MAX);
    hr_pool_trim();
    HR_CHECK_EQ_INT(stats().cached_bytes, 0);
}

static _Atomic bool stop;

static void *churn_until_stopped(void *arg)
{
    while (!atomic_load(&stop)) {
        struct hr_buffer *buffer = buffer_of((size_t)(uintptr_t)arg);
        hr_buffer_unref(&buffer);
    }
    return NULL;
}

/* Were a lock held by another thread across fork, the child would hang in it; the alarm
 * ends it then. */
static bool child_of_fork_can_allocate(void)
{
    pid_t pid = fork();
    if (pid == 0) {
        alarm(20);
        for (size_t size = 100; size < 1 << 20; size *= 3) {
            struct hr_buffer *buffer;
            if (hr_buffer_new(size, &buffer, NULL) != HR_OK)
                _exit(1);
            memset(hr_buffer_data(buffer), 1, size);
            hr_buffer_unref(&buffer);
        }
        _exit(0);
    }
    int status = 0;
    return waitpid(pid, &status, 0) == pid && WIFEXITED(status) &&
           WEXITSTATUS(status) == 0;
}

static void the_pool_works_in_a_child_of_fork(void)
{
    pthread_t thread[2];
    atomic_store(&stop, false);
    for (int i = 0; i < 2; i++)
        HR_REQUIRE(HR_SYS(thread_start)(&thread[i], churn_until_stopped,
                                        (void *)(uintptr_t)300) == 0);
    for (int i = 0; i < 20; i++)
        HR_CHECK(child_of_fork_can_allocate());
    atomic_store(&stop, true);
    for (int i = 0; i < 2; i++)
        pthread_join(thread[i], NULL);
}

static const struct hr_test tests[] = {
    HR_TEST(blocks_are_aligned_and_have_a_tail),
    HR_TEST(blocks_waste_less_than_a_quarter),
    HR_TEST(neighbours_do_not_overlap),
    HR_TEST(steady_work_maps_nothing),
    HR_TEST(steady_work_asks_the_system_for_nothing),
    HR_TEST(counters_tell_live_from_cached),
    HR_TEST(references_are_counted),
    HR_TEST(wrapped_memory_is_released_once_at_the_end),
    HR_TEST(what_cannot_be_had_is_no_memory),
    HR_TEST(the_cache_is_bounded_and_old_classes_drain),
    HR_TEST(counters_are_exact_after_many_threads),
    HR_TEST(the_pool_works_in_a_child_of_fork),
};

HR_TEST_MAIN(tests)
