/* GIF by giflib's sequential interface.
 *
 * Frames are composed on a canvas of the screen's size that begins transparent, as
 * browsers do: the screen's background colour is ignored. A frame's transparent pixels
 * leave the canvas as it is. After the frame its rectangle stays, becomes transparent
 * (disposal 2) or what it was before (disposal 3). What lies outside the screen is cut
 * off. Where nothing has been drawn, a transparent pixel of the first frame carries its
 * palette's colour, invisibly: with alpha dropped that shows, as it does in Pillow.
 *
 * Of a frame that is cut off the lines that were read are drawn over the frames before. */
#include <string.h>

#include <gif_lib.h>

#include "base/mem.h"
#include "image/canvas.h"
#include "image/codec.h"
#include "base/banned.h"

#define SCREEN_END 13 /* signature and screen descriptor */
#define PIXEL 4       /* of the canvas: RGBA */

struct box {
    int64_t left;
    int64_t top;
    int64_t width;
    int64_t height;
};

struct gif {
    struct hr__input in;
    struct hr__picture rows;
    GifFileType *lib;
    size_t at; /* read so far */
    int64_t frame;
    int64_t composed;        /* frames so far */
    struct hr_buffer *shown; /* the canvas */
    struct hr_buffer *saved; /* of the same size, for disposal 3 */
    uint8_t *line;           /* one of a frame, kept */
    size_t line_bytes;
    /* of the frame last drawn */
    struct box box; /* on the screen */
    int64_t lines;  /* read of it */
    int64_t height; /* lines that it should have */
    int disposal;
    int transparent; /* index, or NO_TRANSPARENT_COLOR */
};

static enum hr_status fail(const struct gif *g, struct hr_error *err)
{
    int code = g->lib != NULL ? g->lib->Error : D_GIF_ERR_NOT_ENOUGH_MEM;
    const char *text = GifErrorString(code);

    if (code == D_GIF_ERR_NOT_ENOUGH_MEM)
        return hr__nomem(err, "image", "a GIF decoder", 0);
    if (code == D_GIF_ERR_READ_FAILED || g->at == g->in.size)
        return hr_error_set(err, HR_ERR_FORMAT, "image", code,
                            "image: GIF ends after %lld of %lld rows of frame %lld of "
                            "%lld",
                            (long long)g->lines, (long long)g->height,
                            (long long)g->composed, (long long)g->rows.frames);
    return hr_error_set(err, HR_ERR_FORMAT, "image", code,
                        "image: GIF is damaged after %lld of %lld rows of frame %lld "
                        "of %lld: %s",
                        (long long)g->lines, (long long)g->height,
                        (long long)g->composed, (long long)g->rows.frames,
                        text != NULL ? text : "unknown error");
}

static int on_read(GifFileType *lib, GifByteType *to, int n)
{
    struct gif *g = lib->UserData;
    size_t left = g->in.size - g->at;
    size_t some = (size_t)n < left ? (size_t)n : left;

    memcpy(to, g->in.data + g->at, some);
    g->at += some;
    return (int)some;
}

/* ---- the header ---- */

/* Past sub-blocks, each with its length in front, the last with 0. */
static size_t skip_blocks(const struct hr__input *in, size_t at)
{
    while (at < in->size && in->data[at] != 0)
        at += 1 + (size_t)in->data[at];
    return at + 1;
}

static size_t colours(uint8_t packed)
{
    return (packed & 0x80) != 0 ? (size_t)3 << ((packed & 7) + 1) : 0;
}

/* Frames, counted without decoding them; *transparent: one says that it has a
 * transparent colour. */
static int64_t count_frames(const struct hr__input *in, bool *transparent)
{
    size_t at = SCREEN_END + colours(in->data[10]);
    int64_t frames = 0;

    *transparent = false;
    while (at < in->size) {
        const uint8_t *block = in->data + at;
        size_t left = in->size - at;

        if (block[0] == 0x21 && left >= 4) { /* an extension */
            if (block[1] == 0xf9 && (block[3] & 1) != 0)
                *transparent = true;
            at = skip_blocks(in, at + 2);
        } else if (block[0] == 0x2c && left >= 10) { /* an image */
            frames++;
            at = skip_blocks(in, at + 11 + colours(block[9]));
        } else {
            break;
        }
    }
    return frames;
}

