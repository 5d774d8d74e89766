/* The kinds of TIFF that are read:
 *
 *     grey     1, 2, 4, 8, 16 bits; white may be 0
 *     palette  1, 2, 4, 8 bits
 *     RGB      8, 16 bits
 *     CMYK     8 bits
 *     YCbCr    as JPEG compresses it: made RGB by libjpeg
 *     alpha    the first extra sample that says so
 *
 * Samples lie together or in planes of their own. Floating-point and signed samples,
 * and old-style JPEG, are refused. */
#include "image/tiff_directory.h"

#include <tiffio.h>

#include "base/banned.h"

#define SAMPLES_MAX 8

static enum hr_status unsupported(const char *what, unsigned value,
                                  struct hr_error *err)
{
    return hr_error_set(err, HR_ERR_UNSUPPORTED, "image", 0,
                        "image: TIFF with %s %u is not supported", what, value);
}

static enum hr__tiff_colour colour_of(uint16_t photometric)
{
    switch (photometric) {
    case PHOTOMETRIC_MINISBLACK:
        return HR_TIFF_GREY;
    case PHOTOMETRIC_MINISWHITE:
        return HR_TIFF_GREY_INVERTED;
    case PHOTOMETRIC_PALETTE:
        return HR_TIFF_PALETTE;
    case PHOTOMETRIC_RGB:
        return HR_TIFF_RGB;
    case PHOTOMETRIC_SEPARATED:
        return HR_TIFF_CMYK;
    default:
        return HR_TIFF_OTHER;
    }
}

/* What libtiff is to make of JPEG data, and whether it can decode at all. */
static enum hr_status choose_codec(TIFF *lib, uint16_t *photometric,
                                   struct hr_error *err)
{
    uint16_t compression = COMPRESSION_NONE;

    (void)TIFFGetFieldDefaulted(lib, TIFFTAG_COMPRESSION, &compression);
    if (compression == COMPRESSION_OJPEG || !TIFFIsCODECConfigured(compression))
        return unsupported("compression", compression, err);
    if (compression == COMPRESSION_JPEG && *photometric == PHOTOMETRIC_YCBCR) {
        (void)TIFFSetField(lib, TIFFTAG_JPEGCOLORMODE, JPEGCOLORMODE_RGB);
        *photometric = PHOTOMETRIC_RGB;
    }
    return HR_OK;
}

/* How many samples make the colour. */
static int colour_samples(enum hr__tiff_colour colour)
{
    return colour == HR_TIFF_RGB ? 3 : colour == HR_TIFF_CMYK ? 4 : 1;
}

static enum hr_status check_samples(TIFF *lib, const struct hr__tiff_layout *l,
                                    struct hr_error *err)
{
    int colour = colour_samples(l->colour);
    bool small = l->bits == 1 || l->bits == 2 || l->bits == 4;
    bool palette = l->colour == HR_TIFF_PALETTE;
    uint16_t format = SAMPLEFORMAT_UINT;

    (void)TIFFGetFieldDefaulted(lib, TIFFTAG_SAMPLEFORMAT, &format);
    if (format != SAMPLEFORMAT_UINT && format != SAMPLEFORMAT_VOID)
        return unsupported("sample format", format, err);
    if (!(l->bits == 8 || (l->bits == 16 && colour != 4 && !palette) ||
          (small && colour == 1)))
        return unsupported("a sample depth of", l->bits, err);
    if (l->samples < colour || l->samples > SAMPLES_MAX)
        return unsupported("a number of samples of", l->samples, err);
    return HR_OK;
}

static enum hr_status read_samples(TIFF *lib, struct hr__tiff_layout *l,
                                   struct hr_error *err)
{
    uint16_t photometric = 0;
    uint16_t *palette[3] = {NULL, NULL, NULL};
    enum hr_status status;

    (void)TIFFGetField(lib, TIFFTAG_PHOTOMETRIC, &photometric);
    (void)TIFFGetFieldDefaulted(lib, TIFFTAG_SAMPLESPERPIXEL, &l->samples);
    (void)TIFFGetFieldDefaulted(lib, TIFFTAG_BITSPERSAMPLE, &l->bits);
    (void)TIFFGetField(lib, TIFFTAG_COLORMAP, &palette[0], &palette[1], &palette[2]);
    l->red = palette[0];
    l->green = palette[1];
    l->blue = palette[2];
    status = choose_codec(lib, &photometric, err);
    if (status != HR_OK)
        return status;
    l->colour = colour_of(photometric);
    if (l->colour == HR_TIFF_OTHER)
        return unsupported("colour space", photometric, err);
    status = check_samples(lib, l, err);
    if (status == HR_OK && l->colour == HR_TIFF_PALETTE && l->red == NULL)
        return hr_error_set(err, HR_ERR_FORMAT, "image", 0,
                            "image: TIFF without its palette");
    return status;
}

static void find_alpha(TIFF *lib, struct hr__tiff_layout *l)
{
    uint16_t n = 0;
    uint16_t *kinds = NULL;

    if (!TIFFGetField(lib, TIFFTAG_EXTRASAMPLES, &n, &kinds))
        return;
    for (uint16_t i = 0; i < n && n < l->samples && l->alpha == 0; i++)
        if (kinds[i] == EXTRASAMPLE_ASSOCALPHA || kinds[i] == EXTRASAMPLE_UNASSALPHA) {
            l->alpha = (uint16_t)(l->samples - n + i);
            l->premultiplied = kinds[i] == EXTRASAMPLE_ASSOCALPHA;
        }
}

