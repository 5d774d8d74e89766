/* sniff.h - what data is, judged by its first bytes. */
#ifndef HR_IMAGE_SNIFF_H
#define HR_IMAGE_SNIFF_H

#include <stddef.h>
#include <stdint.h>

enum hr__format {
    HR_FORMAT_NONE, /* no picture */
    HR_FORMAT_JPEG,
    HR_FORMAT_PNG,
    HR_FORMAT_WEBP,
    HR_FORMAT_GIF,
    HR_FORMAT_BMP,
    HR_FORMAT_TIFF,
    HR_FORMAT_AVIF,
    HR_FORMAT_OTHER, /* a picture of a kind that is not handled */
    HR_FORMAT_COUNT
};

/* *name: what the data looks like ("HTML", "GIF"), NULL when nothing is recognised. */
enum hr__format hr__sniff(const uint8_t *data, size_t size, const char **name);

#endif