static enum hr_status gif_open(void *decoder, const struct hr__input *in,
                               struct hr__picture *out, struct hr_error *err)
{
    struct gif *g = decoder;
    bool transparent;

    g->in = *in;
    g->at = 0;
    g->frame = 0;
    g->composed = 0;
    g->lines = 0;
    g->disposal = DISPOSE_DO_NOT;
    if (in->size < SCREEN_END)
        return hr_error_set(err, HR_ERR_FORMAT, "image", 0,
                            "image: GIF ends in its header");
    out->width = in->data[6] | in->data[7] << 8;
    out->height = in->data[8] | in->data[9] << 8;
    out->frames = count_frames(in, &transparent);
    if (out->frames == 0)
        return hr_error_set(err, HR_ERR_FORMAT, "image", 0,
                            "image: GIF without a frame");
    out->stored_channels = transparent ? 4 : 3;
    out->stored_bits = 8;
    out->channels = hr__wants_alpha(in->options) ? 4 : 3;
    out->sample_bytes = 1;
    out->raw_bytes = (uint64_t)out->width * (uint64_t)out->height;
    out->work_bytes = out->raw_bytes * PIXEL * 2;
    g->rows = *out;
    return HR_OK;
}

static enum hr_status gif_turn(void *decoder, int64_t n, struct hr__picture *out,
                               struct hr_error *err)
{
    struct gif *g = decoder;

    (void)out;
    (void)err;
    g->frame = n;
    return HR_OK;
}

/* ---- composing ---- */

static size_t screen_bytes(const struct gif *g)
{
    return (size_t)g->rows.width * (size_t)g->rows.height * PIXEL;
}

static uint8_t *pixel_at(const struct gif *g, struct hr_buffer *canvas, int64_t x,
                         int64_t y)
{
    return (uint8_t *)hr_buffer_data(canvas) +
           ((size_t)y * (size_t)g->rows.width + (size_t)x) * PIXEL;
}

/* The part of a frame that the screen shows. */
static struct box on_screen(const struct gif *g, const GifImageDesc *image)
{
    struct box b = {image->Left, image->Top, image->Width, image->Height};

    if (b.left > g->rows.width)
        b.left = g->rows.width;
    if (b.top > g->rows.height)
        b.top = g->rows.height;
    if (b.width > g->rows.width - b.left)
        b.width = g->rows.width - b.left;
    if (b.height > g->rows.height - b.top)
        b.height = g->rows.height - b.top;
    return b;
}

/* What becomes of the last frame before the next one is drawn. */
static void dispose(struct gif *g)
{
    for (int64_t y = 0; y < g->box.height; y++) {
        uint8_t *row = pixel_at(g, g->shown, g->box.left, g->box.top + y);
        size_t bytes = (size_t)g->box.width * PIXEL;

        if (g->disposal == DISPOSE_BACKGROUND)
            memset(row, 0, bytes);
        else if (g->disposal == DISPOSE_PREVIOUS && g->saved != NULL)
            memcpy(row, pixel_at(g, g->saved, g->box.left, g->box.top + y), bytes);
    }
}

static enum hr_status save(struct gif *g, struct hr_error *err)
{
    enum hr_status status = HR_OK;

    if (g->disposal != DISPOSE_PREVIOUS)
        return HR_OK;
    if (g->saved == NULL)
        status = hr_buffer_new(screen_bytes(g), &g->saved, err);
    if (status == HR_OK)
        memcpy(hr_buffer_data(g->saved), hr_buffer_data(g->shown), screen_bytes(g));
    return status;
}

