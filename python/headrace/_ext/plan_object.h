/* plan_object.h - the inside of headrace._ext.Plan, shared by its files. */
#ifndef HRPY_PLAN_OBJECT_H
#define HRPY_PLAN_OBJECT_H

#include "foreign.h"

struct plan {
    PyObject_HEAD
    struct hr_plan *plan; /* NULL once built */
    struct hrpy_python_op **ops;
    size_t op_count;
};

static inline struct hrpy_state *hrpy_plan_state_of(PyObject *self)
{
    return hrpy_state_of_type(Py_TYPE(self));
}

static inline int hrpy_plan_check_open(const struct plan *self)
{
    if (self->plan)
        return 0;
    PyErr_SetString(PyExc_RuntimeError, "the plan was built already");
    return -1;
}

/* ---- plan_stages.c: its methods ---- */

PyObject *hrpy_plan_source(PyObject *plan, PyObject *args);
PyObject *hrpy_plan_pipe_native(PyObject *plan, PyObject *args);
PyObject *hrpy_plan_pipe_python(PyObject *plan, PyObject *args);
PyObject *hrpy_plan_aggregate(PyObject *plan, PyObject *args);
PyObject *hrpy_plan_fold(PyObject *plan, PyObject *args);
PyObject *hrpy_plan_route(PyObject *plan, PyObject *args);
PyObject *hrpy_plan_path(PyObject *plan, PyObject *unused);
PyObject *hrpy_plan_join(PyObject *plan, PyObject *unused);
PyObject *hrpy_plan_branch(PyObject *plan, PyObject *unused);
PyObject *hrpy_plan_merge(PyObject *plan, PyObject *args);
PyObject *hrpy_plan_on_error(PyObject *plan, PyObject *raises);
PyObject *hrpy_plan_retry(PyObject *plan, PyObject *args);
PyObject *hrpy_plan_timeout(PyObject *plan, PyObject *timeout_ns);
PyObject *hrpy_plan_disaggregate(PyObject *plan, PyObject *unused);
PyObject *hrpy_plan_sink(PyObject *plan, PyObject *args);

#endif
