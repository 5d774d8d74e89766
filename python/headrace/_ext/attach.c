/* attach.c - where the core's threads meet Python: the runtime of the engine, and
 * releases that must wait until somebody is attached.
 *
 * A worker that runs Python keeps one thread state for its life, made by itself on first
 * use: restore and save then cost 0.3 µs together, PyGILState_Ensure costs several.
 *
 * The end. Once finalization has begun, a thread that attaches is ended by force inside
 * the call (3.13 and older) or sleeps for ever (3.14). So hooks that run before it
 * (headrace.pipeline._exit) stop every pipeline and then call hrpy_attach_end: from then
 * on attach() refuses, and thread states that are left are the interpreter's to clear.
 * A thread that is past the check when the flag is set holds no lock of the core.
 *
 * Native items may own things that belong to Python: references to objects (labels,
 * the bytes a source yielded) and Py_buffer views. The core releases an item in
 * whichever thread is done with it, most often a worker that is not attached, and there
 * neither Py_DECREF nor PyBuffer_Release may be called. Attaching for it would make
 * native work wait for the GIL (5 ms each against a computing main thread), so the
 * release is queued instead: {drop, ptr} under a leaf mutex. Every function of the
 * extension drains the queue on its way in, and again when it is back from native work.
 *
 * The queue is one for the process, since a release knows no module. The drain takes
 * entries out in small batches onto its own stack and calls them with the mutex
 * dropped, for a destructor may run any Python, this file included. The mutex is held
 * for some stores and never across Python, so that an attached thread may wait for it.
 *
 * Py_AddPendingCall would need no drain points, but holds 32 entries, fails when full,
 * and runs them in the main thread only.
 *
 * When the queue cannot grow, the reference is leaked: memory is gone then, and a leak
 * is the only outcome that is neither a crash nor a wait. */
#include "foreign.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/log.h"
#include "base/mem.h"

#define DRAIN_BATCH 32
#define QUEUE_START 64

struct pending {
    void (*drop)(void *ptr);
    void *ptr;
};

static struct {
    struct hr_mutex mutex;
    /* under mutex */
    struct pending *items;
    size_t count;
    size_t capacity;
    /* atomic: written under mutex, read without it to skip an idle queue; relaxed, for
     * an entry that is missed now is taken by the next drain */
    _Atomic size_t waiting;
} queue = {.mutex = HR_MUTEX_INIT(HR_RANK_FOREIGN)};

bool hrpy_is_attached(void)
{
#if PY_VERSION_HEX >= 0x030D0000
    return PyThreadState_GetUnchecked() != NULL;
#elif PY_VERSION_HEX >= 0x030C0000
    return _PyThreadState_UncheckedGet() != NULL;
#else
    /* 3.11 answers with the state of whichever thread holds the GIL. PyGILState_Check
     * makes this comparison too, but says "yes" to everybody once a sub-interpreter
     * has existed. */
    PyThreadState *mine = PyGILState_GetThisThreadState();

    return mine != NULL && mine == _PyThreadState_UncheckedGet();
#endif
}

static bool grow_locked(void)
{
    size_t capacity = queue.capacity ? 2 * queue.capacity : QUEUE_START;
    struct pending *items = hr__realloc(queue.items, capacity, sizeof(*items));

    if (!items)
        return false;
    queue.items = items;
    queue.capacity = capacity;
    return true;
}

static bool push(struct pending entry)
{
    bool room;

    hr__mutex_lock(&queue.mutex);
    room = queue.count < queue.capacity || grow_locked();
    if (room) {
        queue.items[queue.count++] = entry;
        atomic_store_explicit(&queue.waiting, queue.count, memory_order_relaxed);
    }
    hr__mutex_unlock(&queue.mutex);
    return room;
}

static size_t take(struct pending *batch)
{
    size_t n;

    hr__mutex_lock(&queue.mutex);
    n = queue.count < DRAIN_BATCH ? queue.count : DRAIN_BATCH;
    queue.count -= n;
    for (size_t i = 0; i < n; i++)
        batch[i] = queue.items[queue.count + i];
    atomic_store_explicit(&queue.waiting, queue.count, memory_order_relaxed);
    hr__mutex_unlock(&queue.mutex);
    return n;
}

