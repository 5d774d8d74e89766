/* Entropy decoding: where the time of a JPEG decoder goes.
 *
 * A Huffman decoder is one chain of dependent steps: the bits choose a table's entry, the
 * entry says how many bits it was, and only then are the next bits known. What is not on
 * that chain is almost free. So the code keeps the chain short, and free of branches that
 * cannot be predicted:
 *
 *  - Stuffing is removed beforehand, a segment at a time: the reader never looks for FF.
 *  - `word` holds the next bits at its top. It is refilled without a branch: 8 bytes are
 *    loaded, or'ed in behind the bits that are sure, and `next` moves by the whole bytes
 *    that fitted. Bits below the sure ones are the right ones too, so or'ing them a second
 *    time does no harm. At least 56 bits are sure afterwards: enough for three lookups.
 *    And even behind three of them 10 of the 64 bits are left: the first lookup of the
 *    next three indexes those, and does not wait for the refill.
 *  - An entry tells up to two symbols (baseline_codes.h).
 *  - One step of the chain is: shift the word for the index (1 cycle), load the entry's
 *    length (5), shift by it (1). The pointer to the table, which depends on the entry
 *    too, is ready as soon as the index is.
 *  - Positions are counted up to 0, at which the group is done, 256 of them per block of
 *    which 64 are used. So "behind coefficient 63" is a bit test, which rare entries fail
 *    as well; and the end of a block is `(last | end) + 1`, where end is 0 or 0x4ff: no
 *    branch. Bits 10 and up are set anyway as long as the position is below 0; in the
 *    entry that bit makes the same number the distance between the tables for AC and DC
 *    symbols. One branch is mispredicted per group of up to four blocks with one table.
 *
 * 31 instructions per lookup, one and a half symbols each, 10 cycles.
 *
 * Long codes, large values, and what would lie behind coefficient 63 (the first symbol was
 * coefficient 63: the second was read from the wrong table) take the one rare branch, to
 * code that reads a single symbol bit by bit.
 *
 * That ends: a position grows with every symbol. And it stays in the data: an MCU takes
 * fewer bits than the slack of zeroes behind it has, and the end is checked after each.
 *
 * Measured beside libjpeg-turbo 2.1.5, 640x400 of 54 KB: 0.40 of its time. */
#include "image/baseline_entropy.h"

#include <string.h>

#include "base/banned.h"

#define INLINE inline __attribute__((always_inline))
#define UNROLLED _Pragma("GCC unroll 3")

size_t hr__baseline_unstuff(const uint8_t *in, size_t size, uint8_t *out, size_t *used)
{
    const uint8_t *end = in + size;
    const uint8_t *from = in;
    uint8_t *to = out;

    for (;;) {
        const uint8_t *ff = memchr(from, 0xff, (size_t)(end - from));
        size_t n = (size_t)((ff == NULL ? end : ff) - from);
        bool stuffed = ff != NULL && end - ff >= 2 && ff[1] == 0;

        memcpy(to, from, n + stuffed);
        to += n + stuffed;
        if (!stuffed) {
            *used = (size_t)(from + n - in);
            return (size_t)(to - out);
        }
        from = ff + 2;
    }
}

/* ---- bits ---- */

/* Where decoding is. Never pointed to, so that it stays in registers. */
struct cursor {
    uint64_t word;  /* the next bits, from the top */
    uint64_t count; /* how many of them are sure */
    const uint8_t *next;
    int64_t at; /* position in the group, below 0 */
};

static INLINE uint64_t load_be64(const uint8_t *p)
{
    uint64_t word;

    memcpy(&word, p, sizeof(word));
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    word = __builtin_bswap64(word);
#endif
    return word;
}

#define LOOKUPS 3 /* for one refill */
_Static_assert(LOOKUPS *HR_ENTRY_BITS <= 56, "as many as there are bits for");
_Static_assert(LOOKUPS *HR_ENTRY_BITS + HR_LOOKUP_BITS <= 64, "and an index");

/* At least 56 bits are sure afterwards, and all 64 are the right ones. */
static INLINE struct cursor refill(struct cursor c)
{
    c.word |= load_be64(c.next) >> c.count;
    c.next += (63 - c.count) >> 3;
    c.count |= 56;
    return c;
}

static INLINE struct cursor skip(struct cursor c, uint64_t n)
{
    c.word <<= n;
    c.count -= n;
    return c;
}

void hr__bits_begin(struct hr__bits *bits, const uint8_t *segment, size_t size)
{
    struct cursor c = refill((struct cursor){.next = segment});

    *bits = (struct hr__bits){c.word, (unsigned)c.count, c.next, segment + size};
}

int64_t hr__bits_left(const struct hr__bits *bits)
{
    return (bits->end - bits->next) * 8 + (int64_t)bits->count;
}

/* ---- symbols ---- */

#define POSITION (HR_BLOCK_POSITIONS - 1) /* mask: within the block */
#define BEYOND (HR_BLOCK_POSITIONS - 64)  /* mask: not 0 behind coefficient 63 */
#define REFUSED 1                         /* position after data that is refused */

void hr__entropy_fill_places(int16_t place[HR_POSITIONS])
{
    memset(place, 0, HR_POSITIONS * sizeof(*place));
    for (int block = 0; block < HR_GROUP_BLOCKS; block++)
        for (int k = 0; k < 64; k++)
            place[block * HR_BLOCK_POSITIONS + k] =
                (int16_t)(64 * (block - HR_GROUP_BLOCKS) + hr__baseline_natural[k]);
}

/* Where the coefficient of a position is put, from the end of the group: whatever the
 * position is, within what four blocks have. */
static INLINE int64_t place_of(const int16_t *place, int64_t at)
{
    return place[(size_t)at % HR_POSITIONS];
}

