/* Which resize kernels to use, and the portable set, which defines what is right. */
#include "image/kernels.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "base/banned.h"

#define HALF (1 << (HR_TAPS_BITS - 1))

static uint8_t to_byte(int32_t sum)
{
    int32_t level = sum >> HR_TAPS_BITS;

    if (level < 0)
        return 0;
    return level > 255 ? 255 : (uint8_t)level;
}

/* How many of an output's 2 * pairs inputs exist. */
static int64_t existing(const struct hr__taps *taps, int64_t o)
{
    int64_t left = taps->key.in - taps->start[o];
    int64_t width = 2 * taps->pairs;

    return left < width ? left : width;
}

static void across_row(const struct hr__taps *taps, int channels, const uint8_t *in,
                       uint8_t *out)
{
    for (int64_t o = 0; o < taps->key.count; o++) {
        const int32_t *weight = taps->weight + o * 2 * taps->pairs;
        const uint8_t *from = in + (int64_t)taps->start[o] * channels;
        int64_t n = existing(taps, o);

        for (int c = 0; c < channels; c++) {
            int32_t sum = HALF;

            for (int64_t i = 0; i < n; i++)
                sum += weight[i] * from[i * channels + c];
            *out++ = to_byte(sum);
        }
    }
}

static void across_portable(const struct hr__taps *taps, int channels,
                            const uint8_t *const *in, uint8_t *const *out, int rows)
{
    for (int y = 0; y < rows; y++)
        across_row(taps, channels, in[y], out[y]);
}

/* By blocks, so that the inner loop runs along the row and the sums stay in reach. */
#define BLOCK 64

static void down_portable(const struct hr__taps *taps, int64_t o,
                          const uint8_t *const *in, uint8_t *out, size_t bytes)
{
    const int32_t *weight = taps->weight + o * 2 * taps->pairs;
    int64_t n = existing(taps, o);
    int32_t sum[BLOCK];

    for (size_t x = 0; x < bytes; x += BLOCK) {
        size_t len = bytes - x < BLOCK ? bytes - x : BLOCK;

        for (size_t i = 0; i < len; i++)
            sum[i] = HALF;
        for (int64_t j = 0; j < n; j++)
            for (size_t i = 0; i < len; i++)
                sum[i] += weight[j] * in[j][x + i];
        for (size_t i = 0; i < len; i++)
            out[x + i] = to_byte(sum[i]);
    }
}

const struct hr__kernels hr__kernels_portable = {
    "portable", across_portable, down_portable, &hr__plane_kernels_portable,
    &hr__finish_kernels_portable};

/* ---- 16 bits: the same sums in 64 bits ---- */

static uint16_t to_sample(int64_t sum)
{
    int64_t level = sum >> HR_TAPS_BITS;

    if (level < 0)
        return 0;
    return level > 65535 ? 65535 : (uint16_t)level;
}

static void across_wide(const struct hr__taps *taps, int channels,
                        const uint8_t *const *in, uint8_t *const *out, int rows)
{
    for (int y = 0; y < rows; y++) {
        const uint16_t *row = (const uint16_t *)(const void *)in[y];
        uint16_t *to = (uint16_t *)(void *)out[y];

        for (int64_t o = 0; o < taps->key.count; o++) {
            const int32_t *weight = taps->weight + o * 2 * taps->pairs;
            const uint16_t *from = row + (int64_t)taps->start[o] * channels;
            int64_t n = existing(taps, o);

            for (int c = 0; c < channels; c++) {
                int64_t sum = HALF;

                for (int64_t i = 0; i < n; i++)
                    sum += (int64_t)weight[i] * from[i * channels + c];
                *to++ = to_sample(sum);
            }
        }
    }
}

static void down_wide(const struct hr__taps *taps, int64_t o, const uint8_t *const *in,
                      uint8_t *out, size_t bytes)
{
    const int32_t *weight = taps->weight + o * 2 * taps->pairs;
    const uint16_t *const *rows = (const uint16_t *const *)(const void *)in;
    uint16_t *to = (uint16_t *)(void *)out;
    int64_t n = existing(taps, o);

    for (size_t x = 0; x < bytes / 2; x++) {
        int64_t sum = HALF;

        for (int64_t j = 0; j < n; j++)
            sum += (int64_t)weight[j] * rows[j][x];
        to[x] = to_sample(sum);
    }
}

const struct hr__kernels hr__kernels_wide = {"wide", across_wide, down_wide, NULL,
                                             NULL};

#if defined(__x86_64__)
/* clang before 15 does not know that name in __builtin_cpu_supports. */
static int has_f16c(void)
{
    unsigned a;
    unsigned b;
    unsigned c;
    unsigned d;

    return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C) != 0;
}

static int cpu_has(const char *name)
{
    if (strcmp(name, "avx2") == 0)
        return __builtin_cpu_supports("avx2") && has_f16c();
    if (strcmp(name, "sse4.1") == 0)
        return __builtin_cpu_supports("sse4.1");
    return 1;
}

/* The best first. */
static const struct hr__kernels *const sets[] = {&hr__kernels_avx2, &hr__kernels_sse41,
                                                 &hr__kernels_portable};
#else
static int cpu_has(const char *name)
{
    (void)name;
    return 1;
}

static const struct hr__kernels *const sets[] = {&hr__kernels_portable};
#endif

#define SET_COUNT (sizeof(sets) / sizeof(sets[0]))

const struct hr__kernels *hr__kernels_find(const char *name)
{
    for (size_t i = 0; i < SET_COUNT; i++)
        if (strcmp(sets[i]->name, name) == 0)
            return cpu_has(name) ? sets[i] : NULL;
    return NULL;
}

/* HEADRACE_SIMD names the best set allowed; an unknown name allows all. */
static const struct hr__kernels *choose(void)
{
    const char *most = getenv("HEADRACE_SIMD");
    size_t first = 0;

    for (size_t i = 0; most != NULL && i < SET_COUNT; i++)
        if (strcmp(sets[i]->name, most) == 0)
            first = i;
    for (size_t i = first; i < SET_COUNT - 1; i++)
        if (cpu_has(sets[i]->name))
            return sets[i];
    return sets[SET_COUNT - 1];
}

const struct hr__kernels *hr__kernels_best(void)
{
    /* Threads that race here store the same pointer to constant data. */
    static const struct hr__kernels *_Atomic best;
    const struct hr__kernels *set = atomic_load(&best);

    if (set == NULL) {
        set = choose();
        atomic_store(&best, set);
    }
    return set;
}
