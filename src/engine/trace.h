/* trace.h - a trace of a run: what each thread did, and when.
 *
 * Each thread has a ring of its own, which it alone writes, without a lock. Off, the
 * engine looks at one pointer per task and takes the branch that it always takes. */
#ifndef HR_ENGINE_TRACE_H
#define HR_ENGINE_TRACE_H

#include <stdatomic.h>
#include <stdint.h>

#include "engine/item.h"

enum hr_trace_kind {
    HR_TRACE_TASK,   /* of a stage */
    HR_TRACE_PULL,   /* of the source */
    HR_TRACE_SLOT,   /* of a fork-join */
    HR_TRACE_ATTACH, /* waits to enter the host language */
    HR_TRACE_PARK,   /* nothing to do */
    HR_TRACE_JOIN,   /* waits for other threads' slots */
    HR_TRACE_NEXT,   /* consumer: next(), if it gave an item */
    HR_TRACE_WAIT,   /* consumer: nothing is ready */
    HR_TRACE_EPOCH   /* ends; takes no time */
};

enum { HR_TRACE_LABEL = 92 };

struct hr_trace_event {
    int64_t begin_ns, end_ns;
    int64_t item;    /* source index; -1: none */
    int32_t stage;   /* -1: none */
    uint32_t number; /* of the slot; of the items that came out of a pull */
    uint32_t kind;
    char label[HR_TRACE_LABEL]; /* its end, if it is longer */
};

struct hr_trace_ring {
    /* const once the ring is in use */
    struct hr_trace_event *events;
    uint32_t events_max;
    /* owned by the thread */
    int64_t delivered; /* consumer: the item it took last */
    /* atomic: written by the thread (release), read by who writes the file (acquire) */
    _Atomic uint32_t count;
    _Atomic uint64_t lost; /* relaxed: a count */
};

struct hr_trace_what {
    enum hr_trace_kind kind;
    int32_t stage;
    int64_t item;
    uint32_t number;
    const struct hr_value *label; /* NULL or a text or empty */
};

/* For the thread that owns the ring. */
void hr__trace_add(struct hr_trace_ring *ring, const struct hr_trace_what *what,
                   int64_t begin_ns, int64_t end_ns);
/* A task that is over now; returns the time. */
int64_t hr__trace_task(struct hr_trace_ring *ring, const struct hr_claim *claim,
                       const struct hr_item *item, int64_t begin_ns);

enum { HR_TRACE_CONSUMERS_MAX = 16 };

struct hr_trace_consumer {
    /* atomic: the thread (pthread_self); 0: unused. Taken by the thread itself. Relaxed:
     * nobody else looks at what it guards before `ready`. */
    _Atomic uintptr_t owner;
    /* atomic: release by the owner once the ring has its memory, acquire at the end */
    _Atomic uint32_t ready;
    struct hr_trace_ring ring;
};

struct hr_trace {
    /* const after creation */
    char *path;
    int fd;
    uint32_t events_max;
    struct hr_trace_ring *workers;
    uint32_t worker_count;
    /* see there */
    struct hr_trace_consumer consumers[HR_TRACE_CONSUMERS_MAX];
    _Atomic uint64_t lost; /* of threads without a ring; relaxed: a count */
    /* under the pipeline's lock */
    struct hr_trace *older;
};

struct hr_stage;
struct hr_pipeline;

/* ---- trace_file.c ---- */
/* Write the file and close it. The trace is off: rings do not grow any more, but for what
 * their threads had begun to add. */
enum hr_status hr__trace_write(struct hr_pipeline *p, struct hr_trace *trace,
                               struct hr_error *err);

#endif
