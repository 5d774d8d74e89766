/* Tags of a TIFF structure's first directory. Data that are damaged tell nothing, as if
 * the tag were not there. */
#include "image/exif.h"

#include <string.h>

#include "base/banned.h"

#define ENTRY_BYTES 12
#define TAG_ORIENTATION 0x112
#define TYPE_SHORT 3

uint32_t hr__exif_number(const uint8_t *at, int bytes, bool big)
{
    uint32_t value = 0;

    for (int i = 0; i < bytes; i++)
        value = value << 8 | at[big ? i : bytes - 1 - i];
    return value;
}

/* Bytes of a value; 0 for a type that is none. */
static size_t size_of(uint32_t type)
{
    static const uint8_t sizes[] = {0, 1, 1, 2, 4, 8, 1, 1, 2, 4, 8, 4, 8};

    return type < sizeof(sizes) ? sizes[type] : 0;
}

/* Values of up to 4 bytes lie in the entry itself. */
static bool read_entry(const uint8_t *data, size_t size, const uint8_t *entry, bool big,
                       struct hr__exif_tag *out)
{
    uint64_t bytes;
    uint32_t at;

    out->type = (int)hr__exif_number(entry + 2, 2, big);
    out->count = hr__exif_number(entry + 4, 4, big);
    out->values = entry + 8;
    out->big = big;
    bytes = (uint64_t)size_of((uint32_t)out->type) * out->count;
    if (bytes == 0)
        return false;
    if (bytes <= 4)
        return true;
    at = hr__exif_number(entry + 8, 4, big);
    out->values = data + at;
    return at <= size && bytes <= size - at;
}

bool hr__exif_find(const uint8_t *data, size_t size, uint32_t number,
                   struct hr__exif_tag *out)
{
    size_t entries;
    size_t at;
    bool big;

    if (size >= 6 && memcmp(data, "Exif\0\0", 6) == 0) {
        data += 6;
        size -= 6;
    }
    if (size < 8)
        return false;
    big = data[0] == 'M';
    if (memcmp(data, big ? "MM\0*" : "II*\0", 4) != 0)
        return false;
    at = hr__exif_number(data + 4, 4, big);
    if (at > size - 2)
        return false;
    entries = hr__exif_number(data + at, 2, big);
    for (at += 2; entries > 0 && size - at >= ENTRY_BYTES; entries--) {
        if (hr__exif_number(data + at, 2, big) == number)
            return read_entry(data, size, data + at, big, out);
        at += ENTRY_BYTES;
    }
    return false;
}

int hr__exif_orientation(const uint8_t *data, size_t size)
{
    struct hr__exif_tag tag;
    uint32_t value;

    if (!hr__exif_find(data, size, TAG_ORIENTATION, &tag) || tag.type != TYPE_SHORT)
        return 0;
    value = hr__exif_number(tag.values, 2, tag.big);
    return value <= 8 ? (int)value : 0;
}
