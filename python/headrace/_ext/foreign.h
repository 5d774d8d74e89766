/* foreign.h - what the files that run Python inside pipelines share. */
#ifndef HRPY_FOREIGN_H
#define HRPY_FOREIGN_H

#include "ext.h"

#include <stdbool.h>

#include "engine/runtime.h"

/* ---- attach.c ---- */

/* Remember the interpreter that core threads will enter. Returns 0, or -1 with an
 * exception set. */
int hrpy_attach_init(void);
/* How the engine enters Python. */
const struct hr_runtime *hrpy_runtime(void);
/* From now on no core thread enters Python. Idempotent. */
void hrpy_attach_end(void);
bool hrpy_attach_ended(void);
/* True in a thread that the core made. */
bool hrpy_is_core_thread(void);
/* The calling thread, which Python made, works for the core, or does so no more. */
void hrpy_set_core_thread(bool is);
/* True in a thread that holds a current thread state. */
bool hrpy_is_attached(void);

/* ---- shape.c: what a stage's outputs become ---- */

/* One wanted field of a record. */
struct hrpy_field {
    char *name; /* NULL: by index */
    Py_ssize_t index;
    enum hrpy_want want;
};

/* Const after creation, but for `keys`. */
struct hrpy_shape {
    enum hrpy_want want; /* of the whole object, if it is no record */
    bool record;
    size_t field_count;
    struct hrpy_field *fields; /* those of interest; others stay objects */
    /* The keys of the first record seen, shared by all that look like it. Set once
     * (release), read (acquire) by importers in any thread. */
    struct hr_keys *_Atomic keys;
};

/* spec: "object", "source", "list", "array", or a tuple of (key, one of these).
 * Returns 0, or -1 with an exception set; *shape may be given to _fini in any case. */
int hrpy_shape_init(struct hrpy_shape *shape, PyObject *spec);
void hrpy_shape_fini(struct hrpy_shape *shape);

/* Object to value. Returns 0, or -1 with an exception set. With `lenient`, what does
 * not fit becomes a misfit instead: a value whose kind says what was found, so that
 * the stage that cannot use it fails for this item alone. */
int hrpy_shape_import(struct hrpy_state *state, struct hrpy_shape *shape, PyObject *obj,
                      bool lenient, struct hr_value *out);

/* The object behind a misfit (borrowed), NULL if value is none. */
PyObject *hrpy_misfit_peek(const struct hr_value *value);

/* ---- raised.c: exceptions on their way through the core ---- */

/* Take the exception that is set; never NULL. */
PyObject *hrpy_raised_take(void);
/* Describe exc in *err: "ValueError: too small". Never fails. */
void hrpy_raised_describe(PyObject *exc, struct hr_error *err);
/* Drop the local variables of the frames that exc's tracebacks hold. */
void hrpy_raised_forget_locals(PyObject *exc);
/* Box exc so that unattached threads can share it. Takes the reference; the empty
 * value without memory. */
struct hr_value hrpy_raised_box(PyObject *exc);
/* The exception in a box, borrowed; NULL if it is none. *sole: no other value has it. */
PyObject *hrpy_raised_peek(const struct hr_value *value, bool *sole);
/* The exception in a box; a new reference, or NULL. Releases *value. */
PyObject *hrpy_raised_unbox(struct hr_value *value);

/* ---- log_relay.c: messages of the core to logging ---- */

/* Receive the core's messages. */
void hrpy_log_init(void);
/* Attached: hand on what came in. Errors of handlers are reported as unraisable. */
void hrpy_log_flush(struct hrpy_state *state);

/* ---- python_op.c: sources and ops written in Python ---- */

enum hrpy_op_kind {
    HRPY_SOURCE,    /* an iterable */
    HRPY_FUNCTION,  /* 1 → 0 or 1 */
    HRPY_GENERATOR, /* 1 → n */
    HRPY_ITERATE,   /* the elements of the item itself */
    HRPY_FOLD,      /* 1 → 0 or 1, and a flush; see hrpy_python_op_set_flush */
    HRPY_ROUTE,     /* 1 → 1: the item, and the number of its path */
    /* on the event loop: */
    HRPY_ASYNC_SOURCE,    /* an async iterable */
    HRPY_COROUTINE,       /* 1 → 0 or 1 */
    HRPY_ASYNC_GENERATOR, /* 1 → n */
    HRPY_SUBMIT, /* 1 → 0 or 1; a call gives a concurrent.futures.Future of the result */
};

struct hrpy_python_op;

/* type: any of the module's. callable: the iterable of a source; None for HRPY_ITERATE.
 * spec: see hrpy_shape_init. NULL with an exception set. */
struct hrpy_python_op *hrpy_python_op_new(PyTypeObject *type, enum hrpy_op_kind kind,
                                          PyObject *callable, PyObject *spec);
