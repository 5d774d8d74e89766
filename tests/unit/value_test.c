/* Values of every class: content, sharing, sizes, deep nesting. */
#include "headrace/value.h"

#include "hr_test.h"

static struct hr_value text_of(const char *text)
{
    struct hr_value value;
    HR_CHECK_EQ_INT(hr_text_new(text, strlen(text), &value), HR_OK);
    return value;
}

static struct hr_array *array_of(int64_t n)
{
    struct hr_array *array = NULL;
    HR_CHECK_EQ_INT(hr_array_alloc(HR_U8, 1, &n, &array, NULL), HR_OK);
    return array;
}

static struct hr_value share(const struct hr_value *value)
{
    return value->cls->share(value);
}

static size_t nbytes(const struct hr_value *value)
{
    return value->cls->nbytes(value);
}

static void the_empty_value(void)
{
    struct hr_value value = HR_VALUE_EMPTY;
    HR_CHECK_STR(hr_value_kind(&value), "nothing");
    hr_value_release(&value);
    HR_CHECK(hr_value_peek_array(&value) == NULL);
    HR_CHECK(hr_text_peek(&value, NULL) == NULL);
}

static void text_keeps_its_bytes(void)
{
    struct hr_value value;
    HR_REQUIRE(hr_text_new("a\0b", 3, &value) == HR_OK);
    size_t len;
    const char *bytes = hr_text_peek(&value, &len);
    HR_CHECK_EQ_INT(len, 3);
    HR_CHECK(memcmp(bytes, "a\0b", 4) == 0);
    HR_CHECK_EQ_INT(nbytes(&value), 3);
    struct hr_value second = share(&value);
    hr_value_release(&value);
    HR_CHECK(value.cls == NULL && value.ptr == NULL);
    HR_CHECK(hr_text_peek(&second, NULL) == bytes);
    hr_value_release(&second);

    HR_REQUIRE(hr_text_new(NULL, 0, &value) == HR_OK);
    HR_CHECK_STR(hr_text_peek(&value, &len), "");
    HR_CHECK_EQ_INT(len, 0);
    hr_value_release(&value);
    HR_CHECK_EQ_INT(hr_text_new("", SIZE_MAX, &value), HR_ERR_NOMEM);
    HR_CHECK(value.cls == NULL);
}

static void arrays_and_bytes_share_their_memory(void)
{
    struct hr_array *array = array_of(12);
    void *data = hr_array_data(array);
    struct hr_value value = hr_value_of_array(&array);
    HR_CHECK(array == NULL);
    HR_CHECK_STR(hr_value_kind(&value), "array");
    HR_CHECK_EQ_INT(nbytes(&value), 12);
    struct hr_value second = share(&value);
    hr_value_release(&value);
    HR_CHECK(hr_array_data(hr_value_peek_array(&second)) == data);
    HR_CHECK(hr_value_peek_bytes(&second) == NULL);
    hr_value_release(&second);

    struct hr_buffer *buffer;
    HR_REQUIRE(hr_buffer_new(7, &buffer, NULL) == HR_OK);
    struct hr_buffer *same = buffer;
    value = hr_value_of_bytes(&buffer);
    HR_CHECK(buffer == NULL);
    HR_CHECK_STR(hr_value_kind(&value), "bytes");
    HR_CHECK_EQ_INT(nbytes(&value), 7);
    second = share(&value);
    hr_value_release(&value);
    HR_CHECK(hr_value_peek_bytes(&second) == same);
    HR_CHECK(hr_value_peek_array(&second) == NULL);
    hr_value_release(&second);
}

static void lists_start_empty_and_own_their_values(void)
{
    struct hr_value list;
    HR_REQUIRE(hr_list_new(3, &list) == HR_OK);
    HR_CHECK_EQ_INT(hr_list_size(&list), 3);
    for (int i = 0; i < 3; i++) {
        HR_CHECK(hr_list_peek(&list)[i].cls == NULL);
        HR_CHECK_EQ_INT(hr_list_peek_index(&list)[i], -1);
    }
    struct hr_array *array = array_of(100);
    hr_list_peek(&list)[0] = text_of("four");
    hr_list_peek(&list)[2] = hr_value_of_array(&array);
    hr_list_peek_index(&list)[2] = INT64_MAX;
    HR_CHECK_EQ_INT(nbytes(&list), 104);
    HR_CHECK_STR(hr_value_kind(&list), "list");
    struct hr_value second = share(&list);
    hr_value_release(&list);
    HR_CHECK_STR(hr_text_peek(&hr_list_peek(&second)[0], NULL), "four");
    HR_CHECK_EQ_INT(hr_list_peek_index(&second)[2], INT64_MAX);
    hr_value_release(&second);

    HR_REQUIRE(hr_list_new(0, &list) == HR_OK);
    HR_CHECK_EQ_INT(hr_list_size(&list), 0);
    hr_value_release(&list);
    HR_CHECK_EQ_INT(hr_list_new(SIZE_MAX / 8, &list), HR_ERR_NOMEM);
    HR_CHECK_EQ_INT(hr_list_new(SIZE_MAX / 24, &list), HR_ERR_NOMEM);
    HR_CHECK(list.cls == NULL);
}

