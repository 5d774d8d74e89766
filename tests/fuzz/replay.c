/* Runs a fuzz target on kept inputs, without a fuzzer: `replay FOLDER|FILE...`. Prints
 * TAP; what a sanitizer or an abort() of the target finds ends it. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "fuzz.h"

static int count;

/* The input's own block, exactly as large as it is, so that AddressSanitizer guards its
 * end; NULL on failure. */
static uint8_t *read_input(FILE *f, size_t *size)
{
    struct stat st;
    uint8_t *data;

    if (fstat(fileno(f), &st) != 0)
        return NULL;
    *size = (size_t)st.st_size;
    data = malloc(*size > 0 ? *size : 1);
    if (data != NULL && fread(data, 1, *size, f) != *size) {
        free(data);
        return NULL;
    }
    return data;
}

static int run_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    uint8_t *data;
    size_t size;

    if (f == NULL)
        return -1;
    data = read_input(f, &size);
    fclose(f);
    if (data == NULL)
        return -1;
    LLVMFuzzerTestOneInput(data, size);
    free(data);
    printf("ok %d - %s\n", ++count, path);
    return 0;
}

static int run_path(const char *path)
{
    struct dirent **entry;
    int n = scandir(path, &entry, NULL, alphasort);
    int failed = 0;
    char full[4096];

    if (n < 0)
        return run_file(path);
    for (int i = 0; i < n; i++) {
        snprintf(full, sizeof(full), "%s/%s", path, entry[i]->d_name);
        if (entry[i]->d_name[0] != '.' && run_file(full) != 0)
            failed = -1;
        free(entry[i]);
    }
    free(entry);
    return failed;
}

int main(int argc, char **argv)
{
    int failed = 0;

    printf("TAP version 13\n");
    for (int i = 1; i < argc; i++)
        if (run_path(argv[i]) != 0) {
            printf("Bail out! cannot read %s\n", argv[i]);
            failed = 1;
        }
    printf("1..%d\n", count);
    return failed || count == 0;
}
