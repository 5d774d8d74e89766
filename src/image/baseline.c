/* The decoder of baseline JPEGs.
 *
 * Four parts, each in a file of its own:
 *
 *     baseline_markers   the file's segments: sizes, tables, where the data begins
 *     baseline_codes     Huffman codes as lookup tables, kept from file to file
 *     baseline_entropy   bits to coefficients
 *     baseline_idct      coefficients to samples
 *
 * This file makes a decoder of them. It works in chunks of up to 16 MCUs, so that the
 * coefficients stay in the first cache:
 *
 *     segment ── unstuff ──> bytes ── decode ──> 16 MCUs of coefficients
 *                                                   │ add up DC differences
 *                                                   │ per component and row of blocks:
 *                                                   v two blocks a time
 *                                                 IDCT ──> lines of the planes
 *
 * A segment is what lies between two restart markers; without them, all of the data.
 *
 * Its place is beside libjpeg, not instead of it: libjpeg is thorough, knows all of the
 * standard, and has been attacked for decades. This decoder says "no" to everything that
 * is unusual or wrong, and then libjpeg decides what the user sees. So it needs no
 * messages, no recovery, no colour but Y Cb Cr; and what it takes is checked against
 * libjpeg, by tests and by fuzzing, for the same verdict and the same samples.
 *
 * Hence the strictness at the ends: of a segment no more than the 7 bits of padding may be
 * left over, what follows is the very marker that is due, and behind the last row it is
 * EOI. Damaged data mostly comes out of step with its markers: without these checks one
 * damaged file in 20 passes that libjpeg complains about. */
#include "image/baseline.h"

#include <string.h>

#include "base/mem.h"
#include "image/baseline_entropy.h"
#include "image/baseline_idct.h"
#include "image/kernels.h"
#include "base/banned.h"

#define CHUNK 16 /* MCUs */
#define COEF_BYTES (CHUNK * HR_MCU_BLOCKS * 64 * sizeof(int16_t))
#define LINE 64 /* bytes of a cache line */
#define EOI 0xd9
#define RST0 0xd0

struct component {
    int h; /* blocks of an MCU across and down */
    int v;
    unsigned first; /* block of the MCU */
    int predictor;  /* DC of the block before */
    struct hr__dequant dequant;
    struct hr__idct_blocks blocks; /* side by side: how far from each other */
};

struct hr__baseline {
    /* const after creation, but for tests */
    hr__baseline_decode_fn decode;
    hr__baseline_idct_fn idct;
    /* kept from picture to picture */
    struct hr__codes_cache cache;
    uint8_t *segment; /* without stuffing */
    size_t segment_bytes;
    /* one picture */
    const uint8_t *data;
    size_t size;
    size_t at; /* of the next byte to unstuff */
    struct hr__bits bits;
    struct hr__baseline_mcu mcu;
    struct component component[3];
    int components;
    unsigned mcus;        /* of a row */
    unsigned restart;     /* MCUs of a segment, 0: all */
    unsigned left;        /* MCUs of this segment to come */
    unsigned next_marker; /* 0 … 7 */
    unsigned need_left;   /* MCUs of the row whose samples are needed */
    unsigned need_right;
    unsigned mcu_width; /* luma samples */
    /* CHUNK * HR_MCU_BLOCKS * 64, aligned to cache lines; 0 between rows */
    int16_t *coef;
};

bool hr__baseline_is_fast(void)
{
#if defined(__x86_64__)
    return strcmp(hr__kernels_best()->name, "avx2") == 0 &&
           __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
#else
    return false;
#endif
}

void hr__baseline_set_portable(struct hr__baseline *b, bool portable)
{
    b->decode = hr__baseline_decode_portable;
    b->idct = hr__baseline_idct_portable;
#if defined(__x86_64__)
    if (!portable) {
        b->decode = hr__baseline_decode_bmi2;
        b->idct = hr__baseline_idct_avx2;
    }
#else
    (void)portable;
#endif
}

enum hr_status hr__baseline_new(struct hr__baseline **out, struct hr_error *err)
{
    size_t bytes = sizeof(struct hr__baseline) + COEF_BYTES + LINE;
    struct hr__baseline *b = hr__calloc(1, bytes);
    uintptr_t behind;

    *out = b;
    if (b == NULL)
        return hr__nomem(err, "image", "a JPEG decoder", bytes);
    behind = (uintptr_t)(b + 1);
    b->coef = (int16_t *)((char *)(b + 1) + (LINE - behind % LINE) % LINE);
    hr__codes_fill_extended(b->mcu.extended);
    hr__entropy_fill_places(b->mcu.place);
    hr__baseline_set_portable(b, !hr__baseline_is_fast());
    return HR_OK;
}

void hr__baseline_free(struct hr__baseline **baseline)
{
    struct hr__baseline *b = *baseline;

    if (b == NULL)
        return;
    hr__codes_cache_fini(&b->cache);
    hr__free(b->segment);
    hr__free(b);
    *baseline = NULL;
}

/* ---- the header ---- */

static uint32_t ceil_div(uint32_t a, uint32_t b)
{
    return (a + b - 1) / b;
}

