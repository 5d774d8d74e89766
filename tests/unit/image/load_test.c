/* One picture: sources, messages, modes, limits, memory. */
#include <stdlib.h>

#include "fault.h"
#include "hr_test.h"
#include "pictures.h"

static enum hr_status load_as(struct hr_value src, const char *name,
                              const struct hr_image_options *options,
                              struct hr_array **out, struct hr_error *err)
{
    struct hr_ctx *ctx;
    enum hr_status status;

    if (hr_ctx_new(&ctx, NULL) != HR_OK)
        abort();
    status = hr_image_load(ctx, &src, name, options, out, err);
    hr_ctx_free(&ctx);
    hr_value_release(&src);
    return status;
}

static struct hr_image_options defaults(void)
{
    struct hr_image_options options;

    hr_image_options_init(&options);
    return options;
}

static void the_documented_defaults(void)
{
    struct hr_image_options o = defaults();

    HR_CHECK_EQ_INT(o.size, sizeof(o));
    HR_CHECK_EQ_INT(o.mode, HR_SCALE_PAD);
    HR_CHECK_EQ_INT(o.algo, HR_SCALE_BICUBIC);
    HR_CHECK_EQ_INT(o.pixels_max, 178956970);
    HR_CHECK_EQ_INT(o.side_max, 65535);
    HR_CHECK_EQ_INT(o.bytes_max, 1 << 30);
    HR_CHECK_EQ_INT(o.encoded_max, 256 << 20);
    HR_CHECK_EQ_INT(o.scans_max, 100);
}

