/* Keys are compared one after the other: there are a dozen. */
#include "image/tables.h"

#include "base/mem.h"
#include "base/banned.h"

/* Blocks beyond this are given back at once when their place is needed. */
#define KEEP_BYTES ((size_t)1 << 20)

static struct hr__table *at(const struct hr__table_kind *kind, void *tables, int i)
{
    return (void *)((uint8_t *)tables + (size_t)i * kind->size);
}

enum hr_status hr__tables_get(const struct hr__table_kind *kind, void *tables,
                              int count, uint64_t *clock, const void *key, void **out,
                              struct hr_error *err)
{
    struct hr__table *oldest = at(kind, tables, 0);
    enum hr_status status;

    *out = NULL;
    ++*clock;
    for (int i = 0; i < count; i++) {
        struct hr__table *t = at(kind, tables, i);

        if (t->used_at != 0 && kind->same(t, key)) {
            t->used_at = *clock;
            *out = t;
            return HR_OK;
        }
        if (t->used_at < oldest->used_at)
            oldest = t;
    }
    oldest->used_at = 0;
    status = kind->fill(oldest, key, err);
    if (status != HR_OK)
        return status;
    oldest->used_at = *clock;
    *out = oldest;
    return HR_OK;
}

enum hr_status hr__table_reserve(struct hr__table *t, size_t bytes,
                                 struct hr_error *err)
{
    if (bytes <= t->block_bytes && t->block_bytes <= KEEP_BYTES)
        return HR_OK;
    hr__free(t->block);
    t->block_bytes = 0;
    t->block = hr__malloc(bytes);
    if (t->block == NULL)
        return hr__nomem(err, "image", "resize weights", bytes);
    t->block_bytes = bytes;
    return HR_OK;
}

void hr__tables_fini(const struct hr__table_kind *kind, void *tables, int count)
{
    for (int i = 0; i < count; i++)
        hr__free(at(kind, tables, i)->block);
}
