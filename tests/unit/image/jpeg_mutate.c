/* A file is a row of pieces (jpeg_pieces), and each change one splice, or some. */
#include "jpeg_mutate.h"

#include <stdlib.h>
#include <string.h>

#define BYTES_MAX 6000 /* of data that is made anew */

static uint32_t below(uint32_t n, uint32_t *seed)
{
    return next_random(seed) % n;
}

static uint8_t byte_of(uint32_t *seed)
{
    static const uint8_t likely[] = {0, 1, 2, 0x0f, 0x10, 0x11, 0x7f, 0x80, 0xf0, 0xff};

    return below(2, seed) ? likely[below(sizeof(likely), seed)]
                          : (uint8_t)next_random(seed);
}

void blob_splice(struct blob *blob, size_t at, size_t removed, const void *bytes,
                 size_t n)
{
    struct blob out = {NULL, 0};

    if (blob->size == 0) {
        blob_append(blob, bytes, n);
        return;
    }
    if (at > blob->size)
        at = blob->size;
    if (removed > blob->size - at)
        removed = blob->size - at;
    blob_append(&out, blob->data, at);
    blob_append(&out, bytes, n);
    blob_append(&out, blob->data + at + removed, blob->size - at - removed);
    blob_free(blob);
    *blob = out;
}

/* ---- pieces ---- */

static bool is_alone(uint8_t marker)
{
    return marker == 0x01 || (marker >= 0xd0 && marker <= 0xd9);
}

static size_t data_size(const uint8_t *p, size_t size)
{
    for (size_t i = 0; i + 1 < size; i++)
        if (p[i] == 0xff && p[i + 1] != 0)
            return i;
    return size;
}

int jpeg_pieces(const struct blob *file, struct jpeg_piece pieces[JPEG_PIECES_MAX])
{
    size_t at = 0;
    int n = 0;

    while (at < file->size && n < JPEG_PIECES_MAX) {
        const uint8_t *p = file->data + at;
        size_t left = file->size - at;
        struct jpeg_piece piece = {0, at, left};

        if (left < 2 || p[0] != 0xff || p[1] == 0) {
            piece.size = data_size(p, left);
        } else if (is_alone(p[1])) {
            piece = (struct jpeg_piece){p[1], at, 2};
        } else if (left >= 4) {
            size_t size = 2 + ((size_t)p[2] << 8 | p[3]);

            piece = (struct jpeg_piece){p[1], at, size < left ? size : left};
        }
        if (n == JPEG_PIECES_MAX - 1)
            piece.size = left;
        pieces[n++] = piece;
        at += piece.size;
    }
    return n;
}

/* One of the pieces with this marker. False: there is none. */
static bool find(const struct blob *file, uint8_t marker, uint32_t *seed,
                 struct jpeg_piece *out)
{
    struct jpeg_piece pieces[JPEG_PIECES_MAX];
    int n = jpeg_pieces(file, pieces);
    uint32_t found = 0;

    for (int i = 0; i < n; i++)
        if (pieces[i].marker == marker && pieces[i].size > 0 &&
            below(++found, seed) == 0)
            *out = pieces[i];
    return found > 0;
}

static bool is_frame(uint8_t marker)
{
    return marker == 0xc0 || marker == 0xc1;
}

/* The frame's first byte behind its length, if all of it is there. */
static uint8_t *find_frame(const struct blob *file, size_t *components)
{
    struct jpeg_piece pieces[JPEG_PIECES_MAX];
    int n = jpeg_pieces(file, pieces);

    for (int i = 0; i < n; i++) {
        uint8_t *p = file->data + pieces[i].at + 4;

        if (!is_frame(pieces[i].marker) || pieces[i].size < 10)
            continue;
        *components = p[5];
        if (p[5] > 0 && pieces[i].size >= 10 + 3 * (size_t)p[5])
            return p;
    }
    return NULL;
}

/* ---- what does not look at tables ---- */

static void flip(uint8_t *bytes, size_t size, uint32_t *seed)
{
    for (uint32_t n = 1 + below(3, seed); n > 0 && size > 0; n--)
        bytes[below((uint32_t)size, seed)] ^= (uint8_t)(1U << below(8, seed));
}

