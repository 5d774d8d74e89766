/* How libFuzzer changes inputs of fuzz_jpeg_same.c: by segments and tables mostly, now and
 * then by bytes. Data are often made anew afterwards, so that files with strange tables
 * get as far as to samples. */
#include <string.h>

#include "jpeg_mutate.h"

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max,
                               unsigned int seed);
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max);

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max,
                               unsigned int seed)
{
    struct blob file = {NULL, 0};
    uint32_t random = seed;
    uint32_t changes = 1 + next_random(&random) % 4;

    if (size == 0 || next_random(&random) % 8 == 0)
        return LLVMFuzzerMutate(data, size, max);
    blob_append(&file, data, size);
    for (; changes > 0; changes--)
        jpeg_mutate(&file, (enum jpeg_mutation)(next_random(&random) % MUTATIONS),
                    &random);
    if (next_random(&random) % 3 == 0)
        jpeg_mutate(&file, MUTATE_STREAM, &random);
    if (file.size > 0 && file.size <= max) {
        memcpy(data, file.data, file.size);
        size = file.size;
    }
    blob_free(&file);
    return size;
}
