/* item.h - what a scheduler handle stands for: a value and where it came from. */
#ifndef HR_ENGINE_ITEM_H
#define HR_ENGINE_ITEM_H

#include "headrace/value.h"
#include "sched/sched.h"

struct hr_item {
    struct hr_value value;
    struct hr_value label; /* a text (a path, say), or empty */
    int64_t index;         /* position in the source, -1 unknown */
    size_t bytes;          /* counted as read ahead; 0 once it is taken */
    struct hr_item *next;  /* in a free list or a list of released items */
};

/* All items of a pipeline: chunks, and those of them in no use. Guarded by the
 * pipeline's lock. */
struct hr_items {
    struct hr_item *unused;
    struct hr_item_chunk *chunks;
};

void hr__items_fini(struct hr_items *items);
/* Make sure that `count` items can be had. False: no memory. */
bool hr__items_reserve(struct hr_items *items, size_t count);
/* An empty item; NULL: no memory. */
struct hr_item *hr__items_get(struct hr_items *items);
/* The item's values must have been released or moved away. */
void hr__items_put(struct hr_items *items, struct hr_item *item);

/* Release the values of a list of items; not under a lock. */
void hr__item_list_clear(struct hr_item *list);

/* Give the item the label that its value suggests (its text, or that of the first text
 * field of a record), shared. */
void hr__item_set_label(struct hr_item *item);

/* "item 3 ('a.jpg')"; cut where it is too long. */
void hr__item_describe(const struct hr_item *item, char *out, size_t size);

static inline hr_handle hr__handle_of(struct hr_item *item)
{
    return (hr_handle)(uintptr_t)item;
}

static inline struct hr_item *hr__item_of(hr_handle handle)
{
    return (struct hr_item *)(uintptr_t)handle;
}

#endif
