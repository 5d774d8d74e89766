/* jpeg_picture.h - a JPEG's header as a picture. */
#ifndef HR_IMAGE_JPEG_PICTURE_H
#define HR_IMAGE_JPEG_PICTURE_H

#include "image/codec.h"
#include "image/jpeg_header.h"

/* Fill in what the header says, planes included. Of a profile in several chunks *out
 * has the first. */
void hr__jpeg_describe(const struct hr__jpeg_header *header,
                       const struct hr_image_options *options, struct hr__picture *out);

#endif
