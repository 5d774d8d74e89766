/* The stand-alone context, scratch, ops and log messages. */
#include "base/ctx.h"

#include "base/log.h"
#include "base/mem.h"
#include "base/sys.h"
#include "hr_test.h"

static int made, destroyed;
static int order[HR_SCRATCH_MAX];

static enum hr_status make_int(void **out, struct hr_error *err)
{
    int *object = hr__malloc(sizeof(*object));
    if (!object)
        return hr__nomem(err, "test", "an int", sizeof(*object));
    *object = made++;
    *out = object;
    return HR_OK;
}

static void destroy_int(void *scratch)
{
    order[destroyed++] = *(int *)scratch;
    hr__free(scratch);
}

static enum hr_status refuse(void **out, struct hr_error *err)
{
    *out = NULL;
    return hr_error_set(err, HR_ERR_UNSUPPORTED, "test", 0, "no decoder today");
}

static void scratch_is_made_once_and_freed_last_first(void)
{
    static const struct hr_scratch_class a = {"a", make_int, destroy_int};
    static const struct hr_scratch_class b = {"b", make_int, destroy_int};
    struct hr_ctx *ctx;
    made = destroyed = 0;
    HR_REQUIRE(hr_ctx_new(&ctx, NULL) == HR_OK);
    void *first, *second, *again;
    HR_CHECK_EQ_INT(hr_ctx_scratch(ctx, &a, &first, NULL), HR_OK);
    HR_CHECK_EQ_INT(hr_ctx_scratch(ctx, &b, &second, NULL), HR_OK);
    HR_CHECK_EQ_INT(hr_ctx_scratch(ctx, &a, &again, NULL), HR_OK);
    HR_CHECK(first == again && first != second);
    HR_CHECK_EQ_INT(made, 2);
    hr_ctx_free(&ctx);
    HR_CHECK(ctx == NULL);
    HR_CHECK_EQ_INT(destroyed, 2);
    HR_CHECK_EQ_INT(order[0], 1);
    HR_CHECK_EQ_INT(order[1], 0);
    hr_ctx_free(&ctx);
}

static void scratch_that_cannot_be_made_is_not_kept(void)
{
    static const struct hr_scratch_class cls = {"refused", refuse, destroy_int};
    struct hr_ctx *ctx;
    HR_REQUIRE(hr_ctx_new(&ctx, NULL) == HR_OK);
    void *out = ctx;
    struct hr_error err = {0};
    HR_CHECK_EQ_INT(hr_ctx_scratch(ctx, &cls, &out, &err), HR_ERR_UNSUPPORTED);
    HR_CHECK_STR(err.text, "no decoder today");
    HR_CHECK(out == NULL);
    HR_CHECK_EQ_INT(ctx->scratch->count, 0);
    hr_ctx_free(&ctx);
}

static void a_seventeenth_kind_of_scratch_is_refused(void)
{
    struct hr_scratch_class cls[HR_SCRATCH_MAX + 1];
    struct hr_ctx *ctx;
    made = destroyed = 0;
    HR_REQUIRE(hr_ctx_new(&ctx, NULL) == HR_OK);
    void *out;
    struct hr_error err = {0};
    for (int i = 0; i <= HR_SCRATCH_MAX; i++) {
        cls[i] = (struct hr_scratch_class){"kind", make_int, destroy_int};
        enum hr_status want = i < HR_SCRATCH_MAX ? HR_OK : HR_ERR_LIMIT;
        HR_CHECK_EQ_INT(hr_ctx_scratch(ctx, &cls[i], &out, &err), want);
    }
    HR_CHECK_STR(err.text,
                 "scratch: one thread keeps at most 16 kinds, 'kind' is one more");
    hr_ctx_free(&ctx);
    HR_CHECK_EQ_INT(destroyed, HR_SCRATCH_MAX);
}

