/* engine_view.c - what can be seen of a running pipeline: statistics and failures.
 *
 * The core's figures are read detached, for reading them takes the engine's lock. */
#include "engine_object.h"

#include "base/mem.h"

enum { FAILURES_AT_ONCE = 64 };

static PyObject *stage_dict(const struct hr_stage_stats *s)
{
    return Py_BuildValue(
        "{s:s,s:I,s:K,s:K,s:K,s:K,s:K,s:K,s:I,s:I,s:I,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,"
        "s:K,s:K,s:K,s:K,s:K,s:K,s:K}",
        "name", s->name, "concurrency", s->concurrency, "items_in",
        (unsigned long long)s->items_in, "items_out", (unsigned long long)s->items_out,
        "filtered", (unsigned long long)s->filtered, "failed",
        (unsigned long long)s->failed, "released", (unsigned long long)s->released,
        "retried", (unsigned long long)s->retried, "running", s->running, "queued",
        s->queued, "capacity", s->capacity, "busy_ns", (unsigned long long)s->busy_ns,
        "awaited_ns", (unsigned long long)s->awaited_ns, "starved_ns",
        (unsigned long long)s->starved_ns, "blocked_ns",
        (unsigned long long)s->blocked_ns, "ready_ns", (unsigned long long)s->ready_ns,
        "full_ns", (unsigned long long)s->full_ns, "attach_ns",
        (unsigned long long)s->attach_ns, "attached_ns",
        (unsigned long long)s->attached_ns, "ended_ns", (unsigned long long)s->ended_ns,
        "task_p50_ns", (unsigned long long)s->task_p50_ns, "task_p90_ns",
        (unsigned long long)s->task_p90_ns, "task_p99_ns",
        (unsigned long long)s->task_p99_ns, "timed_out",
        (unsigned long long)s->timed_out, "stuck", (unsigned long long)s->stuck, "late",
        (unsigned long long)s->late);
}

static PyObject *summary_dict(const struct hr_pipeline_summary *sum)
{
    return Py_BuildValue("{s:I,s:L,s:K,s:K,s:K}", "num_threads", sum->num_threads,
                         "elapsed_ns", (long long)sum->elapsed_ns, "consumer_wait_ns",
                         (unsigned long long)sum->consumer_wait_ns, "delivered",
                         (unsigned long long)sum->delivered, "failed",
                         (unsigned long long)sum->failed);
}

static PyObject *stage_list(const struct hr_stage_stats *stages, size_t n)
{
    PyObject *list = PyList_New((Py_ssize_t)n);

    for (size_t i = 0; list && i < n; i++) {
        PyObject *stage = stage_dict(&stages[i]);
        if (stage)
            PyList_SET_ITEM(list, (Py_ssize_t)i, stage);
        else
            Py_CLEAR(list);
    }
    return list;
}

PyObject *hrpy_engine_stats(PyObject *obj, PyObject *unused)
{
    struct engine *self = (struct engine *)obj;
    struct hr_pipeline_summary sum = {0};
    size_t n = HR_SCHED_STAGES_MAX;

    (void)unused;
    if (hrpy_engine_check(self))
        return NULL;
    struct hr_stage_stats *stages = hr__calloc(n, sizeof(*stages));
    if (!stages)
        return PyErr_NoMemory();
    Py_BEGIN_ALLOW_THREADS
    n = hr_pipeline_snapshot(self->pipeline, &sum, stages, n);
    Py_END_ALLOW_THREADS
    PyObject *list = stage_list(stages, n);
    PyObject *dict = summary_dict(&sum);
    hr__free(stages);
    PyObject *both = list && dict ? PyTuple_Pack(2, dict, list) : NULL;
    Py_XDECREF(list);
    Py_XDECREF(dict);
    return both;
}

PyObject *hrpy_engine_summary(PyObject *obj, PyObject *unused)
{
    struct engine *self = (struct engine *)obj;
    struct hr_pipeline_summary sum;

    (void)unused;
    if (hrpy_engine_check(self))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    hr_pipeline_summary(self->pipeline, &sum);
    Py_END_ALLOW_THREADS
    return summary_dict(&sum);
}

/* (stage, index, label, exception); boxed is taken. */
static PyObject *failure_tuple(struct hrpy_state *state,
                               const struct hr_failure *failure, struct hr_value *boxed)
{
    PyObject *exc = hrpy_raised_unbox(boxed);

    if (!exc)
        exc = hrpy_exception_of(state, &failure->error);
    if (!exc)
        return NULL;
    PyObject *label = PyUnicode_DecodeFSDefault(failure->label);
    PyObject *tuple = NULL;
    if (label)
        tuple = Py_BuildValue("(sLOO)", failure->stage, (long long)failure->index,
                              label, exc);
    Py_XDECREF(label);
    Py_DECREF(exc);
    return tuple;
}

struct seen {
    struct hr_failure failure;
    struct hr_value boxed;
};

/* Detached. */
static size_t read_failures(struct hr_pipeline *pipeline, size_t start,
                            struct seen *out)
{
    size_t n = 0;

    while (n < FAILURES_AT_ONCE &&
           hr_pipeline_failure(pipeline, start + n, &out[n].failure) == HR_OK) {
        out[n].boxed = hr__pipeline_exception(pipeline, start + n);
        n++;
    }
    return n;
}

/* Take all of seen[n], to the end even after an error. */
static int append_failures(struct hrpy_state *state, struct seen *seen, size_t n,
                           PyObject *list)
{
    int result = 0;

    for (size_t i = 0; i < n; i++) {
        if (result) {
            hr_value_release(&seen[i].boxed);
            continue;
        }
        PyObject *tuple = failure_tuple(state, &seen[i].failure, &seen[i].boxed);
        result = tuple ? PyList_Append(list, tuple) : -1;
        Py_XDECREF(tuple);
    }
    return result;
}

PyObject *hrpy_engine_failures(PyObject *obj, PyObject *start)
{
    struct engine *self = (struct engine *)obj;
    size_t at = PyLong_AsSize_t(start);
    size_t n = 0;

    if ((at == (size_t)-1 && PyErr_Occurred()) || hrpy_engine_check(self))
        return NULL;
    struct seen *seen = hr__calloc(FAILURES_AT_ONCE, sizeof(*seen));
    if (!seen)
        return PyErr_NoMemory();
    PyObject *list = PyList_New(0);
    while (list) {
        Py_BEGIN_ALLOW_THREADS
        n = read_failures(self->pipeline, at, seen);
        Py_END_ALLOW_THREADS
        at += n;
        if (append_failures(self->state, seen, n, list))
            Py_CLEAR(list);
        if (n < FAILURES_AT_ONCE)
            break;
    }
    hr__free(seen);
    return list;
}
