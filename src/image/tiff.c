/* TIFF by libtiff, from memory.
 *
 * Pixels are decoded in bands, a strip or a row of tiles at a time, and unpacked here:
 * libtiff's own way to RGB knows 8 bits only, and loads whole pictures.
 *
 *     grey     1, 2, 4, 8, 16 bits; below 8 stretched to 0 … 255; white may be 0
 *     palette  1, 2, 4, 8 bits; the colours' upper 8 bits
 *     RGB      8, 16 bits
 *     CMYK     8 bits, 0 is no ink
 *     YCbCr    as JPEG compresses it: made RGB by libjpeg
 *     alpha    the first extra sample that says so; if it was multiplied into the
 *              colours, that is undone: 255 * c / a cut off
 *
 * Samples lie together or in planes of their own. Floating-point and signed samples,
 * and old-style JPEG, are refused. */
#include <stdio.h>
#include <string.h>

#include <tiffio.h>

#include "base/mem.h"
#include "image/canvas.h"
#include "image/codec.h"
#include "base/banned.h"

#define SAMPLES_MAX 8

struct tiff {
    struct hr__input in;
    struct hr__picture rows;
    TIFF *lib;
    uint64_t at;
    char text[120]; /* libtiff's last complaint */
    /* the directory */
    uint16_t photometric;
    uint16_t samples;
    uint16_t bits;
    uint16_t alpha; /* index of its sample, 0: none */
    bool premultiplied;
    bool planes; /* samples lie apart */
    bool tiled;
    uint32_t band_rows; /* of a strip or a tile */
    uint32_t tile_width;
    size_t band_stride; /* bytes of a row in a band, of one plane if they lie apart */
    uint16_t *red;      /* the palette, borrowed from libtiff */
    uint16_t *green;
    uint16_t *blue;
    /* reading */
    struct hr_buffer *band; /* planes one after the other */
    struct hr_buffer *tile;
    int64_t done; /* rows */
};

/* ---- the file in memory ---- */

static tmsize_t on_read(thandle_t handle, void *to, tmsize_t n)
{
    struct tiff *t = handle;
    uint64_t left = t->at < t->in.size ? t->in.size - t->at : 0;
    size_t some = (uint64_t)n < left ? (size_t)n : (size_t)left;

    if (some > 0)
        memcpy(to, t->in.data + t->at, some);
    t->at += some;
    return (tmsize_t)some;
}

static tmsize_t on_write(thandle_t handle, void *from, tmsize_t n)
{
    (void)handle;
    (void)from;
    (void)n;
    return 0;
}

static toff_t on_seek(thandle_t handle, toff_t offset, int whence)
{
    struct tiff *t = handle;

    t->at = whence == SEEK_CUR   ? t->at + offset
            : whence == SEEK_END ? t->in.size + offset
                                 : offset;
    return t->at;
}

static int on_close(thandle_t handle)
{
    (void)handle;
    return 0;
}

static toff_t on_size(thandle_t handle)
{
    return ((struct tiff *)handle)->in.size;
}

static int on_error(TIFF *lib, void *cookie, const char *module, const char *format,
                    va_list args)
{
    struct tiff *t = cookie;

    (void)lib;
    (void)module;
    (void)vsnprintf(t->text, sizeof(t->text), format, args);
    return 1;
}

static int on_warning(TIFF *lib, void *cookie, const char *module, const char *format,
                      va_list args)
{
    (void)lib;
    (void)cookie;
    (void)module;
    (void)format;
    (void)args;
    return 1;
}

static TIFF *open_lib(struct tiff *t)
{
    TIFFOpenOptions *options = TIFFOpenOptionsAlloc();
    uint64_t most = t->in.options->bytes_max;
    TIFF *lib;

    if (options == NULL)
        return NULL;
    TIFFOpenOptionsSetMaxSingleMemAlloc(options,
                                        most > INT32_MAX ? INT32_MAX : (tmsize_t)most);
    TIFFOpenOptionsSetErrorHandlerExtR(options, on_error, t);
    TIFFOpenOptionsSetWarningHandlerExtR(options, on_warning, t);
    /* m: no memory map; h: the header alone, directories when they are asked for */
    lib = TIFFClientOpenExt("memory", "rm", t, on_read, on_write, on_seek, on_close,
                            on_size, NULL, NULL, options);
    TIFFOpenOptionsFree(options);
    return lib;
}

/* ---- the directory ---- */

static enum hr_status broken(const struct tiff *t, struct hr_error *err)
{
    return hr_error_set(err, HR_ERR_FORMAT, "image", 0,
                        "image: TIFF cannot be read in its header: %s", t->text);
}

