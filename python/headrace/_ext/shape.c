/* shape.c - how the outputs of a source or a Python op become values.
 *
 * The Python face works out, from the stages that follow, what a value has to be: the
 * object itself (for a Python op or the consumer), a path or bytes, a list of them, an
 * array, or a record with such fields. So objects are converted once, by the thread
 * that is attached anyway, and native stages find native values.
 *
 * A source cannot fail for one item: its failure ends it. What a source yields and the
 * next stage cannot use therefore travels on as a *misfit*: a value of a class of its
 * own, whose name ("int (expected a path ...)") finds its way into the message of the
 * stage that refuses it. */
#include "foreign.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"

/* ---- misfits ---- */

struct misfit {
    struct hr_value_class cls; /* this value's own */
    PyObject *obj;
    _Atomic uint32_t refs; /* dropped acq_rel: the last one sees what the others did */
    char name[200];
};

static void misfit_release(struct hr_value *value)
{
    struct misfit *misfit = value->ptr;

    if (atomic_fetch_sub_explicit(&misfit->refs, 1, memory_order_acq_rel) > 1)
        return;
    hrpy_decref(misfit->obj);
    hr__free(misfit);
}

static struct hr_value misfit_share(const struct hr_value *value)
{
    struct misfit *misfit = value->ptr;

    /* relaxed: the caller's own reference keeps it alive */
    atomic_fetch_add_explicit(&misfit->refs, 1, memory_order_relaxed);
    return *value;
}

PyObject *hrpy_misfit_peek(const struct hr_value *value)
{
    if (!value->cls || value->cls->release != misfit_release)
        return NULL;
    return ((const struct misfit *)value->ptr)->obj;
}

/* Turn the exception that is set into a misfit. */
static int misfit_new(PyObject *obj, struct hr_value *out)
{
    if (!PyErr_ExceptionMatches(PyExc_Exception))
        return -1; /* Ctrl-C is nobody's misfit */
    struct misfit *misfit = hr__calloc(1, sizeof(*misfit));
    if (!misfit)
        return -1;
    PyObject *exc = hrpy_raised_take();
    struct hr_error err = {0};
    hrpy_raised_describe(exc, &err);
    Py_DECREF(exc);
    const char *why = strstr(err.text, ": "); /* after the exception's type */
    (void)snprintf(misfit->name, sizeof(misfit->name), "%.60s (%.130s)",
                   Py_TYPE(obj)->tp_name, why ? why + 2 : err.text);
    misfit->cls.name = misfit->name;
    misfit->cls.release = misfit_release;
    misfit->cls.share = misfit_share;
    atomic_init(&misfit->refs, 1);
    misfit->obj = Py_NewRef(obj);
    *out = (struct hr_value){&misfit->cls, misfit};
    return 0;
}

/* ---- specs ---- */

static int want_of(PyObject *text, enum hrpy_want *out)
{
    static const char *const names[] = {
        [HRPY_WANT_OBJECT] = "object", [HRPY_WANT_SOURCE] = "source",
        [HRPY_WANT_LIST] = "list",     [HRPY_WANT_ARRAY] = "array",
        [HRPY_WANT_ARRAYS] = "arrays",
    };
    size_t n = PyUnicode_Check(text) ? sizeof(names) / sizeof(names[0]) : 0;

    for (size_t i = 0; i < n; i++) {
        if (PyUnicode_CompareWithASCIIString(text, names[i]) == 0) {
            *out = (enum hrpy_want)i;
            return 0;
        }
    }
    PyErr_Format(PyExc_ValueError, "want must be a known word, got %R", text);
    return -1;
}

static int field_init(struct hrpy_field *field, PyObject *spec)
{
    PyObject *key, *want;

    if (!PyTuple_Check(spec) || !PyArg_ParseTuple(spec, "OO", &key, &want))
        return -1;
    if (want_of(want, &field->want))
        return -1;
    if (!PyUnicode_Check(key)) {
        field->index = PyLong_AsSsize_t(key);
        return field->index == -1 && PyErr_Occurred() ? -1 : 0;
    }
    const char *name = PyUnicode_AsUTF8(key);
    field->name = name ? hr__strdup(name) : NULL;
    if (name && !field->name)
        PyErr_NoMemory();
    return field->name ? 0 : -1;
}

