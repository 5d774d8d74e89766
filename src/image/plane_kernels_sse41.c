/* From planes to RGB with SSE4.1: the loops of plane_kernels_avx2.c in 128 bits. The
 * essay is there. */
#include "image/plane_kernels.h"

#if defined(__x86_64__)
#include <smmintrin.h>
#include <string.h>

#include "base/banned.h"

#define SSE41 __attribute__((target("sse4.1")))
#define INLINE inline __attribute__((always_inline))
#define DOWN_SHIFT (HR_PLANE_BITS - HR_LEVEL_BITS)
#define COLOUR_SHIFT (HR_MATRIX_BITS + HR_LEVEL_BITS)

SSE41 static INLINE __m128i load(const void *at)
{
    return _mm_loadu_si128((const __m128i *)at);
}

SSE41 static INLINE void store(void *at, __m128i v)
{
    _mm_storeu_si128((__m128i *)at, v);
}

/* Two 16-bit weights in each 32-bit element. */
SSE41 static INLINE __m128i pair(int16_t low, int16_t high)
{
    return _mm_set1_epi32((int32_t)((uint32_t)(uint16_t)high << 16 | (uint16_t)low));
}

/* 16 levels at x. */
SSE41 static INLINE void down_16(const int16_t *weight, int64_t taps,
                                 const uint8_t *const *rows, int16_t *out, size_t x)
{
    const __m128i zero = _mm_setzero_si128();
    __m128i sum[4];

    for (int i = 0; i < 4; i++)
        sum[i] = _mm_set1_epi32(1 << (DOWN_SHIFT - 1));
    for (int64_t j = 0; j < taps; j += 2) {
        __m128i a = load(rows[j] + x);
        __m128i b = load(rows[j + 1] + x);
        __m128i w = pair(weight[j], weight[j + 1]);
        __m128i ab0 = _mm_unpacklo_epi8(a, b);
        __m128i ab1 = _mm_unpackhi_epi8(a, b);
        __m128i v[4] = {_mm_unpacklo_epi8(ab0, zero), _mm_unpackhi_epi8(ab0, zero),
                        _mm_unpacklo_epi8(ab1, zero), _mm_unpackhi_epi8(ab1, zero)};

        for (int i = 0; i < 4; i++)
            sum[i] = _mm_add_epi32(sum[i], _mm_madd_epi16(v[i], w));
    }
    for (int i = 0; i < 4; i++)
        sum[i] = _mm_srai_epi32(sum[i], DOWN_SHIFT);
    store(out + x, _mm_packs_epi32(sum[0], sum[1]));
    store(out + x + 8, _mm_packs_epi32(sum[2], sum[3]));
}

SSE41 static void down_sse41(const int16_t *weight, int64_t taps,
                             const uint8_t *const *rows, int16_t *out, size_t n)
{
    if (n < 16) {
        hr__plane_kernels_portable.down(weight, taps, rows, out, n);
        return;
    }
    for (size_t x = 0; x + 16 <= n; x += 16)
        down_16(weight, taps, rows, out, x);
    if (n % 16 != 0) /* the last block overlaps the one before it */
        down_16(weight, taps, rows, out, n - 16);
}

/* Output o as four partial sums. */
SSE41 static INLINE __m128i one_output(const struct hr__plane_taps *taps,
                                       const int16_t *in, int64_t o)
{
    const int16_t *a = in + taps->start[o];
    const int16_t *w = taps->weight + o * taps->width;
    __m128i sum = _mm_madd_epi16(load(a), load(w));

    for (int64_t i = 8; i < taps->width; i += 8)
        sum = _mm_add_epi32(sum, _mm_madd_epi16(load(a + i), load(w + i)));
    return sum;
}

SSE41 static INLINE void four_outputs(const struct hr__plane_taps *taps,
                                      const int16_t *in, int16_t *out, int64_t o)
{
    __m128i ab = _mm_hadd_epi32(one_output(taps, in, o), one_output(taps, in, o + 1));
    __m128i cd =
        _mm_hadd_epi32(one_output(taps, in, o + 2), one_output(taps, in, o + 3));
    __m128i sum = _mm_hadd_epi32(ab, cd);

    sum = _mm_add_epi32(sum, _mm_set1_epi32(1 << (HR_PLANE_BITS - 1)));
    sum = _mm_srai_epi32(sum, HR_PLANE_BITS);
    _mm_storel_epi64((__m128i *)(out + o), _mm_packs_epi32(sum, sum));
}

SSE41 static void across_sse41(const struct hr__plane_taps *taps, const int16_t *in,
                               int16_t *out)
{
    for (int64_t o = 0; o < taps->key.count; o += 4)
        four_outputs(taps, in, out, o);
}

/* Eight levels of one colour from its products with the low and the high pixels. */
SSE41 static INLINE __m128i close_up(__m128i low, __m128i high, int32_t constant)
{
    const __m128i c = _mm_set1_epi32(constant);

    low = _mm_srai_epi32(_mm_add_epi32(low, c), COLOUR_SHIFT);
    high = _mm_srai_epi32(_mm_add_epi32(high, c), COLOUR_SHIFT);
    return _mm_packs_epi32(low, high);
}

/* Eight pixels as 16-bit levels. */
SSE41 static INLINE void colour_8(const struct hr__matrix *m,
                                  const int16_t *const in[3], size_t x, __m128i rgb[3])
{
    const __m128i green_y_cr = pair(m->y, m->green_cr);
    const __m128i green_cb = pair(0, m->green_cb);
    const __m128i red = pair(m->y, m->red_cr);
    const __m128i blue = pair(m->y, m->blue_cb);
    __m128i y = load(in[0] + x);
    __m128i cb = load(in[1] + x);
    __m128i cr = load(in[2] + x);
    __m128i ycr[2] = {_mm_unpacklo_epi16(y, cr), _mm_unpackhi_epi16(y, cr)};
    __m128i ycb[2] = {_mm_unpacklo_epi16(y, cb), _mm_unpackhi_epi16(y, cb)};
    __m128i green[2];

    for (int i = 0; i < 2; i++)
        green[i] = _mm_add_epi32(_mm_madd_epi16(ycr[i], green_y_cr),
                                 _mm_madd_epi16(ycb[i], green_cb));
    rgb[0] = close_up(_mm_madd_epi16(ycr[0], red), _mm_madd_epi16(ycr[1], red),
                      m->constant[0]);
    rgb[1] = close_up(green[0], green[1], m->constant[1]);
    rgb[2] = close_up(_mm_madd_epi16(ycb[0], blue), _mm_madd_epi16(ycb[1], blue),
                      m->constant[2]);
}

SSE41 static void colour_sse41(const struct hr__matrix *m, const int16_t *const in[3],
                               uint8_t *const out[3], size_t n)
{
    for (size_t x = 0; x < n; x += 16) {
        __m128i first[3];
        __m128i second[3];

        colour_8(m, in, x, first);
        colour_8(m, in, x + 8, second);
        for (int c = 0; c < 3; c++) {
            __m128i v = _mm_packus_epi16(first[c], second[c]);

            if (n - x >= 16) {
                store(out[c] + x, v);
            } else {
                uint8_t last[16];

                store(last, v);
                memcpy(out[c] + x, last, n - x);
            }
        }
    }
}

const struct hr__plane_kernels hr__plane_kernels_sse41 = {down_sse41, across_sse41,
                                                          colour_sse41};
#endif