static void keys_copy_their_names(void)
{
    char name[] = "image";
    struct hr_keys *keys, *second;
    HR_REQUIRE(hr_keys_new(3, (const char *[]){name, "", "label"}, &keys) == HR_OK);
    name[0] = 'X';
    HR_CHECK_EQ_INT(hr_keys_size(keys), 3);
    HR_CHECK_STR(hr_keys_name(keys, 0), "image");
    HR_CHECK_STR(hr_keys_name(keys, 1), "");
    HR_CHECK_STR(hr_keys_name(keys, 2), "label");
    second = hr_keys_ref(keys);
    hr_keys_unref(&keys);
    HR_CHECK(keys == NULL);
    HR_CHECK_STR(hr_keys_name(second, 2), "label");
    hr_keys_unref(&second);
    hr_keys_unref(&second);

    HR_REQUIRE(hr_keys_new(2, NULL, &keys) == HR_OK);
    HR_CHECK_EQ_INT(hr_keys_size(keys), 2);
    HR_CHECK(hr_keys_name(keys, 1) == NULL);
    hr_keys_unref(&keys);
}

static void records_keep_their_keys_alive(void)
{
    struct hr_keys *keys;
    struct hr_value record;
    HR_REQUIRE(hr_keys_new(2, (const char *[]){"path", "label"}, &keys) == HR_OK);
    HR_REQUIRE(hr_record_new(keys, &record) == HR_OK);
    hr_keys_unref(&keys);
    HR_CHECK_STR(hr_keys_name(hr_record_peek_keys(&record), 1), "label");
    HR_CHECK(hr_record_peek(&record)[1].cls == NULL);
    HR_CHECK(hr_list_peek(&record) == NULL);
    HR_CHECK_EQ_INT(hr_list_size(&record), 0);

    struct hr_array *array = array_of(10);
    hr_record_peek(&record)[0] = hr_value_of_array(&array);
    hr_record_peek(&record)[1] = text_of("b.png");
    HR_CHECK_EQ_INT(nbytes(&record), 15);
    struct hr_value second = share(&record);
    hr_value_release(&record);
    HR_CHECK_STR(hr_text_peek(&hr_record_peek(&second)[1], NULL), "b.png");
    hr_value_release(&second);
}

/* A list in a list in a list ...: released without recursion, and an array at the very
 * bottom is reached (the leak counter sees it). */
static void deep_nesting_is_released_flat(void)
{
    struct hr_array *array = array_of(5);
    struct hr_value inner = hr_value_of_array(&array);
    for (int i = 0; i < 200000; i++) {
        struct hr_value outer;
        HR_REQUIRE(hr_list_new(2, &outer) == HR_OK);
        hr_list_peek(&outer)[i % 2] = inner;
        inner = outer;
    }
    HR_CHECK_EQ_INT(nbytes(&inner), 0); /* too deep to be looked at */
    hr_value_release(&inner);
}

static void a_shared_inner_list_outlives_the_outer(void)
{
    struct hr_value inner, outer;
    HR_REQUIRE(hr_list_new(1, &inner) == HR_OK);
    HR_REQUIRE(hr_list_new(2, &outer) == HR_OK);
    hr_list_peek(&inner)[0] = text_of("deep");
    hr_list_peek(&outer)[0] = share(&inner);
    hr_list_peek(&outer)[1] = share(&inner);
    HR_CHECK_EQ_INT(nbytes(&outer), 8);
    hr_value_release(&outer);
    HR_CHECK_STR(hr_text_peek(&hr_list_peek(&inner)[0], NULL), "deep");
    hr_value_release(&inner);
}

static void batches_copy_their_failures(void)
{
    struct hr_slot_failure failure[2] = {{.slot = 3, .name = "a.jpg"},
                                         {.slot = 7, .name = "<bytes>"}};
    (void)hr_error_set(&failure[1].error, HR_ERR_FORMAT, "image", 0, "no picture");
    struct hr_array *array = array_of(64), *same = array;
    struct hr_value batch, second;
    HR_REQUIRE(hr_batch_new(&array, failure, 2, &batch) == HR_OK);
    HR_CHECK(array == NULL);
    memset(failure, 0, sizeof(failure));
    size_t n;
    const struct hr_slot_failure *kept = hr_batch_peek_failures(&batch, &n);
    HR_REQUIRE(kept && n == 2);
    HR_CHECK_EQ_INT(kept[0].slot, 3);
    HR_CHECK_STR(kept[1].name, "<bytes>");
    HR_CHECK_STR(kept[1].error.text, "no picture");
    HR_CHECK_STR(hr_value_kind(&batch), "batch");
    HR_CHECK_EQ_INT(nbytes(&batch), 64);
    HR_CHECK(hr_value_peek_array(&batch) == NULL);
    second = share(&batch);
    hr_value_release(&batch);
    HR_CHECK(hr_batch_peek_array(&second) == same);
    hr_value_release(&second);

    array = array_of(1);
    HR_REQUIRE(hr_batch_new(&array, NULL, 0, &batch) == HR_OK);
    HR_CHECK(hr_batch_peek_failures(&batch, &n) == NULL);
    HR_CHECK_EQ_INT(n, 0);
    hr_value_release(&batch);
}

static const struct hr_test tests[] = {
    HR_TEST(the_empty_value),
    HR_TEST(text_keeps_its_bytes),
    HR_TEST(arrays_and_bytes_share_their_memory),
    HR_TEST(lists_start_empty_and_own_their_values),
    HR_TEST(keys_copy_their_names),
    HR_TEST(records_keep_their_keys_alive),
    HR_TEST(deep_nesting_is_released_flat),
    HR_TEST(a_shared_inner_list_outlives_the_outer),
    HR_TEST(batches_copy_their_failures),
};

HR_TEST_MAIN(tests)
