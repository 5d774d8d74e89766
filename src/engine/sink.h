/* sink.h - where finished items wait for the consumer.
 *
 * A ring with a small lock of its own, so that next() never needs the engine's. The
 * places of the ring are those of the scheduler's last edge: what the consumer takes is
 * counted as `credit`, and the next thread that holds the engine's lock hands the credit
 * to the scheduler. So next() wakes a worker only when few items are left; meanwhile
 * workers that wait for room look by themselves (see worker.c). */
#ifndef HR_ENGINE_SINK_H
#define HR_ENGINE_SINK_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/mutex.h"
#include "base/park.h"
#include "engine/item.h"

#define HR_LOOK_MIN_NS 5000000

struct hr_waiter {
    struct hr_parker parker;
    struct hr_waiter *next;
    bool listed;
};

struct hr_sink {
    /* atomic. credit and spent: added by anyone (release), taken whole by the holder of
     * the engine's lock (acquire). waiting: written under the sink's lock, read (relaxed)
     * under the engine's, as a hint that is exact for whoever registered before. */
    _Atomic uint32_t credit;
    _Atomic(struct hr_item *) spent; /* emptied items on their way back */
    _Atomic uint32_t waiting;
    _Atomic int64_t look_ns; /* see hr__pipeline_wait */
    _Atomic uint64_t epoch; /* marks taken by consumers so far; written under the sink's
                               lock. Relaxed: what comes of it is decided under the lock */

    struct hr_mutex lock;
    /* under lock */
    hr_handle *ring; /* 0: an epoch mark */
    uint32_t mask, head, count;
    uint32_t marks; /* of these entries */
    bool ended;     /* nothing comes after what is in the ring */
    bool failure_told;
    struct hr_waiter *waiters;
    int64_t waiting_since_ns; /* when the ring last ceased to be empty */
    uint64_t delivered, wait_ns;
};

/* Put an emptied item on the way back. Threads: any, attached or not. */
void hr__sink_spend(struct hr_sink *sink, struct hr_item *item);

enum hr_status hr__sink_init(struct hr_sink *sink, uint32_t capacity);
/* Releases what is left. */
void hr__sink_fini(struct hr_sink *sink);

#endif
