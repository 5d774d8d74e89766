/* Formats by their first bytes. Besides those that are decoded, the table knows what
 * turns up under the name of a picture, for the message. */
#include "image/sniff.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

#include "base/banned.h"

struct signature {
    size_t at;
    size_t length;
    const char *bytes;
    enum hr__format format;
    const char *name;
};

static const struct signature signatures[] = {
    {0, 2, "\xff\xd8", HR_FORMAT_JPEG, "JPEG"},
    {0, 8, "\x89PNG\r\n\x1a\n", HR_FORMAT_PNG, "PNG"},
    {0, 4, "GIF8", HR_FORMAT_GIF, "GIF"},
    {8, 4, "WEBP", HR_FORMAT_WEBP, "WebP"},
    {0, 2, "BM", HR_FORMAT_BMP, "BMP"},
    {0, 4, "II*\0", HR_FORMAT_TIFF, "TIFF"},
    {0, 4, "MM\0*", HR_FORMAT_TIFF, "TIFF"},
    {0, 4, "II+\0", HR_FORMAT_TIFF, "TIFF"},
    {0, 4, "MM\0+", HR_FORMAT_TIFF, "TIFF"},
    {4, 8, "ftypavif", HR_FORMAT_AVIF, "AVIF"},
    {4, 8, "ftypavis", HR_FORMAT_AVIF, "AVIF"},
    {4, 8, "ftypheic", HR_FORMAT_OTHER, "HEIC"},
    {0, 12, "\0\0\0\x0cJXL \r\n\x87\n", HR_FORMAT_OTHER, "JPEG XL"},
    {0, 12, "\0\0\0\x0cjP  \r\n\x87\n", HR_FORMAT_OTHER, "JPEG 2000"},
    {0, 4, "PK\3\4", HR_FORMAT_NONE, "a zip archive"},
    {0, 2, "\x1f\x8b", HR_FORMAT_NONE, "gzip"},
    {0, 5, "%PDF-", HR_FORMAT_NONE, "PDF"},
    {4, 4, "ftyp", HR_FORMAT_NONE, "MP4"},
    {257, 5, "ustar", HR_FORMAT_NONE, "a tar archive"},
};

/* start is in lower case. */
static bool starts_with(const uint8_t *data, size_t size, const char *start)
{
    size_t i = 0;

    while (i < size && start[i] != '\0' && tolower(data[i]) == start[i])
        i++;
    return start[i] == '\0';
}

/* Text formats, in any case, after white space. */
static const char *markup(const uint8_t *data, size_t size)
{
    static const struct {
        const char *start;
        const char *name;
    } kinds[] = {{"<!doctype html", "HTML"},
                 {"<html", "HTML"},
                 {"<head", "HTML"},
                 {"<svg", "SVG"},
                 {"<?xml", "XML"},
                 {"{\"", "JSON"},
                 {"version https://git-lfs", "a Git LFS pointer"}};

    while (size > 0 && isspace(*data)) {
        data++;
        size--;
    }
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (starts_with(data, size, kinds[i].start))
            return kinds[i].name;
    return NULL;
}

/* Nothing but printable ASCII at the start. */
static bool is_text(const uint8_t *data, size_t size)
{
    size_t n = size < 64 ? size : 64;

    for (size_t i = 0; i < n; i++)
        if (!isprint(data[i]) && !isspace(data[i]))
            return false;
    return n > 0;
}

enum hr__format hr__sniff(const uint8_t *data, size_t size, const char **name)
{
    for (size_t i = 0; i < sizeof(signatures) / sizeof(signatures[0]); i++) {
        const struct signature *s = &signatures[i];

        if (size >= s->at + s->length &&
            memcmp(data + s->at, s->bytes, s->length) == 0) {
            *name = s->name;
            return s->format;
        }
    }
    *name = markup(data, size);
    if (*name == NULL && is_text(data, size))
        *name = "text";
    return HR_FORMAT_NONE;
}
