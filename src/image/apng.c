/* Animated PNG.
 *
 *     IHDR acTL [fcTL] IDAT... | fcTL fdAT... | fcTL fdAT... | IEND
 *
 * Each frame is a rectangle, whose data are those of a PNG but for the names of their
 * chunks and a number before them. So a frame is decoded by making a PNG of it, in
 * memory, and giving that to the codec. The rectangles are composed on a transparent
 * RGBA canvas: put over it or in place of it, and afterwards left, cleared, or taken
 * back. With no fcTL before IDAT the default picture is not part of the animation: it
 * is frame 0 all the same, and the animation begins on an empty canvas. */
#include "image/apng.h"

#include <string.h>

#include <zlib.h>

#include "base/mem.h"
#include "image/canvas.h"
#include "base/banned.h"

#define SIGNATURE 8
#define HEAD 8 /* length and name */
#define TAIL 4 /* checksum */
#define IHDR_BYTES 13
#define FCTL_BYTES 26
#define NUMBER_BYTES 4 /* before the data of fdAT */
#define PIXEL 4

enum { KEEP = 0, CLEAR = 1, TAKE_BACK = 2 };

struct frame {
    int64_t x;
    int64_t y;
    int64_t width;
    int64_t height;
    int disposal;
    bool over; /* blended, not put in place of what is there */
};

struct hr__apng {
    const struct hr__codec *png;
    void *decoder;
    struct hr__easel easel;
    /* one file */
    struct hr__input in;
    int64_t width;
    int64_t height;
    size_t at;               /* the next chunk */
    int64_t composed;        /* frames so far; the default picture is not composed */
    struct hr_buffer *shown; /* the canvas; NULL before the first frame */
    struct hr_buffer *saved; /* for TAKE_BACK */
    struct frame last;
};

