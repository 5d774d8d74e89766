/* async_bridge.c - headrace._ext.Bridge: between a pipeline and its asyncio loop.
 *
 * headrace.pipeline._async has the loop's thread and its *runners*: long-lived asyncio
 * tasks, up to `concurrency` per stage, that take tasks from here and await them.
 *
 *      exchange            take            call, await            done, fail, give
 *   ──────────────► ready ──────► a runner ───────────► finished ────────────────┐
 *      ▲             (per stage)                                                 │
 *      └──────────── pump, once per turn of the loop; take, when ready is empty ◄┘
 *
 * A turn. The first thing that happens in a turn of the loop schedules the pump
 * (call_soon), which runs in the next one: it hands in what is finished and gets what
 * there is to do. A pump that moved nothing is the last; from then on the descriptor
 * tells of work. A runner whose coroutines never suspend exchanges by itself whenever it
 * has nothing left, and after 0.5 ms in one turn it lets others have theirs.
 *
 * One runner is woken at a time: a runner that takes a task wakes the next one if there
 * is another. When it can do them all itself before its turn ends, nobody else was woken
 * for nothing but once.
 *
 * Streams (sources, generators) hand in what they have when they are full and at the end
 * of a turn, so that nothing waits for a generator's next value. One that is advancing
 * meanwhile comes back with a value that no place is reserved for: the runner keeps it
 * until there is. So a stream may be one value ahead of the room behind it.
 *
 * Nothing here refers to the user's callables, or runners would keep rings of garbage
 * alive (see engine_type.c): they are reached through the pipeline.
 *
 * Everything but expect, abandon and the C functions is called by the loop's thread. */
#include "bridge.h"

#define TURN_NS 500000

/* ---- awaitables on their way ---- */

static void drop_awaitable(void *ptr)
{
    PyObject *awaitable = ptr;
    PyObject *type, *value, *traceback;

    PyErr_Fetch(&type, &value, &traceback);
    if (PyCoro_CheckExact(awaitable)) { /* or it complains of not being awaited */
        PyObject *closed = PyObject_CallMethod(awaitable, "close", NULL);

        if (!closed)
            PyErr_WriteUnraisable(awaitable);
        Py_XDECREF(closed);
    }
    Py_DECREF(awaitable);
    PyErr_Restore(type, value, traceback);
}

static void awaitable_release(struct hr_value *value)
{
    hrpy_defer(drop_awaitable, value->ptr);
}

static const struct hr_value_class awaitable_class = {
    .name = "awaitable",
    .release = awaitable_release,
};

struct hr_value hrpy_awaitable_value(PyObject *awaitable)
{
    return (struct hr_value){&awaitable_class, awaitable};
}

/* ---- the exchange ---- */

/* Something happens in this turn of the loop: the pump has to run in the next. */
int hrpy_bridge_schedule(struct bridge *self, int64_t now_ns)
{
    if (self->scheduled)
        return 0;
    PyObject *handle = PyObject_CallOneArg(self->call_soon, self->pump);
    if (!handle)
        return -1;
    Py_DECREF(handle);
    self->scheduled = true;
    self->turn_end_ns = now_ns + TURN_NS;
    return 0;
}

/* A task that nobody has begun, in a run that is cancelled: it goes back as it is. */
void hrpy_bridge_hand_back(struct bridge *self, struct hr_async_task *task)
{
    task->call.outcome = HR_TASK_DONE;
    bridge_push(&self->finished, task);
}

int hrpy_bridge_wake(struct bridge *self, uint32_t i)
{
    struct stage *stage = &self->stages[i];

    if (stage->waking || !stage->ready.first)
        return 0;
    PyObject *index = PyLong_FromUnsignedLong(i);
    PyObject *woken = index ? PyObject_CallOneArg(self->wake, index) : NULL;
    Py_XDECREF(index);
    if (!woken)
        return -1;
    stage->waking = woken == Py_True; /* else all are at work, and come by themselves */
    Py_DECREF(woken);
    return 0;
}

/* A stream that was handed in may go on. */
static int resume(struct bridge *self, struct hr_async_task *task)
{
    task->began_ns = HR_SYS(now_ns)();
    PyObject *number = PyLong_FromUnsignedLong(task->number);
    PyObject *done = number ? PyObject_CallOneArg(self->resume, number) : NULL;
    Py_XDECREF(number);
    Py_XDECREF(done);
    return done ? 0 : -1;
}

