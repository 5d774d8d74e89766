/* JPEG: known pixels of every colour and sampling, and what is refused and why. */
#include <stdlib.h>

#include "base/ctx.h"
#include "hr_test.h"
#include "pictures.h"

#define SIDE 64

/* All pixels alike: at quality 100 a flat block survives exactly. */
static struct blob flat(const uint8_t *pixel, int components, struct jpeg_how how)
{
    uint8_t samples[SIDE * SIDE * 4];

    for (size_t i = 0; i < SIDE * SIDE; i++)
        memcpy(samples + i * (size_t)components, pixel, (size_t)components);
    return jpeg_of(samples, SIDE, SIDE, how);
}

static void check_flat(const uint8_t *pixel, int components, struct jpeg_how how,
                       uint32_t want)
{
    struct blob blob = flat(pixel, components, how);
    struct hr_array *array;
    struct hr_error err = {0};

    HR_CHECK_EQ_INT(load_blob(&blob, NULL, &array, &err), HR_OK);
    if (array != NULL) {
        HR_CHECK_EQ_INT(pixel_at(array, 0, 0), want);
        HR_CHECK_EQ_INT(pixel_at(array, 33, 20), want);
        HR_CHECK_EQ_INT(pixel_at(array, SIDE - 1, SIDE - 1), want);
    }
    hr_array_unref(&array);
    blob_free(&blob);
}

static void grey_is_repeated(void)
{
    check_flat((const uint8_t[]){77}, 1, (struct jpeg_how){.colour = GREY}, 0x4d4d4d);
}

/* Stored 255 is no ink. With 200 for black: 200 - 0; 127 of ink: 200 - 127 * 200 / 255
 * = 200 - 99.6 = 100; all ink: 0. */
static void cmyk_is_inverted(void)
{
    check_flat((const uint8_t[]){255, 128, 0, 200}, 4,
               (struct jpeg_how){.colour = CMYK}, 0xc86400);
}

/* Greys of C, M, Y stay what they are in YCbCr. */
static void ycck_is_cmyk_in_the_end(void)
{
    check_flat((const uint8_t[]){128, 128, 128, 255}, 4,
               (struct jpeg_how){.colour = YCCK}, 0x808080);
    check_flat((const uint8_t[]){128, 128, 128, 0}, 4,
               (struct jpeg_how){.colour = YCCK}, 0x000000);
}

static void near(uint32_t got, uint32_t want)
{
    for (int shift = 0; shift < 24; shift += 8)
        HR_CHECK(abs((int)(got >> shift & 255) - (int)(want >> shift & 255)) <= 1);
}

/* Two colours, each over whole MCUs of every sampling, so chroma does not mix there. */
static void every_sampling_keeps_the_colours(void)
{
    static const int sampling[][2] = {{1, 1}, {2, 1}, {2, 2}, {4, 1}, {1, 2}};
    uint8_t samples[SIDE * SIDE * 3];

    for (size_t i = 0; i < SIDE * SIDE; i++)
        memcpy(samples + 3 * i,
               i % SIDE < SIDE / 2 ? (const uint8_t[]){200, 100, 50}
                                   : (const uint8_t[]){10, 60, 220},
               3);
    for (size_t s = 0; s < sizeof(sampling) / sizeof(sampling[0]); s++) {
        struct jpeg_how how = {.colour = RGB, .h = sampling[s][0], .v = sampling[s][1]};
        struct blob blob = jpeg_of(samples, SIDE, SIDE, how);
        struct hr_array *array;

        HR_CHECK_EQ_INT(load_blob(&blob, NULL, &array, NULL), HR_OK);
        near(pixel_at(array, 3, 30), 0xc86432);
        near(pixel_at(array, 60, 30), 0x0a3cdc);
        hr_array_unref(&array);
        blob_free(&blob);
    }
}

static void noise(uint8_t *samples, size_t n)
{
    uint32_t seed = 7;

    for (size_t i = 0; i < n; i++)
        samples[i] = (uint8_t)next_random(&seed);
}

/* The coefficients are the same, whatever codes them; odd sizes at that. */
static void every_coding_gives_the_same_pixels(void)
{
    static const struct jpeg_how hows[] = {
        {.colour = RGB, .h = 2, .v = 2, .quality = 90},
        {.colour = RGB, .h = 2, .v = 2, .quality = 90, .progressive = true},
        {.colour = RGB, .h = 2, .v = 2, .quality = 90, .arithmetic = true},
        {.colour = RGB,
         .h = 2,
         .v = 2,
         .quality = 90,
         .arithmetic = true,
         .progressive = true},
        {.colour = RGB, .h = 2, .v = 2, .quality = 90, .restart_rows = 1},
    };
    uint8_t samples[61 * 37 * 3];
    struct hr_array *first = NULL;

    noise(samples, sizeof(samples));
    for (size_t i = 0; i < sizeof(hows) / sizeof(hows[0]); i++) {
        struct blob blob = jpeg_of(samples, 61, 37, hows[i]);
        struct hr_array *array;

        HR_CHECK_EQ_INT(load_blob(&blob, NULL, &array, NULL), HR_OK);
        if (first == NULL)
            first = hr_array_ref(array);
        HR_CHECK(same_pixels(array, first));
        hr_array_unref(&array);
        blob_free(&blob);
    }
    hr_array_unref(&first);
}

