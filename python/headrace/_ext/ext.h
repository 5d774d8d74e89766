/* ext.h - what the files of the extension share. Python.h is seen in this folder only. */
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
    PyTypeObject *plan_type;     /* headrace._ext.Plan */
    PyTypeObject *iterator_type; /* headrace._ext.EngineIterator */
    PyTypeObject *bridge_type;   /* headrace._ext.Bridge */
    PyTypeObject *info_type;     /* headrace.io.ImageInfo */
    PyObject *logger;            /* of headrace.pipeline */
    PyObject *format_error;      /* headrace.errors.*, see errors.c */
    PyObject *unsupported_error;
    PyObject *limit_error;
    PyObject *deadline_error;
    PyObject *headrace_error;
    PyObject *slot_failure;         /* headrace.errors.SlotFailure */
    struct hrpy_ctx_pool *ctx_pool; /* contexts for calls outside a pipeline */
};

struct hrpy_state *hrpy_state_of_module(PyObject *module);
struct hrpy_state *hrpy_state_of_type(PyTypeObject *type);
/* Make a type of the module; the state's *slot holds the reference. Returns 0, or -1
 * with an exception set. */
int hrpy_type_add(PyObject *module, PyType_Spec *spec, PyTypeObject **slot);

/* ---- what several Python threads may touch at once ---- */

/* Until _end no other thread is in a section of the same object; a no-op where the GIL
 * sees to that. Like the GIL it may be given up by whatever runs Python or may detach:
 * so inside there are only loads, stores and new references. */
#ifdef Py_GIL_DISABLED
typedef PyCriticalSection hrpy_section;
#define hrpy_section_begin PyCriticalSection_Begin
#define hrpy_section_end PyCriticalSection_End
#else
typedef char hrpy_section;
static inline void hrpy_section_begin(hrpy_section *section, PyObject *obj)
{
    (void)obj;
    *section = 0;
}
static inline void hrpy_section_end(const hrpy_section *section)
{
    (void)section;
}
#endif

/* ---- args.c: arguments of METH_FASTCALL | METH_KEYWORDS functions ---- */

struct hrpy_params {
    const char *function;     /* for messages */
    const char *const *names; /* all of them, in order */
    int count;
    int required;   /* the first `required` must be given */
    int positional; /* the first `positional` may be given by position */
};

/* Sort a call's arguments into out[params->count], borrowed; NULL where not given.
 * Returns 0, or -1 with a TypeError set. */
int hrpy_parse(const struct hrpy_params *params, PyObject *const *args,
               Py_ssize_t nargs, PyObject *kwnames, PyObject **out);

/* ---- errors.c ---- */

/* Take the classes of headrace.errors into the state. Returns 0, or -1 with an
 * exception set. */
int hrpy_errors_init(struct hrpy_state *state);
/* What an error says, a new str. */
PyObject *hrpy_error_text(const struct hr_error *err);

/* Raise what err says: OSError (and its subclass by errno) for HR_ERR_IO, MemoryError,
 * ValueError for HR_ERR_ARG, TypeError for HR_ERR_TYPE, TimeoutError for HR_TIMEOUT,
 * RuntimeError for HR_ERR_STATE, else the classes of headrace.errors. Returns NULL. */
void *hrpy_raise(struct hrpy_state *state, const struct hr_error *err);
/* The same for a status that may be a flow status (cancelled, say): it carries no text
 * and is named. */
void *hrpy_raise_status(struct hrpy_state *state, enum hr_status status,
                        struct hr_error *err);
/* The exception object instead of raising it; NULL with an exception set on failure. */
PyObject *hrpy_exception_of(struct hrpy_state *state, const struct hr_error *err);

/* ---- convert.c: Python objects and values ---- */

/* Opaque reference to a Python object; ptr is an owned PyObject *. Its release may run
 * in a thread that is not attached: then the reference is queued (attach.c) and dropped
 * by whichever thread is attached next. */
extern const struct hr_value_class hrpy_object_class;

/* Wrap a new reference; the caller keeps its own. Attached. */
struct hr_value hrpy_value_of_object(PyObject *obj);

/* What the next native consumer of a value needs. */
enum hrpy_want {
    HRPY_WANT_OBJECT, /* nothing native: keep the object as it is */
    HRPY_WANT_SOURCE, /* a path (str, Path, bytes path) or encoded bytes, or a buffer */
    HRPY_WANT_LIST,   /* a list or tuple of those */
    HRPY_WANT_ARRAY,  /* an array: CPUBuffer, or anything with the buffer protocol */
    HRPY_WANT_ARRAYS  /* a list or tuple of arrays */
};

/* Object to value. str and os.PathLike become text (surrogateescape; NUL refused);
 * bytes, bytearray, memoryview become bytes (the object stays alive through the value);
 * CPUBuffer and other buffers become arrays (of their own memory, unless that is
 * strided: then of a copy). Values that are already native (CPUBuffer) share their memory. Returns 0, or -1
 * with an exception set that names the type found. */
int hrpy_import(struct hrpy_state *state, PyObject *obj, enum hrpy_want want,
                struct hr_value *out);

/* The bytes of an object with a contiguous buffer, which stays alive through the value.
 * Returns 0, or -1 with an exception set. */
int hrpy_import_bytes(struct hrpy_state *state, PyObject *obj, struct hr_value *out);

