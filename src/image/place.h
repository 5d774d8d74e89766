/* place.h - orientation: where stored pixels are shown. */
#ifndef HR_IMAGE_PLACE_H
#define HR_IMAGE_PLACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* EXIF's orientations as what is done to the stored picture: columns, rows are counted
 * from their ends, then rows become columns. */
struct hr__turn {
    bool mirror_x;
    bool mirror_y;
    bool transposed;
};

/* orientation: 1 … 8; any other number counts as 1. */
struct hr__turn hr__turn_of(int orientation);
bool hr__turn_is_none(const struct hr__turn *turn);

/* Where pixels of a stored rectangle go: pixel (x, y) to
 * origin + x * step_x + y * step_y. */
struct hr__placement {
    uint8_t *origin;
    ptrdiff_t step_x;
    ptrdiff_t step_y;
    size_t pixel_bytes;
};

/* A rectangle of width x height stored pixels that is shown with its upper left corner
 * at shown, in rows of stride bytes. */
void hr__placement_init(struct hr__placement *p, const struct hr__turn *turn,
                        int64_t width, int64_t height, uint8_t *shown, size_t stride,
                        size_t pixel_bytes);

/* Put n rows of width pixels, the first of them being row y. */
void hr__place_rows(const struct hr__placement *p, const uint8_t *const *rows,
                    int64_t y, int n, int64_t width);

#endif
