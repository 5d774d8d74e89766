/* fuzz.h - what every fuzz target defines, by libFuzzer's name. */
#ifndef HR_FUZZ_H
#define HR_FUZZ_H

#include <stddef.h>
#include <stdint.h>

/* Always 0; whatever is wrong aborts. data is borrowed. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif
