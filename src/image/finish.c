/* Rows into their place.
 *
 * A row arrives with its channels together (from RGB rows) or apart (from planes), and
 * goes into an output with channels last or first, in bytes or in numbers:
 *
 *                     HWC uint8      CHW uint8      HWC numbers       CHW numbers
 *     together        in place       separate       convert           separate, convert
 *     apart           interleave     in place       interleave, ...   convert
 *
 * "In place" means that the kernel before writes into the output itself. Otherwise the
 * row is made in staging, some 700 bytes for 224 pixels, and is still in the first-level
 * cache when it moves on. Numbers are worked out from the bytes, so a float output is
 * exactly the uint8 output, normalised: (v / 255 - mean) / std as v * scale + bias, one
 * multiplication and one addition in single precision. Rows of 16 bits go the same ways,
 * by plain loops, and v / 65535. */
#include "image/finish.h"

#include <string.h>

#include "base/mem.h"
#include "base/banned.h"

static void set_lines(struct hr__finish *f)
{
    double full = f->form.wide ? 65535 : 255;

    for (int i = 0; i < HR_FINISH_PERIOD; i++) {
        int c = i % f->form.channels;
        double scale = 1.0 / (full * f->form.std[c]);
        double bias = -f->form.mean[c] / f->form.std[c];

        f->whole.scale[i] = (float)scale;
        f->whole.bias[i] = (float)bias;
    }
    for (int c = 0; c < f->form.channels; c++)
        for (int i = 0; i < HR_FINISH_PERIOD; i++) {
            f->one[c].scale[i] = f->whole.scale[c];
            f->one[c].bias[i] = f->whole.bias[c];
        }
}

static bool channels_first(const struct hr__finish *f)
{
    return f->form.layout == HR_CHW && f->form.channels > 1;
}

/* The value of kept row y, column x, channel c in the output. */
static uint8_t *place(const struct hr__finish *f, int64_t y, int64_t x, int c)
{
    size_t width = (size_t)f->fit.out_width;
    size_t row = (size_t)(f->fit.put_y + y);
    size_t column = (size_t)(f->fit.put_x + x);
    size_t channels = (size_t)f->form.channels;
    size_t at = channels_first(f)
                    ? ((size_t)c * (size_t)f->fit.out_height + row) * width + column
                    : (row * width + column) * channels + (size_t)c;

    return f->pixels + at * f->value_bytes;
}

static bool is_number(const struct hr__finish *f)
{
    return f->form.dtype != HR_U8 && f->form.dtype != HR_U16;
}

/* n values from those of rows, of one channel or of pixels. */
static void convert(const struct hr__finish *f, const struct hr__finish_line *line,
                    const uint8_t *in, void *out, size_t n)
{
    if (f->form.wide && is_number(f)) {
        hr__finish_wide(f->form.dtype, line, in, out, n);
        return;
    }
    switch (f->form.dtype) {
    case HR_F16:
        f->kernels->to_f16(line, in, out, n);
        break;
    case HR_BF16:
        f->kernels->to_bf16(line, in, out, n);
        break;
    case HR_F32:
        f->kernels->to_f32(line, in, out, n);
        break;
    default:
        memcpy(out, in, n * f->value_bytes);
    }
}

size_t hr__finish_pixel_bytes(const struct hr__finish *f)
{
    return (size_t)f->form.channels * (f->form.wide ? 2 : 1);
}

bool hr__finish_is_direct(const struct hr__finish *f)
{
    return !is_number(f) && !channels_first(f);
}

/* ---- what the picture leaves free ---- */

/* Blacken columns x … x + n - 1 of kept row y (both may lie outside of what is kept). */
static void blacken(struct hr__finish *f, int64_t y, int64_t x, int64_t n)
{
    static const uint8_t black[32 * HR_FINISH_PERIOD];
    const size_t most = sizeof(black) / 2; /* values, of two bytes perhaps */
    int planes = channels_first(f) ? f->form.channels : 1;
    size_t values = (size_t)n * (size_t)(planes > 1 ? 1 : f->form.channels);

    for (int c = 0; c < planes; c++) {
        const struct hr__finish_line *line = planes > 1 ? &f->one[c] : &f->whole;
        uint8_t *to = place(f, y, x, c);
        size_t left = values;

        while (left > 0) {
            size_t now = left < most ? left : most;

            convert(f, line, black, to, now);
            to += now * f->value_bytes;
            left -= now;
        }
    }
}

static void blacken_frame(struct hr__finish *f)
{
    const struct hr__fit *fit = &f->fit;
    int64_t left = fit->put_x;
    int64_t right = fit->out_width - left - fit->kept_width;

    for (int64_t y = -fit->put_y; y < fit->out_height - fit->put_y; y++) {
        if (y < 0 || y >= fit->kept_height) {
            blacken(f, y, -left, fit->out_width);
            continue;
        }
        blacken(f, y, -left, left);
        blacken(f, y, fit->kept_width, right);
    }
}

