/* The strangest JPEGs that the standard allows, made by hand, and some that it does not. */
#include <stdio.h>

#include "hr_test.h"
#include "jpeg_judge.h"
#include "jpeg_kinds.h"
#include "jpeg_mutate.h"

#define DHT 0xc4
#define SOF 0xc0
#define SOS 0xda
#define DQT 0xdb
#define JFIF 0xe0

static struct jpeg_judge *court;

static void expect(enum jpeg_verdict want, struct blob *blob)
{
    enum jpeg_verdict got = WRONG;

    for (uint32_t seed = 1; seed <= 5; seed++) {
        got = jpeg_judge_all(court, blob->data, blob->size, seed);
        if (got != want)
            break;
    }
    if (got == WRONG)
        printf("# %s\n", jpeg_judge_reason(court));
    HR_CHECK_EQ_INT(got, want);
    blob_free(blob);
}

/* 4:2:0 */
static struct blob plain(unsigned width, unsigned height)
{
    return picture(SMOOTH, width, height,
                   (struct how){.colours = 3, .h = 2, .v = 2, .quality = 90});
}

static void insert(struct blob *blob, uint8_t before, const void *bytes, size_t n)
{
    blob_splice(blob, marker_at(blob, before, 0), 0, bytes, n);
}

static void restart_every(struct blob *blob, unsigned mcus)
{
    uint8_t segment[6] = {0xff, 0xdd, 0, 4, (uint8_t)(mcus >> 8), (uint8_t)mcus};

    insert(blob, SOS, segment, 6);
}

static void set_size(struct blob *blob, unsigned width, unsigned height)
{
    uint8_t *p = blob->data + marker_at(blob, SOF, 0) + 5;

    p[0] = (uint8_t)(height >> 8);
    p[1] = (uint8_t)height;
    p[2] = (uint8_t)(width >> 8);
    p[3] = (uint8_t)width;
}

/* ---- Huffman tables ---- */

struct codes {
    int length; /* of all of them */
    uint8_t count;
    uint8_t symbol[16];
};

static void append_table(struct blob *to, uint8_t number, const struct codes *codes)
{
    uint8_t counts[16] = {0};

    counts[codes->length - 1] = codes->count;
    blob_append(to, &number, 1);
    blob_append(to, counts, 16);
    blob_append(to, codes->symbol, codes->count);
}

/* In the place of the file's own, under their numbers; and data that consist of them. */
static void use_codes(struct blob *blob, struct codes dc, struct codes ac)
{
    struct blob segment = {NULL, 0};
    uint32_t seed = 1;

    blob_append(&segment, "\xff\xc4\0", 4);
    for (uint8_t number = 0; number < 2; number++) {
        append_table(&segment, number, &dc);
        append_table(&segment, 0x10 | number, &ac);
    }
    segment.data[3] = (uint8_t)(segment.size - 2);
    for (size_t at; (at = marker_at(blob, DHT, 0)) < blob->size;)
        blob_splice(blob, at, 2 + (size_t)blob->data[at + 3], NULL, 0);
    insert(blob, SOS, segment.data, segment.size);
    jpeg_write_stream(blob, true, 1 << 20, &seed);
    blob_free(&segment);
}

/* Many small values. */
static void use_small_codes(struct blob *blob)
{
    use_codes(blob, (struct codes){2, 3, {0, 1, 2}},
              (struct codes){3, 7, {0, 0x01, 0x11, 0x02, 0xf0, 0x31, 0x21}});
}

/* 1 bit for each block's DC, 1 for its end. */
static void tables_of_one_code_of_one_bit(void)
{
    struct blob blob = plain(100, 60);

    use_codes(&blob, (struct codes){1, 1, {0}}, (struct codes){1, 1, {0}});
    expect(EQUAL, &blob);
}

/* Around the lookup's 10 bits, and at both ends. */
static void codes_that_all_have_the_same_length(void)
{
    for (int length = 4; length <= 16; length++) {
        struct blob blob = plain(100, 60);

        use_codes(
            &blob, (struct codes){length, 4, {0, 1, 2, 3}},
            (struct codes){length, 8, {0, 0x01, 0x11, 0x02, 0xf0, 0x31, 3, 0x21}});
        expect(EQUAL, &blob);
    }
}

/* Each has 63 coefficients. */
static void blocks_for_whose_end_there_is_no_code(void)
{
    struct blob blob = plain(50, 40);

    use_codes(&blob, (struct codes){2, 2, {0, 1}}, (struct codes){1, 1, {0x01}});
    expect(EQUAL, &blob);
}

static void runs_of_zeroes_before_the_end_of_a_block(void)
{
    struct blob blob = plain(90, 90);

    use_codes(&blob, (struct codes){2, 2, {0, 1}},
              (struct codes){3, 5, {0xf0, 0, 0xf0, 0xf0, 0x71}});
    expect(EQUAL, &blob);
}

/* Only coefficient 63, by three runs of 16 and one of 14. */
static void the_last_coefficient_alone(void)
{
    struct blob blob = plain(64, 64);

    use_codes(&blob, (struct codes){2, 2, {0, 1}},
              (struct codes){3, 3, {0xf0, 0xe1, 0}});
    expect(EQUAL, &blob);
}

