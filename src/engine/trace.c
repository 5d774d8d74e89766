/* trace.c - rings of events, and who writes to which.
 *
 *     worker N     workers[N]      known by number; a pointer in struct hr_worker
 *     consumer     consumers[k]    whichever is its own by pthread_self(), or unused
 *
 * A ring is written from its start to its end and not over again: what is in it stays as
 * it is, so the file can be written while threads are at work, from whatever `count` says
 * has been published. The first events_max events are kept (a trace of a few seconds; one
 * who wants to see later ones starts the trace later), the rest is counted as lost.
 *
 * A thread that has looked at its pointer just before the trace ended may still add an
 * event. Nobody waits for it: the memory stays until the pipeline is freed. */
#include "engine/trace.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/sys.h"
#include "base/utf8.h"
#include "engine/task.h"
#include "base/banned.h"

enum { EVENTS_DEFAULT = 65536, EVENTS_MAX = 1 << 24 };

/* ---- writing ---- */

/* The end of a path says more than its beginning. */
static void set_label(struct hr_trace_event *event, const struct hr_value *label)
{
    size_t len = 0;
    event->label[0] = '\0';
    if (!label || label->cls != &hr_text_class)
        return;
    const char *text = hr_text_peek(label, &len);
    if (len < HR_TRACE_LABEL) {
        memcpy(event->label, text, len);
        event->label[len] = '\0';
        return;
    }
    size_t from = len - (HR_TRACE_LABEL - 4);
    while (from < len && ((unsigned char)text[from] & 0xC0) == 0x80)
        from++; /* not in the midst of a character */
    memcpy(event->label, "...", 3);
    memcpy(event->label + 3, text + from, len - from);
    event->label[3 + len - from] = '\0';
}

void hr__trace_add(struct hr_trace_ring *ring, const struct hr_trace_what *what,
                   int64_t begin_ns, int64_t end_ns)
{
    uint32_t n = atomic_load_explicit(&ring->count, memory_order_relaxed); /* our own */
    if (n == ring->events_max) {
        atomic_fetch_add_explicit(&ring->lost, 1, memory_order_relaxed);
        return;
    }
    struct hr_trace_event *event = &ring->events[n];
    event->begin_ns = begin_ns;
    event->end_ns = end_ns;
    event->item = what->item;
    event->stage = what->stage;
    event->number = what->number;
    event->kind = what->kind;
    set_label(event, what->label);
    /* pairs with the writer of the file */
    atomic_store_explicit(&ring->count, n + 1, memory_order_release);
}

int64_t hr__trace_task(struct hr_trace_ring *ring, const struct hr_claim *claim,
                       const struct hr_item *item, int64_t begin_ns)
{
    int64_t end_ns = HR_SYS(now_ns)();
    hr__trace_add(ring,
                  &(struct hr_trace_what){HR_TRACE_TASK, (int32_t)claim->stage,
                                          item->index, claim->input_count,
                                          &item->label},
                  begin_ns, end_ns);
    return end_ns;
}

/* ---- consumers ---- */

/* The thread's own, taken if need be; NULL: all are taken by others. */
static struct hr_trace_consumer *find_consumer(struct hr_trace *trace)
{
    uintptr_t self = (uintptr_t)pthread_self();
    for (int i = 0; i < HR_TRACE_CONSUMERS_MAX; i++) {
        struct hr_trace_consumer *consumer = &trace->consumers[i];
        /* relaxed: a thread finds what it wrote itself. (One with the number of a
         * thread that ended goes on with its ring, and was started after that end.) */
        uintptr_t owner = atomic_load_explicit(&consumer->owner, memory_order_relaxed);
        if (owner == self ||
            (owner == 0 && atomic_compare_exchange_strong_explicit(
                               &consumer->owner, &owner, self, memory_order_relaxed,
                               memory_order_relaxed)))
            return consumer;
    }
    return NULL;
}

static struct hr_trace_ring *consumer_ring(struct hr_trace *trace)
{
    struct hr_trace_consumer *consumer = find_consumer(trace);
    if (consumer && !consumer->ring.events) {
        consumer->ring.events =
            hr__calloc(trace->events_max, sizeof(*consumer->ring.events));
        consumer->ring.events_max = consumer->ring.events ? trace->events_max : 0;
        consumer->ring.delivered = -1;
        /* pairs with the writer of the file */
        atomic_store_explicit(&consumer->ready, 1, memory_order_release);
    }
    if (consumer)
        return &consumer->ring;
    atomic_fetch_add_explicit(&trace->lost, 1, memory_order_relaxed);
    return NULL;
}

struct hr_trace_ring *hr__pipeline_trace_ring(struct hr_pipeline *p)
{
    /* pairs with hr_pipeline_trace_start */
    struct hr_trace *trace = atomic_load_explicit(&p->trace, memory_order_acquire);
    if (!trace)
        return NULL;
    struct hr_worker *self = hr__worker_self();
    return self && self->pipeline == p ? hr__worker_trace(self) : consumer_ring(trace);
}

void hr__trace_delivered(struct hr_pipeline *p, int64_t item)
{
    struct hr_trace_ring *ring = hr__pipeline_trace_ring(p);
    if (ring)
        ring->delivered = item;
}

void hr__trace_epoch(struct hr_pipeline *p)
{
    struct hr_trace_ring *ring = hr__pipeline_trace_ring(p);
    if (!ring)
        return;
    int64_t now_ns = HR_SYS(now_ns)();
    struct hr_trace_what what = {HR_TRACE_EPOCH, -1, -1, 0, NULL};
    hr__trace_add(ring, &what, now_ns, now_ns);
}

