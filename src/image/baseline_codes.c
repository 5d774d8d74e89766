/* Lookup tables of Huffman codes, two symbols at a time. A data set mostly needs them
 * twice, for luma and for chroma. */
#include "image/baseline_codes.h"

#include <string.h>

#include "base/mem.h"
#include "base/banned.h"

#define LOOKUPS (1 << HR_LOOKUP_BITS)
#define FIRST_BITS 7 /* of a first symbol's value: 127 at most */

static const struct hr__entry rare = {.last = HR_RARE, .start = UINT8_MAX};

/* ---- the codes ---- */

/* The limits and offsets of the codes; false: they are over-subscribed, or one is all
 * ones. */
static bool assign(struct hr__code *codes)
{
    uint32_t code = 0;
    unsigned at = 0;

    for (unsigned l = 1; l <= 16; l++) {
        codes->offset[l] = (int32_t)at - (int32_t)code;
        code += codes->counts[l - 1];
        at += codes->counts[l - 1];
        if (code >= 1U << l)
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

static bool prepare(struct hr__code *code, const struct hr__baseline_dht *dht, bool ac)
{
    memcpy(code->counts, dht->counts, sizeof(code->counts));
    memcpy(code->symbol, dht->counts + 16, dht->symbols);
    code->symbols = dht->symbols;
    code->ac = ac;
    return assign(code) && (ac || are_sizes(code));
}

/* ---- the lookup ---- */

static unsigned extra_bits(const struct hr__code *code, unsigned symbol)
{
    return code->ac ? symbol & 15 : symbol;
}

static unsigned run_of(const struct hr__code *code, unsigned symbol)
{
    return code->ac ? symbol >> 4 : 0;
}

/* The entry of this symbol alone, whose code has `length` bits. */
static struct hr__entry single(const struct hr__code *code, unsigned symbol,
                               unsigned length)
{
    unsigned extra = extra_bits(code, symbol);
    bool end = code->ac && symbol == HR_END_OF_BLOCK;
    bool known = extra > 0 || !code->ac || end || symbol == HR_ZERO_RUN;

    if (!known || extra > HR_VALUE_BITS || length + extra > HR_ENTRY_BITS)
        return rare;
    return (struct hr__entry){
        .length = (uint8_t)(length + extra),
        .last = (uint8_t)run_of(code, symbol),
        .start = (uint8_t)(length - 1),
        .unused = (uint8_t)(63 - extra),
        .end = end ? HR_ENTRY_END : 0,
    };
}

static void fill(struct hr__entry *to, struct hr__entry entry, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        to[i] = entry;
}

/* `second` behind a first symbol of which `delta` tells: no field carries into the next,
 * so that they are added up all at once. */
static struct hr__entry join(struct hr__entry second, struct hr__entry delta)
{
    uint64_t a;
    uint64_t b;

    memcpy(&a, &second, sizeof(a));
    memcpy(&b, &delta, sizeof(b));
    a += b;
    memcpy(&second, &a, sizeof(a));
    return second;
}

/* The windows that begin with the code of `alone` and one value of its: `spare` bits are
 * left for a second symbol. */
static void fill_pairs(struct hr__entry *to, struct hr__entry alone, int value,
                       unsigned spare, const struct hr__entry *seconds)
{
    const struct hr__entry delta = {
        .length = alone.length,
        .last = (uint8_t)(alone.last + 1),
        .first = alone.last,
        .value = (int8_t)value,
        .start = alone.length,
    };
    const unsigned longest = HR_ENTRY_BITS - alone.length;

    for (unsigned i = 0; i < 1U << spare; i++) {
        struct hr__entry second = seconds[i << (HR_LOOKUP_BITS - spare)];
        bool fits = second.start < spare && second.length <= longest;

        to[i] = fits ? join(second, delta) : alone;
    }
}

/* The windows that begin with a code. */
static void fill_code(struct hr__entry *to, struct hr__entry alone, unsigned spare,
                      const struct hr__entry *seconds)
{
    unsigned extra = 63U - alone.unused;

    if (alone.last == HR_RARE || alone.end || extra >= spare || extra > FIRST_BITS) {
        fill(to, alone, 1U << spare);
        return;
    }
    spare -= extra;
    for (unsigned raw = 0; raw < 1U << extra; raw++)
        fill_pairs(to + (raw << spare), alone,
                   extra > 0 ? hr__codes_extend(raw, extra) : 0, spare, seconds);
}

/* All entries. Without `seconds`: of single symbols. */
static void fill_entries(struct hr__entry *to, const struct hr__code *code,
                         const struct hr__entry *seconds)
{
    struct hr__entry *end = to + LOOKUPS;
    const uint8_t *symbol = code->symbol;

    for (unsigned l = 1; l <= HR_LOOKUP_BITS; l++) {
        unsigned spare = HR_LOOKUP_BITS - l;

        for (unsigned i = 0; i < code->counts[l - 1]; i++, to += 1U << spare) {
            struct hr__entry alone = single(code, *symbol++, l);

            if (seconds == NULL)
                fill(to, alone, 1U << spare);
            else
                fill_code(to, alone, spare, seconds);
        }
    }
    fill(to, rare, (unsigned)(end - to));
}

bool hr__codes_build(struct hr__codes *codes, const struct hr__baseline_dht *dc,
                     const struct hr__baseline_dht *ac)
{
    struct hr__entry singles[LOOKUPS];

    if (!prepare(&codes->dc, dc, false) || !prepare(&codes->ac, ac, true))
        return false;
    fill_entries(singles, &codes->ac, NULL);
    fill_entries(codes->entry, &codes->ac, singles);
    fill_entries(codes->entry + HR_ENTRY_END, &codes->dc, singles);
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
