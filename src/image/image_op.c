/* The image functions as ops: what a pipeline binds once and runs per item. */
#include "base/mem.h"
#include "image/encode.h"
#include "image/load.h"
#include "base/banned.h"

static enum hr_status wrong_kind(struct hr_error *err, const char *who,
                                 const char *expected, const struct hr_value *in)
{
    return hr_error_set(
        err, HR_ERR_TYPE, "image", 0, "%s: expected %s, got %s%s", who, expected,
        hr_value_kind(in),
        in->cls == &hr_record_class ? "; use pipe(..., key=...) for records" : "");
}

/* state: the op's from now on; NULL: there was no memory for it. */
static enum hr_status op_new(const struct hr_op_class *cls, void *state,
                             struct hr_op *out, struct hr_error *err)
{
    if (state == NULL)
        return hr__nomem(err, "image", "an operation", 0);
    *out = (struct hr_op){cls, state};
    return HR_OK;
}

/* ---- load_image ---- */

struct load_state {
    struct hr_image_options options;
    int strict; /* of load_image_batch */
};

/* A picture that is not whole goes on as a batch of one slot, which says so. */
static enum hr_status picture_value(struct hr_array **array, const struct hr_value *src,
                                    const struct hr_error *detail, struct hr_value *out,
                                    struct hr_error *err)
{
    struct hr_slot_failure cut = {.kept = 1, .error = *detail};

    if (detail->status == HR_OK) {
        *out = hr_value_of_array(array);
        return HR_OK;
    }
    hr__load_name(src, NULL, cut.name);
    if (hr_batch_new(array, &cut, 1, out) == HR_OK)
        return HR_OK;
    hr_array_unref(array);
    return hr__nomem(err, "image", "a picture", sizeof(cut));
}

static enum hr_status load_run(void *state, struct hr_ctx *ctx,
                               const struct hr_value *in, struct hr_value *out,
                               struct hr_error *err)
{
    const struct load_state *s = state;
    struct hr_error detail = {0};
    struct hr_array *array = NULL;
    enum hr_status status = hr_image_load(ctx, in, NULL, &s->options, &array, &detail);

    *out = HR_VALUE_EMPTY;
    if (status == HR_OK)
        return picture_value(&array, in, &detail, out, err);
    if (err != NULL)
        *err = detail;
    return status;
}

static const struct hr_op_class load_class = {"load_image", load_run, hr__free};

/* What belongs to one batch cannot be bound for many. */
static enum hr_status check_bound(const struct hr_image_options *options,
                                  const char *who, struct hr_error *err)
{
    enum hr_status status = hr__image_options_check(options, who, err);

    if (status == HR_OK &&
        (options->boxes != NULL || options->flips != NULL || options->into != NULL))
        return hr_error_set(
            err, HR_ERR_ARG, "image", 0,
            "%s: boxes and flips of single slots, and an array to write "
            "into, cannot be bound",
            who);
    return status;
}

static struct load_state *load_state_new(const struct hr_image_options *options,
                                         int strict)
{
    struct load_state *s = hr__calloc(1, sizeof(*s));

    if (s != NULL)
        *s = (struct load_state){*options, strict};
    return s;
}

enum hr_status hr_image_load_op(const struct hr_image_options *options,
                                struct hr_op *out, struct hr_error *err)
{
    enum hr_status status = check_bound(options, "load_image", err);

    *out = (struct hr_op){NULL, NULL};
    if (status != HR_OK)
        return status;
    return op_new(&load_class, load_state_new(options, 0), out, err);
}

/* ---- load_image_frames ---- */

static enum hr_status frames_run(void *state, struct hr_ctx *ctx,
                                 const struct hr_value *in, struct hr_value *out,
                                 struct hr_error *err)
{
    const struct load_state *s = state;
    struct hr_error detail = {0};
    struct hr_array *array = NULL;
    enum hr_status status =
        hr_image_load_frames(ctx, in, NULL, &s->options, &array, &detail);