static INLINE int64_t next_block(int64_t at)
{
    return (at | POSITION) + 1;
}

/* One symbol by its code, whatever its length; 31 bits at most. */
static struct cursor decode_symbol(struct cursor c, const struct hr__codes *codes,
                                   const int16_t *place, int16_t *coef)
{
    const struct hr__code *code = c.at & POSITION ? &codes->ac : &codes->dc;
    uint32_t head = (uint32_t)(c.word >> 48);
    unsigned length = 1;
    unsigned symbol;
    unsigned run;
    unsigned extra;

    while (length <= 16 && head >= code->limit[length])
        length++;
    if (length > 16) {
        c.at = REFUSED;
        return c;
    }
    symbol = code->symbol[(int32_t)(head >> (16 - length)) + code->offset[length]];
    c = skip(c, length);
    run = code->ac ? symbol >> 4 : 0;
    extra = code->ac ? symbol & 15 : symbol;
    if (code->ac && symbol == HR_END_OF_BLOCK) {
        c.at = next_block(c.at);
        return c;
    }
    if ((c.at & POSITION) + run > 63 || extra > (code->ac ? HR_VALUE_BITS : 11) ||
        (code->ac && extra == 0 && symbol != HR_ZERO_RUN)) {
        c.at = REFUSED;
        return c;
    }
    c.at += run;
    if (extra > 0)
        coef[place_of(place, c.at)] =
            (int16_t)hr__codes_extend((unsigned)(c.word >> (64 - extra)), extra);
    c = skip(c, extra);
    c.at++;
    return c;
}

/* What no entry says: go on behind coefficient 63 of a block that has no end, or decode a
 * symbol on its own. */
static struct cursor decode_rare(struct cursor c, const struct hr__codes *codes,
                                 const int16_t *place, int16_t *coef)
{
    if ((c.at & POSITION) == 64) {
        c.at = next_block(c.at);
        return c;
    }
    return decode_symbol(refill(c), codes, place, coef);
}

/* Put what the entry says where it belongs; `last` is the position of its last symbol. */
static INLINE void put(const struct hr__entry *entry, int64_t last, struct cursor c,
                       const struct hr__baseline_mcu *mcu, int16_t *coef)
{
    /* the bits of the value at the top, behind a 1; then only these */
    uint64_t raw = c.word << (entry->start & 63) | UINT64_C(1) << 63;
    int16_t value = mcu->extended[raw >> (entry->unused & 63)];

    /* NOLINTNEXTLINE(bugprone-signed-char-misuse,cert-str34-c): a number with a sign */
    coef[place_of(mcu->place, c.at + entry->first)] = entry->value;
    coef[place_of(mcu->place, last)] = value;
}

/* The same pointer, but the compiler does not know. So it has a register of its own, and
 * an entry's length is loaded with the index, not by an address that is added up first:
 * that would be one more step of the chain. */
static INLINE const struct hr__entry *as_base(const struct hr__entry *table)
{
    /* NOLINTNEXTLINE(portability-no-assembler): there is none in it */
    __asm__("" : "+r"(table));
    return table;
}

static INLINE uint64_t window(struct cursor c)
{
    return c.word >> (64 - HR_LOOKUP_BITS);
}

/* Decode a group, whose blocks end at coef. */
static INLINE struct cursor decode_group(struct cursor c,
                                         const struct hr__baseline_mcu *mcu,
                                         const struct hr__baseline_group *group,
                                         int16_t *coef)
{
    const struct hr__entry *ac = group->codes->entry;
    const struct hr__entry *table = ac + HR_ENTRY_END;

    c.at = -(int64_t)HR_BLOCK_POSITIONS * group->blocks;
    while (c.at < 0) {
        uint64_t k = window(c);

        c = refill(c);
        UNROLLED
        for (int i = 0; i < LOOKUPS; i++, k = window(c)) {
            const struct hr__entry *entry = table + k;
            int64_t last = c.at + entry->last;

            if (__builtin_expect((last & BEYOND) != 0, 0)) {
                c = decode_rare(c, group->codes, mcu->place, coef);
                table = ac + (c.at & POSITION ? 0 : HR_ENTRY_END);
                break;
            }
            put(entry, last, c, mcu, coef);
            c = skip(c, as_base(table)[k].length);
            c.at = (last | entry->end) + 1;
            table = ac + entry->end;
            if (c.at >= 0)
                break;
        }
    }
    return c;
}

static INLINE bool decode(struct hr__bits *bits, const struct hr__baseline_mcu *mcu,
                          int16_t *coef, int n)
{
    struct cursor c = {bits->word, bits->count, bits->next, 0};

    for (; n > 0; n--) {
        for (int g = 0; g < mcu->groups; g++) {
            coef += 64 * (ptrdiff_t)mcu->group[g].blocks;
            c = decode_group(c, mcu, &mcu->group[g], coef);
            if (c.at == REFUSED)
                return false;
        }
        bits->word = c.word;
        bits->count = (unsigned)c.count;
        bits->next = c.next;
        if (hr__bits_left(bits) < 0)
            return false;
    }
    return true;
}

bool hr__baseline_decode_portable(struct hr__bits *bits,
                                  const struct hr__baseline_mcu *mcu, int16_t *coef,
                                  int n)
{
    return decode(bits, mcu, coef, n);
}

#if defined(__x86_64__)
/* The same code: shifts by registers and masks take one instruction each with BMI2. */
__attribute__((target("bmi,bmi2"))) bool
hr__baseline_decode_bmi2(struct hr__bits *bits, const struct hr__baseline_mcu *mcu,
                         int16_t *coef, int n)
{
    return decode(bits, mcu, coef, n);
}
#endif
