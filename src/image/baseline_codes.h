/* baseline_codes.h - Huffman codes as tables to look them up. */
#ifndef HR_IMAGE_BASELINE_CODES_H
#define HR_IMAGE_BASELINE_CODES_H

#include "image/baseline_markers.h"

#define HR_LOOKUP_BITS 10
#define HR_VALUE_BITS 10 /* of a value that the lookup handles */

/* An entry of the lookup: what the next HR_LOOKUP_BITS bits begin with, up to two
 * symbols. `last` is the entry's last symbol, `first` the one before it, if any.
 *
 *     bits  0 …  7   length of all of it, extra bits of `last` included
 *          8 … 15   how far behind the current position `last` is put; HR_RARE: look
 *                   elsewhere, the other fields are 0
 *         16 … 23   63 when `last` ends the block, else 0
 *         24 … 31   how far behind the current position `first` is put
 *         32 … 39   number of extra bits of `last`
 *         48 … 63   the value of `first`, 0 when there is none
 *
 * An entry of one symbol puts a 0 at the current position, and `last` over it or behind
 * it: so one and two symbols need no branch between them. */
#define HR_RARE 255

enum {
    HR_ENTRY_LAST = 8,
    HR_ENTRY_END = 16,
    HR_ENTRY_FIRST = 24,
    HR_ENTRY_EXTRA = 32,
    HR_ENTRY_VALUE = 48
};

struct hr__codes {
    uint64_t entry[1 << HR_LOOKUP_BITS];
    /* all codes; [l] for those of l bits */
    uint32_t limit[17]; /* the first 16 bits of the stream are below it */
    int32_t offset[17]; /* code + offset is the symbol's index */
    uint8_t symbol[256];
    /* what the table was made of */
    uint8_t counts[16];
    unsigned symbols;
    bool ac;
    uint64_t used_at; /* owned by the cache */
};

/* Make the tables. False when the codes are not a prefix code that the standard allows
 * (a code of all ones is not), or a DC symbol is above 11. */
bool hr__codes_build(struct hr__codes *codes, const struct hr__baseline_dht *dht,
                     bool ac);

/* The value that `size` extra bits stand for; 1 <= size <= 15. */
static inline int hr__codes_extend(unsigned raw, unsigned size)
{
    return raw >> (size - 1) ? (int)raw : (int)raw - (1 << size) + 1;
}

/* The same for 0 … HR_VALUE_BITS extra bits, at [1 << size | raw]. */
#define HR_EXTENDED_COUNT (2 << HR_VALUE_BITS)
void hr__codes_fill_extended(int16_t extended[HR_EXTENDED_COUNT]);

#define HR_CODES_KEPT 12

/* A worker's tables, found again by the bytes that they were made of; zero-initialised.
 * Most files of a data set have the same ones. */
struct hr__codes_cache {
    struct hr__codes *kept[HR_CODES_KEPT];
    uint64_t clock;
};

/* The tables for dht, valid until HR_CODES_KEPT others were asked for; NULL when there
 * is no memory, or hr__codes_build refuses them. */
const struct hr__codes *hr__codes_find(struct hr__codes_cache *cache,
                                       const struct hr__baseline_dht *dht, bool ac);
/* Are they there already? */
bool hr__codes_known(const struct hr__codes_cache *cache,
                     const struct hr__baseline_dht *dht, bool ac);
void hr__codes_cache_fini(struct hr__codes_cache *cache);

#endif
