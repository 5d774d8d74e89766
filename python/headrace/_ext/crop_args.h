/* crop_args.h - the arguments that say what is taken of a picture. */
#ifndef HRPY_CROP_ARGS_H
#define HRPY_CROP_ARGS_H

#include "ext.h"

/* The names, in the order in which they stand in every signature. */
#define HRPY_CROP_ARG_NAMES "crop", "flip", "seed", "epoch"
#define HRPY_CROP_ARG_COUNT 4
#define HRPY_CROP_SIGNATURE "crop=None, flip=False, seed=0, epoch=0"

/* What was given for single slots of a batch. Zeroed before use. */
struct hrpy_slots {
    struct hr_box *boxes; /* NULL: not given */
    uint8_t *flips;
    Py_ssize_t box_count;
    Py_ssize_t flip_count;
};

/* Set the fields of *out from values[HRPY_CROP_ARG_COUNT] as hrpy_parse left them (NULL:
 * default). slots: where sequences for the slots of a batch go, and *out borrows from;
 * NULL: there are none. Returns 0, or -1 with a ValueError or TypeError set that names
 * the argument. */
int hrpy_crop_options(PyObject *const *values, struct hrpy_slots *slots,
                      struct hr_image_options *out);

/* Check that there is one of each for every one of n slots. 0, or -1 with a ValueError. */
int hrpy_slots_check(const struct hrpy_slots *slots, Py_ssize_t n);
void hrpy_slots_fini(struct hrpy_slots *slots);

/* A box from a sequence of four ints. 0, or -1 with an exception set. */
int hrpy_box(PyObject *arg, const char *what, struct hr_box *out);

/* random_resized_crop_params(width, height, scale, ratio, seed, epoch, index) and
 * random_flip(p, seed, epoch, index). */
PyObject *hrpy_draw_box(PyObject *module, PyObject *const *args, Py_ssize_t nargs);
PyObject *hrpy_draw_flip(PyObject *module, PyObject *const *args, Py_ssize_t nargs);

#endif
