/* PNG: every colour type and depth with known pixels, and what is refused. */
#include <stdlib.h>

#include "fault.h"
#include "hr_test.h"
#include "pictures.h"

#define WIDTH 13
#define HEIGHT 11

enum { GREY_TYPE = 0, RGB_TYPE = 2, PALETTE_TYPE = 3, GREY_ALPHA = 4, RGB_ALPHA = 6 };

static int samples_per_pixel(int type)
{
    static const int count[] = {1, 0, 3, 1, 2, 0, 4};

    return count[type];
}

/* Sample s of a row, as PNG packs them. */
static unsigned sample(const uint8_t *row, int depth, size_t s)
{
    if (depth == 16)
        return (unsigned)row[2 * s] << 8 | row[2 * s + 1];
    return (unsigned)row[s * (size_t)depth / 8] >>
               (8 - (size_t)depth - s * (size_t)depth % 8) &
           ((1u << depth) - 1);
}

/* The rule: grey repeated and stretched to 0 … 255, alpha dropped, the high byte of 16
 * bits, the palette's colour. */
static uint32_t expected(const uint8_t *row, struct png_how how, size_t x)
{
    int n = samples_per_pixel(how.type);
    uint32_t rgb = 0;

    for (int c = 0; c < 3; c++) {
        size_t at = x * (size_t)n +
                    (how.type == RGB_TYPE || how.type == RGB_ALPHA ? (size_t)c : 0);
        unsigned v = sample(row, how.depth, at);

        if (how.type == PALETTE_TYPE)
            v = how.palette[3 * v + (unsigned)c];
        else if (how.depth == 16)
            v >>= 8;
        else
            v = v * 255 / ((1u << how.depth) - 1);
        rgb = rgb << 8 | v;
    }
    return rgb;
}

static void check_type(int type, int depth, bool interlaced)
{
    size_t rowbytes = (WIDTH * (size_t)samples_per_pixel(type) * (size_t)depth + 7) / 8;
    uint8_t rows[HEIGHT * WIDTH * 8];
    uint8_t palette[768];
    uint32_t seed = (uint32_t)(type * 100 + depth);
    struct png_how how = {.depth = depth, .type = type, .interlaced = interlaced};
    struct hr_array *array;
    struct hr_error err = {0};
    struct blob blob;

    for (size_t i = 0; i < sizeof(rows); i++)
        rows[i] = (uint8_t)next_random(&seed);
    for (size_t i = 0; i < sizeof(palette); i++)
        palette[i] = (uint8_t)next_random(&seed);
    if (type == PALETTE_TYPE) {
        how.palette = palette;
        how.colours = 1 << depth;
        how.trns = palette; /* any alpha: it is dropped */
        how.trns_count = 2;
    }
    blob = png_of(rows, rowbytes, WIDTH, HEIGHT, how);
    HR_CHECK_EQ_INT(load_blob(&blob, NULL, &array, &err), HR_OK);
    HR_CHECK_STR(err.text, "");
    for (int y = 0; array != NULL && y < HEIGHT; y++)
        for (int x = 0; x < WIDTH; x++)
            HR_CHECK_EQ_INT(pixel_at(array, x, y),
                            expected(rows + (size_t)y * rowbytes, how, (size_t)x));
    hr_array_unref(&array);
    blob_free(&blob);
}

static void check_depths(int type, const int *depths)
{
    for (; *depths != 0; depths++) {
        check_type(type, *depths, false);
        check_type(type, *depths, true);
    }
}

static void grey(void)
{
    check_depths(GREY_TYPE, (const int[]){1, 2, 4, 8, 16, 0});
}

static void rgb(void)
{
    check_depths(RGB_TYPE, (const int[]){8, 16, 0});
}

static void palette(void)
{
    check_depths(PALETTE_TYPE, (const int[]){1, 2, 4, 8, 0});
}

static void alpha_is_dropped(void)
{
    check_depths(GREY_ALPHA, (const int[]){8, 16, 0});
    check_depths(RGB_ALPHA, (const int[]){8, 16, 0});
}

static void the_cases(void)
{
    struct hr_array *array;

    HR_CHECK_EQ_INT(load_path(DATA("pal4_trns.png"), NULL, &array, NULL), HR_OK);
    HR_CHECK_EQ_INT(hr_array_shape(array)[1], 2);
    HR_CHECK_EQ_INT(pixel_at(array, 0, 0), 0x112233);
    HR_CHECK_EQ_INT(pixel_at(array, 1, 0), 0x445566);
    hr_array_unref(&array);
    /* Pixel k is k * 257 + 3, so its high byte is k until k + 3 / 256 carries. */
    HR_CHECK_EQ_INT(load_path(DATA("gray16.png"), NULL, &array, NULL), HR_OK);
    HR_CHECK_EQ_INT(pixel_at(array, 5, 0), 0x050505);
    HR_CHECK_EQ_INT(pixel_at(array, 12, 15), 0xfcfcfc);
    hr_array_unref(&array);
    HR_CHECK_EQ_INT(load_path(DATA("anim.png"), NULL, &array, NULL), HR_OK);
    HR_CHECK_EQ_INT(hr_array_shape(array)[0], 32);
    hr_array_unref(&array);
}

static struct blob some_png(bool interlaced)
{
    uint8_t rows[64 * 64 * 3];
    uint32_t seed = 3;

