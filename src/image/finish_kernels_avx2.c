/* Rows of bytes into the type of the output, with AVX2 and F16C. Layouts are changed by
 * the SSE4.1 loops: three-byte pixels do not fit two 128-bit lanes any better. */
#include "image/finish_kernels.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include "base/banned.h"

#define AVX2 __attribute__((target("avx2,f16c")))
#define INLINE inline __attribute__((always_inline))

/* Eight values; k: where the line is. */
AVX2 static INLINE __m256 values(const struct hr__finish_line *line, const uint8_t *in,
                                 size_t k)
{
    __m256i eight = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)in));
    __m256 v = _mm256_cvtepi32_ps(eight);

    v = _mm256_mul_ps(v, _mm256_loadu_ps(line->scale + k));
    return _mm256_add_ps(v, _mm256_loadu_ps(line->bias + k));
}

AVX2 static void to_f32_avx2(const struct hr__finish_line *line, const uint8_t *in,
                             float *out, size_t n)
{
    size_t x = 0;

    for (; x + HR_FINISH_PERIOD <= n; x += HR_FINISH_PERIOD)
        for (size_t k = 0; k < HR_FINISH_PERIOD; k += 8)
            _mm256_storeu_ps(out + x + k, values(line, in + x + k, k));
    hr__finish_kernels_portable.to_f32(line, in + x, out + x, n - x);
}

AVX2 static void to_f16_avx2(const struct hr__finish_line *line, const uint8_t *in,
                             uint16_t *out, size_t n)
{
    size_t x = 0;

    for (; x + HR_FINISH_PERIOD <= n; x += HR_FINISH_PERIOD)
        for (size_t k = 0; k < HR_FINISH_PERIOD; k += 8)
            _mm_storeu_si128((__m128i *)(out + x + k),
                             _mm256_cvtps_ph(values(line, in + x + k, k),
                                             _MM_FROUND_TO_NEAREST_INT));
    hr__finish_kernels_portable.to_f16(line, in + x, out + x, n - x);
}

/* Eight values rounded to the upper halves of their words. */
AVX2 static INLINE __m128i upper(__m256 value)
{
    __m256i bits = _mm256_castps_si256(value);
    __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));

    bits = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
    bits = _mm256_srli_epi32(bits, 16);
    return _mm_packus_epi32(_mm256_castsi256_si128(bits),
                            _mm256_extracti128_si256(bits, 1));
}

AVX2 static void to_bf16_avx2(const struct hr__finish_line *line, const uint8_t *in,
                              uint16_t *out, size_t n)
{
    size_t x = 0;

    for (; x + HR_FINISH_PERIOD <= n; x += HR_FINISH_PERIOD)
        for (size_t k = 0; k < HR_FINISH_PERIOD; k += 8)
            _mm_storeu_si128((__m128i *)(out + x + k),
                             upper(values(line, in + x + k, k)));
    hr__finish_kernels_portable.to_bf16(line, in + x, out + x, n - x);
}

static void interleave_avx2(const uint8_t *const in[3], uint8_t *out, size_t n)
{
    hr__finish_kernels_sse41.interleave(in, out, n);
}

static void separate_avx2(const uint8_t *in, uint8_t *const out[3], size_t n)
{
    hr__finish_kernels_sse41.separate(in, out, n);
}

const struct hr__finish_kernels hr__finish_kernels_avx2 = {
    interleave_avx2, separate_avx2, to_f32_avx2, to_f16_avx2, to_bf16_avx2};
#endif
