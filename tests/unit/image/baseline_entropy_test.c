/* The entropy decoder alone: blocks written bit by bit with Huffman codes of all shapes,
 * by the rules of ITU-T T.81, and read back by both variants. */
#include <stdlib.h>

#include "hr_test.h"
#include "image/baseline.h"
#include "image/baseline_entropy.h"
#include "pictures.h"

#define BLOCKS HR_MCU_BLOCKS
#define MCUS 12
/* A symbol takes 31 bits at most. */
#define DATA_BYTES (MCUS * BLOCKS * 64 * 4)

static uint32_t seed = 1;

static unsigned below(unsigned n)
{
    return next_random(&seed) % n;
}

/* ---- codes ---- */

struct code {
    uint8_t dht[16 + 256]; /* as a file has it */
    unsigned symbols;
    unsigned length[256]; /* of a symbol's code; 0: it has none */
    unsigned bits[256];
};

/* Lengths for n symbols, by chance, that leave the code of all ones free. `steep`: a code
 * of each length, as long as that goes. */
static void choose_lengths(struct code *code, unsigned n, bool steep)
{
    unsigned nodes = 1;

    for (unsigned l = 1; l <= 16; l++) {
        unsigned most;
        unsigned count;

        nodes *= 2;
        /* what is left must hold the other symbols, and one more */
        for (most = 0; most < n && most + 1 < nodes; most++)
            if ((nodes - most - 1) << (16 - l) < n - most)
                break;
        count = steep ? most > 0 : below(most + 1);
        if (l == 16)
            count = n;
        code->dht[l - 1] = (uint8_t)count;
        nodes -= count;
        n -= count;
    }
}

/* Codes for these symbols in an order by chance, but for the first one. */
static void make_code(struct code *code, const uint8_t *symbols, unsigned n, bool steep)
{
    unsigned next = 0;
    unsigned at = 0;

    memset(code, 0, sizeof(*code));
    code->symbols = n;
    memcpy(code->dht + 16, symbols, n);
    for (unsigned i = n - 1; i > 1; i--) {
        unsigned k = 1 + below(i);
        uint8_t other = code->dht[16 + k];

        code->dht[16 + k] = code->dht[16 + i];
        code->dht[16 + i] = other;
    }
    choose_lengths(code, n, steep);
    for (unsigned l = 1; l <= 16; l++, next <<= 1)
        for (unsigned i = 0; i < code->dht[l - 1]; i++, at++, next++) {
            code->length[code->dht[16 + at]] = l;
            code->bits[code->dht[16 + at]] = next;
        }
}

static void make_codes(struct code *dc, struct code *ac)
{
    static const uint8_t frequent[] = {0x00, 0xf0, 0x01, 0x08, 0x37, 0x0a};
    uint8_t symbols[256] = {0x00, 0xf0};
    unsigned n = 2;
    bool steep = below(2);
    unsigned first = frequent[below(sizeof(frequent))];

    for (unsigned run = 0; run < 16; run++)
        for (unsigned size = 1; size <= 10; size++)
            symbols[n++] = (uint8_t)(run << 4 | size);
    for (unsigned i = 0; i < n; i++)
        if (symbols[i] == first) {
            symbols[i] = symbols[0];
            symbols[0] = (uint8_t)first;
        }
    make_code(ac, symbols, n, steep);
    for (unsigned size = 0; size < 12; size++)
        symbols[size] = (uint8_t)((size + first) % 12);
    make_code(dc, symbols, 12, steep);
}

/* ---- writing ---- */

static uint8_t data[DATA_BYTES + HR_SEGMENT_SLACK];
static size_t bits_written;

static void write_bits(unsigned value, unsigned n)
{
    while (n-- > 0) {
        if (value >> n & 1)
            data[bits_written / 8] |= (uint8_t)(0x80 >> bits_written % 8);
        bits_written++;
    }
}

static void write_symbol(const struct code *code, unsigned symbol)
{
    write_bits(code->bits[symbol], code->length[symbol]);
}

static unsigned size_of(int value)
{
    unsigned size = 0;

    for (unsigned magnitude = (unsigned)abs(value); magnitude > 0; magnitude >>= 1)
        size++;
    return size;
}

static void write_value(const struct code *code, unsigned run, int value)
{
    unsigned size = size_of(value);

    write_symbol(code, run << 4 | size);
    write_bits((unsigned)(value < 0 ? value + (1 << size) - 1 : value), size);
}

/* 64 coefficients in the order of the scan. */
static void write_block(const int16_t *scan, const struct code *dc,
                        const struct code *ac)
{
    unsigned run = 0;

    write_value(dc, 0, scan[0]);
    for (int k = 1; k < 64; k++) {
        if (scan[k] == 0) {
            run++;
            continue;
        }
        for (; run > 15; run -= 16)
            write_symbol(ac, 0xf0);
        write_value(ac, run, scan[k]);
        run = 0;
    }
    if (run > 0)
        write_symbol(ac, 0x00);
}

