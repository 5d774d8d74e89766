/* bridge_type.c - headrace._ext.Bridge: the type, and what those call who start the thread
 * of its loop. */
#include "bridge.h"

#include "base/mem.h"

/* ---- methods of the starter ---- */

static PyObject *bridge_expect(PyObject *obj, PyObject *unused)
{
    struct bridge *self = (struct bridge *)obj;
    struct hr_error err = {0};
    enum hr_status status;

    (void)unused;
    struct hr_pipeline *pipeline = self->pipeline;
    if (!pipeline)
        Py_RETURN_FALSE;
    Py_BEGIN_ALLOW_THREADS
    status = hr__async_expect(pipeline, &err);
    Py_END_ALLOW_THREADS
    if (status != HR_OK && status != HR_AGAIN)
        return hrpy_raise(hrpy_state_of_type(Py_TYPE(obj)), &err);
    return PyBool_FromLong(status == HR_OK);
}

static PyObject *bridge_abandon(PyObject *obj, PyObject *unused)
{
    struct hr_pipeline *pipeline = ((struct bridge *)obj)->pipeline;

    (void)unused;
    if (!pipeline)
        Py_RETURN_NONE; /* it came, and has left already */
    Py_BEGIN_ALLOW_THREADS
    hr__async_abandon(pipeline);
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

int hrpy_bridge_start(PyObject *obj)
{
    struct bridge *self = (struct bridge *)obj;
    PyObject *thread = PyObject_CallOneArg(self->start_loop, obj);
    hrpy_section section;

    if (!thread)
        return -1;
    if (thread != Py_None) {
        hrpy_section_begin(&section, obj);
        PyObject *before = self->thread;
        self->thread = thread;
        hrpy_section_end(&section);
        thread = before;
    }
    Py_XDECREF(thread);
    return 0;
}

/* A new reference; NULL: no loop was started. */
static PyObject *thread_of(PyObject *obj)
{
    hrpy_section section;

    hrpy_section_begin(&section, obj);
    PyObject *thread = Py_XNewRef(((struct bridge *)obj)->thread);
    hrpy_section_end(&section);
    return thread;
}

bool hrpy_bridge_start_late(void *bridge)
{
    PyObject *obj = Py_NewRef((PyObject *)bridge);
    bool started = hrpy_bridge_start(obj) == 0;

    if (!started)
        PyErr_WriteUnraisable(obj);
    PyObject *thread = started ? thread_of(obj) : NULL;
    started = thread != NULL;
    Py_XDECREF(thread);
    Py_DECREF(obj);
    return started;
}

void hrpy_bridge_drop(void *bridge)
{
    hrpy_decref(bridge);
}

int hrpy_bridge_join(PyObject *obj)
{
    if (obj == Py_None || hrpy_is_core_thread())
        return 0;
    PyObject *thread = thread_of(obj);
    if (!thread)
        return 0;
    PyObject *done = PyObject_CallMethod(thread, "join", NULL);
    Py_DECREF(thread);
    Py_XDECREF(done);
    return done ? 0 : -1;
}

/* ---- the type ---- */

static int fill_stages(struct bridge *self)
{
    uint32_t n = (uint32_t)hr_pipeline_stats(self->pipeline, NULL, 0);

    self->stages = hr__calloc(n, sizeof(*self->stages));
    if (!self->stages) {
        PyErr_NoMemory();
        return -1;
    }
    self->stage_count = n;
    for (uint32_t i = 0; i < n; i++)
        self->stages[i].known =
            hr__async_stage(self->pipeline, i, &self->stages[i].info);
    return 0;
}

PyObject *hrpy_bridge_new(struct hrpy_state *state, struct hr_pipeline *pipeline,
                          PyObject *start_loop)
{
    struct hr_async_stage any;
    uint32_t n = (uint32_t)hr_pipeline_stats(pipeline, NULL, 0), i = 0;

    while (i < n && !hr__async_stage(pipeline, i, &any))
        i++;
    if (i == n)
        return Py_NewRef(Py_None);
    struct bridge *self =
        (struct bridge *)state->bridge_type->tp_alloc(state->bridge_type, 0);
    if (!self)
        return NULL;
    hr__async_ref(pipeline);
    self->pipeline = pipeline;
    self->start_loop = Py_NewRef(start_loop);
    if (fill_stages(self)) {
        Py_DECREF(self);
        return NULL;
    }
    hr__async_set_cookie(pipeline, Py_NewRef(self));
    return (PyObject *)self;
}

static int bridge_traverse(PyObject *obj, visitproc visit, void *arg)
{
    struct bridge *self = (struct bridge *)obj;

    Py_VISIT(Py_TYPE(obj));
    Py_VISIT(self->start_loop);
    Py_VISIT(self->thread);
    Py_VISIT(self->pump);
    Py_VISIT(self->call_soon);
    Py_VISIT(self->wake);
    Py_VISIT(self->resume);
    Py_VISIT(self->on_state);
    return 0;
}

static int bridge_clear(PyObject *obj)
{
    struct bridge *self = (struct bridge *)obj;

    hrpy_bridge_forget_loop(self);
    Py_CLEAR(self->start_loop);
    Py_CLEAR(self->thread);
    return 0;
}

static void bridge_dealloc(PyObject *obj)
{
    struct bridge *self = (struct bridge *)obj;
    PyTypeObject *type = Py_TYPE(obj);

    PyObject_GC_UnTrack(obj);
    (void)bridge_clear(obj);
    if (self->pipeline)
        hr__async_unref(self->pipeline);
    hr__free(self->stages);
    type->tp_free(obj);
    Py_DECREF(type);
}

static PyMethodDef bridge_methods[] = {
    {"expect", bridge_expect, METH_NOARGS,
     "expect($self, /)\n--\n\n"
     "A thread is about to be started; False: none is needed (any more)."},
    {"abandon", bridge_abandon, METH_NOARGS,
     "abandon($self, /)\n--\n\nThe thread that was expected will not come."},
    {"enter", hrpy_bridge_m_enter, METH_NOARGS,
     "enter($self, /)\n--\n\n"
     "The calling thread is the loop's; False: it is not expected any more."},
    {"leave", hrpy_bridge_m_leave, METH_NOARGS,
     "leave($self, /)\n--\n\nIt does nothing for the pipeline any more."},
    {"part", hrpy_bridge_m_part, METH_NOARGS,
     "part($self, /)\n--\n\nAs leave, of a thread that will go on for longer."},
    {"begin", hrpy_bridge_m_begin, METH_VARARGS,
     "begin($self, call_soon, wake, resume, on_state, /)\n--\n\n"
     "Take the functions of the loop that tasks are handed out by."},
    {"stages", hrpy_bridge_m_stages, METH_NOARGS,
     "stages($self, /)\n--\n\n"
     "Those of concern: (index, name, kind, concurrency, is on the loop, timeout)."},
    {"fileno", hrpy_bridge_m_fileno, METH_NOARGS,
     "fileno($self, /)\n--\n\nReadable when `rung` is to be called."},
    {"ring", hrpy_bridge_m_ring, METH_NOARGS,
     "ring($self, /)\n--\n\nMake the descriptor readable. Any thread may."},
    {"hush", hrpy_bridge_m_hush, METH_NOARGS,
     "hush($self, /)\n--\n\nMake it unreadable; whatever was left before is seen now."},
    {"rung", hrpy_bridge_m_rung, METH_NOARGS,
     "rung($self, /)\n--\n\nThe descriptor became readable: pump, unless that is due."},
    {"pump", hrpy_bridge_m_pump, METH_NOARGS,
     "pump($self, /)\n--\n\nHand in what is finished and get what is to be done."},
    {"take", hrpy_bridge_m_take, METH_O,
     "take($self, stage, /)\n--\n\n"
     "The next task of a stage; -1: wait to be woken, -2: let others have a turn."},
    {"woken", hrpy_bridge_m_woken, METH_O,
     "woken($self, stage, /)\n--\n\nA runner that was woken has come."},
    {"call", hrpy_bridge_m_call, METH_O,
     "call($self, task, /)\n--\n\nWhat is to be awaited for the task."},
    {"open", hrpy_bridge_m_open, METH_O,
     "open($self, task, /)\n--\n\nThe async iterator of a task that is a stream."},
    {"done", (PyCFunction)(void (*)(void))hrpy_bridge_m_done, METH_FASTCALL,
     "done($self, task, result, /)\n--\n\nThe task has a result."},
    {"fail", (PyCFunction)(void (*)(void))hrpy_bridge_m_fail, METH_FASTCALL,
     "fail($self, task, exception, fatal=False, again=True, /)\n--\n\n"
     "The task failed, which may be the end of the run."},
    {"item", hrpy_bridge_m_item, METH_O,
     "item($self, task, /)\n--\n\nThe number of the item that a call is about."},
    {"release", hrpy_bridge_m_release, METH_O,
     "release($self, task, /)\n--\n\nThe task ends with what it gave."},
    {"late", hrpy_bridge_m_late, METH_O,
     "late($self, task, /)\n--\n\n"
     "The task fails by its stage's timeout; which item it is about."},
    {"left", hrpy_bridge_m_left, METH_VARARGS,
     "left($self, stage, back, /)\n--\n\n"
     "A task of the stage was given up, or has come back after that."},
    {"give", (PyCFunction)(void (*)(void))hrpy_bridge_m_give, METH_FASTCALL,
     "give($self, task, value, /)\n--\n\n"
     "A value of a stream. 0: given; 1: given, let others have a turn; 2: given, wait "
     "for room; 3: not given, wait for room; 4: not wanted."},
    {"repeats", hrpy_bridge_m_repeats, METH_O,
     "repeats($self, task, /)\n--\n\nIs the source iterated again and again?"},
    {"epoch", hrpy_bridge_m_epoch, METH_O,
     "epoch($self, task, /)\n--\n\nThe end of a pass; answers as `give` does."},
    {"may_end", hrpy_bridge_m_may_end, METH_O,
     "may_end($self, task, /)\n--\n\nMay the stream end now, or has it to wait?"},
    {"wanted", hrpy_bridge_m_wanted, METH_O,
     "wanted($self, task, /)\n--\n\nFalse: the stream is to be closed."},
    {"fatal", hrpy_bridge_m_fatal, METH_O,
     "fatal($self, exception, /)\n--\n\nEnd the run with an exception."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot bridge_slots[] = {
    {Py_tp_doc, (void *)"Between a pipeline and its event loop. Made by Plan.build()."},
    {Py_tp_dealloc, bridge_dealloc},
    {Py_tp_traverse, bridge_traverse},
    {Py_tp_clear, bridge_clear},
    {Py_tp_methods, bridge_methods},
    {0, NULL},
};

PyType_Spec hrpy_bridge_spec = {
    .name = "headrace._ext.Bridge",
    .basicsize = sizeof(struct bridge),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE |
             Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = bridge_slots,
};
