/* ctx.c - what a running op is given, and the stand-alone maker of it. */
#include "base/ctx.h"

#include "base/mem.h"
#include "base/sys.h"
#include "base/banned.h"

/* A context together with the bag that a worker would have. */
struct own_ctx {
    struct hr_ctx ctx; /* first: hr_ctx_free casts back */
    struct hr_scratch bag;
};

enum hr_status hr_ctx_new(struct hr_ctx **out, struct hr_error *err)
{
    *out = NULL;
    struct own_ctx *own = hr__calloc(1, sizeof(*own));
    if (!own)
        return hr__nomem(err, "context", "a context", sizeof(*own));
    hr__scratch_init(&own->bag);
    own->ctx.scratch = &own->bag;
    own->ctx.deadline_ns = INT64_MAX;
    own->ctx.item = -1;
    *out = &own->ctx;
    return HR_OK;
}

void hr_ctx_free(struct hr_ctx **ctx)
{
    if (!*ctx)
        return;
    struct own_ctx *own = (struct own_ctx *)*ctx;
    *ctx = NULL;
    hr__scratch_fini(&own->bag);
    hr__free(own);
}

static int is_cancelled(const struct hr_ctx *ctx)
{
    /* acquire: pairs with the release store of whoever cancels. */
    return ctx->cancel && atomic_load_explicit(ctx->cancel, memory_order_acquire) != 0;
}

static int is_late(const struct hr_ctx *ctx)
{
    return ctx->deadline_ns != INT64_MAX && HR_SYS(now_ns)() >= ctx->deadline_ns;
}

int hr_ctx_cancelled(const struct hr_ctx *ctx)
{
    return is_cancelled(ctx) || is_late(ctx);
}

enum hr_status hr_ctx_check(const struct hr_ctx *ctx, struct hr_error *err)
{
    if (is_cancelled(ctx))
        return HR_CANCELLED;
    if (is_late(ctx))
        return hr_error_set(err, HR_ERR_DEADLINE, "context", 0,
                            "context: the task ran past its deadline");
    return HR_OK;
}

int64_t hr_ctx_item(const struct hr_ctx *ctx)
{
    return ctx->item;
}

enum hr_status hr_ctx_scratch(struct hr_ctx *ctx, const struct hr_scratch_class *cls,
                              void **out, struct hr_error *err)
{
    return hr__scratch_get(ctx->scratch, cls, out, err);
}

void hr_ctx_for_each(struct hr_ctx *ctx, size_t n, hr_slot_fn fn, void *cookie)
{
    if (ctx->for_each) {
        ctx->for_each(ctx, n, fn, cookie);
        return;
    }
    for (size_t slot = 0; slot < n; slot++)
        fn(cookie, slot, ctx);
}

void hr_op_free(struct hr_op *op)
{
    struct hr_op old = *op;
    *op = (struct hr_op){NULL, NULL};
    if (old.cls && old.cls->free_state)
        old.cls->free_state(old.state);
}
