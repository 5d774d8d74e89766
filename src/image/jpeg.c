/* JPEG by libjpeg.
 *
 * libjpeg reports errors by a callback that must not return. Ours fills the caller's
 * error and jumps back to guarded(), the one function with a setjmp; it has no
 * variables, so there is none to lose. Everything that a picture needs lives in
 * struct jpeg. After a jump jpeg_abort_decompress makes the object ready again.
 *
 * What libjpeg calls a warning is mostly a picture with lost data: it goes on with
 * grey blocks. Those are errors here (see loses_data).
 *
 * The object is kept from picture to picture. Its pools for one picture are libjpeg's
 * own malloc; all else stays.
 *
 * Grey is given as grey, YCbCr and RGB as RGB. Four components are CMYK (or YCCK) with
 * inverted values, as Adobe writes them, marker or not; the red of c, k (not inverted)
 * is then (255 - k) - round(c * (255 - k) / 255), as in Pillow. Bytes after the end
 * marker are ignored. */
#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include <jpeglib.h>
#include <jerror.h>

#include "base/mem.h"
#include "image/canvas.h"
#include "image/codec.h"
#include "image/jpeg_fast.h"
#include "image/jpeg_header.h"
#include "base/banned.h"

/* The progress callback looks for a cancelled task once in so many calls. */
#define CALLS_PER_CHECK 16
/* What may lie between coded data and a marker. */
#define STRAY_BYTES 16

struct jpeg {
    struct jpeg_decompress_struct lib;
    struct jpeg_error_mgr manager;
    struct jpeg_progress_mgr progress;
    jmp_buf escape;
    struct hr__jpeg_fast fast; /* who is asked first */
    uint8_t *cmyk;             /* HR_PUSH_ROWS rows before their conversion */
    size_t cmyk_bytes;
    uint8_t *profile; /* that is spread over several segments, put together */
    /* one file */
    struct hr__input whole;
    struct hr__jpeg_header first;
    /* one picture of it */
    struct hr__input in;
    struct hr__jpeg_header header;
    struct hr__yuv yuv;
    bool grey; /* rows are */
    struct hr__canvas *canvas;
    struct hr_error *err;
    enum hr_status status; /* why the escape was taken */
    bool started;          /* rows can be had */
    bool crops;            /* what lies outside of a crop is left out */
    bool ended;            /* the data ended before the end marker */
    bool lost;             /* scans that were gathered lack data */
    int got;               /* rows decoded since the last put */
    unsigned calls;        /* of the progress callback */
};

static _Noreturn void escape(struct jpeg *j, enum hr_status status)
{
    j->status = status;
    longjmp(j->escape, 1);
}

/* Run body; the status of the escape, if it took that. */
static enum hr_status guarded(struct jpeg *j, enum hr_status (*body)(struct jpeg *))
{
    if (setjmp(j->escape) != 0)
        return j->status;
    return body(j);
}

/* How far decoding went, for messages: "after 60 of 480 rows". */
static void where(const struct jpeg *j, char *out, size_t size)
{
    const struct jpeg_decompress_struct *lib = &j->lib;

    if (j->started)
        snprintf(out, size, "after %u of %u rows",
                 lib->output_scanline < lib->image_height ? lib->output_scanline
                                                          : lib->image_height,
                 lib->image_height);
    else if (lib->input_scan_number > 0)
        snprintf(out, size, "in scan %d", lib->input_scan_number);
    else
        snprintf(out, size, "in its header");
}

static enum hr_status status_of(int code)
{
    switch (code) {
    case JERR_BAD_PRECISION:
    case JERR_SOF_UNSUPPORTED:
    case JERR_ARITH_NOTIMPL:
    case JERR_NOTIMPL:
    case JERR_NOT_COMPILED:
    case JERR_CONVERSION_NOTIMPL:
    case JERR_FRACT_SAMPLE_NOTIMPL:
    case JERR_CCIR601_NOTIMPL:
        return HR_ERR_UNSUPPORTED;
    case JERR_OUT_OF_MEMORY:
        return HR_ERR_NOMEM;
    case JERR_IMAGE_TOO_BIG:
    case JERR_WIDTH_OVERFLOW:
        return HR_ERR_LIMIT;
    default:
        return HR_ERR_FORMAT;
    }
}

static enum hr_status say_ended(const struct jpeg *j)
{
    char place[64];

