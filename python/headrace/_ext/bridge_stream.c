/* bridge_stream.c - streams: async generators and the source; see async_bridge.c. */
#include "bridge.h"

/* ---- methods of streams ---- */

static bool is_wanted(const struct hr_async_task *task)
{
    return !task->closing && !task->over;
}

/* May the stream be advanced, or ended? */
static bool has_claim(const struct hr_async_task *task)
{
    return task->call.grant > 0 || !is_wanted(task);
}

PyObject *hrpy_bridge_m_may_end(PyObject *obj, PyObject *number)
{
    struct hr_async_task *task = hrpy_bridge_task((struct bridge *)obj, number);

    return task ? PyBool_FromLong(has_claim(task)) : NULL;
}

PyObject *hrpy_bridge_m_wanted(PyObject *obj, PyObject *number)
{
    struct hr_async_task *task = hrpy_bridge_task((struct bridge *)obj, number);

    return task ? PyBool_FromLong(is_wanted(task)) : NULL;
}

static int put(struct bridge *self, struct hr_async_task *task, PyObject *value)
{
    if (hrpy_python_op_skips(hrpy_bridge_op(self, task), value))
        return 0;
    if (hrpy_python_op_give(hrpy_bridge_op(self, task), &task->call, value))
        return -1;
    if (!task->listed)
        bridge_push(&self->streams, task);
    task->listed = true;
    return 0;
}

PyObject *hrpy_bridge_m_give(PyObject *obj, PyObject *const *args, Py_ssize_t nargs)
{
    struct bridge *self = (struct bridge *)obj;
    struct hr_async_task *task = nargs == 2 ? hrpy_bridge_task(self, args[0]) : NULL;
    int64_t now_ns = HR_SYS(now_ns)();

    if (!task)
        return nargs == 2 ? NULL : PyErr_Format(PyExc_TypeError, "give(task, value)");
    if (!is_wanted(task))
        return PyLong_FromLong(UNWANTED);
    if (!has_claim(task))
        return PyLong_FromLong(NO_ROOM);
    if (put(self, task, args[1]) || hrpy_bridge_schedule(self, now_ns))
        return NULL;
    if (task->call.out_count == task->call.grant &&
        hrpy_bridge_exchange(self, (int)task->stage, now_ns))
        return NULL;
    if (!has_claim(task))
        return PyLong_FromLong(GIVEN_WAIT);
    return PyLong_FromLong(now_ns >= self->turn_end_ns ? GIVEN_YIELD : GIVEN);
}

PyObject *hrpy_bridge_m_repeats(PyObject *obj, PyObject *number)
{
    struct bridge *self = (struct bridge *)obj;
    struct hr_async_task *task = hrpy_bridge_task(self, number);

    return task ? PyBool_FromLong(hrpy_python_op_repeats(hrpy_bridge_op(self, task)))
                : NULL;
}

/* The mark takes one of the granted places. */
PyObject *hrpy_bridge_m_epoch(PyObject *obj, PyObject *number)
{
    struct bridge *self = (struct bridge *)obj;
    struct hr_async_task *task = hrpy_bridge_task(self, number);
    int64_t now_ns = HR_SYS(now_ns)();

    if (!task)
        return NULL;
    if (!is_wanted(task))
        return PyLong_FromLong(UNWANTED);
    if (!has_claim(task))
        return PyLong_FromLong(NO_ROOM);
    hrpy_bridge_unlist(self, task);
    task->took_ns += now_ns - task->began_ns;
    task->call.outcome = HR_TASK_EPOCH;
    bridge_push(&self->finished, task);
    if (hrpy_bridge_schedule(self, now_ns) ||
        hrpy_bridge_exchange(self, (int)task->stage, now_ns))
        return NULL;
    return PyLong_FromLong(has_claim(task) ? GIVEN : GIVEN_WAIT);
}