    *out = HR_VALUE_EMPTY;
    if (status == HR_OK)
        return picture_value(&array, in, &detail, out, err);
    if (err != NULL)
        *err = detail;
    return status;
}

static const struct hr_op_class frames_class = {"load_image_frames", frames_run,
                                                hr__free};

enum hr_status hr_image_load_frames_op(const struct hr_image_options *options,
                                       struct hr_op *out, struct hr_error *err)
{
    enum hr_status status = check_bound(options, "load_image_frames", err);

    *out = (struct hr_op){NULL, NULL};
    if (status != HR_OK)
        return status;
    return op_new(&frames_class, load_state_new(options, 0), out, err);
}

/* ---- load_image_batch ---- */

static enum hr_status batch_run(void *state, struct hr_ctx *ctx,
                                const struct hr_value *in, struct hr_value *out,
                                struct hr_error *err)
{
    const struct load_state *s = state;

    *out = HR_VALUE_EMPTY;
    if (in->cls != &hr_list_class)
        return wrong_kind(err, "load_image_batch", "a list of paths or bytes", in);
    return hr_image_load_batch(ctx, hr_list_peek(in), hr_list_size(in),
                               hr_list_peek_index(in), &s->options, s->strict, out,
                               err);
}

static const struct hr_op_class batch_class = {"load_image_batch", batch_run, hr__free};

enum hr_status hr_image_load_batch_op(const struct hr_image_options *options,
                                      int strict, struct hr_op *out,
                                      struct hr_error *err)
{
    enum hr_status status = check_bound(options, "load_image_batch", err);

    *out = (struct hr_op){NULL, NULL};
    if (status != HR_OK)
        return status;
    if (options->width == 0 || options->height == 0)
        return hr_error_set(err, HR_ERR_ARG, "image", 0,
                            "load_image_batch: expected a width and a height, got "
                            "%lld x %lld",
                            (long long)options->width, (long long)options->height);
    return op_new(&batch_class, load_state_new(options, strict), out, err);
}

/* ---- image_info, image_info_batch ---- */

static enum hr_status info_run(void *state, struct hr_ctx *ctx,
                               const struct hr_value *in, struct hr_value *out,
                               struct hr_error *err)
{
    const struct load_state *s = state;

    return hr_image_info(ctx, in, NULL, &s->options, out, err);
}

static const struct hr_op_class info_class = {"image_info", info_run, hr__free};

enum hr_status hr_image_info_op(const struct hr_image_options *options,
                                struct hr_op *out, struct hr_error *err)
{
    enum hr_status status = hr__image_options_check(options, "image_info", err);

    *out = (struct hr_op){NULL, NULL};
    if (status != HR_OK)
        return status;
    return op_new(&info_class, load_state_new(options, 0), out, err);
}

static enum hr_status infos_run(void *state, struct hr_ctx *ctx,
                                const struct hr_value *in, struct hr_value *out,
                                struct hr_error *err)
{
    const struct load_state *s = state;

    *out = HR_VALUE_EMPTY;
    if (in->cls != &hr_list_class)
        return wrong_kind(err, "image_info_batch", "a list of paths or bytes", in);
    return hr_image_info_batch(ctx, hr_list_peek(in), hr_list_size(in),
                               hr_list_peek_index(in), &s->options, s->strict, out,
                               err);
}

static const struct hr_op_class infos_class = {"image_info_batch", infos_run, hr__free};

enum hr_status hr_image_info_batch_op(const struct hr_image_options *options,
                                      int strict, struct hr_op *out,
                                      struct hr_error *err)
{
    enum hr_status status = hr__image_options_check(options, "image_info_batch", err);

    *out = (struct hr_op){NULL, NULL};
    if (status != HR_OK)
        return status;
    return op_new(&infos_class, load_state_new(options, strict), out, err);
}

/* ---- encode_image ---- */

static enum hr_status encode_run(void *state, struct hr_ctx *ctx,
                                 const struct hr_value *in, struct hr_value *out,
                                 struct hr_error *err)
{
    const struct hr_array *from = hr_value_peek_array(in);
    struct hr_buffer *buffer = NULL;
    enum hr_status status;

