/* The inverse DCT for AVX2: two blocks at once, one in each 128-bit lane.
 *
 * A register holds a row of both blocks, so the pass over columns runs down the
 * registers: pairs of rows are interleaved and multiplied by pairs of constants
 * (pmaddwd), with 32-bit sums. All of the transform is such sums, and nothing but them is
 * rounded, so any order gives libjpeg's values. Then the lanes are transposed and the
 * same is done again; packing the result to bytes transposes it back.
 *
 * Coefficients are zeroed as soon as they are read: they are in the cache just then. */
#include "image/baseline_idct.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include "base/banned.h"

#define AVX2 __attribute__((target("avx2")))
#define INLINE inline __attribute__((always_inline))
/* Arrays of registers must not be arrays in memory, whatever the optimisation level. */
#define UNROLLED _Pragma("GCC unroll 8")

/* Two 16-bit constants for pmaddwd with an interleaved pair of rows. */
AVX2 static INLINE __m256i pair(int a, int b)
{
    return _mm256_set1_epi32((int)((unsigned)(a & 0xffff) | (unsigned)b << 16));
}

/* 32-bit sums of eight columns: the lower and the upper four of each lane. */
struct wide {
    __m256i lo;
    __m256i hi;
};

/* Rows a and b interleaved. */
AVX2 static INLINE struct wide interleave(__m256i a, __m256i b)
{
    return (struct wide){_mm256_unpacklo_epi16(a, b), _mm256_unpackhi_epi16(a, b)};
}

AVX2 static INLINE struct wide times(struct wide rows, __m256i constants)
{
    return (struct wide){_mm256_madd_epi16(rows.lo, constants),
                         _mm256_madd_epi16(rows.hi, constants)};
}

AVX2 static INLINE struct wide add(struct wide a, struct wide b)
{
    return (struct wide){_mm256_add_epi32(a.lo, b.lo), _mm256_add_epi32(a.hi, b.hi)};
}

AVX2 static INLINE struct wide subtract(struct wide a, struct wide b)
{
    return (struct wide){_mm256_sub_epi32(a.lo, b.lo), _mm256_sub_epi32(a.hi, b.hi)};
}

AVX2 static INLINE __m256i descale(struct wide x, int bits)
{
    return _mm256_packs_epi32(_mm256_srai_epi32(x.lo, bits),
                              _mm256_srai_epi32(x.hi, bits));
}

/* Outputs k and 7 - k: even (which has the rounding in it) plus and minus odd. */
#define PUT(k, even)                                                                   \
    do {                                                                               \
        struct wide odd =                                                              \
            add(times(in13, pair(hr__idct_odd[0][k], hr__idct_odd[1][k])),             \
                times(in57, pair(hr__idct_odd[2][k], hr__idct_odd[3][k])));            \
                                                                                       \
        row[k] = descale(add(even, odd), bits);                                        \
        row[7 - (k)] = descale(subtract(even, odd), bits);                             \
    } while (0)

/* One pass down the registers; `bits` are shifted out with rounding. */
AVX2 static INLINE void pass(__m256i row[8], const int bits)
{
    const __m256i half = _mm256_set1_epi32(1 << (bits - 1));
    struct wide in04 = interleave(row[0], row[4]);
    struct wide in26 = interleave(row[2], row[6]);
    struct wide in13 = interleave(row[1], row[3]);
    struct wide in57 = interleave(row[5], row[7]);
    struct wide rounding = {half, half};
    struct wide sum = add(times(in04, pair(8192, 8192)), rounding);
    struct wide difference = add(times(in04, pair(8192, -8192)), rounding);
    struct wide outer = times(in26, pair(10703, 4433));
    struct wide inner = times(in26, pair(4433, -10704));

    PUT(0, add(sum, outer));
    PUT(1, add(difference, inner));
    PUT(2, subtract(difference, inner));
    PUT(3, subtract(sum, outer));
}

/* Transpose the 8 x 8 values of each lane. */
AVX2 static INLINE void transpose(__m256i row[8])
{
    __m256i a[8];
    __m256i b[8];

    UNROLLED
    for (size_t i = 0; i < 4; i++) {
        a[2 * i] = _mm256_unpacklo_epi16(row[2 * i], row[2 * i + 1]);
        a[2 * i + 1] = _mm256_unpackhi_epi16(row[2 * i], row[2 * i + 1]);
    }
    UNROLLED
    for (size_t i = 0; i < 2; i++) {
        b[4 * i] = _mm256_unpacklo_epi32(a[4 * i], a[4 * i + 2]);
        b[4 * i + 1] = _mm256_unpackhi_epi32(a[4 * i], a[4 * i + 2]);
        b[4 * i + 2] = _mm256_unpacklo_epi32(a[4 * i + 1], a[4 * i + 3]);
        b[4 * i + 3] = _mm256_unpackhi_epi32(a[4 * i + 1], a[4 * i + 3]);
    }
    UNROLLED
    for (size_t i = 0; i < 4; i++) {
        row[2 * i] = _mm256_unpacklo_epi64(b[i], b[i + 4]);
        row[2 * i + 1] = _mm256_unpackhi_epi64(b[i], b[i + 4]);
    }
}

