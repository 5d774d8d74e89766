/* A batch: n pictures into the n slots of one array, by fork-join.
 *
 * Every idle worker takes slots; the order in which they are done does not matter,
 * since each has its own place and its own entry in the table of failures. That table
 * is kept in the caller's scratch, so a batch allocates its array and its value, both
 * from pools, and nothing else. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "image/finish.h"
#include "image/limits.h"
#include "image/load.h"
#include "base/banned.h"

struct board {
    struct hr_slot_failure *failure; /* [capacity]; of slot i while the batch runs */
    size_t capacity;
};

static enum hr_status board_new(void **out, struct hr_error *err)
{
    *out = hr__calloc(1, sizeof(struct board));
    return *out != NULL ? HR_OK
                        : hr__nomem(err, "image", "a batch", sizeof(struct board));
}

static void board_free(void *scratch)
{
    struct board *b = scratch;

    hr__free(b->failure);
    hr__free(b);
}

static const struct hr_scratch_class board_class = {"image batch", board_new,
                                                    board_free};

static enum hr_status board_reserve(struct board *b, size_t n, struct hr_error *err)
{
    struct hr_slot_failure *grown;

    if (n <= b->capacity)
        return HR_OK;
    grown = hr__realloc(b->failure, n, sizeof(*grown));
    if (grown == NULL)
        return hr__nomem(err, "image", "the slots of a batch", n * sizeof(*grown));
    b->failure = grown;
    b->capacity = n;
    return HR_OK;
}

/* What the slots share: const while they run, but for each slot's own failure. */
struct job {
    const struct hr_value *srcs;
    const int64_t *index;
    const struct hr_image_options *options;
    uint8_t *pixels;
    size_t slot_bytes;
    struct hr_slot_failure *failure;
};

static struct hr__pick pick_of(const struct job *job, size_t slot)
{
    const struct hr_image_options *o = job->options;

    return (struct hr__pick){
        .index = job->index != NULL ? job->index[slot] : o->index + (int64_t)slot,
        .box = o->boxes != NULL ? &o->boxes[slot] : NULL,
        .flip = o->flips != NULL ? o->flips[slot] != 0 : -1,
    };
}

static void run_slot(void *cookie, size_t slot, struct hr_ctx *ctx)
{
    const struct job *job = cookie;
    struct hr_slot_failure *f = &job->failure[slot];
    uint8_t *to = job->pixels + slot * job->slot_bytes;
    struct hr__load_id id = {
        .item = job->index != NULL ? job->index[slot] : -1,
        .slot = (int64_t)slot,
        .pick = pick_of(job, slot),
    };
    enum hr_status status;

    f->error.text[0] = '\0';
    status = hr__load(ctx, &job->srcs[slot], &id, job->options, to, NULL, &f->error);
    f->slot = slot;
    f->kept = status == HR_OK && f->error.text[0] != '\0';
    if (!f->kept)
        f->error.status = status;
    if (f->error.status == HR_OK)
        return;
    if (!f->kept)
        memset(to, 0, job->slot_bytes);
    hr__load_name(&job->srcs[slot], NULL, f->name);
}

/* Move what there is to tell together, in the order of slots; HR_CANCELLED when a slot
 * says so, since then the batch is not one. *first: the first slot that failed, or NULL. */
static enum hr_status gather(struct hr_slot_failure *failure, size_t n, size_t *told,
                             const struct hr_slot_failure **first)
{
    *told = 0;
    *first = NULL;
    for (size_t i = 0; i < n; i++) {
        if (failure[i].error.status == HR_OK)
            continue;
        if (failure[i].error.status == HR_CANCELLED)
            return HR_CANCELLED;
        if (*told != i)
            failure[*told] = failure[i];
        if (*first == NULL && !failure[*told].kept)
            *first = &failure[*told];
        ++*told;
    }
    return HR_OK;
}

static enum hr_status run_batch(struct hr_ctx *ctx, struct job *job, size_t n,
                                int strict, struct hr_array **array,
                                struct hr_value *out, struct hr_error *err)
{
    const struct hr_slot_failure *first;
    size_t told;
    enum hr_status status;

    job->pixels = hr_array_data(*array);
    hr_ctx_for_each(ctx, n, run_slot, job);
    status = gather(job->failure, n, &told, &first);
    if (status != HR_OK)
        return status;
    if (strict && first != NULL) {
        if (err != NULL)
            *err = first->error;
        return first->error.status;
    }
    if (hr_batch_new(array, job->failure, told, out) != HR_OK)
        return hr__nomem(err, "image", "a batch", told * sizeof(*job->failure));
    return HR_OK;
}

/* Each slot is an item of its own to the limits. */
static enum hr_status make_slots(const struct hr_image_options *o, size_t n,
                                 struct hr_array **out, struct hr_error *err)
{
    struct hr__form form;
    enum hr_status status;

    hr__form_of(o, &form);
    status = hr__limits_target(o, o->width, o->height,
                               (size_t)form.channels * hr_dtype_size(form.dtype), err);
    return status == HR_OK ? hr__form_array(&form, o->into, (int64_t)n, o->height,
                                            o->width, out, err)
                           : status;
}

enum hr_status hr_image_load_batch(struct hr_ctx *ctx, const struct hr_value *srcs,
                                   size_t n, const int64_t *index,
                                   const struct hr_image_options *options, int strict,
                                   struct hr_value *out, struct hr_error *err)
{
    struct job job = {.srcs = srcs, .index = index, .options = options};
    struct hr_array *array = NULL;
    struct board *board;
    void *scratch = NULL;
    enum hr_status status = hr__image_options_check(options, "load_image_batch", err);

    *out = HR_VALUE_EMPTY;
    if (status != HR_OK)
        return status;
    if (n == 0 || options->width == 0 || options->height == 0)
        return hr_error_set(
            err, HR_ERR_ARG, "image", 0,
            "load_image_batch: expected at least one source and a width "
            "and height, got %zu sources, %lld x %lld",
            n, (long long)options->width, (long long)options->height);
    status = hr_ctx_scratch(ctx, &board_class, &scratch, err);
    board = scratch;
    if (status == HR_OK)
        status = board_reserve(board, n, err);
    if (status == HR_OK)
        status = make_slots(options, n, &array, err);
    if (status == HR_OK) {
        job.failure = board->failure;
        job.slot_bytes = hr_array_nbytes(array) / n;
        status = run_batch(ctx, &job, n, strict, &array, out, err);
    }
    hr_array_unref(&array);
    return status;
}
