/* Rows of bytes into the layout and the type of the output, with SSE4.1. */
#include "image/finish_kernels.h"

#if defined(__x86_64__)
#include <smmintrin.h>
#include <string.h>

#include "base/banned.h"

#define SSE41 __attribute__((target("sse4.1")))
#define INLINE inline __attribute__((always_inline))

SSE41 static INLINE __m128i load(const void *at)
{
    return _mm_loadu_si128((const __m128i *)at);
}

SSE41 static INLINE void store(void *at, __m128i v)
{
    _mm_storeu_si128((__m128i *)at, v);
}

/* Byte i of output vector v is byte interleaving[v][c][i] of channel c, for one c. */
static const int8_t interleaving[3][3][16] = {
    {{0, -1, -1, 1, -1, -1, 2, -1, -1, 3, -1, -1, 4, -1, -1, 5},
     {-1, 0, -1, -1, 1, -1, -1, 2, -1, -1, 3, -1, -1, 4, -1, -1},
     {-1, -1, 0, -1, -1, 1, -1, -1, 2, -1, -1, 3, -1, -1, 4, -1}},
    {{-1, -1, 6, -1, -1, 7, -1, -1, 8, -1, -1, 9, -1, -1, 10, -1},
     {5, -1, -1, 6, -1, -1, 7, -1, -1, 8, -1, -1, 9, -1, -1, 10},
     {-1, 5, -1, -1, 6, -1, -1, 7, -1, -1, 8, -1, -1, 9, -1, -1}},
    {{-1, 11, -1, -1, 12, -1, -1, 13, -1, -1, 14, -1, -1, 15, -1, -1},
     {-1, -1, 11, -1, -1, 12, -1, -1, 13, -1, -1, 14, -1, -1, 15, -1},
     {10, -1, -1, 11, -1, -1, 12, -1, -1, 13, -1, -1, 14, -1, -1, 15}}};

/* Byte i of channel c is byte separating[c][v][i] of input vector v, for one v. */
static const int8_t separating[3][3][16] = {
    {{0, 3, 6, 9, 12, 15, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1},
     {-1, -1, -1, -1, -1, -1, 2, 5, 8, 11, 14, -1, -1, -1, -1, -1},
     {-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 1, 4, 7, 10, 13}},
    {{1, 4, 7, 10, 13, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1},
     {-1, -1, -1, -1, -1, 0, 3, 6, 9, 12, 15, -1, -1, -1, -1, -1},
     {-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 2, 5, 8, 11, 14}},
    {{2, 5, 8, 11, 14, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1},
     {-1, -1, -1, -1, -1, 1, 4, 7, 10, 13, -1, -1, -1, -1, -1, -1},
     {-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 0, 3, 6, 9, 12, 15}}};

/* One vector of bytes of all three. */
SSE41 static INLINE __m128i pick(const __m128i v[3], const int8_t from[3][16])
{
    __m128i a = _mm_shuffle_epi8(v[0], load(from[0]));
    __m128i b = _mm_shuffle_epi8(v[1], load(from[1]));
    __m128i c = _mm_shuffle_epi8(v[2], load(from[2]));

    return _mm_or_si128(_mm_or_si128(a, b), c);
}

SSE41 static void interleave_sse41(const uint8_t *const in[3], uint8_t *out, size_t n)
{
    const uint8_t *rest[3];
    size_t x = 0;

    for (; x + 16 <= n; x += 16) {
        const __m128i v[3] = {load(in[0] + x), load(in[1] + x), load(in[2] + x)};

        for (int i = 0; i < 3; i++)
            store(out + 3 * x + 16 * (size_t)i, pick(v, interleaving[i]));
    }
    for (int c = 0; c < 3; c++)
        rest[c] = in[c] + x;
    hr__finish_kernels_portable.interleave(rest, out + 3 * x, n - x);
}

SSE41 static void separate_sse41(const uint8_t *in, uint8_t *const out[3], size_t n)
{
    uint8_t *rest[3];
    size_t x = 0;

    for (; x + 16 <= n; x += 16) {
        const uint8_t *from = in + 3 * x;
        const __m128i v[3] = {load(from), load(from + 16), load(from + 32)};

        for (int c = 0; c < 3; c++)
            store(out[c] + x, pick(v, separating[c]));
    }
    for (int c = 0; c < 3; c++)
        rest[c] = out[c] + x;
    hr__finish_kernels_portable.separate(in + 3 * x, rest, n - x);
}

/* Four values; k: where the line is. */
SSE41 static INLINE __m128 values(const struct hr__finish_line *line, const uint8_t *in,
                                  size_t k)
{
    int32_t four;
    __m128 v;

    memcpy(&four, in, sizeof(four));
    v = _mm_cvtepi32_ps(_mm_cvtepu8_epi32(_mm_cvtsi32_si128(four)));
    v = _mm_mul_ps(v, _mm_loadu_ps(line->scale + k));
    return _mm_add_ps(v, _mm_loadu_ps(line->bias + k));
}

SSE41 static void to_f32_sse41(const struct hr__finish_line *line, const uint8_t *in,
                               float *out, size_t n)
{
    size_t x = 0;

    for (; x + HR_FINISH_PERIOD <= n; x += HR_FINISH_PERIOD)
        for (size_t k = 0; k < HR_FINISH_PERIOD; k += 4)
            _mm_storeu_ps(out + x + k, values(line, in + x + k, k));
    hr__finish_kernels_portable.to_f32(line, in + x, out + x, n - x);
}

/* Four values rounded to the upper halves of their words, as 32-bit numbers. */
SSE41 static INLINE __m128i upper(__m128 value)
{
    __m128i bits = _mm_castps_si128(value);
    __m128i odd = _mm_and_si128(_mm_srli_epi32(bits, 16), _mm_set1_epi32(1));

    bits = _mm_add_epi32(bits, _mm_add_epi32(odd, _mm_set1_epi32(0x7fff)));
    return _mm_srli_epi32(bits, 16);
}

SSE41 static void to_bf16_sse41(const struct hr__finish_line *line, const uint8_t *in,
                                uint16_t *out, size_t n)
{
    size_t x = 0;

    for (; x + HR_FINISH_PERIOD <= n; x += HR_FINISH_PERIOD)
        for (size_t k = 0; k < HR_FINISH_PERIOD; k += 8)
            store(out + x + k,
                  _mm_packus_epi32(upper(values(line, in + x + k, k)),
                                   upper(values(line, in + x + k + 4, k + 4))));
    hr__finish_kernels_portable.to_bf16(line, in + x, out + x, n - x);
}

static void to_f16_sse41(const struct hr__finish_line *line, const uint8_t *in,
                         uint16_t *out, size_t n)
{
    hr__finish_kernels_portable.to_f16(line, in, out, n); /* SSE4.1 has no halves */
}

const struct hr__finish_kernels hr__finish_kernels_sse41 = {
    interleave_sse41, separate_sse41, to_f32_sse41, to_f16_sse41, to_bf16_sse41};
#endif
