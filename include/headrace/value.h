/* Values: what items carry between stages.
 *
 * A value is a class and a pointer. The engine moves values and never looks inside;
 * ops look at the class to see what they were given. The classes below are the
 * library's own; a host language adds one for opaque references to its objects.
 *
 * The peek functions return NULL, and the sizes 0, for a value of another class. All
 * values below can be shared; a shared list or record is only to be read. Lists and
 * records may be nested to any depth: releasing them does not recurse. */
#ifndef HEADRACE_VALUE_H
#define HEADRACE_VALUE_H

#include "headrace/array.h"

#ifdef __cplusplus
extern "C" {
#endif

struct hr_value;

/* Const after creation; must outlive every value of the class. Functions run in any
 * thread, without any lock of the library held. */
struct hr_value_class {
    const char *name;                               /* for messages: "path", "array" */
    void (*release)(struct hr_value *value);        /* drop what ptr owns */
    size_t (*nbytes)(const struct hr_value *value); /* NULL: counts as 0 */
    /* A second value that shares what ptr owns; NULL: values of it can't be shared. It
     * counts a holder and no more: it alone may run under a lock of the library. */
    struct hr_value (*share)(const struct hr_value *value);
};

/* {NULL, NULL} is the empty value. */
struct hr_value {
    const struct hr_value_class *cls;
    void *ptr;
};

#define HR_VALUE_EMPTY ((struct hr_value){NULL, NULL})

/* Release and empty *value; the empty value is accepted. Threads: any. */
HR_API void hr_value_release(struct hr_value *value);

/* "path", "array", ...; "nothing" for the empty value. */
HR_API const char *hr_value_kind(const struct hr_value *value);

/* ---- text: UTF-8 or raw file-system bytes, used for paths and names ---- */
HR_API extern const struct hr_value_class hr_text_class;

/* Copy len bytes. Errors: HR_ERR_NOMEM. */
HR_API HR_MUST_USE enum hr_status hr_text_new(const char *bytes, size_t len,
                                              struct hr_value *out);
/* NUL-terminated; valid as long as the value. */
HR_API const char *hr_text_peek(const struct hr_value *text, size_t *len);

/* ---- array: a struct hr_array ---- */
HR_API extern const struct hr_value_class hr_array_class;

/* Ownership: takes *array and nulls it. */
HR_API struct hr_value hr_value_of_array(struct hr_array **array);
HR_API struct hr_array *hr_value_peek_array(const struct hr_value *value);

/* ---- bytes: encoded data in memory, a one-dimensional buffer ---- */
HR_API extern const struct hr_value_class hr_bytes_class;

/* Ownership: takes *buffer and nulls it. */
HR_API struct hr_value hr_value_of_bytes(struct hr_buffer **buffer);
HR_API struct hr_buffer *hr_value_peek_bytes(const struct hr_value *value);

/* ---- list: values in order, with the source index of each (-1: unknown) ---- */
HR_API extern const struct hr_value_class hr_list_class;

/* A list of n empty values. Errors: HR_ERR_NOMEM. */
HR_API HR_MUST_USE enum hr_status hr_list_new(size_t n, struct hr_value *out);
HR_API size_t hr_list_size(const struct hr_value *list);
/* The values themselves, to be read or filled in place by the list's only owner. */
HR_API struct hr_value *hr_list_peek(const struct hr_value *list);
HR_API int64_t *hr_list_peek_index(const struct hr_value *list);

/* ---- record: a fixed number of fields, by position or by name ---- */
HR_API extern const struct hr_value_class hr_record_class;

/* Field names shared by all records of one shape, or a tuple's width alone. */
struct hr_keys;

/* names == NULL: a tuple of n fields. Otherwise names[n], copied.
 * Ownership: *out holds one reference. Errors: HR_ERR_NOMEM. */
HR_API HR_MUST_USE enum hr_status hr_keys_new(size_t n, const char *const *names,
                                              struct hr_keys **out);
HR_API struct hr_keys *hr_keys_ref(struct hr_keys *keys);
HR_API void hr_keys_unref(struct hr_keys **keys);
HR_API size_t hr_keys_size(const struct hr_keys *keys);
/* NULL for a tuple. */
HR_API const char *hr_keys_name(const struct hr_keys *keys, size_t i);

/* A record of empty fields; adds a reference to keys. Errors: HR_ERR_NOMEM. */
HR_API HR_MUST_USE enum hr_status hr_record_new(struct hr_keys *keys,
                                                struct hr_value *out);
HR_API struct hr_keys *hr_record_peek_keys(const struct hr_value *record);
HR_API struct hr_value *hr_record_peek(const struct hr_value *record);

/* ---- batch: an array whose slots each have a status ---- */
HR_API extern const struct hr_value_class hr_batch_class;

/* One slot of a batch that failed, or that is not whole. */
struct hr_slot_failure {
    size_t slot;
    int kept;              /* the slot holds what there was */
    struct hr_error error; /* names the slot's source in its text */
    char name[128];        /* the slot's source: a path, or "<bytes>" */
};

/* Ownership: takes *array and nulls it on HR_OK; copies failures[n].
 * Errors: HR_ERR_NOMEM. */
HR_API HR_MUST_USE enum hr_status hr_batch_new(struct hr_array **array,
                                               const struct hr_slot_failure *failures,
                                               size_t n, struct hr_value *out);
HR_API struct hr_array *hr_batch_peek_array(const struct hr_value *batch);
HR_API const struct hr_slot_failure *
hr_batch_peek_failures(const struct hr_value *batch, size_t *n);

#ifdef __cplusplus
}
#endif

#endif
