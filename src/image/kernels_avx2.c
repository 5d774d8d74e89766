/* Resize kernels for AVX2.
 *
 * The sums are those of 8-bit samples times 23-bit weights in 32-bit arithmetic. AVX2
 * has no fast multiplication that wide (pmulld costs two slots and takes one sample per
 * 32 bits), but pmaddwd takes two 16-bit samples per 32 bits in one slot. So a weight is
 * high * 2^15 + low, both in 16 bits, each half is summed by pmaddwd, and the two sums
 * meet at the end. All of it is arithmetic modulo 2^32, as exact as the portable code.
 *
 * across: the two 128-bit lanes hold two rows at the same output pixel, so that one
 * broadcast of a pair of weights serves both. Per lane and step, with C channels:
 *
 *     16 bytes of the row      R0 G0 B0 R1 G1 B1 R2 G2 B2 R3 G3 B3 ..
 *     pshufb to 16-bit pairs   R0 R1 | G0 G1 | B0 B1 | ..     and 2, 3 alike
 *     pmaddwd with w0 w1       R     | G     | B     | ..
 *
 * down: the samples of two rows are interleaved into such pairs; everything else runs
 * along the row. 640x400x3 to 224x224 bicubic: see bench/limit_jpeg.c. */
#include "image/kernels.h"

#if defined(__x86_64__)
#include <immintrin.h>
#include <string.h>

#include "base/banned.h"

#define AVX2 __attribute__((target("avx2")))
#define INLINE inline __attribute__((always_inline))
#define HALF (1 << (HR_TAPS_BITS - 1))

/* Where pshufb finds the pairs of pixels 0, 1 and 2, 3, and the finished bytes. */
struct layout {
    int64_t step; /* bytes of four pixels */
    __m256i pair01;
    __m256i pair23;
    __m256i close; /* four pixels of four bytes each to `step` bytes */
};

AVX2 static inline __m256i both_lanes(const int8_t *bytes)
{
    return _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)bytes));
}

AVX2 static struct layout layout_of(int channels)
{
    static const int8_t rgb01[16] = {0, -1, 3, -1, 1,  -1, 4,  -1,
                                     2, -1, 5, -1, -1, -1, -1, -1};
    static const int8_t rgb23[16] = {6, -1, 9,  -1, 7,  -1, 10, -1,
                                     8, -1, 11, -1, -1, -1, -1, -1};
    static const int8_t rgb[16] = {0,  1,  2,  4,  5,  6,  8,  9,
                                   10, 12, 13, 14, -1, -1, -1, -1};
    static const int8_t four01[16] = {0, -1, 4, -1, 1, -1, 5, -1,
                                      2, -1, 6, -1, 3, -1, 7, -1};
    static const int8_t four23[16] = {8,  -1, 12, -1, 9,  -1, 13, -1,
                                      10, -1, 14, -1, 11, -1, 15, -1};
    static const int8_t four[16] = {0, 1, 2,  3,  4,  5,  6,  7,
                                    8, 9, 10, 11, 12, 13, 14, 15};

    if (channels == 3)
        return (struct layout){12, both_lanes(rgb01), both_lanes(rgb23),
                               both_lanes(rgb)};
    return (struct layout){16, both_lanes(four01), both_lanes(four23),
                           both_lanes(four)};
}

AVX2 static inline __m256i two_rows(const uint8_t *a, const uint8_t *b)
{
    __m256i low = _mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)a));

    return _mm256_inserti128_si256(low, _mm_loadu_si128((const __m128i *)b), 1);
}

/* Add pixels 0 and 1, or 2 and 3, of `bytes` by a pair of split weights. */
AVX2 static INLINE void add_two(__m256i bytes, __m256i pair, const int32_t *split,
                                __m256i *low, __m256i *high)
{
    __m256i v = _mm256_shuffle_epi8(bytes, pair);

    *low = _mm256_add_epi32(*low, _mm256_madd_epi16(v, _mm256_set1_epi32(split[0])));
    *high = _mm256_add_epi32(*high, _mm256_madd_epi16(v, _mm256_set1_epi32(split[1])));
}