    where(j, place, sizeof(place));
    return hr_error_set(j->err, HR_ERR_FORMAT, "image", JWRN_JPEG_EOF,
                        "image: JPEG ends %s", place);
}

static enum hr_status say_damaged(struct jpeg *j)
{
    char place[64];
    char text[JMSG_LENGTH_MAX];

    where(j, place, sizeof(place));
    j->manager.format_message((j_common_ptr)&j->lib, text);
    return hr_error_set(j->err, HR_ERR_FORMAT, "image", j->manager.msg_code,
                        "image: JPEG is damaged %s: %s", place, text);
}

/* Data are lost: the end of the picture. Not where several scans are gathered and what
 * there is of them will do. */
static void lose(struct jpeg *j)
{
    bool goes_on = !j->started && j->in.options->allow_truncated &&
                   jpeg_has_multiple_scans(&j->lib);

    if (j->lost)
        return;
    j->status = j->ended ? say_ended(j) : say_damaged(j);
    if (!goes_on)
        escape(j, j->status);
    j->lost = true;
}

static void on_error(j_common_ptr lib)
{
    struct jpeg *j = lib->client_data;
    int code = lib->err->msg_code;
    char place[64];
    char text[JMSG_LENGTH_MAX];

    if (j->ended)
        escape(j, say_ended(j));
    where(j, place, sizeof(place));
    lib->err->format_message(lib, text);
    escape(j, hr_error_set(j->err, status_of(code), "image", code,
                           "image: JPEG cannot be read %s: %s", place, text));
}

/* Warnings after which pixels are made up. Bytes before a marker show that coded data
 * were not read to their end: libjpeg-turbo takes codes that are none for zeros and says
 * nothing, and so the blocks behind are others. Before a restart marker one is too many;
 * before others, some cameras leave a few. */
static bool loses_data(const struct jpeg_error_mgr *m)
{
    switch (m->msg_code) {
    case JWRN_HIT_MARKER:
    case JWRN_HUFF_BAD_CODE:
    case JWRN_ARITH_BAD_CODE:
    case JWRN_MUST_RESYNC:
    case JWRN_BOGUS_PROGRESSION:
        return true;
    case JWRN_EXTRANEOUS_DATA:
        return m->msg_parm.i[0] > STRAY_BYTES ||
               (m->msg_parm.i[1] >= 0xd0 && m->msg_parm.i[1] <= 0xd7);
    default:
        return false;
    }
}

/* The end of the data comes up when libjpeg reads ahead, often before bits are missing:
 * then it says so (JWRN_HIT_MARKER), and only then is it known how many rows there are.
 * Its arithmetic decoder never says so. */
static void on_message(j_common_ptr lib, int level)
{
    struct jpeg *j = lib->client_data;

    if (level >= 0)
        return;
    if (lib->err->msg_code == JWRN_JPEG_EOF) {
        j->ended = true;
        if (j->lib.arith_code)
            lose(j);
    } else if (loses_data(lib->err)) {
        lose(j);
    }
}

static void on_output(j_common_ptr lib)
{
    (void)lib;
}

/* Called by libjpeg for each row and, while it gathers scans, each row of blocks. */
static void on_progress(j_common_ptr lib)
{
    struct jpeg *j = lib->client_data;
    int scans_max = j->in.options->scans_max;
    enum hr_status status;

    if (j->lib.input_scan_number > scans_max)
        escape(j, hr_error_set(j->err, HR_ERR_LIMIT, "image", 0,
                               "image: JPEG has more scans than the limit of %d",
                               scans_max));
    if (++j->calls % CALLS_PER_CHECK != 0)
        return;
    status = hr_ctx_check(j->in.ctx, j->err);
    if (status != HR_OK)
        escape(j, status);
}

static enum hr_status create(struct jpeg *j)
{
    jpeg_create_decompress(&j->lib);
    j->lib.progress = &j->progress;
    return HR_OK;
}

static void jpeg_destroy_decoder(void *decoder)
{
    struct jpeg *j = decoder;

    jpeg_destroy_decompress(&j->lib);
    hr__jpeg_fast_fini(&j->fast);
    hr__free(j->cmyk);
    hr__free(j->profile);
    hr__free(j);
}

static enum hr_status jpeg_create_decoder(void **out, struct hr_error *err)
{
    struct jpeg *j = hr__calloc(1, sizeof(*j));
    enum hr_status status;

