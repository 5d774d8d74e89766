/* args.c - arguments of METH_FASTCALL | METH_KEYWORDS functions. */
#include "ext.h"

static int index_of(const struct hrpy_params *params, PyObject *name)
{
    for (int i = 0; i < params->count; i++) {
        if (PyUnicode_CompareWithASCIIString(name, params->names[i]) == 0)
            return i;
    }
    return -1;
}

static int parse_keyword(const struct hrpy_params *params, PyObject *name,
                         PyObject *value, PyObject **out)
{
    int i = index_of(params, name);

    if (i < 0) {
        PyErr_Format(PyExc_TypeError, "%s() got an unexpected keyword argument '%U'",
                     params->function, name);
        return -1;
    }
    if (out[i]) {
        PyErr_Format(PyExc_TypeError, "%s() got multiple values for argument '%U'",
                     params->function, name);
        return -1;
    }
    out[i] = value;
    return 0;
}

int hrpy_parse(const struct hrpy_params *params, PyObject *const *args,
               Py_ssize_t nargs, PyObject *kwnames, PyObject **out)
{
    Py_ssize_t keywords = kwnames ? PyTuple_GET_SIZE(kwnames) : 0;

    if (nargs > params->positional) {
        PyErr_Format(PyExc_TypeError,
                     "%s() takes at most %d positional arguments (%zd given)",
                     params->function, params->positional, nargs);
        return -1;
    }
    for (int i = 0; i < params->count; i++)
        out[i] = i < nargs ? args[i] : NULL;
    for (Py_ssize_t k = 0; k < keywords; k++) {
        if (parse_keyword(params, PyTuple_GET_ITEM(kwnames, k), args[nargs + k], out))
            return -1;
    }
    for (int i = 0; i < params->required; i++) {
        if (!out[i]) {
            PyErr_Format(PyExc_TypeError, "%s() missing required argument '%s'",
                         params->function, params->names[i]);
            return -1;
        }
    }
    return 0;
}
