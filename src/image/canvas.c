/* The way of the rows: see canvas.h.
 *
 *     decoded rows -> colours by profile -> converted to the output's pixels -> tail
 *     decoded planes -------------------------------------------------------> tail
 *
 * Each step is left out where it would change nothing, so the common ways are short: a
 * picture in the output's own pixels and size is decoded straight into its place; one
 * that is only scaled goes through a few staging rows, warm in the cache.
 *
 * A codec that can give planes says so in the picture; it is asked for them where the
 * picture changes its size and nobody wants the exact bytes of the way over RGB, nor
 * rows: a profile's colours, or what there is of a damaged picture.
 *
 * With alpha in the output a picture is resized with its colours multiplied by alpha,
 * as Pillow does, so that the colour of transparent pixels does not bleed. */
#include "image/canvas.h"

#include <string.h>

#include "base/mem.h"
#include "image/lcms.h"
#include "image/limits.h"
#include "base/banned.h"

/* Staging rows begin at an odd multiple of this. libjpeg-turbo writes rows that are
 * aligned to its vectors past the cache, and the resize that reads them next would wait
 * for memory: 0.2 ms per picture of 640 x 400. */
#define MISALIGN 8
#define INKS ((size_t)4)

static enum hr_status staging_reserve(struct hr__staging *s, size_t row_bytes,
                                      struct hr_error *err)
{
    size_t bytes;

    s->stride = (row_bytes + HR_ROW_SLACK + MISALIGN + 63) & ~(size_t)63;
    bytes = s->stride * HR_PUSH_ROWS + MISALIGN;
    if (bytes <= s->bytes)
        return HR_OK;
    hr__free(s->rows);
    s->bytes = 0;
    /* Zeroed: kernels read the slack, with weight 0. */
    s->rows = hr__calloc(bytes, 1);
    if (s->rows == NULL)
        return hr__nomem(err, "image", "rows of a picture", bytes);
    s->bytes = bytes;
    return HR_OK;
}

static void staging_rows(const struct hr__staging *s, uint8_t **rows, int n)
{
    for (int i = 0; i < n; i++)
        rows[i] = s->rows + MISALIGN + (size_t)i * s->stride;
}

/* ---- begin ---- */

/* The output's pixels: made, unless there is a slot. */
static enum hr_status prepare_output(struct hr__canvas *c,
                                     const struct hr__tail_plan *plan, void **pixels,
                                     struct hr_error *err)
{
    int64_t w = plan->fit.out_width;
    int64_t h = plan->fit.out_height;
    size_t bytes = (size_t)plan->form.channels * hr_dtype_size(plan->form.dtype);
    enum hr_status status;

    *pixels = c->slot;
    if (c->slot != NULL)
        return HR_OK;
    status = hr__limits_target(c->options, w, h, bytes, err);
    if (status == HR_OK)
        status =
            hr__form_array(&plan->form, c->options->into, -1, h, w, &c->array, err);
    if (status == HR_OK)
        *pixels = hr_array_data(c->array);
    return status;
}

void hr__canvas_target(const struct hr_image_options *options,
                       const struct hr__picture *picture, int64_t *width,
                       int64_t *height)
{
    bool applies = options->orientation == HR_ORIENTATION_APPLY;
    bool across = hr__turn_of(applies ? picture->orientation : 1).transposed;
    const struct hr__pick pick = {.index = options->index, .flip = -1};
    struct hr__take take = {0};
    struct hr__fit f = {0};
    bool flip;

    if (hr__take_choose(options, &pick, across ? picture->height : picture->width,
                        across ? picture->width : picture->height, &take, &flip,
                        NULL) == HR_OK)
        hr__fit(&take, options, &f);
    *width = f.out_width;
    *height = f.out_height;
}

/* The largest shrinking that leaves enough for the fit. */
static int choose_shrink(const struct hr_image_options *o,
                         const struct hr__picture *picture, const struct hr__fit *f)
{
    int shrink = o->draft && picture->shrinks ? 8 : 1;

    while (shrink > 1 && (f->take_width < shrink * f->scaled_width ||
                          f->take_height < shrink * f->scaled_height))
        shrink /= 2;
    return shrink;
}

static int64_t over(int64_t value, int by)
{
    return (value + by - 1) / by;
}

/* Of a shrunk picture: every pixel that has something of what was taken. */
static void shrink_take(struct hr__fit *f, int by)
{
    int64_t right = over(f->take_x + f->take_width, by);
    int64_t bottom = over(f->take_y + f->take_height, by);

    f->take_x /= by;
    f->take_y /= by;
    f->take_width = right - f->take_x;
    f->take_height = bottom - f->take_y;
}

/* Of rows whose colours are made. */
static int colour_channels(const struct hr__picture *picture)
{
    return picture->ink ? 3 : picture->channels;
}

