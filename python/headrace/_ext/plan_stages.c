/* plan_stages.c - headrace._ext.Plan: the methods that add stages. */
#include "plan_object.h"

#include <string.h>

#include "base/mem.h"

/* ---- native ops: a plan needs its own, the Op object keeps the original ---- */

struct lent_op {
    struct hr_op *op; /* in owner */
    PyObject *owner;
};

static enum hr_status lent_run(void *state, struct hr_ctx *ctx,
                               const struct hr_value *in, struct hr_value *out,
                               struct hr_error *err)
{
    struct lent_op *lent = state;

    return lent->op->cls->run(lent->op->state, ctx, in, out, err);
}

static void lent_free(void *state)
{
    struct lent_op *lent = state;

    hrpy_decref(lent->owner);
    hr__free(lent);
}

static const struct hr_op_class lent_class = {
    .name = "native op",
    .run = lent_run,
    .free_state = lent_free,
};

static int lend_op(PyObject *owner, struct hr_op *out)
{
    struct lent_op *lent = hr__malloc(sizeof(*lent));

    if (!lent) {
        PyErr_NoMemory();
        return -1;
    }
    lent->op = hrpy_op_peek(owner, NULL);
    lent->owner = Py_NewRef(owner);
    *out = (struct hr_op){&lent_class, lent};
    return 0;
}

/* ---- options ---- */

/* key: None, an int, or a str that outlives the call. */
static int parse_key(PyObject *key, struct hr_stage_options *out)
{
    if (key == Py_None)
        return 0;
    out->has_key = 1;
    if (PyUnicode_Check(key)) {
        out->key_name = PyUnicode_AsUTF8(key);
        return out->key_name ? 0 : -1;
    }
    long index = PyLong_AsLong(key);
    if (index == -1 && PyErr_Occurred())
        return -1;
    if (index > INT32_MAX || index < INT32_MIN) {
        PyErr_Format(PyExc_ValueError, "key %ld is out of range", index);
        return -1;
    }
    out->key_index = (int)index;
    return 0;
}

/* max_failures: None, a count, or (numerator, denominator). */
static int parse_max_failures(PyObject *limit, struct hr_stage_options *out)
{
    if (limit == Py_None)
        return 0;
    if (PyTuple_Check(limit))
        return PyArg_ParseTuple(limit, "II", &out->fraction_num, &out->fraction_den)
                   ? 0
                   : -1;
    out->limit_failures = 1;
    out->max_failures = PyLong_AsLongLong(limit);
    return out->max_failures == -1 && PyErr_Occurred() ? -1 : 0;
}

struct pipe_args {
    PyObject *op, *key, *limit, *spec;
    const char *name, *kind;
    unsigned int concurrency;
    int input_order;
};

static int parse_options(const struct pipe_args *args, struct hr_stage_options *out)
{
    memset(out, 0, sizeof(*out));
    out->name = args->name;
    out->concurrency = args->concurrency;
    out->order = args->input_order ? HR_OUTPUT_INPUT : HR_OUTPUT_COMPLETION;
    if (parse_key(args->key, out))
        return -1;
    return parse_max_failures(args->limit, out);
}

/* ---- methods ---- */

static PyObject *done(PyObject *self, enum hr_status status, const struct hr_error *err)
{
    if (status != HR_OK)
        return hrpy_raise(hrpy_plan_state_of(self), err);
    Py_RETURN_NONE;
}

/* Adds op to those that garbage collection must know. Takes *op in any case. */
static int keep_op(struct plan *self, struct hrpy_python_op **op)
{
    struct hrpy_python_op **grown =
        hr__realloc(self->ops, self->op_count + 1, sizeof(struct hrpy_python_op *));

    if (!grown) {
        hrpy_python_op_unref(op);
        PyErr_NoMemory();
        return -1;
    }
    self->ops = grown;
    self->ops[self->op_count++] = *op;
    *op = NULL;
    return 0;
}

/* A Python op on its way into the plan; kept by it and ready for the engine. */
static int new_foreign(struct plan *self, enum hrpy_op_kind kind, PyObject *callable,
                       PyObject *spec, struct hr_foreign *out)
{
    struct hrpy_python_op *op = NULL;

    if (hrpy_plan_check_open(self))
        return -1;
    op = hrpy_python_op_new(Py_TYPE((PyObject *)self), kind, callable, spec);
    if (!op)
        return -1;
    struct hr_foreign foreign = hrpy_python_op_foreign(op);
    if (keep_op(self, &op)) {
        foreign.cls->free_state(foreign.state);
        return -1;
    }
    *out = foreign;
    return 0;
}

static PyObject *drop_refused(PyObject *self, enum hr_status status,
                              struct hr_foreign *foreign, const struct hr_error *err)
{
    if (status != HR_OK && foreign->cls)
        foreign->cls->free_state(foreign->state);
    return done(self, status, err);
}

