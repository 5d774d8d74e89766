/* What one thread that loads pictures asks the system for, once it is warm.
 *
 *     steady_memory [--exact 0|1] [--size WxH] FILE...
 *
 * Loads each file again and again, and prints the calls of malloc per picture, with
 * those of the codec's library, how many bytes they were for, and the page faults of
 * 1,000 pictures. malloc is this program's own (glibc's, counted). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "headrace/headrace.h"

#define WARM_UP 50
#define PICTURES 1000

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *ptr, size_t size);
extern void *__libc_memalign(size_t align, size_t size);

static _Atomic unsigned long long calls;
static _Atomic unsigned long long bytes;

static void count(size_t size)
{
    calls++;
    bytes += size;
}

void *malloc(size_t size)
{
    count(size);
    return __libc_malloc(size);
}

void *calloc(size_t n, size_t size)
{
    count(n * size);
    return __libc_calloc(n, size);
}

void *realloc(void *ptr, size_t size)
{
    count(size);
    return __libc_realloc(ptr, size);
}

void *aligned_alloc(size_t align, size_t size)
{
    count(size);
    return __libc_memalign(align, size);
}

int posix_memalign(void **out, size_t align, size_t size)
{
    count(size);
    *out = __libc_memalign(align, size);
    return *out != NULL ? 0 : 12; /* ENOMEM */
}

static void must(enum hr_status status, const struct hr_error *err)
{
    if (status == HR_OK)
        return;
    fprintf(stderr, "headrace: %s\n", err->text);
    exit(1);
}

static struct hr_value read_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    struct hr_buffer *buffer;
    struct hr_error err = {0};
    long size;

    if (f == NULL || fseek(f, 0, SEEK_END) != 0 || (size = ftell(f)) <= 0) {
        perror(path);
        exit(1);
    }
    rewind(f);
    must(hr_buffer_new((size_t)size, &buffer, &err), &err);
    if (fread(hr_buffer_data(buffer), (size_t)size, 1, f) != 1)
        exit(1);
    fclose(f);
    return hr_value_of_bytes(&buffer);
}

static void load(struct hr_ctx *ctx, const struct hr_value *src,
                 const struct hr_image_options *options, int n)
{
    struct hr_error err = {0};

    for (int i = 0; i < n; i++) {
        struct hr_array *array;

        must(hr_image_load(ctx, src, NULL, options, &array, &err), &err);
        hr_array_unref(&array);
    }
}

static long faults(void)
{
    struct rusage usage;

    getrusage(RUSAGE_THREAD, &usage);
    return usage.ru_minflt;
}

static void measure(struct hr_ctx *ctx, const char *path,
                    const struct hr_image_options *options)
{
    struct hr_value src = read_file(path);
    unsigned long long calls_before;
    unsigned long long bytes_before;
    long faults_before;

    load(ctx, &src, options, WARM_UP);
    calls_before = calls;
    bytes_before = bytes;
    faults_before = faults();
    load(ctx, &src, options, PICTURES);
    printf("%7.1f calls %10.0f bytes per picture, %6ld faults  %s\n",
           (double)(calls - calls_before) / PICTURES,
           (double)(bytes - bytes_before) / PICTURES, faults() - faults_before, path);
    hr_value_release(&src);
}

int main(int argc, char **argv)
{
    struct hr_image_options options;
    struct hr_error err = {0};
    struct hr_ctx *ctx;

    hr_image_options_init(&options);
    options.width = options.height = 224;
    must(hr_ctx_new(&ctx, &err), &err);
    for (int i = 1; i < argc; i++) {
        long long w;
        long long h;

        if (strcmp(argv[i], "--exact") == 0 && i + 1 < argc)
            options.exact = argv[++i][0] == '1';
        else if (strcmp(argv[i], "--size") == 0 && i + 1 < argc &&
                 sscanf(argv[++i], "%lldx%lld", &w, &h) == 2) {
            options.width = w;
            options.height = h;
        } else
            measure(ctx, argv[i], &options);
    }
    hr_ctx_free(&ctx);
    return 0;
}
