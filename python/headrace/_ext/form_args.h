/* form_args.h - the arguments that say what the output of image functions is. */
#ifndef HRPY_FORM_ARGS_H
#define HRPY_FORM_ARGS_H

#include "ext.h"

/* The names, in the order in which they stand in every signature. */
#define HRPY_FORM_ARG_NAMES "layout", "dtype", "mean", "std"
#define HRPY_FORM_ARG_COUNT 4
#define HRPY_FORM_SIGNATURE "layout='HWC', dtype=None, mean=None, std=None"

/* Set the fields of *out from values[HRPY_FORM_ARG_COUNT] as hrpy_parse left them (NULL:
 * default). plain: HR_U8 or HR_U16, the samples of the output if they are no floats.
 * channels: that the output has; 0: not known, so that mean and std may have up to four.
 * Returns 0, or -1 with a ValueError or TypeError set that names the argument. */
int hrpy_form_options(PyObject *const *values, enum hr_dtype plain, int channels,
                      struct hr_image_options *out);

#endif
