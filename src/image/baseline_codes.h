/* baseline_codes.h - Huffman codes as tables to look them up. */
#ifndef HR_IMAGE_BASELINE_CODES_H
#define HR_IMAGE_BASELINE_CODES_H

#include "image/baseline_markers.h"

#define HR_LOOKUP_BITS 10
#define HR_VALUE_BITS 10 /* of a value that the lookup handles */
/* Of an entry at most: three of them take no more than a refill gives. */
#define HR_ENTRY_BITS 18

/* Symbols of AC tables that mean no value. */
#define HR_END_OF_BLOCK 0x00
#define HR_ZERO_RUN 0xf0

/* An entry of the lookup: what the next HR_LOOKUP_BITS bits begin with, up to two
 * symbols. `last` is the entry's last symbol, `first` the one before it, if any.
 *
 * An entry of one symbol puts a 0 at the current position, and `last` over it or behind
 * it: so one and two symbols need no branch between them.
 *
 * The fields are bytes because a load of a byte costs one instruction, and getting it out
 * of a register two or three. */
struct hr__entry {
    union {
        struct {
            uint8_t
                length;   /* bits of all of it, those of the value of `last` included */
            uint8_t last; /* how far behind the current position `last` is put */
            uint8_t first;  /* the same of `first` */
            int8_t value;   /* of `first`, 0 when there is none */
            uint8_t start;  /* bits before the value of `last`, less 1 */
            uint8_t unused; /* 63 - bits of that value */
            uint16_t end;   /* HR_ENTRY_END when `last` ends the block, else 0 */
        };
        uint64_t all; /* to copy it, and to add it up */
    };
};

/* In a rare entry `last` has this bit; look elsewhere, the other fields mean nothing. */
#define HR_RARE 64
/* Its low 8 bits fill up a position in a block; and where the table for the next symbol
 * begins, behind that for the AC symbols. */
#define HR_ENTRY_END 0x4ff

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
    /* for AC symbols; from HR_ENTRY_END on for a DC symbol, and the AC symbol behind it */
    struct hr__entry entry[HR_ENTRY_END + (1 << HR_LOOKUP_BITS)];
    struct hr__code dc;
    struct hr__code ac;
    /* owned by the cache */
    bool paired;
    uint64_t used_at;
};

/* Make the tables, with one symbol in each entry. False when the codes are not a prefix
 * code that the standard allows (a code of all ones is not), or a DC symbol is above 11. */
bool hr__codes_build(struct hr__codes *codes, const struct hr__baseline_dht *dc,
                     const struct hr__baseline_dht *ac);
/* Put second symbols into the entries. */
void hr__codes_pair(struct hr__codes *codes);

/* The value that `size` extra bits stand for; 1 <= size <= 15. */
static inline int hr__codes_extend(unsigned raw, unsigned size)
{
    return raw >> (size - 1) ? (int)raw : (int)raw - (1 << size) + 1;
}

/* The same for 0 … HR_VALUE_BITS extra bits, at [1 << size | raw]. */
#define HR_EXTENDED_COUNT (2 << HR_VALUE_BITS)
void hr__codes_fill_extended(int16_t extended[HR_EXTENDED_COUNT]);

#define HR_CODES_KEPT 8
#define HR_CODES_OF_PICTURE 3 /* a component's each */

/* A worker's tables, found again by the bytes that they were made of; zero-initialised.
 * Most files of a data set have the same ones. */
struct hr__codes_cache {
    struct hr__codes *kept[HR_CODES_KEPT];
    uint64_t clock;
};

/* The tables for these two, valid until HR_CODES_OF_PICTURE others were asked for; NULL when
 * there is no memory, or hr__codes_build refuses them. `size`: of the data to decode. For
 * little data that comes with tables of its own, pairs are not worth making. */
const struct hr__codes *hr__codes_find(struct hr__codes_cache *cache,
                                       const struct hr__baseline_dht *dc,
                                       const struct hr__baseline_dht *ac, size_t size);
void hr__codes_cache_fini(struct hr__codes_cache *cache);

#endif
