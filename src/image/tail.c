/* The tail: from rows to the training tensor in one pass.
 *
 *     rows of pixels --> resampler ---------------> \
 *                                                    > finish --> the slot of a batch
 *     rows of planes --> planes (resize, colour) --> /
 *
 * Decoders give either rows of pixels or rows of planes. Pixels are resized byte for
 * byte as Pillow does (resample.c). Planes are resized each from its own size and become
 * RGB at the size of the target (planes.c): less than half the work for 4:2:0, and the
 * decoder need neither upsample nor convert. What comes out of either is a row of the
 * target, and finish.c brings it into the layout and the type of the output while it is
 * warm. So a picture is never stored between the decoder and its slot: it passes through
 * rings of a few rows.
 *
 * Crop, flip and pad cost nothing of their own. A crop is what the tables of weights
 * begin at; a filter does not look beyond it, so the result is that of cutting first.
 * A flip stores the table's entries in the reverse order. What a picture leaves free of
 * its target is blackened at the beginning.
 *
 * Two things need the whole picture at the size of the target before it can be
 * finished. A picture to be turned is resized as stored, with the weights and the order
 * of passes of the turned one (`resized`), and then put in place: the small picture is
 * turned, and the bytes are those of turning first. And where turned or premultiplied
 * pixels are to have another layout or type, they are put together first (`held`).
 *
 * Both roads need, in steady state, no memory but the pooled buffers of those two. */
#include "image/tail.h"

#include <string.h>

#include "image/pixels.h"
#include "base/banned.h"

/* The fit of the shown picture as that of the stored one. */
static void see_through(const struct hr__tail_plan *p, struct hr__fit *out)
{
    const struct hr__fit *f = &p->fit;
    bool across = p->turn.transposed;

    *out = (struct hr__fit){
        .take_x = across ? f->take_y : f->take_x,
        .take_y = across ? f->take_x : f->take_y,
        .take_width = across ? f->take_height : f->take_width,
        .take_height = across ? f->take_width : f->take_height,
        .scaled_width = across ? f->scaled_height : f->scaled_width,
        .scaled_height = across ? f->scaled_width : f->scaled_height,
        .cut_x = across ? f->cut_y : f->cut_x,
        .cut_y = across ? f->cut_x : f->cut_y,
        .kept_width = across ? f->kept_height : f->kept_width,
        .kept_height = across ? f->kept_width : f->kept_height,
    };
    if (p->turn.mirror_x) {
        out->cut_x = out->scaled_width - out->cut_x - out->kept_width;
        out->take_x = p->width - out->take_x - out->take_width;
    }
    if (p->turn.mirror_y) {
        out->cut_y = out->scaled_height - out->cut_y - out->kept_height;
        out->take_y = p->height - out->take_y - out->take_height;
    }
}

bool hr__tail_resizes(const struct hr__tail_plan *p)
{
    const struct hr__fit *f = &p->fit;

    return f->scaled_width != f->take_width || f->scaled_height != f->take_height;
}

static bool is_turned(const struct hr__tail *t)
{
    return !hr__turn_is_none(&t->plan.turn);
}

/* A row as stored, and as shown, after the resize. */
static size_t row_bytes(const struct hr__tail *t)
{
    return (size_t)t->stored.kept_width * hr__finish_pixel_bytes(&t->finish);
}

static size_t held_stride(const struct hr__tail *t)
{
    return (size_t)t->plan.fit.kept_width * hr__finish_pixel_bytes(&t->finish);
}

/* ---- begin ---- */

/* How a turned picture is shown, with the flip. */
static struct hr__turn turn_and_flip(const struct hr__tail_plan *p)
{
    struct hr__turn turn = p->turn;

    if (p->flip && turn.transposed)
        turn.mirror_y = !turn.mirror_y;
    else if (p->flip)
        turn.mirror_x = !turn.mirror_x;
    return turn;
}

/* The pictures that are put together before they go on. */
static enum hr_status prepare_held(struct hr__tail *t, struct hr_error *err)
{
    const struct hr__tail_plan *p = &t->plan;
    struct hr__turn turn = turn_and_flip(p);
    bool turned = is_turned(t);
    size_t pixel = hr__finish_pixel_bytes(&t->finish);
    size_t stride = (size_t)p->fit.out_width * pixel;
    uint8_t *shown = hr__finish_row(&t->finish, 0);
    enum hr_status status = HR_OK;

    if ((turned || p->premultiplied) && !hr__finish_is_direct(&t->finish)) {
        stride = held_stride(t);
        status = hr_buffer_new(stride * (size_t)p->fit.kept_height, &t->held, err);
        shown = t->held != NULL ? hr_buffer_data(t->held) : NULL;
    }
    if (status == HR_OK && turned && t->resizes)
        status = hr_buffer_new(row_bytes(t) * (size_t)t->stored.kept_height,
                               &t->resized, err);
    if (status == HR_OK && turned)
        hr__placement_init(&t->placement, &turn, t->stored.kept_width,
                           t->stored.kept_height, shown, stride, pixel);
    return status;
}

