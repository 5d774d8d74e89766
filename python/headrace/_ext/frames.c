/* frames.c - convert_frames: equal pictures copied into one array, and its op. */
#include "ext.h"

/* Import each item of a tuple into the list's slots. */
static int import_frames(struct hrpy_state *state, PyObject *items,
                         const struct hr_value *list)
{
    for (size_t i = 0; i < hr_list_size(list); i++) {
        if (hrpy_import(state, PyTuple_GET_ITEM(items, (Py_ssize_t)i), HRPY_WANT_ARRAY,
                        hr_list_peek(list) + i)) {
            hrpy_name_item("frames[%zd]", (Py_ssize_t)i);
            return -1;
        }
    }
    return 0;
}

static PyObject *stack(struct hrpy_state *state, const struct hr_value *list)
{
    PyThreadState *detached;
    struct hr_array *out = NULL;
    struct hr_error err = {0};
    enum hr_status status;

    detached = hrpy_detach();
    status = hr_image_stack(hr_list_peek(list), hr_list_size(list), &out, &err);
    hrpy_reattach(detached);
    return status == HR_OK ? hrpy_buffer_new(state, &out, NULL, 0)
                           : hrpy_raise(state, &err);
}

PyObject *hrpy_convert_frames(PyObject *module, PyObject *frames)
{
    struct hrpy_state *state = hrpy_state_of_module(module);
    struct hr_value list = HR_VALUE_EMPTY;
    PyObject *result = NULL;
    PyObject *items;

    hrpy_drain_decrefs();
    if (!PyList_Check(frames) && !PyTuple_Check(frames))
        return PyErr_Format(PyExc_TypeError,
                            "frames must be a list or tuple of arrays, not %.100s",
                            Py_TYPE(frames)->tp_name);
    items = PySequence_Tuple(frames);
    if (!items)
        return NULL;
    if (hr_list_new((size_t)PyTuple_GET_SIZE(items), &list) != HR_OK)
        PyErr_NoMemory();
    else if (import_frames(state, items, &list) == 0)
        result = stack(state, &list);
    hr_value_release(&list);
    Py_DECREF(items);
    return result;
}

PyObject *hrpy_convert_frames_op(PyObject *module, PyObject *unused)
{
    struct hr_op op;

    (void)unused;
    hr_image_stack_op(&op);
    return hrpy_op_new(hrpy_state_of_module(module), &op, HRPY_WANT_ARRAYS);
}