/* ---- blocks ---- */

static int value_of(unsigned size)
{
    int magnitude = (int)(1U << (size - 1) | below(1U << (size - 1)));

    return below(2) ? magnitude : -magnitude;
}

enum kind { EMPTY, SPARSE, DENSE, LARGE, EIGHT_BITS, LAST_ALONE, KINDS };

static void make_block(enum kind kind, int16_t *scan)
{
    unsigned size = below(12);

    memset(scan, 0, 64 * sizeof(*scan));
    scan[0] = (int16_t)(size > 0 ? value_of(size) : 0);
    for (int k = 1; k < 64; k++)
        if (kind == EIGHT_BITS)
            scan[k] = (int16_t)value_of(8);
        else if (kind == LARGE || kind == DENSE)
            scan[k] = (int16_t)value_of(1 + below(kind == LARGE ? 10 : 3));
        else if (kind == SPARSE && below(9) == 0)
            scan[k] = (int16_t)value_of(1 + below(5));
    if (kind == LAST_ALONE)
        scan[63] = 1;
}

/* ---- round trips ---- */

static struct hr__baseline_mcu mcu;
static struct hr__codes tables[3];
static struct code dc_codes[3];
static struct code ac_codes[3];
static int16_t want[MCUS * BLOCKS * 64];
static int16_t got[MCUS * BLOCKS * 64];

/* One to three groups, each with tables of its own. */
static void plan(void)
{
    mcu.groups = 1 + (int)below(3);
    mcu.blocks = 0;
    for (int g = 0; g < mcu.groups; g++) {
        int most = (int)(BLOCKS - mcu.blocks) - (mcu.groups - 1 - g);
        int blocks = 1 + (int)below(HR_GROUP_BLOCKS);
        struct hr__baseline_dht dc = {dc_codes[g].dht, 0};
        struct hr__baseline_dht ac = {ac_codes[g].dht, 0};

        make_codes(&dc_codes[g], &ac_codes[g]);
        dc.symbols = dc_codes[g].symbols;
        ac.symbols = ac_codes[g].symbols;
        HR_REQUIRE(hr__codes_build(&tables[g], &dc, &ac));
        if (below(4) > 0)
            hr__codes_pair(&tables[g]);
        mcu.group[g].codes = &tables[g];
        mcu.group[g].blocks = blocks < most ? blocks : most;
        mcu.blocks += (unsigned)mcu.group[g].blocks;
    }
}

/* MCUs of blocks of this kind, or of any kind. */
static void write_mcus(int kind)
{
    int16_t *block = want;
    int16_t scan[64];

    memset(data, 0, sizeof(data));
    bits_written = 0;
    for (int m = 0; m < MCUS; m++)
        for (int g = 0; g < mcu.groups; g++)
            for (int i = 0; i < mcu.group[g].blocks; i++, block += 64) {
                make_block((enum kind)(kind < KINDS ? kind : (int)below(KINDS)), scan);
                write_block(scan, &dc_codes[g], &ac_codes[g]);
                for (int k = 0; k < 64; k++)
                    block[hr__baseline_natural[k]] = scan[k];
            }
}

static void read_back(hr__baseline_decode_fn decode)
{
    struct hr__bits bits;
    size_t stride = (size_t)mcu.blocks * 64;

    memset(got, 0, sizeof(got));
    hr__bits_begin(&bits, data, (bits_written + 7) / 8);
    for (int m = 0; m < MCUS; m += MCUS / 2)
        HR_REQUIRE(decode(&bits, &mcu, got + (size_t)m * stride, MCUS / 2));
    HR_CHECK_EQ_INT(hr__bits_left(&bits), (8 - bits_written % 8) % 8);
    HR_CHECK(memcmp(got, want, MCUS * stride * sizeof(*got)) == 0);
}

static void what_was_written_is_read(void)
{
    for (int round = 0; round < 60; round++) {
        plan();
        for (int kind = 0; kind <= KINDS; kind++) {
            write_mcus(kind);
            read_back(hr__baseline_decode_portable);
#if defined(__x86_64__)
            if (hr__baseline_is_fast())
                read_back(hr__baseline_decode_bmi2);
#endif
        }
    }
}

/* A code that is used up to its last bit, and one of all ones, are no codes. */
static void impossible_codes_are_refused(void)
{
    static const uint8_t dc[17] = {1, [16] = 5};
    static const uint8_t full[18] = {2, [16] = 0x01, 0x00};
    static const uint8_t over[19] = {3, [16] = 0x01, 0x00, 0x02};
    static const uint8_t ones[19] = {1, 2, [16] = 0x01, 0x00, 0x02};
    static const uint8_t good[18] = {1, 1, [16] = 0x01, 0x00};
    static const uint8_t large[17] = {1, [16] = 12};
    const struct hr__baseline_dht one = {dc, 1};

    HR_CHECK(hr__codes_build(tables, &one, &(struct hr__baseline_dht){good, 2}));
    HR_CHECK(!hr__codes_build(tables, &one, &(struct hr__baseline_dht){full, 2}));
    HR_CHECK(!hr__codes_build(tables, &one, &(struct hr__baseline_dht){over, 3}));
    HR_CHECK(!hr__codes_build(tables, &one, &(struct hr__baseline_dht){ones, 3}));
    HR_CHECK(!hr__codes_build(tables, &(struct hr__baseline_dht){large, 1},
                              &(struct hr__baseline_dht){good, 2}));
}

