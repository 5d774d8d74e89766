/* From planes to RGB with AVX2.
 *
 * All sums are made by pmaddwd, two products of 16-bit numbers at a time:
 *
 *     down    the samples of two rows are interleaved into pairs, as in kernels_avx2.c;
 *             weights of 14 bits need one pmaddwd where those of 22 need two
 *     across  eight neighbouring levels by eight weights, in each 128-bit lane for
 *             another output; the four sums of four such products are then added up
 *             crosswise, which leaves eight outputs in order:
 *
 *                 outputs 0 | 4      a0 a1 a2 a3 | e0 e1 e2 e3   \
 *                         1 | 5      b0 b1 b2 b3 | f0 f1 f2 f3    \  unpacked and added
 *                         2 | 6      c0 c1 c2 c3 | g0 g1 g2 g3    /  twice: a b c d | e ...
 *                         3 | 7      d0 d1 d2 d3 | h0 h1 h2 h3   /
 *
 *             (phaddd does the same, but its shuffles have one port where these have two)
 *
 *     colour  pairs of Y and Cr, and of Y and Cb */
#include "image/plane_kernels.h"

#if defined(__x86_64__)
#include <immintrin.h>
#include <string.h>

#include "base/banned.h"

#define AVX2 __attribute__((target("avx2")))
#define INLINE inline __attribute__((always_inline))
#define DOWN_SHIFT (HR_PLANE_BITS - HR_LEVEL_BITS)
#define COLOUR_SHIFT (HR_MATRIX_BITS + HR_LEVEL_BITS)

AVX2 static INLINE __m256i load(const void *at)
{
    return _mm256_loadu_si256((const __m256i *)at);
}

AVX2 static INLINE void store(void *at, __m256i v)
{
    _mm256_storeu_si256((__m256i *)at, v);
}

/* Two 16-bit weights in each 32-bit element. */
AVX2 static INLINE __m256i pair(int16_t low, int16_t high)
{
    return _mm256_set1_epi32((int32_t)((uint32_t)(uint16_t)high << 16 | (uint16_t)low));
}

/* 32 levels at x. */
AVX2 static INLINE void down_32(const int16_t *weight, int64_t taps,
                                const uint8_t *const *rows, int16_t *restrict out,
                                size_t x)
{
    const __m256i zero = _mm256_setzero_si256();
    __m256i sum[4];

    for (int i = 0; i < 4; i++)
        sum[i] = _mm256_set1_epi32(1 << (DOWN_SHIFT - 1));
    for (int64_t j = 0; j < taps; j += 2) {
        __m256i a = load(rows[j] + x);
        __m256i b = load(rows[j + 1] + x);
        __m256i w = pair(weight[j], weight[j + 1]);
        __m256i ab0 = _mm256_unpacklo_epi8(a, b);
        __m256i ab1 = _mm256_unpackhi_epi8(a, b);
        __m256i v[4] = {
            _mm256_unpacklo_epi8(ab0, zero), _mm256_unpackhi_epi8(ab0, zero),
            _mm256_unpacklo_epi8(ab1, zero), _mm256_unpackhi_epi8(ab1, zero)};

        for (int i = 0; i < 4; i++)
            sum[i] = _mm256_add_epi32(sum[i], _mm256_madd_epi16(v[i], w));
    }
    for (int i = 0; i < 4; i++)
        sum[i] = _mm256_srai_epi32(sum[i], DOWN_SHIFT);
    sum[0] = _mm256_packs_epi32(sum[0], sum[1]); /* samples 0 … 7 | 16 … 23 */
    sum[2] = _mm256_packs_epi32(sum[2], sum[3]); /* 8 … 15 | 24 … 31 */
    store(out + x, _mm256_permute2x128_si256(sum[0], sum[2], 0x20));
    store(out + x + 16, _mm256_permute2x128_si256(sum[0], sum[2], 0x31));
}

AVX2 static INLINE void down_all(const int16_t *weight, int64_t taps,
                                 const uint8_t *const *rows, int16_t *restrict out,
                                 size_t n)
{
    for (size_t x = 0; x + 32 <= n; x += 32)
        down_32(weight, taps, rows, out, x);
    if (n % 32 != 0) /* the last block overlaps the one before it */
        down_32(weight, taps, rows, out, n - 32);
}

/* The common lengths are constants, so that their loops are unrolled. */
AVX2 static void down_avx2(const int16_t *weight, int64_t taps,
                           const uint8_t *const *rows, int16_t *out, size_t n)
{
    if (n < 32)
        hr__plane_kernels_portable.down(weight, taps, rows, out, n);
    else if (taps == 2)
        down_all(weight, 2, rows, out, n);
    else if (taps == 4)
        down_all(weight, 4, rows, out, n);
    else if (taps == 6)
        down_all(weight, 6, rows, out, n);
    else if (taps == 8)
        down_all(weight, 8, rows, out, n);
    else
        down_all(weight, taps, rows, out, n);
}

AVX2 static INLINE __m256i two(const int16_t *a, const int16_t *b)
{
    __m256i low = _mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)a));

    return _mm256_inserti128_si256(low, _mm_loadu_si128((const __m128i *)b), 1);
}

/* Outputs o and o + 4, each as four partial sums. w: the weights of both, paired. */
AVX2 static INLINE __m256i two_outputs(const int32_t *start, const int16_t *in,
                                       const int16_t *w, int64_t width)
{
    const int16_t *a = in + start[0];
    const int16_t *b = in + start[4];
    __m256i sum = _mm256_madd_epi16(two(a, b), load(w));

    for (int64_t i = 8; i < width; i += 8)
        sum = _mm256_add_epi32(sum,
                               _mm256_madd_epi16(two(a + i, b + i), load(w + 2 * i)));
    return sum;
}

