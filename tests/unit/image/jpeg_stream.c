/* Entropy-coded data at random, but right by the tables of its file: what a fuzzer would
 * hardly come upon. */
#include <stdlib.h>
#include <string.h>

#include "jpeg_mutate.h"

/* A Huffman table, symbols with their codes. */
struct table {
    unsigned symbols;
    uint8_t symbol[256];
    uint8_t length[256];
    uint16_t code[256];
};

struct component {
    unsigned id;
    unsigned blocks; /* of an MCU */
    unsigned h;
    unsigned v;
    const struct table *dc;
    const struct table *ac;
    int predictor;
};

/* What the header says. */
struct plan {
    struct table table[2][4];
    struct component component[4];
    unsigned components;
    unsigned width;
    unsigned height;
    unsigned restart;
    size_t scan; /* where the data begin; 0: not known */
};

struct writer {
    uint8_t *bytes;
    size_t room;
    size_t used;
    uint64_t bits;
    unsigned count;
    bool tame;
    uint32_t *seed;
};

/* ---- the header ---- */

static void read_table(struct table *table, const uint8_t *counts)
{
    unsigned code = 0;

    table->symbols = 0;
    for (unsigned l = 1; l <= 16; l++, code <<= 1)
        for (unsigned i = 0; i < counts[l - 1] && table->symbols < 256; i++, code++) {
            table->symbol[table->symbols] = counts[16 + table->symbols];
            table->length[table->symbols] = (uint8_t)l;
            table->code[table->symbols++] = (uint16_t)code;
        }
}

static void read_tables(struct plan *plan, const uint8_t *p, size_t n)
{
    while (n > 17) {
        size_t sum = 0;

        for (int i = 1; i <= 16; i++)
            sum += p[i];
        if (sum > n - 17)
            return;
        if (sum <= 256)
            read_table(&plan->table[p[0] >> 4 & 1][p[0] & 3], p + 1);
        p += 17 + sum;
        n -= 17 + sum;
    }
}

static void read_frame(struct plan *plan, const uint8_t *p, size_t n)
{
    if (n < 6 || p[5] > 4 || n < 6 + 3 * (size_t)p[5])
        return;
    plan->height = (unsigned)p[1] << 8 | p[2];
    plan->width = (unsigned)p[3] << 8 | p[4];
    plan->components = p[5];
    for (unsigned i = 0; i < plan->components; i++) {
        struct component *c = &plan->component[i];

        c->id = p[6 + 3 * i];
        c->h = p[7 + 3 * i] >> 4;
        c->v = p[7 + 3 * i] & 15;
        if (plan->components == 1)
            c->h = c->v = 1;
        c->blocks = c->h * c->v;
    }
}

static void read_scan(struct plan *plan, const uint8_t *p, size_t n, size_t behind)
{
    if (plan->components == 0 || n < 1 + 2 * (size_t)plan->components)
        return;
    for (unsigned i = 0; i < plan->components; i++) {
        struct component *c = &plan->component[i];

        c->dc = &plan->table[0][p[2 + 2 * i] >> 4 & 3];
        c->ac = &plan->table[1][p[2 + 2 * i] & 3];
        if (c->dc->symbols == 0 || c->ac->symbols == 0 || c->blocks == 0)
            return;
    }
    plan->scan = behind;
}

/* False: there is no frame and scan. */
static bool read_header(struct plan *plan, const struct blob *file)
{
    struct jpeg_piece pieces[JPEG_PIECES_MAX];
    int count = jpeg_pieces(file, pieces);

    memset(plan, 0, sizeof(*plan));
    for (int i = 0; i < count && plan->scan == 0; i++) {
        const uint8_t *p = file->data + pieces[i].at + 4;
        size_t n = pieces[i].size < 4 ? 0 : pieces[i].size - 4;

        if (pieces[i].marker == 0xc4)
            read_tables(plan, p, n);
        else if (pieces[i].marker == 0xc0 || pieces[i].marker == 0xc1)
            read_frame(plan, p, n);
        else if (pieces[i].marker == 0xdd && n == 2)
            plan->restart = (unsigned)p[0] << 8 | p[1];
        else if (pieces[i].marker == 0xda)
            read_scan(plan, p, n, pieces[i].at + pieces[i].size);
    }
    return plan->scan > 0;
}

/* ---- the data ---- */

static void put_byte(struct writer *w, uint8_t byte)
{
    if (w->used < w->room)
        w->bytes[w->used++] = byte;
}

