/* Crops of JPEGs: our decoder leaves out rows and columns that no output needs. What it
 * gives is a part of the whole picture, and what libjpeg gives, which leaves out none. */
#include "hr_test.h"
#include "image/baseline.h"
#include "jpeg_kinds.h"
#include "jpeg_mutate.h"

#define WIDTH 101
#define HEIGHT 75
#define EDGES 7

/* Around blocks of 8 and MCUs of 16 and 32. */
static const int64_t edges[EDGES] = {0, 1, 8, 15, 17, 33, 64};
static const int64_t lengths[] = {1, 3, 16, 37};

/* One for all pictures: what is left in its buffers must not matter. */
static struct hr_ctx *ctx;

static struct hr_array *load(const struct blob *blob, struct hr_box box, int64_t width,
                             int64_t height, double flip)
{
    struct hr_image_options options;
    struct hr_value src = bytes_of(blob);
    struct hr_array *array = NULL;
    struct hr_error err = {0};

    hr_image_options_init(&options);
    options.crop = HR_CROP_BOX;
    options.box = box;
    options.mode = HR_SCALE_STRETCH;
    options.width = width;
    options.height = height;
    options.flip = flip;
    HR_CHECK_EQ_INT(hr_image_load(ctx, &src, NULL, &options, &array, &err), HR_OK);
    hr_value_release(&src);
    return array;
}

/* For libjpeg: an FF to fill before a marker, which ours does not take. */
static struct blob for_libjpeg(const struct blob *blob)
{
    struct blob filled = blob_copy(blob);

    blob_splice(&filled, marker_at(&filled, 0xda, 0), 0, "\xff", 1);
    return filled;
}

static uint64_t count_own(void)
{
    uint64_t own;
    uint64_t libjpeg;

    hr_image_jpeg_counts(&own, &libjpeg);
    return own;
}

/* The part's pixels must be those of the whole from (left, top) on. */
static void check_part(const struct hr_array *part, const struct hr_array *whole,
                       int64_t left, int64_t top)
{
    const uint8_t *got = hr_array_data(part);
    const uint8_t *want = hr_array_data(whole);
    int64_t rows = hr_array_shape(part)[0];
    int64_t columns = hr_array_shape(part)[1];
    int64_t full = hr_array_shape(whole)[1];
    int bad = 0;

    for (int64_t y = 0; y < rows; y++)
        bad += memcmp(got + y * columns * 3, want + ((top + y) * full + left) * 3,
                      (size_t)columns * 3) != 0;
    if (bad > 0)
        printf("# %dx%d from %d,%d: %d rows differ\n", (int)columns, (int)rows,
               (int)left, (int)top, bad);
    HR_CHECK(bad == 0);
}

static void try_boxes(const struct blob *blob,
                      void (*check)(const struct blob *blob, struct hr_box box))
{
    for (int i = 0; i < EDGES * EDGES; i++)
        for (int k = 0; k < 4; k++) {
            struct hr_box box = {.left = edges[i % EDGES],
                                 .top = edges[i / EDGES],
                                 .width = lengths[k],
                                 .height = lengths[(i + k) % 4]};

            if (box.width > WIDTH - box.left)
                box.width = WIDTH - box.left;
            if (box.height > HEIGHT - box.top)
                box.height = HEIGHT - box.top;
            check(blob, box);
        }
}

static void try_samplings(void (*check)(const struct blob *blob, struct hr_box box))
{
    for (size_t s = 0; s < SAMPLINGS; s++) {
        struct how how = samplings[s];
        struct blob blob;
        uint64_t before = count_own();

        how.quality = 90;
        how.restart = s % 2 ? 3 : 0;
        blob = picture((enum kind)(s % KINDS), WIDTH, HEIGHT, how);
        try_boxes(&blob, check);
        /* else libjpeg was tried against itself; grey of 2x2 is left to it */
        if (hr__baseline_is_fast() && (how.colours == 3 || how.v == 1))
            HR_CHECK(count_own() - before >= EDGES * EDGES * 4);
        blob_free(&blob);
    }
}

/* The other direction is scaled: what is not goes another way, without planes. */
static void columns_are_those_of_the_whole(const struct blob *blob, struct hr_box box)
{
    struct hr_box strip = {0, box.left, HEIGHT, box.width};
    struct hr_array *whole =
        load(blob, (struct hr_box){0, 0, HEIGHT, WIDTH}, WIDTH, HEIGHT - 1, 0);
    struct hr_array *part = load(blob, strip, box.width, HEIGHT - 1, 0);

    if (part != NULL && whole != NULL)
        check_part(part, whole, box.left, 0);
    hr_array_unref(&part);
    hr_array_unref(&whole);
}

static void rows_are_those_of_the_whole(const struct blob *blob, struct hr_box box)
{
    struct hr_box strip = {box.top, 0, box.height, WIDTH};
    struct hr_array *whole =
        load(blob, (struct hr_box){0, 0, HEIGHT, WIDTH}, WIDTH - 1, HEIGHT, 0);
    struct hr_array *part = load(blob, strip, WIDTH - 1, box.height, 0);

    if (part != NULL && whole != NULL)
        check_part(part, whole, 0, box.top);
    hr_array_unref(&part);
    hr_array_unref(&whole);
}

/* Scaled up and down, and mirrored. */
static void is_what_libjpeg_gives(const struct blob *blob, struct hr_box box)
{
    struct blob other = for_libjpeg(blob);
    double flip = (double)(box.left % 2);
    struct hr_array *own = load(blob, box, 24, 17, flip);
    struct hr_array *lib = load(&other, box, 24, 17, flip);

    if (own != NULL && lib != NULL)
        HR_CHECK(same_pixels(own, lib));
    hr_array_unref(&own);
    hr_array_unref(&lib);
    blob_free(&other);
}

static void crops_are_parts_of_the_whole(void)
{
    try_samplings(columns_are_those_of_the_whole);
    try_samplings(rows_are_those_of_the_whole);
}

static void scaled_crops_are_what_libjpeg_gives(void)
{
    try_samplings(is_what_libjpeg_gives);
}

static const struct hr_test tests[] = {
    HR_TEST(crops_are_parts_of_the_whole),
    HR_TEST(scaled_crops_are_what_libjpeg_gives),
};

int main(int argc, char **argv)
{
    int failed;

    if (hr_ctx_new(&ctx, NULL) != HR_OK)
        return 1;
    failed = hr_test_main(tests, sizeof(tests) / sizeof(tests[0]), argc, argv);
    hr_ctx_free(&ctx);
    return failed;
}
