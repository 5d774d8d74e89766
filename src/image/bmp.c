/* BMP, by a reader of our own.
 *
 *     file header (14 bytes) | header (12 … 124) | masks | palette | rows
 *
 * Rows are padded to 4 bytes and lie bottom up, unless the height is negative. Depths 1,
 * 2, 4, 8 (palette), 16 and 32 (masks; without them 5 bits each, or 8 each and one byte
 * unused), 24; run lengths for 4 and 8. A sample of n bits is stretched to 8 as
 * v * 255 / (2^n - 1), cut off, which is what Pillow does. Alpha is what a mask says it
 * is; a fourth byte alone is none. Pixels that run lengths leave out have index 0. */
#include <string.h>

#include "base/mem.h"
#include "image/canvas.h"
#include "image/codec.h"
#include "base/banned.h"

#define FILE_HEADER 14
#define CORE_HEADER 12
#define INFO_HEADER 40
#define COLOURS_MAX 256

enum { PLAIN = 0, RLE8 = 1, RLE4 = 2, BITFIELDS = 3, ALPHABITFIELDS = 6 };

/* Of one sample in a pixel of 16 or 32 bits. */
struct field {
    uint32_t mask;
    int shift;
    uint32_t most; /* the mask, shifted down */
};

struct bmp {
    struct hr__input in;
    int64_t width;
    int64_t height;
    bool top_down;
    int bits;
    uint32_t compression;
    size_t rows_at;        /* where pixels begin */
    size_t stride;         /* of rows in the file, or of indices out of run lengths */
    struct field field[4]; /* red, green, blue, alpha */
    uint8_t palette[COLOURS_MAX][3];
    bool alpha; /* rows have it */
};

static uint32_t number(const uint8_t *at, int bytes)
{
    uint32_t value = 0;

    for (int i = bytes - 1; i >= 0; i--)
        value = value << 8 | at[i];
    return value;
}

/* ---- the header ---- */

static enum hr_status ended(struct hr_error *err)
{
    return hr_error_set(err, HR_ERR_FORMAT, "image", 0,
                        "image: BMP ends in its header");
}

static void set_field(struct field *f, uint32_t mask)
{
    f->mask = mask;
    f->shift = mask != 0 ? __builtin_ctz(mask) : 0;
    f->most = mask >> f->shift;
}

static void default_fields(struct bmp *b)
{
    bool half = b->bits == 16;

    set_field(&b->field[0], half ? 0x7c00 : 0xff0000);
    set_field(&b->field[1], half ? 0x03e0 : 0x00ff00);
    set_field(&b->field[2], half ? 0x001f : 0x0000ff);
    set_field(&b->field[3], 0);
}

/* Masks are part of headers that are long enough, and behind one of 40 bytes.
 * *extra: how many bytes they take there. */
static enum hr_status read_fields(struct bmp *b, size_t header, size_t *extra,
                                  struct hr_error *err)
{
    size_t count = b->compression == ALPHABITFIELDS || header >= 56 ? 4 : 3;
    const uint8_t *at = b->in.data + FILE_HEADER + INFO_HEADER;

    default_fields(b);
    *extra = 0;
    if (b->compression != BITFIELDS && b->compression != ALPHABITFIELDS)
        return HR_OK;
    if (header == INFO_HEADER)
        *extra = 4 * count;
    if (b->in.size < FILE_HEADER + INFO_HEADER + 4 * count)
        return ended(err);
    for (size_t i = 0; i < count; i++)
        set_field(&b->field[i], number(at + 4 * i, 4));
    return HR_OK;
}

static enum hr_status read_palette(struct bmp *b, size_t at, uint32_t used,
                                   size_t entry, struct hr_error *err)
{
    size_t n = (size_t)1 << b->bits;

    memset(b->palette, 0, sizeof(b->palette));
    if (used > 0 && used < n)
        n = used;
    if (entry == 3 && b->rows_at > at && (b->rows_at - at) / 3 < n)
        n = (b->rows_at - at) / 3; /* OS/2 writers leave colours out */
    if (at > b->in.size || b->in.size - at < n * entry)
        return ended(err);
    for (size_t i = 0; i < n; i++)
        for (size_t c = 0; c < 3; c++)
            b->palette[i][c] = b->in.data[at + i * entry + 2 - c];
    return HR_OK;
}