static uint32_t number(const uint8_t *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

/* ---- chunks ---- */

struct chunk {
    const uint8_t *name;
    const uint8_t *data;
    size_t size;
};

/* False at the end of the data. */
static bool next_chunk(const uint8_t *data, size_t size, size_t *at, struct chunk *out)
{
    if (*at > size || size - *at < HEAD + TAIL)
        return false;
    out->size = number(data + *at);
    out->name = data + *at + 4;
    out->data = data + *at + HEAD;
    if (out->size > size - *at - HEAD - TAIL)
        return false;
    *at += HEAD + out->size + TAIL;
    return true;
}

static bool is(const struct chunk *c, const char *name)
{
    return memcmp(c->name, name, 4) == 0;
}

int64_t hr__apng_frames(const uint8_t *data, size_t size)
{
    size_t at = SIGNATURE;
    struct chunk c;
    bool animated = false;
    bool pixels = false;
    int64_t frames = 0;

    while (next_chunk(data, size, &at, &c)) {
        if (is(&c, "acTL"))
            animated = true;
        else if (is(&c, "fcTL"))
            frames++;
        else if (is(&c, "IDAT") && !pixels) {
            pixels = true;
            if (frames == 0)
                frames = 1; /* the default picture alone */
        }
    }
    return animated && frames > 0 ? frames : 1;
}

static void put_number(uint8_t *to, uint32_t value)
{
    to[0] = (uint8_t)(value >> 24);
    to[1] = (uint8_t)(value >> 16);
    to[2] = (uint8_t)(value >> 8);
    to[3] = (uint8_t)value;
}

static void put_chunk(uint8_t **to, const char *name, const uint8_t *data, size_t size)
{
    uint8_t *p = *to;

    put_number(p, (uint32_t)size);
    memcpy(p + 4, name, 4);
    if (size > 0)
        memcpy(p + HEAD, data, size);
    put_number(p + HEAD + size, (uint32_t)crc32(0, p + 4, (uInt)size + 4));
    *to = p + HEAD + size + TAIL;
}

/* The checksum that a chunk carries is that of its name and data. */
static bool is_sound(const struct chunk *c)
{
#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
    (void)c;
    return true;
#else
    return crc32(0, c->name, (uInt)c->size + 4) == number(c->data + c->size);
#endif
}

/* ---- a frame as a PNG of its own ---- */

static enum hr_status broken(const struct hr__apng *a, const char *what,
                             struct hr_error *err)
{
    return hr_error_set(
        err, HR_ERR_FORMAT, "image", 0, "image: PNG %s in frame %lld of %lld", what,
        (long long)a->composed, (long long)hr__apng_frames(a->in.data, a->in.size));
}

static enum hr_status read_control(const struct hr__apng *a, const struct chunk *c,
                                   struct frame *out, struct hr_error *err)
{
    const uint8_t *p = c->data;

    if (c->size != FCTL_BYTES || !is_sound(c))
        return broken(a, "is damaged", err);
    out->width = number(p + 4);
    out->height = number(p + 8);
    out->x = number(p + 12);
    out->y = number(p + 16);
    out->disposal = p[24];
    out->over = p[25] != 0;
    if (out->width < 1 || out->height < 1 || out->x + out->width > a->width ||
        out->y + out->height > a->height)
        return broken(a, "has a rectangle outside of the picture", err);
    return HR_OK;
}

/* The header, with the frame's size, and what else decoding needs. */
static void put_head(const struct hr__apng *a, const struct frame *f, uint8_t **to)
{
    size_t at = SIGNATURE;
    struct chunk c;
    uint8_t header[IHDR_BYTES];

    memcpy(*to, a->in.data, SIGNATURE);
    *to += SIGNATURE;
    while (next_chunk(a->in.data, a->in.size, &at, &c) && !is(&c, "IDAT")) {
        if (is(&c, "IHDR") && c.size == IHDR_BYTES) {
            memcpy(header, c.data, IHDR_BYTES);
            put_number(header, (uint32_t)f->width);
            put_number(header + 4, (uint32_t)f->height);
            put_chunk(to, "IHDR", header, IHDR_BYTES);
        } else if (is(&c, "PLTE")) {
            put_chunk(to, "PLTE", c.data, c.size);
        } else if (is(&c, "tRNS")) {
            put_chunk(to, "tRNS", c.data, c.size);
        }
    }
}

/* The frame's data, up to the next frame's control. */
static enum hr_status put_data(struct hr__apng *a, uint8_t **to, struct hr_error *err)
{
    size_t before = a->at;
    struct chunk c;

    while (next_chunk(a->in.data, a->in.size, &a->at, &c) && !is(&c, "fcTL")) {
        if (is(&c, "IDAT")) {
            put_chunk(to, "IDAT", c.data, c.size);
        } else if (is(&c, "fdAT") && c.size >= NUMBER_BYTES) {
            if (!is_sound(&c))
                return broken(a, "is damaged", err);
            put_chunk(to, "IDAT", c.data + NUMBER_BYTES, c.size - NUMBER_BYTES);
        }
        before = a->at;
    }
    a->at = before;
    put_chunk(to, "IEND", NULL, 0);
    return HR_OK;
}

/* Decode a PNG in memory to RGBA. */
static enum hr_status decode(struct hr__apng *a, const uint8_t *data, size_t size,
                             uint8_t *rgba, struct hr_error *err)
{
    struct hr_image_options options;
    struct hr__input in = {data, size, &options, a->in.ctx};
    struct hr__canvas canvas = {.ctx = a->in.ctx,
                                .options = &options,
                                .easel = &a->easel,
                                .pick = {.flip = -1},
                                .slot = rgba};
    struct hr__picture picture = {0};
    enum hr_status status;

    hr_image_options_init(&options);
    options.pix_fmt = HR_RGBA;
    options.orientation = HR_ORIENTATION_IGNORE;
    options.side_max = a->in.options->side_max;
    status = a->png->open(a->decoder, &in, &picture, err);
    if (status == HR_OK)
        status = hr__canvas_begin(&canvas, &picture, err);
    if (status == HR_OK)
        status = a->png->read(a->decoder, &canvas, err);
    if (status == HR_OK)
        hr__canvas_flush(&canvas);
    hr__canvas_end(&canvas);
    a->png->close(a->decoder);
    return status;
}

static enum hr_status decode_frame(struct hr__apng *a, const struct frame *f,
                                   struct hr_buffer **rgba, struct hr_error *err)
{
    struct hr_buffer *png = NULL;
    uint8_t *to;
    /* What is put together was in the file; some 100 bytes are added at most. */
    enum hr_status status = hr_buffer_new(a->in.size + 256, &png, err);

    *rgba = NULL;
    if (status == HR_OK)
        status = hr_buffer_new((size_t)f->width * (size_t)f->height * PIXEL, rgba, err);
    if (status == HR_OK) {
        to = hr_buffer_data(png);
        put_head(a, f, &to);
        status = put_data(a, &to, err);
    }
    if (status == HR_OK)
        status = decode(a, hr_buffer_data(png),
                        (size_t)(to - (uint8_t *)hr_buffer_data(png)),
                        hr_buffer_data(*rgba), err);
    hr_buffer_unref(&png);
    return status;
}

/* ---- composing ---- */

static size_t screen_bytes(const struct hr__apng *a)
{
    return (size_t)a->width * (size_t)a->height * PIXEL;
}

static uint8_t *pixel_at(const struct hr__apng *a, struct hr_buffer *canvas, int64_t x,
                         int64_t y)
{
    return (uint8_t *)hr_buffer_data(canvas) +
           ((size_t)y * (size_t)a->width + (size_t)x) * PIXEL;
}

/* What becomes of the last frame. Of the first, taking back is clearing. */
static void dispose(struct hr__apng *a)
{
    const struct frame *f = &a->last;
    size_t bytes = (size_t)f->width * PIXEL;

    for (int64_t y = f->y; y < f->y + f->height; y++) {
        uint8_t *row = pixel_at(a, a->shown, f->x, y);

        if (f->disposal == TAKE_BACK && a->saved != NULL)
            memcpy(row, pixel_at(a, a->saved, f->x, y), bytes);
        else if (f->disposal == CLEAR || f->disposal == TAKE_BACK)
            memset(row, 0, bytes);
    }
}

static enum hr_status save(struct hr__apng *a, const struct frame *f,
                           struct hr_error *err)
{
    enum hr_status status = HR_OK;

    if (f->disposal != TAKE_BACK)
        return HR_OK;
    if (a->saved == NULL)
        status = hr_buffer_new(screen_bytes(a), &a->saved, err);
    if (status == HR_OK)
        memcpy(hr_buffer_data(a->saved), hr_buffer_data(a->shown), screen_bytes(a));
    return status;
}

/* Colour c of alpha a over colour b of alpha under, of which `both` remains: rounded. */
static uint8_t mix(uint32_t c, uint32_t a, uint32_t b, uint32_t under, uint32_t both)
{
    uint32_t sum = c * a * 255 + b * under * (255 - a);

    return (uint8_t)((sum + both / 2) / both);
}

static void draw_over(uint8_t *to, const uint8_t *from, int64_t pixels)
{
    for (int64_t x = 0; x < pixels; x++, to += PIXEL, from += PIXEL) {
        uint32_t a = from[3];
        uint32_t both = a * 255 + to[3] * (255 - a); /* 255 times the alpha of both */

        if (a == 0)
            continue;
        for (int c = 0; c < 3; c++)
            to[c] = mix(from[c], a, to[c], to[3], both);
        to[3] = (uint8_t)((both + 127) / 255);
    }
}

static void draw(struct hr__apng *a, const struct frame *f, struct hr_buffer *rgba)
{
    const uint8_t *from = hr_buffer_data(rgba);
    size_t bytes = (size_t)f->width * PIXEL;

    for (int64_t y = 0; y < f->height; y++, from += bytes) {
        uint8_t *to = pixel_at(a, a->shown, f->x, f->y + y);

        if (f->over)
            draw_over(to, from, f->width);
        else
            memcpy(to, from, bytes);
    }
}

static enum hr_status compose_next(struct hr__apng *a, struct hr_error *err)
{
    struct hr_buffer *rgba = NULL;
    struct frame f = {0};
    struct chunk c;
    enum hr_status status;

    do
        if (!next_chunk(a->in.data, a->in.size, &a->at, &c))
            return broken(a, "ends", err);
    while (!is(&c, "fcTL"));
    status = read_control(a, &c, &f, err);
    if (status == HR_OK)
        status = decode_frame(a, &f, &rgba, err);
    if (status == HR_OK) {
        dispose(a);
        status = save(a, &f, err);
    }
    if (status == HR_OK) {
        draw(a, &f, rgba);
        a->last = f;
        a->composed++;
    }
    hr_buffer_unref(&rgba);
    return status;
}

/* An empty canvas; the default picture is passed over if it has no control. */
static enum hr_status start(struct hr__apng *a, struct hr_error *err)
{
    size_t at = SIGNATURE;
    struct chunk c;
    bool part = false;
    enum hr_status status;

    if (a->shown != NULL)
        return HR_OK;
    status = hr_buffer_new(screen_bytes(a), &a->shown, err);
    if (status != HR_OK)
        return status;
    memset(hr_buffer_data(a->shown), 0, screen_bytes(a));
    while (next_chunk(a->in.data, a->in.size, &at, &c) && !is(&c, "IDAT"))
        if (is(&c, "fcTL"))
            part = true;
    a->composed = part ? 0 : 1;
    return HR_OK;
}

enum hr_status hr__apng_read(struct hr__apng *a, int64_t n, struct hr__canvas *canvas,
                             struct hr_error *err)
{
    enum hr_status status = start(a, err);

    while (status == HR_OK && a->composed <= n) {
        status = hr_ctx_check(a->in.ctx, err);
        if (status == HR_OK)
            status = compose_next(a, err);
    }
    if (status != HR_OK)
        return status;
    return hr__canvas_put_all(canvas, hr_buffer_data(a->shown),
                              (size_t)a->width * PIXEL, a->height, err);
}

/* ---- life ---- */

enum hr_status hr__apng_new(const struct hr__codec *png, struct hr__apng **out,
                            struct hr_error *err)
{
    struct hr__apng *a = hr__calloc(1, sizeof(*a));
    enum hr_status status;

    *out = NULL;
    if (a == NULL)
        return hr__nomem(err, "image", "an APNG decoder", sizeof(*a));
    a->png = png;
    status = png->create(&a->decoder, err);
    if (status == HR_OK)
        *out = a;
    else
        hr__free(a);
    return status;
}

void hr__apng_begin(struct hr__apng *a, const struct hr__input *in, int64_t width,
                    int64_t height)
{
    a->in = *in;
    a->width = width;
    a->height = height;
    a->at = SIGNATURE;
    a->composed = 0;
    a->last = (struct frame){0};
}

void hr__apng_end(struct hr__apng *a)
{
    hr_buffer_unref(&a->shown);
    hr_buffer_unref(&a->saved);
}

void hr__apng_free(struct hr__apng **apng)
{
    struct hr__apng *a = *apng;

    *apng = NULL;
    if (a == NULL)
        return;
    hr__apng_end(a);
    a->png->destroy(a->decoder);
    hr__easel_fini(&a->easel);
    hr__free(a);
}
