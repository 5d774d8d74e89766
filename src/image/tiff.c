/* TIFF by libtiff, from memory.
 *
 * Pixels are decoded in bands, a strip or a row of tiles at a time, and unpacked by
 * tiff_unpack.c: libtiff's own way to RGB knows 8 bits only, and loads whole pictures. */
#include <string.h>

#include <tiffio.h>

#include "base/mem.h"
#include "image/canvas.h"
#include "image/codec.h"
#include "image/tiff_directory.h"
#include "base/banned.h"

struct decoder {
    struct hr__tiff_file file;
    struct hr__picture rows;
    struct hr__tiff_directory directory;
    struct hr_buffer *band; /* planes one after the other */
    struct hr_buffer *tile;
    int64_t done; /* rows */
};

static enum hr_status broken(const struct decoder *t, struct hr_error *err)
{
    return hr_error_set(err, HR_ERR_FORMAT, "image", 0,
                        "image: TIFF cannot be read in its header: %s", t->file.text);
}

/* Describe the page that the file stands at. */
static enum hr_status describe(struct decoder *t, int64_t frames,
                               struct hr__picture *out, struct hr_error *err)
{
    enum hr_status status;

    t->done = 0;
    t->rows = (struct hr__picture){.frames = frames};
    status = hr__tiff_directory(&t->file, &t->directory, &t->rows, err);
    *out = t->rows;
    return status;
}

static enum hr_status tiff_open(void *decoder, const struct hr__input *in,
                                struct hr__picture *out, struct hr_error *err)
{
    struct decoder *t = decoder;

    hr__tiff_file_open(&t->file, in);
    if (t->file.lib == NULL)
        return broken(t, err);
    return describe(t, TIFFNumberOfDirectories(t->file.lib), out, err);
}

static enum hr_status tiff_turn(void *decoder, int64_t n, struct hr__picture *out,
                                struct hr_error *err)
{
    struct decoder *t = decoder;

    if (n > UINT16_MAX || !TIFFSetDirectory(t->file.lib, (tdir_t)n))
        return broken(t, err);
    return describe(t, t->rows.frames, out, err);
}

/* ---- bands ---- */

static enum hr_status damaged(const struct decoder *t, struct hr_error *err)
{
    return hr_error_set(err, HR_ERR_FORMAT, "image", 0,
                        "image: TIFF is damaged after %lld of %lld rows: %s",
                        (long long)t->done, (long long)t->rows.height, t->file.text);
}

static bool read_strip(const struct decoder *t, uint32_t rows, uint16_t plane,
                       uint8_t *to)
{
    uint32_t strip = TIFFComputeStrip(t->file.lib, (uint32_t)t->done, plane);
    tmsize_t want = (tmsize_t)(t->directory.layout.band_stride * rows);

    return TIFFReadEncodedStrip(t->file.lib, strip, to, want) == want;
}

static bool read_tiles(const struct decoder *t, uint16_t plane, uint8_t *to)
{
    const struct hr__tiff_layout *l = &t->directory.layout;
    uint32_t width = t->directory.tile_width;
    TIFF *lib = t->file.lib;
    tmsize_t bytes = TIFFTileSize(lib);
    uint8_t *tile = hr_buffer_data(t->tile);
    size_t stride = hr__tiff_row_bytes(l, width);

    for (int64_t x = 0; x < t->rows.width; x += width, to += stride) {
        uint32_t number =
            TIFFComputeTile(lib, (uint32_t)x, (uint32_t)t->done, 0, plane);

        if (TIFFReadEncodedTile(lib, number, tile, bytes) != bytes)
            return false;
        for (uint32_t y = 0; y < l->band_rows; y++)
            memcpy(to + y * l->band_stride, tile + y * stride, stride);
    }
    return true;
}

static bool read_band(const struct decoder *t, uint32_t rows)
{
    const struct hr__tiff_layout *l = &t->directory.layout;
    uint16_t planes = hr__tiff_planes(l);
    uint8_t *to = hr_buffer_data(t->band);

    for (uint16_t plane = 0; plane < planes; plane++) {
        if (!(t->directory.tiled ? read_tiles(t, plane, to)
                                 : read_strip(t, rows, plane, to)))
            return false;
        to += l->band_stride * l->band_rows;
    }
    return true;
}

static enum hr_status put_band(const struct decoder *t, uint32_t rows,
                               struct hr__canvas *canvas, struct hr_error *err)
{
    const struct hr__tiff_layout *l = &t->directory.layout;
    const uint8_t *from = hr_buffer_data(t->band);
    uint8_t *to[HR_PUSH_ROWS];

    for (uint32_t y = 0; y < rows;) {
        uint32_t left = rows - y;
        int n = hr__canvas_rows(canvas, to);
        enum hr_status status;

        if ((uint32_t)n > left)
            n = (int)left;
        for (int i = 0; i < n; i++, y++)
            hr__tiff_unpack(l, from + y * l->band_stride, to[i]);
        status = hr__canvas_put(canvas, (const uint8_t *const *)to, n, err);
        if (status != HR_OK)
            return status;
    }
    return HR_OK;
}

static enum hr_status make_bands(struct decoder *t, struct hr_error *err)
{
    const struct hr__tiff_layout *l = &t->directory.layout;
    size_t bytes = l->band_stride * l->band_rows * hr__tiff_planes(l);
    enum hr_status status = HR_OK;

    hr_buffer_unref(&t->band);
    hr_buffer_unref(&t->tile);
    status = hr_buffer_new(bytes, &t->band, err);
    if (status == HR_OK && t->directory.tiled)
        status = hr_buffer_new((size_t)TIFFTileSize(t->file.lib), &t->tile, err);
    return status;
}

static enum hr_status tiff_read(void *decoder, struct hr__canvas *canvas,
                                struct hr_error *err)
{
    struct decoder *t = decoder;
    int64_t band_rows = t->directory.layout.band_rows;
    enum hr_status status = make_bands(t, err);

    while (status == HR_OK && t->done < t->rows.height) {
        int64_t left = t->rows.height - t->done;
        uint32_t rows = (uint32_t)(left < band_rows ? left : band_rows);

        if (!read_band(t, rows))
            return damaged(t, err);
        status = put_band(t, rows, canvas, err);
        t->done += rows;
    }
    return status;
}

static void tiff_close(void *decoder)
{
    struct decoder *t = decoder;

    hr__tiff_file_close(&t->file);
    hr_buffer_unref(&t->band);
    hr_buffer_unref(&t->tile);
}

static enum hr_status tiff_create(void **out, struct hr_error *err)
{
    *out = hr__calloc(1, sizeof(struct decoder));
    return *out != NULL
               ? HR_OK
               : hr__nomem(err, "image", "a TIFF decoder", sizeof(struct decoder));
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
