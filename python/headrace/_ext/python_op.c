/* python_op.c - sources and ops written in Python, as the engine sees them.
 *
 * The engine calls run() in an attached thread with a batch of calls: each takes one
 * item out of the core, calls Python, and puts the outputs back in. Nothing here takes
 * a lock, waits, or attaches.
 *
 * An op's exception is the failure of its item, StopIteration and GeneratorExit
 * included: an op cannot end the stream. SystemExit and KeyboardInterrupt end the run,
 * as they would end a loop that calls the op. */
#include "python_op.h"

#include "base/mem.h"
#include "base/sys.h"

static _Thread_local PyObject **interrupt_slot;

PyObject **hrpy_interrupt_slot(PyObject **slot)
{
    PyObject **old = interrupt_slot;

    interrupt_slot = slot;
    return old;
}

/* ---- outcomes ---- */

static bool is_fatal(PyObject *exc)
{
    return PyErr_GivenExceptionMatches(exc, PyExc_KeyboardInterrupt) ||
           PyErr_GivenExceptionMatches(exc, PyExc_SystemExit);
}

void hrpy_python_op_fail(struct hrpy_python_op *op, struct hr_call *call, PyObject *exc)
{
    call->outcome = HR_TASK_FAILED;
    call->fatal = is_fatal(exc);
    hrpy_raised_describe(exc, &call->error);
    if (!hrpy_op_is_source(op) && !call->fatal)
        hrpy_raised_forget_locals(exc);
    if (interrupt_slot && !*interrupt_slot &&
        PyErr_GivenExceptionMatches(exc, PyExc_KeyboardInterrupt))
        *interrupt_slot = Py_NewRef(exc);
    call->again = op->retry_on && PyErr_GivenExceptionMatches(exc, op->retry_on);
    call->exception = hrpy_raised_box(exc);
}

/* The exception that is set becomes the call's failure. */
static void fail(struct hrpy_python_op *op, struct hr_call *call)
{
    hrpy_python_op_fail(op, call, hrpy_raised_take());
}

int hrpy_python_op_give(struct hrpy_python_op *op, struct hr_call *call, PyObject *obj)
{
    int failed = hrpy_shape_import(op->state, &op->shape, obj, hrpy_op_is_source(op),
                                   &call->out[call->out_count]);

    if (!failed)
        call->out_count++;
    return failed;
}

/* Put one output into the call. Takes obj; false with an exception set. */
static bool give(struct hrpy_python_op *op, struct hr_call *call, PyObject *obj)
{
    int failed = hrpy_python_op_give(op, call, obj);

    Py_DECREF(obj);
    return !failed;
}

/* ---- calls ---- */

static PyObject *call_op(struct hrpy_python_op *op, PyObject *callable,
                         struct hr_call *call)
{
    PyObject *arg = hrpy_export(op->state, call->in);
    PyObject *result = arg ? PyObject_CallOneArg(callable, arg) : NULL;

    if (op->retry_on && arg)
        *call->in = hrpy_value_of_object(arg); /* it may be wanted again */
    Py_XDECREF(arg);
    return result;
}

PyObject *hrpy_python_op_call(struct hrpy_python_op *op, struct hr_call *call)
{
    return call_op(op, op->callable, call);
}

static bool is_awaitable(PyObject *obj)
{
    const PyAsyncMethods *async = Py_TYPE(obj)->tp_as_async;

    return async && async->am_await;
}

static void run_function(struct hrpy_python_op *op, PyObject *callable,
                         struct hr_call *call)
{
    PyObject *result = call_op(op, callable, call);

    if (result == Py_None) {
        Py_DECREF(result);
        call->outcome = HR_TASK_FILTERED;
    } else if (result && is_awaitable(result)) {
        call->out[0] = hrpy_awaitable_value(result);
        call->out_count = 1;
        call->awaits = true;
    } else if (!result || !give(op, call, result)) {
        fail(op, call);
    }
    call->again = call->again && call->in->cls;
}

static PyObject *call_fold(struct hrpy_python_op *op, struct hr_call *call)
{
    if (!call->in)
        return PyObject_CallNoArgs(op->flush);
    PyObject *arg = hrpy_export(op->state, call->in);
    PyObject *result = arg ? PyObject_CallOneArg(op->callable, arg) : NULL;
    Py_XDECREF(arg);
    return result;
}

/* None: nothing yet, or nothing left. */
static void run_fold(struct hrpy_python_op *op, struct hr_call *call)
{
    PyObject *result = call_fold(op, call);

    if (result == Py_None)
        Py_DECREF(result);
    else if (!result || !give(op, call, result))
        fail(op, call);
}

