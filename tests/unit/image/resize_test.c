/* Resize of arrays: shapes, arguments, memory at the end of a foreign buffer. */
#include <stdlib.h>

#include "fault.h"
#include "hr_test.h"
#include "pictures.h"

static struct hr_array *array_of(const uint8_t *data, int ndim, const int64_t *shape)
{
    struct hr_array *array;

    if (hr_array_alloc(HR_U8, ndim, shape, &array, NULL) != HR_OK)
        abort();
    memcpy(hr_array_data(array), data, hr_array_nbytes(array));
    return array;
}

static enum hr_status resize(const struct hr_array *src, int64_t w, int64_t h,
                             enum hr_scale_algo algo, struct hr_array **out,
                             struct hr_error *err)
{
    struct hr_ctx *ctx;
    enum hr_status status;

    if (hr_ctx_new(&ctx, NULL) != HR_OK)
        abort();
    status = hr_image_resize(ctx, src, w, h, algo, out, err);
    hr_ctx_free(&ctx);
    return status;
}

/* Box halves: (10 + 20 + 30 + 40) / 4 = 25 by rows 15, 35; and 4 pictures' worth. */
static void every_shape_keeps_its_form(void)
{
    static const uint8_t data[] = {10, 20, 30, 40, 50, 60, 70, 80};
    static const int64_t flat[] = {2, 2};
    static const int64_t deep[] = {2, 2, 1};
    static const int64_t many[] = {2, 2, 2, 1};
    const int64_t *const shapes[] = {flat, deep, many};

    for (int i = 0; i < 3; i++) {
        struct hr_array *src = array_of(data, i + 2, shapes[i]);
        struct hr_array *out;

        HR_REQUIRE(resize(src, 1, 1, HR_SCALE_BOX, &out, NULL) == HR_OK);
        HR_CHECK_EQ_INT(hr_array_ndim(out), i + 2);
        HR_CHECK_EQ_INT(hr_array_nbytes(out), i == 2 ? 2 : 1);
        HR_CHECK_EQ_INT(((uint8_t *)hr_array_data(out))[0], 25);
        if (i == 2)
            HR_CHECK_EQ_INT(((uint8_t *)hr_array_data(out))[1], 65);
        hr_array_unref(&out);
        hr_array_unref(&src);
    }
}

static void equal_sizes_are_a_copy(void)
{
    static const uint8_t data[] = {1, 2, 3, 4, 5, 6};
    struct hr_array *src = array_of(data, 3, (int64_t[]){1, 2, 3});
    struct hr_array *out;

    HR_REQUIRE(resize(src, 2, 1, HR_SCALE_LANCZOS, &out, NULL) == HR_OK);
    HR_CHECK(hr_array_data(out) != hr_array_data(src));
    HR_CHECK(memcmp(hr_array_data(out), data, 6) == 0);
    hr_array_unref(&out);
    hr_array_unref(&src);
}

/* No alpha is multiplied in: each of four channels is resized alone. */
static void four_channels_are_four_pictures(void)
{
    static const uint8_t data[] = {100, 0, 0, 0, 200, 0, 0, 255};
    struct hr_array *src = array_of(data, 3, (int64_t[]){1, 2, 4});
    struct hr_array *out;

    HR_REQUIRE(resize(src, 1, 1, HR_SCALE_BOX, &out, NULL) == HR_OK);
    HR_CHECK_EQ_INT(((uint8_t *)hr_array_data(out))[0], 150);
    HR_CHECK_EQ_INT(((uint8_t *)hr_array_data(out))[3], 128);
    hr_array_unref(&out);
    hr_array_unref(&src);
}

