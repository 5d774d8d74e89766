/* transform_functions.h - headrace.io.transform and its op. */
#ifndef HRPY_TRANSFORM_FUNCTIONS_H
#define HRPY_TRANSFORM_FUNCTIONS_H

#include "image_args.h"

#define HRPY_TRANSFORM_SIGNATURE                                                       \
    "scale_mode=None, scale_algo='bicubic', " HRPY_CROP_SIGNATURE                      \
    ", " HRPY_FORM_SIGNATURE

PyObject *hrpy_transform(PyObject *module, PyObject *const *args, Py_ssize_t nargs,
                         PyObject *kwnames);
PyObject *hrpy_transform_op(PyObject *module, PyObject *const *args, Py_ssize_t nargs,
                            PyObject *kwnames);

#endif
