/* The way of the rows: see canvas.h.
 *
 *     decoded rows -> colours by profile -> converted to the output's pixels
 *                  -> resized -> turned -> output
 *
 * Each step is left out where it would change nothing, so the common ways are short: a
 * picture in the output's own pixels and size is decoded straight into its place; one
 * that is only scaled goes through a few staging rows, warm in the cache, and the
 * resampler writes the output. Where a picture is to be turned too, it is turned last,
 * when it is small: the resampler is told so and gives the bytes that turning first
 * would have given.
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

/* Blacken what the picture leaves free; with alpha that is transparent black. */
static void clear_margins(const struct hr__canvas *c, uint8_t *pixels)
{
    const struct hr__fit *f = &c->fit;
    size_t left = (size_t)f->put_x * c->pixel_bytes;
    size_t middle = (size_t)f->kept_width * c->pixel_bytes;
    size_t above = (size_t)f->put_y;
    size_t below = (size_t)f->out_height - above - (size_t)f->kept_height;

    memset(pixels, 0, above * c->stride);
    memset(pixels + ((size_t)f->out_height - below) * c->stride, 0, below * c->stride);
    if (middle == c->stride)
        return;
    for (size_t y = above; y < (size_t)f->out_height - below; y++) {
        memset(pixels + y * c->stride, 0, left);
        memset(pixels + y * c->stride + left + middle, 0, c->stride - left - middle);
    }
}

/* Make the output unless there is one. */
static enum hr_status prepare_output(struct hr__canvas *c, struct hr_error *err)
{
    const struct hr__fit *f = &c->fit;
    enum hr_pix_fmt pix_fmt = c->options->pix_fmt;
    enum hr_dtype dtype = hr__pix_fmt_bytes(pix_fmt) == 2 ? HR_U16 : HR_U8;
    int64_t shape[3] = {f->out_height, f->out_width, hr__pix_fmt_channels(pix_fmt)};
    uint8_t *pixels = c->slot;
    enum hr_status status;

    c->stride = (size_t)f->out_width * c->pixel_bytes;
    if (pixels == NULL) {
        status = hr__limits_target(c->options, f->out_width, f->out_height,
                                   c->pixel_bytes, err);
        if (status == HR_OK)
            status = hr_array_alloc(dtype, 3, shape, &c->array, err);
        if (status != HR_OK)
            return status;
        pixels = hr_array_data(c->array);
    }
    clear_margins(c, pixels);
    c->origin =
        pixels + (size_t)f->put_y * c->stride + (size_t)f->put_x * c->pixel_bytes;
    return HR_OK;
}

/* The way from the stored picture to the resized, not yet turned one: the fit, seen
 * through the turn. */
static void plan_resize(const struct hr__canvas *c, struct hr__resample_plan *p)
{
    const struct hr__fit *f = &c->fit;
    bool across = c->turn.transposed;

    *p = (struct hr__resample_plan){
        .width = c->width,
        .height = c->height,
        .scaled_width = across ? f->scaled_height : f->scaled_width,
        .scaled_height = across ? f->scaled_width : f->scaled_height,
        .cut_x = across ? f->cut_y : f->cut_x,
        .cut_y = across ? f->cut_x : f->cut_y,
        .kept_width = across ? f->kept_height : f->kept_width,
        .kept_height = across ? f->kept_width : f->kept_height,
        .channels = hr__pix_fmt_channels(c->options->pix_fmt),
        .algo = c->options->algo,
        .wide = hr__pix_fmt_bytes(c->options->pix_fmt) == 2,
        .mirror_x = c->turn.mirror_x,
        .mirror_y = c->turn.mirror_y,
        .transposed = across,
    };
    if (p->mirror_x)
        p->cut_x = p->scaled_width - p->cut_x - p->kept_width;
    if (p->mirror_y)
        p->cut_y = p->scaled_height - p->cut_y - p->kept_height;
}