static bool is_factor(int f)
{
    return f == 1 || f == 2 || f == 4;
}

/* Chroma has one block in an MCU, luma up to 8. A lone component has MCUs of one block
 * whatever its factors are. */
static bool choose_sampling(struct hr__baseline *b,
                            const struct hr__baseline_header *header)
{
    const struct hr__baseline_component *c = header->component;

    for (int i = 0; i < b->components; i++)
        b->component[i].h = b->component[i].v = 1;
    if (b->components == 1)
        return c[0].h >= 1 && c[0].h <= 4 && c[0].v >= 1 && c[0].v <= 4;
    b->component[0].h = c[0].h;
    b->component[0].v = c[0].v;
    return is_factor(c[0].h) && is_factor(c[0].v) && c[0].h * c[0].v <= 8 &&
           c[1].h == 1 && c[1].v == 1 && c[2].h == 1 && c[2].v == 1;
}

static void add_block(struct hr__baseline_mcu *mcu, const struct hr__codes *codes)
{
    int last = mcu->groups - 1;

    if (last < 0 || mcu->group[last].codes != codes ||
        mcu->group[last].blocks == HR_GROUP_BLOCKS) {
        last = mcu->groups++;
        mcu->group[last] = (struct hr__baseline_group){codes, 0};
    }
    mcu->group[last].blocks++;
    mcu->blocks++;
}

/* Where the blocks of a component that lie side by side are. */
static struct hr__idct_blocks lay_out(const struct component *c, size_t mcu_blocks)
{
    const size_t mcu = 64 * mcu_blocks;

    if (c->h == 1)
        return (struct hr__idct_blocks){.second = mcu, .next = {2 * mcu, 2 * mcu}};
    if (c->h == 2)
        return (struct hr__idct_blocks){.second = 64, .next = {mcu, mcu}};
    return (struct hr__idct_blocks){.second = 64, .next = {128, mcu - 128}};
}

/* Blocks and tables of an MCU. */
static bool plan_mcu(struct hr__baseline *b, const struct hr__baseline_header *header)
{
    struct hr__baseline_mcu *mcu = &b->mcu;
    const struct hr__codes *codes = NULL;

    mcu->groups = 0;
    mcu->blocks = 0;
    for (int i = 0; i < b->components; i++) {
        const struct hr__baseline_component *c = &header->component[i];
        struct component *own = &b->component[i];

        if (i == 0 || c->dc != c[-1].dc || c->ac != c[-1].ac)
            codes = hr__codes_find(&b->cache, &header->dht[0][c->dc],
                                   &header->dht[1][c->ac], b->size - b->at);
        if (codes == NULL)
            return false;
        own->first = mcu->blocks;
        own->predictor = 0;
        if (i > 0 && c->quant == c[-1].quant)
            own->dequant = own[-1].dequant;
        else
            hr__dequant_init(&own->dequant, header->quant[c->quant]);
        for (int k = own->h * own->v; k > 0; k--)
            add_block(mcu, codes);
    }
    for (int i = 0; i < b->components; i++)
        b->component[i].blocks = lay_out(&b->component[i], mcu->blocks);
    return true;
}

static void describe(const struct hr__baseline *b,
                     const struct hr__baseline_header *header,
                     struct hr__baseline_planes *out)
{
    memset(out, 0, sizeof(*out));
    out->width = header->width;
    out->height = header->height;
    out->planes = b->components;
    out->h = b->component[0].h;
    out->v = b->component[0].v;
    out->rows = ceil_div(header->height, 8 * (uint32_t)out->v);
    for (int i = 0; i < b->components; i++) {
        const struct component *c = &b->component[i];

        out->plane[i].width =
            ceil_div(header->width * (uint32_t)c->h, (uint32_t)out->h);
        out->plane[i].height =
            ceil_div(header->height * (uint32_t)c->v, (uint32_t)out->v);
        out->plane[i].room = b->mcus * 8 * (uint32_t)c->h + 8;
        out->plane[i].lines = 8 * c->v;
    }
}

/* ---- segments ---- */

static bool reserve_segment(struct hr__baseline *b)
{
    size_t bytes = b->size - b->at + HR_SEGMENT_SLACK;

    if (bytes <= b->segment_bytes)
        return true;
    hr__free(b->segment);
    b->segment_bytes = 0;
    b->segment = hr__malloc(bytes + bytes / 4);
    if (b->segment == NULL)
        return false;
    b->segment_bytes = bytes + bytes / 4;
    return true;
}

static void begin_segment(struct hr__baseline *b)
{
    size_t used;
    size_t bytes =
        hr__baseline_unstuff(b->data + b->at, b->size - b->at, b->segment, &used);

    memset(b->segment + bytes, 0, HR_SEGMENT_SLACK);
    b->at += used;
    hr__bits_begin(&b->bits, b->segment, bytes);
    b->left = b->restart;
    for (int i = 0; i < b->components; i++)
        b->component[i].predictor = 0;
}

