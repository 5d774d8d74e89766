/* Resize kernels for SSE4.1: those of kernels_avx2.c with one row in one 128-bit
 * register. The essay is there. */
#include "image/kernels.h"

#if defined(__x86_64__)
#include <smmintrin.h>
#include <string.h>

#include "base/banned.h"

#define SSE41 __attribute__((target("sse4.1")))
#define HALF (1 << (HR_TAPS_BITS - 1))

/* Where pshufb finds the pairs of pixels 0, 1 and 2, 3, and the finished bytes. */
struct layout {
    int64_t step; /* bytes of four pixels */
    __m128i pair01;
    __m128i pair23;
    __m128i close; /* four pixels of four bytes each to `step` bytes */
};

SSE41 static inline __m128i load(const void *bytes)
{
    return _mm_loadu_si128((const __m128i *)bytes);
}

SSE41 static struct layout layout_of(int channels)
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
        return (struct layout){12, load(rgb01), load(rgb23), load(rgb)};
    return (struct layout){16, load(four01), load(four23), load(four)};
}

/* One output pixel as 32-bit levels before clamping. */
SSE41 static inline __attribute__((always_inline)) __m128i pixel(const struct layout *l,
                                                                 const uint8_t *a,
                                                                 const int32_t *split,
                                                                 int64_t pairs)
{
    __m128i low = _mm_set1_epi32(HALF);
    __m128i high = _mm_setzero_si128();

    for (; pairs >= 2; pairs -= 2) {
        __m128i bytes = load(a);
        __m128i p01 = _mm_shuffle_epi8(bytes, l->pair01);
        __m128i p23 = _mm_shuffle_epi8(bytes, l->pair23);

        low = _mm_add_epi32(low, _mm_madd_epi16(p01, _mm_set1_epi32(split[0])));
        high = _mm_add_epi32(high, _mm_madd_epi16(p01, _mm_set1_epi32(split[1])));
        low = _mm_add_epi32(low, _mm_madd_epi16(p23, _mm_set1_epi32(split[2])));
        high = _mm_add_epi32(high, _mm_madd_epi16(p23, _mm_set1_epi32(split[3])));
        a += l->step;
        split += 4;
    }
    if (pairs != 0) {
        __m128i p01 = _mm_shuffle_epi8(load(a), l->pair01);

        low = _mm_add_epi32(low, _mm_madd_epi16(p01, _mm_set1_epi32(split[0])));
        high = _mm_add_epi32(high, _mm_madd_epi16(p01, _mm_set1_epi32(split[1])));
    }
    low = _mm_add_epi32(low, _mm_slli_epi32(high, HR_TAPS_LOW_BITS));
    return _mm_srai_epi32(low, HR_TAPS_BITS);
}

/* Four output pixels, clamped and closed up. */
SSE41 static inline __attribute__((always_inline)) __m128i
four_pixels(const struct hr__taps *taps, const struct layout *l, int channels,
            int64_t o, const uint8_t *a, int64_t pairs)
{
    __m128i p[4];

    for (int i = 0; i < 4; i++) {
        int64_t at = (int64_t)taps->start[o + i] * channels;

        p[i] = pixel(l, a + at, taps->split + (o + i) * 2 * pairs, pairs);
    }
    return _mm_shuffle_epi8(
        _mm_packus_epi16(_mm_packs_epi32(p[0], p[1]), _mm_packs_epi32(p[2], p[3])),
        l->close);
}

SSE41 static void across_row(const struct hr__taps *taps, int channels,
                             const uint8_t *in, uint8_t *out)
{
    const struct layout l = layout_of(channels);
    int64_t pairs = taps->pairs;
    int64_t count = taps->key.count;
    int64_t o = 0;

    for (; o + 4 <= count; o += 4)
        _mm_storeu_si128((__m128i *)(out + o * channels),
                         four_pixels(taps, &l, channels, o, in, pairs));
    for (; o < count; o++) {
        const uint8_t *at = in + (int64_t)taps->start[o] * channels;
        __m128i v = pixel(&l, at, taps->split + o * 2 * pairs, pairs);

        v = _mm_packus_epi16(_mm_packs_epi32(v, v), v);
        _mm_storeu_si32(out + o * channels, v);
    }
}

static void across_sse41(const struct hr__taps *taps, int channels,
                         const uint8_t *const *in, uint8_t *const *out, int rows)
{
    if (channels < 3) {
        hr__kernels_portable.across(taps, channels, in, out, rows);
        return;
    }
    for (int y = 0; y < rows; y++)
        across_row(taps, channels, in[y], out[y]);
}

/* The sums of 16 neighbouring bytes: unpacking leaves 4 of them in each vector. */
struct sums {
    __m128i low[4];
    __m128i high[4];
};

SSE41 static inline void add_pair(struct sums *s, __m128i a, __m128i b,
                                  const int32_t *split)
{
    const __m128i zero = _mm_setzero_si128();
    const __m128i low = _mm_set1_epi32(split[0]);
    const __m128i high = _mm_set1_epi32(split[1]);
    __m128i ab0 = _mm_unpacklo_epi8(a, b);
    __m128i ab1 = _mm_unpackhi_epi8(a, b);
    __m128i v[4] = {_mm_unpacklo_epi8(ab0, zero), _mm_unpackhi_epi8(ab0, zero),
                    _mm_unpacklo_epi8(ab1, zero), _mm_unpackhi_epi8(ab1, zero)};

    for (int i = 0; i < 4; i++) {
        s->low[i] = _mm_add_epi32(s->low[i], _mm_madd_epi16(v[i], low));
        s->high[i] = _mm_add_epi32(s->high[i], _mm_madd_epi16(v[i], high));
    }
}

SSE41 static inline __m128i finish(const struct sums *s)
{
    __m128i v[4];

    for (int i = 0; i < 4; i++) {
        v[i] = _mm_add_epi32(s->low[i], _mm_slli_epi32(s->high[i], HR_TAPS_LOW_BITS));
        v[i] = _mm_srai_epi32(v[i], HR_TAPS_BITS);
    }
    return _mm_packus_epi16(_mm_packs_epi32(v[0], v[1]), _mm_packs_epi32(v[2], v[3]));
}

SSE41 static void down_sse41(const struct hr__taps *taps, int64_t o,
                             const uint8_t *const *in, uint8_t *out, size_t bytes)
{
    const int32_t *split = taps->split + o * 2 * taps->pairs;
    int64_t pairs = taps->pairs;

    for (size_t x = 0; x < bytes; x += 16) {
        struct sums s;
        __m128i v;

        for (int i = 0; i < 4; i++) {
            s.low[i] = _mm_set1_epi32(HALF);
            s.high[i] = _mm_setzero_si128();
        }
        for (int64_t j = 0; j < pairs; j++)
            add_pair(&s, load(in[2 * j] + x), load(in[2 * j + 1] + x), split + 2 * j);
        v = finish(&s);
        if (bytes - x >= 16) {
            _mm_storeu_si128((__m128i *)(out + x), v);
        } else {
            uint8_t last[16];

            _mm_storeu_si128((__m128i *)last, v);
            memcpy(out + x, last, bytes - x);
        }
    }
}

const struct hr__kernels hr__kernels_sse41 = {"sse4.1", across_sse41, down_sse41,
                                              &hr__plane_kernels_sse41,
                                              &hr__finish_kernels_sse41};
#endif
