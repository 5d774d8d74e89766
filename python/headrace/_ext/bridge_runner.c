/* bridge_runner.c - tasks in the hands of runners; see async_bridge.c. */
#include "bridge.h"

#include <string.h>

/* ---- methods of runners ---- */

struct hr_async_task *hrpy_bridge_task(struct bridge *self, PyObject *number)
{
    unsigned long n = PyLong_AsUnsignedLong(number);

    if (n == (unsigned long)-1 && PyErr_Occurred())
        return NULL;
    return hr__async_task(self->pipeline, (uint32_t)n);
}

static PyObject *take(struct bridge *self, uint32_t i)
{
    struct stage *stage = &self->stages[i];
    int64_t now_ns = HR_SYS(now_ns)();

    if (self->scheduled && now_ns >= self->turn_end_ns)
        return PyLong_FromLong(YIELD);
    if (!stage->ready.first && self->finished.first &&
        hrpy_bridge_exchange(self, (int)i, now_ns))
        return NULL;
    if (!stage->ready.first)
        return PyLong_FromLong(WAIT);
    struct hr_async_task *task = bridge_pop(&stage->ready);
    task->began_ns = now_ns;
    task->begun = stage->info.kind != HR_ASYNC_MAP;
    if (hrpy_bridge_wake(self, i)) {
        hrpy_bridge_hand_back(self, task);
        return NULL;
    }
    return PyLong_FromUnsignedLong(task->number);
}

static int stage_of(struct bridge *self, PyObject *index, uint32_t *out)
{
    unsigned long i = PyLong_AsUnsignedLong(index);

    if (i == (unsigned long)-1 && PyErr_Occurred())
        return -1;
    if (i >= self->stage_count || !self->stages[i].known) {
        PyErr_Format(PyExc_IndexError, "the loop knows no stage %lu", i);
        return -1;
    }
    *out = (uint32_t)i;
    return 0;
}

PyObject *hrpy_bridge_m_take(PyObject *obj, PyObject *index)
{
    struct bridge *self = (struct bridge *)obj;
    uint32_t i;

    return stage_of(self, index, &i) ? NULL : take(self, i);
}

PyObject *hrpy_bridge_m_woken(PyObject *obj, PyObject *index)
{
    struct bridge *self = (struct bridge *)obj;
    uint32_t i;

    if (stage_of(self, index, &i))
        return NULL;
    self->stages[i].waking = false;
    Py_RETURN_NONE;
}

PyObject *hrpy_bridge_m_call(PyObject *obj, PyObject *number)
{
    struct bridge *self = (struct bridge *)obj;
    struct hr_async_task *task = hrpy_bridge_task(self, number);

    if (!task)
        return NULL;
    if (!task->adopted)
        return hrpy_python_op_call(hrpy_bridge_op(self, task), &task->call);
    PyObject *awaitable = task->call.out[0].ptr;
    task->call.out[0] = HR_VALUE_EMPTY;
    task->call.out_count = 0;
    task->call.awaits = false;
    return awaitable;
}

PyObject *hrpy_bridge_m_open(PyObject *obj, PyObject *number)
{
    struct bridge *self = (struct bridge *)obj;
    struct hr_async_task *task = hrpy_bridge_task(self, number);

    return task ? hrpy_python_op_open(hrpy_bridge_op(self, task), &task->call) : NULL;
}

static PyObject *ended(struct bridge *self, struct hr_async_task *task)
{
    int64_t now_ns = HR_SYS(now_ns)();

    task->took_ns += now_ns - task->began_ns;
    bridge_push(&self->finished, task);
    if (hrpy_bridge_schedule(self, now_ns))
        return NULL;
    Py_RETURN_NONE;
}

