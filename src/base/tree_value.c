/* tree_value.c - lists and records: values that hold values.
 *
 * Both are one node in one allocation: a header, n values, and for a list n indices.
 *
 *     ┌────────┬─────────────────────┬───────────────────────┐
 *     │ header │ struct hr_value [n] │ int64_t [n] (lists)   │
 *     └────────┴─────────────────────┴───────────────────────┘
 *
 * Nodes may be nested to any depth, for their shape comes from a user. Releasing must
 * not overflow the stack then, nor need memory. So nodes that lost their last holder
 * are put on a list through their own header, and a loop empties that list; a child
 * node that dies joins it instead of being released by recursion.
 *
 * Sizes are estimates: they look NEST_MAX levels deep at most. */
#include "headrace/value.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "base/mem.h"
#include "base/tree.h"
#include "base/banned.h"

enum { NEST_MAX = 32 };

/* ---- keys ---- */

struct hr_keys {
    /* const after creation */
    size_t n;
    bool named;
    _Atomic uint32_t refs; /* holders, as in buffer.c */
    const char *name[];    /* n if named; the texts follow in the same allocation */
};

enum hr_status hr_keys_new(size_t n, const char *const *names, struct hr_keys **out)
{
    *out = NULL;
    size_t size = 0;
    if (names && !hr__mul(n, sizeof(char *), &size))
        return HR_ERR_NOMEM;
    if (!hr__add(size, sizeof(struct hr_keys), &size))
        return HR_ERR_NOMEM;
    size_t text_begin = size;
    for (size_t i = 0; names && i < n; i++)
        if (!hr__add(size, strlen(names[i]) + 1, &size))
            return HR_ERR_NOMEM;
    struct hr_keys *keys = hr__malloc(size);
    if (!keys)
        return HR_ERR_NOMEM;
    keys->n = n;
    keys->named = names != NULL;
    atomic_init(&keys->refs, 1);
    char *text = (char *)keys + text_begin;
    for (size_t i = 0; names && i < n; i++) {
        size_t bytes = strlen(names[i]) + 1;
        memcpy(text, names[i], bytes);
        keys->name[i] = text;
        text += bytes;
    }
    *out = keys;
    return HR_OK;
}

struct hr_keys *hr_keys_ref(struct hr_keys *keys)
{
    /* relaxed: the caller holds a reference already. */
    atomic_fetch_add_explicit(&keys->refs, 1, memory_order_relaxed);
    return keys;
}

void hr_keys_unref(struct hr_keys **keys)
{
    struct hr_keys *old = *keys;
    if (!old)
        return;
    *keys = NULL;
    /* acq_rel: pairs with itself in the other holders. */
    if (atomic_fetch_sub_explicit(&old->refs, 1, memory_order_acq_rel) == 1)
        hr__free(old);
}

size_t hr_keys_size(const struct hr_keys *keys)
{
    return keys->n;
}

const char *hr_keys_name(const struct hr_keys *keys, size_t i)
{
    assert(i < keys->n);
    return keys->named ? keys->name[i] : NULL;
}

/* ---- nodes ---- */

struct node {
    size_t n;
    struct hr_keys *keys;  /* records: an owned reference; lists: NULL */
    struct node *next;     /* among the dead; owned by the releasing thread */
    _Atomic uint32_t refs; /* holders, as in buffer.c */
    /* filled in place while there is one holder, read-only when shared */
    struct hr_value value[];
};

static bool is_node(const struct hr_value *value)
{
    return value->cls == &hr_list_class || value->cls == &hr_record_class;
}

static int64_t *node_index(const struct node *node)
{
    return (int64_t *)(uintptr_t)(node->value + node->n);
}

/* extra: bytes per value behind the values. */
static enum hr_status node_new(size_t n, size_t extra, struct node **out)
{
    size_t size;
    if (!hr__mul(n, sizeof(struct hr_value) + extra, &size) ||
        !hr__add(size, sizeof(struct node), &size))
        return HR_ERR_NOMEM;
    struct node *node = hr__calloc(1, size);
    if (!node)
        return HR_ERR_NOMEM;
    node->n = n;
    atomic_init(&node->refs, 1);
    *out = node;
    return HR_OK;
}

/* Drop one reference; a node without holders goes to the front of *dead. */
static void node_drop(struct node *node, struct node **dead)
{
    /* acq_rel: pairs with itself in the other holders. */
    if (atomic_fetch_sub_explicit(&node->refs, 1, memory_order_acq_rel) != 1)
        return;
    node->next = *dead;
    *dead = node;
}

