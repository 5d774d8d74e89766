/* mem.c - allocation with overflow checks. */
#include "base/mem.h"

#include <string.h>

#include "base/sys.h"
#include "base/banned.h"

void *hr__calloc(size_t count, size_t size)
{
    size_t bytes;
    if (!hr__mul(count, size, &bytes))
        return NULL;
    if (bytes == 0) /* NULL means failure, and nothing else */
        return HR_SYS(zalloc)(1, 1);
    return HR_SYS(zalloc)(count, size);
}

void *hr__malloc(size_t size)
{
    return HR_SYS(alloc)(size ? size : 1);
}

void *hr__realloc(void *ptr, size_t count, size_t size)
{
    size_t bytes;
    if (!hr__mul(count, size, &bytes))
        return NULL;
    return HR_SYS(resize)(ptr, bytes ? bytes : 1);
}

void hr__free(void *ptr)
{
    HR_SYS(release)(ptr);
}

char *hr__strdup(const char *text)
{
    size_t size = strlen(text) + 1;
    char *copy = hr__malloc(size);
    if (copy)
        memcpy(copy, text, size);
    return copy;
}

enum hr_status hr__nomem(struct hr_error *err, const char *origin, const char *what,
                         size_t bytes)
{
    return hr_error_set(err, HR_ERR_NOMEM, origin, 0,
                        "%s: no memory for %s (%zu bytes)", origin, what, bytes);
}
