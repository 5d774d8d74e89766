/* Status names, and what hr_error_set keeps of a text. */
#include "headrace/status.h"

#include "hr_test.h"

static void every_status_has_its_name(void)
{
    HR_CHECK_STR(hr_status_name(HR_OK), "ok");
    HR_CHECK_STR(hr_status_name(HR_AGAIN), "again");
    HR_CHECK_STR(hr_status_name(HR_TIMEOUT), "timeout");
    HR_CHECK_STR(hr_status_name(HR_CANCELLED), "cancelled");
    HR_CHECK_STR(hr_status_name(HR_END), "end");
    HR_CHECK_STR(hr_status_name(HR_EPOCH), "epoch");
    HR_CHECK_STR(hr_status_name(HR_SKIP), "skip");
    HR_CHECK_STR(hr_status_name(HR_ERR_ARG), "argument");
    HR_CHECK_STR(hr_status_name(HR_ERR_STATE), "state");
    HR_CHECK_STR(hr_status_name(HR_ERR_NOMEM), "no memory");
    HR_CHECK_STR(hr_status_name(HR_ERR_IO), "io");
    HR_CHECK_STR(hr_status_name(HR_ERR_FORMAT), "format");
    HR_CHECK_STR(hr_status_name(HR_ERR_UNSUPPORTED), "unsupported");
    HR_CHECK_STR(hr_status_name(HR_ERR_LIMIT), "limit");
    HR_CHECK_STR(hr_status_name(HR_ERR_TYPE), "type");
    HR_CHECK_STR(hr_status_name(HR_ERR_DEADLINE), "deadline");
    HR_CHECK_STR(hr_status_name(HR_ERR_FOREIGN), "foreign");
    HR_CHECK_STR(hr_status_name(HR_ERR_THREAD), "thread");
    /* NOLINTNEXTLINE(clang-analyzer-optin.core.EnumCastOutOfRange): a foreign value */
    HR_CHECK_STR(hr_status_name((enum hr_status)77), "unknown");
}

static void error_set_fills_every_field(void)
{
    struct hr_error err = {0};
    enum hr_status status =
        hr_error_set(&err, HR_ERR_IO, "file", 2, "file: '%s' of %d", "a.jpg", 7);
    HR_CHECK_EQ_INT(status, HR_ERR_IO);
    HR_CHECK_EQ_INT(err.status, HR_ERR_IO);
    HR_CHECK_EQ_INT(err.code, 2);
    HR_CHECK_EQ_INT(err.item, -1);
    HR_CHECK_STR(err.origin, "file");
    HR_CHECK_STR(err.text, "file: 'a.jpg' of 7");
}

static void error_set_without_an_error_returns_the_status(void)
{
    HR_CHECK_EQ_INT(hr_error_set(NULL, HR_ERR_LIMIT, "image", 0, "x"), HR_ERR_LIMIT);
}

/* `count` times 'a', then `end`. */
static void set_text(struct hr_error *err, size_t count, const char *end)
{
    char text[400];
    memset(text, 'a', count);
    snprintf(text + count, sizeof(text) - count, "%s", end);
    (void)hr_error_set(err, HR_ERR_ARG, "test", 0, "%s", text);
}

static void long_text_is_cut_between_characters(void)
{
    struct hr_error err;
    size_t room = sizeof(err.text) - 1;

    set_text(&err, room - 2, "\xC3\xA9"); /* é, 2 bytes: fits exactly */
    HR_CHECK_EQ_INT(strlen(err.text), room);
    set_text(&err, room - 1, "\xC3\xA9"); /* half of it would fit */
    HR_CHECK_EQ_INT(strlen(err.text), room - 1);
    set_text(&err, room - 2, "\xE2\x82\xAC"); /* €, 3 bytes: two would fit */
    HR_CHECK_EQ_INT(strlen(err.text), room - 2);
    set_text(&err, room - 3, "\xF0\x9F\x98\x80 and more"); /* 4 bytes: three fit */
    HR_CHECK_EQ_INT(strlen(err.text), room - 3);
    set_text(&err, room - 4, "\xF0\x9F\x98\x80 and more"); /* all four fit */
    HR_CHECK_EQ_INT(strlen(err.text), room);
    HR_CHECK_STR(err.text + room - 4, "\xF0\x9F\x98\x80");
    set_text(&err, room, "b");
    HR_CHECK_EQ_INT(strlen(err.text), room);
    set_text(&err, room - 4, "\x80\x80\x80\x80\x80\x80"); /* no UTF-8 at all */
    HR_CHECK_EQ_INT(strlen(err.text), room);
}

static void arguments_may_point_into_the_error(void)
{
    struct hr_error err = {0};
    (void)hr_error_set(&err, HR_ERR_FORMAT, "image", 5, "ends after 60 rows");
    (void)hr_error_set(&err, err.status, err.origin, err.code, "%s: %s (item %d)",
                       err.origin, err.text, 17);
    HR_CHECK_STR(err.text, "image: ends after 60 rows (item 17)");
    HR_CHECK_STR(err.origin, "image");
    HR_CHECK_EQ_INT(err.code, 5);
}

static void long_origin_is_cut(void)
{
    struct hr_error err;
    (void)hr_error_set(&err, HR_ERR_ARG, "abcdefghijklmnopqrstuvwxyz", 0, "x");
    HR_CHECK_STR(err.origin, "abcdefghijklmnopqrstuvw"); /* 23 letters */
}

static void version_is_three_numbers(void)
{
    const char *rest = hr_version();
    for (int i = 0; i < 3; i++) {
        size_t digits = strspn(rest, "0123456789");
        HR_CHECK(digits > 0);
        HR_CHECK_EQ_INT(rest[digits], i < 2 ? '.' : '\0');
        rest += digits + (i < 2);
    }
}

static const struct hr_test tests[] = {
    HR_TEST(every_status_has_its_name),
    HR_TEST(error_set_fills_every_field),
    HR_TEST(error_set_without_an_error_returns_the_status),
    HR_TEST(long_text_is_cut_between_characters),
    HR_TEST(arguments_may_point_into_the_error),
    HR_TEST(long_origin_is_cut),
    HR_TEST(version_is_three_numbers),
};

HR_TEST_MAIN(tests)