static enum hr_status prepare_resize(struct hr__canvas *c,
                                     const struct hr__resample_plan *plan,
                                     struct hr_error *err)
{
    uint8_t *out = c->origin;
    size_t stride = c->stride;
    enum hr_status status;

    if (!hr__turn_is_none(&c->turn)) {
        stride = (size_t)plan->kept_width * c->pixel_bytes;
        status = hr_buffer_new(stride * (size_t)plan->kept_height, &c->resized, err);
        if (status != HR_OK)
            return status;
        out = hr_buffer_data(c->resized);
    }
    return hr__resample_begin(&c->easel->resampler, plan, out, stride, err);
}

static struct hr__turn turn_of(const struct hr_image_options *o,
                               const struct hr__picture *picture)
{
    return hr__turn_of(o->orientation == HR_ORIENTATION_APPLY ? picture->orientation
                                                              : 1);
}

static void fit(const struct hr_image_options *o, const struct hr__picture *picture,
                bool transposed, struct hr__fit *out)
{
    hr__fit(transposed ? picture->height : picture->width,
            transposed ? picture->width : picture->height, o, out);
}

void hr__canvas_target(const struct hr_image_options *options,
                       const struct hr__picture *picture, int64_t *width,
                       int64_t *height)
{
    struct hr__fit f;

    fit(options, picture, turn_of(options, picture).transposed, &f);
    *width = f.out_width;
    *height = f.out_height;
}

/* What becomes of the pixels, and by which steps. */
static void choose_steps(struct hr__canvas *c, const struct hr__picture *picture)
{
    const struct hr_image_options *o = c->options;

    c->width = picture->width;
    c->height = picture->height;
    c->rows_put = 0;
    c->turn = turn_of(o, picture);
    fit(o, picture, c->turn.transposed, &c->fit);
    c->pixel_bytes = (size_t)hr__pix_fmt_channels(o->pix_fmt) *
                     (size_t)hr__pix_fmt_bytes(o->pix_fmt);
    c->conversion = (struct hr__conversion){
        .channels = picture->channels,
        .sample_bytes = picture->sample_bytes,
        .to = o->pix_fmt,
        .background = o->background,
    };
}

static bool keeps_size(const struct hr__resample_plan *p)
{
    return p->kept_width == p->width && p->kept_height == p->height &&
           p->scaled_width == p->width && p->scaled_height == p->height;
}

size_t hr__canvas_row_bytes(const struct hr__canvas *c)
{
    const struct hr__conversion *v = &c->conversion;

    return (size_t)c->width * (size_t)v->channels * (size_t)v->sample_bytes;
}

static enum hr_status prepare_staging(struct hr__canvas *c, struct hr_error *err)
{
    enum hr_status status;

    if (c->direct)
        return HR_OK;
    status = staging_reserve(&c->easel->decoded, hr__canvas_row_bytes(c), err);
    if (status == HR_OK && c->converts)
        status = staging_reserve(&c->easel->converted,
                                 (size_t)c->width * c->pixel_bytes, err);
    return status;
}

enum hr_status hr__canvas_begin(struct hr__canvas *c, const struct hr__picture *picture,
                                struct hr_error *err)
{
    struct hr__resample_plan plan;
    enum hr_status status;

    choose_steps(c, picture);
    plan_resize(c, &plan);
    c->resizes = !keeps_size(&plan);
    c->conversion.premultiply = c->resizes && c->options->pix_fmt == HR_RGBA &&
                                c->options->background < 0 &&
                                picture->channels % 2 == 0;
    c->converts = !hr__convert_keeps(&c->conversion);
    c->direct = !c->converts && !c->resizes && hr__turn_is_none(&c->turn);
    status = prepare_output(c, err);
    if (status == HR_OK)
        status = prepare_staging(c, err);
    if (status == HR_OK && c->resizes)
        status = prepare_resize(c, &plan, err);
    hr__placement_init(&c->placement, &c->turn, plan.kept_width, plan.kept_height,
                       c->origin, c->stride, c->pixel_bytes);
    return status;
}

