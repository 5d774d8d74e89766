/* apng.h - the frames of an animated PNG behind the first. */
#ifndef HR_IMAGE_APNG_H
#define HR_IMAGE_APNG_H

#include "image/codec.h"

/* What composing keeps from frame to frame, and its decoder from picture to picture. */
struct hr__apng;

/* png: the codec that decodes single pictures. Errors: HR_ERR_NOMEM. */
HR_MUST_USE enum hr_status hr__apng_new(const struct hr__codec *png,
                                        struct hr__apng **out, struct hr_error *err);
void hr__apng_free(struct hr__apng **apng);

/* How many frames data that begin with PNG's signature have; the default picture counts
 * as one, whether it is part of the animation or not. */
int64_t hr__apng_frames(const uint8_t *data, size_t size);

/* Begin with a file of that size in pixels, in->data borrowed until the end. */
void hr__apng_begin(struct hr__apng *apng, const struct hr__input *in, int64_t width,
                    int64_t height);
/* Put frame n, not before the last one, on the canvas as RGBA rows. */
HR_MUST_USE enum hr_status hr__apng_read(struct hr__apng *apng, int64_t n,
                                         struct hr__canvas *canvas,
                                         struct hr_error *err);
void hr__apng_end(struct hr__apng *apng);

#endif
