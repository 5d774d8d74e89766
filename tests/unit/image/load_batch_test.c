/* Batches: slots, their failures, strictness, fork-join, steady memory. */
#include <stdlib.h>

#include "base/ctx.h"
#include "base/sys.h"
#include "fault.h"
#include "hr_test.h"
#include "pictures.h"

#define SIDE 32
#define SLOT (SIDE * SIDE * 3)

static struct hr_image_options options_of(void)
{
    struct hr_image_options options;

    hr_image_options_init(&options);
    options.width = options.height = SIDE;
    return options;
}

static void fill(struct hr_value *srcs, const char *const *paths, size_t n)
{
    for (size_t i = 0; i < n; i++)
        srcs[i] = text_of(paths[i]);
}

static void release(struct hr_value *srcs, size_t n)
{
    for (size_t i = 0; i < n; i++)
        hr_value_release(&srcs[i]);
}

static const char *const mixed[] = {DATA("ok.jpg"), DATA("zero.jpg"), DATA("anim.png"),
                                    DATA("truncated.jpg"), DATA("gray.jpg")};
static const int64_t index_of[] = {70, 71, 72, 73, 74};

static bool is_zero(const uint8_t *at, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (at[i] != 0)
            return false;
    return true;
}

/* M1: truncated.jpg has decoded rows when it fails; none may stay. */
static void failed_slots_are_zero_and_listed(void)
{
    struct hr_image_options options = options_of();
    struct hr_value srcs[5];
    struct hr_value batch;
    struct hr_ctx *ctx;
    const struct hr_slot_failure *failure;
    const uint8_t *pixels;
    size_t n;

    HR_REQUIRE(hr_ctx_new(&ctx, NULL) == HR_OK);
    fill(srcs, mixed, 5);
    HR_REQUIRE(hr_image_load_batch(ctx, srcs, 5, index_of, &options, 0, &batch, NULL) ==
               HR_OK);
    failure = hr_batch_peek_failures(&batch, &n);
    HR_CHECK_EQ_INT(n, 2);
    HR_CHECK_EQ_INT(failure[0].slot, 1);
    HR_CHECK_EQ_INT(failure[0].error.status, HR_ERR_FORMAT);
    HR_CHECK_EQ_INT(failure[0].error.item, 71);
    HR_CHECK(strstr(failure[0].error.text, "image: empty input (slot 1, item 71, '") ==
             failure[0].error.text);
    HR_CHECK_EQ_INT(failure[1].slot, 3);
    HR_CHECK(strstr(failure[1].error.text, "of 480 rows (slot 3, item 73, '") != NULL);
    HR_CHECK(strstr(failure[1].name, "truncated.jpg") != NULL);
    pixels = hr_array_data(hr_batch_peek_array(&batch));
    for (size_t i = 0; i < 5; i++)
        HR_CHECK_EQ_INT(is_zero(pixels + i * SLOT, SLOT), i == 1 || i == 3);
    hr_value_release(&batch);
    release(srcs, 5);
    hr_ctx_free(&ctx);
}

static void slots_equal_single_pictures(void)
{
    struct hr_image_options options = options_of();
    struct hr_value srcs[5];
    struct hr_value batch;
    struct hr_ctx *ctx;
    const struct hr_array *all;

    HR_REQUIRE(hr_ctx_new(&ctx, NULL) == HR_OK);
    fill(srcs, mixed, 5);
    HR_REQUIRE(hr_image_load_batch(ctx, srcs, 5, NULL, &options, 0, &batch, NULL) ==
               HR_OK);
    all = hr_batch_peek_array(&batch);
    HR_CHECK_EQ_INT(hr_array_ndim(all), 4);
    HR_CHECK_EQ_INT(hr_array_shape(all)[0], 5);
    HR_CHECK_EQ_INT(hr_array_shape(all)[3], 3);
    for (int i = 0; i < 5; i += 2) {
        struct hr_array *one;

        HR_REQUIRE(load_path(mixed[i], &options, &one, NULL) == HR_OK);
        HR_CHECK(memcmp(hr_array_data(one), (uint8_t *)hr_array_data(all) + i * SLOT,
                        SLOT) == 0);
        hr_array_unref(&one);
    }
    hr_value_release(&batch);
    release(srcs, 5);
    hr_ctx_free(&ctx);
}

static int ran;

/* As workers would: in some other order, and all of them. */
static void backwards(struct hr_ctx *ctx, size_t n, hr_slot_fn fn, void *cookie)
{
    while (n-- > 0) {
        fn(cookie, n, ctx);
        ran++;
    }
}

static void strict_fails_with_the_lowest_slot_after_all_were_tried(void)
{
    struct hr_image_options options = options_of();
    struct hr_value srcs[5];
    struct hr_value batch;
    struct hr_ctx *ctx;
    struct hr_error err = {0};

    HR_REQUIRE(hr_ctx_new(&ctx, NULL) == HR_OK);
    ctx->for_each = backwards;
    ran = 0;
    fill(srcs, mixed, 5);
    HR_CHECK_EQ_INT(hr_image_load_batch(ctx, srcs, 5, NULL, &options, 1, &batch, &err),
                    HR_ERR_FORMAT);
    HR_CHECK(batch.cls == NULL);
    HR_CHECK_EQ_INT(ran, 5);
    HR_CHECK(strstr(err.text, "image: empty input (slot 1, '") == err.text);
    release(srcs, 5);
    hr_ctx_free(&ctx);
}

