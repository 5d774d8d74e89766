/* pipeline_module.c - the types and functions of pipelines, added to the module. */
#include "foreign.h"

static PyObject *end_runtime(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    hrpy_attach_end();
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"end_runtime", end_runtime, METH_NOARGS,
     "end_runtime()\n--\n\n"
     "The interpreter is ending: no thread of the core enters it any more."},
    {NULL, NULL, 0, NULL},
};

/* Each type is created once per module; the state holds the reference. */
static int add_type(PyObject *module, PyType_Spec *spec, PyTypeObject **out)
{
    *out = (PyTypeObject *)PyType_FromModuleAndSpec(module, spec, NULL);
    return *out ? PyModule_AddType(module, *out) : -1;
}

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
    if (!state->logger || add_type(module, &hrpy_plan_spec, &state->plan_type) ||
        add_type(module, &hrpy_engine_spec, &state->pipeline_type) ||
        add_type(module, &hrpy_engine_iterator_spec, &state->iterator_type))
        return -1;
    hrpy_log_init();
    return PyModule_AddFunctions(module, functions);
}
