/* A PNG's chunks, walked without libpng: their heads alone are looked at, but for EXIF. */
#include "image/png_header.h"

#include <string.h>

#include "image/exif.h"
#include "base/banned.h"

#define SIGNATURE_BYTES 8
#define CHUNK_HEAD 8 /* length and name */
#define IHDR_BYTES 13
/* A colour type is a sum of these. */
#define TYPE_COLOUR 2
#define TYPE_ALPHA 4

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
static void read_chunks(const uint8_t *data, size_t size, struct hr__png_header *h,
                        struct hr__picture *out)
{
    size_t at = SIGNATURE_BYTES + CHUNK_HEAD + IHDR_BYTES + 4;

    h->cut = true;
    while (size - at >= CHUNK_HEAD + 4) {
        const uint8_t *head = data + at;
        size_t n = big_endian(head);

        if (n > size - at - CHUNK_HEAD - 4)
            break;
        at += CHUNK_HEAD + n + 4;
        if (memcmp(head + 4, "tRNS", 4) == 0)
            h->transparent = true;
        else if (memcmp(head + 4, "iCCP", 4) == 0) {
            out->icc = head + CHUNK_HEAD; /* name and all */
            out->icc_size = n;
        } else if (memcmp(head + 4, "eXIf", 4) == 0 && out->orientation == 0)
            out->orientation = hr__exif_orientation(head + CHUNK_HEAD, n);
        else if (memcmp(head + 4, "IEND", 4) == 0) {
            h->cut = false;
            break;
        }
    }
}

enum hr_status hr__png_header(const uint8_t *data, size_t size,
                              struct hr__png_header *header, struct hr__picture *out,
                              struct hr_error *err)
{
    const uint8_t *ihdr = data + SIGNATURE_BYTES + CHUNK_HEAD;
    uint64_t row_bits;

    *header = (struct hr__png_header){0};
    if (size < SIGNATURE_BYTES + CHUNK_HEAD + IHDR_BYTES + 4)
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
    read_chunks(data, size, header, out);
    header->colour = (ihdr[9] & TYPE_COLOUR) != 0;
    header->alpha = header->transparent || (ihdr[9] & TYPE_ALPHA) != 0;
    header->interlaced = ihdr[12] != 0;
    return HR_OK;
}
