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
 *  - An entry tells up to two symbols (baseline_codes.h), so a lookup takes some 1.7
 *    symbols on photographs of quality 90.
 *  - The blocks of an MCU are one run of positions 0 … 64 * blocks. End of block moves the
 *    position to the next multiple of 64 by `(p | 63) + 1`; whether a DC or an AC table is
 *    next is `position & 63`. So blocks end without a branch; one is mispredicted per
 *    group of blocks.
 *
 * An entry whose last symbol lies in the next block (the first one was coefficient 63: the
 * second was read from the wrong table), long codes and large values take the one rare
 * branch, to code that reads a single symbol bit by bit.
 *
 * That ends: a position grows with every symbol. And it stays in the data: an MCU takes
 * fewer bits than the slack of zeroes behind it has, and the end is checked after each.
 *
 * bench/: 0.37 of libjpeg-turbo's time for 63 KB of 640x400. */
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

static INLINE uint64_t load_be64(const uint8_t *p)
{
    uint64_t word;

    memcpy(&word, p, sizeof(word));
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    word = __builtin_bswap64(word);
#endif
    return word;
}

/* At least 56 sure bits. */
static INLINE void refill(struct hr__bits *b)
{
    b->word |= load_be64(b->next) >> b->count;
    b->next += (63 - b->count) >> 3;
    b->count |= 56;
}

static INLINE void skip(struct hr__bits *b, unsigned n)
{
    b->word <<= n;
    b->count -= n;
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

/* One symbol by its code, whatever its length. Returns the position behind it, 0 when
 * there is no such code, or what it says is not handled. */
static unsigned decode_rare(struct hr__bits *b, const struct hr__codes *codes,
                            unsigned at, const uint16_t *place, int16_t *coef)
{
    uint32_t head = (uint32_t)(b->word >> 48);
    unsigned length = 1;
    unsigned symbol;
    unsigned extra;

    while (length <= 16 && head >= codes->limit[length])
        length++;
    if (length > 16)
        return 0;
    symbol = codes->symbol[(int32_t)(head >> (16 - length)) + codes->offset[length]];
    skip(b, length);
    extra = codes->ac ? symbol & 15 : symbol;
    if (codes->ac && symbol == 0)
        return (at | 63) + 1;
    if (codes->ac)
        at += symbol >> 4;
    if ((at & 63) < (codes->ac ? symbol >> 4 : 0)) /* a run across the block's end */
        return 0;
    if (extra > (codes->ac ? HR_VALUE_BITS : 11) ||
        (extra == 0 && codes->ac && symbol != 0xf0))
        return 0;
    if (extra > 0) {
        coef[place[at]] =
            (int16_t)hr__codes_extend((unsigned)(b->word >> (64 - extra)), extra);
        skip(b, extra);
    }
    return at + 1;
}

/* Do what an entry says at position `at`; the position behind it. */
static INLINE unsigned apply(struct hr__bits *b, uint64_t entry, unsigned at,
                             const struct hr__baseline_mcu *mcu, int16_t *coef)
{
    unsigned length = entry & 0xff;
    unsigned extra = (entry >> HR_ENTRY_EXTRA) & 0xff;
    unsigned last = at + ((entry >> HR_ENTRY_LAST) & 0xff);
    unsigned first = at + ((entry >> HR_ENTRY_FIRST) & 0xff);
    uint64_t raw = b->word >> (64 - length) & ((UINT64_C(1) << extra) - 1);

    coef[mcu->place[first]] = (int16_t)(entry >> HR_ENTRY_VALUE);
    coef[mcu->place[last]] = mcu->extended[UINT64_C(1) << extra | raw];
    skip(b, length);
    return (last | (unsigned)(entry >> HR_ENTRY_END & 0xff)) + 1;
}

/* Does the entry stay within the block of position `at`? A rare one does not. */
static INLINE bool is_plain(uint64_t entry, unsigned at)
{
    return ((at + ((entry >> HR_ENTRY_LAST) & 0xff)) ^ at) <= 63;
}

static INLINE bool decode_group(struct hr__bits *b, const struct hr__baseline_mcu *mcu,
                                const struct hr__baseline_group *group,
                                unsigned *position, int16_t *coef)
{
    unsigned at = *position;

    while (at < group->end) {
        for (int lookup = 0; lookup < 2 && at < group->end; lookup++) {
            const struct hr__codes *codes = at & 63 ? group->ac : group->dc;
            uint64_t entry;

            if (lookup == 0)
                refill(b);
            entry = codes->entry[b->word >> (64 - HR_LOOKUP_BITS)];
            if (__builtin_expect(!is_plain(entry, at), 0)) {
                at = decode_rare(b, codes, at, mcu->place, coef);
                if (at == 0)
                    return false;
                break;
            }
            at = apply(b, entry, at, mcu, coef);
        }
    }
    *position = at;
    return true;
}

static INLINE bool decode(struct hr__bits *bits, const struct hr__baseline_mcu *mcu,
                          int16_t *coef, int n)
{
    struct hr__bits b = *bits; /* in registers */

    for (; n > 0; n--, coef += (size_t)mcu->blocks * 64) {
        unsigned at = 0;

        for (int g = 0; g < mcu->groups; g++)
            if (!decode_group(&b, mcu, &mcu->group[g], &at, coef))
                return false;
        if (hr__bits_left(&b) < 0)
            return false;
    }
    *bits = b;
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