/* One output pixel of two rows, as 32-bit levels before clamping. */
AVX2 static INLINE __m256i pixel(const struct layout *l, const uint8_t *a,
                                 const uint8_t *b, const int32_t *split, int64_t pairs)
{
    __m256i low = _mm256_set1_epi32(HALF);
    __m256i high = _mm256_setzero_si256();

#pragma GCC unroll 4
    for (int64_t j = 0; j + 2 <= pairs; j += 2, a += l->step, b += l->step) {
        __m256i bytes = two_rows(a, b);

        add_two(bytes, l->pair01, split + 2 * j, &low, &high);
        add_two(bytes, l->pair23, split + 2 * j + 2, &low, &high);
    }
    if (pairs % 2 != 0)
        add_two(two_rows(a, b), l->pair01, split + 2 * pairs - 2, &low, &high);
    low = _mm256_add_epi32(low, _mm256_slli_epi32(high, HR_TAPS_LOW_BITS));
    return _mm256_srai_epi32(low, HR_TAPS_BITS);
}

/* Output pixels o and o + 1 of two rows, as 16-bit levels. */
AVX2 static INLINE __m256i two_pixels(const struct hr__taps *taps,
                                      const struct layout *l, int channels, int64_t o,
                                      const uint8_t *const *in, int64_t pairs)
{
    int64_t at0 = (int64_t)taps->start[o] * channels;
    int64_t at1 = (int64_t)taps->start[o + 1] * channels;
    const int32_t *split = taps->split + o * 2 * pairs;
    __m256i p0 = pixel(l, in[0] + at0, in[1] + at0, split, pairs);
    __m256i p1 = pixel(l, in[0] + at1, in[1] + at1, split + 2 * pairs, pairs);

    return _mm256_packs_epi32(p0, p1);
}

AVX2 static INLINE void across_two(const struct hr__taps *taps, int channels,
                                   const uint8_t *const *in, uint8_t *const *out,
                                   int64_t pairs)
{
    const struct layout l = layout_of(channels);
    int64_t count = taps->key.count;
    int64_t o = 0;

    for (; o + 4 <= count; o += 4) {
        __m256i v =
            _mm256_packus_epi16(two_pixels(taps, &l, channels, o, in, pairs),
                                two_pixels(taps, &l, channels, o + 2, in, pairs));

        v = _mm256_shuffle_epi8(v, l.close);
        _mm_storeu_si128((__m128i *)(out[0] + o * channels), _mm256_castsi256_si128(v));
        _mm_storeu_si128((__m128i *)(out[1] + o * channels),
                         _mm256_extracti128_si256(v, 1));
    }
    for (; o < count; o++) {
        int64_t at = (int64_t)taps->start[o] * channels;
        __m256i v =
            pixel(&l, in[0] + at, in[1] + at, taps->split + o * 2 * pairs, pairs);

        v = _mm256_packus_epi16(_mm256_packs_epi32(v, v), v);
        _mm_storeu_si32(out[0] + o * channels, _mm256_castsi256_si128(v));
        _mm_storeu_si32(out[1] + o * channels, _mm256_extracti128_si256(v, 1));
    }
}

/* The common lengths are constants, so that their loops are unrolled. */
AVX2 static INLINE void across_by_length(const struct hr__taps *taps, int channels,
                                         const uint8_t *const *in, uint8_t *const *out)
{
    switch (taps->pairs) {
    case 1:
        across_two(taps, channels, in, out, 1);
        break;
    case 2:
        across_two(taps, channels, in, out, 2);
        break;
    case 3:
        across_two(taps, channels, in, out, 3);
        break;
    case 4:
        across_two(taps, channels, in, out, 4);
        break;
    case 5:
        across_two(taps, channels, in, out, 5);
        break;
    case 6:
        across_two(taps, channels, in, out, 6);
        break;
    default:
        across_two(taps, channels, in, out, taps->pairs);
    }
}