static void arguments_are_checked(void)
{
    struct hr_image_options options = options_of();
    struct hr_value src = HR_VALUE_EMPTY;
    struct hr_value batch;
    struct hr_ctx *ctx;

    HR_REQUIRE(hr_ctx_new(&ctx, NULL) == HR_OK);
    HR_CHECK_EQ_INT(hr_image_load_batch(ctx, &src, 0, NULL, &options, 1, &batch, NULL),
                    HR_ERR_ARG);
    options.height = 0;
    HR_CHECK_EQ_INT(hr_image_load_batch(ctx, &src, 1, NULL, &options, 1, &batch, NULL),
                    HR_ERR_ARG);
    hr_ctx_free(&ctx);
}

static void a_cancelled_batch_is_none(void)
{
    struct hr_image_options options = options_of();
    _Atomic uint32_t cancel = 1;
    struct hr_value srcs[5];
    struct hr_value batch;
    struct hr_ctx *ctx;

    HR_REQUIRE(hr_ctx_new(&ctx, NULL) == HR_OK);
    ctx->cancel = &cancel;
    fill(srcs, mixed, 5);
    HR_CHECK_EQ_INT(hr_image_load_batch(ctx, srcs, 5, NULL, &options, 0, &batch, NULL),
                    HR_CANCELLED);
    HR_CHECK(batch.cls == NULL);
    release(srcs, 5);
    hr_ctx_free(&ctx);
}

static uint64_t allocations;

static void *counted_alloc(size_t size)
{
    allocations++;
    return hr__sys_direct.alloc(size);
}

static void *counted_zalloc(size_t count, size_t size)
{
    allocations++;
    return hr__sys_direct.zalloc(count, size);
}

static void *counted_map(size_t size)
{
    allocations++;
    return hr__sys_direct.map(size);
}

/* B10: after the first batch one allocation per batch is left, that of the value. The
 * buffers come from the pool, all else is kept by the thread. */
static void steady_batches_allocate_their_value_alone(void)
{
    static const char *const paths[] = {DATA("ok.jpg"), DATA("gray.jpg"),
                                        DATA("progressive.jpg")};
    struct hr_image_options options = options_of();
    struct hr_value srcs[3];
    struct hr_ctx *ctx;

    HR_REQUIRE(hr_ctx_new(&ctx, NULL) == HR_OK);
    fill(srcs, paths, 3);
    for (int round = 0; round < 12; round++) {
        struct hr_value batch;

        if (round == 2) {
            allocations = 0;
            hr__sys.alloc = counted_alloc;
            hr__sys.zalloc = counted_zalloc;
            hr__sys.map = counted_map;
        }
        HR_CHECK_EQ_INT(
            hr_image_load_batch(ctx, srcs, 3, NULL, &options, 1, &batch, NULL), HR_OK);
        hr_value_release(&batch);
    }
    hr__sys = hr__sys_direct;
    /* The array's own header and the batch value, ten times. */
    HR_CHECK(allocations <= 20);
    release(srcs, 3);
    hr_ctx_free(&ctx);
}

static enum hr_status batch_once(void *cookie)
{
    struct hr_image_options options = options_of();
    struct hr_value srcs[2] = {HR_VALUE_EMPTY, HR_VALUE_EMPTY};
    struct hr_value batch = HR_VALUE_EMPTY;
    struct hr_ctx *ctx;
    enum hr_status status = hr_ctx_new(&ctx, NULL);

    for (int i = 0; i < 2 && status == HR_OK; i++) {
        const char *path = i ? DATA("anim.png") : DATA("gray.jpg");

        status = hr_text_new(path, strlen(path), &srcs[i]);
    }
    if (status == HR_OK)
        status = hr_image_load_batch(ctx, srcs, 2, NULL, &options, *(int *)cookie,
                                     &batch, NULL);
    hr_value_release(&batch);
    release(srcs, 2);
    hr_ctx_free(&ctx);
    return status;
}

static void every_failing_call_is_reported_and_nothing_is_left(void)
{
    int strict = 1;
    int failures = 0;

    HR_CHECK(fault_loop(FAULT_MEMORY | FAULT_FILE, batch_once, &strict, &failures) >
             10);
    strict = 0; /* a slot's failure is then the slot's own */
    HR_CHECK(fault_loop(FAULT_MEMORY | FAULT_FILE, batch_once, &strict, &failures) >
             10);
    HR_CHECK_EQ_INT(failures, 0);
}

static const struct hr_test tests[] = {
    HR_TEST(failed_slots_are_zero_and_listed),
    HR_TEST(slots_equal_single_pictures),
    HR_TEST(strict_fails_with_the_lowest_slot_after_all_were_tried),
    HR_TEST(arguments_are_checked),
    HR_TEST(a_cancelled_batch_is_none),
    HR_TEST(steady_batches_allocate_their_value_alone),
    HR_TEST(every_failing_call_is_reported_and_nothing_is_left),
};
HR_TEST_MAIN(tests)