/* What load says of the first `size` bytes of a blob. */
static void check_cut(struct blob blob, size_t size, enum hr_status want,
                      const char *text)
{
    struct hr_array *array;
    struct hr_error err = {0};

    blob.size = size;
    HR_CHECK_EQ_INT(load_blob(&blob, NULL, &array, &err), want);
    HR_CHECK(array == NULL);
    HR_CHECK_STR(err.text, text);
}

/* One row of blocks per restart marker: before the third marker lie three rows of
 * blocks, 24 rows of pixels. */
static void a_cut_picture_says_how_many_rows_it_has(void)
{
    uint8_t samples[SIDE * SIDE];
    struct blob blob;

    noise(samples, sizeof(samples));
    blob = jpeg_of(samples, SIDE, SIDE,
                   (struct jpeg_how){.colour = GREY, .restart_rows = 1});
    check_cut(blob, marker_at(&blob, 0xd2, 0), HR_ERR_FORMAT,
              "image: JPEG ends after 24 of 64 rows ('<bytes>')");
    check_cut(blob, blob.size - 2, HR_ERR_FORMAT,
              "image: JPEG ends after 64 of 64 rows ('<bytes>')");
    check_cut(blob, 30, HR_ERR_FORMAT, "image: JPEG ends in its header ('<bytes>')");
    check_cut(blob, 2, HR_ERR_FORMAT, "image: JPEG ends in its header ('<bytes>')");
    blob_free(&blob);
}

static void a_cut_progressive_picture_says_in_which_scan(void)
{
    uint8_t samples[SIDE * SIDE];
    struct blob blob;

    noise(samples, sizeof(samples));
    blob = jpeg_of(samples, SIDE, SIDE,
                   (struct jpeg_how){.colour = GREY, .progressive = true});
    /* Behind the header of the third scan. */
    check_cut(blob, marker_at(&blob, 0xda, 2) + 40, HR_ERR_FORMAT,
              "image: JPEG ends in scan 3 ('<bytes>')");
    blob_free(&blob);
}

/* A segment that ends early although the file goes on: a marker moved forward. */
static void damaged_data_is_an_error(void)
{
    uint8_t samples[SIDE * SIDE];
    struct blob blob;
    struct hr_array *array;
    struct hr_error err = {0};
    size_t at;

    noise(samples, sizeof(samples));
    blob = jpeg_of(samples, SIDE, SIDE,
                   (struct jpeg_how){.colour = GREY, .restart_rows = 1});
    at = marker_at(&blob, 0xd1, 0);
    blob.data[at - 200] = 0xff;
    blob.data[at - 199] = 0xd1;
    HR_CHECK_EQ_INT(load_blob(&blob, NULL, &array, &err), HR_ERR_FORMAT);
    HR_CHECK(strstr(err.text, "image: JPEG is damaged after 8 of 64 rows: ") ==
             err.text);
    blob_free(&blob);
}

static void bytes_after_the_end_are_ignored(void)
{
    struct hr_array *plain;
    struct hr_array *trailing;

    HR_REQUIRE(load_path(DATA("ok.jpg"), NULL, &plain, NULL) == HR_OK);
    HR_CHECK_EQ_INT(load_path(DATA("jpeg_trailing.jpg"), NULL, &trailing, NULL), HR_OK);
    HR_CHECK(trailing != NULL && same_pixels(plain, trailing));
    hr_array_unref(&plain);
    hr_array_unref(&trailing);
}

/* Some cameras write fill bytes before the end marker. */
static void padding_before_the_end_is_accepted(void)
{
    struct blob blob = flat((const uint8_t[]){9}, 1, (struct jpeg_how){.colour = GREY});
    struct hr_array *array;

    blob.size -= 2; /* the end marker comes after the padding */
    blob_append(&blob, "\0\0\0\xff\xd9", 5);
    HR_CHECK_EQ_INT(load_blob(&blob, NULL, &array, NULL), HR_OK);
    HR_CHECK(array != NULL && pixel_at(array, 5, 5) == 0x090909);
    hr_array_unref(&array);
    blob_free(&blob);
}

