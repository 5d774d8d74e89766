/* The inverse DCT for AVX2: two blocks at once, one in each 128-bit lane.
 *
 * A register holds a row of both blocks, so the pass over columns runs down the
 * registers: pairs of rows are interleaved and multiplied by pairs of constants
 * (pmaddwd), with 32-bit sums. All of the transform is such sums, and nothing but them is
 * rounded, so any order gives libjpeg's values. Then the lanes are transposed and the
 * same is done again; packing the result to bytes transposes it back.
 *
 * Most blocks of chroma, and every sixth pair of luma at quality 90, have coefficients in
 * the upper left quarter only. They take half of the work: of the first pass only half of
 * the columns, of both half of the inputs.
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

/* Bits that a pass shifts out, and what it adds before: for rounding, and in the second
 * pass the 128 that samples are above 0. */
#define BITS_1 11
#define BITS_2 18
#define ROUND_1 (1 << (BITS_1 - 1))
#define ROUND_2 ((1 << (BITS_2 - 1)) + (128 << BITS_2))

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

/* One pass down the registers. */
AVX2 static INLINE void pass(__m256i row[8], const int bits, const int round)
{
    const __m256i half = _mm256_set1_epi32(round);
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

/* ---- blocks of which only the upper left quarter is not 0 ---- */

/* What inputs 0 and 2 give to even output k. */
static const int16_t even_corner[4] = {10703, 4433, -4433, -10703};

/* The first pass over columns 0 … 3, from rows 0 … 3; line[i] has rows 2 * i and 2 * i + 1
 * of these. */
AVX2 static INLINE void corner_pass_1(const __m256i row[4], __m256i line[4])
{
    const __m256i half = _mm256_set1_epi32(ROUND_1);
    __m256i in02 = _mm256_unpacklo_epi16(row[0], row[2]);
    __m256i in13 = _mm256_unpacklo_epi16(row[1], row[3]);
    __m256i out[8];

    UNROLLED
    for (size_t k = 0; k < 4; k++) {
        __m256i even =
            _mm256_add_epi32(_mm256_madd_epi16(in02, pair(8192, even_corner[k])), half);
        __m256i odd =
            _mm256_madd_epi16(in13, pair(hr__idct_odd[0][k], hr__idct_odd[1][k]));

        out[k] = _mm256_srai_epi32(_mm256_add_epi32(even, odd), BITS_1);
        out[7 - k] = _mm256_srai_epi32(_mm256_sub_epi32(even, odd), BITS_1);
    }
    UNROLLED
    for (size_t i = 0; i < 4; i++)
        line[i] = _mm256_packs_epi32(out[2 * i], out[2 * i + 1]);
}

/* The second pass: row[x] gets column x of the output. */
AVX2 static INLINE void corner_pass_2(const __m256i line[4], __m256i row[8])
{
    const __m256i half = _mm256_set1_epi32(ROUND_2);
    /* columns 0 and 2 of both rows, then 1 and 3 */
    const __m256i order = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15));
    struct wide rounding = {half, half};
    __m256i pairs[4];
    struct wide in02;
    struct wide in13;

    UNROLLED
    for (size_t i = 0; i < 4; i++)
        pairs[i] = _mm256_shuffle_epi8(line[i], order);
    in02.lo = _mm256_unpacklo_epi64(pairs[0], pairs[1]);
    in02.hi = _mm256_unpacklo_epi64(pairs[2], pairs[3]);
    in13.lo = _mm256_unpackhi_epi64(pairs[0], pairs[1]);
    in13.hi = _mm256_unpackhi_epi64(pairs[2], pairs[3]);
    UNROLLED
    for (size_t k = 0; k < 4; k++) {
        struct wide even = add(times(in02, pair(8192, even_corner[k])), rounding);
        struct wide odd = times(in13, pair(hr__idct_odd[0][k], hr__idct_odd[1][k]));

        row[k] = descale(add(even, odd), BITS_2);
        row[7 - k] = descale(subtract(even, odd), BITS_2);
    }
}

/* ---- in and out ---- */

/* The rows of two blocks. */
AVX2 static INLINE void load(int16_t *const block[2], __m256i row[8])
{
    UNROLLED
    for (size_t i = 0; i < 8; i++) {
        __m128i *a = (__m128i *)(void *)(block[0] + 8 * i);
        __m128i *b = (__m128i *)(void *)(block[1] + 8 * i);

        row[i] = _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_load_si128(a)),
                                         _mm_load_si128(b), 1);
    }
}

