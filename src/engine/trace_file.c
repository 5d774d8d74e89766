/* trace_file.c - a trace as Chrome Trace Event JSON.
 *
 *     {"traceEvents": [
 *       {"ph": "M", "name": "thread_name", "pid": 7, "tid": 1, "args": {"name": ...}},
 *       {"ph": "X", "name": "decode", "cat": "task", "pid": 7, "tid": 1,
 *        "ts": 81.000, "dur": 2.125, "args": {"item": 4, "label": "a.jpg"}}, ...],
 *      "displayTimeUnit": "ns", "otherData": {..., "lost_events": 0}}
 *
 * Viewers nest the events of a track by their times, if a longer one comes before what it
 * holds; threads add an event when it ends. So each ring is sorted. */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/sys.h"
#include "engine/task.h"
#include "base/banned.h"

enum { OUT_SIZE = 16384, LINE_MAX_BYTES = 512, CONSUMER_TID = 1001 };

struct out {
    int fd;
    int code; /* errno of the first failure; nothing is written after it */
    int pid;
    size_t len;
    bool first; /* no event yet */
    char buf[OUT_SIZE];
};

static void flush(struct out *out)
{
    size_t done = 0;
    while (done < out->len && !out->code) {
        ssize_t n = HR_SYS(file_write)(out->fd, out->buf + done, out->len - done);
        if (n >= 0)
            done += (size_t)n;
        else if (errno != EINTR)
            out->code = errno;
    }
    out->len = 0;
}

static void HR_PRINTF(2, 3) put(struct out *out, const char *fmt, ...)
{
    if (OUT_SIZE - out->len < LINE_MAX_BYTES)
        flush(out);
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(out->buf + out->len, LINE_MAX_BYTES, fmt, args);
    va_end(args);
    if (n > 0)
        out->len += (size_t)n < LINE_MAX_BYTES ? (size_t)n : LINE_MAX_BYTES - 1;
}

/* Length of the UTF-8 sequence at text; 0: it is none. Overlong forms and surrogates are
 * none, or a strict reader would refuse the file. */
static size_t sequence_length(const unsigned char *text)
{
    size_t n = text[0] >= 0xF0 ? 4 : text[0] >= 0xE0 ? 3 : text[0] >= 0xC2 ? 2 : 0;
    if (n == 0 || text[0] > 0xF4)
        return 0;
    for (size_t i = 1; i < n; i++)
        if ((text[i] & 0xC0) != 0x80)
            return 0;
    if ((text[0] == 0xE0 && text[1] < 0xA0) || (text[0] == 0xED && text[1] > 0x9F) ||
        (text[0] == 0xF0 && text[1] < 0x90) || (text[0] == 0xF4 && text[1] > 0x8F))
        return 0;
    return n;
}

/* Bytes at text that may stand in a JSON string as they are. */
static size_t plain_length(const unsigned char *text, size_t max)
{
    size_t n = 0;
    while (n < max && text[n] >= 0x20 && text[n] < 0x80 && text[n] != '"' &&
           text[n] != '\\')
        n++;
    return n;
}

/* A JSON string. Labels may be raw bytes of a file system. */
static void put_string(struct out *out, const char *string)
{
    const unsigned char *text = (const unsigned char *)string;
    put(out, "\"");
    while (*text) {
        size_t n = plain_length(text, 256);
        if (n == 0 && *text >= 0x80)
            n = sequence_length(text);
        if (n > 0)
            put(out, "%.*s", (int)n, (const char *)text);
        else if (*text >= 0x80)
            put(out, "\\ufffd");
        else
            put(out, "\\u%04x", *text);
        text += n ? n : 1;
    }
    put(out, "\"");
}

/* ---- tracks ---- */

static void put_meta(struct out *out, uint32_t tid, const char *what, const char *name)
{
    put(out, "%s{\"ph\":\"M\",\"name\":\"%s\",\"pid\":%d,\"tid\":%" PRIu32,
        out->first ? "\n" : ",\n", what, out->pid, tid);
    put(out, ",\"args\":{\"name\":\"%s\"}}", name);
    out->first = false;
}

static const struct {
    const char *category;
    const char *name; /* NULL: that of the stage */
} kinds[] = {
    [HR_TRACE_TASK] = {"task", NULL},
    [HR_TRACE_PULL] = {"source", NULL},
    [HR_TRACE_SLOT] = {"slot", NULL},
    [HR_TRACE_ATTACH] = {"wait", "wait for the GIL"},
    [HR_TRACE_PARK] = {"wait", "park"},
    [HR_TRACE_JOIN] = {"wait", "wait for slots"},
    [HR_TRACE_NEXT] = {"consumer", "next"},
    [HR_TRACE_WAIT] = {"wait", "wait for an item"},
    [HR_TRACE_EPOCH] = {"epoch", "epoch ends"},
};

/* Microseconds, to the nanosecond. */
static void put_time(struct out *out, const char *key, int64_t ns)
{
    put(out, ",\"%s\":%" PRId64 ".%03d", key, ns / 1000, (int)(ns % 1000));
}