void hrpy_defer(void (*drop)(void *ptr), void *ptr)
{
    if (hrpy_is_attached())
        drop(ptr);
    else if (!push((struct pending){drop, ptr}))
        hr__log(HR_LOG_WARNING, "no memory to queue a release; a reference is leaked");
}

static void drop_object(void *ptr)
{
    Py_DECREF((PyObject *)ptr);
}

void hrpy_decref(PyObject *obj)
{
    hrpy_defer(drop_object, obj);
}

void hrpy_drain_decrefs(void)
{
    struct pending batch[DRAIN_BATCH];

    while (atomic_load_explicit(&queue.waiting, memory_order_relaxed) > 0) {
        size_t n = take(batch);

        for (size_t i = 0; i < n; i++)
            batch[i].drop(batch[i].ptr);
    }
}

/* ---- the runtime ---- */

static PyInterpreterState *interpreter; /* const after the module was loaded */
static _Atomic bool ended;              /* release in _end, acquire where it is read */
static _Thread_local bool core_thread;

/* Public since 3.13. */
static bool interpreter_is_ending(void)
{
#if PY_VERSION_HEX >= 0x030D0000
    return Py_IsFinalizing();
#else
    return _Py_IsFinalizing();
#endif
}

bool hrpy_attach_ended(void)
{
    return atomic_load_explicit(&ended, memory_order_acquire) ||
           interpreter_is_ending();
}

void hrpy_attach_end(void)
{
    atomic_store_explicit(&ended, true, memory_order_release);
}

bool hrpy_is_core_thread(void)
{
    return core_thread;
}

void hrpy_set_core_thread(bool is)
{
    core_thread = is;
}

static void *thread_new(void)
{
    core_thread = true;
    return hrpy_attach_ended() ? NULL : PyThreadState_New(interpreter);
}

static bool attach(void *thread)
{
    if (hrpy_attach_ended())
        return false;
    PyEval_RestoreThread(thread);
    hrpy_drain_decrefs();
    return true;
}

static void detach(void *thread)
{
    (void)thread;
    (void)PyEval_SaveThread();
}

static void thread_free(void *thread)
{
    if (!attach(thread))
        return;
    PyThreadState_Clear(thread);
    PyThreadState_DeleteCurrent();
}

/* Python ends such a thread itself when it comes too late. */
static void reenter(void *thread)
{
    PyEval_RestoreThread(thread);
}

static struct hr_runtime runtime = {
    .thread_new = thread_new,
    .attach = attach,
    .detach = detach,
    .thread_free = thread_free,
    .reenter = reenter,
    .start_loop = hrpy_bridge_start_late,
    .drop_loop = hrpy_bridge_drop,
};

const struct hr_runtime *hrpy_runtime(void)
{
    return &runtime;
}

/* A free-threaded build may run with a GIL all the same. */
static bool gil_is_absent(void)
{
#ifdef Py_GIL_DISABLED
    PyObject *ask = PySys_GetObject("_is_gil_enabled"); /* borrowed */
    PyObject *answer = ask ? PyObject_CallNoArgs(ask) : NULL;
    bool absent = answer == Py_False;

    Py_XDECREF(answer);
    PyErr_Clear();
    return absent;
#else
    return false;
#endif
}

/* The threads of the parent are not in a forked child: what they queued, and a lock that
 * one of them held, are left behind. The one that forked is the child's main thread, and
 * works for no pipeline of the child. */
static void after_fork_in_child(void)
{
    core_thread = false;
    hr__mutex_init(&queue.mutex, HR_RANK_FOREIGN);
    queue.items = NULL;
    queue.count = 0;
    queue.capacity = 0;
    atomic_store_explicit(&queue.waiting, 0, memory_order_relaxed);
}

int hrpy_attach_init(void)
{
    bool first = interpreter == NULL;

    interpreter = PyInterpreterState_Get();
    runtime.parallel = gil_is_absent();
    if (first && pthread_atfork(NULL, NULL, after_fork_in_child)) {
        PyErr_NoMemory();
        return -1;
    }
    return 0;
}

PyThreadState *hrpy_detach(void)
{
    return PyEval_SaveThread();
}

void hrpy_reattach(PyThreadState *detached)
{
    PyEval_RestoreThread(detached);
    hrpy_drain_decrefs();
}
