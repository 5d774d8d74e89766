/* engine_kit.h - pipelines to order: sources and ops, native and foreign, with every
 * outcome, whose items are numbers.
 *
 * The number of an item is its text, that of its object, or that of field "x" of its
 * record; field "y" is an object of the same number. */
#ifndef HR_ENGINE_KIT_H
#define HR_ENGINE_KIT_H

#include <pthread.h>
#include <stdatomic.h>

#include "fake_runtime.h"
#include "headrace/headrace.h"

enum kit_form { KIT_TEXT, KIT_OBJECT, KIT_RECORD, KIT_TUPLE };

/* The numbers 0 … end - 1. */
struct kit_source {
    long end;
    long fail_at;  /* fails before this one; < 0: never */
    long fatal_at; /* foreign: the same, ending the run; < 0: never */
    long pass;     /* an epoch ends after so many; 0: there are none */
    enum kit_form form;
    size_t bytes; /* that an object claims */
    int64_t sleep_ns;
    void (*hook)(void *cookie, long number);
    void *cookie;
    /* by the source */
    _Atomic long made; /* release: read by tests while it runs */
    long marked;       /* `made` at the last mark */
    atomic_int freed;
    atomic_flag busy;
};

/* What happens to item n; tests for zero mean "never". */
struct kit_op {
    long fail_every;
    long skip_every;
    long fatal_at; /* foreign; 0: never */
    long add;      /* the output's number is n + add */
    uint32_t fan;  /* expand: n % (fan + 1) outputs, n * 1000 + i; fold: a result, the
                      sum, of every fan-th item and of the rest */
    long bad_end;  /* expand: items divisible by it fail after their outputs */
    int64_t sleep_ns;
    bool let_go; /* foreign: sleeps without the big lock */
    void (*hook)(void *cookie, struct hr_ctx *ctx, long number);
    void *cookie;
    long flaky_every; /* such items fail at first, the `flaky_times` first times */
    int flaky_times;
    atomic_int tries[512]; /* of an item below 512 */
    /* fold: by the op */
    uint32_t folded;
    long sum;
    atomic_long calls;
    atomic_int freed;
};

enum kit_kind {
    KIT_NATIVE,
    KIT_FOREIGN,
    KIT_EXPAND,
    KIT_FOLD,
    KIT_BATCH,
    KIT_COLUMNS,
    KIT_SPREAD
};

struct kit_stage {
    enum kit_kind kind;
    struct kit_op *op;
    uint32_t n; /* of a batch */
    bool drop_last;
    struct hr_stage_options options;
    enum hr_on_error on_error;
    struct hr_retry_policy retry;
};

struct kit_plan {
    struct kit_source *source;
    struct hr_source *native; /* another one instead; emptied */
    bool foreign_source;
    struct kit_stage stages[6]; /* up to the first without op and n */
    int count;
    uint32_t sink; /* 0: 3 */
    struct hr_pipeline_options options;
    const struct hr_runtime *runtime;
};

/* Build; nothing is left behind on failure, but for the sources' and ops' `freed`. */
enum hr_status kit_build(const struct kit_plan *plan, struct hr_pipeline **out,
                         struct hr_error *err);
/* Build and start; not to do so is a broken rule. NULL if it failed. */
struct hr_pipeline *kit_start(const struct kit_plan *plan);

long kit_number(const struct hr_value *value);
/* As hr_pipeline_next, without a deadline; the item's number, or -1 unless HR_OK. */
enum hr_status kit_next(struct hr_pipeline *pipeline, long *number);
/* The same as an attached consumer does it: it refills, tries, and waits detached. */
enum hr_status kit_next_attached(struct hr_pipeline *pipeline, long *number);

/* All that is left, in the order of coming; its length, and the status after it. */
size_t kit_drain(struct hr_pipeline *pipeline, bool attached, long *numbers, size_t max,
                 enum hr_status *end);
/* Numbers in rising order. */
void kit_sort(long *numbers, size_t count);

/* A gate that ops and sources wait at. */
struct kit_gate {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    /* under mutex */
    bool open;
    int inside;
    /* const */
    long from; /* items below pass */
};

#define KIT_GATE(from_)                                                                \
    {.mutex = PTHREAD_MUTEX_INITIALIZER,                                               \
     .changed = PTHREAD_COND_INITIALIZER,                                              \
     .from = (from_)}

/* An op's hook whose cookie is a gate. */
void kit_gate_hook(void *gate, struct hr_ctx *ctx, long number);
void kit_gate_open(struct kit_gate *gate);
/* Wait until somebody waits at it. */
void kit_gate_await(struct kit_gate *gate);

/* Entries in /proc/self/task and /proc/self/fd. */
int kit_thread_count(void);
int kit_fd_count(void);
/* Are there as many threads again as that? A thread that was joined may be listed for a
 * moment still: waits for up to 10 s. */
bool kit_threads_are(int count);
/* Wait until `ready(cookie)`, for at most 10 s; whether it came true. */
bool kit_await(bool (*ready)(void *cookie), void *cookie);

#endif
