/* bridge.h - the inside of headrace._ext.Bridge, shared by its files.
 *
 *   bridge_type.c    the type; what those call who start the loop's thread
 *   async_bridge.c   the essay; the exchange; the loop comes and goes
 *   bridge_runner.c  what runners do with tasks
 *   bridge_stream.c  what they do with streams: async generators, the source */
#ifndef HRPY_BRIDGE_H
#define HRPY_BRIDGE_H

#include "foreign.h"

#include <stdatomic.h>

#include "base/sys.h"
#include "engine/async.h"

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
    /* a reference; NULL once the loop's thread has left. Written in the section; others
     * that look for it find the pipeline alive by a reference of their own */
    struct hr_pipeline *_Atomic pipeline;
    /* atomic, acq_rel: set by who rings, cleared by the loop's thread before it looks for
     * what came in */
    _Atomic bool landed;
    /* in the object's section */
    PyObject *thread; /* a threading.Thread */
    /* the loop's thread's, between begin and end */
    PyObject *call_soon, *wake, *resume, *on_state, *pump;
    struct fifo finished; /* to be handed in for good */
    struct fifo streams;  /* to be handed in with HR_TASK_MORE */
    enum hr_async_state state;
    bool scheduled; /* the pump, in this turn of the loop */
    int64_t turn_end_ns;
};

/* ---- lists ---- */

static inline void bridge_push(struct fifo *fifo, struct hr_async_task *task)
{
    task->next = NULL;
    if (fifo->last)
        fifo->last->next = task;
    else
        fifo->first = task;
    fifo->last = task;
}

static inline struct hr_async_task *bridge_pop(struct fifo *fifo)
{
    struct hr_async_task *task = fifo->first;

    fifo->first = task->next;
    if (!fifo->first)
        fifo->last = NULL;
    return task;
}

static inline struct hrpy_python_op *hrpy_bridge_op(const struct bridge *self,
                                                    const struct hr_async_task *task)
{
    return self->stages[task->stage].info.state;
}

/* ---- async_bridge.c ---- */

/* Something happens in this turn of the loop: the pump has to run in the next. 0, or -1
 * with an exception set. */
int hrpy_bridge_schedule(struct bridge *self, int64_t now_ns);
/* Hand in what is finished, distribute what came. stage: of the runner that asks, -1: the
 * pump. 0, or -1 with an exception set. */
int hrpy_bridge_exchange(struct bridge *self, int stage, int64_t now_ns);
/* Wake a runner of stage i if there is something ready and none on its way. */
int hrpy_bridge_wake(struct bridge *self, uint32_t i);
/* The task goes back as it is, in a run that is cancelled. */
void hrpy_bridge_hand_back(struct bridge *self, struct hr_async_task *task);

/* Drop what the loop gave by `begin`. */
void hrpy_bridge_forget_loop(struct bridge *self);

PyObject *hrpy_bridge_m_stages(PyObject *self, PyObject *unused);
PyObject *hrpy_bridge_m_begin(PyObject *self, PyObject *args);
PyObject *hrpy_bridge_m_enter(PyObject *self, PyObject *unused);
PyObject *hrpy_bridge_m_leave(PyObject *self, PyObject *unused);
PyObject *hrpy_bridge_m_part(PyObject *self, PyObject *unused);
PyObject *hrpy_bridge_m_pump(PyObject *self, PyObject *unused);
PyObject *hrpy_bridge_m_ring(PyObject *self, PyObject *unused);
PyObject *hrpy_bridge_m_hush(PyObject *self, PyObject *unused);
PyObject *hrpy_bridge_m_rung(PyObject *self, PyObject *unused);
PyObject *hrpy_bridge_m_fileno(PyObject *self, PyObject *unused);
PyObject *hrpy_bridge_m_fatal(PyObject *self, PyObject *exc);

/* ---- bridge_runner.c ---- */

/* The task of that number; NULL with an exception set. */
struct hr_async_task *hrpy_bridge_task(struct bridge *self, PyObject *number);
/* A stream that is listed has outputs that go with its end. */
void hrpy_bridge_unlist(struct bridge *self, struct hr_async_task *task);

PyObject *hrpy_bridge_m_take(PyObject *self, PyObject *arg);
PyObject *hrpy_bridge_m_woken(PyObject *self, PyObject *arg);
PyObject *hrpy_bridge_m_call(PyObject *self, PyObject *arg);
PyObject *hrpy_bridge_m_open(PyObject *self, PyObject *arg);
PyObject *hrpy_bridge_m_done(PyObject *self, PyObject *const *args, Py_ssize_t nargs);
PyObject *hrpy_bridge_m_fail(PyObject *self, PyObject *const *args, Py_ssize_t nargs);
PyObject *hrpy_bridge_m_item(PyObject *self, PyObject *arg);
PyObject *hrpy_bridge_m_release(PyObject *self, PyObject *arg);
PyObject *hrpy_bridge_m_late(PyObject *self, PyObject *arg);
PyObject *hrpy_bridge_m_left(PyObject *self, PyObject *args);

/* ---- bridge_stream.c ---- */

PyObject *hrpy_bridge_m_may_end(PyObject *self, PyObject *arg);
PyObject *hrpy_bridge_m_wanted(PyObject *self, PyObject *arg);
PyObject *hrpy_bridge_m_give(PyObject *self, PyObject *const *args, Py_ssize_t nargs);
PyObject *hrpy_bridge_m_repeats(PyObject *self, PyObject *arg);
PyObject *hrpy_bridge_m_epoch(PyObject *self, PyObject *arg);

#endif