static void read_bands(TIFF *lib, struct hr__tiff_directory *d, int64_t height)
{
    struct hr__tiff_layout *l = &d->layout;
    uint16_t config = PLANARCONFIG_CONTIG;

    (void)TIFFGetFieldDefaulted(lib, TIFFTAG_PLANARCONFIG, &config);
    l->planes = config == PLANARCONFIG_SEPARATE && l->samples > 1;
    d->tiled = TIFFIsTiled(lib) != 0;
    if (d->tiled) {
        (void)TIFFGetField(lib, TIFFTAG_TILEWIDTH, &d->tile_width);
        (void)TIFFGetField(lib, TIFFTAG_TILELENGTH, &l->band_rows);
    } else {
        (void)TIFFGetFieldDefaulted(lib, TIFFTAG_ROWSPERSTRIP, &l->band_rows);
        if (l->band_rows > height)
            l->band_rows = (uint32_t)height;
    }
}

size_t hr__tiff_row_bytes(const struct hr__tiff_layout *l, uint64_t width)
{
    uint64_t samples = l->planes ? 1 : l->samples;

    return (size_t)((width * samples * l->bits + 7) / 8);
}

uint16_t hr__tiff_planes(const struct hr__tiff_layout *l)
{
    return l->planes ? l->samples : 1;
}

static void describe(const struct hr__tiff_file *f, struct hr__tiff_layout *l,
                     struct hr__picture *p)
{
    const struct hr_image_options *options = f->in.options;
    uint16_t orientation = 1;
    uint32_t icc_size = 0;
    void *icc = NULL;
    bool grey = l->colour == HR_TIFF_GREY || l->colour == HR_TIFF_GREY_INVERTED;

    (void)TIFFGetFieldDefaulted(f->lib, TIFFTAG_ORIENTATION, &orientation);
    p->orientation = orientation;
    p->stored_channels = l->samples;
    p->stored_bits = l->bits;
    p->channels = grey ? 1 : 3;
    if (l->alpha != 0 && hr__wants_alpha(options))
        p->channels++;
    p->sample_bytes = l->bits == 16 && hr__wants_16(options) ? 2 : 1;
    if (TIFFGetField(f->lib, TIFFTAG_ICCPROFILE, &icc_size, &icc)) {
        p->icc = icc;
        p->icc_size = icc_size;
    }
    /* With alpha there would be five channels. */
    if (l->colour == HR_TIFF_CMYK && p->channels == 3 && hr__wants_ink(options, p)) {
        p->ink = true;
        p->channels = 4;
    }
    l->ink = p->ink;
    l->width = p->width;
    l->channels = p->channels;
    l->sample_bytes = p->sample_bytes;
}

/* Sizes of bands, and all that decoding will hold. */
static enum hr_status measure(TIFF *lib, struct hr__tiff_directory *d,
                              struct hr__picture *p, struct hr_error *err)
{
    struct hr__tiff_layout *l = &d->layout;
    uint64_t width = (uint64_t)p->width;
    uint64_t planes = hr__tiff_planes(l);
    uint64_t tile;

    if (l->band_rows == 0 || (d->tiled && d->tile_width == 0))
        return hr_error_set(err, HR_ERR_FORMAT, "image", 0,
                            "image: TIFF has strips or tiles without a size");
    if (d->tiled)
        width = (width + d->tile_width - 1) / d->tile_width * d->tile_width;
    l->band_stride = hr__tiff_row_bytes(l, width);
    tile = d->tiled ? TIFFTileSize64(lib) : 0;
    p->raw_bytes =
        hr__tiff_row_bytes(l, (uint64_t)p->width) * planes * (uint64_t)p->height;
    if (__builtin_mul_overflow((uint64_t)l->band_stride * planes,
                               (uint64_t)l->band_rows, &p->work_bytes) ||
        __builtin_add_overflow(p->work_bytes, tile, &p->work_bytes))
        p->work_bytes = UINT64_MAX;
    return HR_OK;
}

enum hr_status hr__tiff_directory(const struct hr__tiff_file *file,
                                  struct hr__tiff_directory *out,
                                  struct hr__picture *picture, struct hr_error *err)
{
    TIFF *lib = file->lib;
    uint32_t width = 0;
    uint32_t height = 0;
    uint16_t photometric = 0;
    enum hr_status status;

    *out = (struct hr__tiff_directory){0};
    if (!TIFFGetField(lib, TIFFTAG_IMAGEWIDTH, &width) ||
        !TIFFGetField(lib, TIFFTAG_IMAGELENGTH, &height) ||
        !TIFFGetField(lib, TIFFTAG_PHOTOMETRIC, &photometric))
        return hr_error_set(err, HR_ERR_FORMAT, "image", 0,
                            "image: TIFF lacks its size or colour space");
    picture->width = width;
    picture->height = height;
    status = read_samples(lib, &out->layout, err);
    if (status != HR_OK)
        return status;
    find_alpha(lib, &out->layout);
    read_bands(lib, out, picture->height);
    describe(file, &out->layout, picture);
    return measure(lib, out, picture, err);
}
