/* Every allocation of buffers, arrays, values and contexts fails in turn. */
#include "base/ctx.h"
#include "base/mem.h"
#include "fault.h"
#include "hr_test.h"

static int releases;

static void count_release(void *cookie)
{
    (void)cookie;
    releases++;
}

/* Small, mapped and huge blocks, and a wrapped one: 4 requests to the system. */
static enum hr_status buffers(void *cookie)
{
    struct hr_buffer *buffer[4] = {NULL};
    enum hr_status status = hr_buffer_new(1000, &buffer[0], NULL);
    if (status == HR_OK)
        status = hr_buffer_new(150528, &buffer[1], NULL);
    if (status == HR_OK)
        status = hr_buffer_new(3 << 20, &buffer[2], NULL);
    if (status == HR_OK)
        status = hr_buffer_wrap(cookie, 0, 0, count_release, cookie, &buffer[3], NULL);
    for (int i = 0; i < 4; i++)
        hr_buffer_unref(&buffer[i]);
    return status;
}

/* Two arrays made with their memory, the buffer and the header of a third, and a batch:
 * 5 requests. */
static enum hr_status arrays(void *cookie)
{
    (void)cookie;
    struct hr_array *a = NULL, *b = NULL, *c = NULL;
    struct hr_buffer *buffer = NULL;
    struct hr_value batch = HR_VALUE_EMPTY;
    struct hr_slot_failure failure = {.slot = 1};
    enum hr_status status = hr_array_alloc(HR_U8, 1, (int64_t[]){9000}, &a, NULL);
    if (status == HR_OK)
        status = hr_array_alloc(HR_F32, 2, (int64_t[]){3, 70000}, &b, NULL);
    if (status == HR_OK)
        status = hr_buffer_new(9000, &buffer, NULL);
    if (status == HR_OK)
        status = hr_array_new(&buffer, 0, HR_U8, 1, (int64_t[]){9000}, &c, NULL);
    if (status == HR_OK)
        status = hr_batch_new(&b, &failure, 1, &batch);
    hr_value_release(&batch);
    hr_array_unref(&a);
    hr_array_unref(&b);
    hr_array_unref(&c);
    hr_buffer_unref(&buffer);
    return status;
}

/* Keys, record, list, text: 4 requests. The list and the text end inside the record. */
static enum hr_status trees(void *cookie)
{
    (void)cookie;
    struct hr_keys *keys = NULL;
    struct hr_value record = HR_VALUE_EMPTY;
    enum hr_status status = hr_keys_new(2, (const char *[]){"a", "b"}, &keys);
    if (status == HR_OK)
        status = hr_record_new(keys, &record);
    if (status == HR_OK)
        status = hr_list_new(4, &hr_record_peek(&record)[0]);
    if (status == HR_OK)
        status = hr_text_new("x", 1, hr_list_peek(&hr_record_peek(&record)[0]));
    hr_value_release(&record);
    hr_keys_unref(&keys);
    return status;
}

static enum hr_status make_block(void **out, struct hr_error *err)
{
    *out = hr__malloc(10);
    return *out ? HR_OK : hr__nomem(err, "test", "a block", 10);
}

/* The context and one scratch object: 2 requests. */
static enum hr_status contexts(void *cookie)
{
    (void)cookie;
    static const struct hr_scratch_class cls = {"block", make_block, hr__free};
    struct hr_ctx *ctx;
    void *scratch;
    enum hr_status status = hr_ctx_new(&ctx, NULL);
    if (status == HR_OK)
        status = hr_ctx_scratch(ctx, &cls, &scratch, NULL);
    hr_ctx_free(&ctx);
    return status;
}

/* Each request fails twice: once alone, once with all after it. */
static void check(fault_fn fn, uint64_t requests)
{
    int failures = 0;
    HR_CHECK_EQ_INT(fault_loop(FAULT_MEMORY, fn, NULL, &failures), 2 * requests);
    HR_CHECK_EQ_INT(failures, 0);
}

static void buffers_without_memory(void)
{
    check(buffers, 4);
}

static void arrays_without_memory(void)
{
    check(arrays, 5);
}

static void trees_without_memory(void)
{
    check(trees, 4);
}

static void contexts_without_memory(void)
{
    check(contexts, 2);
}

static void a_failed_wrap_does_not_release(void)
{
    hr_pool_trim();
    struct hr_buffer *buffer;
    struct hr_error err = {0};
    releases = 0;
    fault_arm(FAULT_MEMORY, FAULT_FROM, 1);
    enum hr_status status =
        hr_buffer_wrap(&err, sizeof(err), 0, count_release, NULL, &buffer, &err);
    HR_CHECK_EQ_INT(fault_disarm(), 1);
    HR_CHECK_EQ_INT(status, HR_ERR_NOMEM);
    HR_CHECK_EQ_INT(err.status, HR_ERR_NOMEM);
    HR_CHECK_EQ_INT(releases, 0);
    HR_CHECK(buffer == NULL);
}

static void a_failed_array_leaves_the_buffer(void)
{
    struct hr_buffer *buffer;
    struct hr_array *array;
    HR_REQUIRE(hr_buffer_new(10, &buffer, NULL) == HR_OK);
    fault_arm(FAULT_MEMORY, FAULT_ONCE, 1);
    enum hr_status status =
        hr_array_new(&buffer, 0, HR_U8, 1, (int64_t[]){10}, &array, NULL);
    fault_disarm();
    HR_CHECK_EQ_INT(status, HR_ERR_NOMEM);
    HR_CHECK(array == NULL && buffer != NULL);
    hr_buffer_unref(&buffer);
}

static const struct hr_test tests[] = {
    HR_TEST(buffers_without_memory),         HR_TEST(arrays_without_memory),
    HR_TEST(trees_without_memory),           HR_TEST(contexts_without_memory),
    HR_TEST(a_failed_wrap_does_not_release), HR_TEST(a_failed_array_leaves_the_buffer),
};

HR_TEST_MAIN(tests)