int hrpy_shape_init(struct hrpy_shape *shape, PyObject *spec)
{
    memset(shape, 0, sizeof(*shape));
    if (!PyTuple_Check(spec))
        return want_of(spec, &shape->want);
    shape->record = true;
    size_t n = (size_t)PyTuple_GET_SIZE(spec);
    shape->fields = hr__calloc(n ? n : 1, sizeof(*shape->fields));
    if (!shape->fields) {
        PyErr_NoMemory();
        return -1;
    }
    for (size_t i = 0; i < n; i++) {
        shape->field_count++;
        if (field_init(&shape->fields[i], PyTuple_GET_ITEM(spec, (Py_ssize_t)i)))
            return -1;
    }
    return 0;
}

void hrpy_shape_fini(struct hrpy_shape *shape)
{
    struct hr_keys *keys = atomic_load_explicit(&shape->keys, memory_order_acquire);

    hr_keys_unref(&keys);
    for (size_t i = 0; i < shape->field_count; i++)
        hr__free(shape->fields[i].name);
    hr__free(shape->fields);
    memset(shape, 0, sizeof(*shape));
}

/* ---- leaves ---- */

static int import_leaf(struct hrpy_state *state, PyObject *obj, enum hrpy_want want,
                       bool lenient, struct hr_value *out)
{
    if (want == HRPY_WANT_OBJECT) {
        *out = hrpy_value_of_object(obj);
        return 0;
    }
    if (want != HRPY_WANT_LIST && want != HRPY_WANT_ARRAYS &&
        (PyTuple_Check(obj) || PyDict_Check(obj)))
        PyErr_Format(PyExc_TypeError,
                     "pass key= to apply the native op that follows to one field of "
                     "the %s",
                     Py_TYPE(obj)->tp_name);
    else if (hrpy_import(state, obj, want, out) == 0)
        return 0;
    return lenient ? misfit_new(obj, out) : -1;
}

/* ---- records ---- */

/* The keys of a record with these names (NULL: a tuple), from the cache if they are the
 * same. A new reference. */
static struct hr_keys *keys_of(struct hrpy_shape *shape, size_t n,
                               const char *const *names)
{
    struct hr_keys *have = atomic_load_explicit(&shape->keys, memory_order_acquire);
    bool same = have && hr_keys_size(have) == n;

    for (size_t i = 0; same && i < n; i++) {
        const char *name = hr_keys_name(have, i);
        same = names ? name && strcmp(name, names[i]) == 0 : !name;
    }
    if (same)
        return hr_keys_ref(have);
    struct hr_keys *keys = NULL;
    if (hr_keys_new(n, names, &keys) != HR_OK) {
        PyErr_NoMemory();
        return NULL;
    }
    if (!have) {
        struct hr_keys *none = NULL;
        struct hr_keys *cached = hr_keys_ref(keys);
        /* Pairs with the acquiring loads above. */
        if (!atomic_compare_exchange_strong_explicit(&shape->keys, &none, cached,
                                                     memory_order_acq_rel,
                                                     memory_order_acquire))
            hr_keys_unref(&cached);
    }
    return keys;
}

static bool is_field(const struct hrpy_field *field, size_t i, size_t n,
                     const char *name)
{
    if (name || field->name)
        return name && field->name && strcmp(name, field->name) == 0;
    Py_ssize_t index = field->index < 0 ? field->index + (Py_ssize_t)n : field->index;
    return index == (Py_ssize_t)i;
}

/* What field i of n is wanted as. */
static enum hrpy_want want_of_field(const struct hrpy_shape *shape, size_t i, size_t n,
                                    const char *name)
{
    for (size_t f = 0; f < shape->field_count; f++)
        if (shape->fields[f].want != HRPY_WANT_OBJECT &&
            is_field(&shape->fields[f], i, n, name))
            return shape->fields[f].want;
    return HRPY_WANT_OBJECT;
}

