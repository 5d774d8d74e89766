/* Equal pictures into one array. */
#include <string.h>

#include "headrace/image.h"
#include "headrace/op.h"

#include "hr_test.h"

/* A 1 x 3 picture of 16-bit pixels: at, at + 1, at + 2. */
static struct hr_value row_of(uint16_t at)
{
    static const int64_t shape[] = {1, 3};
    struct hr_array *array = NULL;

    if (hr_array_alloc(HR_U16, 2, shape, &array, NULL) != HR_OK)
        return HR_VALUE_EMPTY;
    for (uint16_t i = 0; i < 3; i++)
        ((uint16_t *)hr_array_data(array))[i] = (uint16_t)(at + i);
    return hr_value_of_array(&array);
}

static struct hr_value bytes_of(const char *text)
{
    struct hr_buffer *buffer = NULL;

    if (hr_buffer_new(strlen(text), &buffer, NULL) != HR_OK)
        return HR_VALUE_EMPTY;
    memcpy(hr_buffer_data(buffer), text, strlen(text));
    return hr_value_of_bytes(&buffer);
}

static void release_all(struct hr_value *values, size_t n)
{
    for (size_t i = 0; i < n; i++)
        hr_value_release(&values[i]);
}

static void pictures_become_one_array(void)
{
    static const uint16_t pixels[] = {7, 8, 9, 20, 21, 22};
    struct hr_value frames[] = {row_of(7), row_of(20)};
    struct hr_array *out = NULL;

    HR_REQUIRE(hr_image_stack(frames, 2, &out, NULL) == HR_OK);
    HR_CHECK_EQ_INT(hr_array_dtype(out), HR_U16);
    HR_CHECK_EQ_INT(hr_array_ndim(out), 3);
    HR_CHECK_EQ_INT(hr_array_shape(out)[0], 2);
    HR_CHECK_EQ_INT(hr_array_shape(out)[1], 1);
    HR_CHECK_EQ_INT(hr_array_shape(out)[2], 3);
    HR_CHECK(memcmp(hr_array_data(out), pixels, sizeof(pixels)) == 0);
    hr_array_unref(&out);
    release_all(frames, 2);
}

static void bytes_and_batches_are_arrays(void)
{
    struct hr_value texts[] = {bytes_of("abc"), bytes_of("xyz")};
    struct hr_value row = row_of(1);
    struct hr_array *array = hr_array_ref(hr_value_peek_array(&row));
    struct hr_value mixed[] = {row, HR_VALUE_EMPTY};
    struct hr_array *out = NULL;

    HR_REQUIRE(hr_image_stack(texts, 2, &out, NULL) == HR_OK);
    HR_CHECK_EQ_INT(hr_array_dtype(out), HR_U8);
    HR_CHECK_EQ_INT(hr_array_ndim(out), 2);
    HR_CHECK(memcmp(hr_array_data(out), "abcxyz", 6) == 0);
    hr_array_unref(&out);
    HR_REQUIRE(hr_batch_new(&array, NULL, 0, &mixed[1]) == HR_OK);
    HR_REQUIRE(hr_image_stack(mixed, 2, &out, NULL) == HR_OK);
    HR_CHECK_EQ_INT(((uint16_t *)hr_array_data(out))[5], 3);
    hr_array_unref(&out);
    release_all(texts, 2);
    release_all(mixed, 2);
}

static void what_does_not_fit_is_named(void)
{
    struct hr_value frames[] = {row_of(0), row_of(0), bytes_of("abc"), HR_VALUE_EMPTY};
    int64_t ones[HR_NDIM_MAX] = {1, 1, 1, 1, 1, 1, 1, 1};
    struct hr_array *deep = NULL, *out = NULL;
    struct hr_error err = {0};

    HR_CHECK_EQ_INT(hr_image_stack(frames, 0, &out, &err), HR_ERR_ARG);
    HR_CHECK_STR(err.text, "frames is empty");
    HR_CHECK_EQ_INT(hr_image_stack(frames, 3, &out, &err), HR_ERR_ARG);
    HR_CHECK_STR(err.text, "frames[2] is (3,) uint8, but frames[0] is (1, 3) uint16");
    HR_CHECK_EQ_INT(hr_image_stack(frames + 3, 1, &out, &err), HR_ERR_TYPE);
    HR_CHECK_STR(err.text, "frames[0]: expected an array, got nothing");
    HR_REQUIRE(hr_array_alloc(HR_U8, HR_NDIM_MAX, ones, &deep, NULL) == HR_OK);
    frames[3] = hr_value_of_array(&deep);
    HR_CHECK_EQ_INT(hr_image_stack(frames + 3, 1, &out, &err), HR_ERR_ARG);
    HR_CHECK_STR(err.text, "frames have 8 dimensions; at most 7 can be stacked");
    HR_CHECK(out == NULL);
    release_all(frames, 4);
}

static void the_op_takes_lists(void)
{
    struct hr_value list = HR_VALUE_EMPTY, out = HR_VALUE_EMPTY;
    struct hr_error err = {0};
    struct hr_op op;

    hr_image_stack_op(&op);
    HR_CHECK_STR(op.cls->name, "convert_frames");
    HR_REQUIRE(hr_list_new(2, &list) == HR_OK);
    hr_list_peek(&list)[0] = row_of(1);
    hr_list_peek(&list)[1] = row_of(4);
    HR_REQUIRE(op.cls->run(op.state, NULL, &list, &out, NULL) == HR_OK);
    HR_CHECK_EQ_INT(hr_array_shape(hr_value_peek_array(&out))[0], 2);
    hr_value_release(&out);
    HR_CHECK_EQ_INT(op.cls->run(op.state, NULL, hr_list_peek(&list), &out, &err),
                    HR_ERR_TYPE);
    HR_CHECK_STR(err.text, "convert_frames: expected a list of arrays, got array");
    hr_value_release(&list);
    hr_op_free(&op);
}

static const struct hr_test tests[] = {
    HR_TEST(pictures_become_one_array),
    HR_TEST(bytes_and_batches_are_arrays),
    HR_TEST(what_does_not_fit_is_named),
    HR_TEST(the_op_takes_lists),
};
HR_TEST_MAIN(tests)