static enum hr_status begin_rows(struct hr__tail *t, struct hr_error *err)
{
    const struct hr__tail_plan *p = &t->plan;
    const struct hr__fit *f = &t->stored;
    struct hr__resample_plan plan = {
        .width = f->take_width,
        .height = f->take_height,
        .scaled_width = f->scaled_width,
        .scaled_height = f->scaled_height,
        .cut_x = f->cut_x,
        .cut_y = f->cut_y,
        .kept_width = f->kept_width,
        .kept_height = f->kept_height,
        .channels = p->form.channels,
        .algo = p->algo,
        .wide = p->form.wide,
        .mirror_x = p->turn.mirror_x,
        .mirror_y = p->turn.mirror_y,
        .transposed = p->turn.transposed,
        .flip = p->flip && !is_turned(t),
    };

    t->resizes = hr__tail_resizes(p) || plan.flip || f->kept_width < f->take_width ||
                 f->kept_height < f->take_height;
    return t->resizes ? hr__resample_begin(&t->resampler, &plan, err) : HR_OK;
}

static enum hr_status begin_planes(struct hr__tail *t, const struct hr__yuv *yuv,
                                   struct hr_error *err)
{
    const struct hr__tail_plan *p = &t->plan;
    struct hr__planes_plan plan = {
        .fit = t->stored,
        .algo = p->algo,
        .flip = p->flip && !is_turned(t),
        .count = p->form.channels == 1 ? 1 : yuv->count,
        .matrix = hr__matrix_of(yuv->space, yuv->range),
    };
    enum hr_status status;

    for (int i = 0; i < yuv->count; i++)
        plan.plane[i] = yuv->plane[i];
    t->resizes = true;
    status = hr__planes_begin(&t->planes, &plan, err);
    if (status == HR_OK && !yuv->whole)
        status = hr__planes_stream(&t->planes, err);
    return status;
}

enum hr_status hr__tail_begin(struct hr__tail *t, const struct hr__tail_plan *plan,
                              const struct hr__yuv *yuv, void *pixels,
                              struct hr_error *err)
{
    enum hr_status status;

    if (t->kernels == NULL)
        t->kernels = hr__kernels_best()->finish;
    t->plan = *plan;
    t->planar = yuv != NULL;
    t->rows_in = 0;
    t->rows_out = 0;
    see_through(plan, &t->stored);
    status = hr__finish_begin(&t->finish, &plan->form, &plan->fit, pixels, err);
    if (status == HR_OK)
        status = yuv != NULL ? begin_planes(t, yuv, err) : begin_rows(t, err);
    if (status == HR_OK)
        status = prepare_held(t, err);
    return status;
}

/* ---- rows ---- */

struct hr__take hr__tail_needs(const struct hr__tail *t)
{
    const struct hr__fit *f = &t->stored;
    struct hr__take take = {.width = f->take_width, .height = f->take_height};

    if (t->resizes)
        hr__resample_needs(&t->resampler, &take);
    take.x += f->take_x;
    take.y += f->take_y;
    return take;
}

uint8_t *hr__tail_in_place(struct hr__tail *t, int64_t y)
{
    const struct hr__fit *f = &t->stored;

    if (t->resizes || t->planar || is_turned(t) || !hr__finish_is_direct(&t->finish) ||
        f->take_width != t->plan.width || f->take_height != t->plan.height)
        return NULL;
    return hr__finish_row(&t->finish, y);
}

/* Where to make row y of the kept rectangle, in stored order. */
static uint8_t *row_place(struct hr__tail *t, int64_t y)
{
    if (t->resized != NULL)
        return (uint8_t *)hr_buffer_data(t->resized) + (size_t)y * row_bytes(t);
    if (t->held != NULL)
        return (uint8_t *)hr_buffer_data(t->held) + (size_t)y * held_stride(t);
    return hr__finish_row(&t->finish, y);
}

static void take_rows(struct hr__tail *t)
{
    for (; t->rows_out < t->stored.kept_height; t->rows_out++) {
        uint8_t *to = row_place(t, t->rows_out);

        if (!hr__resample_take(&t->resampler, to))
            return;
        if (t->resized == NULL && t->held == NULL)
            hr__finish_row_done(&t->finish, t->rows_out, to);
    }
}

/* Rows that keep their size. */
static void pass_on(struct hr__tail *t, const uint8_t *const *rows, int n)
{
    if (is_turned(t))
        hr__place_rows(&t->placement, rows, t->rows_out, n, t->stored.kept_width);
    for (int i = 0; !is_turned(t) && i < n; i++)
        hr__finish_row_done(&t->finish, t->rows_out + i, rows[i]);
    t->rows_out += n;
}