static void change_data(struct blob *file, uint32_t *seed)
{
    struct jpeg_piece piece;
    uint8_t bytes[2] = {0xff, 0};
    size_t at;

    if (!find(file, 0, seed, &piece))
        return;
    at = piece.at + below((uint32_t)piece.size, seed);
    switch (below(6, seed)) {
    case 0:
        blob_splice(file, at, 1 + below(4, seed), NULL, 0);
        break;
    case 1:
        blob_splice(file, at, below(2, seed), bytes, 2); /* a stuffed FF */
        break;
    case 2:
        bytes[below(2, seed)] = byte_of(seed);
        blob_splice(file, at, below(3, seed), bytes, 2);
        break;
    default:
        flip(file->data + piece.at, piece.size, seed);
    }
}

static void cut(struct blob *file, uint32_t *seed)
{
    size_t at = below((uint32_t)file->size, seed);
    size_t most = file->size - at;

    if (below(2, seed))
        blob_splice(file, at, most, NULL, 0);
    else
        blob_splice(file, at, 1 + below((uint32_t)most, seed), NULL, 0);
}

static void move_segment(struct blob *file, uint32_t *seed)
{
    struct jpeg_piece pieces[JPEG_PIECES_MAX];
    uint32_t n = (uint32_t)jpeg_pieces(file, pieces);
    struct jpeg_piece a = pieces[below(n, seed)];
    struct jpeg_piece b = pieces[below(n, seed)];
    struct blob moved = {NULL, 0};
    uint32_t how = below(3, seed);

    blob_append(&moved, file->data + a.at, a.size);
    if (how > 0 && b.at > a.at) /* the later place first: the other one stays */
        blob_splice(file, b.at, 0, moved.data, moved.size);
    if (how < 2)
        blob_splice(file, a.at, a.size, NULL, 0);
    if (how > 0 && b.at <= a.at)
        blob_splice(file, b.at, 0, moved.data, moved.size);
    blob_free(&moved);
}

static void insert_segment(struct blob *file, uint32_t *seed)
{
    static const uint8_t segments[][18] = {
        "\xff\xdd\0\4\0\3",
        "\xff\xfe\0\6abcd",
        "\xff\xe0\0\x10JFIF\0\1\1\0\0\1\0\1\0",
        "\xff\xee\0\x0e\101dobe\0\x64\0\0\0\0\1",
        "\xff\xe1\0\7Exif",
        "\xff\xdc\0\4\0\x10", /* DNL */
        "\xff\x01\xff\xd8",   /* TEM, SOI: no segments */
        "\xff\xdf\0\3\x11",   /* EXP */
        "\xff\xcc\0\4\0\1",   /* DAC */
    };
    static const uint8_t sizes[] = {6, 8, 18, 16, 9, 6, 4, 5, 6};
    struct jpeg_piece pieces[JPEG_PIECES_MAX];
    uint32_t n = (uint32_t)jpeg_pieces(file, pieces);
    struct jpeg_piece before = pieces[below(n, seed)];
    uint32_t which = below(sizeof(sizes), seed);

    blob_splice(file, before.at, 0, segments[which], sizes[which]);
    if (below(2, seed))
        file->data[before.at + 3 + below(sizes[which] - 3U, seed)] = byte_of(seed);
}

/* ---- tables ---- */

/* One table of a DHT segment: its class and number, 16 counts, symbols. */
static bool find_codes(const struct blob *file, uint32_t *seed, size_t *at,
                       size_t *symbols)
{
    struct jpeg_piece piece;
    uint32_t found = 0;
    size_t p;

    if (!find(file, 0xc4, seed, &piece))
        return false;
    p = piece.at + 4;
    while (p + 17 < piece.at + piece.size) {
        size_t sum = 0;

        for (int i = 1; i <= 16; i++)
            sum += file->data[p + (size_t)i];
        if (sum == 0 || p + 17 + sum > piece.at + piece.size)
            break;
        if (below(++found, seed) == 0) {
            *at = p;
            *symbols = sum;
        }
        p += 17 + sum;
    }
    return found > 0;
}

/* Counts of a random prefix code of `symbols` codes, that has room for one more. */
static void random_counts(uint8_t counts[16], size_t symbols, uint32_t *seed)
{
    uint32_t room = 1U << 16; /* in codes of 16 bits */
    uint32_t longest = 6 + below(11, seed);

    memset(counts, 0, 16);
    for (uint32_t left = (uint32_t)symbols; left > 0; left--) {
        uint32_t length = 1 + below(longest, seed);

        while (length < 16 && room - (1U << (16 - length)) < left)
            length++;
        room -= 1U << (16 - length);
        counts[length - 1]++;
    }
}

