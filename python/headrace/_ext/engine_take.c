/* engine_take.c - the consumer takes an item, or learns why there is none.
 *
 * The consumer is attached when it calls next(), so a ready item is taken without giving
 * that up: no lock is waited for, and no system call made. Only when nothing is ready
 * does it detach and wait, in slices of 200 ms or until a signal, so that Ctrl-C is heard. Before it attaches again it says so (hr__pipeline_want), and
 * workers that run Python leave. Nothing is taken while detached: neither a timeout nor
 * a KeyboardInterrupt can lose an item. */
#include "engine_object.h"

#include "base/sys.h"
#include "engine/async.h"

int hrpy_engine_check(const struct engine *self)
{
    if (!self->pipeline) {
        PyErr_SetString(PyExc_RuntimeError, "the pipeline was finalized");
        return -1;
    }
    if (hr__pipeline_forked(self->pipeline)) {
        PyErr_SetString(PyExc_RuntimeError,
                        "the pipeline was started in another process and did not "
                        "survive fork(); build a new one in this process");
        return -1;
    }
    return 0;
}

/* Raise exc as it is, except for those that would pass for an end of iteration. */
static void raise_object(PyObject *exc)
{
    if (!PyErr_GivenExceptionMatches(exc, PyExc_StopIteration) &&
        !PyErr_GivenExceptionMatches(exc, PyExc_GeneratorExit)) {
        PyErr_SetObject((PyObject *)Py_TYPE(exc), exc);
        return;
    }
    PyObject *wrapped = PyObject_CallFunction(PyExc_RuntimeError, "s",
                                              "the source or an operation raised "
                                              "StopIteration or GeneratorExit");
    if (!wrapped)
        return;
    PyException_SetCause(wrapped, Py_NewRef(exc));
    PyErr_SetObject(PyExc_RuntimeError, wrapped);
    Py_DECREF(wrapped);
}

/* A stage failed too often: the error is made by headrace.pipeline, with the causes. */
static PyObject *make_too_many_failures(struct engine *self,
                                        const struct hr_failure *final)
{
    PyObject *start = PyLong_FromLong(0);
    PyObject *failures = start ? hrpy_engine_failures((PyObject *)self, start) : NULL;
    PyObject *exc = NULL;

    if (failures)
        exc = PyObject_CallFunction(self->too_many_failures, "ssO", final->error.text,
                                    final->stage, failures);
    Py_XDECREF(failures);
    Py_XDECREF(start);
    return exc;
}

/* Say in a note where exc comes from. One that takes no notes is raised without. */
static void note_stage(struct engine *self, PyObject *exc,
                       const struct hr_failure *final)
{
    PyObject *label = PyUnicode_DecodeFSDefault(final->label);
    PyObject *noted = NULL;

    if (label)
        noted = PyObject_CallFunction(self->note_stage, "OsLO", exc, final->stage,
                                      (long long) final->index, label);
    if (!noted)
        PyErr_Clear();
    Py_XDECREF(noted);
    Py_XDECREF(label);
}

/* The exception that ended the run; a new reference, or NULL with an exception set. */
static PyObject *final_exception(struct engine *self, const struct hr_error *err)
{
    struct hr_failure final;
    if (!hr__pipeline_final_failure(self->pipeline, &final))
        return hrpy_exception_of(self->state, err);

    /* Not kept: once raised, its traceback holds the consumer's frame, which in turn
     * holds the pipeline. */
    struct hr_value boxed = hr__pipeline_take_final_exception(self->pipeline);
    PyObject *exc = hrpy_raised_unbox(&boxed);
    if (!exc && final.error.status == HR_ERR_LIMIT &&
        strcmp(final.error.origin, "pipeline") == 0)
        return make_too_many_failures(self, &final);
    if (!exc)
        exc = hrpy_exception_of(self->state, &final.error);
    if (exc)
        note_stage(self, exc, &final);
    return exc;
}

/* What ended the run is raised, unless it was before. */
static int raise_failure(struct engine *self, const struct hr_error *err)
{
    if (err->status == HR_CANCELLED)
        return HRPY_GOT_END;
    if (err->status == HR_ERR_STATE) {
        hrpy_raise(self->state, err);
        return HRPY_GOT_ERROR;
    }
    PyObject *exc = final_exception(self, err);
    hrpy_section section;
    hrpy_section_begin(&section, (PyObject *)self);
    bool told = exc && exc == self->told;
    hrpy_section_end(&section);
    if (exc && !told)
        raise_object(exc);
    Py_XDECREF(exc);
    return told ? HRPY_GOT_END : HRPY_GOT_ERROR;
}

