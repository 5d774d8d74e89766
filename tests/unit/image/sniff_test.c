/* What data looks like, from its first bytes. */
#include "image/sniff.h"

#include "hr_test.h"

static void check(const char *data, size_t size, enum hr__format format,
                  const char *name)
{
    const char *got;

    HR_CHECK_EQ_INT(hr__sniff((const uint8_t *)data, size, &got), format);
    HR_CHECK_STR(got, name);
}

static void pictures(void)
{
    check("\xff\xd8\xff\xe0", 4, HR_FORMAT_JPEG, "JPEG");
    check("\x89PNG\r\n\x1a\n", 8, HR_FORMAT_PNG, "PNG");
    check("GIF89a", 6, HR_FORMAT_GIF, "GIF");
    check("RIFF\1\2\3\4WEBPVP8 ", 16, HR_FORMAT_WEBP, "WebP");
    check("BM", 2, HR_FORMAT_BMP, "BMP");
    check("II*\0", 4, HR_FORMAT_TIFF, "TIFF");
    check("MM\0+", 4, HR_FORMAT_TIFF, "TIFF");
    check("\0\0\0\x1c"
          "ftypavis",
          12, HR_FORMAT_AVIF, "AVIF");
    check("\0\0\0\x1c"
          "ftypheic",
          12, HR_FORMAT_OTHER, "HEIC");
}

static void a_start_is_not_enough(void)
{
    check("\x89PNG", 4, HR_FORMAT_NONE, NULL);
    check("\xff", 1, HR_FORMAT_NONE, NULL);
    check("", 0, HR_FORMAT_NONE, NULL);
}

static void what_comes_instead_of_pictures(void)
{
    check("\n <!DOCTYPE HTML>", 17, HR_FORMAT_NONE, "HTML");
    check("<html>", 6, HR_FORMAT_NONE, "HTML");
    check("{\"error\": 404}", 14, HR_FORMAT_NONE, "JSON");
    check("version https://git-lfs.github.com/spec/v1", 42, HR_FORMAT_NONE,
          "a Git LFS pointer");
    check("not found\n", 10, HR_FORMAT_NONE, "text");
    check("PK\3\4\0\0", 6, HR_FORMAT_NONE, "a zip archive");
    check("\0\1\2\3", 4, HR_FORMAT_NONE, NULL);
}

static const struct hr_test tests[] = {
    HR_TEST(pictures),
    HR_TEST(a_start_is_not_enough),
    HR_TEST(what_comes_instead_of_pictures),
};
HR_TEST_MAIN(tests)
