/* limit_jpeg.h - the bare loop that JPEG work is compared with: libjpeg to RGB rows, one
 * pair of rows used again and again, nothing resized, nothing kept. */
#ifndef HR_BENCH_LIMIT_JPEG_H
#define HR_BENCH_LIMIT_JPEG_H

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <jpeglib.h>

struct jpeg_file {
    unsigned char *data;
    size_t size;
};

struct jpeg_set {
    struct jpeg_file *file;
    size_t count;
};

static void die(const char *what, const char *name)
{
    fprintf(stderr, "%s: %s\n", what, name);
    exit(1);
}

static void add_file(struct jpeg_set *set, const char *path)
{
    FILE *f = fopen(path, "rb");
    struct jpeg_file one;
    long size;

    if (f == NULL || fseek(f, 0, SEEK_END) != 0 || (size = ftell(f)) <= 0)
        die("cannot read", path);
    rewind(f);
    one.size = (size_t)size;
    one.data = malloc(one.size);
    set->file = realloc(set->file, (set->count + 1) * sizeof(one));
    if (one.data == NULL || set->file == NULL || fread(one.data, one.size, 1, f) != 1)
        die("cannot read", path);
    fclose(f);
    set->file[set->count++] = one;
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static int is_jpeg(const struct dirent *entry)
{
    const char *dot = strrchr(entry->d_name, '.');

    return dot != NULL && (strcmp(dot, ".jpg") == 0 || strcmp(dot, ".jpeg") == 0);
}

/* A file, or every JPEG of a folder, in the order of names. */
static void add_path(struct jpeg_set *set, const char *path)
{
    struct dirent **entry;
    int n = scandir(path, &entry, is_jpeg, by_name);
    char full[4096];

    if (n < 0) {
        add_file(set, path);
        return;
    }
    for (int i = 0; i < n; i++) {
        snprintf(full, sizeof(full), "%s/%s", path, entry[i]->d_name);
        add_file(set, full);
        free(entry[i]);
    }
    free(entry);
}

/* Decode one file; every row is overwritten by the next pair. */
static void decode_rows_only(struct jpeg_decompress_struct *lib,
                             const struct jpeg_file *file)
{
    /* Not aligned: libjpeg-turbo writes aligned rows past the cache, which is slower
     * where they are written again and again. */
    static JSAMPLE row[2 * 65536 * 3 + 8];
    JSAMPROW rows[2] = {row + 8, row + 8 + 65536 * 3};

    jpeg_mem_src(lib, file->data, file->size);
    jpeg_read_header(lib, TRUE);
    lib->out_color_space = JCS_RGB;
    jpeg_start_decompress(lib);
    while (lib->output_scanline < lib->output_height)
        jpeg_read_scanlines(lib, rows, 2);
    jpeg_finish_decompress(lib);
}

static double cpu_seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* CPU seconds to decode the whole set once. */
static double time_limit(struct jpeg_decompress_struct *lib, const struct jpeg_set *set)
{
    double start = cpu_seconds();

    for (size_t i = 0; i < set->count; i++)
        decode_rows_only(lib, &set->file[i]);
    return cpu_seconds() - start;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(double *values, int n)
{
    qsort(values, (size_t)n, sizeof(*values), by_value);
    return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

#endif