static int distribute(struct bridge *self, struct hr_async_task *task)
{
    int result = 0;

    for (struct hr_async_task *next; task; task = next) {
        next = task->next;
        if (task->begun) {
            if (resume(self, task))
                result = -1;
        } else if (self->state == HR_ASYNC_CANCELLED) {
            hrpy_bridge_hand_back(self, task);
        } else {
            bridge_push(&self->stages[task->stage].ready, task);
        }
    }
    for (uint32_t i = 0; i < self->stage_count; i++)
        if (hrpy_bridge_wake(self, i))
            result = -1;
    return result;
}

static void hand_back_ready(struct bridge *self)
{
    for (uint32_t i = 0; i < self->stage_count; i++)
        while (self->stages[i].ready.first)
            hrpy_bridge_hand_back(self, bridge_pop(&self->stages[i].ready));
}

static int note_state(struct bridge *self, enum hr_async_state state)
{
    if (state == self->state)
        return 0;
    self->state = state;
    if (state == HR_ASYNC_CANCELLED)
        hand_back_ready(self);
    PyObject *done = PyObject_CallFunction(self->on_state, "i", (int)state);
    Py_XDECREF(done);
    return done ? 0 : -1;
}

/* All that is to be handed in, as one list. */
static struct hr_async_task *collect(struct bridge *self, int64_t now_ns)
{
    while (self->streams.first) {
        struct hr_async_task *task = bridge_pop(&self->streams);
        task->listed = false;
        task->took_ns += now_ns - task->began_ns;
        task->call.outcome = HR_TASK_MORE;
        bridge_push(&self->finished, task);
    }
    struct hr_async_task *list = self->finished.first;
    self->finished = (struct fifo){NULL, NULL};
    return list;
}

/* stage: of the runner that asks, -1: the pump. */
int hrpy_bridge_exchange(struct bridge *self, int stage, int64_t now_ns)
{
    enum hr_async_state state;
    struct hr_async_task *handed_in = collect(self, now_ns);
    bool moved = handed_in != NULL;
    struct hr_async_task *list =
        hr__async_exchange(self->pipeline, handed_in, stage, &state);

    moved = moved || list;
    int result = note_state(self, state);
    if (distribute(self, list))
        result = -1;
    if (moved && hrpy_bridge_schedule(self, now_ns))
        result = -1;
    hr__async_let_consumer_in(self->pipeline);
    return result;
}

/* ---- methods of the loop: begin, pump, end ---- */

PyObject *hrpy_bridge_m_stages(PyObject *obj, PyObject *unused)
{
    static const char *const kinds[] = {
        [HR_ASYNC_SOURCE] = "source",
        [HR_ASYNC_MAP] = "map",
        [HR_ASYNC_EXPAND] = "expand",
    };
    struct bridge *self = (struct bridge *)obj;
    PyObject *list = PyList_New(0);

    (void)unused;
    for (uint32_t i = 0; list && i < self->stage_count; i++) {
        const struct stage *stage = &self->stages[i];
        if (!stage->known)
            continue;
        PyObject *tuple = Py_BuildValue(
            "IssIOd", i, stage->info.name,
            hrpy_python_op_submits(stage->info.state) ? "submit"
                                                      : kinds[stage->info.kind],
            stage->info.concurrency, stage->info.on_loop ? Py_True : Py_False,
            (double)stage->info.timeout_ns / 1e9);
        if (!tuple || PyList_Append(list, tuple))
            Py_CLEAR(list);
        Py_XDECREF(tuple);
    }
    return list;
}

PyObject *hrpy_bridge_m_begin(PyObject *obj, PyObject *args)
{
    struct bridge *self = (struct bridge *)obj;
    PyObject *call_soon, *wake, *on_resume, *on_state;

    if (!PyArg_ParseTuple(args, "OOOO:begin", &call_soon, &wake, &on_resume, &on_state))
        return NULL;
    self->pump = PyObject_GetAttrString(obj, "pump");
    if (!self->pump)
        return NULL;
    self->call_soon = Py_NewRef(call_soon);
    self->wake = Py_NewRef(wake);
    self->resume = Py_NewRef(on_resume);
    self->on_state = Py_NewRef(on_state);
    Py_RETURN_NONE;
}

PyObject *hrpy_bridge_m_enter(PyObject *obj, PyObject *unused)
{
    struct bridge *self = (struct bridge *)obj;
    hrpy_section section;

    (void)unused;
    /* Whoever started this thread may have abandoned it, and another one have come and
     * left in its place. */
    hrpy_section_begin(&section, obj);
    struct hr_pipeline *pipeline = self->pipeline;
    if (pipeline)
        hr__async_ref(pipeline);
    hrpy_section_end(&section);
    if (!pipeline)
        Py_RETURN_FALSE;
    bool begun = hr__async_begin(pipeline, PyThreadState_Get());
    hr__async_unref(pipeline);
    if (begun)
        hrpy_set_core_thread(true);
    return PyBool_FromLong(begun);
}

