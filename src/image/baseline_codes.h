/* baseline_codes.h - Huffman codes as tables to look them up. */
#ifndef HR_IMAGE_BASELINE_CODES_H
#define HR_IMAGE_BASELINE_CODES_H

#include "image/baseline_markers.h"

#define HR_LOOKUP_BITS 10
#define HR_VALUE_BITS 10 /* of a value that the lookup handles */

/* Symbols of AC tables that mean no value. */
#define HR_END_OF_BLOCK 0x00
#define HR_ZERO_RUN 0xf0

/* An entry of the lookup: what the next HR_LOOKUP_BITS bits begin with, up to two
 * symbols. `last` is the entry's last symbol, `first` the one before it, if any.
 *
 *     bits  0 …  5   LENGTH of all of it, extra bits of `last` included: where a shift
 *                   takes it without another instruction
 *          8 … 11   FIRST: how far behind the current position `first` is put
 *              13   THEN_DC: set when `last` ends the block; how many bytes the table of DC
 *                   is behind that of AC
 *         16 … 23   NEXT: how far behind the current position, at least, the next one is;
 *                   HR_RARE: look elsewhere, the other fields are 0
 *         24 … 31   LAST: how far behind the current position `last` is put
 *         32 … 39   START: length without the extra bits of `last`
 *         40 … 47   UNUSED: 63 - the number of these
 *         48 … 55   VALUE: that of `first`, 0 when there is none; signed
 *         56 … 63   END: 63 when `last` ends the block, else 0
 *
 * An entry of one symbol puts a 0 at the current position, and `last` over it or behind
 * it: so one and two symbols need no branch between them. (`first` has less than 8 bits,
 * since its code and that of `last` are in the window too.) */
#define HR_RARE 255
#define HR_ENTRY_LENGTH 63
#define HR_ENTRY_THEN_DC ((uint64_t)sizeof(uint64_t) << HR_LOOKUP_BITS)

enum {
    HR_ENTRY_FIRST = 8,
    HR_ENTRY_NEXT = 16,
    HR_ENTRY_LAST = 24,
    HR_ENTRY_START = 32,
    HR_ENTRY_UNUSED = 40,
    HR_ENTRY_VALUE = 48,
    HR_ENTRY_END = 56
};

/* One Huffman table, as the file has it and for codes of any length; [l]: of l bits. */
struct hr__code {
    uint32_t limit[17]; /* the first 16 bits of the stream are below it */
    int32_t offset[17]; /* code + offset is the symbol's index */
    uint8_t symbol[256];
    uint8_t counts[16];
    unsigned symbols;
    bool ac;
};

/* The tables of a component. */
struct hr__codes {
    /* that of AC, and HR_ENTRY_THEN_DC bytes behind it that of DC */
    uint64_t entry[2 << HR_LOOKUP_BITS];
    struct hr__code dc;
    struct hr__code ac;
    uint64_t used_at; /* owned by the cache */
};

/* Make the tables. False when the codes are not a prefix code that the standard allows
 * (a code of all ones is not), or a DC symbol is above 11. */
bool hr__codes_build(struct hr__codes *codes, const struct hr__baseline_dht *dc,
                     const struct hr__baseline_dht *ac);

/* The value that `size` extra bits stand for; 1 <= size <= 15. */
static inline int hr__codes_extend(unsigned raw, unsigned size)
{
    return raw >> (size - 1) ? (int)raw : (int)raw - (1 << size) + 1;
}

/* The same for 0 … HR_VALUE_BITS extra bits, at [1 << size | raw]. */
#define HR_EXTENDED_COUNT (2 << HR_VALUE_BITS)
void hr__codes_fill_extended(int16_t extended[HR_EXTENDED_COUNT]);

#define HR_CODES_KEPT 8

/* A worker's tables, found again by the bytes that they were made of; zero-initialised.
 * Most files of a data set have the same ones. */
struct hr__codes_cache {
    struct hr__codes *kept[HR_CODES_KEPT];
    uint64_t clock;
};

/* The tables for these two, valid until HR_CODES_KEPT others were asked for; NULL when
 * there is no memory, or hr__codes_build refuses them. */
const struct hr__codes *hr__codes_find(struct hr__codes_cache *cache,
                                       const struct hr__baseline_dht *dc,
                                       const struct hr__baseline_dht *ac);
void hr__codes_cache_fini(struct hr__codes_cache *cache);

#endif
