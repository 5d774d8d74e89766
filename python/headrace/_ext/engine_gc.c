/* engine_gc.c - what the garbage collector sees of a pipeline whose run has ended.
 *
 * Items that wait for the consumer and exceptions that are listed may lead back to the
 * pipeline; an exception that was raised does whenever its traceback has a frame with
 * the pipeline in it. The collector counts: a reference may be visited once, by its only
 * owner. So what has several holders in the core (a record whose copies share their
 * fields) is not visited, which keeps it alive, and an exception that is listed and also
 * ends the run is visited in the list.
 *
 * The engine's lock is waited for, attached: once a run has ended it is held for some
 * loads and stores, by nobody who waits for Python. And the answer must not depend on
 * whether it is free, for one collection asks several times. */
#include "engine_object.h"

#include "base/tree.h"

enum { DEPTH_MAX = 32 };

struct visit {
    visitproc fn;
    void *arg;
};

static int visit_value(const struct hr_value *value, const struct visit *visit,
                       int depth);

static int visit_values(const struct hr_value *values, size_t n,
                        const struct visit *visit, int depth)
{
    int result = 0;

    for (size_t i = 0; i < n && result == 0; i++)
        result = visit_value(&values[i], visit, depth);
    return result;
}

static int visit_value(const struct hr_value *value, const struct visit *visit,
                       int depth)
{
    if (value->cls == &hrpy_object_class)
        return visit->fn(value->ptr, visit->arg);
    if (depth == DEPTH_MAX)
        return 0;
    if (value->cls == &hr_list_class && hr__tree_is_sole(value))
        return visit_values(hr_list_peek(value), hr_list_size(value), visit, depth + 1);
    if (value->cls == &hr_record_class && hr__tree_is_sole(value))
        return visit_values(hr_record_peek(value),
                            hr_keys_size(hr_record_peek_keys(value)), visit, depth + 1);
    return 0;
}

static int visit_held(const struct hr_value *value, bool listed, void *cookie)
{
    const struct visit *visit = cookie;
    bool sole;
    PyObject *exc = hrpy_raised_peek(value, &sole);

    if (!exc)
        return visit_value(value, visit, 0);
    return listed || sole ? visit->fn(exc, visit->arg) : 0;
}

int hrpy_visit_pipeline(struct hr_pipeline *pipeline, visitproc visit, void *arg)
{
    struct visit all = {visit, arg};

    return hr__pipeline_visit(pipeline, visit_held, &all);
}