void hrpy_bridge_forget_loop(struct bridge *self)
{
    Py_CLEAR(self->pump);
    Py_CLEAR(self->call_soon);
    Py_CLEAR(self->wake);
    Py_CLEAR(self->resume);
    Py_CLEAR(self->on_state);
}

/* A loop that could not be made, or failed, leaves nothing behind: the run was cancelled,
 * and all that comes goes back. Runners are gone, so that nothing is begun. */
static void give_all_back(struct bridge *self)
{
    while (self->state != HR_ASYNC_ENDED) {
        hand_back_ready(self);
        struct hr_async_task *handed_in = collect(self, 0);
        struct hr_async_task *list =
            hr__async_exchange(self->pipeline, handed_in, -1, &self->state);
        if (!list && !handed_in)
            break;
        for (struct hr_async_task *next; list; list = next) {
            next = list->next;
            hrpy_bridge_hand_back(self, list);
        }
    }
}

PyObject *hrpy_bridge_m_leave(PyObject *obj, PyObject *unused)
{
    struct bridge *self = (struct bridge *)obj;

    (void)unused;
    if (!self->pipeline)
        Py_RETURN_NONE; /* it has parted before */
    give_all_back(self);
    hrpy_bridge_forget_loop(self);
    hrpy_set_core_thread(false);
    struct hr_pipeline *pipeline = self->pipeline;
    hr__async_leave(pipeline);
    /* Not with the bridge: failures that the pipeline lists hold tracebacks, those the
     * frames that called, and these the loop and the bridge. */
    hrpy_section section;
    hrpy_section_begin(&section, obj);
    self->pipeline = NULL;
    hrpy_section_end(&section);
    hr__async_unref(pipeline);
    Py_RETURN_NONE;
}

PyObject *hrpy_bridge_m_part(PyObject *obj, PyObject *unused)
{
    Py_CLEAR(((struct bridge *)obj)->thread); /* it is not joined */
    return hrpy_bridge_m_leave(obj, unused);
}

PyObject *hrpy_bridge_m_pump(PyObject *obj, PyObject *unused)
{
    struct bridge *self = (struct bridge *)obj;

    (void)unused;
    self->scheduled = false;
    if (hrpy_bridge_exchange(self, -1, HR_SYS(now_ns)()))
        return NULL;
    Py_RETURN_NONE;
}

/* Any thread. The section keeps the descriptor from being closed under our hands. */
PyObject *hrpy_bridge_m_ring(PyObject *obj, PyObject *unused)
{
    struct bridge *self = (struct bridge *)obj;
    hrpy_section section;

    (void)unused;
    if (atomic_exchange_explicit(&self->landed, true, memory_order_acq_rel))
        Py_RETURN_NONE; /* it was rung before, and has not looked since */
    hrpy_section_begin(&section, obj);
    if (self->pipeline)
        hr__async_knock(self->pipeline);
    hrpy_section_end(&section);
    Py_RETURN_NONE;
}

PyObject *hrpy_bridge_m_hush(PyObject *obj, PyObject *unused)
{
    struct bridge *self = (struct bridge *)obj;

    (void)unused;
    hr__async_hush(self->pipeline);
    (void)atomic_exchange_explicit(&self->landed, false, memory_order_acq_rel);
    Py_RETURN_NONE;
}

PyObject *hrpy_bridge_m_rung(PyObject *obj, PyObject *unused)
{
    if (((struct bridge *)obj)->scheduled)
        Py_RETURN_NONE;
    return hrpy_bridge_m_pump(obj, unused);
}

PyObject *hrpy_bridge_m_fileno(PyObject *obj, PyObject *unused)
{
    (void)unused;
    return PyLong_FromLong(hr__async_descriptor(((struct bridge *)obj)->pipeline));
}

/* ---- ends ---- */

PyObject *hrpy_bridge_m_fatal(PyObject *obj, PyObject *exc)
{
    struct bridge *self = (struct bridge *)obj;
    struct hr_error err = {0};

    hrpy_raised_describe(exc, &err);
    struct hr_value boxed = hrpy_raised_box(Py_NewRef(exc));
    hr__async_fatal(self->pipeline, "event loop", &err, &boxed);
    Py_RETURN_NONE;
}
