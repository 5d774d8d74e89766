/* Our decoder of baseline JPEGs against libjpeg: the same planes, and no file taken that
 * libjpeg complains about. Every comparison is made with both variants of the decoder. */
#include <stdio.h>

#include "hr_test.h"
#include "image/baseline.h"
#include "jpeg_judge.h"
#include "jpeg_kinds.h"

static struct jpeg_judge *court;

static enum jpeg_verdict judge(const struct blob *blob)
{
    return jpeg_judge(court, blob->data, blob->size);
}

static void expect(enum jpeg_verdict want_verdict, const struct blob *blob,
                   const char *what, struct how how, unsigned width, unsigned height)
{
    enum jpeg_verdict verdict = judge(blob);

    if (verdict == want_verdict)
        return;
    printf("# %s, %ux%u, %d components %dx%d, quality %d, restart %u: %s\n", what,
           width, height, how.colours, how.h, how.v, how.quality, how.restart,
           verdict == LEFT ? "left to libjpeg" : jpeg_judge_reason(court));
    HR_CHECK(verdict == want_verdict);
}

/* ---- the same samples ---- */

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define QUALITY_STEP 9
#else
#define QUALITY_STEP 1
#endif

/* Kinds and optimised tables go round within it. */
static void every_sampling_quality_and_odd_size(void)
{
    unsigned n = 0;

    for (size_t s = 0; s < SAMPLINGS; s++)
        for (int quality = 1; quality <= 100; quality += QUALITY_STEP)
            for (unsigned side = 1; side <= 64; side += 2, n++) {
                struct how how = samplings[s];
                unsigned height = 1 + (n * 29) % 64;
                struct blob blob;

                how.quality = quality;
                how.optimised = n % 3 == 0;
                blob = picture((enum kind)(n % KINDS), side, height, how);
                expect(EQUAL, &blob, "size", how, side, height);
                blob_free(&blob);
            }
}

static void every_restart_interval(void)
{
    for (size_t s = 0; s < SAMPLINGS; s++)
        for (unsigned restart = 1; restart <= 20; restart++) {
            struct how how = samplings[s];
            struct blob blob;

            how.quality = 85;
            how.restart = restart;
            blob = picture(SMOOTH, 150, 130, how);
            expect(EQUAL, &blob, "restart", how, 150, 130);
            blob_free(&blob);
        }
}

static void large_pictures_of_every_kind(void)
{
    for (size_t s = 0; s < SAMPLINGS; s++)
        for (int kind = 0; kind < KINDS; kind++)
            for (int optimised = 0; optimised < 2; optimised++) {
                struct how how = samplings[s];
                struct blob blob;

                how.quality = kind == SATURATED ? 97 : 90;
                how.optimised = optimised;
                blob = picture((enum kind)kind, KIND_SIDE_MAX - 1, KIND_SIDE_MAX, how);
                expect(EQUAL, &blob, "large", how, KIND_SIDE_MAX - 1, KIND_SIDE_MAX);
                blob_free(&blob);
            }
}

/* ---- regions ---- */

static void expect_region(const struct blob *blob, struct jpeg_region region)
{
    enum jpeg_verdict verdict =
        jpeg_judge_region(court, blob->data, blob->size, &region);

    if (verdict == EQUAL)
        return;
    printf("# columns %u to %u, rows %u to %u, %d planes: %s\n", region.left,
           region.right, region.first, region.end, region.planes,
           verdict == LEFT ? "left" : jpeg_judge_reason(court));
    HR_CHECK(verdict == EQUAL);
}

/* 21 MCUs and more of 8 samples: two chunks of 16 MCUs. */
static void every_range_of_columns_is_a_part_of_the_whole(void)
{
    for (size_t s = 0; s < SAMPLINGS; s++) {
        struct how how = samplings[s];
        struct blob blob;

        how.quality = 90;
        how.restart = s % 2 ? 3 : 0;
        blob = picture(NOISE, 175, 16, how);
        for (uint32_t left = 0; left < 175; left += 3)
            for (uint32_t right = left + 1; right <= 175; right += 7)
                expect_region(&blob, (struct jpeg_region){.left = left,
                                                          .right = right,
                                                          .end = 1,
                                                          .planes = how.colours});
        blob_free(&blob);
    }
}

/* With what follows them, and without: that then is not looked at. */
static void every_range_of_rows_is_a_part_of_the_whole(void)
{
    for (size_t s = 0; s < SAMPLINGS; s++) {
        struct how how = samplings[s];
        uint32_t rows = (95 + 8 * (uint32_t)how.v - 1) / (8 * (uint32_t)how.v);
        struct blob blob;

        how.quality = 90;
        how.restart = s % 2 ? 0 : 4;
        blob = picture(SMOOTH, 60, 95, how);
        for (uint32_t first = 0; first < rows; first++)
            for (uint32_t end = first + 1; end <= rows; end++)
                for (int stops = 0; stops < 2; stops++)
                    expect_region(&blob, (struct jpeg_region){.right = 60,
                                                              .first = first,
                                                              .end = end,
                                                              .planes = how.colours,
                                                              .stops = stops});
        blob_free(&blob);
    }
}

/* The next picture is not the worse for it. */
static void planes_that_nobody_needs_are_left_alone(void)
{
    struct how how = {.colours = 3, .h = 2, .v = 2, .quality = 90};
    struct blob blob = picture(NOISE, 60, 32, how);

    for (int planes = 0; planes <= 3; planes++)
        expect_region(&blob,
                      (struct jpeg_region){.right = 60, .end = 2, .planes = planes});
    HR_CHECK(judge(&blob) == EQUAL);
    blob_free(&blob);
}