/* ---- rows ---- */

/* Of one channel. */
static size_t staging_stride(const struct hr__finish *f)
{
    return 2 * (size_t)f->fit.kept_width + HR_ROW_SLACK;
}

static enum hr_status reserve_rows(struct hr__finish *f, struct hr_error *err)
{
    size_t bytes = 2 * HR_CHANNELS_MAX * staging_stride(f);

    if (bytes <= f->rows_bytes)
        return HR_OK;
    hr__free(f->rows);
    f->rows_bytes = 0;
    f->rows = hr__calloc(bytes, 1);
    if (f->rows == NULL)
        return hr__nomem(err, "image", "rows of a picture", bytes);
    f->rows_bytes = bytes;
    return HR_OK;
}

enum hr_status hr__finish_begin(struct hr__finish *f, const struct hr__form *form,
                                const struct hr__fit *fit, void *pixels,
                                struct hr_error *err)
{
    enum hr_status status;

    if (f->kernels == NULL)
        f->kernels = hr__kernels_best()->finish;
    f->form = *form;
    f->fit = *fit;
    f->pixels = pixels;
    f->value_bytes = hr_dtype_size(form->dtype);
    status = reserve_rows(f, err);
    if (status != HR_OK)
        return status;
    if (is_number(f))
        set_lines(f);
    if (fit->kept_width < fit->out_width || fit->kept_height < fit->out_height)
        blacken_frame(f);
    return HR_OK;
}

void hr__finish_stage(const struct hr__finish *f, uint8_t *rows[HR_CHANNELS_MAX])
{
    for (int c = 0; c < HR_CHANNELS_MAX; c++)
        rows[c] = f->rows + (size_t)(HR_CHANNELS_MAX + c) * staging_stride(f);
}

/* Rows of one channel to their places. */
static void convert_split(struct hr__finish *f, int64_t y,
                          uint8_t *const rows[HR_CHANNELS_MAX])
{
    for (int c = 0; c < f->form.channels; c++)
        convert(f, &f->one[c], rows[c], place(f, y, 0, c), (size_t)f->fit.kept_width);
}

uint8_t *hr__finish_row(struct hr__finish *f, int64_t y)
{
    return hr__finish_is_direct(f) ? place(f, y, 0, 0) : f->rows;
}

/* A row of pixels to rows of one channel. */
static void separate(const struct hr__finish *f, const uint8_t *row,
                     uint8_t *const rows[HR_CHANNELS_MAX])
{
    size_t n = (size_t)f->fit.kept_width;
    size_t channels = (size_t)f->form.channels;
    size_t sample = f->form.wide ? 2 : 1;

    if (channels == 3 && sample == 1) {
        f->kernels->separate(row, rows, n);
        return;
    }
    for (size_t c = 0; c < channels; c++)
        for (size_t x = 0; x < n; x++)
            memcpy(rows[c] + x * sample, row + (x * channels + c) * sample, sample);
}

void hr__finish_row_done(struct hr__finish *f, int64_t y, const uint8_t *row)
{
    size_t values = (size_t)f->fit.kept_width * (size_t)f->form.channels;
    uint8_t *rows[HR_CHANNELS_MAX];

    if (!channels_first(f)) {
        if (row != place(f, y, 0, 0))
            convert(f, &f->whole, row, place(f, y, 0, 0), values);
        return;
    }
    hr__finish_stage(f, rows);
    for (int c = 0; !is_number(f) && c < f->form.channels; c++)
        rows[c] = place(f, y, 0, c);
    separate(f, row, rows);
    if (is_number(f))
        convert_split(f, y, rows);
}

void hr__finish_split(struct hr__finish *f, int64_t y, uint8_t *rows[HR_CHANNELS_MAX])
{
    hr__finish_stage(f, rows);
    if (is_number(f) || !(channels_first(f) || f->form.channels == 1))
        return;
    for (int c = 0; c < f->form.channels; c++)
        rows[c] = place(f, y, 0, c);
}

void hr__finish_split_done(struct hr__finish *f, int64_t y)
{
    uint8_t *rows[HR_CHANNELS_MAX];

    hr__finish_split(f, y, rows);
    if (channels_first(f) || f->form.channels == 1) {
        if (is_number(f))
            convert_split(f, y, rows);
        return;
    }
    f->kernels->interleave((const uint8_t *const *)rows, hr__finish_row(f, y),
                           (size_t)f->fit.kept_width);
    if (is_number(f))
        hr__finish_row_done(f, y, f->rows);
}

void hr__finish_fini(struct hr__finish *f)
{
    hr__free(f->rows);
    memset(f, 0, sizeof(*f));
}
