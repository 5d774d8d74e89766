/* The markers of a JPEG up to its first scan, read without libjpeg.
 *
 * libjpeg's own way to a header sets up tables and pools, which takes longer than all
 * of this: a header is read in less than a microsecond here. What is decoded is still
 * decided by libjpeg alone; jpeg_pixels.c compares the sizes. */
#include "image/jpeg_header.h"

#include <string.h>

#include "image/exif.h"
#include "base/banned.h"

enum {
    TEM = 0x01,
    SOF0 = 0xc0,
    SOF2 = 0xc2,
    DHT = 0xc4,
    JPG = 0xc8,
    SOF10 = 0xca,
    DAC = 0xcc,
    RST0 = 0xd0,
    SOI = 0xd8,
    EOI = 0xd9,
    SOS = 0xda,
    APP0 = 0xe0,
    APP1 = 0xe1,
    APP2 = 0xe2,
    APP14 = 0xee
};

/* Of the Multi-Picture Format, CIPA DC-007: a table with 16 bytes per picture. */
#define TAG_PICTURES 0xb002
#define PICTURE_BYTES 16

#define ICC_HEAD 14 /* "ICC_PROFILE\0", number, count */

struct walk {
    const uint8_t *data;
    size_t size;
    size_t at;
    bool jfif;
    int adobe; /* its transform, -1: no such marker */
    uint8_t id[4];
};

/* The next marker's code; bytes that are none are passed over, as libjpeg does. -1 at
 * the end. */
static int next_marker(struct walk *w)
{
    while (w->at + 1 < w->size) {
        if (w->data[w->at] == 0xff && w->data[w->at + 1] != 0 &&
            w->data[w->at + 1] != 0xff) {
            w->at += 2;
            return w->data[w->at - 1];
        }
        w->at++;
    }
    return -1;
}

static bool is_frame(int code)
{
    return code >= SOF0 && code <= 0xcf && code != DHT && code != JPG && code != DAC;
}

static unsigned short_at(const uint8_t *at)
{
    return (unsigned)at[0] << 8 | at[1];
}

static enum hr_status read_frame(struct walk *w, int code, const uint8_t *s, size_t n,
                                 struct hr__jpeg_header *out, struct hr_error *err)
{
    if (out->components != 0)
        return hr_error_set(err, HR_ERR_FORMAT, "image", 0,
                            "image: JPEG has two frame headers");
    if (n < 6 || n < 6 + 3 * (size_t)s[5])
        return hr_error_set(err, HR_ERR_FORMAT, "image", 0,
                            "image: JPEG has a frame header of %zu bytes", n);
    out->bits = s[0];
    out->height = (int)short_at(s + 1);
    out->width = (int)short_at(s + 3);
    out->components = s[5];
    out->several_scans = code == SOF2 || code == SOF10;
    for (int i = 0; i < out->components && i < 4; i++) {
        w->id[i] = s[6 + 3 * i];
        out->sampling[i] = s[7 + 3 * i];
    }
    return HR_OK;
}

static bool is_profile(int code, const uint8_t *s, size_t n)
{
    return code == APP2 && n > ICC_HEAD && memcmp(s, "ICC_PROFILE", 12) == 0;
}

static void read_application(struct walk *w, int code, const uint8_t *s, size_t n,
                             struct hr__jpeg_header *out)
{
    if (code == APP0 && n >= 14 && memcmp(s, "JFIF", 5) == 0)
        w->jfif = true;
    else if (code == APP14 && n >= 12 && memcmp(s, "Adobe", 5) == 0)
        w->adobe = s[11];
    else if (code == APP1 && n > 6 && memcmp(s, "Exif\0", 6) == 0 &&
             out->orientation == 0)
        out->orientation = hr__exif_orientation(s, n);
    else if (is_profile(code, s, n) && out->icc == NULL) {
        out->icc = s + ICC_HEAD;
        out->icc_size = n - ICC_HEAD;
        out->icc_chunks = s[ICC_HEAD - 1];
    } else if (code == APP2 && n > 4 && memcmp(s, "MPF", 4) == 0 && out->mpf == NULL) {
        out->mpf = s + 4;
        out->mpf_size = n - 4;
    }
}

