/* mem.h - allocation with overflow checks, on top of the sys table. */
#ifndef HR_BASE_MEM_H
#define HR_BASE_MEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "headrace/status.h"

/* Zeroed memory for count elements of size; NULL on overflow or failure. */
void *hr__calloc(size_t count, size_t size);
void *hr__malloc(size_t size);
/* NULL on overflow or failure; the old block then stays valid. */
void *hr__realloc(void *ptr, size_t count, size_t size);
void hr__free(void *ptr);

/* Copy a NUL-terminated string; NULL on failure. */
char *hr__strdup(const char *text);

/* *out = a * b, or false. */
static inline bool hr__mul(size_t a, size_t b, size_t *out)
{
    return !__builtin_mul_overflow(a, b, out);
}

static inline bool hr__add(size_t a, size_t b, size_t *out)
{
    return !__builtin_add_overflow(a, b, out);
}

/* HR_ERR_NOMEM with a text that says for what. */
enum hr_status hr__nomem(struct hr_error *err, const char *origin, const char *what,
                         size_t bytes);

#endif
