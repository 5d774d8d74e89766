/* baseline_markers.h - the segments of a JPEG file up to its entropy-coded data. */
#ifndef HR_IMAGE_BASELINE_MARKERS_H
#define HR_IMAGE_BASELINE_MARKERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A Huffman table as the file has it: 16 counts of codes by length, then the symbols in
 * the order of their codes. Borrowed from the file's data. */
struct hr__baseline_dht {
    const uint8_t *counts; /* NULL: not defined */
    unsigned symbols;      /* how many follow the counts, 1 … 256 */
};

struct hr__baseline_component {
    uint8_t id;
    uint8_t h; /* sampling factors */
    uint8_t v;
    uint8_t quant; /* which table */
    uint8_t dc;
    uint8_t ac;
};

struct hr__baseline_header {
    uint32_t width;
    uint32_t height;
    unsigned components; /* 1: grey, 3: Y Cb Cr */
    struct hr__baseline_component component[3];
    uint16_t quant[4][64]; /* in natural order: row by row */
    bool has_quant[4];
    struct hr__baseline_dht dht[2][4]; /* [0]: DC, [1]: AC */
    unsigned restart; /* MCUs of an interval, 0: one for the whole scan */
    size_t scan;      /* where the entropy-coded data begins */
};

/* Positions of the zigzag scan in natural order. */
extern const uint8_t hr__baseline_natural[64];

/* Read the segments. False when the file is not one that the decoder of baseline.h takes
 * (more than one scan, progressive, other colour spaces), or not what the standard says
 * in any detail: libjpeg then judges. Checks indices and lengths; neither the codes of a
 * Huffman table nor the sampling factors.
 * Source: ITU-T T.81, annex B; JFIF 1.02; Adobe technical note 5116 (APP14). */
bool hr__baseline_parse(const uint8_t *data, size_t size,
                        struct hr__baseline_header *out);

#endif