/* Foreign memory of exactly its size: AddressSanitizer sees any read past it. */
static void nothing_is_read_past_foreign_memory(void)
{
    for (int64_t width = 1; width < 24; width++)
        for (int64_t channels = 1; channels <= 4; channels++) {
            size_t bytes = (size_t)(width * 3 * channels);
            uint8_t *data = malloc(bytes);
            struct hr_buffer *buffer;
            struct hr_array *src;
            struct hr_array *out;

            memset(data, 200, bytes);
            HR_REQUIRE(hr_buffer_wrap(data, bytes, HR_BUFFER_READONLY, free, data,
                                      &buffer, NULL) == HR_OK);
            HR_REQUIRE(hr_array_new(&buffer, 0, HR_U8, 3,
                                    (int64_t[]){3, width, channels}, &src,
                                    NULL) == HR_OK);
            HR_CHECK_EQ_INT(resize(src, 7, 2, HR_SCALE_BICUBIC, &out, NULL), HR_OK);
            for (size_t i = 0; i < hr_array_nbytes(out); i++)
                HR_CHECK_EQ_INT(((uint8_t *)hr_array_data(out))[i], 200);
            hr_array_unref(&out);
            hr_array_unref(&src);
        }
}

static void check_refused(struct hr_array *src, int64_t w, int64_t h,
                          enum hr_status want, const char *text)
{
    struct hr_array *out;
    struct hr_error err = {0};

    HR_CHECK_EQ_INT(resize(src, w, h, HR_SCALE_BOX, &out, &err), want);
    HR_CHECK(out == NULL);
    HR_CHECK_STR(err.text, text);
    hr_array_unref(&src);
}

static void arguments_are_checked(void)
{
    static const uint8_t data[16] = {0};
    struct hr_array *floats;

    check_refused(array_of(data, 2, (int64_t[]){2, 2}), 0, 5, HR_ERR_ARG,
                  "resize: width and height must be 1 … 65535, got 0 x 5");
    check_refused(
        array_of(data, 1, (int64_t[]){4}), 1, 1, HR_ERR_ARG,
        "resize: expected (H, W), (H, W, C) or (N, H, W, C), got 1 dimensions");
    check_refused(array_of(data, 3, (int64_t[]){1, 1, 5}), 1, 1, HR_ERR_ARG,
                  "resize: expected 1 to 4 channels, got 5");
    check_refused(array_of(data, 2, (int64_t[]){0, 3}), 1, 1, HR_ERR_ARG,
                  "resize: the picture has 3 x 0 pixels");
    HR_REQUIRE(hr_array_alloc(HR_F32, 2, (int64_t[]){1, 1}, &floats, NULL) == HR_OK);
    check_refused(floats, 1, 1, HR_ERR_TYPE,
                  "resize: expected uint8 pixels, got float32");
    check_refused(array_of(data, 2, (int64_t[]){2, 2}), 65535, 65535, HR_ERR_LIMIT,
                  "resize: 1 pictures of 65535 x 65535 x 1 values, the limit is "
                  "1073741824 bytes");
}

static enum hr_status resize_once(void *cookie)
{
    struct hr_array *src = cookie;
    struct hr_array *out = NULL;
    struct hr_ctx *ctx;
    enum hr_status status = hr_ctx_new(&ctx, NULL);

    if (status == HR_OK)
        status = hr_image_resize(ctx, src, 5, 9, HR_SCALE_BICUBIC, &out, NULL);
    hr_array_unref(&out);
    hr_ctx_free(&ctx);
    return status;
}

static void every_failing_call_is_reported_and_nothing_is_left(void)
{
    static const uint8_t data[30 * 20];
    struct hr_array *src = array_of(data, 2, (int64_t[]){30, 20});
    int failures = 0;

    HR_CHECK(fault_loop(FAULT_MEMORY, resize_once, src, &failures) > 6);
    HR_CHECK_EQ_INT(failures, 0);
    hr_array_unref(&src);
}

static const struct hr_test tests[] = {
    HR_TEST(every_shape_keeps_its_form),
    HR_TEST(equal_sizes_are_a_copy),
    HR_TEST(four_channels_are_four_pictures),
    HR_TEST(nothing_is_read_past_foreign_memory),
    HR_TEST(arguments_are_checked),
    HR_TEST(every_failing_call_is_reported_and_nothing_is_left),
};
HR_TEST_MAIN(tests)
