/* jpeg.h - JPEG pictures, by libjpeg. */
#ifndef HR_IMAGE_JPEG_H
#define HR_IMAGE_JPEG_H

#include "image/canvas.h"

/* A decoder, used for picture after picture by one thread. */
struct hr__jpeg;

HR_MUST_USE enum hr_status hr__jpeg_new(struct hr__jpeg **out, struct hr_error *err);
void hr__jpeg_free(struct hr__jpeg **jpeg);

/* Decode to RGB rows on the canvas. Grey is repeated; four components are CMYK (or
 * YCCK) with inverted values, as Adobe writes them, marker or not; the red of c, k
 * (not inverted) is then (255 - k) - round(c * (255 - k) / 255), as in Pillow.
 * Data that is cut off or damaged is an error; bytes after the end marker are ignored.
 * Errors: HR_ERR_FORMAT, HR_ERR_UNSUPPORTED, HR_ERR_LIMIT, HR_ERR_NOMEM, HR_CANCELLED,
 * HR_ERR_DEADLINE. */
HR_MUST_USE enum hr_status hr__jpeg_decode(struct hr__jpeg *jpeg, const uint8_t *data,
                                           size_t size, struct hr__canvas *canvas,
                                           struct hr_error *err);

#endif
