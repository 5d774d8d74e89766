/* pipeline_module.c - the types and functions of pipelines, added to the module. */
#include "foreign.h"

static PyObject *end_runtime(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    hrpy_attach_end();
    Py_RETURN_NONE;
}

static PyObject *crash_report_enable(PyObject *module, PyObject *arg)
{
    int fd;

    (void)module;
    if (!PyArg_Parse(arg, "i:crash_report_enable", &fd))
        return NULL;
    hr_crash_report_enable(fd);
    Py_RETURN_NONE;
}

static PyObject *crash_report_disable(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    hr_crash_report_disable();
    Py_RETURN_NONE;
}

/* Moves its item on, whatever it is: the one op that takes what it is only lent. */
static enum hr_status noop_run(void *op, struct hr_ctx *ctx, const struct hr_value *in,
                               struct hr_value *out, struct hr_error *err)
{
    (void)op;
    (void)ctx;
    (void)err;
    *out = *in;
    *(struct hr_value *)(uintptr_t)in = HR_VALUE_EMPTY;
    return HR_OK;
}

static const struct hr_op_class noop_class = {.name = "noop", .run = noop_run};

static PyObject *noop_op(PyObject *module, PyObject *unused)
{
    struct hr_op op = {&noop_class, NULL};

    (void)unused;
    return hrpy_op_new(hrpy_state_of_module(module), &op, HRPY_WANT_OBJECT);
}

static PyMethodDef functions[] = {
    {"noop_op", noop_op, METH_NOARGS,
     "noop_op()\n--\n\n"
     "A native op that hands its items on as they are: what a native stage costs."},
    {"crash_report_enable", crash_report_enable, METH_O,
     "crash_report_enable(fd, /)\n--\n\n"
     "When the process crashes, write to fd what each thread was at."},
    {"crash_report_disable", crash_report_disable, METH_NOARGS,
     "crash_report_disable()\n--\n\n"
     "Put back the signal handlers that were there before."},
    {"end_runtime", end_runtime, METH_NOARGS,
     "end_runtime()\n--\n\n"
     "The interpreter is ending: no thread of the core enters it any more."},
    {NULL, NULL, 0, NULL},
};

static PyObject *get_logger(void)
{
    PyObject *logging = PyImport_ImportModule("logging");
    PyObject *logger = NULL;

    if (logging)
        logger = PyObject_CallMethod(logging, "getLogger", "s", "headrace.pipeline");
    Py_XDECREF(logging);
    return logger;
}

int hrpy_pipeline_exec(PyObject *module, struct hrpy_state *state)
{
    if (hrpy_attach_init())
        return -1;
    state->logger = get_logger();
    if (!state->logger || hrpy_type_add(module, &hrpy_plan_spec, &state->plan_type) ||
        hrpy_type_add(module, &hrpy_engine_spec, &state->pipeline_type) ||
        hrpy_type_add(module, &hrpy_engine_iterator_spec, &state->iterator_type) ||
        hrpy_type_add(module, &hrpy_bridge_spec, &state->bridge_type))
        return -1;
    hrpy_log_init();
    return PyModule_AddFunctions(module, functions);
}