/* What becomes of the picture. */
static enum hr_status plan_tail(struct hr__canvas *c, const struct hr__picture *picture,
                                struct hr__tail_plan *plan, struct hr_error *err)
{
    const struct hr_image_options *o = c->options;
    int orientation = o->orientation == HR_ORIENTATION_APPLY ? picture->orientation : 1;
    struct hr__turn turn = hr__turn_of(orientation);
    int64_t shown_width = turn.transposed ? picture->height : picture->width;
    int64_t shown_height = turn.transposed ? picture->width : picture->height;
    struct hr__take take;
    enum hr_status status;

    *plan = (struct hr__tail_plan){
        .turn = turn,
        .algo = o->algo,
        .reversed = o->pix_fmt == HR_BGR24,
    };
    status = hr__take_choose(o, &c->pick, shown_width, shown_height, &take, &plan->flip,
                             err);
    if (status != HR_OK)
        return status;
    hr__fit(&take, o, &plan->fit);
    hr__form_of(o, &plan->form);
    plan->premultiplied = hr__tail_resizes(plan) && o->pix_fmt == HR_RGBA &&
                          o->background < 0 && colour_channels(picture) % 2 == 0;
    c->shrink = choose_shrink(o, picture, &plan->fit);
    shrink_take(&plan->fit, c->shrink);
    plan->width = c->width = over(picture->width, c->shrink);
    plan->height = c->height = over(picture->height, c->shrink);
    return HR_OK;
}

/* Grey is BT.601's luma. */
static bool luma_is_grey(const struct hr__yuv *yuv)
{
    return yuv->count == 1 || yuv->space == HR_COLOUR_BT601;
}

static bool wants_planes(const struct hr__canvas *c, const struct hr__picture *picture,
                         const struct hr__tail_plan *plan)
{
    enum hr_pix_fmt fmt = c->options->pix_fmt;

    return picture->yuv.count > 0 && !c->options->exact && c->shrink == 1 &&
           c->colours == NULL && !c->options->allow_truncated &&
           hr__tail_resizes(plan) &&
           (fmt == HR_RGB24 || fmt == HR_BGR24 ||
            (fmt == HR_GRAY && luma_is_grey(&picture->yuv))) &&
           hr__planes_can(&plan->fit);
}

static void plan_conversion(struct hr__canvas *c, const struct hr__picture *picture,
                            const struct hr__tail_plan *plan)
{
    c->conversion = (struct hr__conversion){
        .channels = colour_channels(picture),
        .sample_bytes = picture->sample_bytes,
        .to = c->options->pix_fmt,
        .background = c->options->background,
        .premultiply = plan->premultiplied,
    };
    c->converts = !hr__convert_keeps(&c->conversion);
}

size_t hr__canvas_row_bytes(const struct hr__canvas *c)
{
    const struct hr__conversion *v = &c->conversion;

    return (size_t)c->width * (c->ink ? INKS : (size_t)v->channels) *
           (size_t)v->sample_bytes;
}

/* To and fro: ink, RGB, and that converted where the ink was. */
static enum hr_status prepare_ink(struct hr__canvas *c, size_t converted,
                                  struct hr_error *err)
{
    size_t pixel = converted > INKS ? converted : INKS;
    enum hr_status status =
        staging_reserve(&c->easel->decoded, (size_t)c->width * pixel, err);

    if (status == HR_OK)
        status = staging_reserve(&c->easel->converted, (size_t)c->width * 3, err);
    return status;
}

static enum hr_status prepare_staging(struct hr__canvas *c, struct hr_error *err)
{
    enum hr_pix_fmt to = c->conversion.to;
    size_t converted = (size_t)hr__pix_fmt_channels(to) * (size_t)hr__pix_fmt_bytes(to);
    enum hr_status status;

    if (c->planar)
        return HR_OK;
    if (c->ink)
        return prepare_ink(c, converted, err);
    status = staging_reserve(&c->easel->decoded, hr__canvas_row_bytes(c), err);
    if (status == HR_OK && c->converts)
        status =
            staging_reserve(&c->easel->converted, (size_t)c->width * converted, err);
    return status;
}

enum hr_status hr__canvas_begin(struct hr__canvas *c, const struct hr__picture *picture,
                                struct hr_error *err)
{
    struct hr__tail_plan plan;
    void *pixels;
    enum hr_status status = plan_tail(c, picture, &plan, err);

    if (status != HR_OK)
        return status;
    c->rows_put = 0;
    c->ink = picture->ink;
    c->planar = wants_planes(c, picture, &plan);
    plan_conversion(c, picture, &plan);
    status = prepare_output(c, &plan, &pixels, err);
    if (status == HR_OK)
        status = prepare_staging(c, err);
    if (status == HR_OK)
        status = hr__tail_begin(&c->easel->tail, &plan,
                                c->planar ? &picture->yuv : NULL, pixels, err);
    return status;
}

/* ---- rows ---- */

