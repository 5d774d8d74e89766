/* kernels.h - the inner loops, one set per instruction set. All sets give the same
 * bytes. */
#ifndef HR_IMAGE_KERNELS_H
#define HR_IMAGE_KERNELS_H

#include <stddef.h>
#include <stdint.h>

#include "image/finish_kernels.h"
#include "image/plane_kernels.h"
#include "image/taps.h"

/* A row given to `across` must be readable, and one that it writes must be writable,
 * for this many bytes past its end. */
#define HR_ROW_SLACK 32

struct hr__kernels {
    const char *name;
    /* Resize `rows` rows of pixels with 1 … 4 channels in the direction of the row. */
    void (*across)(const struct hr__taps *taps, int channels, const uint8_t *const *in,
                   uint8_t *const *out, int rows);
    /* Make one output row `o` of `bytes` bytes from the 2 * pairs input rows from
     * start[o] on. in[]: these rows, where one that does not exist is any other.
     * Input rows have HR_ROW_SLACK; the output has none. */
    void (*down)(const struct hr__taps *taps, int64_t o, const uint8_t *const *in,
                 uint8_t *out, size_t bytes);
    const struct hr__plane_kernels *planes;
    const struct hr__finish_kernels *finish;
};

extern const struct hr__kernels hr__kernels_portable;
/* For rows of uint16 samples; `bytes` counts bytes there too. */
extern const struct hr__kernels hr__kernels_wide;
#if defined(__x86_64__)
extern const struct hr__kernels hr__kernels_sse41;
extern const struct hr__kernels hr__kernels_avx2;
#endif

/* The set of that name; NULL when it is unknown or this CPU lacks it. */
const struct hr__kernels *hr__kernels_find(const char *name);
/* The best set for this CPU, at most HEADRACE_SIMD; chosen once. Threads: any. */
const struct hr__kernels *hr__kernels_best(void);

#endif
