/* crash.c - which stage and item each thread was in when the process crashes.
 *
 * A decoder or an extension that dies of SIGSEGV takes the process with it. A core dump
 * has the stacks, but nothing in them says "photos/17.jpg", which is what one needs to try
 * it again alone. So each thread leaves a trail: its stage and item, which it notes anyway
 * for messages, and pointers to what they are called. A handler of the fatal signals reads
 * the trails and writes one line for each thread that is at work, the crashing one first:
 *
 *     headrace: SIGSEGV in thread hr-work-1: stage 'decode', item 17 ('photos/17.jpg')
 *     headrace: thread hr-work-0: stage 'read', item 18 ('photos/18.jpg')
 *     headrace: in flight: stage 'fetch', item 19
 *
 * "In flight" are tasks of an event loop or an executor, of which any thread may be the
 * one. Nothing is said where no pipeline is at work.
 *
 * The handler is in the middle of anything: it takes no lock, allocates nothing, and calls
 * write(2) alone. Threads are found in a table of pointers; they enter and leave it by one
 * atomic each, so an idle report costs nothing per item but two stores.
 *
 *     thread  table[i] = worker ──► trail: thread, at, in, slot
 *                                   stage, item (as for messages), calls of this batch
 *
 * A worker, its pipeline and its items' storage stay as long as it is in the table. What
 * an item owns may go while another thread reads it: only a label is read, at worst it is
 * another's, or its page is gone. A second fault in the report ends it.
 *
 * Chaining. Afterwards the handler that was there before gets the signal: faulthandler's,
 * a debugger's, or the default, which dumps core. A fault is repeated by returning, with
 * its address and registers; what was sent (abort) is raised again. Whoever comes first of
 * faulthandler and us passes on to the other, and if the two point at each other, the
 * second visit finds the report written and takes the default.
 *
 * A thread whose stack is full has no room for a handler. So threads that begin while the
 * report is on get a second stack for signals, which faulthandler gains by, too. */
#include "engine/crash.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "engine/async_state.h"
#include "engine/task.h"
#include "base/banned.h"

enum {
    THREADS_MAX = 1024, /* further ones are not in the report */
    IN_FLIGHT_MAX = 32, /* lines */
    LABEL_MAX = 200,
    STACK_BYTES = 64 << 10, /* faulthandler needs some 20 KiB, a frame of AVX-512 3 */
};

static const struct {
    int number;
    const char *name;
} signals[] = {
    {SIGSEGV, "SIGSEGV"}, {SIGBUS, "SIGBUS"},   {SIGFPE, "SIGFPE"},
    {SIGILL, "SIGILL"},   {SIGABRT, "SIGABRT"},
};
enum { SIGNALS = sizeof(signals) / sizeof(signals[0]) };

static struct {
    struct hr_mutex mutex;
    /* under mutex; the handler reads what was there before it was installed */
    struct sigaction before[SIGNALS];
    /* atomic */
    _Atomic int fd; /* where to write; -1: the report is off. Written under mutex,
                       relaxed: threads look whether to get a stack */
    _Atomic(const struct hr_worker *) threads[THREADS_MAX]; /* release by the thread,
                                                               acquire by the handler */
    _Atomic uintptr_t reporter; /* who writes, or wrote, the report: one per process */
    _Atomic bool done;          /* release by it, acquire by others that crash */
} crash = {.mutex = HR_MUTEX_INIT(HR_RANK_FOREIGN), .fd = -1};

static uintptr_t self(void)
{
    return (uintptr_t)pthread_self();
}

/* ---- a line ---- */

struct line {
    char text[512];
    size_t size;
};

static void put(struct line *line, const char *text)
{
    while (*text && line->size + 1 < sizeof(line->text))
        line->text[line->size++] = *text++;
}

static void put_number(struct line *line, int64_t number)
{
    char digits[24];
    size_t n = sizeof(digits);
    digits[--n] = '\0';
    do {
        digits[--n] = (char)('0' + number % 10);
        number /= 10;
    } while (number > 0);
    put(line, &digits[n]);
}

