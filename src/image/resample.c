/* Row-wise resize.
 *
 *     rows from the decoder --across--> ring of narrow rows --down--> rows of the output
 *
 * The horizontal pass runs on a row while that is warm from the decoder, so a whole
 * decoded picture is never stored; and on no row that the vertical pass does not look
 * at. The ring holds as many narrow rows as one output row looks at (12 for 400 -> 140
 * bicubic, 8 KB), so the vertical pass works in the first-level cache. Each output row
 * is made as soon as the last row that it looks at is there.
 *
 * Each pass rounds to bytes, so their order shows in the result. It is Pillow's: since
 * its version 13 a picture that loses more than twice as many rows as columns goes
 * through the vertical pass first (then the ring holds rows as they came, and each
 * output row goes down and across at once). Before 13 it never did: for such pictures
 * older versions differ in the last bit. */
#include "image/resample.h"

#include <string.h>

#include "base/mem.h"
#include "base/banned.h"

/* Where the kept part begins, counted in the direction of the table. */
static int64_t first_of(bool mirror, int64_t scaled, int64_t cut, int64_t kept)
{
    return mirror ? scaled - cut - kept : cut;
}

/* Whether a pass that loses so many rows or columns comes before the other. */
static bool is_first(int64_t lost, int64_t lost_by_other)
{
    return lost > 0 && lost > 2 * lost_by_other;
}

static enum hr_status choose_tables(struct hr__resampler *r, struct hr_error *err)
{
    const struct hr__resample_plan *p = &r->plan;
    struct hr__taps_key across = {
        p->width,
        p->scaled_width,
        first_of(p->mirror_x, p->scaled_width, p->cut_x, p->kept_width),
        p->kept_width,
        p->algo,
        p->mirror_x,
        p->flip};
    struct hr__taps_key down = {
        p->height,
        p->scaled_height,
        first_of(p->mirror_y, p->scaled_height, p->cut_y, p->kept_height),
        p->kept_height,
        p->algo,
        p->mirror_y,
        false};
    int64_t rows_lost = p->height - p->scaled_height;
    int64_t columns_lost = p->width - p->scaled_width;
    enum hr_status status = HR_OK;

    r->across = NULL;
    r->down = NULL;
    r->down_first = false;
    if (p->scaled_width != p->width || p->flip) /* the same width: each weight is 1 */
        status = hr__taps_get(&r->cache, &across, &r->across, err);
    if (status == HR_OK && p->scaled_height != p->height)
        status = hr__taps_get(&r->cache, &down, &r->down, err);
    if (p->scaled_width != p->width && r->down != NULL)
        r->down_first = p->transposed ? !is_first(columns_lost, rows_lost)
                                      : is_first(rows_lost, columns_lost);
    return status;
}

static size_t pixel_bytes(const struct hr__resample_plan *p)
{
    return (size_t)p->channels << p->wide;
}

static enum hr_status make_ring(struct hr__resampler *r, struct hr_error *err)
{
    size_t window = r->down != NULL ? 2 * (size_t)r->down->pairs : 1;
    int64_t width = r->plan.kept_width;
    size_t stride;
    size_t bytes;

    if (r->down_first && width < r->plan.width)
        width = r->plan.width;
    stride = (size_t)width * pixel_bytes(&r->plan);
    stride = (stride + HR_ROW_SLACK + 63) & ~(size_t)63;
    r->ring_stride = stride;
    r->ring_rows = (int64_t)window + HR_PUSH_ROWS;
    if (!hr__mul(stride, (size_t)r->ring_rows + 2, &bytes))
        return hr_error_set(err, HR_ERR_LIMIT, "image", 0, "resize: rows too large");
    if (bytes > r->ring_bytes) {
        hr__free(r->ring);
        r->ring_bytes = 0;
        r->ring = hr__calloc(bytes, 1);
        if (r->ring == NULL)
            return hr__nomem(err, "image", "rows of a resize", bytes);
        r->ring_bytes = bytes;
    }
    if (window > r->window_count) {
        hr__free(r->window);
        r->window_count = 0;
        r->window = hr__calloc(window, sizeof(*r->window));
        if (r->window == NULL)
            return hr__nomem(err, "image", "rows of a resize", window);
        r->window_count = window;
    }
    return HR_OK;
}

enum hr_status hr__resample_begin(struct hr__resampler *r,
                                  const struct hr__resample_plan *plan,
                                  struct hr_error *err)
{
    enum hr_status status;

    if (r->narrow == NULL)
        r->narrow = hr__kernels_best();
    r->kernels = plan->wide ? &hr__kernels_wide : r->narrow;
    r->plan = *plan;
    r->rows_in = 0;
    r->rows_out = 0;
    status = choose_tables(r, err);
    if (status != HR_OK)
        return status;
    return make_ring(r, err);
}

