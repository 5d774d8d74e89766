/* PNG by libpng's row interface.
 *
 * As in jpeg.c, errors jump back to the one function with a setjmp, which has no
 * variables. libpng's own structures are made and freed for each picture: it offers no
 * way to keep them. Chunks that do not bear on the pixels are skipped unread. */
#include "image/png.h"

#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include <png.h>

#include "base/mem.h"
#include "base/banned.h"

#define SIGNATURE_BYTES 8
#define IHDR_END 33 /* signature, length, "IHDR", 13 bytes, checksum */
#define CHUNK_BYTES_MAX 8000000
#define CHUNKS_MAX 128

struct png {
    png_structp lib;
    png_infop info;
    jmp_buf escape;
    const uint8_t *data;
    size_t size;
    size_t at; /* read so far */
    struct hr__canvas *canvas;
    struct hr_error *err;
    enum hr_status status;   /* why the escape was taken */
    bool nomem;              /* an allocation failed */
    struct hr_buffer *whole; /* an interlaced picture, while its passes are read */
    int64_t width;
    int64_t height;
    int64_t row; /* decoded so far, of this pass */
    int pass;
    int passes;
};

static _Noreturn void escape(struct png *p, enum hr_status status)
{
    p->status = status;
    longjmp(p->escape, 1);
}

static enum hr_status guarded(struct png *p, enum hr_status (*body)(struct png *))
{
    if (setjmp(p->escape) != 0)
        return p->status;
    return body(p);
}

/* "after 60 of 480 rows" */
static void where(const struct png *p, char *out, size_t size)
{
    if (p->passes == 0)
        snprintf(out, size, "in its header");
    else if (p->passes == 1)
        snprintf(out, size, "after %lld of %lld rows", (long long)p->row,
                 (long long)p->height);
    else
        snprintf(out, size, "in pass %d of %d", p->pass + 1, p->passes);
}

static void on_error(png_structp lib, png_const_charp text)
{
    struct png *p = png_get_error_ptr(lib);
    char place[64];

    if (p->nomem)
        escape(p, hr__nomem(p->err, "image", "a PNG decoder", 0));
    where(p, place, sizeof(place));
    escape(p, hr_error_set(p->err, HR_ERR_FORMAT, "image", 0,
                           "image: PNG is damaged %s: %s", place, text));
}

static void on_warning(png_structp lib, png_const_charp text)
{
    (void)lib;
    (void)text;
}

static png_voidp on_malloc(png_structp lib, png_alloc_size_t size)
{
    struct png *p = png_get_mem_ptr(lib);
    void *ptr = hr__malloc(size);

    if (ptr == NULL)
        p->nomem = true;
    return ptr;
}

static void on_free(png_structp lib, png_voidp ptr)
{
    (void)lib;
    hr__free(ptr);
}

static void on_read(png_structp lib, png_bytep to, size_t n)
{
    struct png *p = png_get_io_ptr(lib);
    char place[64];

    if (n > p->size - p->at) {
        where(p, place, sizeof(place));
        escape(p, hr_error_set(p->err, HR_ERR_FORMAT, "image", 0, "image: PNG ends %s",
                               place));
    }
    memcpy(to, p->data + p->at, n);
    p->at += n;
}

static void open_lib(struct png *p)
{
    const struct hr_image_options *o = p->canvas->options;
    uint32_t side = o->side_max > INT32_MAX ? INT32_MAX : (uint32_t)o->side_max;

    p->lib = png_create_read_struct_2(PNG_LIBPNG_VER_STRING, p, on_error, on_warning, p,
                                      on_malloc, on_free);
    if (p->lib != NULL)
        p->info = png_create_info_struct(p->lib);
    if (p->info == NULL)
        escape(p, hr__nomem(p->err, "image", "a PNG decoder", 0));
    png_set_read_fn(p->lib, p, on_read);
    png_set_user_limits(p->lib, side, side);
    png_set_chunk_malloc_max(p->lib, CHUNK_BYTES_MAX);
    png_set_chunk_cache_max(p->lib, CHUNKS_MAX);
    png_set_crc_action(p->lib, PNG_CRC_ERROR_QUIT, PNG_CRC_ERROR_QUIT);
    png_set_keep_unknown_chunks(p->lib, PNG_HANDLE_CHUNK_NEVER, NULL, -1);
}

