/* engine_object.h - the inside of headrace._ext.Engine, shared by its files. */
#ifndef HRPY_ENGINE_OBJECT_H
#define HRPY_ENGINE_OBJECT_H

#include "foreign.h"

#include <stdatomic.h>

struct engine {
    PyObject_HEAD
    /* const after creation, until the finalizer empties it */
    struct hrpy_state *state;
    struct hr_pipeline *pipeline; /* NULL: finalized */
    PyObject *report; /* (engine, final): logs statistics; NULL: not wanted */
    struct hrpy_python_op **ops;
    size_t op_count;
    PyObject *note_stage;        /* (exception, stage, index, item): adds a note */
    PyObject *too_many_failures; /* (message, stage, failures): makes the error */
    PyObject *bridge;            /* to the event loop; None: no stage needs one */
    struct engine *inner;        /* whose items the source of this one gives, or NULL */
    PyObject *weakrefs;
    int64_t report_ns; /* the interval of reports */
    /* atomic */
    _Atomic int64_t report_due_ns; /* relaxed: who moves it on makes the report */
    atomic_flag reporting;         /* acquire on entry, release on exit */
    _Atomic bool reported;         /* the end; relaxed: who sets it makes that report */
    /* the threads run, or did; true from just before they begin; release, acquire */
    _Atomic bool started;
    _Atomic bool
        loop_due; /* the event loop is to be started; relaxed: who takes it does */
    /* in the object's section */
    PyObject *told; /* a KeyboardInterrupt of the source that was raised already */
};

/* Who waits in the core looks for signals this often. */
#define HRPY_SLICE_NS (200 * INT64_C(1000000))

enum { HRPY_GOT_END = 0, HRPY_GOT_ITEM = 1, HRPY_GOT_NOTHING = 2, HRPY_GOT_ERROR = -1 };

/* ---- engine_take.c ---- */
/* 0, or -1 with RuntimeError set: finalized, or a forked child. */
int hrpy_engine_check(const struct engine *self);
/* The next item of the epoch (HR_EPOCH_ANY: of whichever it is): HRPY_GOT_ITEM with a new
 * reference, HRPY_GOT_END (of the epoch or of all), or HRPY_GOT_ERROR with an exception
 * set (TimeoutError at deadline_ns; nothing is lost). */
int hrpy_engine_take(struct engine *self, uint64_t epoch, int64_t deadline_ns,
                     PyObject **out);
/* Start the event loop, once, if one is due. 0, or -1 with an exception set: a Ctrl-C, or
 * there is no thread to be had just now. Then whoever takes the next item tries again, for
 * without the loop there would be none, and an end would pass for that of the source. */
int hrpy_engine_start_loop(struct engine *self);
/* None (HR_NO_DEADLINE) or seconds. 0, or -1 with an exception set. */
int hrpy_engine_timeout(PyObject *timeout, int64_t *out_ns);
/* That long from now. */
int64_t hrpy_engine_deadline(int64_t timeout_ns);

/* ---- engine_gc.c ---- */
/* tp_traverse of what the core holds for a run that has ended. */
int hrpy_visit_pipeline(struct hr_pipeline *pipeline, visitproc visit, void *arg);

/* ---- engine_view.c ---- */
PyObject *hrpy_engine_stats(PyObject *engine, PyObject *unused);
PyObject *hrpy_engine_summary(PyObject *engine, PyObject *unused);
PyObject *hrpy_engine_failures(PyObject *engine, PyObject *start);

/* ---- engine_report.c ---- */
/* engine.report_every(seconds, report); before start. */
PyObject *hrpy_engine_report_every(PyObject *engine, PyObject *args);
/* The run begins. */
void hrpy_engine_report_begin(struct engine *self);
/* Make the report that is due, or the one at the end of the run, which is made once. An
 * exception in it is told and does no harm. */
void hrpy_engine_report(struct engine *self, bool final);

/* ---- engine_iterator.c ---- */
/* engine.iterate(timeout): a new iterator over what is left. */
PyObject *hrpy_engine_iterate(PyObject *engine, PyObject *timeout);

#endif