/* ---- the same judgement ---- */

static void files_that_end_early_are_left(void)
{
    struct how how = {.colours = 3, .h = 2, .v = 2, .quality = 60, .restart = 3};
    struct blob blob = picture(SMOOTH, 50, 40, how);

    HR_CHECK(judge(&blob) == EQUAL);
    for (size_t size = 0; size < blob.size; size++) {
        struct blob cut = {blob.data, size};

        HR_CHECK(judge(&cut) == LEFT);
    }
    blob_append(&blob, "behind the end", 14);
    HR_CHECK(judge(&blob) == EQUAL);
    blob_free(&blob);
}

/* Replace the byte at `offset` of the n-th marker's segment. */
static void expect_changed(const struct blob *blob, uint8_t marker, size_t offset,
                           uint8_t value, enum jpeg_verdict verdict)
{
    struct blob changed = blob_copy(blob);
    size_t at = marker_at(&changed, marker, 0);

    HR_REQUIRE(at + offset < changed.size);
    changed.data[at + offset] = value;
    HR_CHECK_EQ_INT(judge(&changed), verdict);
    blob_free(&changed);
}

static void what_is_unusual_is_left(void)
{
    struct how how = {.colours = 3, .h = 2, .v = 2, .quality = 90};
    struct blob blob = picture(SMOOTH, 33, 33, how);

    HR_CHECK(judge(&blob) == EQUAL);
    expect_changed(&blob, 0xc0, 1, 0xc1, EQUAL); /* extended sequential: the same */
    expect_changed(&blob, 0xc0, 1, 0xc2, LEFT);  /* progressive */
    expect_changed(&blob, 0xc0, 1, 0xc9, LEFT);  /* arithmetic */
    expect_changed(&blob, 0xc0, 4, 12, LEFT);    /* bits of a sample */
    expect_changed(&blob, 0xc0, 6, 0, LEFT);     /* height 0: comes later, by DNL */
    expect_changed(&blob, 0xc0, 9, 4, LEFT);     /* components */
    expect_changed(&blob, 0xc0, 11, 0x31, LEFT); /* factor 3 */
    expect_changed(&blob, 0xc0, 14, 0x21, LEFT); /* chroma of 2 blocks */
    expect_changed(&blob, 0xc0, 12, 3, LEFT);    /* no such quantisation table */
    expect_changed(&blob, 0xdb, 4, 0x10, LEFT);  /* a table of 16-bit values */
    expect_changed(&blob, 0xda, 12, 62, LEFT);   /* fewer coefficients */
    expect_changed(&blob, 0xc4, 4, 0x02, LEFT);  /* the table is elsewhere */
    expect_changed(&blob, 0xc4, 5, 3, LEFT);     /* more codes than there can be */
    blob_free(&blob);
}

static void other_colours_are_left(void)
{
    static const uint8_t samples[24 * 24 * 4] = {9, 8, 7, 6};
    static const struct jpeg_how hows[] = {{.colour = CMYK},
                                           {.colour = YCCK},
                                           {.colour = RGB, .progressive = true},
                                           {.colour = RGB, .arithmetic = true}};

    for (size_t i = 0; i < sizeof(hows) / sizeof(hows[0]); i++) {
        struct blob blob = jpeg_of(samples, 24, 24, hows[i]);

        HR_CHECK_EQ_INT(judge(&blob), LEFT);
        blob_free(&blob);
    }
}

/* Without JFIF's segment the components' numbers decide: R, G, B are no Y Cb Cr. */
static void component_numbers_that_say_rgb_are_left(void)
{
    struct how how = {.colours = 3, .h = 1, .v = 1, .quality = 90};
    struct blob blob = picture(SMOOTH, 20, 20, how);
    size_t jfif = marker_at(&blob, 0xe0, 0);
    size_t frame;
    size_t scan;

    memmove(blob.data + jfif, blob.data + jfif + 18, blob.size - jfif - 18);
    blob.size -= 18;
    HR_CHECK(judge(&blob) == EQUAL);
    frame = marker_at(&blob, 0xc0, 0);
    scan = marker_at(&blob, 0xda, 0);
    for (size_t i = 0; i < 3; i++)
        blob.data[frame + 10 + 3 * i] = blob.data[scan + 5 + 2 * i] = (uint8_t)"RGB"[i];
    HR_CHECK_EQ_INT(judge(&blob), LEFT);
    blob_free(&blob);
}

static const struct hr_test tests[] = {
    HR_TEST(every_sampling_quality_and_odd_size),
    HR_TEST(every_restart_interval),
    HR_TEST(large_pictures_of_every_kind),
    HR_TEST(every_range_of_columns_is_a_part_of_the_whole),
    HR_TEST(every_range_of_rows_is_a_part_of_the_whole),
    HR_TEST(planes_that_nobody_needs_are_left_alone),
    HR_TEST(files_that_end_early_are_left),
    HR_TEST(what_is_unusual_is_left),
    HR_TEST(other_colours_are_left),
    HR_TEST(component_numbers_that_say_rgb_are_left),
};

int main(int argc, char **argv)
{
    int failed;

    court = jpeg_judge_new();
    failed = hr_test_main(tests, sizeof(tests) / sizeof(tests[0]), argc, argv);
    jpeg_judge_free(&court);
    return failed;
}
