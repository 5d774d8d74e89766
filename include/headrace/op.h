/* Operations: what a native stage runs.
 *
 * An op is a class (functions) and a state (its bound arguments, const while running,
 * so that any number of workers may run it at once). An op never blocks on another
 * item, never keeps a thread of its own, and looks at hr_ctx_cancelled() in long loops.
 */
#ifndef HEADRACE_OP_H
#define HEADRACE_OP_H

#include "headrace/value.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a running op is given: the worker's scratch memory, the cancel token, and the
 * pipeline's idle workers. hr_ctx_new makes one for use without a pipeline. */
struct hr_ctx;

/* A context for calling ops and operations directly, without a pipeline. Work is done
 * by the calling thread alone. Threads: one at a time. Errors: HR_ERR_NOMEM. */
HR_API HR_MUST_USE enum hr_status hr_ctx_new(struct hr_ctx **out, struct hr_error *err);
HR_API void hr_ctx_free(struct hr_ctx **ctx);

/* True once the task should end early; it then returns HR_CANCELLED, or
 * HR_ERR_DEADLINE through hr_ctx_check. */
HR_API int hr_ctx_cancelled(const struct hr_ctx *ctx);

/* HR_OK, HR_CANCELLED, or HR_ERR_DEADLINE with *err filled. */
HR_API HR_MUST_USE enum hr_status hr_ctx_check(const struct hr_ctx *ctx,
                                               struct hr_error *err);

/* The source index of the item that the op's run works on, counted through all epochs;
 * -1 outside of pipelines. Elements of a list have indices of their own
 * (hr_list_peek_index). Not for slots of a fork-join. */
HR_API int64_t hr_ctx_item(const struct hr_ctx *ctx);

/* Per-thread state that an op keeps from item to item: decoder objects, tables,
 * scratch rows. Made on first use by a thread, freed when the thread ends. */
struct hr_scratch_class {
    const char *name;
    enum hr_status (*create)(void **out, struct hr_error *err);
    void (*destroy)(void *scratch);
};

/* This thread's scratch of that class.
 * Errors: those of create; HR_ERR_LIMIT when the thread keeps 16 others already. */
HR_API HR_MUST_USE enum hr_status hr_ctx_scratch(struct hr_ctx *ctx,
                                                 const struct hr_scratch_class *cls,
                                                 void **out, struct hr_error *err);

/* One slot of a fork-join. It reports its own outcome through the cookie. ctx is the
 * executing thread's own. */
typedef void (*hr_slot_fn)(void *cookie, size_t slot, struct hr_ctx *ctx);

/* Run fn for each slot 0 … n-1, by this thread and by every worker that is idle
 * meanwhile, and return when all have run. Each slot runs exactly once; the order is
 * not defined. Allocates nothing. */
HR_API void hr_ctx_for_each(struct hr_ctx *ctx, size_t n, hr_slot_fn fn, void *cookie);

struct hr_op_class {
    const char *name; /* the stage's default name */
    /* One item in, one out. `in` is borrowed. HR_OK with *out filled, HR_SKIP for a
     * filtered item, or a failure with *err filled. */
    enum hr_status (*run)(void *state, struct hr_ctx *ctx, const struct hr_value *in,
                          struct hr_value *out, struct hr_error *err);
    void (*free_state)(void *state); /* NULL: nothing to free */
};

struct hr_op {
    const struct hr_op_class *cls;
    void *state;
};

/* Free the state and empty *op; the empty op is accepted. Threads: one at a time. */
HR_API void hr_op_free(struct hr_op *op);

#ifdef __cplusplus
}
#endif

#endif
