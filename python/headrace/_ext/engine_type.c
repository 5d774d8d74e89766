/* engine_type.c - headrace._ext.Engine: a pipeline that runs, as Python sees it.
 *
 * Ends. The engine is stopped and freed by its finalizer, in whichever thread drops the
 * last reference, detached: the core may have to wait for a running op. When the
 * interpreter is ending, or in a forked child, what does not end at once is left behind.
 *
 * A pipeline whose source is another one may wait for that one's items, so whoever ends it
 * ends the inner one first.
 *
 * Garbage. The core holds Python callables, and a callable may lead back to the
 * pipeline. The engine visits the callables of its stages, each held by one reference,
 * so such a ring is found; the finalizer ends the threads before anything is cleared.
 * Items on their way are not visited: an item that refers to its own pipeline keeps it
 * running until the source ends or it is stopped. What a run that has ended still holds,
 * items for the consumer and listed exceptions, is visited again. */
#include "engine_object.h"

#include <stddef.h>
#include <string.h>
#include <structmember.h>

#include "base/mem.h"
#include "base/sys.h"
#include "engine/async.h"

#define HALF_STARTED_NS INT64_C(1000000000)

static PyObject *engine_next(PyObject *obj, PyObject *timeout)
{
    PyObject *item = NULL;
    int64_t timeout_ns;

    if (hrpy_engine_timeout(timeout, &timeout_ns))
        return NULL;
    if (hrpy_engine_take((struct engine *)obj, HR_EPOCH_ANY,
                         hrpy_engine_deadline(timeout_ns), &item) == HRPY_GOT_END)
        PyErr_SetString(PyExc_EOFError,
                        "the pipeline has no more items, or none in this epoch");
    return item;
}

/* ---- start and stop ---- */

/* The threads that did start have been told to end. One that is in the source already
 * is given a second; the finalizer sees to it otherwise. */
static void join_the_started(struct engine *self)
{
    enum hr_status status;

    Py_BEGIN_ALLOW_THREADS
    status = hr_pipeline_stop(self->pipeline, HR_SYS(now_ns)() + HALF_STARTED_NS, NULL);
    Py_END_ALLOW_THREADS(void)
    status; /* a time-out is as good: see above */
}

/* Pairs with the stores of engine_start. */
static bool is_started(const struct engine *self)
{
    return atomic_load_explicit(&self->started, memory_order_acquire);
}

static PyObject *engine_started(PyObject *obj, void *closure)
{
    (void)closure;
    return PyBool_FromLong(is_started((struct engine *)obj));
}

static PyObject *engine_start(PyObject *obj, PyObject *unused)
{
    struct engine *self = (struct engine *)obj;
    struct hr_error err = {0};
    enum hr_status status;

    (void)unused;
    if (hrpy_attach_ended()) {
        PyErr_SetString(PyExc_RuntimeError,
                        "a pipeline cannot start while the interpreter is ending");
        return NULL;
    }
    if (hrpy_engine_check(self))
        return NULL;
    /* Already here: an operation may call stop() at once. */
    bool before = atomic_exchange_explicit(&self->started, true, memory_order_acq_rel);
    Py_BEGIN_ALLOW_THREADS
    status = hr_pipeline_start(self->pipeline, &err);
    Py_END_ALLOW_THREADS
    hrpy_log_flush(self->state);
    if (status != HR_OK) {
        if (status == HR_ERR_THREAD)
            join_the_started(self);
        atomic_store_explicit(&self->started, before, memory_order_release);
        return hrpy_raise(self->state, &err);
    }
    hrpy_engine_report_begin(self);
    atomic_store_explicit(&self->loop_due, hr__async_needed(self->pipeline),
                          memory_order_relaxed);
    if (hrpy_engine_start_loop(self))
        return NULL;
    Py_RETURN_NONE;
}

static void cancel(struct hr_pipeline *pipeline)
{
    if (!pipeline || hr__pipeline_forked(pipeline))
        return;
    Py_BEGIN_ALLOW_THREADS
    hr__pipeline_cancel(pipeline);
    Py_END_ALLOW_THREADS
}

/* Request the end of a run and of those inside it. The innermost go last, so that their
 * end is not taken for that of a source. */
static void cancel_all(struct hr_pipeline *pipeline, const struct engine *inner)
{
    cancel(pipeline);
    for (; inner; inner = inner->inner)
        cancel(inner->pipeline);
}

static PyObject *engine_request_stop(PyObject *obj, PyObject *unused)
{
    struct engine *self = (struct engine *)obj;

    (void)unused;
    cancel_all(self->pipeline, self->inner);
    Py_RETURN_NONE;
}

/* The threads have ended: sources let go of files and such. */
static void close_sources(struct engine *self)
{
    if (hrpy_is_core_thread())
        return; /* the end was only requested */
    for (size_t i = 0; i < self->op_count; i++)
        hrpy_python_op_close(self->ops[i]);
}