static void cancel_and_deadline_are_told_apart(void)
{
    struct hr_ctx *ctx;
    HR_REQUIRE(hr_ctx_new(&ctx, NULL) == HR_OK);
    HR_CHECK(!hr_ctx_cancelled(ctx));
    HR_CHECK_EQ_INT(hr_ctx_check(ctx, NULL), HR_OK);

    struct hr_error err = {0};
    ctx->deadline_ns = HR_SYS(now_ns)();
    HR_CHECK(hr_ctx_cancelled(ctx));
    HR_CHECK_EQ_INT(hr_ctx_check(ctx, &err), HR_ERR_DEADLINE);
    HR_CHECK_EQ_INT(err.status, HR_ERR_DEADLINE);

    _Atomic uint32_t cancel = 0;
    ctx->cancel = &cancel;
    ctx->deadline_ns = INT64_MAX;
    HR_CHECK(!hr_ctx_cancelled(ctx));
    atomic_store(&cancel, 1);
    HR_CHECK(hr_ctx_cancelled(ctx));
    HR_CHECK_EQ_INT(hr_ctx_check(ctx, NULL), HR_CANCELLED);
    hr_ctx_free(&ctx);
}

static void mark_slot(void *cookie, size_t slot, struct hr_ctx *ctx)
{
    int *seen = cookie;
    seen[slot] += ctx ? 1 : 100;
}

static void without_workers_each_slot_runs_once_here(void)
{
    struct hr_ctx *ctx;
    HR_REQUIRE(hr_ctx_new(&ctx, NULL) == HR_OK);
    int seen[9] = {0};
    hr_ctx_for_each(ctx, 0, mark_slot, seen);
    hr_ctx_for_each(ctx, 8, mark_slot, seen);
    for (int i = 0; i < 8; i++)
        HR_CHECK_EQ_INT(seen[i], 1);
    HR_CHECK_EQ_INT(seen[8], 0);
    hr_ctx_free(&ctx);
}

static int freed_states;

static void free_state(void *state)
{
    freed_states += *(int *)state;
}

static void an_op_is_freed_once(void)
{
    static const struct hr_op_class with = {.name = "with", .free_state = free_state};
    static const struct hr_op_class without = {.name = "without"};
    int state = 3;
    freed_states = 0;
    struct hr_op op = {&with, &state};
    hr_op_free(&op);
    HR_CHECK(op.cls == NULL && op.state == NULL);
    hr_op_free(&op);
    HR_CHECK_EQ_INT(freed_states, 3);
    op = (struct hr_op){&without, &state};
    hr_op_free(&op);
    HR_CHECK(op.cls == NULL);
}

static char logged[600];

static void keep_text(void *cookie, enum hr_log_level level, const char *text)
{
    snprintf(logged, sizeof(logged), "%s %d %s", (const char *)cookie, (int)level,
             text);
}

static void log_goes_to_the_callback_or_nowhere(void)
{
    logged[0] = '\0';
    hr__log(HR_LOG_WARNING, "lost %d", 1);
    HR_CHECK_STR(logged, "");
    hr__log_set(keep_text, "core");
    hr__log(HR_LOG_WARNING, "stage %s failed %d times", "decode", 3);
    HR_CHECK_STR(logged, "core 30 stage decode failed 3 times");
    char word[600];
    memset(word, 'x', sizeof(word));
    word[599] = '\0';
    hr__log(HR_LOG_INFO, "%s", word);
    HR_CHECK_EQ_INT(strlen(logged), strlen("core 20 ") + 511);
    hr__log_set(NULL, NULL);
    hr__log(HR_LOG_INFO, "unheard");
    HR_CHECK(strstr(logged, "unheard") == NULL);
}

static const struct hr_test tests[] = {
    HR_TEST(scratch_is_made_once_and_freed_last_first),
    HR_TEST(scratch_that_cannot_be_made_is_not_kept),
    HR_TEST(a_seventeenth_kind_of_scratch_is_refused),
    HR_TEST(cancel_and_deadline_are_told_apart),
    HR_TEST(without_workers_each_slot_runs_once_here),
    HR_TEST(an_op_is_freed_once),
    HR_TEST(log_goes_to_the_callback_or_nowhere),
};

HR_TEST_MAIN(tests)
