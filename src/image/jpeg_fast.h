/* jpeg_fast.h - who decodes a JPEG: our own decoder, or libjpeg. */
#ifndef HR_IMAGE_JPEG_FAST_H
#define HR_IMAGE_JPEG_FAST_H

#include "image/canvas.h"

/* A worker's decoder, once it had a use for it; zero-initialised. */
struct hr__jpeg_fast {
    struct hr__baseline *baseline;
};

/* Decode to the planes that the canvas wants by our own decoder. crops: what lies below the
 * last row that is needed is not looked at. *taken false: libjpeg is to do it, whatever the
 * reason; the canvas is as it was. Counts the pictures that are taken.
 * Errors: HR_CANCELLED, HR_ERR_DEADLINE; then *taken is true. */
HR_MUST_USE enum hr_status hr__jpeg_fast_read(struct hr__jpeg_fast *fast,
                                              const struct hr__input *in,
                                              const struct hr__yuv *yuv, bool crops,
                                              struct hr__canvas *canvas, bool *taken,
                                              struct hr_error *err);
/* A picture that libjpeg decoded without being asked about. */
void hr__jpeg_fast_passed(void);
void hr__jpeg_fast_fini(struct hr__jpeg_fast *fast);

#endif