static enum hr_status check_kind(const struct bmp *b, struct hr_error *err)
{
    uint32_t c = b->compression;
    int bits = b->bits;
    bool known =
        (c == PLAIN && (bits == 1 || bits == 2 || bits == 4 || bits == 8 ||
                        bits == 16 || bits == 24 || bits == 32)) ||
        (c == RLE8 && bits == 8) || (c == RLE4 && bits == 4) ||
        ((c == BITFIELDS || c == ALPHABITFIELDS) && (bits == 16 || bits == 32));

    if (known)
        return HR_OK;
    return hr_error_set(err, HR_ERR_UNSUPPORTED, "image", 0,
                        "image: BMP of %d bits with compression %u is not supported",
                        bits, c);
}

/* Width, height, depth and compression out of a header of either kind. */
static uint32_t read_sizes(struct bmp *b, size_t header)
{
    const uint8_t *h = b->in.data + FILE_HEADER;
    bool core = header == CORE_HEADER;

    b->width = core ? (int64_t)number(h + 4, 2) : (int32_t)number(h + 4, 4);
    b->height = core ? (int64_t)number(h + 6, 2) : (int32_t)number(h + 8, 4);
    b->bits = (int)number(h + (core ? 10 : 14), 2);
    b->compression = core ? PLAIN : number(h + 16, 4);
    b->top_down = b->height < 0;
    if (b->top_down)
        b->height = -b->height;
    return core ? 0 : number(h + 32, 4);
}

static enum hr_status read_header(struct bmp *b, struct hr_error *err)
{
    const uint8_t *data = b->in.data;
    size_t header;
    size_t extra;
    uint32_t used;
    enum hr_status status;

    if (b->in.size < FILE_HEADER + CORE_HEADER)
        return ended(err);
    header = number(data + FILE_HEADER, 4);
    if (header != CORE_HEADER && (header < INFO_HEADER || header > 4096))
        return hr_error_set(err, HR_ERR_FORMAT, "image", 0,
                            "image: BMP has a header of %zu bytes", header);
    if (b->in.size - FILE_HEADER < header)
        return ended(err);
    b->rows_at = number(data + 10, 4);
    used = read_sizes(b, header);
    status = check_kind(b, err);
    if (status == HR_OK)
        status = read_fields(b, header, &extra, err);
    if (status == HR_OK && b->bits <= 8)
        status = read_palette(b, FILE_HEADER + header + extra, used,
                              header == CORE_HEADER ? 3 : 4, err);
    return status;
}

static bool has_runs(const struct bmp *b)
{
    return b->compression == RLE8 || b->compression == RLE4;
}

static enum hr_status bmp_open(void *decoder, const struct hr__input *in,
                               struct hr__picture *out, struct hr_error *err)
{
    struct bmp *b = decoder;
    enum hr_status status;

    b->in = *in;
    status = read_header(b, err);
    if (status != HR_OK)
        return status;
    out->width = b->width;
    out->height = b->height;
    out->stored_bits = b->bits <= 8 ? b->bits : b->bits == 16 ? 5 : 8;
    out->stored_channels = b->bits <= 8 ? 1 : b->field[3].mask != 0 ? 4 : 3;
    b->alpha = out->stored_channels == 4 && hr__wants_alpha(in->options);
    out->channels = b->alpha ? 4 : 3;
    out->sample_bytes = 1;
    if (b->width < 1 || b->height < 1)
        return HR_OK; /* which the limits refuse */
    b->stride = ((uint64_t)b->width * (unsigned)b->bits + 31) / 32 * 4;
    out->raw_bytes = (uint64_t)b->stride * (uint64_t)b->height;
    if (has_runs(b))
        out->work_bytes = (uint64_t)b->width * (uint64_t)b->height;
    return HR_OK;
}

