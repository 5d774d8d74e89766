/* jpeg_mutate.h - changes to JPEG files, by one who knows their segments. */
#ifndef HR_TEST_JPEG_MUTATE_H
#define HR_TEST_JPEG_MUTATE_H

#include <stdint.h>

#include "pictures.h"

enum jpeg_mutation {
    MUTATE_BITS,     /* some bits, anywhere */
    MUTATE_DATA,     /* entropy-coded data: bits, bytes less or more, FF */
    MUTATE_CUT,      /* the end is missing, or a piece is */
    MUTATE_SEGMENTS, /* one moved, dropped, or there twice */
    MUTATE_INSERT,   /* a segment that was not there */
    MUTATE_CODES,    /* Huffman tables */
    MUTATE_QUANT,    /* quantisation tables */
    MUTATE_FRAME,    /* sizes, sampling factors, numbers of components and tables */
    MUTATE_RESTART,  /* restart interval and markers */
    MUTATE_STREAM,   /* data made anew, at random, by the tables that the file has */
    MUTATIONS
};

/* Change the file in one way of the kind. Where it lacks what is to be changed, it stays
 * as it is. */
void jpeg_mutate(struct blob *file, enum jpeg_mutation kind, uint32_t *seed);

/* Put `n` bytes in the place of `removed` at `at`. */
void blob_splice(struct blob *blob, size_t at, size_t removed, const void *bytes,
                 size_t n);

/* What MUTATE_STREAM does: MCUs as the frame, the scan and the restart interval say, of
 * symbols that the tables have. If `tame`, values are kept small and runs in their
 * blocks. Stops after bytes_max. */
void jpeg_write_stream(struct blob *file, bool tame, size_t bytes_max, uint32_t *seed);

/* The file's pieces: its segments, and what lies between them. */
struct jpeg_piece {
    uint8_t marker; /* 0: entropy-coded data, or whatever it is */
    size_t at;      /* of the marker's FF */
    size_t size;
};
#define JPEG_PIECES_MAX 64
int jpeg_pieces(const struct blob *file, struct jpeg_piece pieces[JPEG_PIECES_MAX]);

#endif
