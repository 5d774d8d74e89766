/* Lookup tables of Huffman codes, two symbols at a time. Making one takes about 5 µs;
 * a data set mostly needs four. */
#include "image/baseline_codes.h"

#include <string.h>

#include "base/mem.h"
#include "base/banned.h"

#define LOOKUPS (1 << HR_LOOKUP_BITS)
#define END_OF_BLOCK 0x00
#define ZERO_RUN 0xf0

/* The codes of up to HR_LOOKUP_BITS bits: what a window of so many bits begins with. */
struct single {
    uint8_t length; /* 0: a longer code, or none */
    uint8_t symbol;
};

/* A symbol at the head of a window. */
struct head {
    unsigned length; /* of the code */
    unsigned run;
    unsigned extra; /* bits behind the code */
    bool end;       /* of the block */
};

/* ---- the codes ---- */

static bool assign(struct hr__codes *codes, struct single *singles)
{
    uint32_t code = 0;
    unsigned at = 0;

    for (unsigned l = 1; l <= 16; l++) {
        codes->offset[l] = (int32_t)at - (int32_t)code;
        for (unsigned i = 0; i < codes->counts[l - 1]; i++, code++, at++) {
            struct single single = {(uint8_t)l, codes->symbol[at]};
            unsigned spare = HR_LOOKUP_BITS - l;

            if (l > HR_LOOKUP_BITS || code >= (1U << l))
                continue;
            for (unsigned k = 0; k < 1U << spare; k++)
                singles[(code << spare) + k] = single;
        }
        if (code >= 1U << l) /* over-subscribed, or a code of all ones */
            return false;
        codes->limit[l] = code << (16 - l);
        code <<= 1;
    }
    return true;
}

static bool are_sizes(const struct hr__codes *codes)
{
    for (unsigned i = 0; i < codes->symbols; i++)
        if (codes->symbol[i] > 11)
            return false;
    return true;
}

/* ---- the lookup ---- */

static uint64_t entry_of(unsigned length, const struct head *last, unsigned place)
{
    return length | (uint64_t)place << HR_ENTRY_LAST |
           (uint64_t)(last->end ? 63 : 0) << HR_ENTRY_END |
           (uint64_t)last->extra << HR_ENTRY_EXTRA;
}

/* What is at the head of `window`, of which `bits` bits count. False: what the lookup
 * does not handle. */
static bool read_head(const struct single *singles, bool ac, unsigned window,
                      unsigned bits, struct head *out)
{
    struct single single = singles[window];

    if (single.length == 0 || single.length > bits)
        return false;
    out->length = single.length;
    out->run = ac ? single.symbol >> 4 : 0;
    out->extra = ac ? single.symbol & 15 : single.symbol;
    out->end = ac && single.symbol == END_OF_BLOCK;
    if (out->extra > HR_VALUE_BITS)
        return false;
    return out->extra > 0 || !ac || out->end || single.symbol == ZERO_RUN;
}

static uint64_t make_entry(const struct single *singles, bool ac, unsigned window)
{
    const unsigned mask = LOOKUPS - 1;
    struct head a;
    struct head b;
    unsigned used;
    int value = 0;

    if (!read_head(singles, ac, window, HR_LOOKUP_BITS, &a))
        return (uint64_t)HR_RARE << HR_ENTRY_LAST;
    used = a.length + a.extra;
    if (!ac || a.end || used >= HR_LOOKUP_BITS ||
        !read_head(singles, ac, (window << used) & mask, HR_LOOKUP_BITS - used, &b))
        return entry_of(used, &a, a.run);
    if (a.extra > 0)
        value = hr__codes_extend(window >> (HR_LOOKUP_BITS - used) &
                                     ((1U << a.extra) - 1),
                                 a.extra);
    return entry_of(used + b.length + b.extra, &b, a.run + 1 + b.run) |
           (uint64_t)a.run << HR_ENTRY_FIRST |
           (uint64_t)(uint16_t)value << HR_ENTRY_VALUE;
}

bool hr__codes_build(struct hr__codes *codes, const struct hr__baseline_dht *dht,
                     bool ac)
{
    struct single singles[LOOKUPS] = {{0, 0}};

    memcpy(codes->counts, dht->counts, sizeof(codes->counts));
    memset(codes->symbol, 0, sizeof(codes->symbol));
    memcpy(codes->symbol, dht->counts + 16, dht->symbols);
    codes->symbols = dht->symbols;
    codes->ac = ac;
    if (!assign(codes, singles) || (!ac && !are_sizes(codes)))
        return false;
    for (unsigned window = 0; window < LOOKUPS; window++)
        codes->entry[window] = make_entry(singles, ac, window);
    return true;
}

void hr__codes_fill_extended(int16_t extended[HR_EXTENDED_COUNT])
{
    extended[0] = extended[1] = 0;
    for (unsigned size = 1; size <= HR_VALUE_BITS; size++)
        for (unsigned raw = 0; raw < 1U << size; raw++)
            extended[1U << size | raw] = (int16_t)hr__codes_extend(raw, size);
}

/* ---- the cache ---- */

static struct hr__codes *look_up(const struct hr__codes_cache *cache,
                                 const struct hr__baseline_dht *dht, bool ac)
{
    for (int i = 0; i < HR_CODES_KEPT; i++) {
        struct hr__codes *codes = cache->kept[i];

        if (codes != NULL && codes->used_at > 0 && codes->ac == ac &&
            codes->symbols == dht->symbols &&
            memcmp(codes->counts, dht->counts, 16) == 0 &&
            memcmp(codes->symbol, dht->counts + 16, dht->symbols) == 0)
            return codes;
    }
    return NULL;
}

bool hr__codes_known(const struct hr__codes_cache *cache,
                     const struct hr__baseline_dht *dht, bool ac)
{
    return look_up(cache, dht, ac) != NULL;
}

/* The place of the tables that were not asked for the longest. */
static struct hr__codes **oldest(struct hr__codes_cache *cache)
{
    struct hr__codes **old = &cache->kept[0];

    for (int i = 0; i < HR_CODES_KEPT; i++) {
        if (cache->kept[i] == NULL)
            return &cache->kept[i];
        if (cache->kept[i]->used_at < (*old)->used_at)
            old = &cache->kept[i];
    }
    return old;
}

const struct hr__codes *hr__codes_find(struct hr__codes_cache *cache,
                                       const struct hr__baseline_dht *dht, bool ac)
{
    struct hr__codes *codes = look_up(cache, dht, ac);

    if (codes == NULL) {
        struct hr__codes **place = oldest(cache);

        if (*place == NULL)
            *place = hr__malloc(sizeof(**place));
        codes = *place;
        if (codes == NULL)
            return NULL;
        codes->used_at = 0;
        if (!hr__codes_build(codes, dht, ac))
            return NULL;
    }
    codes->used_at = ++cache->clock;
    return codes;
}

void hr__codes_cache_fini(struct hr__codes_cache *cache)
{
    for (int i = 0; i < HR_CODES_KEPT; i++) {
        hr__free(cache->kept[i]);
        cache->kept[i] = NULL;
    }
}
