/* ext.h - what the files of the extension share. Python.h is seen only in this folder. */
#ifndef HRPY_EXT_H
#define HRPY_EXT_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "base/mutex.h"
#include "headrace/headrace.h"

/* The module's state. Types and exceptions are const after module exec. */
struct hrpy_state {
    PyTypeObject *buffer_type;   /* headrace.io.CPUBuffer */
    PyTypeObject *op_type;       /* headrace._ext.Op: a bound native op */
    PyTypeObject *pipeline_type; /* headrace._ext.Engine */
    PyObject *format_error;      /* headrace.errors.*, see errors.c */
    PyObject *unsupported_error;
    PyObject *limit_error;
    PyObject *deadline_error;
    PyObject *headrace_error;
    struct hrpy_ctx_pool *ctx_pool; /* contexts for calls outside a pipeline */
};

struct hrpy_state *hrpy_state_of_module(PyObject *module);
struct hrpy_state *hrpy_state_of_type(PyTypeObject *type);

/* ---- errors.c ---- */

/* Raise what err says: OSError (and its subclass by errno) for HR_ERR_IO, MemoryError,
 * ValueError for HR_ERR_ARG, TypeError for HR_ERR_TYPE, TimeoutError for HR_TIMEOUT,
 * RuntimeError for HR_ERR_STATE, else the classes of headrace.errors. Returns NULL. */
void *hrpy_raise(struct hrpy_state *state, const struct hr_error *err);
/* The exception object instead of raising it; NULL with an exception set on failure. */
PyObject *hrpy_exception_of(struct hrpy_state *state, const struct hr_error *err);

/* ---- convert.c: Python objects and values ---- */

/* Opaque reference to a Python object; ptr is an owned PyObject *. Its release may run
 * in a thread that is not attached: then the reference is queued (attach.c) and dropped
 * by whichever thread is attached next. */
extern const struct hr_value_class hrpy_object_class;

/* Wrap a new reference. */
struct hr_value hrpy_value_of_object(PyObject *obj);

/* What the next native consumer of a value needs. */
enum hrpy_want {
    HRPY_WANT_OBJECT, /* nothing native: keep the object as it is */
    HRPY_WANT_SOURCE, /* a path (str, Path, bytes path) or encoded bytes, or a buffer */
    HRPY_WANT_LIST,   /* a list or tuple of those */
    HRPY_WANT_ARRAY   /* an array: CPUBuffer, or anything with the buffer protocol */
};

/* Object to value. str and os.PathLike become text (surrogateescape; NUL refused);
 * bytes, bytearray, memoryview become bytes (the object stays alive through the value);
 * CPUBuffer and other buffers become arrays (C-contiguous, else TypeError that says so).
 * Values that are already native (CPUBuffer) share their memory.
 * Returns 0, or -1 with an exception set that names the type found. */
int hrpy_import(struct hrpy_state *state, PyObject *obj, enum hrpy_want want,
                struct hr_value *out);

/* Value to a new reference; the value is released or moved into the object in any case.
 * text → str, bytes → memoryview, array and batch → CPUBuffer, list → list,
 * record → tuple or dict, object → the object itself, empty → None. */
PyObject *hrpy_export(struct hrpy_state *state, struct hr_value *value);

/* ---- buffer_type.c ---- */

/* Adopts *array (nulls it); failures may be empty. */
PyObject *hrpy_buffer_new(struct hrpy_state *state, struct hr_array **array,
                          const struct hr_slot_failure *failures, size_t n);
/* Borrowed array of a CPUBuffer. */
struct hr_array *hrpy_buffer_peek(PyObject *buffer);

/* ---- op_type.c ---- */

/* The op of a headrace._ext.Op (borrowed), and what it wants as input. */
struct hr_op *hrpy_op_peek(PyObject *op, enum hrpy_want *want);

/* ---- attach.c: the only file that attaches core threads to Python ---- */

/* Drop a reference now if this thread is attached, else queue it. */
void hrpy_decref(PyObject *obj);
/* Attached: drop what is queued. */
void hrpy_drain_decrefs(void);

/* ---- type specs and function tables, one per file ---- */
extern PyType_Spec hrpy_buffer_spec;
extern PyType_Spec hrpy_op_spec;
extern PyType_Spec hrpy_engine_spec;
extern PyMethodDef hrpy_io_methods[]; /* io_module.c: load_image, resize, ... */

#endif
