/* errors.c - a struct hr_error as a Python exception. */
#include "ext.h"

#include <string.h>

int hrpy_errors_init(struct hrpy_state *state)
{
    const struct {
        PyObject **slot;
        const char *name;
    } wanted[] = {
        {&state->headrace_error, "HeadraceError"},
        {&state->format_error, "FormatError"},
        {&state->unsupported_error, "UnsupportedError"},
        {&state->limit_error, "LimitError"},
        {&state->deadline_error, "DeadlineError"},
        {&state->slot_failure, "SlotFailure"},
    };
    PyObject *module = PyImport_ImportModule("headrace.errors");

    if (!module)
        return -1;
    for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
        *wanted[i].slot = PyObject_GetAttrString(module, wanted[i].name);
        if (!*wanted[i].slot)
            break;
    }
    Py_DECREF(module);
    return state->slot_failure ? 0 : -1;
}

/* A text may quote a path that is not UTF-8: an escape can be printed, a surrogate
 * cannot. */
PyObject *hrpy_error_text(const struct hr_error *err)
{
    const char *text = err->text[0] ? err->text : hr_status_name(err->status);

    return PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "backslashreplace");
}

static PyObject *class_of(const struct hrpy_state *state, enum hr_status status)
{
    switch (status) {
    case HR_ERR_ARG:
        return PyExc_ValueError;
    case HR_ERR_TYPE:
        return PyExc_TypeError;
    case HR_ERR_NOMEM:
        return PyExc_MemoryError;
    case HR_ERR_IO:
        return PyExc_OSError;
    case HR_ERR_STATE:
        return PyExc_RuntimeError;
    case HR_TIMEOUT:
        return PyExc_TimeoutError;
    case HR_ERR_FORMAT:
        return state->format_error;
    case HR_ERR_UNSUPPORTED:
        return state->unsupported_error;
    case HR_ERR_LIMIT:
        return state->limit_error;
    case HR_ERR_DEADLINE:
        return state->deadline_error;
    default:
        return state->headrace_error;
    }
}

PyObject *hrpy_exception_of(struct hrpy_state *state, const struct hr_error *err)
{
    PyObject *cls = class_of(state, err->status);
    PyObject *text = hrpy_error_text(err);
    PyObject *exception;

    if (!text)
        return NULL;
    /* With an errno OSError picks its own subclass, e.g. FileNotFoundError. */
    if (cls == PyExc_OSError && err->code)
        exception = PyObject_CallFunction(cls, "iO", (int)err->code, text);
    else
        exception = PyObject_CallOneArg(cls, text);
    Py_DECREF(text);
    return exception;
}

void *hrpy_raise(struct hrpy_state *state, const struct hr_error *err)
{
    PyObject *exception = hrpy_exception_of(state, err);

    if (exception) {
        PyErr_SetObject((PyObject *)Py_TYPE(exception), exception);
        Py_DECREF(exception);
    }
    return NULL;
}

void *hrpy_raise_status(struct hrpy_state *state, enum hr_status status,
                        struct hr_error *err)
{
    err->status = status;
    return hrpy_raise(state, err);
}
