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
 *    time does no harm. At least 56 bits are there afterwards: enough for two lookups of
 *    20 bits each. The second looks at the word as it was, shifted: not at the refill.
 *  - An entry tells up to two symbols (baseline_codes.h).
 *  - The blocks of an MCU are one run of positions 0 … 64 * blocks. End of block moves the
 *    position to the next multiple of 64 by `(p | 63) + 1`, and the entry that says so also
 *    says that the table of DC is next. So blocks end without a branch; one is mispredicted
 *    per group of blocks.
 *
 * An entry whose last symbol lies in the next block (the first one was coefficient 63: the
 * second was read from the wrong table), long codes and large values take the one rare
 * branch, to code that reads a single symbol bit by bit.
 *
 * That ends: a position grows with every symbol. And it stays in the data: an MCU takes
 * fewer bits than the slack of zeroes behind it has, and the end is checked after each.
 *
 * Measured beside libjpeg-turbo 2.1.5, 640x400 of 63 KB: half of its time. */
#include "image/baseline_entropy.h"

#include <string.h>

#include "base/banned.h"

#define INLINE inline __attribute__((always_inline))

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
    uint64_t at;    /* position in the MCU */
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

static INLINE struct cursor skip(struct cursor c, uint64_t n)
{
    return (struct cursor){c.word << n, c.count - n, c.at};
}

void hr__bits_begin(struct hr__bits *bits, const uint8_t *segment, size_t size)
{
    *bits = (struct hr__bits){.next = segment, .end = segment + size};
}

int64_t hr__bits_left(const struct hr__bits *bits)
{
    return (bits->end - bits->next) * 8 + (int64_t)bits->count;
}

/* ---- symbols ---- */

#define NOWHERE UINT64_MAX /* position after data that is refused */

/* One symbol by its code, whatever its length; 31 bits at most. */
static struct cursor decode_rare(struct cursor c, const struct hr__codes *codes,
                                 const uint16_t *place, int16_t *coef)
{
    const struct hr__code *code = c.at & 63 ? &codes->ac : &codes->dc;
    const struct cursor refused = {c.word, c.count, NOWHERE};
    uint32_t head = (uint32_t)(c.word >> 48);
    unsigned length = 1;
    unsigned symbol;
    unsigned run;
    unsigned extra;

    while (length <= 16 && head >= code->limit[length])
        length++;
    if (length > 16)
        return refused;
    symbol = code->symbol[(int32_t)(head >> (16 - length)) + code->offset[length]];
    c = skip(c, length);
    run = code->ac ? symbol >> 4 : 0;
    extra = code->ac ? symbol & 15 : symbol;
    if (code->ac && symbol == HR_END_OF_BLOCK) {
        c.at = (c.at | 63) + 1;
        return c;
    }
    if ((c.at & 63) + run > 63 || extra > (code->ac ? HR_VALUE_BITS : 11) ||
        (code->ac && extra == 0 && symbol != HR_ZERO_RUN))
        return refused;
    c.at += run;
    if (extra > 0)
        coef[place[c.at]] =
            (int16_t)hr__codes_extend((unsigned)(c.word >> (64 - extra)), extra);
    c = skip(c, extra);
    c.at++;
    return c;
}

/* Does what the entry says lie within the block, and leave room in it unless it ends it?
 * A rare entry does not. */
static INLINE bool is_plain(uint64_t entry, uint64_t at)
{
    return ((at + (entry >> HR_ENTRY_NEXT & 0xff)) ^ at) <= 63;
}

/* Do what an entry says. */
static INLINE struct cursor apply(uint64_t entry, struct cursor c,
                                  const struct hr__baseline_mcu *mcu, int16_t *coef)
{
    uint64_t first = c.at + (entry >> HR_ENTRY_FIRST & 15);
    uint64_t last = c.at + (entry >> HR_ENTRY_LAST & 0xff);
    /* the extra bits at the top, behind a 1; then only these */
    uint64_t raw = (c.word << (entry >> HR_ENTRY_START & 63)) >> 1 | UINT64_C(1) << 63;

    coef[mcu->place[first]] = (int16_t)((int64_t)(entry << 8) >> 56);
    coef[mcu->place[last]] = mcu->extended[raw >> (entry >> HR_ENTRY_UNUSED & 63)];
    c = skip(c, entry & HR_ENTRY_LENGTH);
    c.at = (last | entry >> HR_ENTRY_END) + 1;
    return c;
}

static INLINE const uint64_t *bytes_behind(const uint64_t *table, uint64_t bytes)
{
    return (const uint64_t *)(const void *)((const char *)table + bytes);
}

/* Decode up to the end of the group. A plain entry tells which table is next, sooner than
 * the position is known. */
static INLINE struct cursor decode_group(struct cursor c, const uint8_t **next,
                                         const struct hr__baseline_mcu *mcu,
                                         const struct hr__baseline_group *group,
                                         int16_t *coef)
{
    const uint64_t *ac = group->codes->entry;
    const uint64_t *table = bytes_behind(ac, HR_ENTRY_THEN_DC);
    const uint8_t *p = *next;
    uint64_t entry;

    while (c.at < group->end) {
        c.word |= load_be64(p) >> c.count; /* at least 56 sure bits */
        p += (63 - c.count) >> 3;
        c.count |= 56;
        entry = table[c.word >> (64 - HR_LOOKUP_BITS)];
        if (__builtin_expect(!is_plain(entry, c.at), 0))
            goto rare;
        c = apply(entry, c, mcu, coef);
        table = bytes_behind(ac, entry & HR_ENTRY_THEN_DC);
        if (c.at >= group->end)
            break;
        entry = table[c.word >> (64 - HR_LOOKUP_BITS)];
        if (__builtin_expect(!is_plain(entry, c.at), 0))
            goto rare;
        c = apply(entry, c, mcu, coef);
        table = bytes_behind(ac, entry & HR_ENTRY_THEN_DC);
        continue;
    rare:
        c = decode_rare(c, group->codes, mcu->place, coef);
        table = bytes_behind(ac, c.at & 63 ? 0 : HR_ENTRY_THEN_DC);
    }
    *next = p;
    return c;
}

static INLINE bool decode(struct hr__bits *bits, const struct hr__baseline_mcu *mcu,
                          int16_t *coef, int n)
{
    struct cursor c = {bits->word, bits->count, 0};

    for (; n > 0; n--, coef += (size_t)mcu->blocks * 64) {
        c.at = 0;
        for (int g = 0; g < mcu->groups; g++)
            c = decode_group(c, &bits->next, mcu, &mcu->group[g], coef);
        bits->word = c.word;
        bits->count = (unsigned)c.count;
        if (c.at == NOWHERE || hr__bits_left(bits) < 0)
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
