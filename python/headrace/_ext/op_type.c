/* op_type.c - headrace._ext.Op: a native operation with its arguments bound, as the
 * pipeline builder gets it from a function's __headrace_op__.
 *
 * No part in garbage collection: it refers to its immutable type and to no other
 * object. */
#include "ext.h"

struct hrpy_op {
    PyObject_HEAD
    /* const after creation */
    struct hr_op op;
    enum hrpy_want want;
};

PyObject *hrpy_op_new(struct hrpy_state *state, struct hr_op *op, enum hrpy_want want)
{
    PyObject *self = state->op_type->tp_alloc(state->op_type, 0);

    if (self) {
        ((struct hrpy_op *)self)->op = *op;
        ((struct hrpy_op *)self)->want = want;
        *op = (struct hr_op){NULL, NULL};
    }
    hr_op_free(op);
    return self;
}

struct hr_op *hrpy_op_peek(PyObject *op, enum hrpy_want *want)
{
    struct hrpy_op *self = (struct hrpy_op *)op;

    if (want)
        *want = self->want;
    return &self->op;
}

static void op_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);

    hr_op_free(&((struct hrpy_op *)self)->op);
    type->tp_free(self);
    Py_DECREF(type);
}

static const char *want_name(PyObject *self)
{
    switch (((struct hrpy_op *)self)->want) {
    case HRPY_WANT_SOURCE:
        return "source";
    case HRPY_WANT_LIST:
        return "list";
    case HRPY_WANT_ARRAY:
        return "array";
    case HRPY_WANT_ARRAYS:
        return "arrays";
    case HRPY_WANT_OBJECT:
        break;
    }
    return "object";
}

static PyObject *get_name(PyObject *self, void *closure)
{
    (void)closure;
    return PyUnicode_FromString(((struct hrpy_op *)self)->op.cls->name);
}

static PyObject *get_wants(PyObject *self, void *closure)
{
    (void)closure;
    return PyUnicode_FromString(want_name(self));
}

static PyObject *op_repr(PyObject *self)
{
    return PyUnicode_FromFormat("Op('%s', wants='%s')",
                                ((struct hrpy_op *)self)->op.cls->name,
                                want_name(self));
}

/* Import, run without the GIL, export. */
static PyObject *op_run(struct hrpy_state *state, struct hrpy_op *self, PyObject *item,
                        struct hr_ctx *ctx)
{
    PyThreadState *detached;
    struct hr_value in = HR_VALUE_EMPTY;
    struct hr_value out = HR_VALUE_EMPTY;
    struct hr_error err = {0};
    enum hr_status status;

    if (hrpy_import(state, item, self->want, &in))
        return NULL;
    detached = hrpy_detach();
    status = self->op.cls->run(self->op.state, ctx, &in, &out, &err);
    hrpy_reattach(detached);
    hr_value_release(&in);
    if (status == HR_OK || status == HR_SKIP)
        return hrpy_export(state, &out);
    err.status = status; /* one that is no failure comes without a text */
    return hrpy_raise(state, &err);
}

static PyObject *op_call(PyObject *self, PyObject *args, PyObject *kwargs)
{
    struct hrpy_state *state = hrpy_state_of_type(Py_TYPE(self));
    static char *names[] = {"", NULL};
    struct hr_ctx *ctx = NULL;
    struct hr_error err = {0};
    PyObject *item;
    PyObject *result;

    hrpy_drain_decrefs();
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O:Op", names, &item))
        return NULL;
    if (hrpy_ctx_acquire(state->ctx_pool, &ctx, &err) != HR_OK)
        return hrpy_raise(state, &err);
    result = op_run(state, (struct hrpy_op *)self, item, ctx);
    hrpy_ctx_release(state->ctx_pool, &ctx);
    return result;
}

PyDoc_STRVAR(doc_type, "A native operation with its arguments bound.\n\n"
                       "Pipelines run it in C; op(item) runs it once, in this thread,\n"
                       "and gives None for an item that it filters out.");

static PyGetSetDef op_attributes[] = {
    {"name", get_name, NULL, "The operation's name, e.g. 'load_image'.", NULL},
    {"wants", get_wants, NULL,
     "What an item must be: 'source', 'list', 'array' or 'arrays'.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot op_slots[] = {
    {Py_tp_doc, (void *)(uintptr_t)doc_type},
    {Py_tp_dealloc, op_dealloc},
    {Py_tp_repr, op_repr},
    {Py_tp_call, op_call},
    {Py_tp_getset, op_attributes},
    {0, NULL},
};

PyType_Spec hrpy_op_spec = {
    .name = "headrace._ext.Op",
    .basicsize = sizeof(struct hrpy_op),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION |
             Py_TPFLAGS_IMMUTABLETYPE,
    .slots = op_slots,
};