static PyObject *engine_stop(PyObject *obj, PyObject *timeout)
{
    struct engine *self = (struct engine *)obj;
    struct hr_error err = {0};
    enum hr_status status = HR_TIMEOUT;
    int64_t timeout_ns;

    if (hrpy_engine_timeout(timeout, &timeout_ns) || hrpy_engine_check(self))
        return NULL;
    int64_t deadline_ns = hrpy_engine_deadline(timeout_ns);
    cancel_all(self->pipeline, self->inner);
    for (;;) {
        int64_t until_ns = HR_SYS(now_ns)() + HRPY_SLICE_NS;
        if (until_ns > deadline_ns)
            until_ns = deadline_ns;
        Py_BEGIN_ALLOW_THREADS
        status = hr_pipeline_stop(self->pipeline, until_ns, &err);
        hr__pipeline_want(self->pipeline, true);
        Py_END_ALLOW_THREADS
        hr__pipeline_want(self->pipeline, false);
        if (PyErr_CheckSignals())
            return NULL;
        if (status != HR_TIMEOUT || until_ns == deadline_ns)
            break;
    }
    hrpy_drain_decrefs();
    hrpy_log_flush(self->state);
    if (status != HR_OK)
        return hrpy_raise(self->state, &err);
    if (hrpy_bridge_join(self->bridge))
        return NULL;
    if (!hrpy_is_core_thread()) /* else the end was only requested */
        hrpy_engine_report(self, true);
    close_sources(self);
    Py_RETURN_NONE;
}

/* ---- traces ---- */

static PyObject *engine_trace_start(PyObject *obj, PyObject *args)
{
    struct engine *self = (struct engine *)obj;
    struct hr_error err = {0};
    unsigned int events_max;
    PyObject *path = NULL;
    enum hr_status status;

    if (hrpy_engine_check(self) ||
        !PyArg_ParseTuple(args, "O&I:trace_start", PyUnicode_FSConverter, &path,
                          &events_max))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    status = hr_pipeline_trace_start(self->pipeline, PyBytes_AS_STRING(path),
                                     events_max, &err);
    Py_END_ALLOW_THREADS
    Py_DECREF(path);
    if (status != HR_OK)
        return hrpy_raise(self->state, &err);
    Py_RETURN_NONE;
}

static PyObject *engine_trace_stop(PyObject *obj, PyObject *unused)
{
    struct engine *self = (struct engine *)obj;
    struct hr_error err = {0};
    enum hr_status status;

    (void)unused;
    if (hrpy_engine_check(self))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    status = hr_pipeline_trace_stop(self->pipeline, &err);
    Py_END_ALLOW_THREADS
    hrpy_log_flush(self->state);
    if (status != HR_OK)
        return hrpy_raise(self->state, &err);
    Py_RETURN_NONE;
}

/* ---- the type ---- */

PyObject *hrpy_engine_new(struct hrpy_state *state, struct hr_plan **plan,
                          struct hrpy_python_op ***ops, size_t count,
                          const struct hr_pipeline_options *options,
                          PyObject *note_stage, PyObject *too_many_failures,
                          PyObject *inner, PyObject *start_loop)
{
    struct hr_error err = {0};
    PyTypeObject *type = state->pipeline_type;
    struct engine *self = (struct engine *)type->tp_alloc(type, 0);

    if (!self)
        return NULL;
    self->state = state;
    if (hr_pipeline_new(plan, options, &self->pipeline, &err) != HR_OK) {
        Py_DECREF(self);
        return hrpy_raise(state, &err);
    }
    self->bridge = hrpy_bridge_new(state, self->pipeline, start_loop);
    if (!self->bridge) {
        Py_DECREF(self);
        return NULL;
    }
    self->ops = *ops;
    self->op_count = count;
    *ops = NULL;
    self->inner = inner ? (struct engine *)Py_NewRef(inner) : NULL;
    self->note_stage = Py_NewRef(note_stage);
    self->too_many_failures = Py_NewRef(too_many_failures);
    atomic_init(&self->report_due_ns, INT64_MAX);
    atomic_init(&self->reported, false);
    atomic_flag_clear_explicit(&self->reporting,
                               memory_order_relaxed); /* private yet */
    return (PyObject *)self;
}

/* Stop and free, waiting only where that is sure to end. */
static void end_pipeline(struct engine *self)
{
    struct hr_pipeline *pipeline = self->pipeline;
    bool ended = true;

    self->pipeline = NULL;
    if (!pipeline)
        return;
    if (is_started(self) && self->inner) {
        Py_BEGIN_ALLOW_THREADS
        ended = hr__pipeline_ended(pipeline);
        Py_END_ALLOW_THREADS
    }
    if (!ended)
        cancel_all(pipeline, self->inner);
    bool leave = false;
    Py_BEGIN_ALLOW_THREADS
    if (hrpy_attach_ended() && !hr__pipeline_forked(pipeline))
        leave = hr_pipeline_stop(pipeline, HR_SYS(now_ns)(), NULL) != HR_OK;
    if (!leave)
        hr_pipeline_free(&pipeline);
    Py_END_ALLOW_THREADS
}

