/* The image functions as ops of a stage. */
#include "hr_test.h"
#include "pictures.h"

static enum hr_status run(const struct hr_op *op, struct hr_value in,
                          struct hr_value *out, struct hr_error *err)
{
    struct hr_ctx *ctx;
    enum hr_status status = hr_ctx_new(&ctx, err);

    if (status == HR_OK)
        status = op->cls->run(op->state, ctx, &in, out, err);
    hr_ctx_free(&ctx);
    hr_value_release(&in);
    return status;
}

static struct hr_image_options small(void)
{
    struct hr_image_options options;

    hr_image_options_init(&options);
    options.width = 20;
    options.height = 10;
    return options;
}

static struct hr_value list_of(const char *const *paths, size_t n)
{
    struct hr_value list = HR_VALUE_EMPTY;

    if (hr_list_new(n, &list) != HR_OK)
        return list;
    for (size_t i = 0; i < n; i++) {
        hr_list_peek(&list)[i] = text_of(paths[i]);
        hr_list_peek_index(&list)[i] = 100 + (int64_t)i;
    }
    return list;
}

static void load_gives_an_array(void)
{
    struct hr_image_options options = small();
    struct hr_op op;
    struct hr_value out;

    HR_REQUIRE(hr_image_load_op(&options, &op, NULL) == HR_OK);
    HR_CHECK_STR(op.cls->name, "load_image");
    HR_REQUIRE(run(&op, text_of(DATA("ok.jpg")), &out, NULL) == HR_OK);
    HR_CHECK_STR(hr_value_kind(&out), "array");
    HR_CHECK_EQ_INT(hr_array_shape(hr_value_peek_array(&out))[1], 20);
    hr_value_release(&out);
    hr_op_free(&op);
    HR_CHECK(op.cls == NULL);
}

static void load_batch_takes_a_list_and_names_its_items(void)
{
    static const char *const paths[] = {DATA("ok.jpg"), DATA("zero.jpg")};
    struct hr_image_options options = small();
    struct hr_op op;
    struct hr_value out;
    struct hr_error err = {0};
    size_t n;

    HR_REQUIRE(hr_image_load_batch_op(&options, 0, &op, NULL) == HR_OK);
    HR_REQUIRE(run(&op, list_of(paths, 2), &out, NULL) == HR_OK);
    HR_CHECK_STR(hr_value_kind(&out), "batch");
    HR_CHECK_EQ_INT(hr_batch_peek_failures(&out, &n)->error.item, 101);
    hr_value_release(&out);
    HR_CHECK_EQ_INT(run(&op, text_of("a.jpg"), &out, &err), HR_ERR_TYPE);
    HR_CHECK(
        strstr(err.text, "load_image_batch: expected a list of paths or bytes, got ") ==
        err.text);
    hr_op_free(&op);
    HR_REQUIRE(hr_image_load_batch_op(&options, 1, &op, NULL) == HR_OK);
    HR_CHECK_EQ_INT(run(&op, list_of(paths, 2), &out, &err), HR_ERR_FORMAT);
    HR_CHECK(out.cls == NULL);
    hr_op_free(&op);
}

static void resize_takes_an_array(void)
{
    struct hr_array *pixels;
    struct hr_op op;
    struct hr_value out;
    struct hr_error err = {0};

    HR_REQUIRE(hr_image_resize_op(3, 2, HR_SCALE_BOX, &op, NULL) == HR_OK);
    HR_REQUIRE(hr_array_alloc(HR_U8, 2, (int64_t[]){4, 6}, &pixels, NULL) == HR_OK);
    memset(hr_array_data(pixels), 9, 24);
    HR_REQUIRE(run(&op, hr_value_of_array(&pixels), &out, NULL) == HR_OK);
    HR_CHECK_EQ_INT(hr_array_nbytes(hr_value_peek_array(&out)), 6);
    HR_CHECK_EQ_INT(((uint8_t *)hr_array_data(hr_value_peek_array(&out)))[5], 9);
    hr_value_release(&out);
    HR_CHECK_EQ_INT(run(&op, text_of("a.jpg"), &out, &err), HR_ERR_TYPE);
    hr_op_free(&op);
}

static void bad_arguments_fail_when_the_op_is_made(void)
{
    struct hr_image_options options = small();
    struct hr_op op;

    options.width = -5;
    HR_CHECK_EQ_INT(hr_image_load_op(&options, &op, NULL), HR_ERR_ARG);
    HR_CHECK(op.cls == NULL);
    options = small();
    options.height = 0;
    HR_CHECK_EQ_INT(hr_image_load_batch_op(&options, 1, &op, NULL), HR_ERR_ARG);
    HR_CHECK_EQ_INT(hr_image_resize_op(0, 3, HR_SCALE_BOX, &op, NULL), HR_ERR_ARG);
}

static const struct hr_test tests[] = {
    HR_TEST(load_gives_an_array),
    HR_TEST(load_batch_takes_a_list_and_names_its_items),
    HR_TEST(resize_takes_an_array),
    HR_TEST(bad_arguments_fail_when_the_op_is_made),
};
HR_TEST_MAIN(tests)