/* As it is, but for what would end the line or move the cursor. */
static void put_label(struct line *line, const char *label)
{
    put(line, " ('");
    for (size_t i = 0; i < LABEL_MAX && label[i]; i++) {
        char shown[2] = {label[i] >= 0 && label[i] < ' ' ? '?' : label[i], '\0'};
        put(line, shown);
    }
    put(line, "')");
}

static void write_line(struct line *line)
{
    int fd = atomic_load_explicit(&crash.fd, memory_order_relaxed);
    line->text[line->size++] = '\n';
    for (size_t at = 0; at < line->size;) {
        ssize_t n = write(fd, &line->text[at], line->size - at);
        if (n < 0 && errno != EINTR)
            return;
        at += n > 0 ? (size_t)n : 0;
    }
}

/* ---- what a thread is at ---- */

/* Foreign calls of a batch tell when they end; the first one that has not is at work. */
static const struct hr_item *item_of_calls(const struct hr_worker *w)
{
    uint32_t i = 0;
    while (i + 1 < HR_SCHED_GRANT_MAX && w->calls[i].end_ns != 0)
        i++;
    return w->calls[i].item;
}

static bool is_source(const struct hr_stage *stage)
{
    return stage->body == HR_BODY_SOURCE || stage->body == HR_BODY_FOREIGN_SOURCE;
}

/* The element of a list that the slot is about has a name of its own. */
static const char *label_of_slot(const struct hr_value *in, int64_t slot)
{
    if (!in || slot < 0 || in->cls != &hr_list_class ||
        (size_t)slot >= hr_list_size(in))
        return NULL;
    return hr_text_peek(&hr_list_peek(in)[slot], NULL);
}

static void put_item(struct line *line, int64_t index, const char *label)
{
    if (index < 0)
        return;
    put(line, ", item ");
    put_number(line, index);
    if (label)
        put_label(line, label);
}

static const char *label_of(const struct hr_item *item)
{
    return item ? hr_text_peek(&item->label, NULL) : NULL;
}

static void put_stage(struct line *line, const struct hr_stage *stage)
{
    put(line, "stage '");
    put(line, stage->name);
    put(line, "'");
}

/* own: it is the calling thread, so that all it has is to be trusted. */
static void put_work(struct line *line, const struct hr_worker *w, bool own)
{
    const struct hr_trail *trail = &w->trail;
    int32_t number = atomic_load_explicit(&w->stage, memory_order_relaxed);
    if (number < 0) {
        put(line, "between tasks");
        return;
    }
    const struct hr_stage *stage = &w->pipeline->stages[number];
    int64_t index = atomic_load_explicit(&w->item, memory_order_relaxed);
    int64_t slot = atomic_load_explicit(&trail->slot, memory_order_relaxed);
    const struct hr_item *at = atomic_load_explicit(&trail->at, memory_order_relaxed);
    if (own && is_source(stage))
        index += w->calls[0].out_count;
    if (own && at && stage->foreign.cls) {
        at = item_of_calls(w);
        index = at ? at->index : -1;
    }
    const char *label =
        label_of_slot(atomic_load_explicit(&trail->in, memory_order_relaxed), slot);
    put_stage(line, stage);
    put_item(line, index, slot < 0 ? label_of(at) : NULL);
    if (slot < 0)
        return;
    put(line, ", slot ");
    put_number(line, slot);
    if (label)
        put_label(line, label);
}

/* ---- the report ---- */

static const struct hr_worker *thread_at(size_t i)
{
    return atomic_load_explicit(&crash.threads[i], memory_order_acquire);
}

static bool is_self(const struct hr_worker *w)
{
    return atomic_load_explicit(&w->trail.thread, memory_order_relaxed) == self();
}

/* Is the calling thread, as a consumer, in the source of w's pipeline? Told of its first
 * thread only. */
static bool is_refilled_here(size_t i)
{
    const struct hr_pipeline *p = thread_at(i)->pipeline;
    for (size_t j = 0; j < i; j++) {
        const struct hr_worker *w = thread_at(j);
        if (w && w->pipeline == p)
            return false;
    }
    return atomic_load_explicit(&p->refiller, memory_order_relaxed) == self();
}

