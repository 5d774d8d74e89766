/* python_source.c - sources written in Python.
 *
 * A source's iterator is advanced by one thread at a time; the engine sees to that, and
 * `pulling` catches a source that asks its own pipeline for items. A continuous source is
 * iterated again after each pass. One that has only a single iterator to give, and that
 * one at its end, would make empty epochs for ever: so its iterator is kept until the
 * next one is had, and a pass over the same one that gives nothing is an error. When it
 * is the consumer that advances it, Ctrl-C may hit inside the source: the KeyboardInterrupt is
 * also left in the consumer's interrupt slot, so that next() raises it at once and not
 * after the items that are ready. */
#include "python_op.h"

/* The end of a source: nothing of it is kept, so that a generator closes its files. */
static void let_go_of_source(struct hrpy_python_op *op)
{
    Py_CLEAR(op->iterator);
    Py_CLEAR(op->callable);
}

/* False with an exception set. */
static bool begin_pass(struct hrpy_python_op *op)
{
    PyObject *iterator = PyObject_GetIter(op->callable);

    if (!iterator)
        return false;
    op->again = iterator == op->iterator;
    op->gave = false;
    op->in_pass = true;
    Py_XSETREF(op->iterator, iterator);
    return true;
}

/* The iterator of a continuous source is at its end. */
static void end_pass(struct hrpy_python_op *op, struct hr_call *call)
{
    op->in_pass = false;
    if (!op->again || op->gave) {
        call->outcome = HR_TASK_EPOCH;
        return;
    }
    PyErr_SetString(PyExc_ValueError,
                    "continuous=True needs a source that can be iterated again, but "
                    "it gave the same iterator a second time, which is exhausted");
    hrpy_python_op_fail(op, call, hrpy_raised_take());
}

/* Iterators over what is in memory never wait. */
static bool is_prompt(PyObject *iterator)
{
    static PyTypeObject *const types[] = {
        &PyListIter_Type,     &PyTupleIter_Type,   &PyRangeIter_Type,
        &PySetIter_Type,      &PyDictIterKey_Type, &PyDictIterValue_Type,
        &PyDictIterItem_Type, &PyUnicodeIter_Type, &PyBytesIter_Type,
    };
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
        if (Py_IS_TYPE(iterator, types[i]))
            return true;
    return false;
}

static void run_source_pulling(struct hrpy_python_op *op, struct hr_call *call,
                               int64_t until_ns)
{
    if (!op->callable)
        return; /* it was closed */
    if (!op->in_pass && !begin_pass(op)) {
        hrpy_python_op_fail(op, call, hrpy_raised_take());
    } else {
        call->prompt = is_prompt(op->iterator);
        bool more = hrpy_op_advance(op, call, op->iterator, until_ns);
        op->gave = op->gave || call->out_count > 0;
        if (more)
            return;
        if (op->continuous && call->outcome == HR_TASK_DONE)
            end_pass(op, call);
    }
    if (call->outcome != HR_TASK_EPOCH)
        let_go_of_source(op);
}

void hrpy_op_run_source(struct hrpy_python_op *op, struct hr_call *call,
                        int64_t until_ns)
{
    if (atomic_flag_test_and_set_explicit(&op->pulling, memory_order_acquire)) {
        PyErr_SetString(PyExc_RuntimeError,
                        "the source asked for the next item of its own pipeline");
        hrpy_python_op_fail(op, call, hrpy_raised_take());
        return;
    }
    run_source_pulling(op, call, until_ns);
    atomic_flag_clear_explicit(&op->pulling, memory_order_release);
}

void hrpy_python_op_close(struct hrpy_python_op *op)
{
    if (atomic_flag_test_and_set_explicit(&op->pulling, memory_order_acquire))
        return; /* a consumer is inside; the iterator goes with the pipeline */
    if (hrpy_op_is_source(op))
        let_go_of_source(op);
    atomic_flag_clear_explicit(&op->pulling, memory_order_release);
}
