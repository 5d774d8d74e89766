/* The segments of a JPEG file, read strictly: whatever is unusual is somebody else's. */
#include "image/baseline_markers.h"

#include <string.h>

#include "base/banned.h"

enum {
    SOF0 = 0xc0, /* baseline */
    SOF1 = 0xc1, /* extended sequential, Huffman */
    DHT = 0xc4,
    SOI = 0xd8,
    SOS = 0xda,
    DQT = 0xdb,
    DRI = 0xdd,
    APP0 = 0xe0,
    APP14 = 0xee,
    APP15 = 0xef,
    COM = 0xfe
};

#define SIDE_MAX 65500 /* libjpeg's */

const uint8_t hr__baseline_natural[64] = {
    0,  1,  8,  16, 9,  2,  3,  10, 17, 24, 32, 25, 18, 11, 4,  5,
    12, 19, 26, 33, 40, 48, 41, 34, 27, 20, 13, 6,  7,  14, 21, 28,
    35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51,
    58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63};

/* What is known while the segments go by. */
struct parser {
    struct hr__baseline_header *out;
    bool frame; /* seen: SOF */
    bool jfif;
    int transform; /* of the Adobe segment, -1: there is none */
};

static unsigned be16(const uint8_t *p)
{
    return (unsigned)p[0] << 8 | p[1];
}

static bool parse_quant(struct parser *parser, const uint8_t *p, size_t n)
{
    for (; n >= 65; n -= 65, p += 65) {
        if (p[0] > 3) /* a table of 16-bit values, or no table's number */
            return false;
        for (int i = 0; i < 64; i++)
            parser->out->quant[p[0]][hr__baseline_natural[i]] = p[1 + i];
        parser->out->has_quant[p[0]] = true;
    }
    return n == 0;
}

static bool parse_codes(struct parser *parser, const uint8_t *p, size_t n)
{
    while (n > 17) {
        struct hr__baseline_dht table = {p + 1, 0};

        for (int i = 0; i < 16; i++)
            table.symbols += table.counts[i];
        if ((p[0] & ~0x13) != 0 || table.symbols == 0 || table.symbols > 256 ||
            table.symbols > n - 17)
            return false;
        parser->out->dht[p[0] >> 4][p[0] & 3] = table;
        p += 17 + table.symbols;
        n -= 17 + table.symbols;
    }
    return n == 0;
}

static bool parse_restart(struct parser *parser, const uint8_t *p, size_t n)
{
    if (n != 2)
        return false;
    parser->out->restart = be16(p);
    return true;
}

static bool parse_frame(struct parser *parser, const uint8_t *p, size_t n)
{
    struct hr__baseline_header *out = parser->out;

    if (parser->frame || n < 6 || p[0] != 8)
        return false;
    parser->frame = true;
    out->height = be16(p + 1);
    out->width = be16(p + 3);
    out->components = p[5];
    if (out->height < 1 || out->height > SIDE_MAX || out->width < 1 ||
        out->width > SIDE_MAX || (out->components != 1 && out->components != 3) ||
        n != 6 + 3 * (size_t)out->components)
        return false;
    for (size_t i = 0; i < out->components; i++) {
        const uint8_t *q = p + 6 + 3 * i;

        out->component[i] = (struct hr__baseline_component){
            .id = q[0], .h = q[1] >> 4, .v = q[1] & 15, .quant = q[2]};
        if (q[2] > 3)
            return false;
    }
    return true;
}

/* libjpeg complains of a version that it does not know. */
static bool parse_app0(struct parser *parser, const uint8_t *p, size_t n)
{
    if (n < 14 || memcmp(p, "JFIF", 5) != 0)
        return true;
    parser->jfif = true;
    return p[5] == 1;
}

static void parse_app14(struct parser *parser, const uint8_t *p, size_t n)
{
    if (n >= 12 && memcmp(p, "Adobe", 5) == 0)
        parser->transform = p[11];
}

/* Is it Y Cb Cr? The rules are libjpeg's: JFIF says so, else Adobe's marker decides,
 * else the numbers of the components do. Numbers that it guesses about are left to it. */
static bool is_ycc(const struct parser *parser)
{
    const struct hr__baseline_component *c = parser->out->component;

    if (parser->out->components == 1 || parser->jfif)
        return true;
    if (parser->transform >= 0)
        return parser->transform == 1;
    return c[0].id == 1 && c[1].id == 2 && c[2].id == 3;
}

static bool has_tables(const struct hr__baseline_header *out)
{
    for (unsigned i = 0; i < out->components; i++) {
        const struct hr__baseline_component *c = &out->component[i];

        if (!out->has_quant[c->quant] || out->dht[0][c->dc].counts == NULL ||
            out->dht[1][c->ac].counts == NULL)
            return false;
        for (unsigned k = 0; k < i; k++)
            if (out->component[k].id == c->id)
                return false;
    }
    return true;
}

static bool parse_scan(struct parser *parser, const uint8_t *p, size_t n)
{
    struct hr__baseline_header *out = parser->out;

    if (!parser->frame || n != 4 + 2 * (size_t)out->components ||
        p[0] != out->components)
        return false;
    for (size_t i = 0; i < out->components; i++) {
        const uint8_t *q = p + 1 + 2 * i;

        if (q[0] != out->component[i].id || (q[1] & ~0x33) != 0)
            return false;
        out->component[i].dc = q[1] >> 4;
        out->component[i].ac = q[1] & 3;
    }
    p += n - 3;
    return p[0] == 0 && p[1] == 63 && p[2] == 0 && has_tables(out) && is_ycc(parser);
}

static bool parse_segment(struct parser *parser, int marker, const uint8_t *p, size_t n)
{
    switch (marker) {
    case DQT:
        return parse_quant(parser, p, n);
    case DHT:
        return parse_codes(parser, p, n);
    case DRI:
        return parse_restart(parser, p, n);
    case SOF0:
    case SOF1:
        return parse_frame(parser, p, n);
    case SOS:
        return parse_scan(parser, p, n);
    case APP0:
        return parse_app0(parser, p, n);
    case APP14:
        parse_app14(parser, p, n);
        return true;
    default:
        return marker == COM || (marker > APP0 && marker <= APP15);
    }
}

bool hr__baseline_parse(const uint8_t *data, size_t size,
                        struct hr__baseline_header *out)
{
    struct parser parser = {.out = out, .transform = -1};
    size_t at = 2;

    memset(out, 0, sizeof(*out));
    if (size < 4 || data[0] != 0xff || data[1] != SOI)
        return false;
    for (;;) {
        size_t length;
        int marker;

        if (size - at < 4 || data[at] != 0xff)
            return false;
        marker = data[at + 1];
        length = be16(data + at + 2);
        at += 4;
        if (length < 2 || length - 2 > size - at)
            return false;
        if (!parse_segment(&parser, marker, data + at, length - 2))
            return false;
        at += length - 2;
        if (marker == SOS)
            break;
    }
    out->scan = at;
    return true;
}
