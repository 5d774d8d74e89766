/* jpeg_pixels.h - a JPEG decoded by libjpeg onto a canvas. */
#ifndef HR_IMAGE_JPEG_PIXELS_H
#define HR_IMAGE_JPEG_PIXELS_H

#include "image/canvas.h"
#include "image/jpeg_header.h"
#include "image/jpeg_object.h"

struct hr__jpeg_pixels {
    struct hr__jpeg_object object;
    uint8_t *cmyk; /* HR_PUSH_ROWS rows before their conversion */
    size_t cmyk_bytes;
    /* one picture */
    const struct hr__jpeg_header *header;
    struct hr__canvas *canvas;
    bool grey;  /* rows are */
    bool crops; /* what lies outside of a crop is left out */
    int got;    /* rows decoded since the last put */
};

/* Errors: HR_ERR_NOMEM. */
HR_MUST_USE enum hr_status hr__jpeg_pixels_init(struct hr__jpeg_pixels *p,
                                                struct hr_error *err);
void hr__jpeg_pixels_fini(struct hr__jpeg_pixels *p);

/* Decode the picture that the header was read of: rows of grey or RGB, or planes, as the
 * canvas wants. crops: what the canvas does not look at may be left out.
 * Errors: as those of hr__codec.read. */
HR_MUST_USE enum hr_status
hr__jpeg_pixels_read(struct hr__jpeg_pixels *p, const struct hr__input *in,
                     const struct hr__jpeg_header *header, bool grey, bool crops,
                     struct hr__canvas *canvas, struct hr_error *err);

#endif
