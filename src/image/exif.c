/* EXIF's orientation: tag 0x112 of the first directory of a TIFF structure. Data that
 * are damaged tell nothing, as if the tag were not there. */
#include "image/exif.h"

#include <stdbool.h>
#include <string.h>

#include "base/banned.h"

#define ENTRY_BYTES 12
#define TAG_ORIENTATION 0x112
#define TYPE_SHORT 3

struct tiff {
    const uint8_t *data;
    size_t size;
    bool big; /* big-endian */
};

static uint32_t number(const struct tiff *t, size_t at, int bytes)
{
    uint32_t value = 0;

    for (int i = 0; i < bytes; i++)
        value = value << 8 | t->data[at + (size_t)(t->big ? i : bytes - 1 - i)];
    return value;
}

int hr__exif_orientation(const uint8_t *data, size_t size)
{
    struct tiff t = {data, size, false};
    size_t entries;
    size_t at;

    if (t.size >= 6 && memcmp(t.data, "Exif\0\0", 6) == 0) {
        t.data += 6;
        t.size -= 6;
    }
    if (t.size < 8)
        return 0;
    t.big = t.data[0] == 'M';
    if (memcmp(t.data, t.big ? "MM\0*" : "II*\0", 4) != 0)
        return 0;
    at = number(&t, 4, 4);
    if (at > t.size - 2)
        return 0;
    entries = number(&t, at, 2);
    for (at += 2; entries > 0 && t.size - at >= ENTRY_BYTES; entries--) {
        if (number(&t, at, 2) == TAG_ORIENTATION) {
            uint32_t value = number(&t, at + 8, 2);

            if (number(&t, at + 2, 2) != TYPE_SHORT || value > 8)
                return 0;
            return (int)value;
        }
        at += ENTRY_BYTES;
    }
    return 0;
}