/* Nothing but padding is left, and this marker follows. */
static bool end_segment(struct hr__baseline *b, unsigned marker)
{
    if (hr__bits_left(&b->bits) >= 8 || b->size - b->at < 2 ||
        b->data[b->at + 1] != marker)
        return false;
    b->at += 2;
    return true;
}

bool hr__baseline_begin(struct hr__baseline *b, const uint8_t *data, size_t size,
                        struct hr__baseline_planes *planes)
{
    struct hr__baseline_header header;

    if (!hr__baseline_parse(data, size, &header))
        return false;
    b->data = data;
    b->size = size;
    b->at = header.scan;
    b->components = (int)header.components;
    if (!choose_sampling(b, &header) || !plan_mcu(b, &header) || !reserve_segment(b))
        return false;
    b->mcu_width = 8 * (unsigned)b->component[0].h;
    b->mcus = ceil_div(header.width, b->mcu_width);
    b->need_left = 0;
    b->need_right = b->mcus;
    b->restart = header.restart;
    b->next_marker = 0;
    begin_segment(b);
    describe(b, &header, planes);
    return true;
}

void hr__baseline_need(struct hr__baseline *b, uint32_t left, uint32_t right)
{
    b->need_left = left / b->mcu_width;
    b->need_right = ceil_div(right, b->mcu_width);
}

/* ---- rows ---- */

/* DC coefficients come as differences; false: one is out of all range. */
static bool add_up_dc(struct hr__baseline *b, int16_t *coef, unsigned n)
{
    const size_t mcu = (size_t)b->mcu.blocks * 64;
    bool within = true;

    for (int i = 0; i < b->components; i++) {
        struct component *c = &b->component[i];
        const size_t end = 64 * (size_t)(c->h * c->v);
        const int most = c->dequant.dc_max;
        int16_t *of_mcu = coef + 64 * (size_t)c->first;
        int dc = c->predictor;

        for (unsigned m = 0; m < n; m++, of_mcu += mcu)
            for (size_t k = 0; k < end; k += 64) {
                dc += of_mcu[k];
                of_mcu[k] = (int16_t)dc;
                within &= -most <= dc && dc <= most;
            }
        c->predictor = dc;
    }
    return within;
}

/* The samples of n MCUs, the first of which is MCU `first` of the row. */
static bool transform(struct hr__baseline *b, const struct component *c, int16_t *coef,
                      unsigned first, unsigned n, uint8_t *const *rows)
{
    struct hr__idct_blocks blocks = c->blocks;

    blocks.n = (int)n * c->h;
    blocks.coef = coef + 64 * (size_t)c->first;
    for (int y = 0; y < c->v; y++) {
        if (!b->idct(blocks, &c->dequant, rows + (size_t)y * 8,
                     (size_t)first * 8 * (size_t)c->h))
            return false;
        blocks.coef += 64 * (ptrdiff_t)c->h;
    }
    return true;
}

static unsigned clamp(unsigned x, unsigned low, unsigned high)
{
    if (x < low)
        return low;
    return x > high ? high : x;
}

/* Transform what is needed of the chunk. Its coefficients are 0 afterwards. */
static bool finish_chunk(struct hr__baseline *b, unsigned first, unsigned n,
                         uint8_t *const *const *rows, int count)
{
    size_t mcu = (size_t)b->mcu.blocks * 64;
    unsigned from = clamp(b->need_left, first, first + n) - first;
    unsigned to = clamp(b->need_right, first, first + n) - first;

    for (int i = 0; i < count && from < to; i++)
        if (!transform(b, &b->component[i], b->coef + from * mcu, first + from,
                       to - from, rows[i]))
            return false;
    if (count < b->components || from > 0 || to < n)
        memset(b->coef, 0, n * mcu * sizeof(int16_t));
    return true;
}

static bool next_segment(struct hr__baseline *b)
{
    if (!end_segment(b, RST0 + b->next_marker))
        return false;
    b->next_marker = (b->next_marker + 1) & 7;
    begin_segment(b);
    return true;
}

/* The coefficients of the next n MCUs, from however many segments. */
static bool decode_chunk(struct hr__baseline *b, unsigned n)
{
    int16_t *coef = b->coef;

    while (n > 0) {
        unsigned part = n;

        if (b->restart > 0 && b->left == 0 && !next_segment(b))
            return false;
        if (b->restart > 0 && b->left < n)
            part = b->left;
        if (!b->decode(&b->bits, &b->mcu, coef, (int)part) || !add_up_dc(b, coef, part))
            return false;
        b->left -= part;
        n -= part;
        coef += (size_t)part * b->mcu.blocks * 64;
    }
    return true;
}

bool hr__baseline_row(struct hr__baseline *b, uint8_t *const *const *rows, int count)
{
    for (unsigned first = 0, n; first < b->mcus; first += n) {
        n = b->mcus - first < CHUNK ? b->mcus - first : CHUNK;
        if (!decode_chunk(b, n) || !finish_chunk(b, first, n, rows, count)) {
            memset(b->coef, 0, COEF_BYTES);
            return false;
        }
    }
    return true;
}

bool hr__baseline_finish(struct hr__baseline *b)
{
    return end_segment(b, EOI);
}