PyObject *hrpy_plan_source(PyObject *obj, PyObject *args)
{
    struct plan *self = (struct plan *)obj;
    struct hr_foreign foreign = {0};
    struct hr_error err = {0};
    PyObject *iterable, *spec;
    const char *name;
    int continuous, is_async = 0;

    if (!PyArg_ParseTuple(args, "OsOp|p:source", &iterable, &name, &spec, &continuous,
                          &is_async) ||
        new_foreign(self, is_async ? HRPY_ASYNC_SOURCE : HRPY_SOURCE, iterable, spec,
                    &foreign))
        return NULL;
    if (continuous)
        hrpy_python_op_repeat(self->ops[self->op_count - 1]);
    enum hr_status status = hr__plan_foreign_source(self->plan, name, &foreign, &err);
    if (status == HR_OK && is_async)
        hr__plan_on_loop(self->plan);
    return drop_refused(obj, status, &foreign, &err);
}

PyObject *hrpy_plan_pipe_native(PyObject *obj, PyObject *args)
{
    struct plan *self = (struct plan *)obj;
    struct hr_stage_options options;
    struct pipe_args pipe = {0};
    struct hr_op op = {0};
    struct hr_error err = {0};

    if (hrpy_plan_check_open(self) ||
        !PyArg_ParseTuple(args, "O!sIpOO:pipe_native", hrpy_plan_state_of(obj)->op_type,
                          &pipe.op, &pipe.name, &pipe.concurrency, &pipe.input_order,
                          &pipe.key, &pipe.limit) ||
        parse_options(&pipe, &options) || lend_op(pipe.op, &op))
        return NULL;
    enum hr_status status = hr_plan_pipe(self->plan, &op, &options, &err);
    hr_op_free(&op);
    return done(obj, status, &err);
}

static int kind_of(const char *text, enum hrpy_op_kind *out)
{
    if (strcmp(text, "function") == 0)
        *out = HRPY_FUNCTION;
    else if (strcmp(text, "generator") == 0)
        *out = HRPY_GENERATOR;
    else if (strcmp(text, "iterate") == 0)
        *out = HRPY_ITERATE;
    else if (strcmp(text, "coroutine") == 0)
        *out = HRPY_COROUTINE;
    else if (strcmp(text, "async generator") == 0)
        *out = HRPY_ASYNC_GENERATOR;
    else if (strcmp(text, "submit") == 0)
        *out = HRPY_SUBMIT;
    else
        return PyErr_Format(PyExc_ValueError, "unknown kind of op '%s'", text), -1;
    return 0;
}

PyObject *hrpy_plan_pipe_python(PyObject *obj, PyObject *args)
{
    struct plan *self = (struct plan *)obj;
    struct hr_stage_options options;
    struct pipe_args pipe = {0};
    struct hr_foreign foreign = {0};
    struct hr_error err = {0};
    enum hrpy_op_kind kind = HRPY_FUNCTION;
    int per_worker = 0;

    if (!PyArg_ParseTuple(args, "OssIpOOO|p:pipe_python", &pipe.op, &pipe.kind,
                          &pipe.name, &pipe.concurrency, &pipe.input_order, &pipe.key,
                          &pipe.limit, &pipe.spec, &per_worker) ||
        kind_of(pipe.kind, &kind) || parse_options(&pipe, &options) ||
        new_foreign(self, kind, pipe.op, pipe.spec, &foreign))
        return NULL;
    bool on_loop =
        kind == HRPY_COROUTINE || kind == HRPY_ASYNC_GENERATOR || kind == HRPY_SUBMIT;
    bool expand =
        kind == HRPY_GENERATOR || kind == HRPY_ITERATE || kind == HRPY_ASYNC_GENERATOR;
    enum hr_status status =
        hr__plan_foreign_pipe(self->plan, &foreign, expand, &options, &err);
    if (status == HR_OK && on_loop)
        hr__plan_on_loop(self->plan);
    if (status == HR_OK && per_worker)
        hrpy_python_op_per_worker(self->ops[self->op_count - 1]);
    return drop_refused(obj, status, &foreign, &err);
}

PyObject *hrpy_plan_aggregate(PyObject *obj, PyObject *args)
{
    struct plan *self = (struct plan *)obj;
    struct hr_error err = {0};
    unsigned int n;
    int drop_last, columns;

    if (hrpy_plan_check_open(self) ||
        !PyArg_ParseTuple(args, "Ipp:aggregate", &n, &drop_last, &columns))
        return NULL;
    enum hr_status status = hr_plan_aggregate(self->plan, n, drop_last, columns, &err);
    return done(obj, status, &err);
}

PyObject *hrpy_plan_fold(PyObject *obj, PyObject *args)
{
    struct plan *self = (struct plan *)obj;
    struct hr_stage_options options = {0};
    struct hr_foreign foreign = {0};
    struct hr_error err = {0};
    PyObject *accumulate, *flush, *limit, *spec;
    int drop_last;

    if (!PyArg_ParseTuple(args, "OOspOO:fold", &accumulate, &flush, &options.name,
                          &drop_last, &limit, &spec) ||
        parse_max_failures(limit, &options) ||
        new_foreign(self, HRPY_FOLD, accumulate, spec, &foreign))
        return NULL;
    hrpy_python_op_set_flush(self->ops[self->op_count - 1], flush);
    enum hr_status status =
        hr__plan_foreign_fold(self->plan, &foreign, drop_last, &options, &err);
    return drop_refused(obj, status, &foreign, &err);
}