/* The lines of the crashing thread, which may work for several pipelines at once. */
static bool report_own(const char *name)
{
    bool said = false;
    for (size_t i = 0; i < THREADS_MAX; i++) {
        const struct hr_worker *w = thread_at(i);
        if (!w || !is_self(w))
            continue;
        struct line line = {.size = 0};
        put(&line, "headrace: ");
        put(&line, name);
        put(&line, " in thread ");
        put(&line, w->trail.name);
        put(&line, ": ");
        put_work(&line, w, true);
        write_line(&line);
        said = true;
    }
    for (size_t i = 0; i < THREADS_MAX; i++) {
        if (!thread_at(i) || !is_refilled_here(i))
            continue;
        const struct hr_pipeline *p = thread_at(i)->pipeline;
        struct line line = {.size = 0};
        put(&line, "headrace: ");
        put(&line, name);
        put(&line, " in a consumer's thread: ");
        put_stage(&line, &p->stages[0]);
        put_item(&line, p->source_index + p->refill_call.out_count, NULL);
        write_line(&line);
        said = true;
    }
    return said;
}

/* Before the first line, unless the crashing thread had one. */
static void report_stray(const char *name, bool *said)
{
    struct line line = {.size = 0};
    if (*said)
        return;
    *said = true;
    put(&line, "headrace: ");
    put(&line, name);
    put(&line, " in a thread of no pipeline");
    write_line(&line);
}

static void report_in_flight(const struct hr_pipeline *p, const char *name, bool *said,
                             int *left)
{
    for (uint32_t i = 0; i < p->async->tasks_touched && *left > 0; i++) {
        const struct hr_async_task *task = &p->async->tasks[i];
        if (!task->used)
            continue;
        report_stray(name, said);
        struct line line = {.size = 0};
        const struct hr_item *item = task->call.item;
        put(&line, "headrace: in flight: ");
        put_stage(&line, &p->stages[task->stage]);
        put_item(&line, item ? item->index : -1, label_of(item));
        write_line(&line);
        if (--*left == 0) {
            line.size = 0;
            put(&line, "headrace: in flight: ...");
            write_line(&line);
        }
    }
}

static bool is_at_work(const struct hr_worker *w)
{
    return w && atomic_load_explicit(&w->stage, memory_order_relaxed) >= 0;
}

static bool is_loop(const struct hr_worker *w)
{
    return w && w->pipeline->async && w == &w->pipeline->async->worker;
}

static void report(const char *name)
{
    bool said = report_own(name);
    int left = IN_FLIGHT_MAX;
    for (size_t i = 0; i < THREADS_MAX; i++) {
        const struct hr_worker *w = thread_at(i);
        if (!is_at_work(w) || is_self(w))
            continue;
        report_stray(name, &said);
        struct line line = {.size = 0};
        put(&line, "headrace: thread ");
        put(&line, w->trail.name);
        put(&line, ": ");
        put_work(&line, w, false);
        write_line(&line);
    }
    for (size_t i = 0; i < THREADS_MAX; i++)
        if (is_loop(thread_at(i)))
            report_in_flight(thread_at(i)->pipeline, name, &said, &left);
}

/* ---- the handler ---- */

/* Two threads may crash: the report is the first one's, and the other waits for it. */
static void await_reporter(void)
{
    const struct timespec nap = {.tv_nsec = 10000000};
    for (int i = 0; i < 200; i++) {
        if (atomic_load_explicit(&crash.done, memory_order_acquire))
            return;
        (void)nanosleep(&nap, NULL);
    }
}

static void on_signal(int number, siginfo_t *info, void *context)
{
    int code = errno;
    uintptr_t nobody = 0;
    size_t i = 0;
    (void)context;
    while (signals[i].number != number)
        i++;
    const struct sigaction *next = &crash.before[i];
    static const struct sigaction by_default = {.sa_handler = SIG_DFL};
    if (atomic_compare_exchange_strong(&crash.reporter, &nobody, self())) {
        report(signals[i].name);
        atomic_store_explicit(&crash.done, true, memory_order_release);
    } else if (nobody != self()) {
        await_reporter();
    } else if (atomic_load_explicit(&crash.done, memory_order_relaxed)) {
        next = &by_default; /* we are behind the one that is behind us */
    } /* else a fault in the report, which ends it */
    (void)sigaction(number, next, NULL);
    errno = code;
    if (info->si_code <= 0) /* sent: it does not come again by itself */
        (void)raise(number);
}

