/* baseline_entropy.h - from bits to the coefficients of blocks. */
#ifndef HR_IMAGE_BASELINE_ENTROPY_H
#define HR_IMAGE_BASELINE_ENTROPY_H

#include "image/baseline_codes.h"

#define HR_MCU_BLOCKS 10 /* at most, by the standard */
/* Zero bytes behind a segment: more than an MCU can take. */
#define HR_SEGMENT_SLACK 4096

/* Copy entropy-coded data without its stuffing, up to a marker or the end. out has room
 * for size bytes. *used: how many of `in` were read: in[*used] is the FF of a marker, or
 * *used == size. Returns the bytes written. */
size_t hr__baseline_unstuff(const uint8_t *in, size_t size, uint8_t *out, size_t *used);

/* A segment without stuffing, followed by HR_SEGMENT_SLACK zeroes; being read. */
struct hr__bits {
    uint64_t word;  /* the next bits, from the top */
    unsigned count; /* how many of them are sure */
    const uint8_t *next;
    const uint8_t *end; /* of the segment */
};

void hr__bits_begin(struct hr__bits *bits, const uint8_t *segment, size_t size);
/* Bits not yet used; negative: more were used than there are. */
int64_t hr__bits_left(const struct hr__bits *bits);

/* Consecutive blocks of an MCU that have the same tables. */
#define HR_GROUP_BLOCKS 4 /* at most */

struct hr__baseline_group {
    const struct hr__codes *codes;
    int blocks;
};

/* Where coefficients are put. A position in a group is counted up to 0: it is
 * 256 * (block - blocks) + (number in the scan). The table has the coefficient's place, in
 * natural order, from the end of the group's blocks. */
#define HR_BLOCK_POSITIONS 256
#define HR_POSITIONS ((size_t)HR_GROUP_BLOCKS * HR_BLOCK_POSITIONS)
void hr__entropy_fill_places(int16_t place[HR_POSITIONS]);

/* What an MCU consists of. */
struct hr__baseline_mcu {
    struct hr__baseline_group group[HR_MCU_BLOCKS];
    int groups;
    unsigned blocks;
    /* the same for all pictures */
    int16_t place[HR_POSITIONS];         /* of hr__entropy_fill_places */
    int16_t extended[HR_EXTENDED_COUNT]; /* of hr__codes_fill_extended */
};

/* Decode n MCUs to coef, which is all 0 before: n * blocks * 64. DC coefficients are
 * still differences. False: data that is wrong, or not handled.
 * Both variants give the same. */
typedef bool (*hr__baseline_decode_fn)(struct hr__bits *bits,
                                       const struct hr__baseline_mcu *mcu,
                                       int16_t *coef, int n);
bool hr__baseline_decode_portable(struct hr__bits *bits,
                                  const struct hr__baseline_mcu *mcu, int16_t *coef,
                                  int n);
#if defined(__x86_64__)
bool hr__baseline_decode_bmi2(struct hr__bits *bits, const struct hr__baseline_mcu *mcu,
                              int16_t *coef, int n);
#endif

#endif