static int try_take(struct engine *self, uint64_t epoch, PyObject **out)
{
    struct hr_value value = HR_VALUE_EMPTY;
    struct hr_error err; /* filled when it is needed; zeroing it takes 20 ns */
    enum hr_status status = hr__pipeline_try_next(self->pipeline, epoch, &value, &err);

    switch (status) {
    case HR_OK:
        *out = hrpy_export(self->state, &value);
        return *out ? HRPY_GOT_ITEM : HRPY_GOT_ERROR;
    case HR_AGAIN:
    case HR_TIMEOUT:
        return HRPY_GOT_NOTHING;
    case HR_END:
        hrpy_engine_report(self, true);
        return HRPY_GOT_END;
    case HR_EPOCH:
        return HRPY_GOT_END;
    default:
        hrpy_engine_report(self, true);
        err.status = status;
        return raise_failure(self, &err);
    }
}

/* Advance a fast source. Ctrl-C inside of it is raised here, before an item is taken. */
static int refill(struct engine *self)
{
    PyObject *interrupt = NULL;
    PyObject **outer = hrpy_interrupt_slot(&interrupt);

    hr__pipeline_refill(self->pipeline);
    (void)hrpy_interrupt_slot(outer);
    if (!interrupt)
        return 0;
    PyErr_SetObject((PyObject *)Py_TYPE(interrupt), interrupt);
    hrpy_section section;
    hrpy_section_begin(&section, (PyObject *)self);
    PyObject *before = self->told;
    self->told = interrupt;
    hrpy_section_end(&section);
    Py_XDECREF(before);
    return -1;
}

static int wait_for_item(struct engine *self, uint64_t epoch, int64_t deadline_ns)
{
    struct hr_pipeline *pipeline = self->pipeline;
    int64_t until_ns = HR_SYS(now_ns)() + HRPY_SLICE_NS;
    enum hr_status status;

    if (until_ns > deadline_ns)
        until_ns = deadline_ns;
    Py_BEGIN_ALLOW_THREADS
    status = hr__pipeline_wait(pipeline, epoch, until_ns);
    hr__pipeline_want(pipeline, true);
    Py_END_ALLOW_THREADS
    hr__pipeline_want(pipeline, false);
    hrpy_drain_decrefs();
    hrpy_log_flush(self->state);
    hrpy_engine_report(self, false);
    if (PyErr_CheckSignals())
        return -1;
    if (status == HR_TIMEOUT && until_ns == deadline_ns) {
        PyErr_SetString(PyExc_TimeoutError,
                        "the pipeline gave no item within the timeout");
        return -1;
    }
    return 0;
}

int hrpy_engine_start_loop(struct engine *self)
{
    if (!atomic_exchange_explicit(&self->loop_due, false, memory_order_relaxed) ||
        hrpy_bridge_start(self->bridge) == 0)
        return 0;
    atomic_store_explicit(&self->loop_due, true, memory_order_relaxed);
    return -1;
}

int hrpy_engine_take(struct engine *self, uint64_t epoch, int64_t deadline_ns,
                     PyObject **out)
{
    if (hrpy_engine_check(self))
        return HRPY_GOT_ERROR;
    if (hr__pipeline_in_source(self->pipeline)) {
        PyErr_SetString(PyExc_RuntimeError,
                        "the source asked for the next item of its own pipeline");
        return HRPY_GOT_ERROR;
    }
    int64_t begin_ns = hr__pipeline_next_begin(self->pipeline);
    hrpy_drain_decrefs();
    hrpy_log_flush(self->state);
    hrpy_engine_report(self, false);
    /* A source may pause at any item, and a deadline cannot interrupt it. */
    if (deadline_ns == HR_NO_DEADLINE && hr__pipeline_refill_due(self->pipeline) &&
        refill(self))
        return HRPY_GOT_ERROR;
    for (;;) {
        int got = try_take(self, epoch, out);
        if (got == HRPY_GOT_ITEM)
            hr__pipeline_next_end(self->pipeline, begin_ns);
        if (got != HRPY_GOT_NOTHING)
            return got;
        if (hrpy_engine_start_loop(self) || wait_for_item(self, epoch, deadline_ns))
            return HRPY_GOT_ERROR;
    }
}

int hrpy_engine_timeout(PyObject *timeout, int64_t *out_ns)
{
    *out_ns = HR_NO_DEADLINE;
    if (timeout == Py_None)
        return 0;
    double seconds = PyFloat_AsDouble(timeout);
    if (seconds == -1.0 && PyErr_Occurred()) {
        if (PyErr_ExceptionMatches(PyExc_TypeError))
            PyErr_Format(PyExc_TypeError,
                         "timeout must be None or seconds >= 0, got %R", timeout);
        return -1;
    }
    if (!(seconds >= 0.0)) {
        PyErr_Format(PyExc_ValueError, "timeout must be None or seconds >= 0, got %R",
                     timeout);
        return -1;
    }
    if (seconds < 1e9)
        *out_ns = (int64_t)(seconds * 1e9);
    return 0;
}

int64_t hrpy_engine_deadline(int64_t timeout_ns)
{
    return timeout_ns == HR_NO_DEADLINE ? timeout_ns : HR_SYS(now_ns)() + timeout_ns;
}
