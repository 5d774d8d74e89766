/* PNG by libpng's row interface.
 *
 * Grey below 8 bits is stretched to 0 … 255, a palette is looked up, of 16 bits the
 * upper 8 are taken where 8 are wanted; gamma is ignored. Frame 0 of an animation is the
 * default picture; the others are composed by apng.c. */
#include <string.h>

#include "base/mem.h"
#include "image/apng.h"
#include "image/canvas.h"
#include "image/codec.h"
#include "image/png_header.h"
#include "image/png_object.h"
#include "base/banned.h"

struct png {
    struct hr__png_object object;
    struct hr__input in;
    struct hr__png_header header;
    struct hr__picture rows; /* what is given */
    uint8_t *profile;        /* unpacked */
    size_t profile_bytes;
    struct hr__apng *movie; /* made by the first animation */
    int64_t frame;          /* turned to */
    /* reading */
    struct hr__canvas *canvas;
    struct hr_buffer *whole; /* an interlaced picture, while its passes are read */
};

/* ---- the header ---- */

/* What the rows are to be: nothing that the output does not show. */
static void choose_rows(struct png *p, struct hr__picture *out)
{
    out->channels = p->header.colour ? 3 : 1;
    if (p->header.alpha && hr__wants_alpha(p->in.options))
        out->channels++;
    out->sample_bytes = out->stored_bits == 16 && hr__wants_16(p->in.options) ? 2 : 1;
}

static enum hr_status copy_profile(void *cookie)
{
    struct png *p = cookie;
    png_charp name;
    png_bytep profile;
    png_uint_32 size;
    int method;

    hr__png_object_open(&p->object, p->header.cut);
    png_set_keep_unknown_chunks(p->object.lib, PNG_HANDLE_CHUNK_AS_DEFAULT,
                                (png_const_bytep) "iCCP", 1);
    png_read_info(p->object.lib, p->object.info);
    p->profile_bytes = 0;
    if (png_get_iCCP(p->object.lib, p->object.info, &name, &method, &profile, &size) ==
        0)
        return HR_OK; /* one that libpng does not accept */
    p->profile = hr__malloc(size);
    if (p->profile == NULL)
        return hr__nomem(p->object.err, "image", "a colour profile", size);
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
    hr__png_object_begin(&p->object, &p->in, err);
    status = hr__png_object_run(&p->object, copy_profile, p);
    hr__png_object_end(&p->object);
    out->icc = p->profile;
    out->icc_size = p->profile_bytes;
    return status;
}

static enum hr_status png_open(void *decoder, const struct hr__input *in,
                               struct hr__picture *out, struct hr_error *err)
{
    struct png *p = decoder;
    enum hr_status status = hr__png_header(in->data, in->size, &p->header, out, err);

    p->in = *in;
    if (status != HR_OK)
        return status;
    out->frames = hr__apng_frames(in->data, in->size);
    p->frame = 0;
    choose_rows(p, out);
    p->rows = *out;
    if (p->header.interlaced)
        out->work_bytes = (uint64_t)out->width * (uint64_t)out->height *
                          (unsigned)(out->channels * out->sample_bytes);
    return read_profile(p, out, err);
}

/* ---- the pixels ---- */

/* Ask for rows as choose_rows has said, whatever is stored. */
static void ask_rows(struct png *p)
{
    png_structp lib = p->object.lib;
    png_infop info = p->object.info;
    int type = png_get_color_type(lib, info);
    int depth = png_get_bit_depth(lib, info);

    if (depth == 16 && p->rows.sample_bytes == 1)
        png_set_strip_16(lib);
    if (type == PNG_COLOR_TYPE_PALETTE)
        png_set_palette_to_rgb(lib);
    else if (type == PNG_COLOR_TYPE_GRAY && depth < 8)
        png_set_expand_gray_1_2_4_to_8(lib);
    if (p->rows.channels % 2 != 0)
        png_set_strip_alpha(lib);
    else if (p->header.transparent)
        png_set_tRNS_to_alpha(lib);
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    if (p->rows.sample_bytes == 2)
        png_set_swap(lib);
#endif
}

static size_t row_bytes(const struct png *p)
{
    return (size_t)p->rows.width * (size_t)(p->rows.channels * p->rows.sample_bytes);
}

