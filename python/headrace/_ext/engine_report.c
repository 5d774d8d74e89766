/* engine_report.c - statistics in the log, every some seconds.
 *
 * A table is text for the logging module, so a thread that is attached has to make it.
 * The thread that takes items is attached each time it comes by, and also wakes five
 * times a second while it waits: it looks at the clock (30 ns, and only if reports are
 * wanted) and makes the report that is due. So there is no thread that would have to be
 * ended before the interpreter, no timer, and no attaching that others must wait for;
 * log handlers run in the user's own thread. The price: a consumer that computes for a
 * minute gets its table a minute late.
 *
 * Several consumers may look at once: one of them moves the due time on, and reports. */
#include "engine_object.h"

#include "base/sys.h"

PyObject *hrpy_engine_report_every(PyObject *obj, PyObject *args)
{
    struct engine *self = (struct engine *)obj;
    PyObject *report;
    double seconds;

    if (!PyArg_ParseTuple(args, "dO:report_every", &seconds, &report))
        return NULL;
    if (!(seconds > 0.0)) {
        PyErr_Format(PyExc_ValueError, "seconds must be > 0, got %R",
                     PyTuple_GET_ITEM(args, 0));
        return NULL;
    }
    double ns = seconds * 1e9;
    self->report_ns = ns < 1e18 ? (int64_t)ns : (int64_t)1e18;
    Py_XSETREF(self->report, Py_NewRef(report));
    Py_RETURN_NONE;
}

void hrpy_engine_report_begin(struct engine *self)
{
    if (self->report) /* relaxed: see the header */
        atomic_store_explicit(&self->report_due_ns, HR_SYS(now_ns)() + self->report_ns,
                              memory_order_relaxed);
}

static void make_report(struct engine *self, bool final)
{
    PyObject *type, *value, *traceback;

    PyErr_Fetch(&type, &value, &traceback);
    PyObject *report = Py_NewRef(self->report);
    PyObject *done = PyObject_CallFunctionObjArgs(report, (PyObject *)self,
                                                  final ? Py_True : Py_False, NULL);
    if (!done && PyErr_ExceptionMatches(PyExc_KeyboardInterrupt)) {
        PyErr_Clear();
        PyErr_SetInterrupt(); /* Ctrl-C, of all moments: raised again once we are out */
    } else if (!done) {
        PyErr_WriteUnraisable(report);
    }
    Py_XDECREF(done);
    Py_DECREF(report);
    PyErr_Restore(type, value, traceback);
}

/* Is one due, and is it the caller's to make? */
static bool take_due(struct engine *self)
{
    int64_t now_ns = HR_SYS(now_ns)();
    int64_t due_ns = atomic_load_explicit(&self->report_due_ns, memory_order_relaxed);

    /* relaxed: the one who moves it on wins; nothing else is handed over by it */
    return now_ns >= due_ns &&
           atomic_compare_exchange_strong_explicit(
               &self->report_due_ns, &due_ns, now_ns + self->report_ns,
               memory_order_relaxed, memory_order_relaxed);
}

void hrpy_engine_report(struct engine *self, bool final)
{
    if (!self->report)
        return;
    if (!final && !take_due(self))
        return;
    /* One at a time; a table in the midst of another one is left out. */
    if (atomic_flag_test_and_set_explicit(&self->reporting, memory_order_acquire))
        return;
    bool over =
        final ? atomic_exchange_explicit(&self->reported, true, memory_order_relaxed)
              : atomic_load_explicit(&self->reported, memory_order_relaxed);
    if (!over)
        make_report(self, final);
    atomic_flag_clear_explicit(&self->reporting, memory_order_release); /* entry */
}
