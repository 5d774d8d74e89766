/* Orientation. A turned picture is put in place a few rows at a time, so that a row
 * that becomes a column touches each line of the output once for all of them. */
#include "image/place.h"

#include <string.h>

#include "base/banned.h"

struct hr__turn hr__turn_of(int orientation)
{
    static const struct hr__turn turns[] = {
        {false, false, false}, /* 1: as stored */
        {true, false, false},  /* 2: mirrored */
        {true, true, false},   /* 3: turned by 180 degrees */
        {false, true, false},  /* 4: upside down */
        {false, false, true},  /* 5: transposed */
        {false, true, true},   /* 6: to be turned 90 degrees clockwise */
        {true, true, true},    /* 7: transposed along the other diagonal */
        {true, false, true},   /* 8: to be turned 90 degrees counter-clockwise */
    };

    return turns[orientation >= 1 && orientation <= 8 ? orientation - 1 : 0];
}

bool hr__turn_is_none(const struct hr__turn *turn)
{
    return !turn->mirror_x && !turn->mirror_y && !turn->transposed;
}

void hr__placement_init(struct hr__placement *p, const struct hr__turn *turn,
                        int64_t width, int64_t height, uint8_t *shown, size_t stride,
                        size_t pixel_bytes)
{
    ptrdiff_t along = (ptrdiff_t)pixel_bytes;
    ptrdiff_t below = (ptrdiff_t)stride;

    p->step_x = turn->transposed ? below : along;
    p->step_y = turn->transposed ? along : below;
    p->origin = shown;
    p->pixel_bytes = pixel_bytes;
    if (turn->mirror_x) {
        p->origin += (width - 1) * p->step_x;
        p->step_x = -p->step_x;
    }
    if (turn->mirror_y) {
        p->origin += (height - 1) * p->step_y;
        p->step_y = -p->step_y;
    }
}

/* With the number of bytes known to the compiler, a copy is a few instructions. */
static inline void place(const struct hr__placement *p, const uint8_t *const *rows,
                         int64_t y, int n, int64_t width, size_t bytes)
{
    uint8_t *column = p->origin + y * p->step_y;

    for (int64_t x = 0; x < width; x++, column += p->step_x) {
        uint8_t *to = column;

        for (int i = 0; i < n; i++, to += p->step_y)
            memcpy(to, rows[i] + (size_t)x * bytes, bytes);
    }
}

void hr__place_rows(const struct hr__placement *p, const uint8_t *const *rows,
                    int64_t y, int n, int64_t width)
{
    if (p->step_x == (ptrdiff_t)p->pixel_bytes) {
        for (int i = 0; i < n; i++)
            memcpy(p->origin + (y + i) * p->step_y, rows[i],
                   (size_t)width * p->pixel_bytes);
        return;
    }
    switch (p->pixel_bytes) {
    case 1:
        place(p, rows, y, n, width, 1);
        break;
    case 2:
        place(p, rows, y, n, width, 2);
        break;
    case 3:
        place(p, rows, y, n, width, 3);
        break;
    case 4:
        place(p, rows, y, n, width, 4);
        break;
    default:
        place(p, rows, y, n, width, p->pixel_bytes);
        break;
    }
}
