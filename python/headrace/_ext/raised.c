/* raised.c - exceptions on their way from an op to the consumer.
 *
 * The original object travels, boxed: the core may share and drop the box in threads
 * that are not attached. Whatever goes wrong while one is described is swallowed: a
 * broken __str__ must not lose the failure it belongs to.
 *
 * The ledger keeps up to 10,000 exceptions for the life of the pipeline. Their
 * tracebacks hold the frames that raised, and those their local variables: the very
 * item that failed, decoded, or the pipeline itself. So the locals of finished frames
 * are dropped (as traceback.clear_frames does); file, line and function stay. */
#include "foreign.h"

#include <stdatomic.h>
#include <string.h>

#include "base/mem.h"

PyObject *hrpy_raised_take(void)
{
#if PY_VERSION_HEX >= 0x030C0000
    PyObject *exc = PyErr_GetRaisedException();
#else
    PyObject *type, *exc, *traceback;

    PyErr_Fetch(&type, &exc, &traceback);
    if (type) {
        PyErr_NormalizeException(&type, &exc, &traceback);
        if (traceback)
            (void)PyException_SetTraceback(exc, traceback);
        Py_XDECREF(type);
        Py_XDECREF(traceback);
    }
#endif
    if (!exc)
        exc = PyObject_CallFunction(PyExc_SystemError, "s",
                                    "a call failed without setting an exception");
    if (!exc) {
        PyErr_Clear();
        exc = Py_NewRef(PyExc_MemoryError);
    }
    return exc;
}

/* Text as UTF-8, at most 200 characters; NULL with an exception set. */
static PyObject *short_utf8(PyObject *text)
{
    PyObject *head = PyUnicode_Substring(text, 0, 200);
    PyObject *bytes = NULL;

    if (head)
        bytes = PyUnicode_AsEncodedString(head, "utf-8", "backslashreplace");
    Py_XDECREF(head);
    return bytes;
}

void hrpy_raised_describe(PyObject *exc, struct hr_error *err)
{
    const char *type = Py_TYPE(exc)->tp_name;
    const char *dot = strrchr(type, '.');
    PyObject *text = PyObject_Str(exc);
    PyObject *bytes = text ? short_utf8(text) : NULL;

    if (dot)
        type = dot + 1;
    if (!bytes) {
        PyErr_Clear();
        (void)hr_error_set(err, HR_ERR_FOREIGN, "python", 0,
                           "%s: its message cannot be printed", type);
    } else if (PyBytes_GET_SIZE(bytes) == 0) {
        (void)hr_error_set(err, HR_ERR_FOREIGN, "python", 0, "%s", type);
    } else {
        (void)hr_error_set(err, HR_ERR_FOREIGN, "python", 0, "%s: %s", type,
                           PyBytes_AS_STRING(bytes));
    }
    Py_XDECREF(text);
    Py_XDECREF(bytes);
}

/* Frames of generators and coroutines are left alone for as long as they are owned: one
 * may be suspended, and clearing closes it. */
static void clear_frame(PyFrameObject *frame)
{
    PyObject *generator = PyFrame_GetGenerator(frame);

    if (!generator) {
        PyObject *done = PyObject_CallMethod((PyObject *)frame, "clear", NULL);
        if (!done)
            PyErr_Clear(); /* it is still running */
        Py_XDECREF(done);
    }
    Py_XDECREF(generator);
}

static void clear_traceback(PyObject *exc)
{
    PyObject *first = PyException_GetTraceback(exc);

    if (first && PyTraceBack_Check(first)) /* it may have been set to None */
        for (PyTracebackObject *tb = (PyTracebackObject *)first; tb; tb = tb->tb_next)
            clear_frame(tb->tb_frame);
    Py_XDECREF(first);
}

void hrpy_raised_forget_locals(PyObject *exc)
{
    enum { CHAIN_MAX = 16 }; /* chains may be circular */
    PyObject *link = PyExceptionInstance_Check(exc) ? Py_NewRef(exc) : NULL;

    for (int i = 0; link && i < CHAIN_MAX; i++) {
        clear_traceback(link);
        PyObject *next = PyException_GetCause(link);
        if (!next)
            next = PyException_GetContext(link);
        Py_SETREF(link, next);
    }
    Py_XDECREF(link);
}

/* ---- boxes ---- */

struct box {
    _Atomic uint32_t refs; /* dropped acq_rel: the last one sees what the others did */
    PyObject *exc;
};

static void box_release(struct hr_value *value)
{
    struct box *box = value->ptr;

    if (atomic_fetch_sub_explicit(&box->refs, 1, memory_order_acq_rel) > 1)
        return;
    hrpy_decref(box->exc);
    hr__free(box);
}

static struct hr_value box_share(const struct hr_value *value)
{
    struct box *box = value->ptr;

    /* relaxed: the caller's own reference keeps it alive */
    atomic_fetch_add_explicit(&box->refs, 1, memory_order_relaxed);
    return *value;
}

static const struct hr_value_class box_class = {
    .name = "exception",
    .release = box_release,
    .share = box_share,
};

struct hr_value hrpy_raised_box(PyObject *exc)
{
    struct box *box = hr__malloc(sizeof(*box));

    if (!box) {
        Py_DECREF(exc);
        return HR_VALUE_EMPTY;
    }
    atomic_init(&box->refs, 1);
    box->exc = exc;
    return (struct hr_value){&box_class, box};
}

PyObject *hrpy_raised_peek(const struct hr_value *value, bool *sole)
{
    struct box *box = value->cls == &box_class ? value->ptr : NULL;

    *sole = box && atomic_load_explicit(&box->refs, memory_order_acquire) == 1;
    return box ? box->exc : NULL;
}

PyObject *hrpy_raised_unbox(struct hr_value *value)
{
    PyObject *exc = NULL;

    if (value->cls == &box_class)
        exc = Py_NewRef(((struct box *)value->ptr)->exc);
    hr_value_release(value);
    return exc;
}