/* Codes and runs that lead nowhere, after a good first block. */
static void wrong_data_is_refused(void)
{
    static const struct {
        unsigned bits;
        unsigned count;
    } wrong[] = {
        {0xffff, 16}, /* no code */
        {0x3, 3},     /* 16 zeroes, and no code of 2 bits or more */
    };
    static const uint8_t dc[17] = {1, [16] = 0};
    static const uint8_t ac[18] = {1, 1, [16] = 0xf0, 0x00};
    struct hr__baseline_dht dc_dht = {dc, 1};
    struct hr__baseline_dht ac_dht = {ac, 2};

    HR_REQUIRE(hr__codes_build(tables, &dc_dht, &ac_dht));
    mcu.groups = 1;
    mcu.blocks = 2;
    mcu.group[0] = (struct hr__baseline_group){tables, 2};
    for (size_t i = 0; i <= sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct hr__bits bits;

        memset(data, 0, sizeof(data));
        bits_written = 0;
        write_bits(0x2, 3); /* 0: DC; 10: end of block */
        if (i < sizeof(wrong) / sizeof(wrong[0])) {
            write_bits(0, 1);
            write_bits(wrong[i].bits, wrong[i].count);
        } else {
            write_bits(0, 5); /* DC, and four times 16 zeroes: one more than there is */
        }
        hr__bits_begin(&bits, data, 64);
        memset(got, 0, sizeof(got));
        HR_CHECK(!hr__baseline_decode_portable(&bits, &mcu, got, 1));
#if defined(__x86_64__)
        hr__bits_begin(&bits, data, 64);
        if (hr__baseline_is_fast())
            HR_CHECK(!hr__baseline_decode_bmi2(&bits, &mcu, got, 1));
#endif
    }
}

/* ---- the cache ---- */

static const uint8_t one_size[17] = {1, [16] = 0};

/* Different codes for different n. */
static const struct hr__codes *find(struct hr__codes_cache *cache, unsigned n,
                                    size_t size)
{
    const uint8_t ac[18] = {1, 1, [16] = 0x00, (uint8_t)(1 + n)};

    return hr__codes_find(cache, &(struct hr__baseline_dht){one_size, 1},
                          &(struct hr__baseline_dht){ac, 2}, size);
}

static void tables_are_found_again(void)
{
    static const uint8_t full[18] = {2, [16] = 0x01, 0x00};
    struct hr__codes_cache cache = {0};
    const struct hr__codes *first;

    for (int i = 0; i < 3 * HR_CODES_KEPT; i++)
        HR_CHECK(hr__codes_find(&cache, &(struct hr__baseline_dht){one_size, 1},
                                &(struct hr__baseline_dht){full, 2}, 9) == NULL);
    first = find(&cache, 0, 9);
    HR_REQUIRE(first != NULL);
    HR_CHECK(!first->paired); /* too little data */
    HR_CHECK(find(&cache, 0, 9) == first);
    HR_CHECK(first->paired); /* but they came again */
    HR_CHECK(find(&cache, 1, 1 << 20)->paired);
    /* what comes once only does not drive out what came twice */
    for (unsigned n = 10; n < 100; n += HR_CODES_OF_PICTURE) {
        const struct hr__codes *of_picture[HR_CODES_OF_PICTURE];

        for (unsigned i = 0; i < HR_CODES_OF_PICTURE; i++)
            of_picture[i] = find(&cache, n + i, 9);
        for (unsigned i = 0; i < HR_CODES_OF_PICTURE; i++) {
            HR_REQUIRE(of_picture[i] != NULL);
            HR_CHECK_EQ_INT(of_picture[i]->ac.symbol[1], 1 + n + i);
        }
    }
    HR_CHECK(find(&cache, 0, 9) == first);
    /* and what came often, goes at last */
    for (unsigned n = 100; n < 100 + HR_CODES_KEPT; n++)
        HR_CHECK(find(&cache, n, 1 << 20) != NULL);
    HR_CHECK(!find(&cache, 0, 9)->paired);
    hr__codes_cache_fini(&cache);
}

static const struct hr_test tests[] = {
    HR_TEST(what_was_written_is_read),
    HR_TEST(impossible_codes_are_refused),
    HR_TEST(wrong_data_is_refused),
    HR_TEST(tables_are_found_again),
};

int main(int argc, char **argv)
{
    hr__codes_fill_extended(mcu.extended);
    hr__entropy_fill_places(mcu.place);
    return hr_test_main(tests, sizeof(tests) / sizeof(tests[0]), argc, argv);
}
