/* body.c - the engine's own native bodies: fields of records, collate. They run without
 * any lock. */
#include <string.h>

#include "base/tree.h"
#include "engine/engine.h"
#include "base/banned.h"

void hr__error_complete(struct hr_error *err, enum hr_status status, const char *name)
{
    if (err->status >= HR_ERR_ARG)
        return;
    (void)hr_error_set(err, status >= HR_ERR_ARG ? status : HR_ERR_STATE, "pipeline", 0,
                       "'%s' failed with status '%s'", name, hr_status_name(status));
}

static struct hr_value *field_by_name(const char *name, struct hr_value *record,
                                      struct hr_error *err)
{
    const struct hr_keys *keys = hr_record_peek_keys(record);
    size_t n = hr_keys_size(keys);
    for (size_t i = 0; i < n; i++) {
        const char *have = hr_keys_name(keys, i);
        if (have && strcmp(have, name) == 0)
            return &hr_record_peek(record)[i];
    }
    (void)hr_error_set(err, HR_ERR_TYPE, "pipeline", 0,
                       "the record has no field '%s' (it has %zu %s fields)", name, n,
                       n && hr_keys_name(keys, 0) ? "other" : "unnamed");
    return NULL;
}

enum hr_status hr__own_fields(struct hr_value *value, struct hr_error *err)
{
    enum hr_status status = hr__tree_own(value);
    if (status == HR_ERR_NOMEM)
        return hr_error_set(err, status, "pipeline", 0, "no memory for a copy of a %s",
                            hr_value_kind(value));
    if (status != HR_OK)
        return hr_error_set(
            err, status, "pipeline", 0,
            "a %s that is held elsewhere, too, cannot be changed: not all "
            "of its fields can be shared",
            hr_value_kind(value));
    return HR_OK;
}

struct hr_value *hr__key_field(const struct hr_key *key, struct hr_value *value,
                               struct hr_error *err)
{
    if (!key->used)
        return value;
    if (value->cls != &hr_record_class) {
        (void)hr_error_set(err, HR_ERR_TYPE, "pipeline", 0,
                           "key= needs a record (a tuple or a dict), got %s",
                           hr_value_kind(value));
        return NULL;
    }
    if (hr__own_fields(value, err) != HR_OK)
        return NULL;
    if (key->name)
        return field_by_name(key->name, value, err);
    size_t n = hr_keys_size(hr_record_peek_keys(value));
    size_t i = key->index < 0 ? n - (size_t)-(int64_t)key->index : (size_t)key->index;
    if (i >= n) {
        (void)hr_error_set(err, HR_ERR_TYPE, "pipeline", 0,
                           "the record has %zu fields, key=%d is none of them", n,
                           key->index);
        return NULL;
    }
    return &hr_record_peek(value)[i];
}

static enum hr_status collate_list(struct hr_item **items, uint32_t count,
                                   struct hr_value *out, struct hr_error *err)
{
    if (hr_list_new(count, out) != HR_OK)
        return hr_error_set(err, HR_ERR_NOMEM, "pipeline", 0,
                            "no memory for a list of %u items", count);
    struct hr_value *values = hr_list_peek(out);
    int64_t *index = hr_list_peek_index(out);
    for (uint32_t i = 0; i < count; i++) {
        values[i] = items[i]->value;
        items[i]->value = HR_VALUE_EMPTY;
        index[i] = items[i]->index;
    }
    return HR_OK;
}

/* Position of the field named as field c of `keys`; tuples go by position. Dicts may
 * order their keys differently. SIZE_MAX: there is none. */
static size_t field_position(const struct hr_keys *keys, size_t c,
                             const struct hr_keys *other)
{
    const char *name = hr_keys_name(keys, c);
    if (keys == other || !name)
        return c;
    for (size_t i = 0; i < hr_keys_size(other); i++)
        if (strcmp(hr_keys_name(other, i), name) == 0)
            return i;
    return SIZE_MAX;
}

static bool same_shape(const struct hr_keys *a, const struct hr_keys *b)
{
    size_t n = hr_keys_size(a);
    if (n != hr_keys_size(b))
        return false;
    if (n == 0)
        return true;
    if (!hr_keys_name(a, 0) != !hr_keys_name(b, 0))
        return false;
    for (size_t i = 0; i < n; i++)
        if (field_position(a, i, b) == SIZE_MAX)
            return false;
    return true;
}

/* Records of one shape, each with no other holder: fields will be moved out. */
static enum hr_status check_records(struct hr_item **items, uint32_t count,
                                    struct hr_error *err)
{
    struct hr_keys *keys = NULL;
    for (uint32_t i = 0; i < count; i++) {
        struct hr_value *value = &items[i]->value;
        if (value->cls != &hr_record_class)
            return hr_error_set(err, HR_ERR_TYPE, "pipeline", 0,
                                "aggregate(columns=True) needs records (tuples or "
                                "dicts), item %lld is %s",
                                (long long)items[i]->index, hr_value_kind(value));
        if (!keys)
            keys = hr_record_peek_keys(value);
        else if (!same_shape(keys, hr_record_peek_keys(value)))
            return hr_error_set(err, HR_ERR_TYPE, "pipeline", 0,
                                "aggregate(columns=True) needs records of one shape, "
                                "items %lld and %lld differ in their fields",
                                (long long)items[0]->index, (long long)items[i]->index);
        enum hr_status status = hr__own_fields(&items[i]->value, err);
        if (status != HR_OK)
            return status;
    }
    return HR_OK;
}

static enum hr_status collate_columns(struct hr_item **items, uint32_t count,
                                      struct hr_value *out, struct hr_error *err)
{
    enum hr_status status = check_records(items, count, err);
    if (status != HR_OK)
        return status;
    struct hr_keys *keys = hr_record_peek_keys(&items[0]->value);
    struct hr_value record = HR_VALUE_EMPTY;
    if (hr_record_new(keys, &record) != HR_OK)
        goto nomem;
    struct hr_value *columns = hr_record_peek(&record);
    size_t n = hr_keys_size(keys);
    for (size_t c = 0; c < n; c++)
        if (hr_list_new(count, &columns[c]) != HR_OK)
            goto nomem;
    for (size_t c = 0; c < n; c++) {
        struct hr_value *cells = hr_list_peek(&columns[c]);
        int64_t *index = hr_list_peek_index(&columns[c]);
        for (uint32_t i = 0; i < count; i++) {
            struct hr_value *from = &items[i]->value;
            size_t at = field_position(keys, c, hr_record_peek_keys(from));
            cells[i] = hr_record_peek(from)[at];
            hr_record_peek(from)[at] = HR_VALUE_EMPTY;
            index[i] = items[i]->index;
        }
    }
    *out = record;
    return HR_OK;
nomem:
    hr_value_release(&record);
    return hr_error_set(err, HR_ERR_NOMEM, "pipeline", 0,
                        "no memory for columns of %u items", count);
}

enum hr_status hr__collate(const struct hr_stage *stage, struct hr_item **items,
                           uint32_t count, struct hr_value *out, struct hr_error *err)
{
    *out = HR_VALUE_EMPTY;
    return stage->columns ? collate_columns(items, count, out, err)
                          : collate_list(items, count, out, err);
}