    *out = NULL;
    if (j == NULL)
        return hr__nomem(err, "image", "a JPEG decoder", sizeof(*j));
    j->lib.err = jpeg_std_error(&j->manager);
    j->lib.client_data = j;
    j->manager.error_exit = on_error;
    j->manager.emit_message = on_message;
    j->manager.output_message = on_output;
    j->progress.progress_monitor = on_progress;
    j->err = err;
    status = guarded(j, create);
    if (status == HR_OK)
        *out = j;
    else
        jpeg_destroy_decoder(j);
    return status;
}

/* ---- the header ---- */

static uint64_t over(uint64_t a, uint64_t b)
{
    return (a + b - 1) / b;
}

/* What libjpeg gathers of a picture in several scans: its coefficients. */
static uint64_t coefficient_bytes(const struct hr__jpeg_header *h)
{
    uint64_t blocks = 0;
    uint64_t across = 1;
    uint64_t down = 1;

    for (int i = 0; i < h->components && i < 4; i++) {
        unsigned x = h->sampling[i] >> 4;
        unsigned y = h->sampling[i] & 15u;

        across = across > x ? across : x;
        down = down > y ? down : y;
    }
    for (int i = 0; i < h->components && i < 4; i++)
        blocks += over((uint64_t)h->width * (h->sampling[i] >> 4), across * 8) *
                  over((uint64_t)h->height * (h->sampling[i] & 15u), down * 8);
    return blocks * sizeof(JBLOCK);
}

/* How libjpeg would bring a plane with a factor of 1 / x, 1 / y to full size. */
static void choose_upsampling(struct hr__plane *p)
{
    bool fancy = (p->factor_x == 2 && p->factor_y <= 2 && p->width > 2) ||
                 (p->factor_x == 1 && p->factor_y == 2);

    p->upsampling_x = fancy ? HR_UPSAMPLE_CENTRED : HR_UPSAMPLE_REPEAT;
    p->upsampling_y = p->upsampling_x;
}

/* What libjpeg's raw data will be; no planes where that has surprises. */
static void describe_planes(const struct hr__jpeg_header *h, struct hr__yuv *out)
{
    int across = 1;
    int down = 1;

    if (h->bits != 8 || (h->components != 1 && !h->ycc))
        return;
    for (int i = 0; i < h->components; i++) {
        across = across > h->sampling[i] >> 4 ? across : h->sampling[i] >> 4;
        down = down > (h->sampling[i] & 15) ? down : h->sampling[i] & 15;
    }
    for (int i = 0; i < h->components; i++) {
        int x = h->sampling[i] >> 4;
        int y = h->sampling[i] & 15;
        struct hr__plane *p = &out->plane[i];

        if (x == 0 || y == 0 || across > 4 || down > 4 || across % x != 0 ||
            down % y != 0)
            return;
        p->factor_x = across / x;
        p->factor_y = down / y;
        p->width = (h->width + p->factor_x - 1) / p->factor_x;
        p->height = (h->height + p->factor_y - 1) / p->factor_y;
        p->group = y * DCTSIZE;
        /* whole MCUs, and what our own decoder writes behind them */
        p->row_bytes = (int64_t)over((uint64_t)h->width, (uint64_t)across * DCTSIZE) *
                           x * DCTSIZE +
                       DCTSIZE;
        choose_upsampling(p);
    }
    out->count = h->components;
    out->space = HR_COLOUR_BT601;
    out->range = HR_RANGE_FULL;
}

static enum hr_status read_profile(struct jpeg *j, struct hr__picture *out,
                                   struct hr_error *err)
{
    size_t size;

    out->icc = j->header.icc;
    out->icc_size = j->header.icc_size;
    if (j->header.icc_chunks <= 1 || j->in.options->icc == HR_ICC_IGNORE)
        return HR_OK;
    size = hr__jpeg_profile(j->in.data, j->in.size, NULL);
    j->profile = hr__malloc(size);
    if (j->profile == NULL)
        return hr__nomem(err, "image", "a colour profile", size);
    out->icc = j->profile;
    out->icc_size = hr__jpeg_profile(j->in.data, j->in.size, j->profile);
    return HR_OK;
}

/* Grey of YCbCr is its Y, unless colours are to be converted before. */
static int row_channels(const struct jpeg *j)
{
    const struct hr__jpeg_header *h = &j->header;
    const struct hr_image_options *o = j->in.options;
    bool converts = o->icc != HR_ICC_IGNORE && h->icc != NULL;

    return h->components == 1 || (h->ycc && hr__wants_grey(o) && !converts) ? 1 : 3;
}