/* M2, I5 */
static void what_is_no_picture_says_what_it_is(void)
{
    static const struct {
        const char *path;
        enum hr_status status;
        const char *text;
    } cases[] = {
        {DATA("zero.jpg"), HR_ERR_FORMAT,
         "image: empty input ('" DATA("zero.jpg") "')"},
        {DATA("html.jpg"), HR_ERR_FORMAT,
         "image: not an image (looks like HTML) ('" DATA("html.jpg") "')"},
        {HR_TEST_DATA, HR_ERR_FORMAT,
         "file: '" HR_TEST_DATA "' is a directory, expected a regular file"},
        {"/dev/zero", HR_ERR_FORMAT,
         "file: '/dev/zero' is a device, expected a regular file"},
        {"/no/such.jpg", HR_ERR_IO,
         "file: cannot open '/no/such.jpg': No such file or directory"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct hr_array *array;
        struct hr_error err = {0};

        HR_CHECK_EQ_INT(load_path(cases[i].path, NULL, &array, &err), cases[i].status);
        HR_CHECK_EQ_INT(err.status, cases[i].status);
        HR_CHECK_EQ_INT(err.item, -1);
        HR_CHECK_STR(err.text, cases[i].text);
    }
}

static void a_name_replaces_the_sources_own(void)
{
    struct hr_image_options options = defaults();
    struct hr_array *array;
    struct hr_error err = {0};

    HR_CHECK_EQ_INT(
        load_as(text_of(DATA("zero.jpg")), "shard-3/7.jpg", &options, &array, &err),
        HR_ERR_FORMAT);
    HR_CHECK_STR(err.text, "image: empty input ('shard-3/7.jpg')");
}

/* The end of a path tells more than its start. 100 bytes are shown. */
static void a_long_name_keeps_its_end(void)
{
    struct hr_image_options options = defaults();
    struct hr_array *array;
    struct hr_error err = {0};
    char name[300];

    memset(name, 'x', sizeof(name));
    memcpy(name + sizeof(name) - 7, "/a.jpg", 7);
    HR_CHECK_EQ_INT(load_as(text_of(DATA("zero.jpg")), name, &options, &array, &err),
                    HR_ERR_FORMAT);
    HR_CHECK_EQ_INT(strlen(err.text), strlen("image: empty input ('...')") + 100);
    HR_CHECK(strstr(err.text, "xxx/a.jpg')") != NULL);
}

static void bytes_and_uint8_arrays_are_sources(void)
{
    struct hr_image_options options = defaults();
    struct hr_array *from_path;
    struct hr_array *from_bytes;
    struct hr_array *from_array;
    struct hr_array *view;
    struct hr_buffer *file;
    struct hr_buffer *same;
    int64_t shape[1];

    HR_REQUIRE(hr_file_read(DATA("ok.jpg"), 1 << 20, &file, NULL) == HR_OK);
    same = hr_buffer_ref(file);
    shape[0] = (int64_t)hr_buffer_size(file);
    HR_REQUIRE(hr_array_new(&same, 0, HR_U8, 1, shape, &view, NULL) == HR_OK);
    HR_CHECK_EQ_INT(load_path(DATA("ok.jpg"), NULL, &from_path, NULL), HR_OK);
    HR_CHECK_EQ_INT(
        load_as(hr_value_of_bytes(&file), NULL, &options, &from_bytes, NULL), HR_OK);
    HR_CHECK_EQ_INT(
        load_as(hr_value_of_array(&view), NULL, &options, &from_array, NULL), HR_OK);
    HR_CHECK_EQ_INT(hr_array_ndim(from_path), 3);
    HR_CHECK_EQ_INT(hr_array_shape(from_path)[0], 480);
    HR_CHECK_EQ_INT(hr_array_shape(from_path)[1], 640);
    HR_CHECK_EQ_INT(hr_array_shape(from_path)[2], 3);
    HR_CHECK(same_pixels(from_path, from_bytes));
    HR_CHECK(same_pixels(from_path, from_array));
    hr_array_unref(&from_path);
    hr_array_unref(&from_bytes);
    hr_array_unref(&from_array);
}

static void other_values_are_refused_by_name(void)
{
    struct hr_image_options options = defaults();
    struct hr_array *floats;
    struct hr_array *array;
    struct hr_error err = {0};
    struct hr_keys *keys;
    struct hr_value record;

    HR_CHECK_EQ_INT(load_as(HR_VALUE_EMPTY, NULL, &options, &array, &err), HR_ERR_TYPE);
    HR_CHECK_STR(err.text, "load_image: expected a path or bytes, got nothing");
    HR_REQUIRE(hr_array_alloc(HR_F32, 1, (int64_t[]){4}, &floats, NULL) == HR_OK);
    HR_CHECK_EQ_INT(load_as(hr_value_of_array(&floats), NULL, &options, &array, &err),
                    HR_ERR_TYPE);
    HR_CHECK(strstr(err.text, "got an array that is not uint8") != NULL);
    HR_REQUIRE(hr_keys_new(2, NULL, &keys) == HR_OK);
    HR_REQUIRE(hr_record_new(keys, &record) == HR_OK);
    hr_keys_unref(&keys);
    HR_CHECK_EQ_INT(load_as(record, NULL, &options, &array, &err), HR_ERR_TYPE);
    HR_CHECK(strstr(err.text, "got record; use pipe(..., key=...) for records") !=
             NULL);
}

static void a_path_with_a_nul_is_refused(void)
{
    struct hr_image_options options = defaults();
    struct hr_array *array;
    struct hr_error err = {0};
    struct hr_value src;

    HR_REQUIRE(hr_text_new("a\0b", 3, &src) == HR_OK);
    HR_CHECK_EQ_INT(load_as(src, NULL, &options, &array, &err), HR_ERR_ARG);
    HR_CHECK_STR(err.text, "file: a path holds a NUL byte after 1 bytes");
}

static void bad_options_name_the_field(void)
{
    struct hr_image_options o = defaults();
    struct hr_array *array;
    struct hr_error err = {0};

    o.width = -1;
    HR_CHECK_EQ_INT(load_path(DATA("ok.jpg"), &o, &array, &err), HR_ERR_ARG);
    HR_CHECK_STR(err.text, "load_image: width must be 0 … 65535, got -1");
    o = defaults();
    o.height = 65536;
    HR_CHECK_EQ_INT(load_path(DATA("ok.jpg"), &o, &array, &err), HR_ERR_ARG);
    HR_CHECK_STR(err.text, "load_image: height must be 0 … 65535, got 65536");
    o = defaults();
    o.size = 8;
    HR_CHECK_EQ_INT(load_path(DATA("ok.jpg"), &o, &array, &err), HR_ERR_ARG);
    o = defaults();
    o.algo = (enum hr_scale_algo)4;
    HR_CHECK_EQ_INT(load_path(DATA("ok.jpg"), &o, &array, &err), HR_ERR_ARG);
}

static void limits_are_those_of_the_options(void)
{
    struct hr_image_options o = defaults();
    struct hr_array *array;
    struct hr_error err = {0};

    o.encoded_max = 16805; /* ok.jpg has 16,806 bytes */
    HR_CHECK_EQ_INT(load_path(DATA("ok.jpg"), &o, &array, &err), HR_ERR_LIMIT);
    o = defaults();
    o.pixels_max = 640 * 480 - 1;
    HR_CHECK_EQ_INT(load_path(DATA("ok.jpg"), &o, &array, &err), HR_ERR_LIMIT);
    o = defaults();
    o.bytes_max = 640 * 480 * 3 - 1;
    HR_CHECK_EQ_INT(load_path(DATA("ok.jpg"), &o, &array, &err), HR_ERR_LIMIT);
    o.bytes_max = 640 * 480 * 3;
    HR_CHECK_EQ_INT(load_path(DATA("ok.jpg"), &o, &array, &err), HR_OK);
    hr_array_unref(&array);
    o.width = 641; /* the target counts too */
    HR_CHECK_EQ_INT(load_path(DATA("ok.jpg"), &o, &array, &err), HR_ERR_LIMIT);
    o = defaults();
    o.side_max = 639;
    HR_CHECK_EQ_INT(load_path(DATA("ok.jpg"), &o, &array, &err), HR_ERR_LIMIT);
}

/* A white picture of 8 x 4 in 8 x 8: rows 2 to 5 are white, the others black. */
static void pad_is_black(void)
{
    uint8_t white[8 * 4 * 3];
    struct hr_image_options o = defaults();
    struct hr_array *array;
    struct blob blob;

    memset(white, 255, sizeof(white));
    blob = png_of(white, 24, 8, 4, (struct png_how){.depth = 8, .type = 2});
    o.width = o.height = 8;
    HR_REQUIRE(load_blob(&blob, &o, &array, NULL) == HR_OK);
    for (int y = 0; y < 8; y++)
        for (int x = 0; x < 8; x++)
            HR_CHECK_EQ_INT(pixel_at(array, x, y), y >= 2 && y < 6 ? 0xffffff : 0);
    hr_array_unref(&array);
    o.width = 12; /* columns too, and a resize: 12 x 6 of 12 x 8 */
    HR_REQUIRE(load_blob(&blob, &o, &array, NULL) == HR_OK);
    HR_CHECK_EQ_INT(pixel_at(array, 0, 0), 0);
    HR_CHECK_EQ_INT(pixel_at(array, 11, 1), 0xffffff);
    HR_CHECK_EQ_INT(pixel_at(array, 0, 6), 0xffffff);
    HR_CHECK_EQ_INT(pixel_at(array, 11, 7), 0);
    hr_array_unref(&array);
    blob_free(&blob);
}

/* 6 x 2 of columns 10, 20 ... 60 to 2 x 2: nothing is scaled, columns 30 and 40 stay. */
static void crop_keeps_the_middle(void)
{
    uint8_t grey[12];
    struct hr_image_options o = defaults();
    struct hr_array *array;
    struct blob blob;

    for (size_t i = 0; i < sizeof(grey); i++)
        grey[i] = (uint8_t)(10 + 10 * (i % 6));
    blob = png_of(grey, 6, 6, 2, (struct png_how){.depth = 8, .type = 0});
    o.width = o.height = 2;
    o.mode = HR_SCALE_CROP;
    HR_REQUIRE(load_blob(&blob, &o, &array, NULL) == HR_OK);
    HR_CHECK_EQ_INT(pixel_at(array, 0, 0), 0x1e1e1e);
    HR_CHECK_EQ_INT(pixel_at(array, 1, 1), 0x282828);
    hr_array_unref(&array);
    blob_free(&blob);
}

/* The rows that come out of a decoder give what a resize of the whole gives. */
static void load_equals_decode_then_resize(void)
{
    struct hr_image_options o = defaults();
    struct hr_array *whole;
    struct hr_array *resized;
    struct hr_array *loaded;
    struct hr_ctx *ctx;

    HR_REQUIRE(hr_ctx_new(&ctx, NULL) == HR_OK);
    HR_REQUIRE(load_path(DATA("progressive.jpg"), NULL, &whole, NULL) == HR_OK);
    o.mode = HR_SCALE_STRETCH;
    o.exact = 1;
    for (int algo = HR_SCALE_BOX; algo <= HR_SCALE_LANCZOS; algo++) {
        o.width = 100 + algo;
        o.height = algo % 2 ? 33 : 700;
        o.algo = (enum hr_scale_algo)algo;
        HR_CHECK_EQ_INT(
            hr_image_resize(ctx, whole, o.width, o.height, o.algo, &resized, NULL),
            HR_OK);
        HR_CHECK_EQ_INT(load_path(DATA("progressive.jpg"), &o, &loaded, NULL), HR_OK);
        HR_CHECK(same_pixels(resized, loaded));
        hr_array_unref(&resized);
        hr_array_unref(&loaded);
    }
    hr_array_unref(&whole);
    hr_ctx_free(&ctx);
}

static enum hr_status load_once(void *cookie)
{
    struct hr_image_options o = defaults();
    struct hr_array *array = NULL;
    struct hr_value src = HR_VALUE_EMPTY;
    struct hr_ctx *ctx;
    enum hr_status status = hr_ctx_new(&ctx, NULL);
    const char *path = cookie;

    o.width = 50;
    o.height = 40;
    if (status == HR_OK)
        status = hr_text_new(path, strlen(path), &src);
    if (status == HR_OK)
        status = hr_image_load(ctx, &src, NULL, &o, &array, NULL);
    hr_array_unref(&array);
    hr_value_release(&src);
    hr_ctx_free(&ctx);
    return status;
}

static void every_failing_call_is_reported_and_nothing_is_left(void)
{
    static char jpeg[] = DATA("gray.jpg");
    static char png[] = DATA("anim.png");
    int failures = 0;

    HR_CHECK(fault_loop(FAULT_MEMORY | FAULT_FILE, load_once, jpeg, &failures) > 10);
    HR_CHECK(fault_loop(FAULT_MEMORY | FAULT_FILE, load_once, png, &failures) > 10);
    HR_CHECK_EQ_INT(failures, 0);
}

static const struct hr_test tests[] = {
    HR_TEST(the_documented_defaults),
    HR_TEST(what_is_no_picture_says_what_it_is),
    HR_TEST(a_name_replaces_the_sources_own),
    HR_TEST(a_long_name_keeps_its_end),
    HR_TEST(bytes_and_uint8_arrays_are_sources),
    HR_TEST(other_values_are_refused_by_name),
    HR_TEST(a_path_with_a_nul_is_refused),
    HR_TEST(bad_options_name_the_field),
    HR_TEST(limits_are_those_of_the_options),
    HR_TEST(pad_is_black),
    HR_TEST(crop_keeps_the_middle),
    HR_TEST(load_equals_decode_then_resize),
    HR_TEST(every_failing_call_is_reported_and_nothing_is_left),
};
HR_TEST_MAIN(tests)
