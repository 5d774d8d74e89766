/* PNG by libpng's row interface.
 *
 * As in jpeg.c, errors jump back to the one function with a setjmp, which has no
 * variables. libpng's own structures are made for each picture, in memory that is kept:
 * libpng itself offers no way to keep them. Chunks that do not bear on the pixels are
 * skipped unread.
 *
 * Grey below 8 bits is stretched to 0 … 255, a palette is looked up, of 16 bits the
 * upper 8 are taken where 8 are wanted; gamma is ignored. Of an animation the default
 * picture is decoded. */
#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include <png.h>

#include "base/mem.h"
#include "image/apng.h"
#include "image/arena.h"
#include "image/canvas.h"
#include "image/codec.h"
#include "image/exif.h"
#include "base/banned.h"

#define SIGNATURE_BYTES 8
#define CHUNK_HEAD 8 /* length and name */
#define IHDR_BYTES 13
#define CHUNK_BYTES_MAX 8000000
#define CHUNKS_MAX 128

struct png {
    png_structp lib;
    png_infop info;
    jmp_buf escape;
    struct hr__input in;
    size_t at; /* read so far */
    struct hr__canvas *canvas;
    struct hr_error *err;
    enum hr_status status;   /* why the escape was taken */
    bool nomem;              /* an allocation failed */
    struct hr_buffer *whole; /* an interlaced picture, while its passes are read */
    struct hr__picture rows; /* what is given */
    uint8_t *profile;        /* unpacked */
    size_t profile_bytes;
    bool transparent;       /* there is a tRNS chunk */
    bool cut;               /* the data end before the end */
    struct hr__arena arena; /* libpng's own memory, kept from picture to picture */
    struct hr__apng *movie; /* made by the first animation */
    int64_t frame;          /* turned to */
    int64_t row;            /* decoded so far, of this pass */
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
                 (long long)p->rows.height);
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
    void *ptr = hr__arena_alloc(&p->arena, size);

    if (ptr == NULL)
        p->nomem = true;
    return ptr;
}

static void on_free(png_structp lib, png_voidp ptr)
{
    struct png *p = png_get_mem_ptr(lib);

    hr__arena_release(&p->arena, ptr);
}

static void on_read(png_structp lib, png_bytep to, size_t n)
{
    struct png *p = png_get_io_ptr(lib);
    char place[64];

    if (n > p->in.size - p->at) {
        where(p, place, sizeof(place));
        escape(p, hr_error_set(p->err, HR_ERR_FORMAT, "image", 0, "image: PNG ends %s",
                               place));
    }
    memcpy(to, p->in.data + p->at, n);
    p->at += n;
}

static void open_lib(struct png *p)
{
    const struct hr_image_options *o = p->in.options;
    uint32_t side = o->side_max > INT32_MAX ? INT32_MAX : (uint32_t)o->side_max;

    p->lib = png_create_read_struct_2(PNG_LIBPNG_VER_STRING, p, on_error, on_warning, p,
                                      on_malloc, on_free);
    if (p->lib != NULL)
        p->info = png_create_info_struct(p->lib);
    if (p->info == NULL)
        escape(p, hr__nomem(p->err, "image", "a PNG decoder", 0));
    png_set_read_fn(p->lib, p, on_read);
    png_set_user_limits(p->lib, side, side);
    if (p->cut) /* so that no row is lost with data that libpng reads ahead */
        png_set_compression_buffer_size(p->lib, 1);
    png_set_chunk_malloc_max(p->lib, CHUNK_BYTES_MAX);
    png_set_chunk_cache_max(p->lib, CHUNKS_MAX);
#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
    /* A fuzzer cannot guess checksums. */
    png_set_crc_action(p->lib, PNG_CRC_QUIET_USE, PNG_CRC_QUIET_USE);
#else
    png_set_crc_action(p->lib, PNG_CRC_ERROR_QUIT, PNG_CRC_ERROR_QUIT);
#endif
    png_set_keep_unknown_chunks(p->lib, PNG_HANDLE_CHUNK_NEVER, NULL, -1);
}

