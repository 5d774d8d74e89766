/* pool_bench.c - what a pooled buffer costs against malloc and mmap, by turns in one run.
 *
 * Makes `held` blocks, writes to each page of each (or does not), frees them all, and so
 * on; prints the best of several rounds in nanoseconds per block, and page faults per
 * block. One block held is the case that malloc is good at; 32 are a batch. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>

#include "headrace/buffer.h"

enum { HELD_MAX = 32, PAGE = 4096, ROUNDS = 7, BLOCKS = 3200 };

struct allocator {
    const char *name;
    void *(*make)(size_t size, void **data);
    void (*drop)(void *block, size_t size);
};

static void *pool_make(size_t size, void **data)
{
    struct hr_buffer *buffer;
    if (hr_buffer_new(size, &buffer, NULL) != HR_OK)
        abort();
    *data = hr_buffer_data(buffer);
    return buffer;
}

static void pool_drop(void *block, size_t size)
{
    (void)size;
    struct hr_buffer *buffer = block;
    hr_buffer_unref(&buffer);
}

static void *malloc_make(size_t size, void **data)
{
    *data = malloc(size);
    return *data;
}

static void malloc_drop(void *block, size_t size)
{
    (void)size;
    free(block);
}

static void *mmap_make(size_t size, void **data)
{
    *data =
        mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (*data == MAP_FAILED)
        abort();
    return *data;
}

static void mmap_drop(void *block, size_t size)
{
    munmap(block, size);
}

static double now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static double faults(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)usage.ru_minflt;
}

static void batch(const struct allocator *by, size_t size, int held, int touch)
{
    void *block[HELD_MAX];
    for (int i = 0; i < held; i++) {
        void *data;
        block[i] = by->make(size, &data);
        for (size_t at = 0; touch && at < size; at += PAGE)
            ((volatile char *)data)[at] = 1;
    }
    for (int i = 0; i < held; i++)
        by->drop(block[i], size);
}

static void measure(const struct allocator *by, size_t size, int held, int touch)
{
    double best_ns = 1e30;
    double best_faults = 0;
    batch(by, size, held, touch); /* warm */
    for (int round = 0; round < ROUNDS; round++) {
        double fault_count = faults(), begin = now_ns();
        for (int i = 0; i < BLOCKS / held; i++)
            batch(by, size, held, touch);
        double ns = (now_ns() - begin) / BLOCKS;
        if (ns < best_ns) {
            best_ns = ns;
            best_faults = (faults() - fault_count) / BLOCKS;
        }
    }
    printf("%-6s  %6zu bytes, %2d held, %-9s  %9.0f ns  %5.1f faults\n", by->name, size,
           held, touch ? "touched" : "untouched", best_ns, best_faults);
}

int main(void)
{
    static const struct allocator allocators[] = {
        {"pool", pool_make, pool_drop},
        {"malloc", malloc_make, malloc_drop},
        {"mmap", mmap_make, mmap_drop},
    };
    const size_t picture = (size_t)224 * 224 * 3;
    for (int held = 1; held <= HELD_MAX; held *= HELD_MAX)
        for (int touch = 0; touch < 2; touch++)
            for (int i = 0; i < 3; i++)
                measure(&allocators[i], picture, held, touch);
    return 0;
}
