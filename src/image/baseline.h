/* baseline.h - our own decoder of baseline JPEGs: from bytes to planes, faster than
 * libjpeg. It takes what is common, and nothing that is doubtful: whoever is told
 * "no", at whatever point, decodes the picture by libjpeg. What it takes, libjpeg takes
 * without a warning and with the same samples.
 *
 *     begin -> { row } until all are there -> finish */
#ifndef HR_IMAGE_BASELINE_H
#define HR_IMAGE_BASELINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "headrace/status.h"

/* A decoder, used for picture after picture by one thread. */
struct hr__baseline;

/* The planes of a picture. Plane 0 is luma; 1 and 2, where they exist, are Cb and Cr. */
struct hr__baseline_planes {
    uint32_t width; /* of the picture */
    uint32_t height;
    int planes;    /* 1 or 3 */
    int h;         /* luma samples per chroma sample across (1, 2, 4) */
    int v;         /* and down */
    uint32_t rows; /* of MCUs: calls of hr__baseline_row */
    struct {
        uint32_t width; /* samples that show: ceil(picture / factor) */
        uint32_t height;
        uint32_t room; /* bytes that a row of the plane must have */
        int lines;     /* lines that a row of MCUs has */
    } plane[3];
};

HR_MUST_USE enum hr_status hr__baseline_new(struct hr__baseline **out,
                                            struct hr_error *err);
void hr__baseline_free(struct hr__baseline **baseline);

/* Read the header; data is borrowed until the last row. False: it is for libjpeg. */
bool hr__baseline_begin(struct hr__baseline *b, const uint8_t *data, size_t size,
                        struct hr__baseline_planes *planes);

/* Of the following rows only columns left … right - 1 of luma, and the chroma for them,
 * are needed: the others are left as they are. All is decoded, and judged, as before. */
void hr__baseline_need(struct hr__baseline *b, uint32_t left, uint32_t right);

/* Decode the next row of MCUs: of plane i to rows[i][0 … lines - 1], each with room for
 * planes->plane[i].room bytes. Planes from `count` on are not needed. False: it is for
 * libjpeg. */
bool hr__baseline_row(struct hr__baseline *b, uint8_t *const *const *rows, int count);

/* Does the data end as it should? False: it is for libjpeg. */
bool hr__baseline_finish(struct hr__baseline *b);

/* Whether there is a fast variant for this CPU: without it libjpeg is faster. */
bool hr__baseline_is_fast(void);
/* Choose the variant, for tests. */
void hr__baseline_set_portable(struct hr__baseline *b, bool portable);

#endif
