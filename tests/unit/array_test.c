/* Arrays: sizes, views, and shapes that must be refused. */
#include "headrace/array.h"

#include "hr_test.h"

static void element_sizes(void)
{
    static const size_t want[HR_DTYPE_COUNT] = {1, 1, 2, 2, 4, 4, 8, 8, 2, 4, 8, 1, 2};
    for (int i = 0; i < HR_DTYPE_COUNT; i++)
        HR_CHECK_EQ_INT(hr_dtype_size((enum hr_dtype)i), want[i]);
    HR_CHECK_EQ_INT(hr_dtype_size(HR_DTYPE_COUNT), 0);
    HR_CHECK_EQ_INT(hr_dtype_size((enum hr_dtype) - 1), 0);
}

static void alloc_views_a_whole_buffer(void)
{
    struct hr_array *array;
    HR_REQUIRE(hr_array_alloc(HR_F32, 3, (int64_t[]){2, 3, 4}, &array, NULL) == HR_OK);
    HR_CHECK_EQ_INT(hr_array_nbytes(array), 96);
    HR_CHECK_EQ_INT(hr_array_dtype(array), HR_F32);
    HR_CHECK_EQ_INT(hr_array_ndim(array), 3);
    HR_CHECK_EQ_INT(hr_array_shape(array)[0], 2);
    HR_CHECK_EQ_INT(hr_array_shape(array)[2], 4);
    struct hr_buffer *buffer = hr_array_peek_buffer(array);
    HR_CHECK(hr_array_data(array) == hr_buffer_data(buffer));
    HR_CHECK_EQ_INT(hr_buffer_size(buffer), 96);
    struct hr_array *second = hr_array_ref(array);
    hr_array_unref(&array);
    HR_CHECK(array == NULL);
    HR_CHECK_EQ_INT(hr_array_nbytes(second), 96);
    hr_array_unref(&second);
    hr_array_unref(&second);
}

static void empty_and_scalar_shapes(void)
{
    struct hr_array *array;
    HR_REQUIRE(hr_array_alloc(HR_F64, 0, NULL, &array, NULL) == HR_OK);
    HR_CHECK_EQ_INT(hr_array_nbytes(array), 8);
    HR_CHECK_EQ_INT(hr_array_ndim(array), 0);
    hr_array_unref(&array);
    HR_REQUIRE(hr_array_alloc(HR_U8, 2, (int64_t[]){0, 5}, &array, NULL) == HR_OK);
    HR_CHECK_EQ_INT(hr_array_nbytes(array), 0);
    hr_array_unref(&array);
}

static void a_view_takes_the_buffer_on_success_only(void)
{
    struct hr_buffer *buffer;
    struct hr_array *array;
    struct hr_error err = {0};
    HR_REQUIRE(hr_buffer_new(100, &buffer, NULL) == HR_OK);
    char *data = hr_buffer_data(buffer);
    HR_CHECK_EQ_INT(hr_array_new(&buffer, 41, HR_U16, 1, (int64_t[]){30}, &array, &err),
                    HR_ERR_ARG);
    HR_CHECK(buffer != NULL && array == NULL);
    HR_CHECK_STR(err.text, "array: 60 bytes from offset 41 leave the buffer of 100");
    HR_CHECK_EQ_INT(
        hr_array_new(&buffer, SIZE_MAX, HR_U16, 1, (int64_t[]){30}, &array, &err),
        HR_ERR_ARG);
    HR_CHECK_EQ_INT(hr_array_new(&buffer, 101, HR_U8, 1, (int64_t[]){0}, &array, &err),
                    HR_ERR_ARG);
    HR_REQUIRE(hr_array_new(&buffer, 40, HR_U16, 1, (int64_t[]){30}, &array, &err) ==
               HR_OK);
    HR_CHECK(buffer == NULL);
    HR_CHECK((char *)hr_array_data(array) == data + 40);
    HR_CHECK_EQ_INT(hr_array_nbytes(array), 60);
    hr_array_unref(&array);
}

/* Each must be refused as an argument, without touching *out's old content. */
static void shapes_that_are_refused(void)
{
    static const struct {
        enum hr_dtype dtype;
        int ndim;
        int64_t shape[9];
        const char *text;
    } bad[] = {
        {HR_U8, 1, {-1}, "array: shape[0] must not be negative, but is -1"},
        {HR_U8, 2, {0, -7}, "array: shape[1] must not be negative, but is -7"},
        {HR_U8, 9, {1, 1, 1, 1, 1, 1, 1, 1, 1}, "array: ndim must be 0 to 8, not 9"},
        {HR_U8, -1, {1}, "array: ndim must be 0 to 8, not -1"},
        {HR_DTYPE_COUNT, 1, {1}, "array: dtype 13 is not known"},
        {HR_U64,
         1,
         {INT64_MAX},
         "array: a size beyond what memory can address, at shape[0] = "
         "9223372036854775807"},
        {HR_U8,
         2,
         {(int64_t)1 << 32, (int64_t)1 << 32},
         "array: a size beyond what memory can address, at shape[1] = 4294967296"},
        {HR_U8,
         2,
         {(int64_t)1 << 32, (int64_t)1 << 31},
         "array: a size beyond what memory can address, at shape[1] = 2147483648"},
        {HR_U8,
         3,
         {0, INT64_MAX, 3},
         "array: a size beyond what memory can address, at shape[2] = 3"},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct hr_error err = {0};
        struct hr_array *array = (struct hr_array *)&err;
        HR_CHECK_EQ_INT(
            hr_array_alloc(bad[i].dtype, bad[i].ndim, bad[i].shape, &array, &err),
            HR_ERR_ARG);
        HR_CHECK(array == NULL);
        HR_CHECK_STR(err.text, bad[i].text);
    }
}

static void a_size_that_memory_lacks_is_no_memory(void)
{
    struct hr_array *array;
    HR_CHECK_EQ_INT(hr_array_alloc(HR_U8, 1, (int64_t[]){INT64_MAX}, &array, NULL),
                    HR_ERR_NOMEM);
    HR_CHECK(array == NULL);
}

static const struct hr_test tests[] = {
    HR_TEST(element_sizes),           HR_TEST(alloc_views_a_whole_buffer),
    HR_TEST(empty_and_scalar_shapes), HR_TEST(a_view_takes_the_buffer_on_success_only),
    HR_TEST(shapes_that_are_refused), HR_TEST(a_size_that_memory_lacks_is_no_memory),
};

HR_TEST_MAIN(tests)