/* Read the header of the picture that j->in holds. */
static enum hr_status describe(struct jpeg *j, struct hr__picture *out,
                               struct hr_error *err)
{
    struct hr__jpeg_header *h = &j->header;
    enum hr_status status = hr__jpeg_header(j->in.data, j->in.size, h, err);

    if (status != HR_OK)
        return status;
    out->width = h->width;
    out->height = h->height;
    out->channels = row_channels(j);
    j->grey = out->channels == 1;
    out->sample_bytes = 1;
    out->stored_channels = h->components;
    out->stored_bits = h->bits;
    out->orientation = h->orientation;
    out->raw_bytes = (uint64_t)h->width * (uint64_t)h->height * (uint64_t)h->components;
    out->work_bytes = h->several_scans ? coefficient_bytes(h) : 0;
    out->shrinks = true;
    describe_planes(h, &out->yuv);
    j->yuv = out->yuv;
    return read_profile(j, out, err);
}

static enum hr_status jpeg_open(void *decoder, const struct hr__input *in,
                                struct hr__picture *out, struct hr_error *err)
{
    struct jpeg *j = decoder;
    enum hr_status status;

    j->in = *in;
    status = describe(j, out, err);
    if (status == HR_OK) {
        j->whole = *in;
        j->first = j->header;
        out->frames = hr__jpeg_pictures(&j->header);
    }
    return status;
}

/* The pictures of a multi-picture file are JPEGs of their own. */
static enum hr_status jpeg_turn(void *decoder, int64_t n, struct hr__picture *out,
                                struct hr_error *err)
{
    struct jpeg *j = decoder;
    int64_t frames = out->frames;
    size_t at = 0;
    size_t length = 0;

    if (!hr__jpeg_picture(&j->first, j->whole.data, j->whole.size, n, &at, &length))
        return hr_error_set(err, HR_ERR_FORMAT, "image", 0,
                            "image: JPEG lacks picture %lld of %lld", (long long)n,
                            (long long)frames);
    j->in.data = j->whole.data + at;
    j->in.size = length;
    hr__free(j->profile);
    j->profile = NULL;
    *out = (struct hr__picture){.frames = frames};
    return describe(j, out, err);
}

static void jpeg_close(void *decoder)
{
    struct jpeg *j = decoder;

    hr__free(j->profile);
    j->profile = NULL;
}

/* ---- the pixels ---- */

static void choose_colour(struct jpeg *j)
{
    switch (j->lib.jpeg_color_space) {
    case JCS_GRAYSCALE:
    case JCS_RGB:
    case JCS_YCbCr:
        j->lib.out_color_space = j->grey ? JCS_GRAYSCALE : JCS_RGB;
        return;
    case JCS_CMYK:
    case JCS_YCCK:
        j->lib.out_color_space = JCS_CMYK;
        return;
    default:
        escape(j, hr_error_set(j->err, HR_ERR_UNSUPPORTED, "image", 0,
                               "image: JPEG with %d components of an unknown kind",
                               j->lib.num_components));
    }
}

static void reserve_cmyk(struct jpeg *j)
{
    size_t bytes = (size_t)j->lib.image_width * 4 * HR_PUSH_ROWS;

    if (j->lib.out_color_space != JCS_CMYK || bytes <= j->cmyk_bytes)
        return;
    hr__free(j->cmyk);
    j->cmyk_bytes = 0;
    j->cmyk = hr__malloc(bytes);
    if (j->cmyk == NULL)
        escape(j, hr__nomem(j->err, "image", "CMYK rows", bytes));
    j->cmyk_bytes = bytes;
}

/* The planes were described by the header alone; what comes must be that. */
static void check_planes(struct jpeg *j)
{
    const struct jpeg_decompress_struct *lib = &j->lib;
    J_COLOR_SPACE space = lib->num_components == 1 ? JCS_GRAYSCALE : JCS_YCbCr;
    bool same = lib->jpeg_color_space == space;

    for (int i = 0; i < lib->num_components && i < HR_PLANES; i++)
        same = same && lib->comp_info[i].h_samp_factor == j->header.sampling[i] >> 4 &&
               lib->comp_info[i].v_samp_factor == (j->header.sampling[i] & 15);
    if (!same)
        escape(j, hr_error_set(j->err, HR_ERR_FORMAT, "image", 0,
                               "image: JPEG has contradictory headers"));
}