static void draw_line(const struct gif *g, int64_t y, const ColorMapObject *map)
{
    uint8_t *to = pixel_at(g, g->shown, g->box.left, g->box.top + y);

    for (int64_t x = 0; x < g->box.width; x++, to += PIXEL) {
        int index = g->line[x];
        const GifColorType *c = index < map->ColorCount ? &map->Colors[index] : NULL;

        if (index == g->transparent && g->composed > 0)
            continue;
        to[0] = c != NULL ? c->Red : 0;
        to[1] = c != NULL ? c->Green : 0;
        to[2] = c != NULL ? c->Blue : 0;
        to[3] = index == g->transparent ? 0 : 255;
    }
}

static bool reserve_line(struct gif *g, int width)
{
    if ((size_t)width <= g->line_bytes)
        return true;
    hr__free(g->line);
    g->line = hr__malloc((size_t)width);
    g->line_bytes = g->line != NULL ? (size_t)width : 0;
    return g->line != NULL;
}

/* Skip what is left of a frame's data. */
static bool skip_rest(struct gif *g)
{
    GifByteType *block;

    do {
        if (DGifGetCodeNext(g->lib, &block) == GIF_ERROR)
            return false;
    } while (block != NULL);
    return true;
}

/* Lines come in order, or in four passes. Those below the screen are not decoded. */
static enum hr_status draw_lines(struct gif *g, const ColorMapObject *map,
                                 struct hr_error *err)
{
    static const int first[] = {0, 4, 2, 1};
    static const int step[] = {8, 8, 4, 2};
    const GifImageDesc *image = &g->lib->Image;
    int passes = image->Interlace ? 4 : 1;

    for (int pass = 0; pass < passes; pass++)
        for (int64_t y = image->Interlace ? first[pass] : 0; y < image->Height;
             y += image->Interlace ? step[pass] : 1) {
            enum hr_status status = hr_ctx_check(g->in.ctx, err);

            if (status != HR_OK)
                return status;
            if (!image->Interlace && y >= g->box.height)
                return skip_rest(g) ? HR_OK : fail(g, err);
            if (DGifGetLine(g->lib, g->line, image->Width) == GIF_ERROR)
                return fail(g, err);
            g->lines++;
            if (y < g->box.height)
                draw_line(g, y, map);
        }
    return g->lines == image->Height ? HR_OK : fail(g, err);
}

static enum hr_status draw(struct gif *g, int next_disposal, struct hr_error *err)
{
    const ColorMapObject *map;
    enum hr_status status;

    if (DGifGetImageDesc(g->lib) == GIF_ERROR)
        return fail(g, err);
    map = g->lib->Image.ColorMap != NULL ? g->lib->Image.ColorMap : g->lib->SColorMap;
    if (map == NULL)
        return hr_error_set(err, HR_ERR_FORMAT, "image", 0,
                            "image: GIF without a palette in frame %lld",
                            (long long)g->composed);
    if (!reserve_line(g, g->lib->Image.Width))
        return hr__nomem(err, "image", "a line of a GIF", (size_t)g->lib->Image.Width);
    g->height = g->lib->Image.Height;
    dispose(g);
    g->box = on_screen(g, &g->lib->Image);
    g->disposal = next_disposal;
    status = save(g, err);
    if (status == HR_OK)
        status = draw_lines(g, map, err);
    if (status == HR_OK)
        g->composed++;
    return status;
}

/* The extensions before a frame; *disposal is that of the frame. */
static bool read_extension(struct gif *g, int *disposal)
{
    GraphicsControlBlock control;
    GifByteType *block;
    int code;

    if (DGifGetExtension(g->lib, &code, &block) == GIF_ERROR)
        return false;
    if (code == GRAPHICS_EXT_FUNC_CODE && block != NULL &&
        DGifExtensionToGCB(block[0], block + 1, &control) == GIF_OK) {
        *disposal = control.DisposalMode;
        g->transparent = control.TransparentColor;
    }
    while (block != NULL)
        if (DGifGetExtensionNext(g->lib, &block) == GIF_ERROR)
            return false;
    return true;
}