static void engine_finalize(PyObject *obj)
{
    struct engine *self = (struct engine *)obj;
    PyObject *type, *value, *traceback;

    PyErr_Fetch(&type, &value, &traceback);
    end_pipeline(self);
    hrpy_drain_decrefs();
    PyErr_Restore(type, value, traceback);
}

static int engine_traverse(PyObject *obj, visitproc visit, void *arg)
{
    struct engine *self = (struct engine *)obj;

    Py_VISIT(Py_TYPE(obj));
    Py_VISIT(self->inner);
    Py_VISIT(self->note_stage);
    Py_VISIT(self->too_many_failures);
    Py_VISIT(self->told);
    Py_VISIT(self->bridge);
    Py_VISIT(self->report);
    for (size_t i = 0; i < self->op_count; i++) {
        int result = hrpy_python_op_visit(self->ops[i], visit, arg);
        if (result)
            return result;
    }
    return self->pipeline ? hrpy_visit_pipeline(self->pipeline, visit, arg) : 0;
}

static int engine_clear(PyObject *obj)
{
    struct engine *self = (struct engine *)obj;

    end_pipeline(self); /* done already, unless a finalizer brought it back to life */
    for (size_t i = 0; i < self->op_count; i++)
        hrpy_python_op_unref(&self->ops[i]);
    self->op_count = 0;
    hr__free(self->ops);
    self->ops = NULL;
    Py_CLEAR(self->inner);
    Py_CLEAR(self->note_stage);
    Py_CLEAR(self->too_many_failures);
    Py_CLEAR(self->told);
    Py_CLEAR(self->bridge);
    Py_CLEAR(self->report);
    return 0;
}

static void engine_dealloc(PyObject *obj)
{
    PyTypeObject *type = Py_TYPE(obj);

    if (PyObject_CallFinalizerFromDealloc(obj) < 0)
        return;
    PyObject_GC_UnTrack(obj);
    if (((struct engine *)obj)->weakrefs)
        PyObject_ClearWeakRefs(obj);
    (void)engine_clear(obj);
    type->tp_free(obj);
    Py_DECREF(type);
}

static PyMethodDef engine_methods[] = {
    {"start", engine_start, METH_NOARGS, "start($self, /)\n--\n\nStart the threads."},
    {"stop", engine_stop, METH_O,
     "stop($self, timeout, /)\n--\n\n"
     "End the run and wait for the threads; TimeoutError names what is stuck."},
    {"request_stop", engine_request_stop, METH_NOARGS,
     "request_stop($self, /)\n--\n\nEnd the run without waiting."},
    {"next", engine_next, METH_O,
     "next($self, timeout, /)\n--\n\nThe next item; EOFError at the end."},
    {"iterate", hrpy_engine_iterate, METH_O,
     "iterate($self, timeout, /)\n--\n\nAn iterator over the items that are left."},
    {"stats", hrpy_engine_stats, METH_NOARGS,
     "stats($self, /)\n--\n\nFigures of the run, and a dict per stage, of one moment."},
    {"summary", hrpy_engine_summary, METH_NOARGS,
     "summary($self, /)\n--\n\nFigures of the whole run."},
    {"report_every", hrpy_engine_report_every, METH_VARARGS,
     "report_every($self, seconds, report, /)\n--\n\n"
     "Call report(engine, final) now and then, by who takes items, and at the end."},
    {"trace_start", engine_trace_start, METH_VARARGS,
     "trace_start($self, path, events_max, /)\n--\n\n"
     "Begin a trace of up to events_max events (0: 65,536) of each thread."},
    {"trace_stop", engine_trace_stop, METH_NOARGS,
     "trace_stop($self, /)\n--\n\nEnd the trace, if there is one; write its file."},
    {"failures", hrpy_engine_failures, METH_O,
     "failures($self, start, /)\n--\n\n"
     "Failed items from number `start` on: (stage, index, label, exception)."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef engine_attributes[] = {
    {"started", engine_started, NULL,
     "Whether the threads were started. No Ctrl-C can come between the two.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMemberDef engine_members[] = {
    {"__weaklistoffset__", T_PYSSIZET, offsetof(struct engine, weakrefs), READONLY,
     NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot engine_slots[] = {
    {Py_tp_doc, (void *)"A pipeline that runs. Made by Plan.build()."},
    {Py_tp_dealloc, engine_dealloc},
    {Py_tp_finalize, engine_finalize},
    {Py_tp_traverse, engine_traverse},
    {Py_tp_clear, engine_clear},
    {Py_tp_methods, engine_methods},
    {Py_tp_getset, engine_attributes},
    {Py_tp_members, engine_members},
    {0, NULL},
};

PyType_Spec hrpy_engine_spec = {
    .name = "headrace._ext.Engine",
    .basicsize = sizeof(struct engine),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE |
             Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = engine_slots,
};