/* Before it is used: these exceptions (a tuple of classes) are worth another attempt. */
void hrpy_python_op_retry(struct hrpy_python_op *op, PyObject *on);
/* Before it is used: what the items of a router become, a spec for each path. 0, or -1 with
 * an exception set. */
int hrpy_python_op_set_paths(struct hrpy_python_op *op, PyObject *specs);
/* Before it is used: what a fold calls without an item. */
void hrpy_python_op_set_flush(struct hrpy_python_op *op, PyObject *flush);
/* Before it is used: what was given as callable is called without arguments, by each
 * thread that is about to run the op, and gives the one that this thread is to call. If it
 * raises, the run ends. */
void hrpy_python_op_per_worker(struct hrpy_python_op *op);
/* Before it is used: the source is iterated for ever, with a mark after each pass. */
void hrpy_python_op_repeat(struct hrpy_python_op *op);
struct hrpy_python_op *hrpy_python_op_ref(struct hrpy_python_op *op);
void hrpy_python_op_unref(struct hrpy_python_op **op);
/* The engine's view of it; holds a reference. */
struct hr_foreign hrpy_python_op_foreign(struct hrpy_python_op *op);
/* tp_traverse of whatever holds the op: its references are nobody else's. */
int hrpy_python_op_visit(struct hrpy_python_op *op, visitproc visit, void *arg);
/* Call it with the call's item, which is taken. NULL with an exception set. */
PyObject *hrpy_python_op_call(struct hrpy_python_op *op, struct hr_call *call);
/* The async iterator of a source or of the call's item. */
PyObject *hrpy_python_op_open(struct hrpy_python_op *op, struct hr_call *call);
/* Does a call give a future? */
bool hrpy_python_op_submits(const struct hrpy_python_op *op);
/* Is it a source that is iterated again and again? */
bool hrpy_python_op_repeats(const struct hrpy_python_op *op);
/* Is obj dropped instead of given? */
bool hrpy_python_op_skips(const struct hrpy_python_op *op, PyObject *obj);
/* Put one output into the call. 0, or -1 with an exception set. */
int hrpy_python_op_give(struct hrpy_python_op *op, struct hr_call *call, PyObject *obj);
/* exc, which is taken, becomes the call's failure. */
void hrpy_python_op_fail(struct hrpy_python_op *op, struct hr_call *call,
                         PyObject *exc);
/* Attached, the run being over: let go of a source. */
void hrpy_python_op_close(struct hrpy_python_op *op);

/* Where a source that is advanced by this thread puts a KeyboardInterrupt, which the
 * consumer must hear of at once. NULL: nowhere. Returns the old place. */
PyObject **hrpy_interrupt_slot(PyObject **slot);

/* ---- async_bridge.c: the event loop ---- */

/* Something to be awaited on its way to the loop. Takes the reference. A coroutine that
 * never gets there is closed. */
struct hr_value hrpy_awaitable_value(PyObject *awaitable);

/* Between the pipeline, of which it keeps a reference, and a loop that start_loop(bridge)
 * starts in a thread of its own. Py_None: no stage can come to need one. NULL with an
 * exception set. */
PyObject *hrpy_bridge_new(struct hrpy_state *state, struct hr_pipeline *pipeline,
                          PyObject *start_loop);
/* Start the loop's thread unless there is one. 0, or -1 with an exception set. */
int hrpy_bridge_start(PyObject *bridge);
/* As hr_runtime.start_loop and .drop_loop. */
bool hrpy_bridge_start_late(void *bridge);
void hrpy_bridge_drop(void *bridge);
/* The run has ended: wait for the thread, unless it is the calling one. */
int hrpy_bridge_join(PyObject *bridge);

/* ---- engine_type.c ---- */

/* Run *plan. Takes *plan, and *ops[count] with its references, on success. The
 * callables make the exceptions that end a run; see headrace.pipeline._failures. inner:
 * the engine whose items the source gives, or NULL; it ends with this one. */
PyObject *hrpy_engine_new(struct hrpy_state *state, struct hr_plan **plan,
                          struct hrpy_python_op ***ops, size_t count,
                          const struct hr_pipeline_options *options,
                          PyObject *note_stage, PyObject *too_many_failures,
                          PyObject *inner, PyObject *start_loop);

/* ---- type specs, one per file ---- */
extern PyType_Spec hrpy_plan_spec;
extern PyType_Spec hrpy_engine_spec;
extern PyType_Spec hrpy_engine_iterator_spec;
extern PyType_Spec hrpy_bridge_spec;

/* ---- pipeline_module.c ---- */

/* Add the types and functions of pipelines to the module. Returns 0 or -1. */
int hrpy_pipeline_exec(PyObject *module, struct hrpy_state *state);

#endif
