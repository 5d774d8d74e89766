/* text_value.c - text: one allocation for the count of holders, length and bytes. */
#include "headrace/value.h"

#include <stdatomic.h>
#include <string.h>

#include "base/mem.h"
#include "base/banned.h"

struct text {
    _Atomic uint32_t refs; /* holders, as in buffer.c */
    size_t len;            /* const after creation, as are the bytes */
    char bytes[];
};

static void text_release(struct hr_value *value)
{
    struct text *text = value->ptr;
    /* acq_rel: pairs with itself in the other holders. */
    if (atomic_fetch_sub_explicit(&text->refs, 1, memory_order_acq_rel) == 1)
        hr__free(text);
}

static size_t text_nbytes(const struct hr_value *value)
{
    const struct text *text = value->ptr;
    return text->len;
}

static struct hr_value text_share(const struct hr_value *value)
{
    struct text *text = value->ptr;
    /* relaxed: the caller holds a reference already. */
    atomic_fetch_add_explicit(&text->refs, 1, memory_order_relaxed);
    return *value;
}

const struct hr_value_class hr_text_class = {
    .name = "text",
    .release = text_release,
    .nbytes = text_nbytes,
    .share = text_share,
};

enum hr_status hr_text_new(const char *bytes, size_t len, struct hr_value *out)
{
    *out = HR_VALUE_EMPTY;
    size_t size;
    if (!hr__add(len, sizeof(struct text) + 1, &size))
        return HR_ERR_NOMEM;
    struct text *text = hr__malloc(size);
    if (!text)
        return HR_ERR_NOMEM;
    atomic_init(&text->refs, 1);
    text->len = len;
    if (len > 0)
        memcpy(text->bytes, bytes, len);
    text->bytes[len] = '\0';
    *out = (struct hr_value){&hr_text_class, text};
    return HR_OK;
}

const char *hr_text_peek(const struct hr_value *value, size_t *len)
{
    const struct text *text = value->cls == &hr_text_class ? value->ptr : NULL;
    if (len)
        *len = text ? text->len : 0;
    return text ? text->bytes : NULL;
}