/* Ask for 8-bit RGB, whatever is stored. */
static void ask_rgb(struct png *p)
{
    int type = png_get_color_type(p->lib, p->info);
    int depth = png_get_bit_depth(p->lib, p->info);

    if (depth == 16)
        png_set_strip_16(p->lib);
    if (type == PNG_COLOR_TYPE_PALETTE)
        png_set_palette_to_rgb(p->lib);
    else if (type == PNG_COLOR_TYPE_GRAY && depth < 8)
        png_set_expand_gray_1_2_4_to_8(p->lib);
    if (type == PNG_COLOR_TYPE_GRAY || type == PNG_COLOR_TYPE_GRAY_ALPHA)
        png_set_gray_to_rgb(p->lib);
    png_set_strip_alpha(p->lib);
}

static void begin(struct png *p)
{
    uint64_t raw;
    int passes;
    enum hr_status status;

    open_lib(p);
    png_read_info(p->lib, p->info);
    p->width = png_get_image_width(p->lib, p->info);
    p->height = png_get_image_height(p->lib, p->info);
    raw = (uint64_t)png_get_rowbytes(p->lib, p->info) * (uint64_t)p->height;
    status = hr__canvas_begin(p->canvas, "PNG", p->width, p->height, raw, p->err);
    if (status != HR_OK)
        escape(p, status);
    ask_rgb(p);
    passes = png_set_interlace_handling(p->lib);
    png_read_update_info(p->lib, p->info);
    if (png_get_rowbytes(p->lib, p->info) != (size_t)p->width * 3)
        escape(p, hr_error_set(p->err, HR_ERR_UNSUPPORTED, "image", 0,
                               "image: PNG of colour type %d cannot be made RGB",
                               png_get_color_type(p->lib, p->info)));
    p->passes = passes;
}

static void put(struct png *p, const uint8_t *const *rows, int n)
{
    enum hr_status status = hr__canvas_put(p->canvas, rows, n, p->err);

    if (status != HR_OK)
        escape(p, status);
}

static void read_straight(struct png *p)
{
    uint8_t *rows[HR_PUSH_ROWS];
    int n;

    while ((n = hr__canvas_rows(p->canvas, rows)) > 0) {
        for (int i = 0; i < n; i++) {
            png_read_row(p->lib, rows[i], NULL);
            p->row++;
        }
        put(p, (const uint8_t *const *)rows, n);
    }
}

/* Each pass fills in more pixels of all rows, so the whole picture is held. */
static void read_interlaced(struct png *p)
{
    size_t stride = (size_t)p->width * 3;
    const uint8_t *rows[HR_PUSH_ROWS];
    enum hr_status status;
    uint8_t *pixels;

    status = hr_buffer_new(stride * (size_t)p->height, &p->whole, p->err);
    if (status != HR_OK)
        escape(p, status);
    pixels = hr_buffer_data(p->whole);
    memset(pixels + stride * (size_t)p->height, 0, HR_ROW_SLACK);
    for (p->pass = 0; p->pass < p->passes; p->pass++)
        for (p->row = 0; p->row < p->height; p->row++)
            png_read_row(p->lib, pixels + stride * (size_t)p->row, NULL);
    p->pass = p->passes - 1;
    for (int64_t y = 0; y < p->height; y += HR_PUSH_ROWS) {
        int n = p->height - y < HR_PUSH_ROWS ? (int)(p->height - y) : HR_PUSH_ROWS;

        for (int i = 0; i < n; i++)
            rows[i] = pixels + stride * (size_t)(y + i);
        put(p, rows, n);
    }
}

static enum hr_status decode(struct png *p)
{
    begin(p);
    if (p->passes == 1)
        read_straight(p);
    else
        read_interlaced(p);
    png_read_end(p->lib, NULL);
    return HR_OK;
}

static int64_t big_endian(const uint8_t *at)
{
    return (int64_t)at[0] << 24 | at[1] << 16 | at[2] << 8 | at[3];
}

enum hr_status hr__png_decode(const uint8_t *data, size_t size,
                              struct hr__canvas *canvas, struct hr_error *err)
{
    struct png p = {.data = data, .size = size, .canvas = canvas, .err = err};
    enum hr_status status;

    /* Before libpng sees it, so that the message names the limit. */
    if (size >= IHDR_END && memcmp(data + SIGNATURE_BYTES + 4, "IHDR", 4) == 0) {
        status = hr__canvas_check(canvas, "PNG", big_endian(data + 16),
                                  big_endian(data + 20), err);
        if (status != HR_OK)
            return status;
    }
    status = guarded(&p, decode);
    png_destroy_read_struct(&p.lib, &p.info, NULL);
    hr_buffer_unref(&p.whole);
    return status;
}
