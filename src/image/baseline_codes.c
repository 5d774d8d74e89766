/* Lookup tables of Huffman codes, two symbols at a time. A data set mostly needs them
 * twice, for luma and for chroma. */
#include "image/baseline_codes.h"

#include <string.h>

#include "base/mem.h"
#include "base/banned.h"

#define LOOKUPS (1 << HR_LOOKUP_BITS)
#define FIRST_BITS 7 /* of a first symbol's value: 127 at most */
/* Of that of a second, whose code is within the window. */
#define SECOND_BITS (HR_ENTRY_BITS - HR_LOOKUP_BITS)

/* Data of which decoding by single symbols would take longer than making pairs. */
#define PAIR_BYTES 4096

static const struct hr__entry rare = {.last = HR_RARE, .unused = 63};

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

/* Mostly few: most codes are long. */
static inline void fill(struct hr__entry *to, struct hr__entry entry, unsigned n)
{
    for (; n >= 4; n -= 4, to += 4)
        to[0].all = to[1].all = to[2].all = to[3].all = entry.all;
    while (n-- > 0)
        (to++)->all = entry.all;
}

/* The entries of a table, of single symbols. */
static void fill_singles(struct hr__entry *to, const struct hr__code *code)
{
    const struct hr__entry *end = to + LOOKUPS;
    const uint8_t *symbol = code->symbol;

    for (unsigned l = 1; l <= HR_LOOKUP_BITS; l++)
        for (unsigned i = 0; i < code->counts[l - 1]; i++, to += LOOKUPS >> l)
            fill(to, single(code, *symbol++, l), LOOKUPS >> l);
    fill(to, rare, (unsigned)(end - to));
}

/* Put second symbols behind a first one, into its n entries. For each value of its,
 * `spare` bits are left. Codes are in the order of their lengths, so the windows in which
 * a second one fits come first. `delta` is what the first symbol adds to an entry of the
 * second: no field carries into the next, so that they are added up all at once; a rare
 * entry stays one. */
static void pair(struct hr__entry *to, unsigned n, const struct hr__codes *codes,
                 const struct hr__entry *seconds)
{
    const struct hr__entry alone = to[0];
    unsigned extra = 63U - alone.unused;
    unsigned spare = HR_LOOKUP_BITS - alone.length;
    unsigned fit;

    if (alone.last >= HR_RARE || alone.end || extra > FIRST_BITS ||
        alone.length >= HR_LOOKUP_BITS)
        return;
    fit = codes->ac.limit[spare] >> (16 - spare);
    for (unsigned raw = 0; raw < n >> spare; raw++, to += 1U << spare) {
        const struct hr__entry delta = {
            .length = alone.length,
            .last = (uint8_t)(alone.last + 1),
            .first = alone.last,
            .value = (int8_t)(extra > 0 ? hr__codes_extend(raw, extra) : 0),
            .start = alone.length,
        };

        for (unsigned i = 0; i < fit; i++)
            to[i].all = delta.all + seconds[i << alone.length].all;
    }
}

static void pair_all(struct hr__entry *to, const struct hr__code *code,
                     const struct hr__codes *codes, const struct hr__entry *seconds)
{
    for (unsigned l = 1; l < HR_LOOKUP_BITS; l++)
        for (unsigned i = 0; i < code->counts[l - 1]; i++, to += LOOKUPS >> l)
            pair(to, LOOKUPS >> l, codes, seconds);
}

void hr__codes_pair(struct hr__codes *codes)
{
    struct hr__entry seconds[LOOKUPS];

    for (unsigned i = 0; i < LOOKUPS; i++)
        seconds[i].all =
            codes->entry[i].unused >= 63 - SECOND_BITS ? codes->entry[i].all : rare.all;
    pair_all(codes->entry, &codes->ac, codes, seconds);
    pair_all(codes->entry + HR_ENTRY_END, &codes->dc, codes, seconds);
    codes->paired = true;
}

bool hr__codes_build(struct hr__codes *codes, const struct hr__baseline_dht *dc,
                     const struct hr__baseline_dht *ac)
{
    codes->paired = false;
    if (!prepare(&codes->dc, dc, false) || !prepare(&codes->ac, ac, true))
        return false;
    fill_singles(codes->entry, &codes->ac);
    fill_singles(codes->entry + HR_ENTRY_END, &codes->dc);
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

/* Whether x is to go rather than y: first those that came once only, for little data. */
static bool is_older(const struct hr__codes *x, const struct hr__codes *y)
{
    if (x->paired != y->paired)
        return y->paired;
    return x->used_at < y->used_at;
}

/* The place for new tables; there is one, as more are kept than a picture has. */
static struct hr__codes **choose_place(struct hr__codes_cache *cache)
{
    struct hr__codes **old = NULL;

    for (int i = 0; i < HR_CODES_KEPT; i++) {
        struct hr__codes **place = &cache->kept[i];

        if (*place == NULL) /* in the order of places, and none is given up */
            return old != NULL && !(*old)->paired ? old : place;
        if (((*place)->used_at == 0 ||
             (*place)->used_at + HR_CODES_OF_PICTURE <= cache->clock) &&
            (old == NULL || is_older(*place, *old)))
            old = place;
    }
    return old;
}

static struct hr__codes *make(struct hr__codes_cache *cache,
                              const struct hr__baseline_dht *dc,
                              const struct hr__baseline_dht *ac)
{
    struct hr__codes **place = choose_place(cache);

    if (*place == NULL)
        *place = hr__malloc(sizeof(**place));
    if (*place == NULL)
        return NULL;
    (*place)->used_at = 0;
    return hr__codes_build(*place, dc, ac) ? *place : NULL;
}

const struct hr__codes *hr__codes_find(struct hr__codes_cache *cache,
                                       const struct hr__baseline_dht *dc,
                                       const struct hr__baseline_dht *ac, size_t size)
{
    struct hr__codes *codes = look_up(cache, dc, ac);
    bool known = codes != NULL;

    if (!known)
        codes = make(cache, dc, ac);
    if (codes == NULL)
        return NULL;
    /* What came twice will come again. */
    if (!codes->paired && (known || size >= PAIR_BYTES))
        hr__codes_pair(codes);
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