PyObject *hrpy_bridge_m_done(PyObject *obj, PyObject *const *args, Py_ssize_t nargs)
{
    struct bridge *self = (struct bridge *)obj;
    struct hr_async_task *task = nargs == 2 ? hrpy_bridge_task(self, args[0]) : NULL;

    if (!task)
        return nargs == 2 ? NULL : PyErr_Format(PyExc_TypeError, "done(task, result)");
    task->call.outcome = HR_TASK_DONE;
    task->call.again = false;
    if (args[1] == Py_None)
        task->call.outcome = HR_TASK_FILTERED;
    else if (hrpy_python_op_give(hrpy_bridge_op(self, task), &task->call, args[1]))
        hrpy_python_op_fail(hrpy_bridge_op(self, task), &task->call,
                            hrpy_raised_take());
    return ended(self, task);
}

void hrpy_bridge_unlist(struct bridge *self, struct hr_async_task *task)
{
    struct fifo rest = {NULL, NULL};

    if (!task->listed)
        return;
    while (self->streams.first) {
        struct hr_async_task *other = bridge_pop(&self->streams);
        if (other != task)
            bridge_push(&rest, other);
    }
    self->streams = rest;
    task->listed = false;
}

/* The task ends as it is: a stream with what it gave; any other, in a run that was
 * cancelled, without a result. */
PyObject *hrpy_bridge_m_release(PyObject *obj, PyObject *number)
{
    struct bridge *self = (struct bridge *)obj;
    struct hr_async_task *task = hrpy_bridge_task(self, number);

    if (!task)
        return NULL;
    hrpy_bridge_unlist(self, task);
    task->call.outcome = HR_TASK_DONE;
    return ended(self, task);
}

/* The runner's own frame would keep the runner alive, and says nothing. */
static void drop_first_frame(PyObject *exc)
{
    PyObject *traceback = PyException_GetTraceback(exc);

    if (traceback) {
        PyObject *rest = (PyObject *)((PyTracebackObject *)traceback)->tb_next;
        (void)PyException_SetTraceback(exc, rest ? rest : Py_None);
    }
    Py_XDECREF(traceback);
}

PyObject *hrpy_bridge_m_fail(PyObject *obj, PyObject *const *args, Py_ssize_t nargs)
{
    struct bridge *self = (struct bridge *)obj;
    bool fits = nargs >= 2 && nargs <= 4;
    struct hr_async_task *task = fits ? hrpy_bridge_task(self, args[0]) : NULL;
    int fatal = task && nargs >= 3 ? PyObject_IsTrue(args[2]) : 0;
    int again = task && nargs == 4 ? PyObject_IsTrue(args[3]) : 1;

    if (!fits)
        return PyErr_Format(PyExc_TypeError,
                            "fail(task, exception, fatal=False, again=True)");
    if (!task || fatal < 0 || again < 0)
        return NULL;
    hrpy_bridge_unlist(self, task);
    drop_first_frame(args[1]);
    hrpy_python_op_fail(hrpy_bridge_op(self, task), &task->call, Py_NewRef(args[1]));
    task->call.fatal = task->call.fatal || fatal;
    task->call.again = task->call.again && again && !fatal;
    return ended(self, task);
}

/* ---- methods for deadlines ---- */

PyObject *hrpy_bridge_m_late(PyObject *obj, PyObject *number)
{
    struct hr_async_task *task = hrpy_bridge_task((struct bridge *)obj, number);
    char which[128];

    if (!task)
        return NULL;
    task->call.timed_out = true;
    hr__async_describe(task, which, sizeof(which));
    return PyUnicode_DecodeUTF8(which, (Py_ssize_t)strlen(which), "replace");
}

PyObject *hrpy_bridge_m_left(PyObject *obj, PyObject *args)
{
    struct bridge *self = (struct bridge *)obj;
    unsigned int stage;
    int back;

    if (!PyArg_ParseTuple(args, "Ip:left", &stage, &back))
        return NULL;
    if (self->pipeline && stage < self->stage_count) /* else it comes after the end */
        hr__async_left(self->pipeline, stage, back);
    Py_RETURN_NONE;
}

/* Of a map: its item is the loop's while it has the task. */
PyObject *hrpy_bridge_m_item(PyObject *obj, PyObject *number)
{
    struct bridge *self = (struct bridge *)obj;
    struct hr_async_task *task = hrpy_bridge_task(self, number);

    return task ? PyLong_FromLongLong(hr__async_item(self->pipeline, task)) : NULL;
}
