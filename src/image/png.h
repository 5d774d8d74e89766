/* png.h - PNG pictures, by libpng. */
#ifndef HR_IMAGE_PNG_H
#define HR_IMAGE_PNG_H

#include "image/canvas.h"

/* Decode to RGB rows on the canvas. Grey is repeated, alpha and transparency are
 * dropped, of 16 bits the upper 8 are taken, gamma and profiles are ignored. Of an
 * animation the default picture is decoded.
 * Errors: as hr__jpeg_decode. */
HR_MUST_USE enum hr_status hr__png_decode(const uint8_t *data, size_t size,
                                          struct hr__canvas *canvas,
                                          struct hr_error *err);

#endif
