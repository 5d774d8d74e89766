/* pictures.h - pictures made for tests, and short ways to load them. */
#ifndef HR_TEST_PICTURES_H
#define HR_TEST_PICTURES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "headrace/headrace.h"

/* Encoded bytes; freed by blob_free. */
struct blob {
    uint8_t *data;
    size_t size;
};

void blob_free(struct blob *blob);
void blob_append(struct blob *blob, const void *bytes, size_t n);
struct blob blob_copy(const struct blob *blob);

enum colour { GREY = 1, RGB = 3, CMYK = 4, YCCK = 5 };

struct jpeg_how {
    enum colour colour;
    int h; /* sampling factors of the first component (0: 1); the others have 1 x 1 */
    int v;
    bool progressive;
    bool arithmetic;
    int restart_rows; /* restart marker every so many rows of blocks */
    int scans;        /* > 1: that many scans, each with a single coefficient */
    int quality;      /* 0: 100 */
};

/* samples: rows of width * components bytes, as the colour says (CMYK and YCCK: four,
 * written as they are). */
struct blob jpeg_of(const uint8_t *samples, unsigned width, unsigned height,
                    struct jpeg_how how);

/* rows: packed as PNG stores them, rowbytes each; palette: RGB triples or NULL;
 * trns: alpha of the first palette entries, or NULL. */
struct png_how {
    int depth;
    int type;
    bool interlaced;
    const uint8_t *palette;
    int colours;
    const uint8_t *trns;
    int trns_count;
    uint8_t orientation; /* EXIF's; 0: none is said */
};
struct blob png_of(const uint8_t *rows, size_t rowbytes, unsigned width,
                   unsigned height, struct png_how how);

/* The offset of the n-th (from 0) marker 0xff `code`; the size when there is none. */
size_t marker_at(const struct blob *blob, uint8_t code, int n);

/* A bytes value that borrows the blob. */
struct hr_value bytes_of(const struct blob *blob);
struct hr_value text_of(const char *text);
/* The path of a file in tests/data. */
#define DATA(name) HR_TEST_DATA "/" name

/* Load with a context of its own; NULL for default options. */
enum hr_status load_blob(const struct blob *blob,
                         const struct hr_image_options *options, struct hr_array **out,
                         struct hr_error *err);
enum hr_status load_path(const char *path, const struct hr_image_options *options,
                         struct hr_array **out, struct hr_error *err);

/* The three bytes of a pixel as 0xrrggbb. */
uint32_t pixel_at(const struct hr_array *array, int64_t x, int64_t y);
bool same_pixels(const struct hr_array *a, const struct hr_array *b);

/* n samples of the sequence from seed on; 8 bits each. */
void fill_random(uint8_t *samples, size_t n, uint32_t seed);
/* A repeatable sequence. */
uint32_t next_random(uint32_t *state);

#endif
