/* Lookup tables of Huffman codes, two symbols at a time. Making those of a component
 * takes 100,000 instructions; a data set mostly needs them twice: for luma and for
 * chroma. */
#include "image/baseline_codes.h"

#include <string.h>

#include "base/mem.h"
#include "base/banned.h"

#define LOOKUPS (1 << HR_LOOKUP_BITS)

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

static bool assign(struct hr__code *codes, struct single *singles)
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

static bool are_sizes(const struct hr__code *codes)
{
    for (unsigned i = 0; i < codes->symbols; i++)
        if (codes->symbol[i] > 11)
            return false;
    return true;
}

/* ---- the lookup ---- */

static uint64_t entry_of(unsigned length, const struct head *last, unsigned place)
{
    return length | (last->end ? HR_ENTRY_THEN_DC | (uint64_t)63 << HR_ENTRY_END : 0) |
           (uint64_t)(place + !last->end) << HR_ENTRY_NEXT |
           (uint64_t)place << HR_ENTRY_LAST |
           (uint64_t)(length - last->extra) << HR_ENTRY_START |
           (uint64_t)(63 - last->extra) << HR_ENTRY_UNUSED;
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
    out->end = ac && single.symbol == HR_END_OF_BLOCK;
    if (out->extra > HR_VALUE_BITS)
        return false;
    return out->extra > 0 || !ac || out->end || single.symbol == HR_ZERO_RUN;
}

static uint64_t make_entry(const struct single *singles, bool ac, unsigned window)
{
    const unsigned mask = LOOKUPS - 1;
    struct head a;
    struct head b;
    unsigned used;
    int value = 0;

    if (!read_head(singles, ac, window, HR_LOOKUP_BITS, &a))
        return (uint64_t)HR_RARE << HR_ENTRY_NEXT;
    used = a.length + a.extra;
    if (!ac || a.end || used >= HR_LOOKUP_BITS ||
        !read_head(singles, ac, (window << used) & mask, HR_LOOKUP_BITS - used, &b))
        return entry_of(used, &a, a.run);
    if (a.extra > 0)
        value = hr__codes_extend(
            window >> (HR_LOOKUP_BITS - used) & ((1U << a.extra) - 1), a.extra);
    return entry_of(used + b.length + b.extra, &b, a.run + 1 + b.run) |
           (uint64_t)a.run << HR_ENTRY_FIRST |
           (uint64_t)(uint8_t)value << HR_ENTRY_VALUE;
}

static bool build(struct hr__code *code, uint64_t *entry,
                  const struct hr__baseline_dht *dht, bool ac)
{
    struct single singles[LOOKUPS] = {{0, 0}};

    memset(code, 0, sizeof(*code));
    memcpy(code->counts, dht->counts, sizeof(code->counts));
    memcpy(code->symbol, dht->counts + 16, dht->symbols);
    code->symbols = dht->symbols;
    code->ac = ac;
    if (!assign(code, singles) || (!ac && !are_sizes(code)))
        return false;
    for (unsigned window = 0; window < LOOKUPS; window++)
        entry[window] = make_entry(singles, ac, window);
    return true;
}

bool hr__codes_build(struct hr__codes *codes, const struct hr__baseline_dht *dc,
                     const struct hr__baseline_dht *ac)
{
    return build(&codes->dc, codes->entry + LOOKUPS, dc, false) &&
           build(&codes->ac, codes->entry, ac, true);
}

void hr__codes_fill_extended(int16_t extended[HR_EXTENDED_COUNT])
{
    extended[0] = extended[1] = 0;
    for (unsigned size = 1; size <= HR_VALUE_BITS; size++)
        for (unsigned raw = 0; raw < 1U << size; raw++)
            extended[1U << size | raw] = (int16_t)hr__codes_extend(raw, size);
}

/* ---- the cache ---- */

static bool is_made_of(const struct hr__code *code, const struct hr__baseline_dht *dht)
{
    return code->symbols == dht->symbols &&
           memcmp(code->counts, dht->counts, sizeof(code->counts)) == 0 &&
           memcmp(code->symbol, dht->counts + 16, dht->symbols) == 0;
}

static struct hr__codes *look_up(const struct hr__codes_cache *cache,
                                 const struct hr__baseline_dht *dc,
                                 const struct hr__baseline_dht *ac)
{
    for (int i = 0; i < HR_CODES_KEPT; i++) {
        struct hr__codes *codes = cache->kept[i];

        if (codes != NULL && codes->used_at > 0 && is_made_of(&codes->dc, dc) &&
            is_made_of(&codes->ac, ac))
            return codes;
    }
    return NULL;
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
                                       const struct hr__baseline_dht *dc,
                                       const struct hr__baseline_dht *ac)
{
    struct hr__codes *codes = look_up(cache, dc, ac);

    if (codes == NULL) {
        struct hr__codes **place = oldest(cache);

        if (*place == NULL)
            *place = hr__malloc(sizeof(**place));
        codes = *place;
        if (codes == NULL)
            return NULL;
        codes->used_at = 0;
        if (!hr__codes_build(codes, dc, ac))
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