int hr__canvas_rows(struct hr__canvas *c, uint8_t **rows)
{
    int64_t left = c->height - c->rows_put;
    int n = left < HR_PUSH_ROWS ? (int)left : HR_PUSH_ROWS;

    staging_rows(&c->easel->decoded, rows, n);
    for (int i = 0; !c->converts && !c->ink && i < n; i++) {
        uint8_t *place = hr__tail_in_place(&c->easel->tail, c->rows_put + i);

        if (place != NULL)
            rows[i] = place;
    }
    return n;
}

/* Colours are converted in rows of our own, where the codec put them already or to
 * where they are copied. */
static void colour_rows(struct hr__canvas *c, const uint8_t *const *rows, uint8_t **own,
                        int n)
{
    int room = hr__canvas_rows(c, own);

    for (int i = 0; i < n && i < room; i++) {
        if (own[i] != rows[i])
            memcpy(own[i], rows[i], hr__canvas_row_bytes(c));
        hr__colours_row(c->colours, own[i], own[i], (size_t)c->width);
    }
}

static void ink_rows(struct hr__canvas *c, const uint8_t *const *rows, uint8_t **own,
                     int n)
{
    staging_rows(&c->easel->converted, own, n);
    for (int i = 0; i < n; i++) {
        if (c->blank)
            memset(own[i], 0, (size_t)c->width * 3);
        else
            hr__colours_row(c->colours, rows[i], own[i], (size_t)c->width);
    }
}

struct hr__take hr__canvas_needs(const struct hr__canvas *c)
{
    return hr__tail_needs(&c->easel->tail);
}

void hr__canvas_skip(struct hr__canvas *c, int64_t n)
{
    hr__tail_skip(&c->easel->tail, n);
    c->rows_put += n;
}

enum hr_status hr__canvas_put(struct hr__canvas *c, const uint8_t *const *rows, int n,
                              struct hr_error *err)
{
    uint8_t *own[HR_PUSH_ROWS] = {NULL};
    uint8_t *converted[HR_PUSH_ROWS];

    if (c->ink)
        ink_rows(c, rows, own, n);
    else if (c->colours != NULL && !c->blank)
        colour_rows(c, rows, own, n);
    if (own[0] != NULL)
        rows = (const uint8_t *const *)own;
    if (c->converts) {
        staging_rows(c->ink ? &c->easel->decoded : &c->easel->converted, converted, n);
        for (int i = 0; i < n; i++)
            hr__convert_row(&c->conversion, rows[i], converted[i], (size_t)c->width);
        rows = (const uint8_t *const *)converted;
    }
    hr__tail_push(&c->easel->tail, rows, n);
    c->rows_put += n;
    return hr_ctx_check(c->ctx, err);
}

enum hr_status hr__canvas_put_all(struct hr__canvas *c, const uint8_t *pixels,
                                  size_t stride, int64_t n, struct hr_error *err)
{
    enum hr_status status = HR_OK;

    for (int64_t y = 0; status == HR_OK && y < n; y += HR_PUSH_ROWS) {
        int some = n - y < HR_PUSH_ROWS ? (int)(n - y) : HR_PUSH_ROWS;
        const uint8_t *rows[HR_PUSH_ROWS];

        for (int i = 0; i < some; i++)
            rows[i] = pixels + (size_t)(y + i) * stride;
        status = hr__canvas_put(c, rows, some, err);
    }
    return status;
}

void hr__canvas_groups(const struct hr__canvas *c, int64_t *first, int64_t *end)
{
    hr__planes_span(&c->easel->tail.planes, first, end);
}

void hr__canvas_columns(const struct hr__canvas *c, int64_t *left, int64_t *right)
{
    hr__planes_columns(&c->easel->tail.planes, left, right);
}

int hr__canvas_planes(const struct hr__canvas *c)
{
    return c->easel->tail.planes.plan.count;
}

void hr__canvas_plane_rows(struct hr__canvas *c, int plane, uint8_t **rows)
{
    hr__tail_plane_rows(&c->easel->tail, plane, rows);
}

enum hr_status hr__canvas_put_planes(struct hr__canvas *c, struct hr_error *err)
{
    hr__tail_put_planes(&c->easel->tail);
    return hr_ctx_check(c->ctx, err);
}

enum hr_status hr__canvas_put_frame(struct hr__canvas *c,
                                    const uint8_t *const base[HR_PLANES],
                                    const size_t stride[HR_PLANES],
                                    struct hr_error *err)
{
    hr__tail_put_frame(&c->easel->tail, base, stride);
    return hr_ctx_check(c->ctx, err);
}

void hr__canvas_rewind(struct hr__canvas *c)
{
    hr__tail_rewind(&c->easel->tail);
}

void hr__canvas_flush(struct hr__canvas *c)
{
    hr__tail_flush(&c->easel->tail);
}

void hr__canvas_end(struct hr__canvas *c)
{
    hr__tail_end(&c->easel->tail);
}

void hr__easel_fini(struct hr__easel *easel)
{
    hr__tail_fini(&easel->tail);
    hr__free(easel->decoded.rows);
    hr__free(easel->converted.rows);
    *easel = (struct hr__easel){0};
}