static enum hr_status unsupported(const char *what, unsigned value,
                                  struct hr_error *err)
{
    return hr_error_set(err, HR_ERR_UNSUPPORTED, "image", 0,
                        "image: TIFF with %s %u is not supported", what, value);
}

static void find_alpha(struct tiff *t)
{
    uint16_t n = 0;
    uint16_t *kinds = NULL;

    t->alpha = 0;
    if (!TIFFGetField(t->lib, TIFFTAG_EXTRASAMPLES, &n, &kinds))
        return;
    for (uint16_t i = 0; i < n && n < t->samples && t->alpha == 0; i++)
        if (kinds[i] == EXTRASAMPLE_ASSOCALPHA || kinds[i] == EXTRASAMPLE_UNASSALPHA) {
            t->alpha = (uint16_t)(t->samples - n + i);
            t->premultiplied = kinds[i] == EXTRASAMPLE_ASSOCALPHA;
        }
}

/* How many samples make the colour; 0 for a kind that is not handled. */
static int colour_samples(const struct tiff *t)
{
    switch (t->photometric) {
    case PHOTOMETRIC_MINISBLACK:
    case PHOTOMETRIC_MINISWHITE:
    case PHOTOMETRIC_PALETTE:
        return 1;
    case PHOTOMETRIC_RGB:
        return 3;
    case PHOTOMETRIC_SEPARATED:
        return 4;
    default:
        return 0;
    }
}

static enum hr_status check_kind(const struct tiff *t, uint16_t format,
                                 struct hr_error *err)
{
    int colour = colour_samples(t);
    bool small = t->bits == 1 || t->bits == 2 || t->bits == 4;
    bool palette = t->photometric == PHOTOMETRIC_PALETTE;

    if (colour == 0)
        return unsupported("colour space", t->photometric, err);
    if (format != SAMPLEFORMAT_UINT && format != SAMPLEFORMAT_VOID)
        return unsupported("sample format", format, err);
    if (!(t->bits == 8 || (t->bits == 16 && colour != 4 && !palette) ||
          (small && colour == 1)))
        return unsupported("a sample depth of", t->bits, err);
    if (t->samples < colour || t->samples > SAMPLES_MAX)
        return unsupported("a number of samples of", t->samples, err);
    if (palette && t->red == NULL)
        return hr_error_set(err, HR_ERR_FORMAT, "image", 0,
                            "image: TIFF without its palette");
    return HR_OK;
}

/* What libtiff is to make of JPEG data, and whether it can decode at all. */
static enum hr_status choose_codec(struct tiff *t, struct hr_error *err)
{
    uint16_t compression = COMPRESSION_NONE;

    (void)TIFFGetFieldDefaulted(t->lib, TIFFTAG_COMPRESSION, &compression);
    if (compression == COMPRESSION_OJPEG || !TIFFIsCODECConfigured(compression))
        return unsupported("compression", compression, err);
    if (compression == COMPRESSION_JPEG && t->photometric == PHOTOMETRIC_YCBCR) {
        (void)TIFFSetField(t->lib, TIFFTAG_JPEGCOLORMODE, JPEGCOLORMODE_RGB);
        t->photometric = PHOTOMETRIC_RGB;
    }
    return HR_OK;
}

static void read_layout(struct tiff *t)
{
    uint16_t config = PLANARCONFIG_CONTIG;

    (void)TIFFGetFieldDefaulted(t->lib, TIFFTAG_PLANARCONFIG, &config);
    t->planes = config == PLANARCONFIG_SEPARATE && t->samples > 1;
    t->tiled = TIFFIsTiled(t->lib) != 0;
    t->tile_width = 0;
    if (t->tiled) {
        (void)TIFFGetField(t->lib, TIFFTAG_TILEWIDTH, &t->tile_width);
        (void)TIFFGetField(t->lib, TIFFTAG_TILELENGTH, &t->band_rows);
    } else {
        (void)TIFFGetFieldDefaulted(t->lib, TIFFTAG_ROWSPERSTRIP, &t->band_rows);
        if (t->band_rows > t->rows.height)
            t->band_rows = (uint32_t)t->rows.height;
    }
}

static size_t row_bytes(const struct tiff *t, uint64_t width)
{
    uint64_t samples = t->planes ? 1 : t->samples;

    return (size_t)((width * samples * t->bits + 7) / 8);
}