AVX2 static void across_avx2(const struct hr__taps *taps, int channels,
                             const uint8_t *const *in, uint8_t *const *out, int rows)
{
    int y = 0;

    if (channels < 3) {
        hr__kernels_portable.across(taps, channels, in, out, rows);
        return;
    }
    for (; y + 2 <= rows; y += 2) {
        if (channels == 3)
            across_by_length(taps, 3, in + y, out + y);
        else
            across_two(taps, 4, in + y, out + y, taps->pairs);
    }
    if (y < rows)
        hr__kernels_sse41.across(taps, channels, in + y, out + y, 1);
}

/* The sums of 32 neighbouring bytes: unpacking leaves 8 of them in each vector. */
struct sums {
    __m256i low[4];
    __m256i high[4];
};

AVX2 static inline void add_pair(struct sums *s, __m256i a, __m256i b,
                                 const int32_t *split)
{
    const __m256i zero = _mm256_setzero_si256();
    const __m256i low = _mm256_set1_epi32(split[0]);
    const __m256i high = _mm256_set1_epi32(split[1]);
    __m256i ab0 = _mm256_unpacklo_epi8(a, b);
    __m256i ab1 = _mm256_unpackhi_epi8(a, b);
    __m256i v[4] = {_mm256_unpacklo_epi8(ab0, zero), _mm256_unpackhi_epi8(ab0, zero),
                    _mm256_unpacklo_epi8(ab1, zero), _mm256_unpackhi_epi8(ab1, zero)};

    for (int i = 0; i < 4; i++) {
        s->low[i] = _mm256_add_epi32(s->low[i], _mm256_madd_epi16(v[i], low));
        s->high[i] = _mm256_add_epi32(s->high[i], _mm256_madd_epi16(v[i], high));
    }
}

AVX2 static inline __m256i finish(const struct sums *s)
{
    __m256i v[4];

    for (int i = 0; i < 4; i++) {
        v[i] = _mm256_add_epi32(s->low[i],
                                _mm256_slli_epi32(s->high[i], HR_TAPS_LOW_BITS));
        v[i] = _mm256_srai_epi32(v[i], HR_TAPS_BITS);
    }
    return _mm256_packus_epi16(_mm256_packs_epi32(v[0], v[1]),
                               _mm256_packs_epi32(v[2], v[3]));
}

AVX2 static void down_avx2(const struct hr__taps *taps, int64_t o,
                           const uint8_t *const *in, uint8_t *out, size_t bytes)
{
    const int32_t *split = taps->split + o * 2 * taps->pairs;
    int64_t pairs = taps->pairs;

    for (size_t x = 0; x < bytes; x += 32) {
        struct sums s;
        __m256i v;

        for (int i = 0; i < 4; i++) {
            s.low[i] = _mm256_set1_epi32(HALF);
            s.high[i] = _mm256_setzero_si256();
        }
        for (int64_t j = 0; j < pairs; j++)
            add_pair(&s, _mm256_loadu_si256((const __m256i *)(in[2 * j] + x)),
                     _mm256_loadu_si256((const __m256i *)(in[2 * j + 1] + x)),
                     split + 2 * j);
        v = finish(&s);
        if (bytes - x >= 32) {
            _mm256_storeu_si256((__m256i *)(out + x), v);
        } else {
            uint8_t last[32];

            _mm256_storeu_si256((__m256i *)last, v);
            memcpy(out + x, last, bytes - x);
        }
    }
}

const struct hr__kernels hr__kernels_avx2 = {
    "avx2", across_avx2, down_avx2, &hr__plane_kernels_avx2, &hr__finish_kernels_avx2};
#endif
