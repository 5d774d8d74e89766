/* The way of the rows: orientation, alpha, depth and grey against models of a few lines. */
#include <stdlib.h>

#include "hr_test.h"
#include "pictures.h"

#define WIDTH 23
#define HEIGHT 37
#define RGBA_TYPE 6

static struct hr_image_options defaults(void)
{
    struct hr_image_options options;

    hr_image_options_init(&options);
    return options;
}

/* Where pixel (x, y) of a w x h picture shows, from EXIF's words: the value says which
 * edge of what is seen row 0 and column 0 are. */
static void shown_at(int orientation, int64_t w, int64_t h, int64_t *x, int64_t *y)
{
    int64_t from_right = w - 1 - *x;
    int64_t from_bottom = h - 1 - *y;
    int64_t column[] = {*x, from_right,  from_right,  *x,
                        *y, from_bottom, from_bottom, *y};
    int64_t row[] = {*y, *y, from_bottom, from_bottom, *x, *x, from_right, from_right};

    *x = column[orientation - 1];
    *y = row[orientation - 1];
}

static struct hr_array *load(const struct blob *blob,
                             const struct hr_image_options *options)
{
    struct hr_array *array;
    struct hr_error err = {0};

    HR_CHECK_EQ_INT(load_blob(blob, options, &array, &err), HR_OK);
    HR_CHECK_STR(err.text, "");
    return array;
}

static struct blob picture(int type, int depth, uint8_t orientation,
                           const uint8_t *rows)
{
    size_t samples = type == RGBA_TYPE ? 4 : type == 2 ? 3 : 1;

    return png_of(
        rows, WIDTH * samples * (size_t)depth / 8, WIDTH, HEIGHT,
        (struct png_how){.depth = depth, .type = type, .orientation = orientation});
}

static void every_orientation_shows_each_pixel_in_its_place(void)
{
    uint8_t rows[WIDTH * HEIGHT * 3];

    fill_random(rows, sizeof(rows), 5);
    for (uint8_t orientation = 1; orientation <= 8; orientation++) {
        struct blob blob = picture(2, 8, orientation, rows);
        struct hr_image_options o = defaults();
        struct hr_array *shown = load(&blob, &o);
        struct hr_array *stored;

        o.orientation = HR_ORIENTATION_IGNORE;
        stored = load(&blob, &o);
        HR_CHECK_EQ_INT(hr_array_shape(shown)[0], orientation < 5 ? HEIGHT : WIDTH);
        HR_CHECK_EQ_INT(hr_array_shape(stored)[0], HEIGHT);
        HR_CHECK(memcmp(hr_array_data(stored), rows, sizeof(rows)) == 0);
        for (int64_t i = 0; i < WIDTH * HEIGHT; i++) {
            int64_t x = i % WIDTH;
            int64_t y = i / WIDTH;
            uint32_t want = pixel_at(stored, x, y);

            shown_at(orientation, WIDTH, HEIGHT, &x, &y);
            HR_CHECK_EQ_INT(pixel_at(shown, x, y), want);
        }
        hr_array_unref(&shown);
        hr_array_unref(&stored);
        blob_free(&blob);
    }
}

/* The shown picture as a file of its own, resized, against the turned one, resized. */
static void check_turned_resize(const struct blob *turned, enum hr_scale_mode mode,
                                int64_t width, int64_t height)
{
    struct hr_image_options o = defaults();
    struct hr_array *shown = load(turned, &o);
    unsigned w = (unsigned)hr_array_shape(shown)[1];
    struct blob plain = png_of(hr_array_data(shown), (size_t)w * 3, w,
                               (unsigned)hr_array_shape(shown)[0],
                               (struct png_how){.depth = 8, .type = 2});
    struct hr_array *a;
    struct hr_array *b;

    o.mode = mode;
    o.width = width;
    o.height = height;
    a = load(turned, &o);
    b = load(&plain, &o);
    HR_CHECK(same_pixels(a, b));
    hr_array_unref(&shown);
    hr_array_unref(&a);
    hr_array_unref(&b);
    blob_free(&plain);
}

static void turning_and_resizing_give_the_same_in_either_order(void)
{
    uint8_t rows[WIDTH * HEIGHT * 3];

    fill_random(rows, sizeof(rows), 6);
    for (uint8_t orientation = 1; orientation <= 8; orientation++) {
        struct blob blob = picture(2, 8, orientation, rows);

        for (int mode = HR_SCALE_STRETCH; mode <= HR_SCALE_CROP; mode++) {
            check_turned_resize(&blob, (enum hr_scale_mode)mode, 11, 13);
            check_turned_resize(&blob, (enum hr_scale_mode)mode, 20, 5);
            check_turned_resize(&blob, (enum hr_scale_mode)mode, 50, 44);
            check_turned_resize(&blob, (enum hr_scale_mode)mode, 0, 9);
        }
        blob_free(&blob);
    }
}

