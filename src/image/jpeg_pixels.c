/* A JPEG's pixels, by libjpeg: rows, or planes as raw data.
 *
 * Grey is given as grey, YCbCr and RGB as RGB. Four components are CMYK (or YCCK) with
 * inverted values, as Adobe writes them, marker or not; the red of c, k (not inverted)
 * is then (255 - k) - round(c * (255 - k) / 255), as in Pillow; or they are left to the
 * picture's profile as they are. */
#include "image/jpeg_pixels.h"

#include "base/mem.h"
#include "base/banned.h"

static void choose_colour(struct hr__jpeg_pixels *p)
{
    struct jpeg_decompress_struct *lib = &p->object.lib;

    switch (lib->jpeg_color_space) {
    case JCS_GRAYSCALE:
    case JCS_RGB:
    case JCS_YCbCr:
        lib->out_color_space = p->grey ? JCS_GRAYSCALE : JCS_RGB;
        return;
    case JCS_CMYK:
    case JCS_YCCK:
        lib->out_color_space = JCS_CMYK;
        return;
    default:
        hr__jpeg_escape(
            &p->object,
            hr_error_set(p->object.err, HR_ERR_UNSUPPORTED, "image", 0,
                         "image: JPEG with %d components of an unknown kind",
                         lib->num_components));
    }
}

/* Out of CMYK, that is. */
static bool makes_rgb(const struct hr__jpeg_pixels *p)
{
    return p->object.lib.out_color_space == JCS_CMYK && !p->canvas->ink;
}

static void reserve_cmyk(struct hr__jpeg_pixels *p)
{
    const struct jpeg_decompress_struct *lib = &p->object.lib;
    size_t bytes = (size_t)lib->image_width * 4 * HR_PUSH_ROWS;

    if (!makes_rgb(p) || bytes <= p->cmyk_bytes)
        return;
    hr__free(p->cmyk);
    p->cmyk_bytes = 0;
    p->cmyk = hr__malloc(bytes);
    if (p->cmyk == NULL)
        hr__jpeg_escape(&p->object,
                        hr__nomem(p->object.err, "image", "CMYK rows", bytes));
    p->cmyk_bytes = bytes;
}

/* The planes were described by the header alone; what comes must be that. */
static void check_planes(struct hr__jpeg_pixels *p)
{
    const struct jpeg_decompress_struct *lib = &p->object.lib;
    J_COLOR_SPACE space = lib->num_components == 1 ? JCS_GRAYSCALE : JCS_YCbCr;
    bool same = lib->jpeg_color_space == space;

    for (int i = 0; i < lib->num_components && i < HR_PLANES; i++)
        same = same && lib->comp_info[i].h_samp_factor == p->header->sampling[i] >> 4 &&
               lib->comp_info[i].v_samp_factor == (p->header->sampling[i] & 15);
    if (!same)
        hr__jpeg_contradict(&p->object);
}

static void begin(struct hr__jpeg_pixels *p)
{
    struct jpeg_decompress_struct *lib = &p->object.lib;

    jpeg_mem_src(lib, p->object.in->data, (unsigned long)p->object.in->size);
    jpeg_read_header(lib, TRUE);
    if (lib->image_width != (JDIMENSION)p->header->width ||
        lib->image_height != (JDIMENSION)p->header->height ||
        lib->num_components != p->header->components)
        hr__jpeg_contradict(&p->object);
    if (p->canvas->planar) {
        check_planes(p);
        lib->raw_data_out = TRUE;
        for (int i = hr__canvas_planes(p->canvas); i < lib->num_components; i++)
            lib->comp_info[i].component_needed = FALSE;
    } else {
        choose_colour(p);
        reserve_cmyk(p);
        lib->scale_num = 1;
        lib->scale_denom = (unsigned)p->canvas->shrink;
    }
    jpeg_start_decompress(lib);
    if (lib->output_width != (JDIMENSION)p->canvas->width ||
        lib->output_height != (JDIMENSION)p->canvas->height)
        hr__jpeg_contradict(&p->object);
    if (p->object.ended && jpeg_has_multiple_scans(lib))
        hr__jpeg_lose(&p->object);
    p->object.started = true;
}

/* The columns that libjpeg is to give: those that are needed and one MCU more at each
 * side, since at its edges libjpeg's smooth chroma is that of a picture that ends there.
 * Returns the first of them. */