static void put_args(struct out *out, const struct hr_pipeline *p,
                     const struct hr_trace_event *event)
{
    const char *comma = "";
    put(out, ",\"args\":{");
    if (event->item >= 0) {
        put(out, "\"item\":%" PRId64, event->item);
        comma = ",";
    }
    if (event->kind == HR_TRACE_PULL || event->kind == HR_TRACE_SLOT) {
        put(out, "%s\"%s\":%" PRIu32, comma,
            event->kind == HR_TRACE_PULL ? "items" : "slot", event->number);
        comma = ",";
    }
    if (event->kind == HR_TRACE_ATTACH) {
        put(out, "%s\"stage\":", comma);
        put_string(out, p->stages[event->stage].name);
        comma = ",";
    }
    if (event->label[0]) {
        put(out, "%s\"label\":", comma);
        put_string(out, event->label);
    }
    put(out, "}}");
}

static void put_event(struct out *out, const struct hr_pipeline *p, uint32_t tid,
                      const struct hr_trace_event *event)
{
    bool instant = event->kind == HR_TRACE_EPOCH;
    const char *name = kinds[event->kind].name;
    put(out, "%s{\"ph\":\"%s\",\"name\":", out->first ? "\n" : ",\n",
        instant ? "i" : "X");
    put_string(out, name ? name : p->stages[event->stage].name);
    put(out, ",\"cat\":\"%s\",\"pid\":%d,\"tid\":%" PRIu32, kinds[event->kind].category,
        out->pid, tid);
    put_time(out, "ts", event->begin_ns);
    if (instant)
        put(out, ",\"s\":\"p\"");
    else
        put_time(out, "dur", event->end_ns - event->begin_ns);
    put_args(out, p, event);
    out->first = false;
}

static int by_begin(const void *left, const void *right)
{
    const struct hr_trace_event *a = left, *b = right;
    if (a->begin_ns != b->begin_ns)
        return a->begin_ns < b->begin_ns ? -1 : 1;
    return (a->end_ns < b->end_ns) - (a->end_ns > b->end_ns);
}

/* Returns how many were lost. */
static uint64_t put_ring(struct out *out, const struct hr_pipeline *p, uint32_t tid,
                         struct hr_trace_ring *ring)
{
    /* pairs with hr__trace_add */
    uint32_t n = atomic_load_explicit(&ring->count, memory_order_acquire);
    if (n > 0)
        qsort(ring->events, n, sizeof(*ring->events), by_begin);
    for (uint32_t i = 0; i < n; i++)
        put_event(out, p, tid, &ring->events[i]);
    return atomic_load_explicit(&ring->lost, memory_order_relaxed);
}

static uint64_t put_tracks(struct out *out, const struct hr_pipeline *p,
                           struct hr_trace *trace)
{
    uint64_t lost = atomic_load_explicit(&trace->lost, memory_order_relaxed);
    char name[32];
    put_meta(out, 0, "process_name", "headrace");
    for (uint32_t i = 0; i < trace->worker_count; i++) {
        hr__worker_name(p, i, name, sizeof(name));
        put_meta(out, i + 1, "thread_name", name);
        lost += put_ring(out, p, i + 1, &trace->workers[i]);
    }
    for (uint32_t i = 0; i < HR_TRACE_CONSUMERS_MAX; i++) {
        struct hr_trace_consumer *consumer = &trace->consumers[i];
        /* pairs with consumer_ring */
        if (!atomic_load_explicit(&consumer->ready, memory_order_acquire))
            continue;
        (void)snprintf(name, sizeof(name), "consumer-%u", i);
        put_meta(out, CONSUMER_TID + i, "thread_name", name);
        lost += put_ring(out, p, CONSUMER_TID + i, &consumer->ring);
    }
    return lost;
}

enum hr_status hr__trace_write(struct hr_pipeline *p, struct hr_trace *trace,
                               struct hr_error *err)
{
    struct out out = {.fd = trace->fd, .pid = (int)getpid(), .first = true};
    put(&out, "{\"traceEvents\":[");
    uint64_t lost = put_tracks(&out, p, trace);
    put(&out,
        "\n],\"displayTimeUnit\":\"ns\",\"otherData\":{\"producer\":\"headrace %s\","
        "\"clock\":\"CLOCK_MONOTONIC\",\"lost_events\":%" PRIu64 "}}\n",
        hr_version(), lost);
    flush(&out);
    if (HR_SYS(file_close)(trace->fd) != 0 && !out.code)
        out.code = errno;
    if (lost > 0)
        hr__log(HR_LOG_WARNING,
                "trace '%s': %" PRIu64 " events are missing, only the first %" PRIu32
                " of each thread were kept",
                trace->path, lost, trace->events_max);
    if (out.code)
        return hr_error_set(err, HR_ERR_IO, "pipeline", out.code,
                            "the trace '%s' can't be written: %s", trace->path,
                            strerror(out.code));
    return HR_OK;
}
