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
#include "foreign.h"

#include <string.h>

#include "base/mem.h"
#include "base/sys.h"
#include "engine/async.h"

#define TURN_NS 500000

/* What take and give say; headrace.pipeline._async knows them by these numbers. */
enum { WAIT = -1, YIELD = -2 };
enum { GIVEN = 0, GIVEN_YIELD = 1, GIVEN_WAIT = 2, NO_ROOM = 3, UNWANTED = 4 };

struct fifo {
    struct hr_async_task *first, *last;
};

struct stage {
    struct hr_async_stage info;
    bool known; /* to the loop */
    struct fifo ready;
    bool waking; /* a runner is on its way */
};

struct bridge {
    PyObject_HEAD
    /* const after creation */
    PyObject *start_loop;
    struct stage *stages;
    uint32_t stage_count;
    /* a reference; NULL once the loop's thread has left */
    struct hr_pipeline *pipeline;
    /* guarded by the GIL or the starter */
    PyObject *thread; /* a threading.Thread */
    /* the loop's thread's, between begin and end */
    PyObject *call_soon, *wake, *resume, *on_state, *pump;
    struct fifo finished; /* to be handed in for good */
    struct fifo streams;  /* to be handed in with HR_TASK_MORE */
    enum hr_async_state state;
    bool scheduled; /* the pump, in this turn of the loop */
    int64_t turn_end_ns;
};

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

/* ---- lists ---- */

static void push(struct fifo *fifo, struct hr_async_task *task)
{
    task->next = NULL;
    if (fifo->last)
        fifo->last->next = task;
    else
        fifo->first = task;
    fifo->last = task;
}

static struct hr_async_task *pop(struct fifo *fifo)
{
    struct hr_async_task *task = fifo->first;

    fifo->first = task->next;
    if (!fifo->first)
        fifo->last = NULL;
    return task;
}

/* ---- the exchange ---- */

static struct hrpy_python_op *op_of(const struct bridge *self,
                                    const struct hr_async_task *task)
{
    return self->stages[task->stage].info.state;
}

/* Something happens in this turn of the loop: the pump has to run in the next. */
static int schedule(struct bridge *self, int64_t now_ns)
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

static void hand_in(struct bridge *self, struct hr_async_task *task)
{
    push(&self->finished, task);
}

/* A task that nobody has begun, in a run that is cancelled: it goes back as it is. */
static void hand_back(struct bridge *self, struct hr_async_task *task)
{
    task->call.outcome = HR_TASK_DONE;
    hand_in(self, task);
}

static int wake_runner(struct bridge *self, uint32_t i)
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
            hand_back(self, task);
        } else {
            push(&self->stages[task->stage].ready, task);
        }
    }
    for (uint32_t i = 0; i < self->stage_count; i++)
        if (wake_runner(self, i))
            result = -1;
    return result;
}

static void hand_back_ready(struct bridge *self)
{
    for (uint32_t i = 0; i < self->stage_count; i++)
        while (self->stages[i].ready.first)
            hand_back(self, pop(&self->stages[i].ready));
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
        struct hr_async_task *task = pop(&self->streams);
        task->listed = false;
        task->took_ns += now_ns - task->began_ns;
        task->call.outcome = HR_TASK_MORE;
        push(&self->finished, task);
    }
    struct hr_async_task *list = self->finished.first;
    self->finished = (struct fifo){NULL, NULL};
    return list;
}

/* stage: of the runner that asks, -1: the pump. */
static int exchange(struct bridge *self, int stage, int64_t now_ns)
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
    if (moved && schedule(self, now_ns))
        result = -1;
    hr__async_let_consumer_in(self->pipeline);
    return result;
}

/* ---- methods of the loop: begin, pump, end ---- */

static PyObject *bridge_stages(PyObject *obj, PyObject *unused)
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
            "IssIO", i, stage->info.name, kinds[stage->info.kind],
            stage->info.concurrency, stage->info.on_loop ? Py_True : Py_False);
        if (!tuple || PyList_Append(list, tuple))
            Py_CLEAR(list);
        Py_XDECREF(tuple);
    }
    return list;
}

static PyObject *bridge_begin(PyObject *obj, PyObject *args)
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

static PyObject *bridge_enter(PyObject *obj, PyObject *unused)
{
    struct bridge *self = (struct bridge *)obj;

    (void)unused;
    if (!hr__async_begin(self->pipeline, PyThreadState_Get()))
        Py_RETURN_FALSE;
    hrpy_set_core_thread(true);
    Py_RETURN_TRUE;
}

static void forget_loop(struct bridge *self)
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
            hand_back(self, list);
        }
    }
}

