/* finish.h - the last step: rows of pixels into the layout and the type of the output. */
#ifndef HR_IMAGE_FINISH_H
#define HR_IMAGE_FINISH_H

#include "headrace/image.h"
#include "image/fit.h"
#include "image/kernels.h"

#define HR_CHANNELS_MAX 4

/* What the output is. */
struct hr__form {
    enum hr_layout layout;
    enum hr_dtype dtype; /* HR_U8 or HR_U16, as rows are; HR_F16, HR_BF16, HR_F32 */
    bool wide;           /* rows are of HR_U16, not HR_U8 */
    int channels;        /* 1 … HR_CHANNELS_MAX */
    double mean[HR_CHANNELS_MAX]; /* in units of 0 … 1; for HR_F16, HR_BF16, HR_F32 */
    double std[HR_CHANNELS_MAX];
};

/* The form that options ask for. */
void hr__form_of(const struct hr_image_options *options, struct hr__form *out);
/* Fail when the options ask for what there is not. who: for the message. */
HR_MUST_USE enum hr_status hr__form_check(const struct hr_image_options *options,
                                          const char *who, struct hr_error *err);

/* An array of that form: `into`, if it is fit to be that, or (NULL) a new one.
 * Errors: HR_ERR_ARG, HR_ERR_NOMEM. */
HR_MUST_USE enum hr_status hr__form_new(const struct hr__form *form,
                                        struct hr_array *into, int ndim,
                                        const int64_t *shape, struct hr_array **out,
                                        struct hr_error *err);
/* The same for a picture of that size (count -1), or for `count` of them. */
HR_MUST_USE enum hr_status hr__form_array(const struct hr__form *form,
                                          struct hr_array *into, int64_t count,
                                          int64_t height, int64_t width,
                                          struct hr_array **out, struct hr_error *err);

/* A worker's state; zero-initialised, used again and again. */
struct hr__finish {
    const struct hr__finish_kernels *kernels; /* NULL: the best */
    struct hr__form form;
    struct hr__fit fit;
    uint8_t *pixels; /* the output */
    size_t value_bytes;
    struct hr__finish_line whole;                /* for pixels of all channels */
    struct hr__finish_line one[HR_CHANNELS_MAX]; /* for rows of one channel */
    uint8_t *rows; /* a row of pixels, then one of each channel, with HR_ROW_SLACK */
    size_t rows_bytes;
};

/* Begin a picture: blacken what it leaves free of the output at `pixels`.
 * Errors: HR_ERR_NOMEM. */
HR_MUST_USE enum hr_status hr__finish_begin(struct hr__finish *f,
                                            const struct hr__form *form,
                                            const struct hr__fit *fit, void *pixels,
                                            struct hr_error *err);

/* Bytes of a pixel in rows. */
size_t hr__finish_pixel_bytes(const struct hr__finish *f);
/* True when rows are made in their place. */
bool hr__finish_is_direct(const struct hr__finish *f);

/* Where to make kept row y, channels together: kept_width pixels. */
uint8_t *hr__finish_row(struct hr__finish *f, int64_t y);
/* It is made, at `row`: there or anywhere. */
void hr__finish_row_done(struct hr__finish *f, int64_t y, const uint8_t *row);

/* The same for a row of bytes with channels apart, 1 or 3 of them; rows that the output
 * lacks are there to be written all the same. */
void hr__finish_split(struct hr__finish *f, int64_t y, uint8_t *rows[HR_CHANNELS_MAX]);
void hr__finish_split_done(struct hr__finish *f, int64_t y);
/* Rows of the kept width that are no part of the output. */
void hr__finish_stage(const struct hr__finish *f, uint8_t *rows[HR_CHANNELS_MAX]);

void hr__finish_fini(struct hr__finish *f);

#endif
