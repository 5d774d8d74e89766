/* tiff_directory.h - what a TIFF's directory says of its picture. */
#ifndef HR_IMAGE_TIFF_DIRECTORY_H
#define HR_IMAGE_TIFF_DIRECTORY_H

#include "image/tiff_file.h"
#include "image/tiff_unpack.h"

struct hr__tiff_directory {
    struct hr__tiff_layout layout;
    bool tiled;
    uint32_t tile_width;
};

/* Read the directory that the open file stands at. picture.frames is left alone; the
 * palette and the profile are borrowed until the file moves on.
 * Errors: HR_ERR_FORMAT, HR_ERR_UNSUPPORTED. */
HR_MUST_USE enum hr_status hr__tiff_directory(const struct hr__tiff_file *file,
                                              struct hr__tiff_directory *out,
                                              struct hr__picture *picture,
                                              struct hr_error *err);

/* Bytes of a row of width pixels; of one plane, if samples lie apart. */
size_t hr__tiff_row_bytes(const struct hr__tiff_layout *layout, uint64_t width);
/* Planes that lie one behind the other in a band. */
uint16_t hr__tiff_planes(const struct hr__tiff_layout *layout);

#endif