static void change_codes(struct blob *file, uint32_t *seed)
{
    size_t at = 0;
    size_t symbols = 0;
    uint8_t *counts;
    uint8_t *symbol;
    uint32_t a = below(16, seed);
    uint32_t b = below(16, seed);

    if (!find_codes(file, seed, &at, &symbols))
        return;
    counts = file->data + at + 1;
    symbol = counts + 16;
    switch (below(6, seed)) {
    case 0: /* a code of another length */
        if (counts[a] > 0) {
            counts[a]--;
            counts[b]++;
        }
        break;
    case 1: /* anything */
        counts[a] = byte_of(seed);
        break;
    case 2:
        random_counts(counts, symbols, seed);
        break;
    case 3:
        for (size_t i = 0; i < symbols; i++)
            symbol[i] = file->data[at] & 0x10 ? (uint8_t)next_random(seed)
                                              : (uint8_t)below(12, seed);
        random_counts(counts, symbols, seed);
        break;
    case 4:
        file->data[at] = byte_of(seed);
        break;
    default:
        symbol[below((uint32_t)symbols, seed)] = byte_of(seed);
    }
}

static void change_quant(struct blob *file, uint32_t *seed)
{
    struct jpeg_piece piece;
    uint8_t value = byte_of(seed);
    size_t from = 4;

    if (!find(file, 0xdb, seed, &piece) || piece.size < 6)
        return;
    from += below((uint32_t)piece.size - 4, seed);
    if (below(2, seed)) /* or all of them */
        piece.size = from + 1;
    else
        from = 5;
    for (size_t i = from; i < piece.size; i++)
        file->data[piece.at + i] = value;
}

static void change_frame(struct blob *file, uint32_t *seed)
{
    static const uint8_t factors[] = {0x11, 0x12, 0x21, 0x22, 0x41, 0x14, 0x42,
                                      0x24, 0x44, 0x13, 0x31, 0x33, 0x10, 0x81};
    struct jpeg_piece scan;
    size_t components;
    uint8_t *p = find_frame(file, &components);
    uint8_t *c;

    if (p == NULL)
        return;
    c = p + 6 + 3 * below((uint32_t)components, seed);
    switch (below(7, seed)) {
    case 0:
        p[2 * below(2, seed) + 2] = (uint8_t)(1 + below(80, seed));
        break;
    case 1:
        c[2] = (uint8_t)below(5, seed);
        break;
    case 2:
        if (find(file, 0xda, seed, &scan))
            file->data[scan.at + below((uint32_t)scan.size, seed)] = byte_of(seed);
        break;
    case 3:
        p[below(6, seed)] = byte_of(seed);
        break;
    case 4:
        p[-3] = below(2, seed) ? 0xc1 : byte_of(seed);
        break;
    default:
        c[1] = factors[below(sizeof(factors), seed)];
    }
}

static void change_restart(struct blob *file, uint32_t *seed)
{
    struct jpeg_piece piece;
    uint8_t marker = (uint8_t)(0xd0 + below(8, seed));
    uint8_t bytes[2] = {0xff, marker};

    switch (below(4, seed)) {
    case 0:
        if (find(file, 0xdd, seed, &piece) && piece.size == 6)
            file->data[piece.at + 5] = (uint8_t)below(9, seed);
        break;
    case 1:
        if (find(file, marker, seed, &piece))
            file->data[piece.at + 1] = (uint8_t)(0xd0 + below(10, seed));
        break;
    case 2:
        if (find(file, marker, seed, &piece))
            blob_splice(file, piece.at, 2, NULL, 0);
        break;
    default:
        if (find(file, 0, seed, &piece))
            blob_splice(file, piece.at + below((uint32_t)piece.size, seed), 0, bytes,
                        2);
    }
}

void jpeg_mutate(struct blob *file, enum jpeg_mutation kind, uint32_t *seed)
{
    if (file->size == 0)
        return;
    switch (kind) {
    case MUTATE_BITS:
        flip(file->data, file->size, seed);
        return;
    case MUTATE_DATA:
        change_data(file, seed);
        return;
    case MUTATE_CUT:
        cut(file, seed);
        return;
    case MUTATE_SEGMENTS:
        move_segment(file, seed);
        return;
    case MUTATE_INSERT:
        insert_segment(file, seed);
        return;
    case MUTATE_CODES:
        change_codes(file, seed);
        return;
    case MUTATE_QUANT:
        change_quant(file, seed);
        return;
    case MUTATE_FRAME:
        change_frame(file, seed);
        return;
    case MUTATE_RESTART:
        change_restart(file, seed);
        return;
    case MUTATE_STREAM:
        jpeg_write_stream(file, below(4, seed) > 0, BYTES_MAX, seed);
        return;
    case MUTATIONS:
        return;
    }
}
