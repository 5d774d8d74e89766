/* Planes to RGB at the final size.
 *
 *     rows of Y  --down--> a row of levels --across--> \
 *     rows of Cb --down--> a row of levels --across-->  > --colour--> red, green, blue
 *     rows of Cr --down--> a row of levels --across--> /
 *
 * The vertical pass comes first: it runs along whole rows, however their pixels fall to
 * outputs, and leaves the horizontal pass, which is dearer per sample, only the rows of
 * the output. Each plane has a ring of the decoder's rows, as many as one output row
 * looks at and those that wait for the slowest plane (20 to 40 KB for 640 x 400 in
 * 4:2:0), so samples are still in the cache when they are used. Chroma goes from its own
 * size straight to the target (plane_taps.h), and colour is worked out for the pixels of
 * the target alone. There is no rounding to bytes before the end, and no clamping: that
 * is how the result differs from decoding to RGB first, which clamps every source pixel.
 *
 * Only the columns that some output looks at go through the vertical pass, and only the
 * rows are asked for that some output looks at. */
#include "image/planes.h"

#include <assert.h>
#include <string.h>

#include "base/mem.h"
#include "base/banned.h"

#define NEUTRAL (128 << HR_LEVEL_BITS) /* chroma of grey */

bool hr__planes_can(const struct hr__fit *f)
{
    return f->take_width / HR_PLANE_SHRINK_MAX <= f->scaled_width &&
           f->take_height / HR_PLANE_SHRINK_MAX <= f->scaled_height;
}

static enum hr_status choose_tables(struct hr__planes *p, int i, struct hr_error *err)
{
    const struct hr__fit *f = &p->plan.fit;
    const struct hr__plane *plane = &p->plan.plane[i];
    struct hr__plane_key across = {
        .own = plane->width,
        .factor = plane->factor_x,
        .origin = f->take_x,
        .full = f->take_width,
        .out = f->scaled_width,
        .first = f->cut_x,
        .count = f->kept_width,
        .upsampling = plane->upsampling_x,
        .algo = p->plan.algo,
        .flip = p->plan.flip,
    };
    struct hr__plane_key down = {
        .own = plane->height,
        .factor = plane->factor_y,
        .origin = f->take_y,
        .full = f->take_height,
        .out = f->scaled_height,
        .first = f->cut_y,
        .count = f->kept_height,
        .upsampling = plane->upsampling_y,
        .algo = p->plan.algo,
    };
    struct hr__lane *lane = &p->lane[i];
    enum hr_status status = hr__plane_taps_get(&p->cache, &across, &lane->across, err);

    if (status == HR_OK)
        status = hr__plane_taps_get(&p->cache, &down, &lane->down, err);
    return status;
}

/* The own rows that output row o looks at end before this one. */
static int64_t end_row(const struct hr__planes *p, int i, int64_t o)
{
    int64_t end = p->lane[i].down->start[o] + p->lane[i].down->used;

    return end < p->plan.plane[i].height ? end : p->plan.plane[i].height;
}

/* Groups that must have come before output row o can be made. */
static int64_t groups_for(const struct hr__planes *p, int64_t o)
{
    int64_t most = 0;

    for (int i = 0; i < p->plan.count; i++) {
        int64_t group = p->plan.plane[i].group;
        int64_t n = (end_row(p, i, o) + group - 1) / group;

        most = n > most ? n : most;
    }
    return most;
}

/* Rows that each plane's ring must hold: all that an output row looks at, when the last
 * group came that any plane needs for it. */
static void rows_held(const struct hr__planes *p, int64_t most[HR_PLANES])
{
    for (int i = 0; i < p->plan.count; i++)
        most[i] = 0;
    for (int64_t o = 0; o < p->plan.fit.kept_height; o++) {
        int64_t groups = groups_for(p, o);

        for (int i = 0; i < p->plan.count; i++) {
            int64_t held = groups * p->plan.plane[i].group - p->lane[i].down->start[o];

            most[i] = held > most[i] ? held : most[i];
        }
    }
}