/* The number of the path that the router has answered with; -1 with an exception set. */
static Py_ssize_t path_of(const struct hrpy_python_op *op, PyObject *answer)
{
    Py_ssize_t path = PyNumber_AsSsize_t(answer, PyExc_IndexError);

    if (path == -1 && PyErr_Occurred()) {
        if (PyErr_ExceptionMatches(PyExc_TypeError))
            PyErr_Format(PyExc_TypeError,
                         "the router must give the number of a path, not %R", answer);
        return -1;
    }
    if (path >= 0 && (size_t)path < op->path_count)
        return path;
    PyErr_Format(PyExc_IndexError, "the router chose path %zd; there are %zu", path,
                 op->path_count);
    return -1;
}

/* The router sees the item, and the path gets it in the shape that it needs; one that does
 * not fit fails there. */
static void run_route(struct hrpy_python_op *op, PyObject *callable,
                      struct hr_call *call)
{
    PyObject *arg = hrpy_export(op->state, call->in);
    PyObject *answer = arg ? PyObject_CallOneArg(callable, arg) : NULL;
    Py_ssize_t path = answer ? path_of(op, answer) : -1;

    Py_XDECREF(answer);
    if (path >= 0 &&
        !hrpy_shape_import(op->state, &op->paths[path], arg, true, &call->out[0])) {
        call->out_count = 1;
        call->path = (uint32_t)path;
    } else {
        fail(op, call);
    }
    Py_XDECREF(arg);
}

static PyObject *open_iterator(struct hrpy_python_op *op, PyObject *callable,
                               struct hr_call *call)
{
    PyObject *arg = hrpy_export(op->state, call->in);

    if (!arg || op->kind == HRPY_ITERATE) {
        PyObject *iterator = arg ? PyObject_GetIter(arg) : NULL;
        Py_XDECREF(arg);
        return iterator;
    }
    PyObject *iterable = PyObject_CallOneArg(callable, arg);
    Py_DECREF(arg);
    PyObject *iterator = iterable ? PyObject_GetIter(iterable) : NULL;
    Py_XDECREF(iterable);
    return iterator;
}

bool hrpy_op_advance(struct hrpy_python_op *op, struct hr_call *call,
                     PyObject *iterator, int64_t until_ns)
{
    iternextfunc next = Py_TYPE(iterator)->tp_iternext;

    do {
        PyObject *obj = next(iterator);
        if (!obj) {
            if (!PyErr_Occurred())
                return false;
            if (!PyErr_ExceptionMatches(PyExc_StopIteration)) {
                fail(op, call);
                return false;
            }
            PyErr_Clear();
            return false;
        }
        if (obj == Py_None && op->kind != HRPY_SOURCE) {
            Py_DECREF(obj);
        } else if (!give(op, call, obj)) {
            fail(op, call);
            return false;
        }
    } while (call->out_count < call->grant &&
             (call->quick || HR_SYS(now_ns)() < until_ns));
    call->outcome = HR_TASK_MORE;
    return true;
}

PyObject *hrpy_python_op_open(struct hrpy_python_op *op, struct hr_call *call)
{
    PyObject *iterable = hrpy_op_is_source(op) ? Py_XNewRef(op->callable)
                                               : hrpy_python_op_call(op, call);
    PyObject *iterator = NULL;

    if (iterable)
        iterator = PyObject_GetAIter(iterable);
    Py_XDECREF(iterable);
    return iterator;
}

bool hrpy_python_op_submits(const struct hrpy_python_op *op)
{
    return op->kind == HRPY_SUBMIT;
}

bool hrpy_python_op_repeats(const struct hrpy_python_op *op)
{
    return op->continuous;
}

bool hrpy_python_op_skips(const struct hrpy_python_op *op, PyObject *obj)
{
    return obj == Py_None && !hrpy_op_is_source(op);
}

static void run_generator(struct hrpy_python_op *op, PyObject *callable,
                          struct hr_call *call, int64_t until_ns)
{
    PyObject *iterator = call->iterator;

    call->iterator = NULL;
    if (!iterator)
        iterator = open_iterator(op, callable, call);
    if (!iterator)
        fail(op, call);
    else if (hrpy_op_advance(op, call, iterator, until_ns))
        call->iterator = iterator;
    else
        Py_DECREF(iterator);
}

static void reset(struct hr_call *call)
{
    call->outcome = HR_TASK_DONE;
    call->out_count = 0;
    call->exception = HR_VALUE_EMPTY;
    call->fatal = false;
    call->awaits = false;
    call->again = false;
}

/* What the calling thread is to call: a new reference; NULL for a source, whose callable is
 * not everybody's to look at, or when the first call has failed. */
static PyObject *own_callable(struct hrpy_python_op *op, struct hr_call *call)
{
    if (hrpy_op_is_source(op))
        return NULL;
    if (!op->per_worker)
        return Py_NewRef(op->callable);
    PyObject *callable = PyObject_CallNoArgs(op->callable);
    if (!callable) {
        reset(call);
        fail(op, call);
        call->again = false;
        call->fatal = true;
    }
    return callable;
}

