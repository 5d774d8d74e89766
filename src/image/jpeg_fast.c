/* Our own decoder first, libjpeg for everything that it leaves. */
#include "image/jpeg_fast.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "image/baseline.h"
#include "base/banned.h"

/* Pictures by decoder, for hr_image_jpeg_counts. Nothing depends on their order. */
static _Atomic uint64_t by_own;
static _Atomic uint64_t by_libjpeg;

void hr_image_jpeg_counts(uint64_t *own, uint64_t *libjpeg)
{
    *own = atomic_load_explicit(&by_own, memory_order_relaxed);
    *libjpeg = atomic_load_explicit(&by_libjpeg, memory_order_relaxed);
}

void hr__jpeg_fast_passed(void)
{
    atomic_fetch_add_explicit(&by_libjpeg, 1, memory_order_relaxed);
}

/* HEADRACE_JPEG=libjpeg turns it off; so does a CPU for which it is not made. */
static bool is_on(void)
{
    enum { UNKNOWN, OFF, ON };
    static _Atomic int known; /* threads that race here store the same */
    int state = atomic_load_explicit(&known, memory_order_relaxed);

    if (state == UNKNOWN) {
        const char *only = getenv("HEADRACE_JPEG");

        state = hr__baseline_is_fast() && (only == NULL || strcmp(only, "libjpeg") != 0)
                    ? ON
                    : OFF;
        atomic_store_explicit(&known, state, memory_order_relaxed);
    }
    return state == ON;
}

/* The header was read by somebody else too, limits were checked and room was made by
 * what it said. */
static bool is_as_described(const struct hr__baseline_planes *p,
                            const struct hr__yuv *yuv)
{
    if (p->planes != yuv->count)
        return false;
    for (int i = 0; i < p->planes; i++)
        if (p->plane[i].width != yuv->plane[i].width ||
            p->plane[i].height != yuv->plane[i].height ||
            p->plane[i].lines != yuv->plane[i].group ||
            p->plane[i].room > yuv->plane[i].row_bytes)
            return false;
    return true;
}

/* Of the columns, those that some output looks at. */
static void leave_columns(struct hr__baseline *b, const struct hr__canvas *canvas)
{
    int64_t left;
    int64_t right;

    hr__canvas_columns(canvas, &left, &right);
    hr__baseline_need(b, (uint32_t)left, (uint32_t)right);
}

/* needed: else the entropy coding alone is decoded. */
static bool decode_row(struct hr__baseline *b, struct hr__canvas *canvas, bool needed)
{
    uint8_t *rows[HR_PLANES][HR_PLANE_GROUP];
    uint8_t *const *const planes[HR_PLANES] = {rows[0], rows[1], rows[2]};
    int count = needed ? hr__canvas_planes(canvas) : 0;

    for (int i = 0; i < count; i++)
        hr__canvas_plane_rows(canvas, i, rows[i]);
    return hr__baseline_row(b, planes, count);
}

/* HR_AGAIN: it is for libjpeg. */
static enum hr_status decode(struct hr__baseline *b, const struct hr__input *in,
                             const struct hr__yuv *yuv, bool crops,
                             struct hr__canvas *canvas, struct hr_error *err)
{
    struct hr__baseline_planes p;
    enum hr_status status = HR_OK;
    int64_t first;
    int64_t end;

    hr__canvas_groups(canvas, &first, &end);
    if (!hr__baseline_begin(b, in->data, in->size, &p) || !is_as_described(&p, yuv))
        return HR_AGAIN;
    leave_columns(b, canvas);
    for (uint32_t y = 0; status == HR_OK && y < p.rows; y++) {
        if (crops && y == end)
            return HR_OK;
        if (!decode_row(b, canvas, y >= first && y < end))
            return HR_AGAIN;
        status = hr__canvas_put_planes(canvas, err);
    }
    if (status == HR_OK && !hr__baseline_finish(b))
        return HR_AGAIN;
    return status;
}

enum hr_status hr__jpeg_fast_read(struct hr__jpeg_fast *fast,
                                  const struct hr__input *in, const struct hr__yuv *yuv,
                                  bool crops, struct hr__canvas *canvas, bool *taken,
                                  struct hr_error *err)
{
    enum hr_status status = HR_AGAIN;

    if (is_on() &&
        (fast->baseline != NULL || hr__baseline_new(&fast->baseline, NULL) == HR_OK))
        status = decode(fast->baseline, in, yuv, crops, canvas, err);
    *taken = status != HR_AGAIN;
    if (*taken) {
        atomic_fetch_add_explicit(&by_own, 1, memory_order_relaxed);
        return status;
    }
    hr__canvas_rewind(canvas);
    return HR_OK;
}

void hr__jpeg_fast_fini(struct hr__jpeg_fast *fast)
{
    hr__baseline_free(&fast->baseline);
}
