/* item.c - items in chunks that are never given back: a run needs as many as its places. */
#include "engine/item.h"

#include <stdio.h>

#include "base/mem.h"
#include "base/banned.h"

enum { CHUNK_ITEMS = 64 };

struct hr_item_chunk {
    struct hr_item_chunk *next;
    struct hr_item items[CHUNK_ITEMS];
};

void hr__items_fini(struct hr_items *items)
{
    while (items->chunks) {
        struct hr_item_chunk *chunk = items->chunks;
        items->chunks = chunk->next;
        hr__free(chunk);
    }
    items->unused = NULL;
}

static bool grow(struct hr_items *items)
{
    struct hr_item_chunk *chunk = hr__calloc(1, sizeof(*chunk));
    if (!chunk)
        return false;
    chunk->next = items->chunks;
    items->chunks = chunk;
    for (int i = 0; i < CHUNK_ITEMS; i++) {
        chunk->items[i].next = items->unused;
        items->unused = &chunk->items[i];
    }
    return true;
}

bool hr__items_reserve(struct hr_items *items, size_t count)
{
    size_t have = 0;
    for (struct hr_item *item = items->unused; item && have < count; item = item->next)
        have++;
    while (have < count) {
        if (!grow(items))
            return false;
        have += CHUNK_ITEMS;
    }
    return true;
}

struct hr_item *hr__items_get(struct hr_items *items)
{
    if (!items->unused && !grow(items))
        return NULL;
    struct hr_item *item = items->unused;
    items->unused = item->next;
    item->next = NULL;
    item->index = -1;
    item->bytes = 0;
    return item;
}

void hr__items_put(struct hr_items *items, struct hr_item *item)
{
    item->value = HR_VALUE_EMPTY;
    item->label = HR_VALUE_EMPTY;
    item->next = items->unused;
    items->unused = item;
}

void hr__item_list_clear(struct hr_item *list)
{
    for (struct hr_item *item = list; item; item = item->next) {
        hr_value_release(&item->value);
        hr_value_release(&item->label);
    }
}

void hr__item_set_label(struct hr_item *item)
{
    const struct hr_value *value = &item->value;
    if (value->cls == &hr_record_class) {
        size_t n = hr_keys_size(hr_record_peek_keys(value));
        const struct hr_value *fields = hr_record_peek(value);
        for (size_t i = 0; i < n; i++) {
            if (fields[i].cls == &hr_text_class) {
                item->label = hr_text_class.share(&fields[i]);
                return;
            }
        }
        return;
    }
    if (value->cls == &hr_text_class)
        item->label = hr_text_class.share(value);
}

void hr__item_describe(const struct hr_item *item, char *out, size_t size)
{
    if (item->label.cls)
        (void)snprintf(out, size, "item %lld ('%.80s')", (long long)item->index,
                       hr_text_peek(&item->label, NULL));
    else
        (void)snprintf(out, size, "item %lld", (long long)item->index);
}
