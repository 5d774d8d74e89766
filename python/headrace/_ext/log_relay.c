/* log_relay.c - messages of the core, handed to the logging module.
 *
 * The core logs from any thread, under its log lock, mostly unattached. Messages wait in
 * a ring and are emitted by the next thread that is in next() or stop(): attached,
 * without any lock, and in the user's own thread. One producer at a time (the core's log
 * lock), one consumer at a time (`flushing`), so head and tail are all that is shared.
 * A full ring drops the newest message and counts it. */
#include "foreign.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"

enum { RING = 64 };

struct message {
    enum hr_log_level level;
    char text[512];
};

static struct {
    struct message messages[RING];
    _Atomic uint32_t tail; /* producer: release after writing a message; acquire */
    _Atomic uint32_t head; /* consumer: release after reading one; acquire */
    _Atomic uint32_t lost; /* relaxed: a count */
    atomic_flag flushing;  /* acquire on entry, release on exit */
} ring = {.flushing = ATOMIC_FLAG_INIT};

static void receive(void *cookie, enum hr_log_level level, const char *text)
{
    uint32_t tail = atomic_load_explicit(&ring.tail, memory_order_relaxed);

    (void)cookie;
    if (tail - atomic_load_explicit(&ring.head, memory_order_acquire) == RING) {
        atomic_fetch_add_explicit(&ring.lost, 1, memory_order_relaxed);
        return;
    }
    struct message *message = &ring.messages[tail % RING];
    message->level = level;
    (void)snprintf(message->text, sizeof(message->text), "%s", text);
    atomic_store_explicit(&ring.tail, tail + 1, memory_order_release);
}

void hrpy_log_init(void)
{
    hr__log_set(receive, NULL);
}

static void emit(PyObject *logger, int level, const char *text)
{
    PyObject *message = PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
    PyObject *done = NULL;

    if (message)
        done = PyObject_CallMethod(logger, "log", "isO", level, "%s", message);
    if (!done)
        PyErr_WriteUnraisable(logger);
    Py_XDECREF(done);
    Py_XDECREF(message);
}

static bool pop(struct message *out)
{
    uint32_t head = atomic_load_explicit(&ring.head, memory_order_relaxed);

    if (head == atomic_load_explicit(&ring.tail, memory_order_acquire))
        return false;
    *out = ring.messages[head % RING];
    atomic_store_explicit(&ring.head, head + 1, memory_order_release);
    return true;
}

static void flush(PyObject *logger)
{
    struct message message;

    while (pop(&message))
        emit(logger, (int)message.level, message.text);
    uint32_t lost = atomic_exchange_explicit(&ring.lost, 0, memory_order_relaxed);
    if (lost) {
        (void)snprintf(message.text, sizeof(message.text),
                       "%u more messages came faster than they could be logged", lost);
        emit(logger, HR_LOG_WARNING, message.text);
    }
}

void hrpy_log_flush(struct hrpy_state *state)
{
    /* A message missed by the relaxed look is emitted next time. */
    if (atomic_load_explicit(&ring.head, memory_order_relaxed) ==
        atomic_load_explicit(&ring.tail, memory_order_relaxed))
        return;
    if (atomic_flag_test_and_set_explicit(&ring.flushing, memory_order_acquire))
        return;
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    flush(state->logger);
    PyErr_Restore(type, value, traceback);
    atomic_flag_clear_explicit(&ring.flushing, memory_order_release);
}
