/* studio.h - what a worker keeps for pictures: decoders, and the rows on their way. */
#ifndef HR_IMAGE_STUDIO_H
#define HR_IMAGE_STUDIO_H

#include "image/canvas.h"
#include "image/sniff.h"

/* The way of the last profile's colours: it takes milliseconds to make. */
struct hr__colour_cache {
    struct hr__colours *colours; /* NULL: there is nothing to do */
    uint8_t *profile;
    size_t size; /* 0: nothing is kept */
    int channels;
    int sample_bytes;
    bool ink;
};

struct hr__studio {
    struct hr__easel easel;
    struct hr__colour_cache colours;
    void *decoder[HR_FORMAT_COUNT]; /* each made by the first picture of its format */
};

/* A picture whose header is read. */
struct hr__opened {
    const struct hr__codec *codec;
    void *decoder;
    struct hr__picture picture; /* of the frame turned to */
};

/* This thread's studio. Errors: HR_ERR_NOMEM, HR_ERR_LIMIT. */
HR_MUST_USE enum hr_status hr__studio_get(struct hr_ctx *ctx, struct hr__studio **out,
                                          struct hr_error *err);

/* Recognise the data and read their header. hr__studio_close must follow, whatever came
 * of it. Errors: HR_ERR_FORMAT, HR_ERR_UNSUPPORTED, HR_ERR_NOMEM. */
HR_MUST_USE enum hr_status hr__studio_open(struct hr__studio *studio,
                                           const struct hr__input *in,
                                           struct hr__opened *out,
                                           struct hr_error *err);
void hr__studio_close(struct hr__opened *opened);

/* Turn to a frame, not before the last one. Errors: HR_ERR_ARG (there is none such),
 * those of the codec. */
HR_MUST_USE enum hr_status hr__studio_turn(struct hr__opened *opened, int64_t frame,
                                           struct hr_error *err);

/* Check the frame's limits and put it on a canvas that has its ctx, options and slot.
 * *err tells, with HR_OK, what is missing of a picture that allow_truncated kept. */
HR_MUST_USE enum hr_status hr__studio_paint(struct hr__studio *studio,
                                            struct hr__opened *opened,
                                            const struct hr__input *in,
                                            struct hr__canvas *canvas,
                                            struct hr_error *err);

#endif
