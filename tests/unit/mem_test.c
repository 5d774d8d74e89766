/* Allocation: overflow, zero sizes, failure. */
#include "base/mem.h"

#include "fault.h"
#include "hr_test.h"

static void products_that_overflow_are_refused(void)
{
    HR_CHECK(hr__calloc(SIZE_MAX / 2 + 1, 2) == NULL);
    HR_CHECK(hr__realloc(NULL, SIZE_MAX / 8 + 1, 8) == NULL);
    size_t out = 5;
    HR_CHECK(!hr__mul(SIZE_MAX, 2, &out));
    HR_CHECK(!hr__add(SIZE_MAX, 1, &out));
    HR_CHECK(hr__mul(6, 7, &out) && out == 42);
    HR_CHECK(hr__add(SIZE_MAX - 1, 1, &out) && out == SIZE_MAX);
}

static void zero_bytes_are_memory(void)
{
    void *a = hr__malloc(0), *b = hr__calloc(0, 8), *c = hr__realloc(NULL, 0, 4);
    HR_CHECK(a && b && c);
    c = hr__realloc(c, 0, 4);
    HR_CHECK(c != NULL);
    hr__free(a);
    hr__free(b);
    hr__free(c);
    hr__free(NULL);
}

static void calloc_zeroes_and_realloc_keeps(void)
{
    unsigned char *a = hr__calloc(100, 3);
    HR_REQUIRE(a);
    int sum = 0;
    for (int i = 0; i < 300; i++)
        sum += a[i];
    HR_CHECK_EQ_INT(sum, 0);
    a[299] = 9;
    HR_CHECK(hr__realloc(a, SIZE_MAX, 2) == NULL); /* a stays valid */
    unsigned char *b = hr__realloc(a, 1000, 3);
    HR_CHECK(b && b[299] == 9);
    hr__free(b ? b : a);
}

static void strdup_copies_or_fails(void)
{
    char *copy = hr__strdup("weir");
    HR_CHECK_STR(copy, "weir");
    hr__free(copy);
    fault_arm(FAULT_MEMORY, FAULT_ONCE, 1);
    HR_CHECK(hr__strdup("weir") == NULL);
    HR_CHECK_EQ_INT(fault_calls(), 1);
    HR_CHECK_EQ_INT(fault_disarm(), 1);
}

static void nomem_says_for_what(void)
{
    struct hr_error err;
    HR_CHECK_EQ_INT(hr__nomem(&err, "image", "a row", 12), HR_ERR_NOMEM);
    HR_CHECK_STR(err.text, "image: no memory for a row (12 bytes)");
}

static const struct hr_test tests[] = {
    HR_TEST(products_that_overflow_are_refused),
    HR_TEST(zero_bytes_are_memory),
    HR_TEST(calloc_zeroes_and_realloc_keeps),
    HR_TEST(strdup_copies_or_fails),
    HR_TEST(nomem_says_for_what),
};

HR_TEST_MAIN(tests)