/* ---- rows ---- */

int hr__canvas_rows(struct hr__canvas *c, uint8_t **rows)
{
    int64_t left = c->height - c->rows_put;
    int n = left < HR_PUSH_ROWS ? (int)left : HR_PUSH_ROWS;

    if (!c->direct)
        staging_rows(&c->easel->decoded, rows, n);
    for (int i = 0; c->direct && i < n; i++)
        rows[i] = c->origin + (size_t)(c->rows_put + i) * c->stride;
    return n;
}

/* The resized picture is whole: turn it, and take alpha out of its colours. */
static void finish(struct hr__canvas *c)
{
    const struct hr__resample_plan *p = &c->easel->resampler.plan;
    const uint8_t *from = c->resized != NULL ? hr_buffer_data(c->resized) : NULL;
    size_t stride = (size_t)p->kept_width * c->pixel_bytes;

    for (int64_t y = 0; from != NULL && y < p->kept_height; y += HR_PUSH_ROWS) {
        int64_t left = p->kept_height - y;
        int n = left < HR_PUSH_ROWS ? (int)left : HR_PUSH_ROWS;
        const uint8_t *rows[HR_PUSH_ROWS];

        for (int i = 0; i < n; i++)
            rows[i] = from + (size_t)(y + i) * stride;
        hr__place_rows(&c->placement, rows, y, n, p->kept_width);
    }
    for (int64_t y = 0; c->conversion.premultiply && y < c->fit.kept_height; y++)
        hr__unpremultiply_row(c->origin + (size_t)y * c->stride,
                              (size_t)c->fit.kept_width);
}

static void put_in_place(struct hr__canvas *c, const uint8_t *const *rows, int n)
{
    if (!c->direct) {
        hr__place_rows(&c->placement, rows, c->rows_put, n, c->width);
        return;
    }
    for (int i = 0; i < n; i++) {
        uint8_t *to = c->origin + (size_t)(c->rows_put + i) * c->stride;

        if (to != rows[i])
            memcpy(to, rows[i], (size_t)c->width * c->pixel_bytes);
    }
}

/* Colours are converted in rows of our own, where the codec put them already or to
 * where they are copied. */
static void colour_rows(struct hr__canvas *c, const uint8_t *const *rows, uint8_t **own,
                        int n)
{
    hr__canvas_rows(c, own);
    for (int i = 0; i < n; i++) {
        if (own[i] != rows[i])
            memcpy(own[i], rows[i], hr__canvas_row_bytes(c));
        hr__colours_row(c->colours, own[i], (size_t)c->width);
    }
}

enum hr_status hr__canvas_put(struct hr__canvas *c, const uint8_t *const *rows, int n,
                              struct hr_error *err)
{
    uint8_t *own[HR_PUSH_ROWS];
    uint8_t *converted[HR_PUSH_ROWS];

    if (c->colours != NULL) {
        colour_rows(c, rows, own, n);
        rows = (const uint8_t *const *)own;
    }
    if (c->converts) {
        staging_rows(&c->easel->converted, converted, n);
        for (int i = 0; i < n; i++)
            hr__convert_row(&c->conversion, rows[i], converted[i], (size_t)c->width);
        rows = (const uint8_t *const *)converted;
    }
    if (c->resizes)
        hr__resample_push(&c->easel->resampler, rows, n);
    else
        put_in_place(c, rows, n);
    c->rows_put += n;
    if (c->resizes && c->rows_put == c->height)
        finish(c);
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

void hr__canvas_end(struct hr__canvas *c)
{
    hr_buffer_unref(&c->resized);
}

void hr__easel_fini(struct hr__easel *easel)
{
    hr__resampler_fini(&easel->resampler);
    hr__free(easel->decoded.rows);
    hr__free(easel->converted.rows);
    *easel = (struct hr__easel){0};
}