static void put_bits(struct writer *w, unsigned value, unsigned n)
{
    w->bits = w->bits << n | (value & ((1U << n) - 1));
    for (w->count += n; w->count >= 8; w->count -= 8) {
        uint8_t byte = (uint8_t)(w->bits >> (w->count - 8));

        put_byte(w, byte);
        if (byte == 0xff)
            put_byte(w, 0);
    }
}

static void pad(struct writer *w)
{
    if (w->count > 0)
        put_bits(w, next_random(w->seed) % 8 ? 0x7f : 0, 8 - w->count);
}

static void put_symbol(struct writer *w, const struct table *t, unsigned i)
{
    put_bits(w, t->code[i], t->length[i]);
}

/* A symbol at random; if tame the one of three that has the fewest extra bits. */
static unsigned choose(struct writer *w, const struct table *t)
{
    unsigned best = next_random(w->seed) % t->symbols;

    for (int i = 0; i < 2 && w->tame; i++) {
        unsigned other = next_random(w->seed) % t->symbols;

        if ((t->symbol[other] & 15) < (t->symbol[best] & 15))
            best = other;
    }
    return best;
}

/* A difference, that leads back to 0 if tame. */
static void put_dc(struct writer *w, struct component *c)
{
    unsigned i = choose(w, c->dc);
    unsigned size = c->dc->symbol[i] & 15;
    unsigned value = next_random(w->seed) & ((1U << size) - 1);

    put_symbol(w, c->dc, i);
    if (size == 0)
        return;
    if (w->tame && (value >> (size - 1) != 0) == (c->predictor > 0))
        value ^= (1U << size) - 1;
    put_bits(w, value, size);
    c->predictor +=
        value >> (size - 1) ? (int)value : (int)value - (int)(1U << size) + 1;
}

/* The end of the block, if the table has it. */
static bool put_end(struct writer *w, const struct table *t)
{
    for (unsigned i = 0; i < t->symbols; i++)
        if (t->symbol[i] == 0) {
            put_symbol(w, t, i);
            return true;
        }
    return false;
}

static void put_ac(struct writer *w, const struct table *t)
{
    for (unsigned k = 1, tries = 0; k < 64 && tries < 200; tries++) {
        unsigned i = choose(w, t);
        unsigned run = t->symbol[i] >> 4;
        unsigned size = t->symbol[i] & 15;

        if (next_random(w->seed) % 8 == 0 && put_end(w, t))
            return;
        if (t->symbol[i] != 0 && k + run > 63 &&
            (w->tame || next_random(w->seed) % 512 > 0))
            continue;
        put_symbol(w, t, i);
        put_bits(w, next_random(w->seed), size);
        k = t->symbol[i] == 0 ? 64 : k + run + 1;
    }
}

static void put_mcu(struct writer *w, struct plan *plan)
{
    for (unsigned c = 0; c < plan->components; c++)
        for (unsigned n = plan->component[c].blocks; n > 0; n--) {
            put_dc(w, &plan->component[c]);
            put_ac(w, plan->component[c].ac);
        }
}

static void put_marker(struct writer *w, unsigned marker)
{
    pad(w);
    put_byte(w, 0xff);
    put_byte(w, (uint8_t)marker);
}

static void put_restart(struct writer *w, struct plan *plan, unsigned n)
{
    put_marker(w, 0xd0 + (n & 7));
    for (unsigned c = 0; c < plan->components; c++)
        plan->component[c].predictor = 0;
}

static unsigned count_mcus(const struct plan *plan)
{
    unsigned h = 8;
    unsigned v = 8;

    for (unsigned c = 0; c < plan->components; c++) {
        h = 8 * plan->component[c].h > h ? 8 * plan->component[c].h : h;
        v = 8 * plan->component[c].v > v ? 8 * plan->component[c].v : v;
    }
    return (plan->width + h - 1) / h * ((plan->height + v - 1) / v);
}

void jpeg_write_stream(struct blob *file, bool tame, size_t bytes_max, uint32_t *seed)
{
    struct writer w = {.room = bytes_max, .tame = tame, .seed = seed};
    struct plan plan;
    unsigned mcus;

    if (!read_header(&plan, file))
        return;
    w.bytes = malloc(bytes_max);
    if (w.bytes == NULL)
        abort();
    mcus = count_mcus(&plan);
    for (unsigned n = 0; n < mcus && w.used < bytes_max; n++) {
        if (plan.restart > 0 && n > 0 && n % plan.restart == 0)
            put_restart(&w, &plan, n / plan.restart - 1);
        put_mcu(&w, &plan);
    }
    put_marker(&w, 0xd9);
    blob_splice(file, plan.scan, file->size, w.bytes, w.used);
    free(w.bytes);
}