static uint8_t *ring_row(const struct hr__resampler *r, int64_t y)
{
    return r->ring + (size_t)(y % r->ring_rows) * r->ring_stride;
}

/* The first input row that output row o looks at, and the one behind the last. */
static int64_t first_row(const struct hr__resampler *r, int64_t o)
{
    return r->down != NULL ? r->down->start[o] : r->plan.cut_y + o;
}

static int64_t end_row(const struct hr__resampler *r, int64_t o)
{
    int64_t end = first_row(r, o) + (r->down != NULL ? 2 * r->down->pairs : 1);

    return end < r->plan.height ? end : r->plan.height;
}

/* The part of a row that is kept when no pass goes across. */
static size_t kept_bytes(const struct hr__resampler *r)
{
    return (size_t)r->plan.kept_width * pixel_bytes(&r->plan);
}

/* Put rows into the ring, narrowed unless that comes second. */
static void rows_to_ring(struct hr__resampler *r, const uint8_t *const *rows, int n)
{
    const struct hr__resample_plan *p = &r->plan;
    uint8_t *to[HR_PUSH_ROWS];

    for (int i = 0; i < n; i++)
        to[i] = ring_row(r, r->rows_in + i);
    if (r->across != NULL && !r->down_first) {
        r->kernels->across(r->across, p->channels, rows, to, n);
        return;
    }
    for (int i = 0; i < n; i++) {
        if (r->down_first)
            memcpy(to[i], rows[i], (size_t)p->width * pixel_bytes(p));
        else
            memcpy(to[i], rows[i] + (size_t)p->cut_x * pixel_bytes(p), kept_bytes(r));
    }
}

/* The vertical pass: row o from the rows in the ring. */
static void row_down(struct hr__resampler *r, int64_t o, uint8_t *to, size_t bytes)
{
    int64_t y = first_row(r, o);
    int64_t at = y % r->ring_rows;

    if (r->down == NULL) {
        memcpy(to, ring_row(r, y), bytes);
        return;
    }
    for (int64_t i = 0; i < 2 * r->down->pairs; i++) {
        r->window[i] = r->ring + (size_t)at * r->ring_stride;
        if (y < r->plan.height - 1) {
            y++;
            at = at + 1 < r->ring_rows ? at + 1 : 0;
        }
    }
    r->kernels->down(r->down, o, r->window, to, bytes);
}

void hr__resample_push(struct hr__resampler *r, const uint8_t *const *rows, int n)
{
    int64_t skip = first_row(r, 0) - r->rows_in;

    if (r->rows_out == r->plan.kept_height || skip >= n) {
        r->rows_in += n;
        return;
    }
    if (skip < 0)
        skip = 0;
    r->rows_in += skip;
    rows_to_ring(r, rows + skip, n - (int)skip);
    r->rows_in += n - skip;
}

void hr__resample_skip(struct hr__resampler *r, int64_t n)
{
    r->rows_in += n;
}

bool hr__resample_take(struct hr__resampler *r, uint8_t *to)
{
    uint8_t *wide = r->ring + (size_t)r->ring_rows * r->ring_stride;
    uint8_t *narrow = wide + r->ring_stride;
    const uint8_t *from = wide;
    int64_t o = r->rows_out;

    if (o == r->plan.kept_height || end_row(r, o) > r->rows_in)
        return false;
    r->rows_out++;
    if (!r->down_first) {
        row_down(r, o, to, kept_bytes(r));
        return true;
    }
    row_down(r, o, wide, (size_t)r->plan.width * pixel_bytes(&r->plan));
    r->kernels->across(r->across, r->plan.channels, &from, &narrow, 1);
    memcpy(to, narrow, kept_bytes(r));
    return true;
}

void hr__resample_needs(const struct hr__resampler *r, struct hr__take *out)
{
    const struct hr__taps *t = r->across;
    int64_t right;

    out->x = r->plan.cut_x;
    out->width = r->plan.kept_width;
    if (t != NULL) {
        int32_t one = t->start[0];
        int32_t other = t->start[t->key.count - 1];

        out->x = one < other ? one : other;
        right = (one < other ? other : one) + 2 * t->pairs;
        out->width = (right < r->plan.width ? right : r->plan.width) - out->x;
    }
    out->y = first_row(r, 0);
    out->height = end_row(r, r->plan.kept_height - 1) - out->y;
}

void hr__resampler_fini(struct hr__resampler *r)
{
    hr__free(r->ring);
    hr__free(r->window);
    hr__taps_cache_fini(&r->cache);
    memset(r, 0, sizeof(*r));
}