/* M3 */
static void too_many_scans_are_refused(void)
{
    uint8_t samples[SIDE * SIDE * 3];
    struct blob blob;
    struct hr_array *array;
    struct hr_error err = {0};
    struct hr_image_options options;

    noise(samples, sizeof(samples));
    blob = jpeg_of(samples, SIDE, SIDE, (struct jpeg_how){.colour = RGB, .scans = 120});
    HR_CHECK_EQ_INT(load_blob(&blob, NULL, &array, &err), HR_ERR_LIMIT);
    HR_CHECK_STR(err.text,
                 "image: JPEG has more scans than the limit of 100 ('<bytes>')");
    hr_image_options_init(&options);
    options.scans_max = 120;
    HR_CHECK_EQ_INT(load_blob(&blob, &options, &array, &err), HR_OK);
    hr_array_unref(&array);
    blob_free(&blob);
}

/* M3: height and width follow marker, length and precision. */
static void sizes_beyond_the_limits_are_refused(void)
{
    struct blob blob = flat((const uint8_t[]){9}, 1, (struct jpeg_how){.colour = GREY});
    struct hr_array *array;
    struct hr_error err = {0};
    struct hr_pool_stats before;
    struct hr_pool_stats after;

    memcpy(blob.data + marker_at(&blob, 0xc0, 0) + 5, "\xea\x60\xea\x60", 4);
    hr_pool_stats(&before);
    HR_CHECK_EQ_INT(load_blob(&blob, NULL, &array, &err), HR_ERR_LIMIT);
    HR_CHECK_STR(err.text,
                 "image: JPEG of 60000 x 60000 pixels, the limit is 178956970 "
                 "pixels ('<bytes>')");
    hr_pool_stats(&after);
    HR_CHECK(after.mapped_total - before.mapped_total <= 1); /* the source's own */
    blob_free(&blob);
}

/* M4 */
static void twelve_bits_are_unsupported(void)
{
    struct blob blob = flat((const uint8_t[]){9}, 1, (struct jpeg_how){.colour = GREY});
    struct hr_array *array;
    struct hr_error err = {0};

    blob.data[marker_at(&blob, 0xc0, 0) + 4] = 12;
    HR_CHECK_EQ_INT(load_blob(&blob, NULL, &array, &err), HR_ERR_UNSUPPORTED);
    HR_CHECK(strstr(err.text, "12") != NULL);
    blob_free(&blob);
}

/* The decoder is kept by its thread: an error must leave nothing behind. */
static void an_error_does_not_touch_the_next_picture(void)
{
    static const char *const order[] = {DATA("truncated.jpg"),   DATA("ok.jpg"),
                                        DATA("progressive.jpg"), DATA("truncated.jpg"),
                                        DATA("gray.jpg"),        DATA("ok.jpg")};
    struct hr_array *fresh;
    struct hr_array *array;
    struct hr_image_options options;
    struct hr_ctx *ctx;

    hr_image_options_init(&options);
    HR_REQUIRE(load_path(DATA("ok.jpg"), NULL, &fresh, NULL) == HR_OK);
    HR_REQUIRE(hr_ctx_new(&ctx, NULL) == HR_OK);
    for (int i = 0; i < 6; i++) {
        struct hr_value src = text_of(order[i]);
        enum hr_status status = hr_image_load(ctx, &src, NULL, &options, &array, NULL);

        HR_CHECK_EQ_INT(status, i % 3 == 0 ? HR_ERR_FORMAT : HR_OK);
        if (i == 1 || i == 5)
            HR_CHECK(same_pixels(array, fresh));
        hr_array_unref(&array);
        hr_value_release(&src);
    }
    hr_ctx_free(&ctx);
    hr_array_unref(&fresh);
}

static void a_cancelled_task_stops(void)
{
    static const char *const name[] = {DATA("ok.jpg"), DATA("progressive.jpg"),
                                       DATA("gray16.png")};
    _Atomic uint32_t cancel = 1;
    struct hr_image_options options;
    struct hr_ctx *ctx;

    hr_image_options_init(&options);
    HR_REQUIRE(hr_ctx_new(&ctx, NULL) == HR_OK);
    ctx->cancel = &cancel;
    for (int i = 0; i < 3; i++) {
        struct hr_value src = text_of(name[i]);
        struct hr_array *array;

        HR_CHECK_EQ_INT(hr_image_load(ctx, &src, NULL, &options, &array, NULL),
                        HR_CANCELLED);
        HR_CHECK(array == NULL);
        hr_value_release(&src);
    }
    hr_ctx_free(&ctx);
}

