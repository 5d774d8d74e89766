#include "pictures.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>
#include <png.h>

static _Noreturn void fail(const char *what)
{
    fprintf(stderr, "pictures.c: %s\n", what);
    abort();
}

void blob_free(struct blob *blob)
{
    free(blob->data);
    *blob = (struct blob){NULL, 0};
}

void blob_append(struct blob *blob, const void *bytes, size_t n)
{
    uint8_t *grown;

    if (n == 0)
        return;
    grown = realloc(blob->data, blob->size + n);
    if (grown == NULL)
        fail("no memory");
    memcpy(grown + blob->size, bytes, n);
    blob->data = grown;
    blob->size += n;
}

struct blob blob_copy(const struct blob *blob)
{
    struct blob copy = {NULL, 0};

    blob_append(&copy, blob->data, blob->size);
    return copy;
}

/* ---- JPEG ---- */

/* First the DC of all components, then one coefficient of the first in every scan; the
 * last takes all that is left, the others get theirs at the end. */
static void many_scans(struct jpeg_compress_struct *lib, int scans,
                       jpeg_scan_info *script)
{
    int n = 0;

    memset(script, 0, sizeof(*script) * (size_t)(scans + 8));
    script[n].comps_in_scan = lib->num_components;
    for (int c = 0; c < lib->num_components; c++)
        script[n].component_index[c] = c;
    n++;
    for (int c = 0; c < lib->num_components; c++)
        for (int k = 1; k < 64 && n < scans; k++, n++) {
            script[n].comps_in_scan = 1;
            script[n].component_index[0] = c;
            script[n].Ss = k;
            script[n].Se = k;
        }
    lib->scan_info = script;
    lib->num_scans = n;
}

static void set_up(struct jpeg_compress_struct *lib, struct jpeg_how how)
{
    int components = how.colour >= CMYK ? 4 : (int)how.colour;

    lib->input_components = components;
    lib->in_color_space = components == 1   ? JCS_GRAYSCALE
                          : components == 3 ? JCS_RGB
                                            : JCS_CMYK;
    jpeg_set_defaults(lib);
    if (how.colour == YCCK)
        jpeg_set_colorspace(lib, JCS_YCCK);
    jpeg_set_quality(lib, how.quality ? how.quality : 100, TRUE);
    for (int c = 0; c < lib->num_components; c++) {
        lib->comp_info[c].h_samp_factor = c == 0 && how.h ? how.h : 1;
        lib->comp_info[c].v_samp_factor = c == 0 && how.v ? how.v : 1;
    }
    lib->arith_code = how.arithmetic;
    lib->restart_in_rows = how.restart_rows;
    if (how.progressive)
        jpeg_simple_progression(lib);
}

struct blob jpeg_of(const uint8_t *samples, unsigned width, unsigned height,
                    struct jpeg_how how)
{
    struct jpeg_compress_struct lib;
    struct jpeg_error_mgr errors;
    jpeg_scan_info script[256];
    unsigned char *data = NULL;
    unsigned long size = 0;
    struct blob blob;

    lib.err = jpeg_std_error(&errors); /* an error ends the test program */
    jpeg_create_compress(&lib);
    jpeg_mem_dest(&lib, &data, &size);
    lib.image_width = width;
    lib.image_height = height;
    set_up(&lib, how);
    if (how.scans > 1)
        many_scans(&lib, how.scans, script);
    jpeg_start_compress(&lib, TRUE);
    while (lib.next_scanline < height) {
        JSAMPROW row = (JSAMPROW)samples +
                       (size_t)lib.next_scanline * width * (size_t)lib.input_components;

        jpeg_write_scanlines(&lib, &row, 1);
    }
    jpeg_finish_compress(&lib);
    jpeg_destroy_compress(&lib);
    blob.data = data;
    blob.size = size;
    return blob;
}

size_t marker_at(const struct blob *blob, uint8_t code, int n)
{
    for (size_t i = 0; i + 1 < blob->size; i++)
        if (blob->data[i] == 0xff && blob->data[i + 1] == code && n-- == 0)
            return i;
    return blob->size;
}

/* ---- PNG ---- */

static void append(png_structp png, png_bytep data, size_t n)
{
    struct blob *blob = png_get_io_ptr(png);

    blob_append(blob, data, n);
}

static void flush(png_structp png)
{
    (void)png;
}