/* Red 200 at alpha 128 over 100: (200 * 128 + 100 * 127) / 255 = 150.2. */
static void alpha_is_blended_or_dropped(void)
{
    uint8_t rows[WIDTH * HEIGHT * 4] = {200, 10, 0, 128, 1, 2, 3, 0, 4, 5, 6, 255};
    struct blob blob = picture(RGBA_TYPE, 8, 1, rows);
    struct hr_image_options o = defaults();
    struct hr_array *array = load(&blob, &o);

    HR_CHECK_EQ_INT(pixel_at(array, 0, 0), 0xc80a00);
    HR_CHECK_EQ_INT(pixel_at(array, 1, 0), 0x010203);
    hr_array_unref(&array);
    o.background = 0x6464ff;
    array = load(&blob, &o);
    HR_CHECK_EQ_INT(pixel_at(array, 0, 0), 150 << 16 | 55 << 8 | 127);
    HR_CHECK_EQ_INT(pixel_at(array, 1, 0), 0x6464ff);
    HR_CHECK_EQ_INT(pixel_at(array, 2, 0), 0x040506);
    hr_array_unref(&array);
    o.background = -1;
    o.pix_fmt = HR_RGBA;
    array = load(&blob, &o);
    HR_CHECK_EQ_INT(hr_array_shape(array)[2], 4);
    HR_CHECK(memcmp(hr_array_data(array), rows, sizeof(rows)) == 0);
    hr_array_unref(&array);
    blob_free(&blob);
}

/* 0x1234 and its like, as PNG stores it: big-endian. */
static void sixteen_bits_are_kept_or_lose_the_lower_eight(void)
{
    uint8_t rows[WIDTH * HEIGHT * 2] = {0x12, 0x34, 0xff, 0xff, 0, 0x80};
    struct blob blob = picture(0, 16, 1, rows);
    struct hr_image_options o = defaults();
    struct hr_array *array;
    const uint16_t *wide;

    o.pix_fmt = HR_GRAY16;
    array = load(&blob, &o);
    HR_CHECK_EQ_INT(hr_array_dtype(array), HR_U16);
    wide = hr_array_data(array);
    HR_CHECK_EQ_INT(wide[0], 0x1234);
    HR_CHECK_EQ_INT(wide[1], 0xffff);
    HR_CHECK_EQ_INT(wide[2], 0x80);
    hr_array_unref(&array);
    o.pix_fmt = HR_RGB48;
    array = load(&blob, &o);
    wide = hr_array_data(array);
    HR_CHECK_EQ_INT(hr_array_shape(array)[2], 3);
    HR_CHECK(wide[0] == 0x1234 && wide[1] == 0x1234 && wide[2] == 0x1234);
    hr_array_unref(&array);
    o.pix_fmt = HR_GRAY;
    array = load(&blob, &o);
    HR_CHECK(memcmp(hr_array_data(array), "\x12\xff\0", 3) == 0);
    hr_array_unref(&array);
    blob_free(&blob);
}

/* Luma of (200, 100, 50): (19595 * 200 + 38470 * 100 + 7471 * 50) / 65536 = 124.2; in 16
 * bits of 257 times that: 31919.3. */
static void grey_is_luma(void)
{
    uint8_t rows[WIDTH * HEIGHT * 3] = {200, 100, 50};
    struct blob blob = picture(2, 8, 1, rows);
    struct hr_image_options o = defaults();
    struct hr_array *array;

    o.pix_fmt = HR_GRAY;
    array = load(&blob, &o);
    HR_CHECK_EQ_INT(*(uint8_t *)hr_array_data(array), 124);
    hr_array_unref(&array);
    o.pix_fmt = HR_GRAY16;
    array = load(&blob, &o);
    HR_CHECK_EQ_INT(*(uint16_t *)hr_array_data(array), 31919);
    hr_array_unref(&array);
    o.pix_fmt = HR_BGR24;
    array = load(&blob, &o);
    HR_CHECK_EQ_INT(pixel_at(array, 0, 0), 0x3264c8);
    hr_array_unref(&array);
    blob_free(&blob);
}

static const struct hr_test tests[] = {
    HR_TEST(every_orientation_shows_each_pixel_in_its_place),
    HR_TEST(turning_and_resizing_give_the_same_in_either_order),
    HR_TEST(alpha_is_blended_or_dropped),
    HR_TEST(sixteen_bits_are_kept_or_lose_the_lower_eight),
    HR_TEST(grey_is_luma),
};
HR_TEST_MAIN(tests)