/* ---- the header ---- */

static uint32_t big_endian(const uint8_t *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static int samples_per_pixel(int type)
{
    static const uint8_t count[] = {1, 0, 3, 1, 2, 0, 4};

    return type >= 0 && type < (int)sizeof(count) ? count[type] : 0;
}

/* Look through the chunks behind IHDR for what bears on the picture as a whole. */
static void read_chunks(struct png *p, struct hr__picture *out)
{
    const uint8_t *data = p->in.data;
    size_t size = p->in.size;
    size_t at = SIGNATURE_BYTES + CHUNK_HEAD + IHDR_BYTES + 4;

    p->transparent = false;
    p->cut = true;
    while (size - at >= CHUNK_HEAD + 4) {
        const uint8_t *head = data + at;
        size_t n = big_endian(head);

        if (n > size - at - CHUNK_HEAD - 4)
            break;
        at += CHUNK_HEAD + n + 4;
        if (memcmp(head + 4, "tRNS", 4) == 0)
            p->transparent = true;
        else if (memcmp(head + 4, "iCCP", 4) == 0) {
            out->icc = head + CHUNK_HEAD; /* compressed: see read_profile */
            out->icc_size = n;
        } else if (memcmp(head + 4, "eXIf", 4) == 0 && out->orientation == 0)
            out->orientation = hr__exif_orientation(head + CHUNK_HEAD, n);
        else if (memcmp(head + 4, "IEND", 4) == 0) {
            p->cut = false;
            break;
        }
    }
}

/* What the rows are to be: nothing that the output does not show. */
static void choose_rows(struct png *p, int type, struct hr__picture *out)
{
    bool alpha = p->transparent || (type & PNG_COLOR_MASK_ALPHA) != 0;

    out->channels = (type & PNG_COLOR_MASK_COLOR) != 0 ? 3 : 1;
    if (alpha && hr__wants_alpha(p->in.options))
        out->channels++;
    out->sample_bytes = out->stored_bits == 16 && hr__wants_16(p->in.options) ? 2 : 1;
}

/* Before libpng reads from the beginning. */
static void start(struct png *p)
{
    hr__arena_reset(&p->arena);
    p->at = 0;
    p->nomem = false;
    p->row = 0;
    p->pass = 0;
    p->passes = 0;
}

static enum hr_status copy_profile(struct png *p)
{
    png_charp name;
    png_bytep profile;
    png_uint_32 size;
    int method;

    open_lib(p);
    png_set_keep_unknown_chunks(p->lib, PNG_HANDLE_CHUNK_AS_DEFAULT,
                                (png_const_bytep) "iCCP", 1);
    png_read_info(p->lib, p->info);
    p->profile_bytes = 0;
    if (png_get_iCCP(p->lib, p->info, &name, &method, &profile, &size) == 0)
        return HR_OK; /* one that libpng does not accept */
    p->profile = hr__malloc(size);
    if (p->profile == NULL)
        return hr__nomem(p->err, "image", "a colour profile", size);
    memcpy(p->profile, profile, size);
    p->profile_bytes = size;
    return HR_OK;
}

/* libpng unpacks the profile, where it is wanted. */
static enum hr_status read_profile(struct png *p, struct hr__picture *out,
                                   struct hr_error *err)
{
    enum hr_status status;

    if (out->icc == NULL || p->in.options->icc == HR_ICC_IGNORE)
        return HR_OK;
    p->err = err;
    start(p);
    status = guarded(p, copy_profile);
    png_destroy_read_struct(&p->lib, &p->info, NULL);
    out->icc = p->profile;
    out->icc_size = p->profile_bytes;
    return status;
}

static enum hr_status png_open(void *decoder, const struct hr__input *in,
                               struct hr__picture *out, struct hr_error *err)
{
    struct png *p = decoder;
    const uint8_t *ihdr = in->data + SIGNATURE_BYTES + CHUNK_HEAD;
    uint64_t row_bits;

    p->in = *in;
    if (in->size < SIGNATURE_BYTES + CHUNK_HEAD + IHDR_BYTES + 4)
        return hr_error_set(err, HR_ERR_FORMAT, "image", 0,
                            "image: PNG ends in its header");
    if (memcmp(ihdr - 4, "IHDR", 4) != 0)
        return hr_error_set(err, HR_ERR_FORMAT, "image", 0,
                            "image: PNG does not begin with its header");
    out->width = big_endian(ihdr);
    out->height = big_endian(ihdr + 4);
    out->stored_bits = ihdr[8];
    out->stored_channels = samples_per_pixel(ihdr[9]);
    if (out->stored_channels == 0)
        return hr_error_set(err, HR_ERR_FORMAT, "image", 0,
                            "image: PNG of an unknown colour type %d", ihdr[9]);
    row_bits = (uint64_t)out->width * (unsigned)out->stored_channels * ihdr[8];
    out->raw_bytes = (row_bits + 7) / 8 * (uint64_t)out->height;
    read_chunks(p, out);
    out->frames = hr__apng_frames(in->data, in->size);
    p->frame = 0;
    choose_rows(p, ihdr[9], out);
    p->rows = *out;
    if (ihdr[12] != 0)
        out->work_bytes = (uint64_t)out->width * (uint64_t)out->height *
                          (unsigned)(out->channels * out->sample_bytes);
    return read_profile(p, out, err);
}

/* ---- the pixels ---- */

/* Ask for rows as choose_rows has said, whatever is stored. */
static void ask_rows(struct png *p)
{
    int type = png_get_color_type(p->lib, p->info);
    int depth = png_get_bit_depth(p->lib, p->info);

    if (depth == 16 && p->rows.sample_bytes == 1)
        png_set_strip_16(p->lib);
    if (type == PNG_COLOR_TYPE_PALETTE)
        png_set_palette_to_rgb(p->lib);
    else if (type == PNG_COLOR_TYPE_GRAY && depth < 8)
        png_set_expand_gray_1_2_4_to_8(p->lib);
    if (p->rows.channels % 2 != 0)
        png_set_strip_alpha(p->lib);
    else if (p->transparent)
        png_set_tRNS_to_alpha(p->lib);
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    if (p->rows.sample_bytes == 2)
        png_set_swap(p->lib);
#endif
}

static size_t row_bytes(const struct png *p)
{
    return (size_t)p->rows.width * (size_t)(p->rows.channels * p->rows.sample_bytes);
}

static void begin(struct png *p)
{
    int passes;

    open_lib(p);
    png_read_info(p->lib, p->info);
    if (png_get_image_width(p->lib, p->info) != (png_uint_32)p->rows.width ||
        png_get_image_height(p->lib, p->info) != (png_uint_32)p->rows.height)
        escape(p, hr_error_set(p->err, HR_ERR_FORMAT, "image", 0,
                               "image: PNG has contradictory headers"));
    ask_rows(p);
    passes = png_set_interlace_handling(p->lib);
    png_read_update_info(p->lib, p->info);
    if (png_get_rowbytes(p->lib, p->info) != row_bytes(p))
        escape(p, hr_error_set(p->err, HR_ERR_FORMAT, "image", 0,
                               "image: PNG of colour type %d has transparency where it "
                               "may not",
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

/* The picture that the passes have made. */
static void put_whole(struct png *p)
{
    enum hr_status status = hr__canvas_put_all(p->canvas, hr_buffer_data(p->whole),
                                               row_bytes(p), p->rows.height, p->err);

    if (status != HR_OK)
        escape(p, status);
}

/* Each pass fills in more pixels of all rows, so the whole picture is held. */
static void read_interlaced(struct png *p)
{
    size_t stride = row_bytes(p);
    bool cut = p->in.options->allow_truncated != 0;
    enum hr_status status;
    uint8_t *pixels;

    status = hr_buffer_new(stride * (size_t)p->rows.height, &p->whole, p->err);
    if (status != HR_OK)
        escape(p, status);
    pixels = hr_buffer_data(p->whole);
    memset(pixels + stride * (size_t)p->rows.height, 0, HR_ROW_SLACK);
    if (cut)
        memset(pixels, 0, stride * (size_t)p->rows.height);
    for (p->pass = 0; p->pass < p->passes; p->pass++)
        for (p->row = 0; p->row < p->rows.height; p->row++) {
            uint8_t *row = pixels + stride * (size_t)p->row;

            /* Pixels that later passes bring are filled in by their neighbours. */
            png_read_row(p->lib, cut ? NULL : row, cut ? row : NULL);
        }
    p->pass = p->passes - 1;
    put_whole(p);
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

/* After an error: what was decoded but not put yet. */
static enum hr_status put_remains(struct png *p)
{
    struct hr_error *err = p->err;
    uint8_t *rows[HR_PUSH_ROWS];

    p->err = NULL; /* it tells of the first error */
    if (p->passes > 1 && p->whole != NULL && p->canvas->rows_put == 0)
        put_whole(p);
    else if (p->passes == 1 && p->row > p->canvas->rows_put) {
        hr__canvas_rows(p->canvas, rows);
        put(p, (const uint8_t *const *)rows, (int)(p->row - p->canvas->rows_put));
    }
    p->err = err;
    return HR_ERR_FORMAT;
}

/* Frames behind the first are composed of RGBA. */
static enum hr_status png_turn(void *decoder, int64_t n, struct hr__picture *out,
                               struct hr_error *err)
{
    struct png *p = decoder;
    enum hr_status status = HR_OK;

    if (p->movie == NULL)
        status = hr__apng_new(&hr__codec_png, &p->movie, err);
    if (status == HR_OK && p->frame == 0)
        hr__apng_begin(p->movie, &p->in, out->width, out->height);
    p->frame = n;
    out->channels = 4;
    out->sample_bytes = 1;
    out->work_bytes = (uint64_t)out->width * (uint64_t)out->height * 12;
    return status;
}

static enum hr_status png_read(void *decoder, struct hr__canvas *canvas,
                               struct hr_error *err)
{
    struct png *p = decoder;
    enum hr_status status;

    if (p->frame > 0)
        return hr__apng_read(p->movie, p->frame, canvas, err);
    p->canvas = canvas;
    p->err = err;
    start(p);
    status = guarded(p, decode);
    if (status == HR_ERR_FORMAT && p->in.options->allow_truncated)
        status = guarded(p, put_remains);
    png_destroy_read_struct(&p->lib, &p->info, NULL);
    hr_buffer_unref(&p->whole);
    return status;
}

static void png_close(void *decoder)
{
    struct png *p = decoder;

    hr__free(p->profile);
    p->profile = NULL;
    if (p->movie != NULL)
        hr__apng_end(p->movie);
}

static void png_destroy(void *decoder)
{
    struct png *p = decoder;

    hr__apng_free(&p->movie);
    hr__arena_fini(&p->arena);
    hr__free(p);
}

static enum hr_status png_create_decoder(void **out, struct hr_error *err)
{
    *out = hr__calloc(1, sizeof(struct png));
    return *out != NULL ? HR_OK
                        : hr__nomem(err, "image", "a PNG decoder", sizeof(struct png));
}

const struct hr__codec hr__codec_png = {
    .name = "PNG",
    .create = png_create_decoder,
    .destroy = png_destroy,
    .open = png_open,
    .turn = png_turn,
    .read = png_read,
    .close = png_close,
};