/* Sizes of bands, and all that decoding will hold. */
static enum hr_status measure(struct tiff *t, struct hr_error *err)
{
    struct hr__picture *p = &t->rows;
    uint64_t width = (uint64_t)p->width;
    uint64_t planes = t->planes ? t->samples : 1;
    uint64_t tile;

    if (t->band_rows == 0 || (t->tiled && t->tile_width == 0))
        return hr_error_set(err, HR_ERR_FORMAT, "image", 0,
                            "image: TIFF has strips or tiles without a size");
    if (t->tiled)
        width = (width + t->tile_width - 1) / t->tile_width * t->tile_width;
    t->band_stride = row_bytes(t, width);
    tile = t->tiled ? TIFFTileSize64(t->lib) : 0;
    p->raw_bytes = row_bytes(t, (uint64_t)p->width) * planes * (uint64_t)p->height;
    if (__builtin_mul_overflow((uint64_t)t->band_stride * planes,
                               (uint64_t)t->band_rows, &p->work_bytes) ||
        __builtin_add_overflow(p->work_bytes, tile, &p->work_bytes))
        p->work_bytes = UINT64_MAX;
    return HR_OK;
}

static void describe(struct tiff *t)
{
    struct hr__picture *p = &t->rows;
    uint16_t orientation = 1;
    uint32_t icc_size = 0;
    void *icc = NULL;
    bool grey = t->photometric == PHOTOMETRIC_MINISBLACK ||
                t->photometric == PHOTOMETRIC_MINISWHITE;

    (void)TIFFGetFieldDefaulted(t->lib, TIFFTAG_ORIENTATION, &orientation);
    p->orientation = orientation;
    p->stored_channels = t->samples;
    p->stored_bits = t->bits;
    p->channels = grey ? 1 : 3;
    if (t->alpha != 0 && hr__wants_alpha(t->in.options))
        p->channels++;
    p->sample_bytes = t->bits == 16 && hr__wants_16(t->in.options) ? 2 : 1;
    if (TIFFGetField(t->lib, TIFFTAG_ICCPROFILE, &icc_size, &icc)) {
        p->icc = icc;
        p->icc_size = icc_size;
    }
}

static enum hr_status read_directory(struct tiff *t, struct hr_error *err)
{
    uint32_t width = 0;
    uint32_t height = 0;
    uint16_t format = SAMPLEFORMAT_UINT;
    enum hr_status status;

    if (!TIFFGetField(t->lib, TIFFTAG_IMAGEWIDTH, &width) ||
        !TIFFGetField(t->lib, TIFFTAG_IMAGELENGTH, &height) ||
        !TIFFGetField(t->lib, TIFFTAG_PHOTOMETRIC, &t->photometric))
        return hr_error_set(err, HR_ERR_FORMAT, "image", 0,
                            "image: TIFF lacks its size or colour space");
    (void)TIFFGetFieldDefaulted(t->lib, TIFFTAG_SAMPLESPERPIXEL, &t->samples);
    (void)TIFFGetFieldDefaulted(t->lib, TIFFTAG_BITSPERSAMPLE, &t->bits);
    (void)TIFFGetFieldDefaulted(t->lib, TIFFTAG_SAMPLEFORMAT, &format);
    t->red = NULL;
    (void)TIFFGetField(t->lib, TIFFTAG_COLORMAP, &t->red, &t->green, &t->blue);
    t->rows.width = width;
    t->rows.height = height;
    t->done = 0;
    status = choose_codec(t, err);
    if (status == HR_OK)
        status = check_kind(t, format, err);
    if (status != HR_OK)
        return status;
    find_alpha(t);
    read_layout(t);
    describe(t);
    return measure(t, err);
}

static enum hr_status tiff_open(void *decoder, const struct hr__input *in,
                                struct hr__picture *out, struct hr_error *err)
{
    struct tiff *t = decoder;
    enum hr_status status;

    t->in = *in;
    t->at = 0;
    t->text[0] = '\0';
    t->rows = (struct hr__picture){0};
    t->lib = open_lib(t);
    if (t->lib == NULL)
        return broken(t, err);
    t->rows.frames = TIFFNumberOfDirectories(t->lib);
    status = read_directory(t, err);
    *out = t->rows;
    return status;
}

static enum hr_status tiff_turn(void *decoder, int64_t n, struct hr__picture *out,
                                struct hr_error *err)
{
    struct tiff *t = decoder;
    int64_t frames = t->rows.frames;
    enum hr_status status;

    if (n > UINT16_MAX || !TIFFSetDirectory(t->lib, (tdir_t)n))
        return broken(t, err);
    t->rows = (struct hr__picture){.frames = frames};
    status = read_directory(t, err);
    *out = t->rows;
    return status;
}