static void palette_of(png_structp png, png_infop info, struct png_how how)
{
    png_color palette[256];

    if (how.palette == NULL)
        return;
    for (int i = 0; i < how.colours; i++)
        palette[i] = (png_color){how.palette[3 * i], how.palette[3 * i + 1],
                                 how.palette[3 * i + 2]};
    png_set_PLTE(png, info, palette, how.colours);
    if (how.trns != NULL)
        png_set_tRNS(png, info, how.trns, how.trns_count, NULL);
}

static void orientation_of(png_structp png, png_infop info, struct png_how how)
{
    png_byte exif[] = {'M', 'M', 0, '*', 0, 0, 0, 8, 0, 1, 1, 0x12, 0,
                       3,   0,   0, 0,   1, 0, 0, 0, 0, 0, 0, 0,    0};

    exif[19] = how.orientation;
    if (how.orientation != 0)
        png_set_eXIf_1(png, info, sizeof(exif), exif);
}

struct blob png_of(const uint8_t *rows, size_t rowbytes, unsigned width,
                   unsigned height, struct png_how how)
{
    struct blob blob = {NULL, 0};
    png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL);
    png_infop info = png_create_info_struct(png);
    int passes;

    if (setjmp(png_jmpbuf(png)) != 0)
        fail("PNG not written");
    png_set_write_fn(png, &blob, append, flush);
    png_set_compression_level(png, 9);
    png_set_IHDR(png, info, width, height, how.depth, how.type,
                 how.interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE,
                 PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    palette_of(png, info, how);
    orientation_of(png, info, how);
    png_write_info(png, info);
    passes = png_set_interlace_handling(png);
    for (int pass = 0; pass < passes; pass++)
        for (unsigned y = 0; y < height; y++)
            png_write_row(png, rows + y * rowbytes);
    png_write_end(png, info);
    png_destroy_write_struct(&png, &info);
    return blob;
}

/* ---- loading ---- */

struct hr_value bytes_of(const struct blob *blob)
{
    struct hr_buffer *buffer;

    if (hr_buffer_wrap(blob->data, blob->size, HR_BUFFER_READONLY, NULL, NULL, &buffer,
                       NULL) != HR_OK)
        fail("no memory");
    return hr_value_of_bytes(&buffer);
}

struct hr_value text_of(const char *text)
{
    struct hr_value value;

    if (hr_text_new(text, strlen(text), &value) != HR_OK)
        fail("no memory");
    return value;
}

static enum hr_status load(struct hr_value src, const struct hr_image_options *options,
                           struct hr_array **out, struct hr_error *err)
{
    struct hr_image_options defaults;
    struct hr_ctx *ctx;
    enum hr_status status;

    hr_image_options_init(&defaults);
    if (hr_ctx_new(&ctx, NULL) != HR_OK)
        fail("no memory");
    status = hr_image_load(ctx, &src, NULL, options ? options : &defaults, out, err);
    hr_ctx_free(&ctx);
    hr_value_release(&src);
    return status;
}

enum hr_status load_blob(const struct blob *blob,
                         const struct hr_image_options *options, struct hr_array **out,
                         struct hr_error *err)
{
    return load(bytes_of(blob), options, out, err);
}

enum hr_status load_path(const char *path, const struct hr_image_options *options,
                         struct hr_array **out, struct hr_error *err)
{
    return load(text_of(path), options, out, err);
}

uint32_t pixel_at(const struct hr_array *array, int64_t x, int64_t y)
{
    const uint8_t *p = hr_array_data(array);

    p += (y * hr_array_shape(array)[1] + x) * 3;
    return (uint32_t)p[0] << 16 | (uint32_t)p[1] << 8 | p[2];
}

bool same_pixels(const struct hr_array *a, const struct hr_array *b)
{
    return hr_array_ndim(a) == hr_array_ndim(b) &&
           memcmp(hr_array_shape(a), hr_array_shape(b),
                  (size_t)hr_array_ndim(a) * sizeof(int64_t)) == 0 &&
           memcmp(hr_array_data(a), hr_array_data(b), hr_array_nbytes(a)) == 0;
}

void fill_random(uint8_t *samples, size_t n, uint32_t seed)
{
    for (size_t i = 0; i < n; i++)
        samples[i] = (uint8_t)next_random(&seed);
}

uint32_t next_random(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}