/* ---- run lengths ---- */

struct runs {
    const uint8_t *at;
    const uint8_t *end;
    uint8_t *indices; /* width * height, the file's first row first */
    int64_t x;
    int64_t y;
};

static void put_index(const struct bmp *b, struct runs *r, uint8_t index)
{
    if (r->x < b->width && r->y < b->height)
        r->indices[r->y * b->width + r->x] = index;
    r->x++;
}

static void put_run(const struct bmp *b, struct runs *r, int n, uint8_t value)
{
    for (int i = 0; i < n && r->x < b->width; i++)
        put_index(b, r,
                  b->bits == 8 ? value
                               : (uint8_t)(i % 2 == 0 ? value >> 4 : value & 15));
}

static bool put_literals(const struct bmp *b, struct runs *r, int n)
{
    size_t bytes = b->bits == 8 ? (size_t)n : ((size_t)n + 1) / 2;
    size_t padded = (bytes + 1) & ~(size_t)1;

    if ((size_t)(r->end - r->at) < bytes)
        return false;
    for (int i = 0; i < n; i++) {
        uint8_t value = r->at[b->bits == 8 ? i : i / 2];

        put_index(b, r,
                  b->bits == 8 ? value
                               : (uint8_t)(i % 2 == 0 ? value >> 4 : value & 15));
    }
    r->at += padded < (size_t)(r->end - r->at) ? padded : (size_t)(r->end - r->at);
    return true;
}

/* False at the end of the data. */
static bool put_escape(const struct bmp *b, struct runs *r, int code)
{
    switch (code) {
    case 0: /* end of the row */
        r->x = 0;
        r->y++;
        return true;
    case 1: /* end of the picture */
        r->y = b->height;
        return true;
    case 2: /* a step to the right and down */
        if (r->end - r->at < 2)
            return false;
        r->x += r->at[0];
        r->y += r->at[1];
        r->at += 2;
        return true;
    default:
        return put_literals(b, r, code);
    }
}

/* All rows; *rows is how many the data reached. */
static void decode_runs(const struct bmp *b, uint8_t *indices, int64_t *rows)
{
    struct runs r = {
        .at = b->in.data + b->rows_at,
        .end = b->in.data + b->in.size,
        .indices = indices,
    };
    bool more = true;

    while (more && r.y < b->height && r.end - r.at >= 2) {
        int n = r.at[0];
        uint8_t value = r.at[1];

        r.at += 2;
        if (n > 0)
            put_run(b, &r, n, value);
        else
            more = put_escape(b, &r, value);
    }
    *rows = r.y < b->height ? r.y : b->height;
}

/* ---- rows ---- */

static uint8_t stretch(uint32_t pixel, const struct field *f)
{
    uint32_t value = (pixel & f->mask) >> f->shift;

    if (f->most == 0)
        return 0;
    return (uint8_t)((uint64_t)value * 255 / f->most);
}

static void indexed_row(const struct bmp *b, const uint8_t *from, int bits, uint8_t *to)
{
    unsigned most = (1u << bits) - 1;

    for (int64_t x = 0; x < b->width; x++, to += 3) {
        int64_t bit = x * bits;
        unsigned index = (unsigned)from[bit / 8] >> (8 - bits - bit % 8) & most;

        memcpy(to, b->palette[index], 3);
    }
}

static void masked_row(const struct bmp *b, const uint8_t *from, uint8_t *to)
{
    int bytes = b->bits / 8;
    int channels = b->alpha ? 4 : 3;

    for (int64_t x = 0; x < b->width; x++, from += bytes, to += channels) {
        uint32_t pixel = number(from, bytes);

        for (int c = 0; c < channels; c++)
            to[c] = stretch(pixel, &b->field[c]);
    }
}