/* Symbols that the lookup leaves to the rare road, and the largest there are. */
static void differences_of_eleven_bits(void)
{
    struct blob blob = plain(64, 64);
    size_t quant = marker_at(&blob, DQT, 0);

    memset(blob.data + quant + 5, 1, 64);
    use_codes(&blob, (struct codes){3, 5, {9, 11, 10, 9, 10}},
              (struct codes){2, 2, {0, 1}});
    expect(EQUAL, &blob);
}

static void tables_of_which_the_later_ones_count(void)
{
    struct blob blob = plain(60, 60);
    size_t at = marker_at(&blob, DHT, 0);
    static const uint8_t other[23] = {0xff, 0xc4, 0, 21, [6] = 2, [21] = 5, 6};

    blob_splice(&blob, at, 0, other, sizeof(other));
    expect(EQUAL, &blob);
}

/* Baseline files may have numbers 0 and 1; libjpeg does not mind. */
static void tables_of_the_highest_numbers(void)
{
    struct blob blob = plain(60, 60);
    size_t scan = marker_at(&blob, SOS, 0);

    for (int i = 0; i < 4; i++)
        blob.data[marker_at(&blob, DHT, i) + 4] |= 3;
    /* the later table of each class is that of chroma */
    blob.data[scan + 6] = blob.data[scan + 8] = blob.data[scan + 10] = 0x33;
    expect(LEFT, &blob); /* luma's codes are others than its data */
    blob = plain(60, 60);
    scan = marker_at(&blob, SOS, 0);
    for (int i = 2; i < 4; i++)
        blob.data[marker_at(&blob, DHT, i) + 4] |= 3;
    blob.data[scan + 8] = blob.data[scan + 10] = 0x33;
    expect(EQUAL, &blob);
}

/* ---- quantisation ---- */

static void a_quantisation_by_zero(void)
{
    struct blob blob = plain(60, 60);

    memset(blob.data + marker_at(&blob, DQT, 0) + 5, 0, 64);
    expect(EQUAL, &blob);
}

static void values_beyond_what_samples_can_give(void)
{
    struct blob blob = picture(
        SATURATED, 60, 60, (struct how){.colours = 1, .h = 1, .v = 1, .quality = 100});

    memset(blob.data + marker_at(&blob, DQT, 0) + 5, 255, 64);
    expect(LEFT, &blob);
}

/* ---- sizes ---- */

static void a_single_column_of_65500_lines(void)
{
    struct blob blob = plain(1, 1);

    set_size(&blob, 1, 65500);
    use_small_codes(&blob);
    expect(EQUAL, &blob);
}

static void a_single_line_of_65500_columns(void)
{
    struct blob blob = plain(1, 1);

    set_size(&blob, 65500, 1);
    use_small_codes(&blob);
    expect(EQUAL, &blob);
}

/* Markers in the middle of rows, at each place once. */
static void a_restart_interval_that_divides_no_row(void)
{
    struct blob blob = plain(190, 190);

    restart_every(&blob, 11);
    use_small_codes(&blob);
    expect(EQUAL, &blob);
}

static void a_restart_interval_longer_than_the_picture(void)
{
    struct blob blob = plain(60, 60);

    restart_every(&blob, 65535);
    expect(EQUAL, &blob);
}

/* The one of a DRI of 0 is as if there were none. */
static void a_restart_interval_of_zero_after_another(void)
{
    struct blob blob = plain(60, 60);

    restart_every(&blob, 1);
    restart_every(&blob, 0);
    expect(EQUAL, &blob);
}

/* ---- what is around the data ---- */

static void sixty_empty_segments(void)
{
    struct blob blob = plain(30, 30);

    for (uint8_t i = 0; i < 60; i++) {
        uint8_t segment[4] = {0xff, i % 15 == 14 ? 0xfe : 0xe1 + i % 13, 0, 2};

        insert(&blob, (uint8_t[]){SOF, SOS, DQT, DHT}[i % 4], segment, 4);
    }
    expect(EQUAL, &blob);
}

/* What looks like an end and a picture is a comment. */
static void a_comment_that_is_a_picture(void)
{
    struct blob blob = plain(30, 30);
    struct blob inner = plain(8, 8);
    uint8_t head[4] = {0xff, 0xfe, (uint8_t)((inner.size + 2) >> 8),
                       (uint8_t)(inner.size + 2)};

    blob_splice(&inner, 0, 0, head, 4);
    blob_splice(&blob, 2, 0, inner.data, inner.size);
    blob_free(&inner);
    expect(EQUAL, &blob);
}

static void a_second_picture_behind_the_end(void)
{
    struct blob blob = plain(30, 30);
    struct blob second = plain(60, 8);

    blob_append(&blob, second.data, second.size);
    blob_free(&second);
    expect(EQUAL, &blob);
}

