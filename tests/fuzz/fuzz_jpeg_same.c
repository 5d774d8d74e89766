/* Arbitrary bytes to both decoders of JPEGs: what ours takes, whole or in part, libjpeg
 * takes without a warning and with the same samples; and both variants of ours agree. */
#include <stdio.h>
#include <stdlib.h>

#include "fuzz.h"
#include "jpeg_judge.h"

/* The regions that are looked at follow from the file. */
static uint32_t hash(const uint8_t *data, size_t size)
{
    uint32_t h = 2166136261u;

    for (size_t i = 0; i < size; i++)
        h = (h ^ data[i]) * 16777619u;
    return h;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct jpeg_judge *judge;

    if (judge == NULL)
        judge = jpeg_judge_new();
    if (jpeg_judge_all(judge, data, size, hash(data, size)) == WRONG) {
        fprintf(stderr, "jpeg_same: %s\n", jpeg_judge_reason(judge));
        abort();
    }
    return 0;
}
