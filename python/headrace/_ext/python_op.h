/* python_op.h - the inside of struct hrpy_python_op.
 *
 *   python_op.c      calls: functions, generators, folds, routers; and its life
 *   python_source.c  iterables that are advanced */
#ifndef HRPY_PYTHON_OP_H
#define HRPY_PYTHON_OP_H

#include "foreign.h"

#include <stdatomic.h>

struct hrpy_python_op {
    /* const after creation */
    struct hrpy_state *state;
    PyObject *type; /* keeps the module alive, and so `state` */
    enum hrpy_op_kind kind;
    struct hrpy_shape shape;

    bool continuous;          /* source: iterated again and again */
    bool per_worker;          /* function, generator: see hrpy_python_op_per_worker */
    PyObject *flush;          /* fold */
    struct hrpy_shape *paths; /* router: what items become, by path */
    size_t path_count;
    PyObject *retry_on; /* function: exceptions to try again after, or NULL */
    PyObject *callable; /* const; of a source: as `iterator`, NULL after its end */
    /* source: owned by the thread that set `pulling` */
    PyObject *iterator; /* of this pass; between two, of the last one */
    bool in_pass;
    bool again; /* the pass goes over the iterator of the last one, */
    bool gave;  /* and has given something */
    /* source: set acquire, cleared release; each puller sees what the last one did */
    atomic_flag pulling;
    _Atomic uint32_t refs; /* dropped acq_rel: the last one sees what the others did */
};

static inline bool hrpy_op_is_source(const struct hrpy_python_op *op)
{
    return op->kind == HRPY_SOURCE || op->kind == HRPY_ASYNC_SOURCE;
}

/* Give what the iterator yields, up to the grant and until_ns. Nones of ops are skipped;
 * Nones of a source are items. False when the iterator is at its end or failed. */
bool hrpy_op_advance(struct hrpy_python_op *op, struct hr_call *call,
                     PyObject *iterator, int64_t until_ns);

/* ---- python_source.c ---- */
void hrpy_op_run_source(struct hrpy_python_op *op, struct hr_call *call,
                        int64_t until_ns);

#endif