static PyObject *bridge_leave(PyObject *obj, PyObject *unused)
{
    struct bridge *self = (struct bridge *)obj;

    (void)unused;
    give_all_back(self);
    forget_loop(self);
    hrpy_set_core_thread(false);
    struct hr_pipeline *pipeline = self->pipeline;
    hr__async_leave(pipeline);
    /* Not with the bridge: failures that the pipeline lists hold tracebacks, those the
     * frames that called, and these the loop and the bridge. */
    self->pipeline = NULL;
    hr__async_unref(pipeline);
    Py_RETURN_NONE;
}

static PyObject *bridge_pump(PyObject *obj, PyObject *unused)
{
    struct bridge *self = (struct bridge *)obj;

    (void)unused;
    self->scheduled = false;
    if (exchange(self, -1, HR_SYS(now_ns)()))
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *bridge_rung(PyObject *obj, PyObject *unused)
{
    struct bridge *self = (struct bridge *)obj;

    hr__async_hush(self->pipeline);
    if (self->scheduled)
        Py_RETURN_NONE;
    return bridge_pump(obj, unused);
}

static PyObject *bridge_fileno(PyObject *obj, PyObject *unused)
{
    (void)unused;
    return PyLong_FromLong(hr__async_descriptor(((struct bridge *)obj)->pipeline));
}

/* ---- methods of runners ---- */

static struct hr_async_task *task_of(struct bridge *self, PyObject *number)
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
    if (!stage->ready.first && self->finished.first && exchange(self, (int)i, now_ns))
        return NULL;
    if (!stage->ready.first)
        return PyLong_FromLong(WAIT);
    struct hr_async_task *task = pop(&stage->ready);
    task->began_ns = now_ns;
    task->begun = stage->info.kind != HR_ASYNC_MAP;
    if (wake_runner(self, i)) {
        hand_back(self, task);
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

static PyObject *bridge_take(PyObject *obj, PyObject *index)
{
    struct bridge *self = (struct bridge *)obj;
    uint32_t i;

    return stage_of(self, index, &i) ? NULL : take(self, i);
}

static PyObject *bridge_woken(PyObject *obj, PyObject *index)
{
    struct bridge *self = (struct bridge *)obj;
    uint32_t i;

    if (stage_of(self, index, &i))
        return NULL;
    self->stages[i].waking = false;
    Py_RETURN_NONE;
}

static PyObject *bridge_call(PyObject *obj, PyObject *number)
{
    struct bridge *self = (struct bridge *)obj;
    struct hr_async_task *task = task_of(self, number);

    if (!task)
        return NULL;
    if (!task->adopted)
        return hrpy_python_op_call(op_of(self, task), &task->call);
    PyObject *awaitable = task->call.out[0].ptr;
    task->call.out[0] = HR_VALUE_EMPTY;
    task->call.out_count = 0;
    task->call.awaits = false;
    return awaitable;
}

static PyObject *bridge_open(PyObject *obj, PyObject *number)
{
    struct bridge *self = (struct bridge *)obj;
    struct hr_async_task *task = task_of(self, number);

    return task ? hrpy_python_op_open(op_of(self, task), &task->call) : NULL;
}

static PyObject *ended(struct bridge *self, struct hr_async_task *task)
{
    int64_t now_ns = HR_SYS(now_ns)();

    task->took_ns += now_ns - task->began_ns;
    hand_in(self, task);
    if (schedule(self, now_ns))
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *bridge_done(PyObject *obj, PyObject *const *args, Py_ssize_t nargs)
{
    struct bridge *self = (struct bridge *)obj;
    struct hr_async_task *task = nargs == 2 ? task_of(self, args[0]) : NULL;

    if (!task)
        return nargs == 2 ? NULL : PyErr_Format(PyExc_TypeError, "done(task, result)");
    task->call.outcome = HR_TASK_DONE;
    task->call.again = false;
    if (args[1] == Py_None)
        task->call.outcome = HR_TASK_FILTERED;
    else if (hrpy_python_op_give(op_of(self, task), &task->call, args[1]))
        hrpy_python_op_fail(op_of(self, task), &task->call, hrpy_raised_take());
    return ended(self, task);
}

/* A stream that is listed has outputs that go with its end. */
static void unlist(struct bridge *self, struct hr_async_task *task)
{
    struct fifo rest = {NULL, NULL};

    if (!task->listed)
        return;
    while (self->streams.first) {
        struct hr_async_task *other = pop(&self->streams);
        if (other != task)
            push(&rest, other);
    }
    self->streams = rest;
    task->listed = false;
}

/* The task ends as it is: a stream with what it gave; any other, in a run that was
 * cancelled, without a result. */
static PyObject *bridge_release(PyObject *obj, PyObject *number)
{
    struct bridge *self = (struct bridge *)obj;
    struct hr_async_task *task = task_of(self, number);

    if (!task)
        return NULL;
    unlist(self, task);
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

static PyObject *bridge_fail(PyObject *obj, PyObject *const *args, Py_ssize_t nargs)
{
    struct bridge *self = (struct bridge *)obj;
    struct hr_async_task *task = nargs == 2 ? task_of(self, args[0]) : NULL;

    if (!task)
        return nargs == 2 ? NULL : PyErr_Format(PyExc_TypeError, "fail(task, exc)");
    unlist(self, task);
    drop_first_frame(args[1]);
    hrpy_python_op_fail(op_of(self, task), &task->call, Py_NewRef(args[1]));
    return ended(self, task);
}

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

static PyObject *bridge_may_end(PyObject *obj, PyObject *number)
{
    struct hr_async_task *task = task_of((struct bridge *)obj, number);

    return task ? PyBool_FromLong(has_claim(task)) : NULL;
}

static PyObject *bridge_wanted(PyObject *obj, PyObject *number)
{
    struct hr_async_task *task = task_of((struct bridge *)obj, number);

    return task ? PyBool_FromLong(is_wanted(task)) : NULL;
}

static int put(struct bridge *self, struct hr_async_task *task, PyObject *value)
{
    if (hrpy_python_op_skips(op_of(self, task), value))
        return 0;
    if (hrpy_python_op_give(op_of(self, task), &task->call, value))
        return -1;
    if (!task->listed)
        push(&self->streams, task);
    task->listed = true;
    return 0;
}

static PyObject *bridge_give(PyObject *obj, PyObject *const *args, Py_ssize_t nargs)
{
    struct bridge *self = (struct bridge *)obj;
    struct hr_async_task *task = nargs == 2 ? task_of(self, args[0]) : NULL;
    int64_t now_ns = HR_SYS(now_ns)();

    if (!task)
        return nargs == 2 ? NULL : PyErr_Format(PyExc_TypeError, "give(task, value)");
    if (!is_wanted(task))
        return PyLong_FromLong(UNWANTED);
    if (!has_claim(task))
        return PyLong_FromLong(NO_ROOM);
    if (put(self, task, args[1]) || schedule(self, now_ns))
        return NULL;
    if (task->call.out_count == task->call.grant &&
        exchange(self, (int)task->stage, now_ns))
        return NULL;
    if (!has_claim(task))
        return PyLong_FromLong(GIVEN_WAIT);
    return PyLong_FromLong(now_ns >= self->turn_end_ns ? GIVEN_YIELD : GIVEN);
}

static PyObject *bridge_repeats(PyObject *obj, PyObject *number)
{
    struct bridge *self = (struct bridge *)obj;
    struct hr_async_task *task = task_of(self, number);

    return task ? PyBool_FromLong(hrpy_python_op_repeats(op_of(self, task))) : NULL;
}

/* The mark takes one of the granted places. */
static PyObject *bridge_epoch(PyObject *obj, PyObject *number)
{
    struct bridge *self = (struct bridge *)obj;
    struct hr_async_task *task = task_of(self, number);
    int64_t now_ns = HR_SYS(now_ns)();

    if (!task)
        return NULL;
    if (!is_wanted(task))
        return PyLong_FromLong(UNWANTED);
    if (!has_claim(task))
        return PyLong_FromLong(NO_ROOM);
    unlist(self, task);
    task->took_ns += now_ns - task->began_ns;
    task->call.outcome = HR_TASK_EPOCH;
    hand_in(self, task);
    if (schedule(self, now_ns) || exchange(self, (int)task->stage, now_ns))
        return NULL;
    return PyLong_FromLong(has_claim(task) ? GIVEN : GIVEN_WAIT);
}

/* ---- ends ---- */

static PyObject *bridge_fatal(PyObject *obj, PyObject *exc)
{
    struct bridge *self = (struct bridge *)obj;
    struct hr_error err = {0};

    hrpy_raised_describe(exc, &err);
    struct hr_value boxed = hrpy_raised_box(Py_NewRef(exc));
    hr__async_fatal(self->pipeline, "event loop", &err, &boxed);
    Py_RETURN_NONE;
}

/* ---- methods of the starter ---- */

static PyObject *bridge_expect(PyObject *obj, PyObject *unused)
{
    struct bridge *self = (struct bridge *)obj;
    struct hr_error err = {0};
    enum hr_status status;

    (void)unused;
    if (!self->pipeline)
        Py_RETURN_FALSE;
    Py_BEGIN_ALLOW_THREADS
    status = hr__async_expect(self->pipeline, &err);
    Py_END_ALLOW_THREADS
    if (status != HR_OK && status != HR_AGAIN)
        return hrpy_raise(hrpy_state_of_type(Py_TYPE(obj)), &err);
    return PyBool_FromLong(status == HR_OK);
}

static PyObject *bridge_abandon(PyObject *obj, PyObject *unused)
{
    struct bridge *self = (struct bridge *)obj;

    (void)unused;
    Py_BEGIN_ALLOW_THREADS
    hr__async_abandon(self->pipeline);
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

int hrpy_bridge_start(PyObject *obj)
{
    struct bridge *self = (struct bridge *)obj;
    PyObject *thread = PyObject_CallOneArg(self->start_loop, obj);

    if (!thread)
        return -1;
    if (thread == Py_None)
        Py_DECREF(thread);
    else
        Py_XSETREF(self->thread, thread);
    return 0;
}

bool hrpy_bridge_start_late(void *bridge)
{
    PyObject *obj = Py_NewRef((PyObject *)bridge);
    bool started = hrpy_bridge_start(obj) == 0;

    if (!started)
        PyErr_WriteUnraisable(obj);
    started = started && ((struct bridge *)obj)->thread;
    Py_DECREF(obj);
    return started;
}

int hrpy_bridge_join(PyObject *obj)
{
    struct bridge *self = (struct bridge *)obj;

    if (obj == Py_None || !self->thread || hrpy_is_core_thread())
        return 0;
    PyObject *done = PyObject_CallMethod(self->thread, "join", NULL);
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
    hr__async_set_cookie(pipeline, self);
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

    forget_loop(self);
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
    {"enter", bridge_enter, METH_NOARGS,
     "enter($self, /)\n--\n\n"
     "The calling thread is the loop's; False: it is not expected any more."},
    {"leave", bridge_leave, METH_NOARGS,
     "leave($self, /)\n--\n\nIt does nothing for the pipeline any more."},
    {"begin", bridge_begin, METH_VARARGS,
     "begin($self, call_soon, wake, resume, on_state, /)\n--\n\n"
     "Take the functions of the loop that tasks are handed out by."},
    {"stages", bridge_stages, METH_NOARGS,
     "stages($self, /)\n--\n\n"
     "Those of concern: (index, name, kind, concurrency, is on the loop)."},
    {"fileno", bridge_fileno, METH_NOARGS,
     "fileno($self, /)\n--\n\nReadable when `rung` is to be called."},
    {"rung", bridge_rung, METH_NOARGS,
     "rung($self, /)\n--\n\nThe descriptor became readable."},
    {"pump", bridge_pump, METH_NOARGS,
     "pump($self, /)\n--\n\nHand in what is finished and get what is to be done."},
    {"take", bridge_take, METH_O,
     "take($self, stage, /)\n--\n\n"
     "The next task of a stage; -1: wait to be woken, -2: let others have a turn."},
    {"woken", bridge_woken, METH_O,
     "woken($self, stage, /)\n--\n\nA runner that was woken has come."},
    {"call", bridge_call, METH_O,
     "call($self, task, /)\n--\n\nWhat is to be awaited for the task."},
    {"open", bridge_open, METH_O,
     "open($self, task, /)\n--\n\nThe async iterator of a task that is a stream."},
    {"done", (PyCFunction)(void (*)(void))bridge_done, METH_FASTCALL,
     "done($self, task, result, /)\n--\n\nThe task has a result."},
    {"fail", (PyCFunction)(void (*)(void))bridge_fail, METH_FASTCALL,
     "fail($self, task, exception, /)\n--\n\nThe task failed."},
    {"release", bridge_release, METH_O,
     "release($self, task, /)\n--\n\nThe task ends with what it gave."},
    {"give", (PyCFunction)(void (*)(void))bridge_give, METH_FASTCALL,
     "give($self, task, value, /)\n--\n\n"
     "A value of a stream. 0: given; 1: given, let others have a turn; 2: given, wait "
     "for room; 3: not given, wait for room; 4: not wanted."},
    {"repeats", bridge_repeats, METH_O,
     "repeats($self, task, /)\n--\n\nIs the source iterated again and again?"},
    {"epoch", bridge_epoch, METH_O,
     "epoch($self, task, /)\n--\n\nThe end of a pass; answers as `give` does."},
    {"may_end", bridge_may_end, METH_O,
     "may_end($self, task, /)\n--\n\nMay the stream end now, or has it to wait?"},
    {"wanted", bridge_wanted, METH_O,
     "wanted($self, task, /)\n--\n\nFalse: the stream is to be closed."},
    {"fatal", bridge_fatal, METH_O,
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
