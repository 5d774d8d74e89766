/* tiff_file.h - a TIFF in memory, opened by libtiff. */
#ifndef HR_IMAGE_TIFF_FILE_H
#define HR_IMAGE_TIFF_FILE_H

#include "image/codec.h"

struct tiff; /* libtiff's TIFF */

struct hr__tiff_file {
    struct hr__input in;
    struct tiff *lib; /* NULL: not open */
    uint64_t at;
    char text[120]; /* libtiff's last complaint, "" if there is none */
};

/* Read the header; lib stays NULL if there is none. hr__tiff_file_close must follow. */
void hr__tiff_file_open(struct hr__tiff_file *file, const struct hr__input *in);
void hr__tiff_file_close(struct hr__tiff_file *file);

#endif