/* values[n], borrowed, stay alive meanwhile. */
static int import_fields(struct hrpy_state *state, struct hrpy_shape *shape, size_t n,
                         const char *const *names, PyObject *const *values,
                         bool lenient, struct hr_value *out)
{
    struct hr_keys *keys = keys_of(shape, n, names);

    if (!keys)
        return -1;
    enum hr_status status = hr_record_new(keys, out);
    hr_keys_unref(&keys);
    if (status != HR_OK) {
        PyErr_NoMemory();
        return -1;
    }
    struct hr_value *fields = hr_record_peek(out);
    for (size_t i = 0; i < n; i++) {
        enum hrpy_want want = want_of_field(shape, i, n, names ? names[i] : NULL);
        if (import_leaf(state, values[i], want, lenient, &fields[i])) {
            hr_value_release(out);
            return -1;
        }
    }
    return 0;
}

enum { FIELDS_MAX = 64 };

static int check_width(size_t n)
{
    if (n <= FIELDS_MAX)
        return 0;
    PyErr_Format(PyExc_TypeError, "a record has at most %d fields, found %zu",
                 FIELDS_MAX, n);
    return -1;
}

/* items: the dict's (name, value) pairs; a copy, since conversions may run Python. */
static int import_pairs(struct hrpy_state *state, struct hrpy_shape *shape,
                        PyObject *items, bool lenient, struct hr_value *out)
{
    const char *names[FIELDS_MAX];
    PyObject *values[FIELDS_MAX];
    size_t n = (size_t)PyList_GET_SIZE(items);

    if (check_width(n))
        return -1;
    for (size_t i = 0; i < n; i++) {
        PyObject *pair = PyList_GET_ITEM(items, (Py_ssize_t)i);
        PyObject *name = PyTuple_GET_ITEM(pair, 0);
        if (!PyUnicode_Check(name)) {
            PyErr_Format(
                PyExc_TypeError,
                "the keys of a dict used as a record must be str, found %.100s",
                Py_TYPE(name)->tp_name);
            return -1;
        }
        Py_ssize_t size;
        names[i] = PyUnicode_AsUTF8AndSize(name, &size);
        if (!names[i])
            return -1;
        if (strlen(names[i]) != (size_t)size) {
            PyErr_Format(PyExc_ValueError,
                         "the keys of a dict used as a record must not contain a NUL "
                         "character, found %R",
                         name);
            return -1;
        }
        values[i] = PyTuple_GET_ITEM(pair, 1);
    }
    return import_fields(state, shape, n, names, values, lenient, out);
}

static int import_record(struct hrpy_state *state, struct hrpy_shape *shape,
                         PyObject *obj, bool lenient, struct hr_value *out)
{
    if (PyTuple_Check(obj)) {
        size_t n = (size_t)PyTuple_GET_SIZE(obj);
        if (check_width(n))
            return -1;
        return import_fields(state, shape, n, NULL, ((PyTupleObject *)obj)->ob_item,
                             lenient, out);
    }
    if (!PyDict_Check(obj)) {
        PyErr_Format(PyExc_TypeError,
                     "key= and columns=True need a record, a tuple or a dict; found "
                     "%.100s",
                     Py_TYPE(obj)->tp_name);
        return -1;
    }
    PyObject *items = PyDict_Items(obj);
    if (!items)
        return -1;
    int result = import_pairs(state, shape, items, lenient, out);
    Py_DECREF(items);
    return result;
}

int hrpy_shape_import(struct hrpy_state *state, struct hrpy_shape *shape, PyObject *obj,
                      bool lenient, struct hr_value *out)
{
    *out = HR_VALUE_EMPTY;
    if (!shape->record)
        return import_leaf(state, obj, shape->want, lenient, out);
    if (import_record(state, shape, obj, lenient, out) == 0)
        return 0;
    return lenient ? misfit_new(obj, out) : -1;
}