    *out = HR_VALUE_EMPTY;
    if (from == NULL)
        from = hr_batch_peek_array(in);
    if (from == NULL)
        return wrong_kind(err, "encode_image", "an array", in);
    status = hr_image_encode(ctx, from, state, &buffer, err);
    if (status == HR_OK)
        *out = hr_value_of_bytes(&buffer);
    return status;
}

static const struct hr_op_class encode_class = {"encode_image", encode_run, hr__free};

enum hr_status hr_image_encode_op(const struct hr_encode_options *options,
                                  struct hr_op *out, struct hr_error *err)
{
    struct hr_encode_options *state;
    enum hr_status status = hr__encode_options_check(options, err);

    *out = (struct hr_op){NULL, NULL};
    if (status != HR_OK)
        return status;
    state = hr__calloc(1, sizeof(*state));
    if (state != NULL)
        *state = *options;
    return op_new(&encode_class, state, out, err);
}

/* ---- resize ---- */

struct resize_state {
    int64_t width;
    int64_t height;
    enum hr_scale_algo algo;
};

static enum hr_status resize_run(void *state, struct hr_ctx *ctx,
                                 const struct hr_value *in, struct hr_value *out,
                                 struct hr_error *err)
{
    const struct resize_state *s = state;
    const struct hr_array *from = hr_value_peek_array(in);
    struct hr_array *array = NULL;
    enum hr_status status;

    *out = HR_VALUE_EMPTY;
    if (from == NULL)
        from = hr_batch_peek_array(in);
    if (from == NULL)
        return wrong_kind(err, "resize", "an array", in);
    status = hr_image_resize(ctx, from, s->width, s->height, s->algo, &array, err);
    if (status == HR_OK)
        *out = hr_value_of_array(&array);
    return status;
}

static const struct hr_op_class resize_class = {"resize", resize_run, hr__free};

enum hr_status hr_image_resize_op(int64_t width, int64_t height,
                                  enum hr_scale_algo algo, struct hr_op *out,
                                  struct hr_error *err)
{
    struct resize_state *s;
    enum hr_status status = hr__image_resize_check(width, height, algo, err);

    *out = (struct hr_op){NULL, NULL};
    if (status != HR_OK)
        return status;
    s = hr__calloc(1, sizeof(*s));
    if (s != NULL)
        *s = (struct resize_state){width, height, algo};
    return op_new(&resize_class, s, out, err);
}

/* ---- transform ---- */

/* Pictures of a stack follow that of the item's index, so stacks draw apart from each
 * other as long as they are equally large. */
static enum hr_status transform_run(void *state, struct hr_ctx *ctx,
                                    const struct hr_value *in, struct hr_value *out,
                                    struct hr_error *err)
{
    const struct load_state *s = state;
    struct hr_image_options options = s->options;
    struct hr_array *src = hr_value_peek_array(in);
    struct hr_array *array = NULL;
    int64_t item = hr_ctx_item(ctx);
    enum hr_status status;

    *out = HR_VALUE_EMPTY;
    if (src == NULL)
        return wrong_kind(err, "transform", "an array", in);
    if (item >= 0)
        options.index = item * (hr_array_ndim(src) == 4 ? hr_array_shape(src)[0] : 1);
    status = hr_image_transform(ctx, src, &options, &array, err);
    if (status == HR_OK)
        *out = hr_value_of_array(&array);
    return status;
}

static const struct hr_op_class transform_class = {"transform", transform_run,
                                                   hr__free};

enum hr_status hr_image_transform_op(const struct hr_image_options *options,
                                     struct hr_op *out, struct hr_error *err)
{
    enum hr_status status = check_bound(options, "transform", err);

    *out = (struct hr_op){NULL, NULL};
    if (status != HR_OK)
        return status;
    return op_new(&transform_class, load_state_new(options, 0), out, err);
}