static void begin(struct jpeg *j)
{
    struct jpeg_decompress_struct *lib = &j->lib;

    jpeg_mem_src(lib, j->in.data, (unsigned long)j->in.size);
    jpeg_read_header(lib, TRUE);
    if (lib->image_width != (JDIMENSION)j->header.width ||
        lib->image_height != (JDIMENSION)j->header.height ||
        lib->num_components != j->header.components)
        escape(j, hr_error_set(j->err, HR_ERR_FORMAT, "image", 0,
                               "image: JPEG has contradictory headers"));
    if (j->canvas->planar) {
        check_planes(j);
        lib->raw_data_out = TRUE;
        for (int i = hr__canvas_planes(j->canvas); i < lib->num_components; i++)
            lib->comp_info[i].component_needed = FALSE;
    } else {
        choose_colour(j);
        reserve_cmyk(j);
        lib->scale_num = 1;
        lib->scale_denom = (unsigned)j->canvas->shrink;
    }
    jpeg_start_decompress(lib);
    if (lib->output_width != (JDIMENSION)j->canvas->width ||
        lib->output_height != (JDIMENSION)j->canvas->height)
        escape(j, hr_error_set(j->err, HR_ERR_FORMAT, "image", 0,
                               "image: JPEG has contradictory headers"));
    if (j->ended && jpeg_has_multiple_scans(lib))
        lose(j);
    j->started = true;
}

/* The columns that libjpeg is to give: those that are needed and one MCU more at each
 * side, since at its edges libjpeg's smooth chroma is that of a picture that ends there.
 * Returns the first of them. */
static JDIMENSION narrow(struct jpeg *j, const struct hr__take *needs)
{
    struct jpeg_decompress_struct *lib = &j->lib;
    int64_t mcu = (int64_t)lib->max_h_samp_factor * DCTSIZE;
    int64_t left = needs->x / mcu * mcu - mcu;
    int64_t right = needs->x + needs->width + mcu;
    JDIMENSION x;
    JDIMENSION width;

    if (left <= 0 && right >= (int64_t)lib->output_width)
        return 0;
    left = left < 0 ? 0 : left;
    right = right < (int64_t)lib->output_width ? right : (int64_t)lib->output_width;
    x = (JDIMENSION)left;
    width = (JDIMENSION)(right - left);
    jpeg_crop_scanline(lib, &x, &width);
    return x;
}

/* Decode n rows, their first column being x: libjpeg gives one or two at a time. */
static void decode_rows(struct jpeg *j, uint8_t **rows, int n, size_t x)
{
    size_t width = j->lib.output_width;
    bool cmyk = j->lib.out_color_space == JCS_CMYK;
    size_t pixel = (size_t)(j->lib.out_color_space == JCS_GRAYSCALE ? 1 : 3);
    uint8_t *to[HR_PUSH_ROWS];

    for (int i = 0; i < n; i++)
        to[i] = cmyk ? j->cmyk + (size_t)i * width * 4 : rows[i] + x * pixel;
    while (j->got < n)
        j->got +=
            (int)jpeg_read_scanlines(&j->lib, to + j->got, (JDIMENSION)(n - j->got));
    for (int i = 0; cmyk && i < n; i++)
        hr__cmyk_row(to[i], rows[i] + x * pixel, width, true);
}

/* After an error: what was decoded but not put yet. No columns are left out then. */
static enum hr_status put_remains(struct jpeg *j)
{
    uint8_t *rows[HR_PUSH_ROWS];
    enum hr_status status;

    hr__canvas_rows(j->canvas, rows);
    if (j->lib.out_color_space == JCS_CMYK)
        for (int i = 0; i < j->got; i++)
            hr__cmyk_row(j->cmyk + (size_t)i * j->lib.output_width * 4, rows[i],
                         j->lib.output_width, true);
    status = hr__canvas_put(j->canvas, (const uint8_t *const *)rows, j->got, NULL);
    return status == HR_OK ? HR_ERR_FORMAT : status;
}

/* Rows above what is needed: whole rows of MCUs are skipped, but for the last, whose
 * samples the smooth chroma of the next row needs. */