static void begin(struct png *p)
{
    png_structp lib;
    png_infop info;
    int passes;

    hr__png_object_open(&p->object, p->header.cut);
    lib = p->object.lib;
    info = p->object.info;
    png_read_info(lib, info);
    if (png_get_image_width(lib, info) != (png_uint_32)p->rows.width ||
        png_get_image_height(lib, info) != (png_uint_32)p->rows.height)
        hr__png_escape(&p->object,
                       hr_error_set(p->object.err, HR_ERR_FORMAT, "image", 0,
                                    "image: PNG has contradictory headers"));
    ask_rows(p);
    passes = png_set_interlace_handling(lib);
    png_read_update_info(lib, info);
    if (png_get_rowbytes(lib, info) != row_bytes(p))
        hr__png_escape(
            &p->object,
            hr_error_set(p->object.err, HR_ERR_FORMAT, "image", 0,
                         "image: PNG of colour type %d has transparency where it "
                         "may not",
                         png_get_color_type(lib, info)));
    p->object.passes = passes;
}

static void put(struct png *p, const uint8_t *const *rows, int n)
{
    enum hr_status status = hr__canvas_put(p->canvas, rows, n, p->object.err);

    if (status != HR_OK)
        hr__png_escape(&p->object, status);
}

static void read_straight(struct png *p)
{
    uint8_t *rows[HR_PUSH_ROWS];
    int n;

    while ((n = hr__canvas_rows(p->canvas, rows)) > 0) {
        for (int i = 0; i < n; i++) {
            png_read_row(p->object.lib, rows[i], NULL);
            p->object.row++;
        }
        put(p, (const uint8_t *const *)rows, n);
    }
}

/* The picture that the passes have made. */
static void put_whole(struct png *p)
{
    enum hr_status status =
        hr__canvas_put_all(p->canvas, hr_buffer_data(p->whole), row_bytes(p),
                           p->rows.height, p->object.err);

    if (status != HR_OK)
        hr__png_escape(&p->object, status);
}

/* Each pass fills in more pixels of all rows, so the whole picture is held. */
static void read_interlaced(struct png *p)
{
    size_t stride = row_bytes(p);
    bool cut = p->in.options->allow_truncated != 0;
    enum hr_status status;
    uint8_t *pixels;

    status = hr_buffer_new(stride * (size_t)p->rows.height, &p->whole, p->object.err);
    if (status != HR_OK)
        hr__png_escape(&p->object, status);
    pixels = hr_buffer_data(p->whole);
    memset(pixels + stride * (size_t)p->rows.height, 0, HR_ROW_SLACK);
    if (cut)
        memset(pixels, 0, stride * (size_t)p->rows.height);
    for (p->object.pass = 0; p->object.pass < p->object.passes; p->object.pass++)
        for (p->object.row = 0; p->object.row < p->rows.height; p->object.row++) {
            uint8_t *row = pixels + stride * (size_t)p->object.row;

            /* Pixels that later passes bring are filled in by their neighbours. */
            png_read_row(p->object.lib, cut ? NULL : row, cut ? row : NULL);
        }
    p->object.pass = p->object.passes - 1;
    put_whole(p);
}

static enum hr_status decode(void *cookie)
{
    struct png *p = cookie;

    begin(p);
    if (p->object.passes == 1)
        read_straight(p);
    else
        read_interlaced(p);
    png_read_end(p->object.lib, NULL);
    return HR_OK;
}

/* After an error: what was decoded but not put yet. */
static enum hr_status put_remains(void *cookie)
{
    struct png *p = cookie;
    struct hr_error *err = p->object.err;
    uint8_t *rows[HR_PUSH_ROWS];

    p->object.err = NULL; /* it tells of the first error */
    if (p->object.passes > 1 && p->whole != NULL && p->canvas->rows_put == 0)
        put_whole(p);
    else if (p->object.passes == 1 && p->object.row > p->canvas->rows_put) {
        hr__canvas_rows(p->canvas, rows);
        put(p, (const uint8_t *const *)rows,
            (int)(p->object.row - p->canvas->rows_put));
    }
    p->object.err = err;
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
    hr__png_object_begin(&p->object, &p->in, err);
    p->object.height = p->rows.height;
    status = hr__png_object_run(&p->object, decode, p);
    if (status == HR_ERR_FORMAT && p->in.options->allow_truncated)
        status = hr__png_object_run(&p->object, put_remains, p);
    hr__png_object_end(&p->object);
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
    hr__png_object_fini(&p->object);
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