static JDIMENSION narrow(struct hr__jpeg_pixels *p, const struct hr__take *needs)
{
    struct jpeg_decompress_struct *lib = &p->object.lib;
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
static void decode_rows(struct hr__jpeg_pixels *p, uint8_t **rows, int n, size_t x)
{
    struct jpeg_decompress_struct *lib = &p->object.lib;
    size_t width = lib->output_width;
    bool cmyk = makes_rgb(p);
    size_t pixel = (size_t)(cmyk ? 3 : lib->out_color_components);
    uint8_t *to[HR_PUSH_ROWS];

    for (int i = 0; i < n; i++)
        to[i] = cmyk ? p->cmyk + (size_t)i * width * 4 : rows[i] + x * pixel;
    while (p->got < n)
        p->got += (int)jpeg_read_scanlines(lib, to + p->got, (JDIMENSION)(n - p->got));
    for (int i = 0; cmyk && i < n; i++)
        hr__cmyk_row(to[i], rows[i] + x * pixel, width, true);
}

/* After an error: what was decoded but not put yet. No columns are left out then. */
static enum hr_status put_remains(struct hr__jpeg_pixels *p)
{
    const struct jpeg_decompress_struct *lib = &p->object.lib;
    uint8_t *rows[HR_PUSH_ROWS];
    enum hr_status status;

    hr__canvas_rows(p->canvas, rows);
    if (makes_rgb(p))
        for (int i = 0; i < p->got; i++)
            hr__cmyk_row(p->cmyk + (size_t)i * lib->output_width * 4, rows[i],
                         lib->output_width, true);
    status = hr__canvas_put(p->canvas, (const uint8_t *const *)rows, p->got, NULL);
    return status == HR_OK ? HR_ERR_FORMAT : status;
}

/* Rows above what is needed: whole rows of MCUs are skipped, but for the last, whose
 * samples the smooth chroma of the next row needs. */
static void skip_rows(struct hr__jpeg_pixels *p, const struct hr__take *needs)
{
    int64_t mcu = (int64_t)p->object.lib.max_v_samp_factor * DCTSIZE;
    int64_t n = (needs->y / mcu - 1) * mcu;

    if (n <= 0)
        return;
    jpeg_skip_scanlines(&p->object.lib, (JDIMENSION)n);
    hr__canvas_skip(p->canvas, n);
}

static enum hr_status decode_pixels(struct hr__jpeg_pixels *p)
{
    struct hr__take needs = hr__canvas_needs(p->canvas);
    uint8_t *rows[HR_PUSH_ROWS];
    int64_t end = needs.y + needs.height;
    size_t x = 0;
    int n;

    if (p->crops) {
        x = narrow(p, &needs);
        skip_rows(p, &needs);
    }
    while ((n = hr__canvas_rows(p->canvas, rows)) > 0) {
        enum hr_status status;

        p->got = 0;
        decode_rows(p, rows, n, x);
        p->got = 0;
        status =
            hr__canvas_put(p->canvas, (const uint8_t *const *)rows, n, p->object.err);
        if (status != HR_OK)
            return status;
        if (p->crops && p->canvas->rows_put >= end)
            return HR_OK;
    }
    return HR_OK;
}

/* Planes come in groups: the rows of one row of MCUs. Of those that are not needed the
 * entropy coding alone is decoded. */
static enum hr_status decode_planes(struct hr__jpeg_pixels *p)
{
    struct jpeg_decompress_struct *lib = &p->object.lib;
    int count = hr__canvas_planes(p->canvas);
    uint8_t *rows[HR_PLANES][HR_PLANE_GROUP];
    JSAMPARRAY planes[HR_PLANES] = {rows[0], rows[1], rows[2]};
    enum hr_status status = HR_OK;
    int64_t first;
    int64_t end;

    hr__canvas_groups(p->canvas, &first, &end);
    for (int64_t g = 0; status == HR_OK && lib->output_scanline < lib->output_height;
         g++) {
        if (p->crops && g == end)
            return HR_OK;
        for (int i = 0; i < count; i++) {
            lib->comp_info[i].component_needed = g >= first;
            hr__canvas_plane_rows(p->canvas, i, rows[i]);
        }
        jpeg_read_raw_data(lib, planes, (JDIMENSION)lib->max_v_samp_factor * DCTSIZE);
        status = hr__canvas_put_planes(p->canvas, p->object.err);
    }
    return status;
}

static enum hr_status decode(void *cookie)
{
    struct hr__jpeg_pixels *p = cookie;
    struct jpeg_decompress_struct *lib = &p->object.lib;
    enum hr_status status;

    begin(p);
    status = p->canvas->planar ? decode_planes(p) : decode_pixels(p);
    if (status != HR_OK)
        return status;
    if (lib->output_scanline < lib->output_height) {
        /* the rest is not needed */
        jpeg_abort_decompress(lib);
        return HR_OK;
    }
    jpeg_finish_decompress(lib);
    return hr__jpeg_verdict(&p->object);
}

enum hr_status hr__jpeg_pixels_init(struct hr__jpeg_pixels *p, struct hr_error *err)
{
    *p = (struct hr__jpeg_pixels){0};
    return hr__jpeg_object_init(&p->object, err);
}

void hr__jpeg_pixels_fini(struct hr__jpeg_pixels *p)
{
    hr__jpeg_object_fini(&p->object);
    hr__free(p->cmyk);
}

enum hr_status hr__jpeg_pixels_read(struct hr__jpeg_pixels *p,
                                    const struct hr__input *in,
                                    const struct hr__jpeg_header *header, bool grey,
                                    bool crops, struct hr__canvas *canvas,
                                    struct hr_error *err)
{
    enum hr_status status;

    p->header = header;
    p->grey = grey;
    p->crops = crops;
    p->canvas = canvas;
    p->got = 0;
    hr__jpeg_object_begin(&p->object, in, err);
    status = hr__jpeg_object_run(&p->object, decode, p);
    if (status == HR_ERR_FORMAT && p->got > 0 && in->options->allow_truncated)
        status = put_remains(p);
    return status;
}