int64_t hr__pipeline_next_begin(const struct hr_pipeline *p)
{
    /* relaxed: the ring is looked up at the end */
    return atomic_load_explicit(&p->trace, memory_order_relaxed) ? HR_SYS(now_ns)() : 0;
}

void hr__pipeline_next_end(struct hr_pipeline *p, int64_t begin_ns)
{
    struct hr_trace_ring *ring = begin_ns ? hr__pipeline_trace_ring(p) : NULL;
    if (!ring)
        return;
    struct hr_trace_what what = {HR_TRACE_NEXT, -1, ring->delivered, 0, NULL};
    hr__trace_add(ring, &what, begin_ns, HR_SYS(now_ns)());
}

/* ---- on and off ---- */

static void free_trace(struct hr_trace *trace)
{
    if (!trace)
        return;
    for (uint32_t i = 0; trace->workers && i < trace->worker_count; i++)
        hr__free(trace->workers[i].events);
    for (int i = 0; i < HR_TRACE_CONSUMERS_MAX; i++)
        hr__free(trace->consumers[i].ring.events);
    hr__free(trace->workers);
    hr__free(trace->path);
    hr__free(trace);
}

void hr__pipeline_free_traces(struct hr_pipeline *p)
{
    while (p->traces) {
        struct hr_trace *trace = p->traces;
        p->traces = trace->older;
        free_trace(trace);
    }
}

/* Without its file. NULL: no memory. */
static struct hr_trace *make_trace(const struct hr_pipeline *p, const char *path,
                                   uint32_t events_max)
{
    struct hr_trace *trace = hr__calloc(1, sizeof(*trace));
    if (!trace)
        return NULL;
    trace->events_max = events_max;
    trace->worker_count = p->worker_count;
    trace->path = hr__strdup(path);
    trace->workers = hr__calloc(p->worker_count, sizeof(*trace->workers));
    bool complete = trace->path && trace->workers;
    for (uint32_t i = 0; complete && i < p->worker_count; i++) {
        struct hr_trace_ring *ring = &trace->workers[i];
        ring->events = hr__calloc(events_max, sizeof(*ring->events));
        ring->events_max = events_max;
        complete = ring->events != NULL;
    }
    if (complete)
        return trace;
    free_trace(trace);
    return NULL;
}

/* Make *out with its file. */
static enum hr_status open_trace(const struct hr_pipeline *p, const char *path,
                                 uint32_t events_max, struct hr_trace **out,
                                 struct hr_error *err)
{
    *out = make_trace(p, path, events_max);
    if (!*out)
        return hr__nomem(err, "pipeline", "a trace", 0);
    (*out)->fd = HR_SYS(file_create)(path);
    if ((*out)->fd >= 0)
        return HR_OK;
    int code = errno;
    free_trace(*out);
    *out = NULL;
    return hr_error_set(err, HR_ERR_IO, "pipeline", code,
                        "the trace '%s' can't be written: %s", path, strerror(code));
}

/* NULL: off. Lock held. */
static void publish_locked(struct hr_pipeline *p,
                           struct hr_trace *trace) HR_ENGINE_LOCKED
{
    /* pair with hr__worker_trace and hr__pipeline_trace_ring */
    for (uint32_t i = 0; i < p->worker_count; i++)
        atomic_store_explicit(&p->workers[i]->trace, trace ? &trace->workers[i] : NULL,
                              memory_order_release);
    atomic_store_explicit(&p->trace, trace, memory_order_release);
}

/* Only one trace at a time; the file of a second one must not even be opened. */
static bool reserve(struct hr_pipeline *p)
{
    hr__engine_lock(p);
    bool mine = !p->tracing;
    p->tracing = true;
    hr__engine_unlock_only(p);
    return mine;
}

enum hr_status hr_pipeline_trace_start(struct hr_pipeline *p, const char *path,
                                       uint32_t events_max, struct hr_error *err)
{
    struct hr_trace *trace;
    if (hr__pipeline_forked(p))
        return hr_error_set(err, HR_ERR_STATE, "pipeline", 0,
                            "the pipeline was made before fork()");
    if (events_max > EVENTS_MAX)
        return hr_error_set(err, HR_ERR_ARG, "pipeline", 0, "events_max: %u is over %d",
                            events_max, EVENTS_MAX);
    if (!reserve(p))
        return hr_error_set(err, HR_ERR_STATE, "pipeline", 0,
                            "a trace of the pipeline is going on already");
    enum hr_status status =
        open_trace(p, path, events_max ? events_max : EVENTS_DEFAULT, &trace, err);
    hr__engine_lock(p);
    if (trace) {
        trace->older = p->traces;
        p->traces = trace;
        publish_locked(p, trace);
    } else {
        p->tracing = false;
    }
    hr__engine_unlock_only(p);
    return status;
}

enum hr_status hr_pipeline_trace_stop(struct hr_pipeline *p, struct hr_error *err)
{
    if (hr__pipeline_forked(p))
        return HR_OK;
    hr__engine_lock(p);
    /* relaxed: written under the lock */
    struct hr_trace *trace = atomic_load_explicit(&p->trace, memory_order_relaxed);
    publish_locked(p, NULL);
    hr__engine_unlock_only(p);
    if (!trace)
        return HR_OK;
    enum hr_status status = hr__trace_write(p, trace, err);
    hr__engine_lock(p);
    p->tracing = false;
    hr__engine_unlock_only(p);
    return status;
}