void hr__tail_push(struct hr__tail *t, const uint8_t *const *rows, int n)
{
    const struct hr__fit *f = &t->stored;
    size_t left = (size_t)f->take_x * hr__finish_pixel_bytes(&t->finish);
    const uint8_t *taken[HR_PUSH_ROWS];
    int count = 0;

    for (int i = 0; i < n; i++, t->rows_in++)
        if (t->rows_in >= f->take_y && t->rows_in < f->take_y + f->take_height)
            taken[count++] = rows[i] + left;
    if (count == 0)
        return;
    if (!t->resizes) {
        pass_on(t, taken, count);
        return;
    }
    hr__resample_push(&t->resampler, taken, count);
    take_rows(t);
}

void hr__tail_skip(struct hr__tail *t, int64_t n)
{
    const struct hr__fit *f = &t->stored;
    int64_t end = t->rows_in + n;

    /* of these, the ones that the resampler counts */
    int64_t from = t->rows_in > f->take_y ? t->rows_in : f->take_y;
    int64_t to = end < f->take_y + f->take_height ? end : f->take_y + f->take_height;

    t->rows_in = end;
    if (t->resizes && to > from)
        hr__resample_skip(&t->resampler, to - from);
}

/* ---- planes ---- */

void hr__tail_plane_rows(struct hr__tail *t, int plane, uint8_t **rows)
{
    hr__planes_rows(&t->planes, plane, rows);
}

/* Three rows of the next pixels: red, green and blue as they stand in the output. */
static bool take_split(struct hr__tail *t)
{
    uint8_t *rows[HR_CHANNELS_MAX];
    uint8_t *rgb[HR_PLANES];
    int red = t->plan.reversed ? 2 : 0;
    uint8_t *to;

    if (t->rows_out == t->stored.kept_height)
        return false;
    if (t->resized != NULL)
        hr__finish_stage(&t->finish, rows);
    else
        hr__finish_split(&t->finish, t->rows_out, rows);
    rgb[0] = rows[red];
    rgb[1] = rows[1];
    rgb[2] = rows[2 - red];
    if (!hr__planes_take(&t->planes, rgb))
        return false;
    if (t->resized == NULL) {
        hr__finish_split_done(&t->finish, t->rows_out);
        return true;
    }
    to = row_place(t, t->rows_out);
    if (t->plan.form.channels == 1)
        memcpy(to, rows[0], row_bytes(t));
    else
        t->kernels->interleave((const uint8_t *const *)rows, to,
                               (size_t)t->stored.kept_width);
    return true;
}

void hr__tail_put_planes(struct hr__tail *t)
{
    hr__planes_put(&t->planes);
    while (take_split(t))
        t->rows_out++;
}

void hr__tail_put_frame(struct hr__tail *t, const uint8_t *const base[HR_PLANES],
                        const size_t stride[HR_PLANES])
{
    hr__planes_frame(&t->planes, base, stride);
    while (take_split(t))
        t->rows_out++;
}

/* ---- the end ---- */

/* The resized picture is whole: turn it. */
static void turn_resized(struct hr__tail *t)
{
    const uint8_t *from = hr_buffer_data(t->resized);

    for (int64_t y = 0; y < t->stored.kept_height; y += HR_PUSH_ROWS) {
        int64_t left = t->stored.kept_height - y;
        int n = left < HR_PUSH_ROWS ? (int)left : HR_PUSH_ROWS;
        const uint8_t *rows[HR_PUSH_ROWS];

        for (int i = 0; i < n; i++)
            rows[i] = from + (size_t)(y + i) * row_bytes(t);
        hr__place_rows(&t->placement, rows, y, n, t->stored.kept_width);
    }
}

void hr__tail_rewind(struct hr__tail *t)
{
    t->rows_out = 0;
    hr__planes_rewind(&t->planes);
}

void hr__tail_flush(struct hr__tail *t)
{
    const struct hr__fit *f = &t->plan.fit;

    if (t->resized != NULL)
        turn_resized(t);
    if (t->held == NULL && !t->plan.premultiplied)
        return;
    for (int64_t y = 0; y < f->kept_height; y++) {
        uint8_t *row = t->held == NULL ? hr__finish_row(&t->finish, y)
                                       : (uint8_t *)hr_buffer_data(t->held) +
                                             (size_t)y * held_stride(t);

        if (t->plan.premultiplied)
            hr__unpremultiply_row(row, (size_t)f->kept_width);
        hr__finish_row_done(&t->finish, y, row);
    }
}

void hr__tail_end(struct hr__tail *t)
{
    hr_buffer_unref(&t->resized);
    hr_buffer_unref(&t->held);
}

void hr__tail_fini(struct hr__tail *t)
{
    hr__tail_end(t);
    hr__resampler_fini(&t->resampler);
    hr__planes_fini(&t->planes);
    hr__finish_fini(&t->finish);
}