static void run_one(struct hrpy_python_op *op, PyObject *callable, struct hr_call *call,
                    int64_t until_ns)
{
    reset(call);
    if (op->kind == HRPY_FUNCTION)
        run_function(op, callable, call);
    else if (op->kind == HRPY_SOURCE)
        hrpy_op_run_source(op, call, until_ns);
    else if (op->kind == HRPY_FOLD)
        run_fold(op, call);
    else if (op->kind == HRPY_ROUTE)
        run_route(op, callable, call);
    else
        run_generator(op, callable, call, until_ns);
}

static size_t run(void *state, struct hr_call *calls, size_t count, int64_t until_ns)
{
    /* A reference, since the op may drop the last one to its own pipeline. */
    struct hrpy_python_op *op = hrpy_python_op_ref(state);
    PyObject *callable = own_callable(op, &calls[0]);
    size_t done = 0;

    if (!callable && op->per_worker) {
        hrpy_python_op_unref(&op);
        return 1;
    }
    do {
        run_one(op, callable, &calls[done++], until_ns);
    } while (done < count && (calls[done - 1].end_ns = HR_SYS(now_ns)()) < until_ns &&
             !calls[done - 1].awaits);
    Py_XDECREF(callable);
    hrpy_python_op_unref(&op);
    return done;
}

static void drop_iterator(void *state, void *iterator)
{
    (void)state;
    hrpy_decref(iterator);
}

static void free_state(void *state)
{
    struct hrpy_python_op *op = state;

    hrpy_python_op_unref(&op);
}

static const struct hr_foreign_class python_class = {
    .run = run,
    .drop_iterator = drop_iterator,
    .free_state = free_state,
};

/* ---- life ---- */

struct hrpy_python_op *hrpy_python_op_new(PyTypeObject *type, enum hrpy_op_kind kind,
                                          PyObject *callable, PyObject *spec)
{
    struct hrpy_python_op *op = hr__calloc(1, sizeof(*op));

    if (!op) {
        PyErr_NoMemory();
        return NULL;
    }
    atomic_init(&op->refs, 1);
    atomic_flag_clear(&op->pulling);
    op->state = hrpy_state_of_type(type);
    op->type = Py_NewRef((PyObject *)type);
    op->callable = Py_NewRef(callable);
    op->kind = kind;
    if (hrpy_shape_init(&op->shape, spec))
        hrpy_python_op_unref(&op);
    return op;
}

struct hrpy_python_op *hrpy_python_op_ref(struct hrpy_python_op *op)
{
    /* relaxed: the caller's own reference keeps it alive */
    atomic_fetch_add_explicit(&op->refs, 1, memory_order_relaxed);
    return op;
}

void hrpy_python_op_unref(struct hrpy_python_op **op_ptr)
{
    struct hrpy_python_op *op = *op_ptr;

    *op_ptr = NULL;
    if (!op || atomic_fetch_sub_explicit(&op->refs, 1, memory_order_acq_rel) > 1)
        return;
    hrpy_shape_fini(&op->shape);
    for (size_t i = 0; i < op->path_count; i++)
        hrpy_shape_fini(&op->paths[i]);
    hr__free(op->paths);
    if (op->iterator)
        hrpy_decref(op->iterator);
    if (op->callable)
        hrpy_decref(op->callable);
    if (op->flush)
        hrpy_decref(op->flush);
    if (op->retry_on)
        hrpy_decref(op->retry_on);
    hrpy_decref(op->type);
    hr__free(op);
}

int hrpy_python_op_set_paths(struct hrpy_python_op *op, PyObject *specs)
{
    Py_ssize_t n = PyTuple_GET_SIZE(specs);

    op->paths = hr__calloc((size_t)n + 1, sizeof(*op->paths));
    if (!op->paths) {
        PyErr_NoMemory();
        return -1;
    }
    while (op->path_count < (size_t)n) {
        struct hrpy_shape *shape = &op->paths[op->path_count];
        PyObject *spec = PyTuple_GET_ITEM(specs, (Py_ssize_t)op->path_count++);
        if (hrpy_shape_init(shape, spec))
            return -1;
    }
    return 0;
}

void hrpy_python_op_set_flush(struct hrpy_python_op *op, PyObject *flush)
{
    op->flush = Py_NewRef(flush);
}

void hrpy_python_op_retry(struct hrpy_python_op *op, PyObject *on)
{
    Py_XSETREF(op->retry_on, Py_NewRef(on));
}

void hrpy_python_op_per_worker(struct hrpy_python_op *op)
{
    op->per_worker = true;
}

void hrpy_python_op_repeat(struct hrpy_python_op *op)
{
    op->continuous = true;
}

struct hr_foreign hrpy_python_op_foreign(struct hrpy_python_op *op)
{
    return (struct hr_foreign){&python_class, hrpy_python_op_ref(op)};
}

int hrpy_python_op_visit(struct hrpy_python_op *op, visitproc visit, void *arg)
{
    Py_VISIT(op->type);
    Py_VISIT(op->callable);
    Py_VISIT(op->flush);
    Py_VISIT(op->retry_on);
    Py_VISIT(op->iterator);
    return 0;
}
