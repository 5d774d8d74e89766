/* scratch.h - per-thread state of ops: a small bag of {class, object}. */
#ifndef HR_BASE_SCRATCH_H
#define HR_BASE_SCRATCH_H

#include "headrace/op.h"

#define HR_SCRATCH_MAX 16

struct hr_scratch {
    const struct hr_scratch_class *cls[HR_SCRATCH_MAX];
    void *object[HR_SCRATCH_MAX];
    int count;
};

void hr__scratch_init(struct hr_scratch *bag);
/* Destroys every object. */
void hr__scratch_fini(struct hr_scratch *bag);
/* The bag's object of that class, made when absent. */
enum hr_status hr__scratch_get(struct hr_scratch *bag,
                               const struct hr_scratch_class *cls, void **out,
                               struct hr_error *err);

#endif