AVX2 static INLINE void dequantise(__m256i *row, size_t n,
                                   const struct hr__dequant *dequant)
{
    UNROLLED
    for (size_t i = 0; i < n; i++)
        row[i] = _mm256_mullo_epi16(
            row[i],
            _mm256_loadu_si256((const __m256i *)(const void *)dequant->factor[i]));
}

/* Is nothing but the upper left quarter of the blocks other than 0? */
AVX2 static INLINE bool is_corner(const __m256i row[8])
{
    const __m256i right = _mm256_setr_epi32(0, 0, -1, -1, 0, 0, -1, -1);
    __m256i upper = _mm256_or_si256(_mm256_or_si256(row[0], row[1]),
                                    _mm256_or_si256(row[2], row[3]));
    __m256i lower = _mm256_or_si256(_mm256_or_si256(row[4], row[5]),
                                    _mm256_or_si256(row[6], row[7]));
    __m256i others = _mm256_or_si256(_mm256_and_si256(upper, right), lower);

    return _mm256_testz_si256(others, others);
}

AVX2 static INLINE __m256i magnitudes(const __m256i *row, size_t n)
{
    __m256i all = _mm256_setzero_si256();

    UNROLLED
    for (size_t i = 0; i < n; i++)
        all = _mm256_or_si256(all, _mm256_abs_epi16(row[i]));
    return all;
}

/* Have the results of the first pass 15 bits? */
AVX2 static INLINE bool is_middling(const __m256i *row, size_t n)
{
    const __m256i beyond = _mm256_set1_epi16((short)~HR_IDCT_MIDDLE_MAX);

    return _mm256_testz_si256(magnitudes(row, n), beyond);
}

/* Do the products with the quantisation fit into 16 bits? */
AVX2 static INLINE bool fits(int16_t *const block[2], const __m256i row[8],
                             const struct hr__dequant *dequant)
{
    /* without DC */
    const __m256i ac =
        _mm256_setr_epi16(0, -1, -1, -1, -1, -1, -1, -1, 0, -1, -1, -1, -1, -1, -1, -1);
    __m256i large = _mm256_set1_epi16((short)dequant->large);
    __m256i all = _mm256_or_si256(magnitudes(row + 1, 7),
                                  _mm256_abs_epi16(_mm256_and_si256(row[0], ac)));

    return _mm256_testz_si256(all, large) ||
           (hr__idct_fits(block[0], dequant) && hr__idct_fits(block[1], dequant));
}

AVX2 static INLINE void clear(int16_t *const block[2], size_t rows)
{
    UNROLLED
    for (size_t k = 0; k < 2; k++)
        UNROLLED
    for (size_t i = 0; i < rows / 2; i++)
        _mm256_store_si256((__m256i *)(void *)(block[k] + 16 * i),
                           _mm256_setzero_si256());
}

/* row[x] holds column x of the output; write it as 8 rows of 16 bytes. */
AVX2 static INLINE void store(const __m256i row[8], uint8_t *const *rows, size_t x)
{
    __m256i a[4];
    __m256i b[4];
    __m256i c[4];

    UNROLLED
    for (size_t i = 0; i < 4; i++)
        a[i] = _mm256_packus_epi16(row[i], row[i + 4]);
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

        two = _mm256_permute4x64_epi64(two, 0xd8);
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
    __m256i line[4];

    load(block, row);
    if (dequant->large != 0 && !fits(block, row, dequant))
        return false;
    if (is_corner(row)) {
        dequantise(row, 4, dequant);
        corner_pass_1(row, line);
        if (!is_middling(line, 4))
            return false;
        clear(block, 4);
        corner_pass_2(line, row);
    } else {
        dequantise(row, 8, dequant);
        pass(row, BITS_1, ROUND_1);
        if (!is_middling(row, 8))
            return false;
        clear(block, 8);
        transpose(row);
        pass(row, BITS_2, ROUND_2);
    }
    store(row, rows, x);
    return true;
}

AVX2 bool hr__baseline_idct_avx2(struct hr__idct_blocks blocks,
                                 const struct hr__dequant *dequant,
                                 uint8_t *const *rows, size_t x)
{
    _Alignas(32) int16_t none[64] = {0}; /* beside an odd one out */
    int16_t *pair = blocks.coef;

    for (int i = 0; i < blocks.n; i += 2, x += 16) {
        int16_t *two[2] = {pair, i + 1 < blocks.n ? pair + blocks.second : none};

        if (!transform(two, dequant, rows, x))
            return false;
        pair += blocks.next[i >> 1 & 1];
    }
    return true;
}
#endif
