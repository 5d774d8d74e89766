/* jpeg_judge.h - our decoder of baseline JPEGs before libjpeg: does it take what it
 * should, and are the samples the same? Shared by a test and a fuzz target. */
#ifndef HR_TEST_JPEG_JUDGE_H
#define HR_TEST_JPEG_JUDGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum jpeg_verdict {
    LEFT,  /* not taken */
    EQUAL, /* taken, and libjpeg takes it without a warning, with the same samples */
    WRONG
};

/* Larger pictures are LEFT without a look at their data. */
#define JUDGE_PIXELS_MAX (1 << 18)

struct jpeg_judge;

/* Never NULL: without memory the program ends. */
struct jpeg_judge *jpeg_judge_new(void);
void jpeg_judge_free(struct jpeg_judge **judge);

/* What is asked for: columns of luma, rows of MCUs, planes. */
struct jpeg_region {
    uint32_t left;
    uint32_t right;
    uint32_t first;
    uint32_t end;
    int planes;
    bool stops; /* at `end`; else all is read and judged */
};

/* Decode the whole picture by both variants of our decoder. WRONG, if
 *   - one variant takes what the other one leaves,
 *   - libjpeg has an error or a warning up to where we read,
 *   - its samples or its sizes are others,
 *   - samples are written that are not needed, or behind the room of a row. */
enum jpeg_verdict jpeg_judge(struct jpeg_judge *judge, const uint8_t *data,
                             size_t size);

/* The same for a region of it. LEFT where there is none such. */
enum jpeg_verdict jpeg_judge_region(struct jpeg_judge *judge, const uint8_t *data,
                                    size_t size, const struct jpeg_region *region);

/* The same for all of it, and for some regions that the seed chooses. The verdict is that
 * on the whole; WRONG too, if a region is left of what is taken. */
enum jpeg_verdict jpeg_judge_all(struct jpeg_judge *judge, const uint8_t *data,
                                 size_t size, uint32_t seed);

/* What was wrong last. */
const char *jpeg_judge_reason(const struct jpeg_judge *judge);

#endif
