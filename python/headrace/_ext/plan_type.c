/* plan_type.c - headrace._ext.Plan: the stages of a pipeline, in order.
 *
 * A thin layer: headrace.pipeline checks arguments and works out what each stage's
 * outputs have to be; this type hands them to hr_plan. Methods of one plan exclude each
 * other; what is added by several threads at once comes in any order. */
#include "plan_object.h"

#include "base/mem.h"

/* ---- building ---- */

static PyObject *hrpy_plan_build(PyObject *obj, PyObject *args)
{
    struct plan *self = (struct plan *)obj;
    struct hr_pipeline_options options = {0};
    PyObject *note_stage, *too_many_failures, *inner, *start_loop;

    if (hrpy_plan_check_open(self) ||
        !PyArg_ParseTuple(args, "IOOOO:build", &options.num_threads, &note_stage,
                          &too_many_failures, &inner, &start_loop))
        return NULL;
    if (inner != Py_None &&
        !Py_IS_TYPE(inner, hrpy_plan_state_of(obj)->pipeline_type)) {
        PyErr_SetString(PyExc_TypeError, "inner must be an Engine or None");
        return NULL;
    }
    PyObject *engine = hrpy_engine_new(
        hrpy_plan_state_of(obj), &self->plan, &self->ops, self->op_count, &options,
        note_stage, too_many_failures, inner == Py_None ? NULL : inner, start_loop);
    if (engine)
        self->op_count = 0;
    return engine;
}

/* ---- the type ---- */

/* METHOD_alone: hrpy_plan_METHOD, while no other of this plan runs. */
#define ALONE(method)                                                                  \
    static PyObject *method##_alone(PyObject *obj, PyObject *args)                     \
    {                                                                                  \
        hrpy_section section;                                                          \
        hrpy_section_begin(&section, obj);                                             \
        PyObject *result = hrpy_plan_##method(obj, args);                              \
        hrpy_section_end(&section);                                                    \
        return result;                                                                 \
    }

ALONE(source)
ALONE(pipe_native)
ALONE(pipe_python)
ALONE(aggregate)
ALONE(fold)
ALONE(route)
ALONE(path)
ALONE(join)
ALONE(branch)
ALONE(merge)
ALONE(on_error)
ALONE(retry)
ALONE(timeout)
ALONE(disaggregate)
ALONE(sink)
ALONE(build)

static PyObject *plan_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    struct hr_error err = {0};

    if (!PyArg_ParseTuple(args, ":Plan") || (kwargs && PyDict_GET_SIZE(kwargs))) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_TypeError, "Plan takes no arguments");
        return NULL;
    }
    struct plan *self = (struct plan *)type->tp_alloc(type, 0);
    if (!self)
        return NULL;
    if (hr_plan_new(&self->plan, &err) != HR_OK) {
        Py_DECREF(self);
        return hrpy_raise(hrpy_state_of_type(type), &err);
    }
    hr__plan_runtime(self->plan, hrpy_runtime());
    return (PyObject *)self;
}

static int plan_traverse(PyObject *obj, visitproc visit, void *arg)
{
    struct plan *self = (struct plan *)obj;

    Py_VISIT(Py_TYPE(obj));
    for (size_t i = 0; i < self->op_count; i++) {
        int result = hrpy_python_op_visit(self->ops[i], visit, arg);
        if (result)
            return result;
    }
    return 0;
}

static int plan_clear(PyObject *obj)
{
    struct plan *self = (struct plan *)obj;

    hr_plan_free(&self->plan);
    for (size_t i = 0; i < self->op_count; i++)
        hrpy_python_op_unref(&self->ops[i]);
    self->op_count = 0;
    hr__free(self->ops);
    self->ops = NULL;
    return 0;
}

static void plan_dealloc(PyObject *obj)
{
    PyTypeObject *type = Py_TYPE(obj);

    PyObject_GC_UnTrack(obj);
    (void)plan_clear(obj);
    type->tp_free(obj);
    Py_DECREF(type);
}

static PyMethodDef plan_methods[] = {
    {"source", source_alone, METH_VARARGS,
     "source($self, iterable, name, want, continuous, is_async=False, /)\n--\n\n"
     "Add the source; its items are imported as `want` says."},
    {"pipe_native", pipe_native_alone, METH_VARARGS,
     "pipe_native($self, op, name, concurrency, input_order, key, max_failures, /)\n"
     "--\n\nAdd a stage that runs a native op."},
    {"pipe_python", pipe_python_alone, METH_VARARGS,
     "pipe_python($self, op, kind, name, concurrency, input_order, key, max_failures, "
     "want, per_worker=False, /)\n--\n\n"
     "Add a stage that calls op, or with per_worker what op() gives to each thread; "
     "its "
     "results are imported as `want` says."},
    {"aggregate", aggregate_alone, METH_VARARGS,
     "aggregate($self, n, drop_last, columns, /)\n--\n\nAdd a stage that makes lists."},
    {"fold", fold_alone, METH_VARARGS,
     "fold($self, accumulate, flush, name, drop_last, max_failures, want, /)\n--\n\n"
     "Add a stage that calls accumulate(item), and flush() at each end."},
    {"route", route_alone, METH_VARARGS,
     "route($self, router, name, wants, /)\n--\n\n"
     "Begin a route: router gives the number of each item's path, in which it is "
     "imported "
     "as `wants` says."},
    {"path", path_alone, METH_NOARGS,
     "path($self, /)\n--\n\nBegin the next path of the route."},
    {"join", join_alone, METH_NOARGS,
     "join($self, /)\n--\n\nEnd the route: its paths join."},
    {"branch", branch_alone, METH_NOARGS,
     "branch($self, /)\n--\n\nBegin another branch, with a source of its own."},
    {"merge", merge_alone, METH_VARARGS,
     "merge($self, n, /)\n--\n\nThe last n branches become one."},
    {"on_error", on_error_alone, METH_O,
     "on_error($self, raises, /)\n--\n\n"
     "The first failure of the stage that was added last ends the run, or not."},
    {"retry", retry_alone, METH_VARARGS,
     "retry($self, times, backoff_ns, backoff_max_ns, statuses, on, /)\n--\n\n"
     "Try failed items of the stage that was added last again."},
    {"timeout", timeout_alone, METH_O,
     "timeout($self, timeout_ns, /)\n--\n\n"
     "Limit the time of a call of the stage that was added last."},
    {"disaggregate", disaggregate_alone, METH_NOARGS,
     "disaggregate($self, /)\n--\n\nAdd a stage that takes native lists apart."},
    {"sink", sink_alone, METH_VARARGS,
     "sink($self, buffer_size, /)\n--\n\nAdd the sink."},
    {"build", build_alone, METH_VARARGS,
     "build($self, num_threads, note_stage, too_many_failures, inner, start_loop, "
     "/)\n--\n\n"
     "Make the engine; the plan is used up. num_threads 0: as many as allowed."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot plan_slots[] = {
    {Py_tp_doc, (void *)"Plan()\n--\n\nThe stages of a pipeline, in order."},
    {Py_tp_new, plan_new},
    {Py_tp_dealloc, plan_dealloc},
    {Py_tp_traverse, plan_traverse},
    {Py_tp_clear, plan_clear},
    {Py_tp_methods, plan_methods},
    {0, NULL},
};

PyType_Spec hrpy_plan_spec = {
    .name = "headrace._ext.Plan",
    .basicsize = sizeof(struct plan),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = plan_slots,
};