static void skip_rows(struct jpeg *j, const struct hr__take *needs)
{
    int64_t mcu = (int64_t)j->lib.max_v_samp_factor * DCTSIZE;
    int64_t n = (needs->y / mcu - 1) * mcu;

    if (n <= 0)
        return;
    jpeg_skip_scanlines(&j->lib, (JDIMENSION)n);
    hr__canvas_skip(j->canvas, n);
}

static enum hr_status decode_pixels(struct jpeg *j)
{
    struct hr__take needs = hr__canvas_needs(j->canvas);
    uint8_t *rows[HR_PUSH_ROWS];
    int64_t end = needs.y + needs.height;
    size_t x = 0;
    int n;

    if (j->crops) {
        x = narrow(j, &needs);
        skip_rows(j, &needs);
    }
    while ((n = hr__canvas_rows(j->canvas, rows)) > 0) {
        enum hr_status status;

        j->got = 0;
        decode_rows(j, rows, n, x);
        j->got = 0;
        status = hr__canvas_put(j->canvas, (const uint8_t *const *)rows, n, j->err);
        if (status != HR_OK)
            return status;
        if (j->crops && j->canvas->rows_put >= end)
            return HR_OK;
    }
    return HR_OK;
}

/* Planes come in groups: the rows of one row of MCUs. Of those that are not needed the
 * entropy coding alone is decoded. */
static enum hr_status decode_planes(struct jpeg *j)
{
    struct jpeg_decompress_struct *lib = &j->lib;
    int count = hr__canvas_planes(j->canvas);
    uint8_t *rows[HR_PLANES][HR_PLANE_GROUP];
    JSAMPARRAY planes[HR_PLANES] = {rows[0], rows[1], rows[2]};
    enum hr_status status = HR_OK;
    int64_t first;
    int64_t end;

    hr__canvas_groups(j->canvas, &first, &end);
    for (int64_t g = 0; status == HR_OK && lib->output_scanline < lib->output_height;
         g++) {
        if (j->crops && g == end)
            return HR_OK;
        for (int i = 0; i < count; i++) {
            lib->comp_info[i].component_needed = g >= first;
            hr__canvas_plane_rows(j->canvas, i, rows[i]);
        }
        jpeg_read_raw_data(lib, planes, (JDIMENSION)lib->max_v_samp_factor * DCTSIZE);
        status = hr__canvas_put_planes(j->canvas, j->err);
    }
    return status;
}

static enum hr_status decode(struct jpeg *j)
{
    enum hr_status status;

    begin(j);
    status = j->canvas->planar ? decode_planes(j) : decode_pixels(j);
    if (status != HR_OK)
        return status;
    if (j->lib.output_scanline < j->lib.output_height) { /* the rest is not needed */
        jpeg_abort_decompress(&j->lib);
        return HR_OK;
    }
    jpeg_finish_decompress(&j->lib);
    if (j->ended && !j->lost)
        return say_ended(j);
    return j->lost ? HR_ERR_FORMAT : HR_OK;
}

static enum hr_status jpeg_read(void *decoder, struct hr__canvas *canvas,
                                struct hr_error *err)
{
    struct jpeg *j = decoder;
    enum hr_status status;

    /* What there is of a damaged picture comes by whole rows. */
    j->crops = !canvas->options->allow_truncated &&
               (canvas->options->crop != HR_CROP_NONE || canvas->pick.box != NULL);
    if (canvas->planar) {
        bool taken;

        status = hr__jpeg_fast_read(&j->fast, &j->in, &j->yuv, j->crops, canvas, &taken,
                                    err);
        if (taken)
            return status;
    }
    hr__jpeg_fast_passed();
    j->canvas = canvas;
    j->err = err;
    j->started = false;
    j->ended = false;
    j->lost = false;
    j->got = 0;
    j->lib.input_scan_number = 0; /* of the last picture, until the header is read */
    status = guarded(j, decode);
    if (status == HR_ERR_FORMAT && j->got > 0 && j->in.options->allow_truncated)
        status = put_remains(j);
    if (status != HR_OK)
        jpeg_abort_decompress(&j->lib);
    return status;
}

const struct hr__codec hr__codec_jpeg = {
    .name = "JPEG",
    .create = jpeg_create_decoder,
    .destroy = jpeg_destroy_decoder,
    .open = jpeg_open,
    .turn = jpeg_turn,
    .read = jpeg_read,
    .close = jpeg_close,
};
