/* ctx_pool.c - contexts for calls outside a pipeline.
 *
 * A context holds decoder objects and scratch rows worth keeping from call to call.
 * Python threads come and go, so contexts belong to calls: each takes one from the
 * pool and gives it back, and there are as many as calls ever ran at once (at most
 * IDLE_MAX are kept). Last in, first out: the warmest is used next. */
#include "ext.h"

#include "base/mem.h"

#define IDLE_MAX 64

struct hrpy_ctx_pool {
    struct hr_mutex mutex;
    /* under mutex */
    int count;
    struct hr_ctx *idle[IDLE_MAX];
};

struct hrpy_ctx_pool *hrpy_ctx_pool_new(void)
{
    struct hrpy_ctx_pool *pool = hr__calloc(1, sizeof(*pool));

    if (pool)
        hr__mutex_init(&pool->mutex, HR_RANK_FOREIGN);
    return pool;
}

void hrpy_ctx_pool_free(struct hrpy_ctx_pool **pool)
{
    if (!*pool)
        return;
    for (int i = 0; i < (*pool)->count; i++)
        hr_ctx_free(&(*pool)->idle[i]);
    hr__mutex_fini(&(*pool)->mutex);
    hr__free(*pool);
    *pool = NULL;
}

enum hr_status hrpy_ctx_acquire(struct hrpy_ctx_pool *pool, struct hr_ctx **out,
                                struct hr_error *err)
{
    *out = NULL;
    hr__mutex_lock(&pool->mutex);
    if (pool->count > 0)
        *out = pool->idle[--pool->count];
    hr__mutex_unlock(&pool->mutex);
    return *out ? HR_OK : hr_ctx_new(out, err);
}

void hrpy_ctx_release(struct hrpy_ctx_pool *pool, struct hr_ctx **ctx)
{
    if (!*ctx)
        return;
    hr__mutex_lock(&pool->mutex);
    if (pool->count < IDLE_MAX) {
        pool->idle[pool->count++] = *ctx;
        *ctx = NULL;
    }
    hr__mutex_unlock(&pool->mutex);
    hr_ctx_free(ctx);
}