static bool is_ycc(const struct walk *w)
{
    if (w->jfif || w->adobe == 1)
        return true;
    if (w->adobe == 0)
        return false;
    return memcmp(w->id, "RGB", 3) != 0;
}

/* The next segment: its code, or -1 with *status set at the data's end. */
static int next_segment(struct walk *w, const uint8_t **s, size_t *n,
                        enum hr_status *status, struct hr_error *err)
{
    int code;

    do
        code = next_marker(w);
    while (code == TEM || (code >= RST0 && code <= SOI));
    *status = HR_OK;
    if (code >= 0 && code != EOI && w->size - w->at >= 2) {
        size_t length = short_at(w->data + w->at);

        if (length < 2) {
            *status = hr_error_set(err, HR_ERR_FORMAT, "image", 0,
                                   "image: JPEG has a marker %02x of %zu bytes",
                                   (unsigned)code, length);
            return -1;
        }
        if (length <= w->size - w->at) {
            *s = w->data + w->at + 2;
            *n = length - 2;
            w->at += length;
            return code;
        }
    }
    *status =
        hr_error_set(err, HR_ERR_FORMAT, "image", 0, "image: JPEG ends in its header");
    return -1;
}

enum hr_status hr__jpeg_header(const uint8_t *data, size_t size,
                               struct hr__jpeg_header *out, struct hr_error *err)
{
    struct walk w = {.data = data, .size = size, .at = 2, .adobe = -1};
    enum hr_status status = HR_OK;
    const uint8_t *s = NULL;
    size_t n = 0;
    int code;

    *out = (struct hr__jpeg_header){0};
    while ((code = next_segment(&w, &s, &n, &status, err)) >= 0 && code != SOS) {
        if (is_frame(code))
            status = read_frame(&w, code, s, n, out, err);
        else
            read_application(&w, code, s, n, out);
        if (status != HR_OK)
            return status;
    }
    if (status != HR_OK)
        return status;
    if (out->components == 0)
        return hr_error_set(err, HR_ERR_FORMAT, "image", 0,
                            "image: JPEG has a scan but no frame header");
    if (n > 0 && s[0] < out->components)
        out->several_scans = true;
    out->ycc = out->components == 3 && is_ycc(&w);
    return HR_OK;
}

static uint32_t picture_table(const struct hr__jpeg_header *h, struct hr__exif_tag *tag)
{
    if (h->mpf == NULL || !hr__exif_find(h->mpf, h->mpf_size, TAG_PICTURES, tag) ||
        tag->type != 7)
        return 1;
    return tag->count >= PICTURE_BYTES ? tag->count / PICTURE_BYTES : 1;
}

int64_t hr__jpeg_pictures(const struct hr__jpeg_header *header)
{
    struct hr__exif_tag tag;

    return picture_table(header, &tag);
}

bool hr__jpeg_picture(const struct hr__jpeg_header *header, const uint8_t *data,
                      size_t size, int64_t n, size_t *at, size_t *length)
{
    size_t start = (size_t)(header->mpf - data);
    struct hr__exif_tag tag = {0};
    const uint8_t *entry;

    if (n >= picture_table(header, &tag) || tag.values == NULL)
        return false;
    entry = tag.values + n * PICTURE_BYTES;
    *length = hr__exif_number(entry + 4, 4, tag.big);
    *at = start + hr__exif_number(entry + 8, 4, tag.big);
    if (*at > size - 2 || data[*at] != 0xff || data[*at + 1] != SOI)
        return false;
    if (*length > size - *at)
        *length = size - *at;
    return true;
}

size_t hr__jpeg_profile(const uint8_t *data, size_t size, uint8_t *to)
{
    struct walk w = {.data = data, .size = size, .at = 2};
    enum hr_status status;
    const uint8_t *s = NULL;
    size_t total = 0;
    size_t n = 0;
    int code;

    while ((code = next_segment(&w, &s, &n, &status, NULL)) >= 0 && code != SOS) {
        if (!is_profile(code, s, n))
            continue;
        if (to != NULL)
            memcpy(to + total, s + ICC_HEAD, n - ICC_HEAD);
        total += n - ICC_HEAD;
    }
    return total;
}