static enum hr_status reserve_levels(int16_t **row, size_t *have, size_t want,
                                     struct hr_error *err)
{
    if (want <= *have)
        return HR_OK;
    hr__free(*row);
    *have = 0;
    /* Zeroed: kernels read what lies behind a row, with weight 0. */
    *row = hr__calloc(want, sizeof(**row));
    if (*row == NULL)
        return hr__nomem(err, "image", "rows of a picture", want * sizeof(**row));
    *have = want;
    return HR_OK;
}

static enum hr_status make_ring(struct hr__lane *lane, const struct hr__plane *plane,
                                int64_t rows, struct hr_error *err)
{
    size_t bytes;

    lane->stride = ((size_t)plane->row_bytes + 63) & ~(size_t)63;
    lane->rows = rows;
    if (!hr__mul(lane->stride, (size_t)rows, &bytes))
        return hr_error_set(err, HR_ERR_LIMIT, "image", 0, "resize: rows too large");
    if (bytes > lane->ring_bytes) {
        hr__free(lane->ring);
        lane->ring_bytes = 0;
        lane->ring = hr__calloc(bytes, 1);
        if (lane->ring == NULL)
            return hr__nomem(err, "image", "rows of a picture", bytes);
        lane->ring_bytes = bytes;
    }
    lane->base = lane->ring;
    return HR_OK;
}

static enum hr_status reserve_window(struct hr__planes *p, size_t rows,
                                     struct hr_error *err)
{
    if (rows <= p->window_count)
        return HR_OK;
    hr__free(p->window);
    p->window_count = 0;
    p->window = hr__calloc(rows, sizeof(*p->window));
    if (p->window == NULL)
        return hr__nomem(err, "image", "rows of a picture", rows * sizeof(*p->window));
    p->window_count = rows;
    return HR_OK;
}

/* Rows of levels for the target, one block for all planes. */
static enum hr_status reserve_output(struct hr__planes *p, struct hr_error *err)
{
    size_t each = (size_t)p->plan.fit.kept_width + HR_LEVEL_SLACK;
    enum hr_status status =
        reserve_levels(&p->level[0], &p->level_count, HR_PLANES * each, err);

    if (status != HR_OK)
        return status;
    for (int i = 1; i < HR_PLANES; i++) {
        p->level[i] = p->level[0] + (size_t)i * each;
        for (size_t x = 0; p->plan.count == 1 && x < each; x++)
            p->level[i][x] = NEUTRAL;
    }
    return HR_OK;
}

enum hr_status hr__planes_begin(struct hr__planes *p,
                                const struct hr__planes_plan *plan,
                                struct hr_error *err)
{
    enum hr_status status = HR_OK;

    if (p->kernels == NULL)
        p->kernels = hr__kernels_best()->planes;
    p->plan = *plan;
    p->rows_out = 0;
    for (int i = 0; status == HR_OK && i < plan->count; i++)
        status = choose_tables(p, i, err);
    for (int i = 0; status == HR_OK && i < plan->count; i++) {
        struct hr__lane *lane = &p->lane[i];
        const struct hr__plane *plane = &plan->plane[i];

        lane->rows_in = 0;
        status = reserve_window(p, (size_t)lane->down->used, err);
        if (status == HR_OK)
            status = reserve_levels(
                &lane->mid, &lane->mid_count,
                (size_t)(plane->width + lane->across->width) + HR_LEVEL_SLACK, err);
    }
    if (status == HR_OK)
        status = reserve_output(p, err);
    return status;
}

enum hr_status hr__planes_stream(struct hr__planes *p, struct hr_error *err)
{
    enum hr_status status = HR_OK;
    int64_t rows[HR_PLANES];

    rows_held(p, rows);
    for (int i = 0; status == HR_OK && i < p->plan.count; i++)
        status = make_ring(&p->lane[i], &p->plan.plane[i], rows[i], err);
    return status;
}