/* array_import.c: as HRPY_WANT_ARRAY; `expected` is what the message says. */
int hrpy_import_array(struct hrpy_state *state, PyObject *obj, const char *expected,
                      struct hr_value *out);
/* The same for an array that is to be written or shared: strided memory is refused. */
int hrpy_import_memory(struct hrpy_state *state, PyObject *obj, struct hr_value *out);

/* An array out of an object's __array_interface__ (array_interface.c). The same. */
int hrpy_import_interface(struct hrpy_state *state, PyObject *obj,
                          struct hr_value *out);

/* Value to a new reference; the value is released or moved into the object in any case.
 * text → str, bytes, array and batch → CPUBuffer, list → list, record → tuple or
 * dict, object → the object itself, empty → None. */
PyObject *hrpy_export(struct hrpy_state *state, struct hr_value *value);

/* A str as NUL-terminated file-system bytes, a new bytes object; `what` names it in
 * messages. NULL with an exception set. */
PyObject *hrpy_encode_path(PyObject *text, const char *what);
/* Put "item 3: " (format: "item %zd") before the message of the TypeError or ValueError
 * that is set. */
void hrpy_name_item(const char *format, Py_ssize_t i);

/* ---- dtype.c ---- */

struct hrpy_dtype {
    const char *name;   /* NumPy's: "uint8" */
    const char *format; /* the struct module's: "B" */
    char kind;          /* of __array_interface__ typestr: 'u' */
    uint8_t dlpack;     /* DLDataTypeCode */
};

/* Const, by enum hr_dtype. */
extern const struct hrpy_dtype hrpy_dtypes[HR_DTYPE_COUNT];

/* The dtype of elements that a Py_buffer describes; HR_DTYPE_COUNT when it is none of
 * ours (structs, text, foreign byte order). */
enum hr_dtype hrpy_dtype_of_format(const char *format, Py_ssize_t itemsize);

/* ---- buffer_type.c ---- */

/* Adopts *array (nulls it); failures may be empty. */
PyObject *hrpy_buffer_new(struct hrpy_state *state, struct hr_array **array,
                          const struct hr_slot_failure *failures, size_t n);
/* Borrowed array of a CPUBuffer. */
struct hr_array *hrpy_buffer_peek(PyObject *buffer);

/* ---- dlpack.c ---- */

/* The method CPUBuffer.__dlpack__. */
PyObject *hrpy_dlpack_export(PyObject *self, PyObject *const *args, Py_ssize_t nargs,
                             PyObject *kwnames);

/* ---- op_type.c ---- */

/* Adopts *op (empties it). */
PyObject *hrpy_op_new(struct hrpy_state *state, struct hr_op *op, enum hrpy_want want);

/* The op of a headrace._ext.Op (borrowed), and what it wants as input. */
struct hr_op *hrpy_op_peek(PyObject *op, enum hrpy_want *want);

/* ---- attach.c: the only file that attaches core threads to Python ---- */

/* Call drop(ptr) now if this thread is attached, else queue it for the next thread
 * that is. Never waits for the GIL. Threads: any. */
void hrpy_defer(void (*drop)(void *ptr), void *ptr);
/* Drop a reference now if this thread is attached, else queue it. Threads: any. */
void hrpy_decref(PyObject *obj);
/* Attached: drop what is queued. Cheap when nothing is. */
void hrpy_drain_decrefs(void);

/* Give up the GIL around native work, and take it again, dropping what was queued
 * meanwhile. In between no Python object may be touched. */
PyThreadState *hrpy_detach(void);
void hrpy_reattach(PyThreadState *detached);

/* ---- ctx_pool.c: contexts for direct calls, one per call that runs ---- */

/* NULL without memory. */
struct hrpy_ctx_pool *hrpy_ctx_pool_new(void);
void hrpy_ctx_pool_free(struct hrpy_ctx_pool **pool);
/* Borrow a context. Threads: any. Errors: HR_ERR_NOMEM. */
enum hr_status hrpy_ctx_acquire(struct hrpy_ctx_pool *pool, struct hr_ctx **out,
                                struct hr_error *err);
/* Give it back and null *ctx; NULL is accepted. */
void hrpy_ctx_release(struct hrpy_ctx_pool *pool, struct hr_ctx **ctx);

/* ---- image_module.c ---- */

/* A headrace.io.ImageInfo. */
PyObject *hrpy_info_new(struct hrpy_state *state, const struct hr_image_info *info);

/* ---- frames.c ---- */

/* The function convert_frames, and its op. */
PyObject *hrpy_convert_frames(PyObject *module, PyObject *frames);
PyObject *hrpy_convert_frames_op(PyObject *module, PyObject *unused);

/* ---- module.c: what the interpreter looks for; Python.h does not declare it ---- */

PyMODINIT_FUNC PyInit__ext(void);

/* ---- type specs and function tables, one per file ---- */
extern PyType_Spec hrpy_buffer_spec;
extern PyType_Spec hrpy_op_spec;
extern PyStructSequence_Desc hrpy_info_desc;
extern PyMethodDef hrpy_io_methods[];    /* io_module.c: resize, read_file, ... */
extern PyMethodDef hrpy_load_methods[];  /* load_functions.c: load_image, ... */
extern PyMethodDef hrpy_image_methods[]; /* image_module.c: image_info, ... */

#endif