/* a0+a2 b0+b2 a1+a3 b1+b3 of a and b. */
AVX2 static INLINE __m256i add_halves(__m256i a, __m256i b)
{
    return _mm256_add_epi32(_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b));
}

/* Eight outputs in order, as 32-bit levels. */
AVX2 static INLINE __m256i eight_outputs(const struct hr__plane_taps *taps,
                                         const int16_t *in, int64_t o, int64_t width)
{
    const int32_t *start = taps->start + o;
    const int16_t *w = taps->paired + o * width;
    __m256i ab = add_halves(two_outputs(start, in, w, width),
                            two_outputs(start + 1, in, w + 2 * width, width));
    __m256i cd = add_halves(two_outputs(start + 2, in, w + 4 * width, width),
                            two_outputs(start + 3, in, w + 6 * width, width));
    __m256i sum =
        _mm256_add_epi32(_mm256_unpacklo_epi64(ab, cd), _mm256_unpackhi_epi64(ab, cd));

    sum = _mm256_add_epi32(sum, _mm256_set1_epi32(1 << (HR_PLANE_BITS - 1)));
    return _mm256_srai_epi32(sum, HR_PLANE_BITS);
}

AVX2 static INLINE void across_all(const struct hr__plane_taps *taps, const int16_t *in,
                                   int16_t *restrict out, int64_t width)
{
    int64_t o = 0;

    for (; o + 8 < taps->key.count; o += 16) {
        __m256i v = _mm256_packs_epi32(eight_outputs(taps, in, o, width),
                                       eight_outputs(taps, in, o + 8, width));

        store(out + o, _mm256_permute4x64_epi64(v, 0xd8));
    }
    if (o < taps->key.count) {
        __m256i v = eight_outputs(taps, in, o, width);

        v = _mm256_permute4x64_epi64(_mm256_packs_epi32(v, v), 0xd8);
        _mm_storeu_si128((__m128i *)(out + o), _mm256_castsi256_si128(v));
    }
}

AVX2 static void across_avx2(const struct hr__plane_taps *taps, const int16_t *in,
                             int16_t *out)
{
    if (taps->width == 8)
        across_all(taps, in, out, 8);
    else if (taps->width == 16)
        across_all(taps, in, out, 16);
    else
        across_all(taps, in, out, taps->width);
}

/* The matrix spread out, once per row. */
struct spread {
    __m256i red;        /* of pairs (Y, Cr) */
    __m256i blue;       /* of pairs (Y, Cb) */
    __m256i green_y_cr; /* of pairs (Y, Cr) */
    __m256i green_cb;   /* of pairs (Y, Cb) */
    __m256i constant[3];
};

AVX2 static INLINE struct spread spread_matrix(const struct hr__matrix *m)
{
    struct spread s = {
        .red = pair(m->y, m->red_cr),
        .blue = pair(m->y, m->blue_cb),
        .green_y_cr = pair(m->y, m->green_cr),
        .green_cb = pair(0, m->green_cb),
    };

    for (int i = 0; i < 3; i++)
        s.constant[i] = _mm256_set1_epi32(m->constant[i]);
    return s;
}

AVX2 static INLINE __m256i close_up(__m256i low, __m256i high, __m256i constant)
{
    low = _mm256_srai_epi32(_mm256_add_epi32(low, constant), COLOUR_SHIFT);
    high = _mm256_srai_epi32(_mm256_add_epi32(high, constant), COLOUR_SHIFT);
    return _mm256_packs_epi32(low, high);
}

/* 16 pixels as 16-bit levels, in order. */
AVX2 static INLINE void colour_16(const struct spread *s, const int16_t *const in[3],
                                  size_t x, __m256i rgb[3])
{
    __m256i y = load(in[0] + x);
    __m256i cb = load(in[1] + x);
    __m256i cr = load(in[2] + x);
    __m256i ycr[2] = {_mm256_unpacklo_epi16(y, cr), _mm256_unpackhi_epi16(y, cr)};
    __m256i ycb[2] = {_mm256_unpacklo_epi16(y, cb), _mm256_unpackhi_epi16(y, cb)};
    __m256i green[2];

    for (int i = 0; i < 2; i++)
        green[i] = _mm256_add_epi32(_mm256_madd_epi16(ycr[i], s->green_y_cr),
                                    _mm256_madd_epi16(ycb[i], s->green_cb));
    rgb[0] = close_up(_mm256_madd_epi16(ycr[0], s->red),
                      _mm256_madd_epi16(ycr[1], s->red), s->constant[0]);
    rgb[1] = close_up(green[0], green[1], s->constant[1]);
    rgb[2] = close_up(_mm256_madd_epi16(ycb[0], s->blue),
                      _mm256_madd_epi16(ycb[1], s->blue), s->constant[2]);
}

AVX2 static void colour_avx2(const struct hr__matrix *m, const int16_t *const in[3],
                             uint8_t *const out[3], size_t n)
{
    const struct spread s = spread_matrix(m);

    for (size_t x = 0; x < n; x += 32) {
        __m256i first[3];
        __m256i second[3];

        colour_16(&s, in, x, first);
        colour_16(&s, in, x + 16, second);
        for (int c = 0; c < 3; c++) {
            __m256i v = _mm256_permute4x64_epi64(
                _mm256_packus_epi16(first[c], second[c]), 0xd8);

            if (n - x >= 32) {
                store(out[c] + x, v);
            } else {
                uint8_t last[32];

                store(last, v);
                memcpy(out[c] + x, last, n - x);
            }
        }
    }
}

const struct hr__plane_kernels hr__plane_kernels_avx2 = {down_avx2, across_avx2,
                                                         colour_avx2};
#endif