void hr__planes_rows(struct hr__planes *p, int plane, uint8_t **rows)
{
    struct hr__lane *lane = &p->lane[plane];

    for (int i = 0; i < p->plan.plane[plane].group; i++)
        rows[i] =
            lane->ring + (size_t)((lane->rows_in + i) % lane->rows) * lane->stride;
}

void hr__planes_put(struct hr__planes *p)
{
    for (int i = 0; i < p->plan.count; i++)
        p->lane[i].rows_in += p->plan.plane[i].group;
}

void hr__planes_span(const struct hr__planes *p, int64_t *first, int64_t *end)
{
    *first = INT64_MAX;
    for (int i = 0; i < p->plan.count; i++) {
        int64_t n = p->lane[i].down->low / p->plan.plane[i].group;

        *first = n < *first ? n : *first;
    }
    *end = groups_for(p, p->plan.fit.kept_height - 1);
}

void hr__planes_columns(const struct hr__planes *p, int64_t *left, int64_t *right)
{
    *left = INT64_MAX;
    *right = 0;
    for (int i = 0; i < p->plan.count; i++) {
        const struct hr__plane_taps *across = p->lane[i].across;
        int64_t factor = p->plan.plane[i].factor_x;

        if (across->low * factor < *left)
            *left = across->low * factor;
        if (across->high * factor > *right)
            *right = across->high * factor;
    }
    if (*right > p->plan.plane[0].width)
        *right = p->plan.plane[0].width;
}

void hr__planes_rewind(struct hr__planes *p)
{
    p->rows_out = 0;
    for (int i = 0; i < p->plan.count; i++)
        p->lane[i].rows_in = 0;
}

void hr__planes_frame(struct hr__planes *p, const uint8_t *const base[HR_PLANES],
                      const size_t stride[HR_PLANES])
{
    for (int i = 0; i < p->plan.count; i++) {
        struct hr__lane *lane = &p->lane[i];

        lane->base = base[i];
        lane->stride = stride[i];
        lane->rows = p->plan.plane[i].height;
        lane->rows_in = lane->rows;
    }
}

/* Output row o of one plane, in levels. */
static void make_levels(struct hr__planes *p, int i, int64_t o)
{
    const struct hr__lane *lane = &p->lane[i];
    const struct hr__plane_taps *down = lane->down;
    int64_t low = lane->across->low;
    int64_t last = p->plan.plane[i].height - 1;

    int64_t y = down->start[o];
    int64_t at = y % lane->rows;

    for (int64_t j = 0; j < down->used; j++) {
        p->window[j] = lane->base + (size_t)at * lane->stride + low;
        if (y < last) {
            y++;
            at = at + 1 < lane->rows ? at + 1 : 0;
        }
    }
    p->kernels->down(down->weight + o * down->width, down->used, p->window,
                     lane->mid + low, (size_t)(lane->across->high - low));
    p->kernels->across(lane->across, lane->mid, p->level[i]);
}

bool hr__planes_take(struct hr__planes *p, uint8_t *const rgb[HR_PLANES])
{
    int64_t o = p->rows_out;

    if (o == p->plan.fit.kept_height)
        return false;
    for (int i = 0; i < p->plan.count; i++)
        if (p->lane[i].rows_in < end_row(p, i, o))
            return false;
    for (int i = 0; i < p->plan.count; i++)
        make_levels(p, i, o);
    p->kernels->colour(&p->plan.matrix, (const int16_t *const *)p->level, rgb,
                       (size_t)p->plan.fit.kept_width);
    p->rows_out++;
    return true;
}

void hr__planes_fini(struct hr__planes *p)
{
    for (int i = 0; i < HR_PLANES; i++) {
        hr__free(p->lane[i].ring);
        hr__free(p->lane[i].mid);
    }
    hr__free(p->window);
    hr__free(p->level[0]);
    hr__plane_cache_fini(&p->cache);
    memset(p, 0, sizeof(*p));
}