static void bgr_row(const struct bmp *b, const uint8_t *from, uint8_t *to)
{
    for (int64_t x = 0; x < b->width; x++, from += 3, to += 3) {
        to[0] = from[2];
        to[1] = from[1];
        to[2] = from[0];
    }
}

static void read_row(const struct bmp *b, const uint8_t *from, uint8_t *to)
{
    if (has_runs(b))
        indexed_row(b, from, 8, to);
    else if (b->bits <= 8)
        indexed_row(b, from, b->bits, to);
    else if (b->bits == 24)
        bgr_row(b, from, to);
    else
        masked_row(b, from, to);
}

/* Rows of the file, of which there are `have`; those that lack are black. */
static enum hr_status put_rows(const struct bmp *b, const uint8_t *file_rows,
                               size_t stride, int64_t have, struct hr__canvas *canvas,
                               struct hr_error *err)
{
    uint8_t *rows[HR_PUSH_ROWS];
    enum hr_status status = HR_OK;
    int64_t y = 0;
    int n;

    while (status == HR_OK && (n = hr__canvas_rows(canvas, rows)) > 0) {
        for (int i = 0; i < n; i++, y++) {
            int64_t row = b->top_down ? y : b->height - 1 - y;

            if (row < have)
                read_row(b, file_rows + (size_t)row * stride, rows[i]);
            else
                memset(rows[i], 0, hr__canvas_row_bytes(canvas));
        }
        status = hr__canvas_put(canvas, (const uint8_t *const *)rows, n, err);
    }
    return status;
}

static enum hr_status check_whole(const struct bmp *b, int64_t have,
                                  struct hr_error *err)
{
    if (have >= b->height)
        return HR_OK;
    return hr_error_set(err, HR_ERR_FORMAT, "image", 0,
                        "image: BMP ends after %lld of %lld rows", (long long)have,
                        (long long)b->height);
}

static enum hr_status read_runs(const struct bmp *b, struct hr__canvas *canvas,
                                struct hr_error *err)
{
    size_t bytes = (size_t)b->width * (size_t)b->height;
    struct hr_buffer *indices;
    int64_t have;
    enum hr_status whole;
    enum hr_status status = hr_buffer_new(bytes, &indices, err);

    if (status != HR_OK)
        return status;
    memset(hr_buffer_data(indices), 0, bytes);
    decode_runs(b, hr_buffer_data(indices), &have);
    whole = check_whole(b, have, err);
    if (whole == HR_OK || b->in.options->allow_truncated)
        status = put_rows(b, hr_buffer_data(indices), (size_t)b->width, b->height,
                          canvas, err);
    hr_buffer_unref(&indices);
    return status == HR_OK ? whole : status;
}

static enum hr_status bmp_read(void *decoder, struct hr__canvas *canvas,
                               struct hr_error *err)
{
    const struct bmp *b = decoder;
    int64_t have = 0;
    enum hr_status whole;
    enum hr_status status = HR_OK;

    if (b->rows_at >= b->in.size)
        return check_whole(b, 0, err);
    if (has_runs(b))
        return read_runs(b, canvas, err);
    have = (int64_t)((b->in.size - b->rows_at) / b->stride);
    whole = check_whole(b, have, err);
    if (whole == HR_OK || (b->in.options->allow_truncated && have > 0))
        status = put_rows(b, b->in.data + b->rows_at, b->stride, have, canvas, err);
    return status == HR_OK ? whole : status;
}

static void bmp_close(void *decoder)
{
    (void)decoder;
}

static enum hr_status bmp_create(void **out, struct hr_error *err)
{
    *out = hr__calloc(1, sizeof(struct bmp));
    return *out != NULL ? HR_OK
                        : hr__nomem(err, "image", "a BMP decoder", sizeof(struct bmp));
}

const struct hr__codec hr__codec_bmp = {
    .name = "BMP",
    .create = bmp_create,
    .destroy = hr__free,
    .open = bmp_open,
    .read = bmp_read,
    .close = bmp_close,
};