/* JFIF says what the colours are, whatever the components are called. */
static void components_numbered_255_0_and_82(void)
{
    struct blob blob = plain(30, 30);
    size_t frame = marker_at(&blob, SOF, 0);
    size_t scan = marker_at(&blob, SOS, 0);
    static const uint8_t number[] = {255, 0, 82};

    for (size_t i = 0; i < 3; i++)
        blob.data[frame + 10 + 3 * i] = blob.data[scan + 5 + 2 * i] = number[i];
    expect(EQUAL, &blob);
}

static void two_components_of_one_number(void)
{
    struct blob blob = plain(30, 30);

    blob.data[marker_at(&blob, SOF, 0) + 16] = 2;
    blob.data[marker_at(&blob, SOS, 0) + 9] = 2;
    expect(LEFT, &blob);
}

static void jfif_and_an_adobe_segment_that_contradicts(void)
{
    static const uint8_t adobe[16] = "\xff\xee\0\x0e\101dobe\0\x64\0\0\0\0\0";
    struct blob blob = plain(30, 30);

    insert(&blob, SOF, adobe, 16);
    expect(EQUAL, &blob); /* JFIF has the word */
    blob = plain(30, 30);
    insert(&blob, SOF, adobe, 16);
    blob_splice(&blob, marker_at(&blob, JFIF, 0), 18, NULL, 0);
    expect(LEFT, &blob); /* without it, it is RGB */
}

/* ---- what the standard does not have, or that is too strange ---- */

/* The bits behind the last code are 1 by the standard. */
static void padding_of_zeroes(void)
{
    for (unsigned side = 1; side < 40; side++) {
        struct blob blob = plain(side, side);
        uint8_t *last = &blob.data[blob.size - 3];
        unsigned ones = 0;

        while (ones < 7 && (*last >> ones & 1))
            ones++;
        if (blob.data[blob.size - 4] != 0xff) /* else it is a stuffing's 0 */
            *last &= (uint8_t)(0xff << ones);
        expect(EQUAL, &blob);
    }
}

/* Any number of FF may stand before a marker. libjpeg reads on; we leave it. */
static void filling_before_markers(void)
{
    struct blob blob = plain(30, 30);

    insert(&blob, SOS, "\xff\xff\xff", 3);
    expect(LEFT, &blob);
    blob = plain(30, 30);
    blob_splice(&blob, blob.size - 2, 0, "\xff\xff\xff", 3);
    expect(LEFT, &blob);
}

/* The height comes behind the first scan (DNL). */
static void a_height_of_zero(void)
{
    struct blob blob = plain(30, 30);

    set_size(&blob, 30, 0);
    expect(LEFT, &blob);
}

static void two_frames_of_one_picture(void)
{
    struct blob blob = plain(30, 30);
    size_t frame = marker_at(&blob, SOF, 0);
    struct blob twice = blob_copy(&blob);

    blob_splice(&twice, frame, 0, blob.data + frame, 19);
    blob_free(&blob);
    expect(LEFT, &twice);
}

/* One for each component, as in a file that is not interleaved; the others are missing. */
static void a_scan_of_one_component_of_three(void)
{
    struct blob blob = plain(30, 30);

    blob_splice(&blob, marker_at(&blob, SOS, 0), 14, "\xff\xda\0\x08\1\1\0\0\x3f", 10);
    expect(LEFT, &blob);
}

static const struct hr_test tests[] = {
    HR_TEST(tables_of_one_code_of_one_bit),
    HR_TEST(codes_that_all_have_the_same_length),
    HR_TEST(blocks_for_whose_end_there_is_no_code),
    HR_TEST(runs_of_zeroes_before_the_end_of_a_block),
    HR_TEST(the_last_coefficient_alone),
    HR_TEST(differences_of_eleven_bits),
    HR_TEST(tables_of_which_the_later_ones_count),
    HR_TEST(tables_of_the_highest_numbers),
    HR_TEST(a_quantisation_by_zero),
    HR_TEST(values_beyond_what_samples_can_give),
    HR_TEST(a_single_column_of_65500_lines),
    HR_TEST(a_single_line_of_65500_columns),
    HR_TEST(a_restart_interval_that_divides_no_row),
    HR_TEST(a_restart_interval_longer_than_the_picture),
    HR_TEST(a_restart_interval_of_zero_after_another),
    HR_TEST(sixty_empty_segments),
    HR_TEST(a_comment_that_is_a_picture),
    HR_TEST(a_second_picture_behind_the_end),
    HR_TEST(components_numbered_255_0_and_82),
    HR_TEST(two_components_of_one_number),
    HR_TEST(jfif_and_an_adobe_segment_that_contradicts),
    HR_TEST(padding_of_zeroes),
    HR_TEST(filling_before_markers),
    HR_TEST(a_height_of_zero),
    HR_TEST(two_frames_of_one_picture),
    HR_TEST(a_scan_of_one_component_of_three),
};

int main(int argc, char **argv)
{
    int failed;

    court = jpeg_judge_new();
    failed = hr_test_main(tests, sizeof(tests) / sizeof(tests[0]), argc, argv);
    jpeg_judge_free(&court);
    return failed;
}
