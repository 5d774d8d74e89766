/* jpeg_kinds.h - pictures of four kinds, as JPEGs of all samplings. */
#ifndef HR_TEST_JPEG_KINDS_H
#define HR_TEST_JPEG_KINDS_H

#include <stdbool.h>

#include "pictures.h"

enum kind { SMOOTH, NOISE, SATURATED, EDGES, KINDS };

#define KIND_SIDE_MAX 192 /* samples of a picture */

struct how {
    int colours; /* 1 or 3 */
    int h;       /* of luma */
    int v;
    int quality;
    bool optimised;
    unsigned restart; /* MCUs */
};

/* All that our decoder takes, but for the other fields: those are 0. */
#define SAMPLINGS 8
extern const struct how samplings[SAMPLINGS];

struct blob picture(enum kind kind, unsigned width, unsigned height, struct how how);

#endif