static void node_release(struct hr_value *value)
{
    struct node *dead = NULL;
    node_drop(value->ptr, &dead);
    while (dead) {
        struct node *node = dead;
        dead = node->next;
        for (size_t i = 0; i < node->n; i++) {
            if (is_node(&node->value[i]))
                node_drop(node->value[i].ptr, &dead);
            else
                hr_value_release(&node->value[i]);
        }
        hr_keys_unref(&node->keys);
        hr__free(node);
    }
}

static size_t nbytes_at(const struct hr_value *value, int depth)
{
    if (!value->cls)
        return 0;
    if (!is_node(value))
        return value->cls->nbytes ? value->cls->nbytes(value) : 0;
    const struct node *node = value->ptr;
    size_t sum = 0;
    for (size_t i = 0; depth < NEST_MAX && i < node->n; i++)
        if (!hr__add(sum, nbytes_at(&node->value[i], depth + 1), &sum))
            return SIZE_MAX;
    return sum;
}

static size_t node_nbytes(const struct hr_value *value)
{
    return nbytes_at(value, 0);
}

static struct hr_value node_share(const struct hr_value *value)
{
    struct node *node = value->ptr;
    /* relaxed: the caller holds a reference already. */
    atomic_fetch_add_explicit(&node->refs, 1, memory_order_relaxed);
    return *value;
}

/* ---- list ---- */

const struct hr_value_class hr_list_class = {
    .name = "list",
    .release = node_release,
    .nbytes = node_nbytes,
    .share = node_share,
};

static struct node *list_node(const struct hr_value *value)
{
    return value->cls == &hr_list_class ? value->ptr : NULL;
}

enum hr_status hr_list_new(size_t n, struct hr_value *out)
{
    *out = HR_VALUE_EMPTY;
    struct node *node;
    enum hr_status status = node_new(n, sizeof(int64_t), &node);
    if (status != HR_OK)
        return status;
    for (size_t i = 0; i < n; i++)
        node_index(node)[i] = -1;
    *out = (struct hr_value){&hr_list_class, node};
    return HR_OK;
}

size_t hr_list_size(const struct hr_value *list)
{
    const struct node *node = list_node(list);
    return node ? node->n : 0;
}

struct hr_value *hr_list_peek(const struct hr_value *list)
{
    struct node *node = list_node(list);
    return node ? node->value : NULL;
}

int64_t *hr_list_peek_index(const struct hr_value *list)
{
    const struct node *node = list_node(list);
    return node ? node_index(node) : NULL;
}

/* ---- record ---- */

const struct hr_value_class hr_record_class = {
    .name = "record",
    .release = node_release,
    .nbytes = node_nbytes,
    .share = node_share,
};

enum hr_status hr_record_new(struct hr_keys *keys, struct hr_value *out)
{
    *out = HR_VALUE_EMPTY;
    struct node *node;
    enum hr_status status = node_new(keys->n, 0, &node);
    if (status != HR_OK)
        return status;
    node->keys = hr_keys_ref(keys);
    *out = (struct hr_value){&hr_record_class, node};
    return HR_OK;
}

struct hr_keys *hr_record_peek_keys(const struct hr_value *record)
{
    const struct node *node = record->cls == &hr_record_class ? record->ptr : NULL;
    return node ? node->keys : NULL;
}

struct hr_value *hr_record_peek(const struct hr_value *record)
{
    struct node *node = record->cls == &hr_record_class ? record->ptr : NULL;
    return node ? node->value : NULL;
}

/* ---- changing in place ---- */

static enum hr_status node_copy(const struct hr_value *value, struct hr_value *out)
{
    struct node *from = value->ptr;
    for (size_t i = 0; i < from->n; i++)
        if (from->value[i].cls && !from->value[i].cls->share)
            return HR_ERR_TYPE;
    enum hr_status status = value->cls == &hr_list_class
                                ? hr_list_new(from->n, out)
                                : hr_record_new(from->keys, out);
    if (status != HR_OK)
        return status;
    struct node *to = out->ptr;
    for (size_t i = 0; i < from->n; i++)
        if (from->value[i].cls)
            to->value[i] = from->value[i].cls->share(&from->value[i]);
    if (value->cls == &hr_list_class)
        memcpy(node_index(to), node_index(from), from->n * sizeof(int64_t));
    return HR_OK;
}

bool hr__tree_is_sole(const struct hr_value *value)
{
    const struct node *node = value->ptr;
    assert(is_node(value));
    /* acquire: pairs with node_drop in those that were holders, and have read it. */
    return atomic_load_explicit(&node->refs, memory_order_acquire) == 1;
}

enum hr_status hr__tree_own(struct hr_value *value)
{
    if (hr__tree_is_sole(value))
        return HR_OK;
    struct hr_value copy;
    enum hr_status status = node_copy(value, &copy);
    if (status != HR_OK)
        return status;
    hr_value_release(value);
    *value = copy;
    return HR_OK;
}