    for (size_t i = 0; i < sizeof(rows); i++)
        rows[i] = (uint8_t)next_random(&seed);
    return png_of(
        rows, 64 * 3, 64, 64,
        (struct png_how){.depth = 8, .type = RGB_TYPE, .interlaced = interlaced});
}

static void check_error(const struct blob *blob, enum hr_status want, const char *text)
{
    struct hr_array *array;
    struct hr_error err = {0};

    HR_CHECK_EQ_INT(load_blob(blob, NULL, &array, &err), want);
    HR_CHECK(array == NULL);
    HR_CHECK_STR(err.text, text);
}

/* Noise is stored as it is: one row is 1 + 192 bytes, and zlib hands them on once its
 * input is there. Cut after the header there is no row. */
static void a_cut_picture_is_an_error(void)
{
    struct blob blob = some_png(false);
    struct blob cut = blob;

    cut.size = 40;
    check_error(&cut, HR_ERR_FORMAT, "image: PNG ends in its header ('<bytes>')");
    cut.size = 60;
    check_error(&cut, HR_ERR_FORMAT, "image: PNG ends after 0 of 64 rows ('<bytes>')");
    cut.size = blob.size - 12; /* without its IEND chunk */
    check_error(&cut, HR_ERR_FORMAT, "image: PNG ends after 64 of 64 rows ('<bytes>')");
    blob_free(&blob);
    blob = some_png(true);
    cut = blob;
    cut.size = 60;
    check_error(&cut, HR_ERR_FORMAT, "image: PNG ends in pass 1 of 7 ('<bytes>')");
    blob_free(&blob);
}

/* libpng compares the sum before it hands out the last row. */
static void a_wrong_checksum_is_an_error(void)
{
    struct blob blob = some_png(false);

    blob.data[blob.size - 13] ^= 1; /* the last byte of IDAT's */
    check_error(
        &blob, HR_ERR_FORMAT,
        "image: PNG is damaged after 63 of 64 rows: IDAT: CRC error ('<bytes>')");
    blob_free(&blob);
}

/* M3 */
static void sizes_beyond_the_limits_are_refused(void)
{
    struct blob blob = some_png(false);

    memcpy(blob.data + 16, "\0\0\xff\xff\0\0\xff\xff", 8);
    check_error(&blob, HR_ERR_LIMIT,
                "image: PNG of 65535 x 65535 pixels, the limit is 178956970 pixels "
                "('<bytes>')");
    memcpy(blob.data + 16, "\0\1\0\0\0\0\0\1", 8);
    check_error(
        &blob, HR_ERR_LIMIT,
        "image: PNG of 65536 x 1 pixels, sides are limited to 65535 ('<bytes>')");
    memcpy(blob.data + 16, "\0\0\0\0\0\0\0\1", 8);
    check_error(&blob, HR_ERR_FORMAT, "image: PNG says its size is 0 x 1 ('<bytes>')");
    blob_free(&blob);
}

/* M3: 6000 x 4000 black pixels are 72 MB of zeros in 70 KB. */
static void a_bomb_is_refused(void)
{
    uint8_t *rows = calloc(4000, 18000);
    struct hr_array *array;
    struct hr_error err = {0};
    struct blob blob;

    HR_REQUIRE(rows != NULL);
    blob =
        png_of(rows, 18000, 6000, 4000, (struct png_how){.depth = 8, .type = RGB_TYPE});
    free(rows);
    HR_CHECK_EQ_INT(load_blob(&blob, NULL, &array, &err), HR_ERR_LIMIT);
    HR_CHECK(strstr(err.text, "expands to 72000000, the limit is 1000:1") != NULL);
    blob_free(&blob);
}

/* libpng's memory is kept: from the third picture on, nothing is asked of the system. */
static void the_steady_state_allocates_nothing(void)
{
    struct blob blob = some_png(false);
    struct hr_value src = bytes_of(&blob);
    struct hr_image_options options;
    struct hr_array *array;
    struct hr_ctx *ctx;

    hr_image_options_init(&options);
    options.width = options.height = 20;
    HR_REQUIRE(hr_ctx_new(&ctx, NULL) == HR_OK);
    for (int i = 0; i < 5; i++) {
        fault_arm(FAULT_MEMORY, FAULT_ONCE, UINT64_MAX);
        HR_CHECK_EQ_INT(hr_image_load(ctx, &src, NULL, &options, &array, NULL), HR_OK);
        if (i >= 2)
            HR_CHECK_EQ_INT(fault_calls(), 0);
        HR_CHECK_EQ_INT(fault_disarm(), 0);
        hr_array_unref(&array);
    }
    hr_ctx_free(&ctx);
    hr_value_release(&src);
    blob_free(&blob);
}

static const struct hr_test tests[] = {
    HR_TEST(the_steady_state_allocates_nothing),
    HR_TEST(grey),
    HR_TEST(rgb),
    HR_TEST(palette),
    HR_TEST(alpha_is_dropped),
    HR_TEST(the_cases),
    HR_TEST(a_cut_picture_is_an_error),
    HR_TEST(a_wrong_checksum_is_an_error),
    HR_TEST(sizes_beyond_the_limits_are_refused),
    HR_TEST(a_bomb_is_refused),
};
HR_TEST_MAIN(tests)
