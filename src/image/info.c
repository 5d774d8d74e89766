/* What a picture's header says, without its pixels. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "image/load.h"
#include "image/studio.h"
#include "base/banned.h"

/* ---- as a value ---- */

/* ptr is a pooled buffer that holds the struct. */
static void info_release(struct hr_value *value)
{
    struct hr_buffer *buffer = value->ptr;

    hr_buffer_unref(&buffer);
}

static size_t info_nbytes(const struct hr_value *value)
{
    return hr_buffer_size(value->ptr);
}

static struct hr_value info_share(const struct hr_value *value)
{
    return (struct hr_value){value->cls, hr_buffer_ref(value->ptr)};
}

const struct hr_value_class hr_image_info_class = {
    .name = "image info",
    .release = info_release,
    .nbytes = info_nbytes,
    .share = info_share,
};

const struct hr_image_info *hr_image_info_peek(const struct hr_value *value)
{
    return value->cls == &hr_image_info_class ? hr_buffer_data(value->ptr) : NULL;
}

/* ---- reading ---- */

static void describe(const struct hr__opened *opened,
                     const struct hr_image_options *options, struct hr_image_info *out)
{
    const struct hr__picture *p = &opened->picture;
    bool swapped = options->orientation == HR_ORIENTATION_APPLY &&
                   p->orientation >= 5 && p->orientation <= 8;

    *out = (struct hr_image_info){
        .width = swapped ? p->height : p->width,
        .height = swapped ? p->width : p->height,
        .channels = p->stored_channels,
        .bits = p->stored_bits,
        .frames = p->frames > 0 ? p->frames : 1,
        .orientation = p->orientation >= 1 && p->orientation <= 8 ? p->orientation : 1,
        .has_icc = p->icc != NULL,
    };
    snprintf(out->format, sizeof(out->format), "%s", opened->codec->name);
}

static enum hr_status read_info(struct hr_ctx *ctx, const struct hr_value *src,
                                const struct hr__load_id *id,
                                const struct hr_image_options *options,
                                struct hr_image_info *out, struct hr_error *err)
{
    struct hr__input in = {.options = options, .ctx = ctx};
    struct hr__opened opened = {0};
    struct hr_buffer *file = NULL;
    struct hr__studio *studio;
    enum hr_status status = hr__studio_get(ctx, &studio, err);

    *out = (struct hr_image_info){0};
    if (status == HR_OK)
        status =
            hr__source_open(src, options->encoded_max, &file, &in.data, &in.size, err);
    if (status == HR_OK)
        status = hr__studio_open(studio, &in, &opened, err);
    if (status == HR_OK && (opened.picture.width < 1 || opened.picture.height < 1))
        status = hr_error_set(err, HR_ERR_FORMAT, "image", 0,
                              "image: %s says its size is %lld x %lld",
                              opened.codec->name, (long long)opened.picture.width,
                              (long long)opened.picture.height);
    if (status == HR_OK)
        describe(&opened, options, out);
    hr__studio_close(&opened);
    hr_buffer_unref(&file);
    if (status >= HR_ERR_ARG)
        hr__source_sign(err, src, id);
    return status;
}

static enum hr_status info_value(const struct hr_image_info *info, struct hr_value *out,
                                 struct hr_error *err)
{
    struct hr_buffer *buffer;
    enum hr_status status = hr_buffer_new(sizeof(*info), &buffer, err);

    if (status != HR_OK)
        return status;
    memcpy(hr_buffer_data(buffer), info, sizeof(*info));
    *out = (struct hr_value){&hr_image_info_class, buffer};
    return HR_OK;
}

enum hr_status hr_image_info(struct hr_ctx *ctx, const struct hr_value *src,
                             const char *name, const struct hr_image_options *options,
                             struct hr_value *out, struct hr_error *err)
{
    const struct hr__load_id id = {.name = name, .item = -1, .slot = -1};
    struct hr_image_info info;
    enum hr_status status = hr__image_options_check(options, "image_info", err);

    *out = HR_VALUE_EMPTY;
    if (status == HR_OK)
        status = read_info(ctx, src, &id, options, &info, err);
    return status == HR_OK ? info_value(&info, out, err) : status;
}

/* ---- a batch ---- */

struct job {
    const struct hr_value *srcs;
    const int64_t *index;
    const struct hr_image_options *options;
    struct hr_value *out;
    struct hr_error *error; /* per slot */
};

static void run_slot(void *cookie, size_t slot, struct hr_ctx *ctx)
{
    const struct job *job = cookie;
    struct hr_error *err = &job->error[slot];
    const struct hr__load_id id = {
        .item = job->index != NULL ? job->index[slot] : -1,
        .slot = (int64_t)slot,
    };
    struct hr_image_info info;
    enum hr_status status;

    err->text[0] = '\0';
    status = hr_ctx_check(ctx, err);
    if (status == HR_OK)
        status = read_info(ctx, &job->srcs[slot], &id, job->options, &info, err);
    if (status == HR_OK)
        status = info_value(&info, &job->out[slot], err);
    err->status = status;
}

enum hr_status hr_image_info_batch(struct hr_ctx *ctx, const struct hr_value *srcs,
                                   size_t n, const int64_t *index,
                                   const struct hr_image_options *options, int strict,
                                   struct hr_value *out, struct hr_error *err)
{
    struct job job = {.srcs = srcs, .index = index, .options = options};
    struct hr_buffer *errors = NULL;
    enum hr_status status = hr__image_options_check(options, "image_info_batch", err);

    *out = HR_VALUE_EMPTY;
    if (status == HR_OK)
        status = hr_buffer_new(n * sizeof(struct hr_error), &errors, err);
    if (status == HR_OK && hr_list_new(n, out) != HR_OK)
        status = hr__nomem(err, "image", "a list", n);
    if (status == HR_OK) {
        job.error = hr_buffer_data(errors);
        job.out = hr_list_peek(out);
        hr_ctx_for_each(ctx, n, run_slot, &job);
    }
    for (size_t i = 0; status == HR_OK && i < n; i++) {
        if (job.error[i].status == HR_OK ||
            (!strict && job.error[i].status >= HR_ERR_ARG))
            continue;
        status = job.error[i].status;
        if (err != NULL)
            *err = job.error[i];
    }
    hr_buffer_unref(&errors);
    if (status != HR_OK)
        hr_value_release(out);
    return status;
}