static enum hr_status draw_next(struct gif *g, struct hr_error *err)
{
    int disposal = DISPOSAL_UNSPECIFIED;
    GifRecordType type;

    g->transparent = NO_TRANSPARENT_COLOR;
    g->lines = 0;
    g->height = g->rows.height; /* until the frame's header is read */
    while (DGifGetRecordType(g->lib, &type) == GIF_OK) {
        if (type == IMAGE_DESC_RECORD_TYPE)
            return draw(g, disposal, err);
        if (type == TERMINATE_RECORD_TYPE)
            break;
        if (type == EXTENSION_RECORD_TYPE && !read_extension(g, &disposal))
            break;
    }
    return fail(g, err);
}

static enum hr_status start(struct gif *g, struct hr_error *err)
{
    enum hr_status status;
    int code;

    if (g->lib != NULL)
        return HR_OK;
    status = hr_buffer_new(screen_bytes(g), &g->shown, err);
    if (status != HR_OK)
        return status;
    memset(hr_buffer_data(g->shown), 0, screen_bytes(g));
    g->box = (struct box){0};
    g->lib = DGifOpen(g, on_read, &code);
    if (g->lib != NULL)
        return HR_OK;
    if (code == D_GIF_ERR_NOT_ENOUGH_MEM)
        return hr__nomem(err, "image", "a GIF decoder", 0);
    return hr_error_set(err, HR_ERR_FORMAT, "image", code, "image: GIF is damaged: %s",
                        GifErrorString(code));
}

/* The canvas holds RGBA; rows have alpha only where it is wanted. */
static enum hr_status put_screen(struct gif *g, struct hr__canvas *canvas,
                                 struct hr_error *err)
{
    size_t stride = (size_t)g->rows.width * PIXEL;
    size_t channels = (size_t)g->rows.channels;
    const uint8_t *from = hr_buffer_data(g->shown);
    uint8_t *rows[HR_PUSH_ROWS];
    enum hr_status status = HR_OK;
    int n;

    while (status == HR_OK && (n = hr__canvas_rows(canvas, rows)) > 0) {
        for (int i = 0; i < n; i++, from += stride)
            for (size_t x = 0; x < (size_t)g->rows.width; x++)
                memcpy(rows[i] + x * channels, from + x * PIXEL, channels);
        status = hr__canvas_put(canvas, (const uint8_t *const *)rows, n, err);
    }
    return status;
}

static enum hr_status gif_read(void *decoder, struct hr__canvas *canvas,
                               struct hr_error *err)
{
    struct gif *g = decoder;
    enum hr_status status = start(g, err);

    while (status == HR_OK && g->composed <= g->frame)
        status = draw_next(g, err);
    if (status == HR_ERR_FORMAT && g->in.options->allow_truncated && g->lines > 0 &&
        g->composed == g->frame) {
        enum hr_status put = put_screen(g, canvas, NULL);

        return put == HR_OK ? status : put;
    }
    return status == HR_OK ? put_screen(g, canvas, err) : status;
}

static void gif_close(void *decoder)
{
    struct gif *g = decoder;

    if (g->lib != NULL)
        (void)DGifCloseFile(g->lib, NULL);
    g->lib = NULL;
    hr_buffer_unref(&g->shown);
    hr_buffer_unref(&g->saved);
}

static void gif_destroy(void *decoder)
{
    struct gif *g = decoder;

    hr__free(g->line);
    hr__free(g);
}

static enum hr_status gif_create(void **out, struct hr_error *err)
{
    *out = hr__calloc(1, sizeof(struct gif));
    return *out != NULL ? HR_OK
                        : hr__nomem(err, "image", "a GIF decoder", sizeof(struct gif));
}

const struct hr__codec hr__codec_gif = {
    .name = "GIF",
    .create = gif_create,
    .destroy = gif_destroy,
    .open = gif_open,
    .turn = gif_turn,
    .read = gif_read,
    .close = gif_close,
};
