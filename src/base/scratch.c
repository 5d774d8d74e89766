/* scratch.c - the per-thread objects of ops, found by their class's address. */
#include "base/scratch.h"

#include "base/banned.h"

void hr__scratch_init(struct hr_scratch *bag)
{
    bag->count = 0;
}

void hr__scratch_fini(struct hr_scratch *bag)
{
    while (bag->count > 0) {
        bag->count--;
        bag->cls[bag->count]->destroy(bag->object[bag->count]);
    }
}

enum hr_status hr__scratch_get(struct hr_scratch *bag,
                               const struct hr_scratch_class *cls, void **out,
                               struct hr_error *err)
{
    *out = NULL;
    for (int i = 0; i < bag->count; i++) {
        if (bag->cls[i] == cls) {
            *out = bag->object[i];
            return HR_OK;
        }
    }
    if (bag->count == HR_SCRATCH_MAX)
        return hr_error_set(
            err, HR_ERR_LIMIT, "scratch", 0,
            "scratch: one thread keeps at most %d kinds, '%s' is one more",
            HR_SCRATCH_MAX, cls->name);
    void *object = NULL;
    enum hr_status status = cls->create(&object, err);
    if (status != HR_OK)
        return status;
    bag->cls[bag->count] = cls;
    bag->object[bag->count] = object;
    bag->count++;
    *out = object;
    return HR_OK;
}
