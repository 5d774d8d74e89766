/* image_args.h - the arguments that image functions and their ops have in common. */
#ifndef HRPY_IMAGE_ARGS_H
#define HRPY_IMAGE_ARGS_H

#include "crop_args.h"
#include "form_args.h"

/* The names, in the order in which they stand in every signature. */
#define HRPY_IMAGE_ARG_NAMES                                                           \
    "width", "height", "pix_fmt", "scale_mode", "scale_algo", "background",            \
        "orientation", "frame", "icc", "allow_truncated", "limits",                    \
        HRPY_CROP_ARG_NAMES, HRPY_FORM_ARG_NAMES, "exact", "draft"
#define HRPY_IMAGE_ARG_COUNT (11 + HRPY_CROP_ARG_COUNT + HRPY_FORM_ARG_COUNT + 2)
/* Without the sizes. */
#define HRPY_IMAGE_SIGNATURE                                                           \
    "pix_fmt='rgb24', scale_mode='pad', scale_algo='bicubic', background=None, "       \
    "orientation='apply', frame=0, icc=None, allow_truncated=False, "                  \
    "limits=None, " HRPY_CROP_SIGNATURE ", " HRPY_FORM_SIGNATURE                       \
    ", exact=False, draft=False"

/* Fill *out from values[HRPY_IMAGE_ARG_COUNT] as hrpy_parse left them (NULL: default).
 * slots: as for hrpy_crop_options.
 * Returns 0, or -1 with a ValueError or TypeError set that names the argument. */
int hrpy_image_options(PyObject *const *values, struct hrpy_slots *slots,
                       struct hr_image_options *out);

/* values: index, out, of a direct call; *into is to be released after it. */
int hrpy_image_direct(struct hrpy_state *state, PyObject *const *values,
                      struct hr_image_options *options, struct hr_value *into);
/* The same two of an op, which has neither. Returns 0, or -1 with a ValueError. */
int hrpy_image_no_direct(PyObject *const *values);

/* "pad", "crop" or None; NULL keeps *out. */
int hrpy_image_mode(PyObject *arg, enum hr_scale_mode *out);

/* A width or height: from 1 to 65,535; NULL or None gives 0 unless `required`. */
int hrpy_image_extent(PyObject *arg, const char *what, int required, int64_t *out);

/* "box", "bilinear", "bicubic" or "lanczos"; NULL keeps *out. */
int hrpy_image_algo(PyObject *arg, enum hr_scale_algo *out);

/* "apply" or "ignore"; NULL keeps *out. */
int hrpy_image_orientation(PyObject *arg, enum hr_orientation *out);

/* The attributes of an ImageLimits; NULL or None keeps those of *out. */
int hrpy_image_limits(PyObject *arg, struct hr_image_options *out);

/* An int from least to most. */
int hrpy_image_number(PyObject *arg, const char *what, int64_t least, int64_t most,
                      int64_t *out);

struct hrpy_choice {
    const char *name; /* NULL: None */
    int value;
};

/* One of n choices; `allowed` is their list as the message says it. NULL keeps *out. */
int hrpy_image_choice(PyObject *arg, const char *what, const char *allowed,
                      const struct hrpy_choice *choices, size_t n, int *out);

#endif