/* ---- bands ---- */

static enum hr_status damaged(const struct tiff *t, struct hr_error *err)
{
    return hr_error_set(err, HR_ERR_FORMAT, "image", 0,
                        "image: TIFF is damaged after %lld of %lld rows: %s",
                        (long long)t->done, (long long)t->rows.height, t->text);
}

static bool read_strip(struct tiff *t, uint32_t rows, uint16_t plane, uint8_t *to)
{
    uint32_t strip = TIFFComputeStrip(t->lib, (uint32_t)t->done, plane);
    tmsize_t want = (tmsize_t)(t->band_stride * rows);

    return TIFFReadEncodedStrip(t->lib, strip, to, want) == want;
}

static bool read_tiles(struct tiff *t, uint16_t plane, uint8_t *to)
{
    tmsize_t bytes = TIFFTileSize(t->lib);
    const uint8_t *tile = hr_buffer_data(t->tile);
    size_t stride = row_bytes(t, t->tile_width);

    for (int64_t x = 0; x < t->rows.width; x += t->tile_width, to += stride) {
        uint32_t number =
            TIFFComputeTile(t->lib, (uint32_t)x, (uint32_t)t->done, 0, plane);

        if (TIFFReadEncodedTile(t->lib, number, hr_buffer_data(t->tile), bytes) !=
            bytes)
            return false;
        for (uint32_t y = 0; y < t->band_rows; y++)
            memcpy(to + y * t->band_stride, tile + y * stride, stride);
    }
    return true;
}

static bool read_band(struct tiff *t, uint32_t rows)
{
    uint16_t planes = t->planes ? t->samples : 1;
    uint8_t *to = hr_buffer_data(t->band);

    for (uint16_t plane = 0; plane < planes; plane++) {
        if (!(t->tiled ? read_tiles(t, plane, to) : read_strip(t, rows, plane, to)))
            return false;
        to += t->band_stride * t->band_rows;
    }
    return true;
}

/* ---- unpacking ---- */

/* Sample s of pixel x of a band's row, 0 … 2^bits - 1. */
static unsigned sample(const struct tiff *t, const uint8_t *row, int64_t x, unsigned s)
{
    size_t i = (size_t)x;
    uint16_t wide;

    if (t->planes)
        row += s * t->band_stride * t->band_rows;
    else
        i = i * t->samples + s;
    if (t->bits == 8)
        return row[i];
    if (t->bits == 16) {
        memcpy(&wide, row + 2 * i, sizeof(wide));
        return wide;
    }
    return (unsigned)row[i * t->bits / 8] >> (8 - t->bits - i * t->bits % 8) &
           ((1u << t->bits) - 1);
}

/* The same, in the depth of the rows that are given. */
static unsigned level(const struct tiff *t, const uint8_t *row, int64_t x, unsigned s)
{
    unsigned value = sample(t, row, x, s);

    if (t->bits < 8)
        value = value * 255 / ((1u << t->bits) - 1);
    return t->bits == 16 && t->rows.sample_bytes == 1 ? value >> 8 : value;
}

static void put_level(const struct tiff *t, uint8_t *to, size_t i, unsigned value)
{
    uint16_t wide = (uint16_t)value;

    if (t->rows.sample_bytes == 1)
        to[i] = (uint8_t)value;
    else
        memcpy(to + 2 * i, &wide, sizeof(wide));
}

/* The colour that was multiplied by alpha. */
static unsigned divided(const struct tiff *t, unsigned value, unsigned alpha)
{
    unsigned max = t->rows.sample_bytes == 2 ? 65535 : 255;

    if (!t->premultiplied || alpha == 0 || alpha >= max)
        return value;
    value = (unsigned)((uint64_t)value * max / alpha);
    return value > max ? max : value;
}

static void unpack_palette(const struct tiff *t, const uint8_t *row, uint8_t *to)
{
    size_t channels = (size_t)t->rows.channels;

    for (int64_t x = 0; x < t->rows.width; x++, to += channels) {
        unsigned index = sample(t, row, x, 0);

        to[0] = (uint8_t)(t->red[index] >> 8);
        to[1] = (uint8_t)(t->green[index] >> 8);
        to[2] = (uint8_t)(t->blue[index] >> 8);
        if (channels == 4)
            to[3] = (uint8_t)level(t, row, x, t->alpha);
    }
}

