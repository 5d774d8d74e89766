/* module.c - the module headrace._ext: state, types and functions.
 *
 * Nothing is static but what the process has one of (the queue of attach.c). Types are
 * heap types in the module's state. The GIL is not needed: objects are const after
 * creation, or what changes in them is guarded by a section (ext.h). One interpreter
 * only: engines keep worker threads, whose thread states belong to the interpreter that
 * the module was loaded in. */
#include "foreign.h"

struct hrpy_state *hrpy_state_of_module(PyObject *module)
{
    return PyModule_GetState(module);
}

struct hrpy_state *hrpy_state_of_type(PyTypeObject *type)
{
    return PyType_GetModuleState(type);
}

int hrpy_type_add(PyObject *module, PyType_Spec *spec, PyTypeObject **slot)
{
    *slot = (PyTypeObject *)PyType_FromModuleAndSpec(module, spec, NULL);
    return *slot ? PyModule_AddType(module, *slot) : -1;
}

static int refuse_subinterpreter(void)
{
    if (PyInterpreterState_Get() == PyInterpreterState_Main())
        return 0;
    PyErr_SetString(PyExc_ImportError,
                    "headrace._ext cannot be loaded in a sub-interpreter");
    return -1;
}

static int module_exec(PyObject *module)
{
    struct hrpy_state *state = hrpy_state_of_module(module);

    if (refuse_subinterpreter() || hrpy_errors_init(state))
        return -1;
    state->ctx_pool = hrpy_ctx_pool_new();
    if (!state->ctx_pool) {
        PyErr_NoMemory();
        return -1;
    }
    if (PyModule_AddStringConstant(module, "VERSION", hr_version()) ||
        hrpy_type_add(module, &hrpy_buffer_spec, &state->buffer_type) ||
        hrpy_type_add(module, &hrpy_op_spec, &state->op_type) ||
        PyModule_AddFunctions(module, hrpy_io_methods) ||
        PyModule_AddFunctions(module, hrpy_load_methods) ||
        PyModule_AddFunctions(module, hrpy_image_methods))
        return -1;
    state->info_type = PyStructSequence_NewType(&hrpy_info_desc);
    if (!state->info_type || PyModule_AddType(module, state->info_type))
        return -1;
    return hrpy_pipeline_exec(module, state);
}

static int module_traverse(PyObject *module, visitproc visit, void *arg)
{
    struct hrpy_state *state = hrpy_state_of_module(module);

    Py_VISIT(state->buffer_type);
    Py_VISIT(state->op_type);
    Py_VISIT(state->pipeline_type);
    Py_VISIT(state->plan_type);
    Py_VISIT(state->iterator_type);
    Py_VISIT(state->bridge_type);
    Py_VISIT(state->info_type);
    Py_VISIT(state->logger);
    Py_VISIT(state->headrace_error);
    Py_VISIT(state->format_error);
    Py_VISIT(state->unsupported_error);
    Py_VISIT(state->limit_error);
    Py_VISIT(state->deadline_error);
    Py_VISIT(state->slot_failure);
    return 0;
}

static int module_clear(PyObject *module)
{
    struct hrpy_state *state = hrpy_state_of_module(module);

    Py_CLEAR(state->buffer_type);
    Py_CLEAR(state->op_type);
    Py_CLEAR(state->pipeline_type);
    Py_CLEAR(state->plan_type);
    Py_CLEAR(state->iterator_type);
    Py_CLEAR(state->bridge_type);
    Py_CLEAR(state->info_type);
    Py_CLEAR(state->logger);
    Py_CLEAR(state->headrace_error);
    Py_CLEAR(state->format_error);
    Py_CLEAR(state->unsupported_error);
    Py_CLEAR(state->limit_error);
    Py_CLEAR(state->deadline_error);
    Py_CLEAR(state->slot_failure);
    return 0;
}

static void module_free(void *module)
{
    module_clear(module);
    hrpy_ctx_pool_free(&hrpy_state_of_module(module)->ctx_pool);
}

static PyModuleDef_Slot module_slots[] = {
    {Py_mod_exec, module_exec},
#if PY_VERSION_HEX >= 0x030C0000
    {Py_mod_multiple_interpreters, Py_MOD_MULTIPLE_INTERPRETERS_NOT_SUPPORTED},
#endif
#if PY_VERSION_HEX >= 0x030D0000
    {Py_mod_gil, Py_MOD_GIL_NOT_USED},
#endif
    {0, NULL},
};

static struct PyModuleDef ext_module = {
    PyModuleDef_HEAD_INIT,
    .m_name = "headrace._ext",
    .m_doc = "The C of headrace. Use headrace.io and headrace.pipeline instead.",
    .m_size = sizeof(struct hrpy_state),
    .m_slots = module_slots,
    .m_traverse = module_traverse,
    .m_clear = module_clear,
    .m_free = module_free,
};

PyMODINIT_FUNC PyInit__ext(void)
{
    return PyModuleDef_Init(&ext_module);
}