/* specs: what items become in each path. */
PyObject *hrpy_plan_route(PyObject *obj, PyObject *args)
{
    struct plan *self = (struct plan *)obj;
    struct hr_foreign foreign = {0};
    struct hr_error err = {0};
    PyObject *router, *specs, *object = NULL;
    const char *name;

    if (!PyArg_ParseTuple(args, "OsO!:route", &router, &name, &PyTuple_Type, &specs) ||
        !(object = PyUnicode_FromString("object")))
        return NULL;
    int failed = new_foreign(self, HRPY_ROUTE, router, object, &foreign);
    Py_DECREF(object);
    if (failed)
        return NULL;
    if (hrpy_python_op_set_paths(self->ops[self->op_count - 1], specs)) {
        foreign.cls->free_state(foreign.state);
        return NULL;
    }
    enum hr_status status = hr__plan_foreign_route(self->plan, name, &foreign, &err);
    return drop_refused(obj, status, &foreign, &err);
}

PyObject *hrpy_plan_path(PyObject *obj, PyObject *unused)
{
    struct plan *self = (struct plan *)obj;
    struct hr_error err = {0};

    (void)unused;
    if (hrpy_plan_check_open(self))
        return NULL;
    return done(obj, hr_plan_path(self->plan, &err), &err);
}

PyObject *hrpy_plan_join(PyObject *obj, PyObject *unused)
{
    struct plan *self = (struct plan *)obj;
    struct hr_error err = {0};

    (void)unused;
    if (hrpy_plan_check_open(self))
        return NULL;
    return done(obj, hr_plan_join(self->plan, &err), &err);
}

PyObject *hrpy_plan_branch(PyObject *obj, PyObject *unused)
{
    struct plan *self = (struct plan *)obj;
    struct hr_error err = {0};

    (void)unused;
    if (hrpy_plan_check_open(self))
        return NULL;
    return done(obj, hr_plan_branch(self->plan, &err), &err);
}

PyObject *hrpy_plan_merge(PyObject *obj, PyObject *args)
{
    struct plan *self = (struct plan *)obj;
    struct hr_error err = {0};
    unsigned int n;

    if (hrpy_plan_check_open(self) || !PyArg_ParseTuple(args, "I:merge", &n))
        return NULL;
    return done(obj, hr_plan_merge(self->plan, n, &err), &err);
}

PyObject *hrpy_plan_on_error(PyObject *obj, PyObject *raises)
{
    struct plan *self = (struct plan *)obj;
    struct hr_error err = {0};
    int truth = PyObject_IsTrue(raises);

    if (truth < 0 || hrpy_plan_check_open(self))
        return NULL;
    enum hr_on_error on_error = truth ? HR_ON_ERROR_RAISE : HR_ON_ERROR_SKIP;
    return done(obj, hr_plan_on_error(self->plan, on_error, &err), &err);
}

/* on: exceptions, of a stage in Python; None: the stage is native. */
PyObject *hrpy_plan_retry(PyObject *obj, PyObject *args)
{
    struct plan *self = (struct plan *)obj;
    struct hr_retry_policy policy = {0};
    struct hr_error err = {0};
    unsigned long long statuses;
    long long backoff_ns, backoff_max_ns;
    PyObject *on;

    if (hrpy_plan_check_open(self) ||
        !PyArg_ParseTuple(args, "ILLKO:retry", &policy.times, &backoff_ns,
                          &backoff_max_ns, &statuses, &on))
        return NULL;
    policy.backoff_ns = backoff_ns;
    policy.backoff_max_ns = backoff_max_ns;
    policy.statuses = statuses;
    enum hr_status status = hr_plan_retry(self->plan, &policy, &err);
    if (status == HR_OK && on != Py_None)
        hrpy_python_op_retry(self->ops[self->op_count - 1], on);
    return done(obj, status, &err);
}

PyObject *hrpy_plan_timeout(PyObject *obj, PyObject *timeout_ns)
{
    struct plan *self = (struct plan *)obj;
    struct hr_error err = {0};
    long long ns = PyLong_AsLongLong(timeout_ns);

    if ((ns == -1 && PyErr_Occurred()) || hrpy_plan_check_open(self))
        return NULL;
    return done(obj, hr__plan_timeout(self->plan, ns, &err), &err);
}

PyObject *hrpy_plan_disaggregate(PyObject *obj, PyObject *unused)
{
    struct plan *self = (struct plan *)obj;
    struct hr_error err = {0};

    (void)unused;
    if (hrpy_plan_check_open(self))
        return NULL;
    return done(obj, hr_plan_disaggregate(self->plan, &err), &err);
}

PyObject *hrpy_plan_sink(PyObject *obj, PyObject *args)
{
    struct plan *self = (struct plan *)obj;
    struct hr_error err = {0};
    unsigned int n;

    if (hrpy_plan_check_open(self) || !PyArg_ParseTuple(args, "I:sink", &n))
        return NULL;
    return done(obj, hr_plan_sink(self->plan, n, &err), &err);
}
