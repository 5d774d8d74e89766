/* tables.h - the few tables that a worker keeps because making them takes as long as
 * using them: the least recently used one makes room for a new one. */
#ifndef HR_IMAGE_TABLES_H
#define HR_IMAGE_TABLES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "headrace/status.h"

/* Every kind of table begins with this; zero-initialised. */
struct hr__table {
    void *block; /* what the table's arrays live in */
    size_t block_bytes;
    uint64_t used_at; /* 0: nothing is made */
};

/* A kind of table. */
struct hr__table_kind {
    size_t size; /* of the struct */
    bool (*same)(const void *table, const void *key);
    /* Make the table for key, in place of another one. */
    enum hr_status (*fill)(void *table, const void *key, struct hr_error *err);
};

/* The table for key among count that lie side by side, made when absent. *out stays
 * valid during the next count - 1 calls with other keys.
 * Errors: those of fill. */
HR_MUST_USE enum hr_status hr__tables_get(const struct hr__table_kind *kind,
                                          void *tables, int count, uint64_t *clock,
                                          const void *key, void **out,
                                          struct hr_error *err);
void hr__tables_fini(const struct hr__table_kind *kind, void *tables, int count);

/* Room for bytes in the table's block, which is replaced when it is too small, and given
 * back when it was very large. Errors: HR_ERR_NOMEM. */
HR_MUST_USE enum hr_status hr__table_reserve(struct hr__table *table, size_t bytes,
                                             struct hr_error *err);

#endif