static void install_locked(void)
{
    struct sigaction ours = {.sa_sigaction = on_signal,
                             .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};
    for (size_t i = 0; i < SIGNALS; i++) {
        struct sigaction now;
        (void)sigaction(signals[i].number, NULL, &now);
        if ((now.sa_flags & SA_SIGINFO) && now.sa_sigaction == on_signal)
            continue;
        crash.before[i] = now;
        (void)sigaction(signals[i].number, &ours, NULL);
    }
}

void hr_crash_report_enable(int fd)
{
    hr__mutex_lock(&crash.mutex);
    atomic_store_explicit(&crash.fd, fd, memory_order_relaxed);
    install_locked();
    hr__mutex_unlock(&crash.mutex);
}

void hr_crash_report_disable(void)
{
    hr__mutex_lock(&crash.mutex);
    bool on = atomic_load_explicit(&crash.fd, memory_order_relaxed) >= 0;
    for (size_t i = 0; on && i < SIGNALS; i++) {
        struct sigaction now;
        (void)sigaction(signals[i].number, NULL, &now);
        /* else somebody came after us, who passes on to us: then we write nowhere */
        if ((now.sa_flags & SA_SIGINFO) && now.sa_sigaction == on_signal)
            (void)sigaction(signals[i].number, &crash.before[i], NULL);
    }
    atomic_store_explicit(&crash.fd, -1, memory_order_relaxed);
    hr__mutex_unlock(&crash.mutex);
}

/* ---- threads ---- */

/* One that the thread has already (Python's main thread, a sanitizer's) is as good. */
static void take_stack(struct hr_trail *trail)
{
    stack_t now;
    trail->stack = NULL;
    if (atomic_load_explicit(&crash.fd, memory_order_relaxed) < 0 ||
        sigaltstack(NULL, &now) || !(now.ss_flags & SS_DISABLE))
        return;
    trail->stack = hr__malloc(STACK_BYTES); /* without it only an overflow is mute */
    stack_t ours = {.ss_sp = trail->stack, .ss_size = STACK_BYTES};
    if (trail->stack && sigaltstack(&ours, NULL)) {
        hr__free(trail->stack);
        trail->stack = NULL;
    }
}

void hr__crash_enter(struct hr_worker *w)
{
    struct hr_trail *trail = &w->trail;
    hr__worker_name(w->pipeline, w->number, trail->name, sizeof(trail->name));
    atomic_store_explicit(&trail->thread, self(), memory_order_relaxed);
    take_stack(trail);
    for (size_t i = 0; i < THREADS_MAX; i++) {
        const struct hr_worker *nobody = NULL;
        if (!thread_at(i) &&
            atomic_compare_exchange_strong(&crash.threads[i], &nobody, w))
            return;
    }
}

void hr__crash_leave(struct hr_worker *w)
{
    struct hr_trail *trail = &w->trail;
    for (size_t i = 0; i < THREADS_MAX; i++)
        if (thread_at(i) == w) {
            atomic_store_explicit(&crash.threads[i], NULL, memory_order_release);
            break;
        }
    atomic_store_explicit(&trail->thread, 0, memory_order_relaxed);
    if (!trail->stack)
        return;
    const stack_t none = {.ss_flags = SS_DISABLE};
    (void)sigaltstack(&none, NULL);
    hr__free(trail->stack);
    trail->stack = NULL;
}

void hr__crash_forget_threads(void)
{
    for (size_t i = 0; i < THREADS_MAX; i++)
        atomic_store_explicit(&crash.threads[i], NULL, memory_order_relaxed);
    hr__mutex_init(&crash.mutex, HR_RANK_FOREIGN);
}
