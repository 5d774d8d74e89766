/* A block that is given out from its beginning on, and never taken back in part. */
#include "image/arena.h"

#include "base/mem.h"
#include "base/banned.h"

#define ALIGN ((size_t)16)
#define KEEP_BYTES ((size_t)1 << 20)

void hr__arena_reset(struct hr__arena *a)
{
    if (a->asked > a->bytes && a->asked <= KEEP_BYTES) {
        hr__free(a->block);
        a->block = hr__malloc(a->asked);
        a->bytes = a->block != NULL ? a->asked : 0;
    }
    a->used = 0;
    a->asked = 0;
}

void *hr__arena_alloc(struct hr__arena *a, size_t size)
{
    size_t rounded;
    void *ptr;

    if (!hr__add(size, ALIGN - 1, &rounded))
        return NULL;
    rounded &= ~(ALIGN - 1);
    if (!hr__add(a->asked, rounded, &a->asked))
        a->asked = SIZE_MAX;
    if (rounded > a->bytes - a->used)
        return hr__malloc(size);
    ptr = a->block + a->used;
    a->used += rounded;
    return ptr;
}

void hr__arena_release(struct hr__arena *a, void *ptr)
{
    uintptr_t at = (uintptr_t)ptr;
    uintptr_t begin = (uintptr_t)a->block;

    if (a->block == NULL || at < begin || at >= begin + a->bytes)
        hr__free(ptr);
}

void hr__arena_fini(struct hr__arena *a)
{
    hr__free(a->block);
    *a = (struct hr__arena){0};
}