/* Dequantise the rows of two blocks. What exceeds a limit is or'ed up in the result. */
AVX2 static INLINE __m256i load(int16_t *const block[2],
                                const struct hr__dequant *dequant, __m256i row[8])
{
    __m256i beyond = _mm256_setzero_si256();

    UNROLLED
    for (size_t i = 0; i < 8; i++) {
        const __m128i *q = (const __m128i *)(const void *)(dequant->factor + 8 * i);
        const __m128i *l = (const __m128i *)(const void *)(dequant->limit + 8 * i);
        __m128i *a = (__m128i *)(void *)(block[0] + 8 * i);
        __m128i *b = (__m128i *)(void *)(block[1] + 8 * i);
        __m256i both = _mm256_inserti128_si256(
            _mm256_castsi128_si256(_mm_load_si128(a)), _mm_load_si128(b), 1);

        beyond = _mm256_or_si256(
            beyond, _mm256_subs_epu16(_mm256_abs_epi16(both),
                                      _mm256_broadcastsi128_si256(_mm_loadu_si128(l))));
        row[i] =
            _mm256_mullo_epi16(both, _mm256_broadcastsi128_si256(_mm_loadu_si128(q)));
    }
    return beyond;
}

AVX2 static INLINE void clear(int16_t *const block[2])
{
    UNROLLED
    for (size_t k = 0; k < 2; k++)
        UNROLLED
    for (size_t i = 0; i < 4; i++)
        _mm256_store_si256((__m256i *)(void *)(block[k] + 16 * i),
                           _mm256_setzero_si256());
}

/* row[x] holds column x of the output; write it as 8 rows of 16 bytes. */
AVX2 static INLINE void store(const __m256i row[8], uint8_t *const *rows, size_t x)
{
    const __m256i centre = _mm256_set1_epi8((char)0x80);
    __m256i a[4];
    __m256i b[4];
    __m256i c[4];

    UNROLLED
    for (size_t i = 0; i < 4; i++)
        a[i] = _mm256_packs_epi16(row[i], row[i + 4]);
    UNROLLED
    for (size_t i = 0; i < 2; i++) {
        b[i] = _mm256_unpacklo_epi8(a[2 * i], a[2 * i + 1]);     /* columns 0 … 3 */
        b[i + 2] = _mm256_unpackhi_epi8(a[2 * i], a[2 * i + 1]); /* columns 4 … 7 */
    }
    UNROLLED
    for (size_t i = 0; i < 2; i++) {
        c[2 * i] = _mm256_unpacklo_epi16(b[2 * i], b[2 * i + 1]);
        c[2 * i + 1] = _mm256_unpackhi_epi16(b[2 * i], b[2 * i + 1]);
    }
    UNROLLED
    for (size_t i = 0; i < 4; i++) {
        __m256i two = i & 1 ? _mm256_unpackhi_epi32(c[i / 2], c[i / 2 + 2])
                            : _mm256_unpacklo_epi32(c[i / 2], c[i / 2 + 2]);

        two = _mm256_add_epi8(_mm256_permute4x64_epi64(two, 0xd8), centre);
        _mm_storeu_si128((__m128i *)(void *)(rows[2 * i] + x),
                         _mm256_castsi256_si128(two));
        _mm_storeu_si128((__m128i *)(void *)(rows[2 * i + 1] + x),
                         _mm256_extracti128_si256(two, 1));
    }
}

AVX2 static INLINE bool transform(int16_t *const block[2],
                                  const struct hr__dequant *dequant,
                                  uint8_t *const *rows, size_t x)
{
    __m256i row[8];
    __m256i beyond = load(block, dequant, row);

    if (__builtin_expect(!_mm256_testz_si256(beyond, beyond), 0) &&
        !(hr__idct_within_range(block[0], dequant) &&
          hr__idct_within_range(block[1], dequant)))
        return false;
    clear(block);
    pass(row, 11);
    transpose(row);
    pass(row, 18);
    store(row, rows, x);
    return true;
}

AVX2 bool hr__baseline_idct_avx2(int16_t *const *block, int n,
                                 const struct hr__dequant *dequant,
                                 uint8_t *const *rows, size_t x)
{
    _Alignas(32) int16_t none[64] = {0}; /* beside an odd one out */

    for (int i = 0; i < n; i += 2, x += 16) {
        int16_t *two[2] = {block[i], i + 1 < n ? block[i + 1] : none};

        if (!transform(two, dequant, rows, x))
            return false;
    }
    return true;
}
#endif
