/* batch_value.c - batches: an array, and which of its slots failed and why. */
#include "headrace/value.h"

#include <stdatomic.h>
#include <string.h>

#include "base/mem.h"
#include "base/banned.h"

struct batch {
    /* const after creation */
    struct hr_array *array; /* owned reference */
    size_t n;
    _Atomic uint32_t refs; /* holders, as in buffer.c */
    struct hr_slot_failure failure[];
};

static void batch_release(struct hr_value *value)
{
    struct batch *batch = value->ptr;
    /* acq_rel: pairs with itself in the other holders. */
    if (atomic_fetch_sub_explicit(&batch->refs, 1, memory_order_acq_rel) != 1)
        return;
    hr_array_unref(&batch->array);
    hr__free(batch);
}

static size_t batch_nbytes(const struct hr_value *value)
{
    const struct batch *batch = value->ptr;
    return hr_array_nbytes(batch->array);
}

static struct hr_value batch_share(const struct hr_value *value)
{
    struct batch *batch = value->ptr;
    /* relaxed: the caller holds a reference already. */
    atomic_fetch_add_explicit(&batch->refs, 1, memory_order_relaxed);
    return *value;
}

const struct hr_value_class hr_batch_class = {
    .name = "batch",
    .release = batch_release,
    .nbytes = batch_nbytes,
    .share = batch_share,
};

enum hr_status hr_batch_new(struct hr_array **array,
                            const struct hr_slot_failure *failures, size_t n,
                            struct hr_value *out)
{
    *out = HR_VALUE_EMPTY;
    size_t bytes, size;
    if (!hr__mul(n, sizeof(*failures), &bytes) ||
        !hr__add(bytes, sizeof(struct batch), &size))
        return HR_ERR_NOMEM;
    struct batch *batch = hr__malloc(size);
    if (!batch)
        return HR_ERR_NOMEM;
    batch->array = *array;
    *array = NULL;
    batch->n = n;
    atomic_init(&batch->refs, 1);
    if (n > 0)
        memcpy(batch->failure, failures, bytes);
    *out = (struct hr_value){&hr_batch_class, batch};
    return HR_OK;
}

struct hr_array *hr_batch_peek_array(const struct hr_value *value)
{
    const struct batch *batch = value->cls == &hr_batch_class ? value->ptr : NULL;
    return batch ? batch->array : NULL;
}

const struct hr_slot_failure *hr_batch_peek_failures(const struct hr_value *value,
                                                     size_t *n)
{
    const struct batch *batch = value->cls == &hr_batch_class ? value->ptr : NULL;
    *n = batch ? batch->n : 0;
    return batch && batch->n > 0 ? batch->failure : NULL;
}
