/* engine_iterator.c - headrace._ext.EngineIterator: what `for x in pipeline` runs on.
 *
 * It covers what is left of the epoch in which it was made, so that several threads that
 * iterate all hear of its end, and none gets items of the next one by the old iterator. */
#include "engine_object.h"

struct iterator {
    PyObject_HEAD
    /* in the object's section */
    PyObject *engine; /* NULL: at its end, for good */
    /* const after creation */
    int64_t timeout_ns; /* per item; HR_NO_DEADLINE: none */
    uint64_t epoch;
};

PyObject *hrpy_engine_iterate(PyObject *engine, PyObject *timeout)
{
    struct hrpy_state *state = ((struct engine *)engine)->state;
    PyTypeObject *type = state->iterator_type;
    int64_t timeout_ns;

    if (hrpy_engine_timeout(timeout, &timeout_ns) ||
        hrpy_engine_check((struct engine *)engine))
        return NULL;
    struct iterator *self = (struct iterator *)type->tp_alloc(type, 0);
    if (!self)
        return NULL;
    self->engine = Py_NewRef(engine);
    self->epoch = hr__pipeline_epoch(((struct engine *)engine)->pipeline);
    self->timeout_ns = timeout_ns;
    return (PyObject *)self;
}

/* A new reference, or NULL at the end: another thread may come to it meanwhile. */
static PyObject *get_engine(struct iterator *self)
{
    hrpy_section section;

    hrpy_section_begin(&section, (PyObject *)self);
    PyObject *engine = Py_XNewRef(self->engine);
    hrpy_section_end(&section);
    return engine;
}

static void let_go_of_engine(struct iterator *self)
{
    hrpy_section section;

    hrpy_section_begin(&section, (PyObject *)self);
    PyObject *engine = self->engine;
    self->engine = NULL;
    hrpy_section_end(&section);
    Py_XDECREF(engine);
}

static PyObject *iterator_next(PyObject *obj)
{
    struct iterator *self = (struct iterator *)obj;
    int64_t deadline_ns = hrpy_engine_deadline(self->timeout_ns);
    PyObject *item = NULL;

    PyObject *engine = get_engine(self);
    if (!engine)
        return NULL;
    int got =
        hrpy_engine_take((struct engine *)engine, self->epoch, deadline_ns, &item);
    Py_DECREF(engine);
    if (got == HRPY_GOT_END)
        let_go_of_engine(self);
    return item;
}

static int iterator_traverse(PyObject *obj, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(obj));
    Py_VISIT(((struct iterator *)obj)->engine);
    return 0;
}

static int iterator_clear(PyObject *obj)
{
    Py_CLEAR(((struct iterator *)obj)->engine);
    return 0;
}

static void iterator_dealloc(PyObject *obj)
{
    PyTypeObject *type = Py_TYPE(obj);

    PyObject_GC_UnTrack(obj);
    (void)iterator_clear(obj);
    type->tp_free(obj);
    Py_DECREF(type);
}

static PyType_Slot iterator_slots[] = {
    {Py_tp_doc, (void *)"The items of a pipeline that are left."},
    {Py_tp_dealloc, iterator_dealloc},
    {Py_tp_traverse, iterator_traverse},
    {Py_tp_clear, iterator_clear},
    {Py_tp_iter, PyObject_SelfIter},
    {Py_tp_iternext, iterator_next},
    {0, NULL},
};

PyType_Spec hrpy_engine_iterator_spec = {
    .name = "headrace._ext.EngineIterator",
    .basicsize = sizeof(struct iterator),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE |
             Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = iterator_slots,
};
