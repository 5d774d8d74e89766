/* ctx.h - the inside of struct hr_ctx, shared by its two makers: the stand-alone one
 * (base/ctx.c) and the engine's workers, which add fork-join. */
#ifndef HR_BASE_CTX_H
#define HR_BASE_CTX_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/scratch.h"

struct hr_ctx {
    struct hr_scratch *scratch; /* this thread's */
    /* NULL: run the slots one after another in this thread. */
    void (*for_each)(struct hr_ctx *ctx, size_t n, hr_slot_fn fn, void *cookie);
    const _Atomic uint32_t *cancel; /* NULL, or non-zero (release) once cancelled */
    int64_t deadline_ns;            /* absolute; INT64_MAX: none */
    int64_t item;                   /* source index of what is worked on; -1: unknown */
};

#endif
