#include "jpeg_kinds.h"

#include <stdio.h>
#include <stdlib.h>

#include <jpeglib.h>

const struct how samplings[SAMPLINGS] = {
    {.colours = 3, .h = 1, .v = 1}, {.colours = 3, .h = 2, .v = 1},
    {.colours = 3, .h = 2, .v = 2}, {.colours = 3, .h = 1, .v = 2},
    {.colours = 3, .h = 4, .v = 1}, {.colours = 3, .h = 4, .v = 2},
    {.colours = 1, .h = 1, .v = 1}, {.colours = 1, .h = 2, .v = 2}};

static void paint(enum kind kind, uint32_t seed, unsigned width, unsigned height,
                  uint8_t *samples)
{
    for (unsigned y = 0; y < height; y++)
        for (unsigned x = 0; x < width; x++, samples += 3)
            for (unsigned c = 0; c < 3; c++) {
                uint32_t random = next_random(&seed);

                if (kind == SMOOTH)
                    samples[c] = (uint8_t)(4 * x + (3 + c) * y + random % 9);
                else if (kind == NOISE)
                    samples[c] = (uint8_t)random;
                else if (kind == SATURATED)
                    samples[c] = random % 2 ? 255 : 0;
                else
                    samples[c] = (x / 5 + y / 3 + c) % 2 ? 250 : 4;
            }
}

static struct blob encode(const uint8_t *samples, unsigned width, unsigned height,
                          struct how how)
{
    struct jpeg_compress_struct lib;
    struct jpeg_error_mgr errors;
    struct blob blob = {NULL, 0};
    unsigned long size = 0;
    unsigned char *data = NULL;
    uint8_t grey[KIND_SIDE_MAX];

    lib.err = jpeg_std_error(&errors);
    jpeg_create_compress(&lib);
    jpeg_mem_dest(&lib, &data, &size);
    lib.image_width = width;
    lib.image_height = height;
    lib.input_components = how.colours;
    lib.in_color_space = how.colours == 1 ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_set_defaults(&lib);
    jpeg_set_quality(&lib, how.quality, TRUE);
    lib.comp_info[0].h_samp_factor = how.h;
    lib.comp_info[0].v_samp_factor = how.v;
    lib.optimize_coding = how.optimised;
    lib.restart_interval = how.restart;
    jpeg_start_compress(&lib, TRUE);
    for (unsigned y = 0; y < height; y++) {
        const uint8_t *row = samples + (size_t)y * width * 3;
        JSAMPROW rows[1] = {grey};

        for (unsigned x = 0; x < width; x++)
            grey[x] = row[3 * x];
        if (how.colours == 3)
            rows[0] = (JSAMPROW)row;
        jpeg_write_scanlines(&lib, rows, 1);
    }
    jpeg_finish_compress(&lib);
    jpeg_destroy_compress(&lib);
    blob_append(&blob, data, size);
    free(data);
    return blob;
}

struct blob picture(enum kind kind, unsigned width, unsigned height, struct how how)
{
    static uint8_t samples[KIND_SIDE_MAX * KIND_SIDE_MAX * 3];

    paint(kind, width * 7919 + height, width, height, samples);
    return encode(samples, width, height, how);
}