/* Waves in colour. */
static void fill_waves(uint8_t *rgb, int width, int height)
{
    for (int y = 0; y < height; y++)
        for (int x = 0; x < width; x++, rgb += 3) {
            rgb[0] = (uint8_t)(100 + (x * 3 + y) % 60);
            rgb[1] = (uint8_t)(90 + (y * 2) % 70);
            rgb[2] = (uint8_t)(110 + (x + y) % 40);
        }
}

static bool is_part(const struct hr_array *part, const struct hr_array *whole,
                    const struct hr_box *box)
{
    size_t stride = (size_t)hr_array_shape(whole)[1] * 3;
    const uint8_t *from = hr_array_data(whole);
    const uint8_t *got = hr_array_data(part);

    for (int64_t y = 0; y < box->height; y++)
        if (memcmp(got + (size_t)y * (size_t)box->width * 3,
                   from + (size_t)(box->top + y) * stride + (size_t)box->left * 3,
                   (size_t)box->width * 3) != 0)
            return false;
    return true;
}

static int most_off(const struct hr_array *a, const struct hr_array *b)
{
    const uint8_t *x = hr_array_data(a);
    const uint8_t *y = hr_array_data(b);
    int most = 0;

    for (size_t i = 0; i < hr_array_nbytes(a); i++)
        most = abs(x[i] - y[i]) > most ? abs(x[i] - y[i]) : most;
    return most;
}

/* Parts of any place and size are those of the whole, and both roads agree on them. */
static void check_parts(const struct blob *blob, int width, int height, uint32_t seed)
{
    struct hr_image_options o;
    struct hr_array *whole;
    struct hr_array *part;
    struct hr_array *planes;

    HR_REQUIRE(load_blob(blob, NULL, &whole, NULL) == HR_OK);
    for (int i = 0; i < 40; i++) {
        hr_image_options_init(&o);
        o.crop = HR_CROP_BOX;
        o.mode = HR_SCALE_STRETCH;
        o.box.height = 1 + next_random(&seed) % (unsigned)height;
        o.box.width = 1 + next_random(&seed) % (unsigned)width;
        o.box.top = next_random(&seed) % (unsigned)(height - o.box.height + 1);
        o.box.left = next_random(&seed) % (unsigned)(width - o.box.width + 1);
        HR_REQUIRE(load_blob(blob, &o, &part, NULL) == HR_OK);
        HR_CHECK(is_part(part, whole, &o.box));
        hr_array_unref(&part);
        o.width = 17;
        o.height = 13;
        HR_REQUIRE(load_blob(blob, &o, &planes, NULL) == HR_OK);
        o.exact = 1;
        HR_REQUIRE(load_blob(blob, &o, &part, NULL) == HR_OK);
        HR_CHECK(most_off(planes, part) <= 3);
        hr_array_unref(&part);
        hr_array_unref(&planes);
    }
    hr_array_unref(&whole);
}

static void parts_of_every_subsampling(void)
{
    static const int factors[][2] = {{1, 1}, {2, 1}, {1, 2}, {2, 2},
                                     {4, 1}, {1, 4}, {4, 2}};
    uint8_t *rgb = malloc(131 * 97 * 3);

    fill_waves(rgb, 131, 97);
    for (size_t i = 0; i < 7; i++)
        for (int progressive = 0; progressive < 2; progressive++) {
            struct blob blob = jpeg_of(rgb, 131, 97,
                                       (struct jpeg_how){.colour = RGB,
                                                         .h = factors[i][0],
                                                         .v = factors[i][1],
                                                         .progressive = progressive});

            check_parts(&blob, 131, 97, (uint32_t)i);
            blob_free(&blob);
        }
    free(rgb);
}

static const struct hr_test tests[] = {
    HR_TEST(parts_of_every_subsampling),
    HR_TEST(grey_is_repeated),
    HR_TEST(cmyk_is_inverted),
    HR_TEST(ycck_is_cmyk_in_the_end),
    HR_TEST(every_sampling_keeps_the_colours),
    HR_TEST(every_coding_gives_the_same_pixels),
    HR_TEST(a_cut_picture_says_how_many_rows_it_has),
    HR_TEST(a_cut_progressive_picture_says_in_which_scan),
    HR_TEST(damaged_data_is_an_error),
    HR_TEST(bytes_after_the_end_are_ignored),
    HR_TEST(padding_before_the_end_is_accepted),
    HR_TEST(too_many_scans_are_refused),
    HR_TEST(sizes_beyond_the_limits_are_refused),
    HR_TEST(twelve_bits_are_unsupported),
    HR_TEST(an_error_does_not_touch_the_next_picture),
    HR_TEST(a_cancelled_task_stops),
};
HR_TEST_MAIN(tests)