static void unpack_cmyk(const struct tiff *t, const uint8_t *row, uint8_t *to)
{
    size_t channels = (size_t)t->rows.channels;

    for (int64_t x = 0; x < t->rows.width; x++, to += channels) {
        uint8_t ink[4];

        for (unsigned s = 0; s < 4; s++)
            ink[s] = (uint8_t)sample(t, row, x, s);
        hr__cmyk_row(ink, to, 1, false);
        if (channels == 4)
            to[3] = (uint8_t)level(t, row, x, t->alpha);
    }
}

static void unpack_levels(const struct tiff *t, const uint8_t *row, uint8_t *to)
{
    size_t channels = (size_t)t->rows.channels;
    size_t colours = channels >= 3 ? 3 : 1;
    unsigned max = t->rows.sample_bytes == 2 ? 65535 : 255;
    unsigned flip = t->photometric == PHOTOMETRIC_MINISWHITE ? max : 0;
    size_t at = 0;

    for (int64_t x = 0; x < t->rows.width; x++) {
        unsigned alpha = t->alpha != 0 ? level(t, row, x, t->alpha) : max;

        for (unsigned c = 0; c < colours; c++)
            put_level(t, to, at++, divided(t, level(t, row, x, c), alpha) ^ flip);
        if (channels > colours)
            put_level(t, to, at++, alpha);
    }
}

static void unpack(const struct tiff *t, const uint8_t *row, uint8_t *to)
{
    bool plain = t->bits == 8 && !t->planes && t->alpha == 0 &&
                 t->samples == t->rows.channels &&
                 t->photometric != PHOTOMETRIC_MINISWHITE;

    if (t->photometric == PHOTOMETRIC_PALETTE)
        unpack_palette(t, row, to);
    else if (t->photometric == PHOTOMETRIC_SEPARATED)
        unpack_cmyk(t, row, to);
    else if (plain)
        memcpy(to, row, (size_t)t->rows.width * t->samples);
    else
        unpack_levels(t, row, to);
}

static enum hr_status put_band(struct tiff *t, uint32_t rows, struct hr__canvas *canvas,
                               struct hr_error *err)
{
    const uint8_t *from = hr_buffer_data(t->band);
    uint8_t *to[HR_PUSH_ROWS];

    for (uint32_t y = 0; y < rows;) {
        uint32_t left = rows - y;
        int n = hr__canvas_rows(canvas, to);
        enum hr_status status;

        if ((uint32_t)n > left)
            n = (int)left;
        for (int i = 0; i < n; i++, y++)
            unpack(t, from + y * t->band_stride, to[i]);
        status = hr__canvas_put(canvas, (const uint8_t *const *)to, n, err);
        if (status != HR_OK)
            return status;
    }
    return HR_OK;
}

static enum hr_status make_bands(struct tiff *t, struct hr_error *err)
{
    size_t bytes = t->band_stride * t->band_rows * (t->planes ? t->samples : 1u);
    enum hr_status status = HR_OK;

    hr_buffer_unref(&t->band);
    hr_buffer_unref(&t->tile);
    status = hr_buffer_new(bytes, &t->band, err);
    if (status == HR_OK && t->tiled)
        status = hr_buffer_new((size_t)TIFFTileSize(t->lib), &t->tile, err);
    return status;
}

static enum hr_status tiff_read(void *decoder, struct hr__canvas *canvas,
                                struct hr_error *err)
{
    struct tiff *t = decoder;
    enum hr_status status = make_bands(t, err);

    while (status == HR_OK && t->done < t->rows.height) {
        int64_t left = t->rows.height - t->done;
        uint32_t rows = left < t->band_rows ? (uint32_t)left : t->band_rows;

        if (!read_band(t, rows))
            return damaged(t, err);
        status = put_band(t, rows, canvas, err);
        t->done += rows;
    }
    return status;
}

static void tiff_close(void *decoder)
{
    struct tiff *t = decoder;

    if (t->lib != NULL)
        TIFFClose(t->lib);
    t->lib = NULL;
    hr_buffer_unref(&t->band);
    hr_buffer_unref(&t->tile);
}

static enum hr_status tiff_create(void **out, struct hr_error *err)
{
    *out = hr__calloc(1, sizeof(struct tiff));
    return *out != NULL
               ? HR_OK
               : hr__nomem(err, "image", "a TIFF decoder", sizeof(struct tiff));
}

const struct hr__codec hr__codec_tiff = {
    .name = "TIFF",
    .create = tiff_create,
    .destroy = hr__free,
    .open = tiff_open,
    .turn = tiff_turn,
    .read = tiff_read,
    .close = tiff_close,
};
