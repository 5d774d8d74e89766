/* value.c - what is common to all values, and the classes that are one pointer to a
 * shared object: arrays and bytes. */
#include "headrace/value.h"

#include "base/banned.h"

void hr_value_release(struct hr_value *value)
{
    struct hr_value old = *value;
    *value = HR_VALUE_EMPTY;
    if (old.cls)
        old.cls->release(&old);
}

const char *hr_value_kind(const struct hr_value *value)
{
    return value->cls ? value->cls->name : "nothing";
}

/* ---- array ---- */

static void array_release(struct hr_value *value)
{
    struct hr_array *array = value->ptr;
    hr_array_unref(&array);
}

static size_t array_nbytes(const struct hr_value *value)
{
    return hr_array_nbytes(value->ptr);
}

static struct hr_value array_share(const struct hr_value *value)
{
    return (struct hr_value){value->cls, hr_array_ref(value->ptr)};
}

const struct hr_value_class hr_array_class = {
    .name = "array",
    .release = array_release,
    .nbytes = array_nbytes,
    .share = array_share,
};

struct hr_value hr_value_of_array(struct hr_array **array)
{
    struct hr_value value = {&hr_array_class, *array};
    *array = NULL;
    return value;
}

struct hr_array *hr_value_peek_array(const struct hr_value *value)
{
    return value->cls == &hr_array_class ? value->ptr : NULL;
}

/* ---- bytes ---- */

static void bytes_release(struct hr_value *value)
{
    struct hr_buffer *buffer = value->ptr;
    hr_buffer_unref(&buffer);
}

static size_t bytes_nbytes(const struct hr_value *value)
{
    return hr_buffer_size(value->ptr);
}

static struct hr_value bytes_share(const struct hr_value *value)
{
    return (struct hr_value){value->cls, hr_buffer_ref(value->ptr)};
}

const struct hr_value_class hr_bytes_class = {
    .name = "bytes",
    .release = bytes_release,
    .nbytes = bytes_nbytes,
    .share = bytes_share,
};

struct hr_value hr_value_of_bytes(struct hr_buffer **buffer)
{
    struct hr_value value = {&hr_bytes_class, *buffer};
    *buffer = NULL;
    return value;
}

struct hr_buffer *hr_value_peek_bytes(const struct hr_value *value)
{
    return value->cls == &hr_bytes_class ? value->ptr : NULL;
}
