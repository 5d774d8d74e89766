/* Formats whose libraries a build may lack: decoded, or refused with the library's name. */
#include "hr_test.h"
#include "pictures.h"

#ifdef HR_HAVE_AVIF
#define AVIF 1
#else
#define AVIF 0
#endif
#ifdef HR_HAVE_GIF
#define GIF 1
#else
#define GIF 0
#endif
#ifdef HR_HAVE_TIFF
#define TIFF 1
#else
#define TIFF 0
#endif
#ifdef HR_HAVE_WEBP
#define WEBP 1
#else
#define WEBP 0
#endif
#ifdef HR_HAVE_LCMS
#define LCMS 1
#else
#define LCMS 0
#endif

/* A file that begins as the format does and ends there. */
static void check(const char *bytes, size_t size, bool built, const char *text)
{
    struct blob blob = {NULL, 0};
    struct hr_array *array;
    struct hr_error err = {0};

    blob_append(&blob, bytes, size);
    HR_CHECK_EQ_INT(load_blob(&blob, NULL, &array, &err),
                    built ? HR_ERR_FORMAT : HR_ERR_UNSUPPORTED);
    if (!built)
        HR_CHECK_STR(err.text, text);
    blob_free(&blob);
}

static void a_missing_library_is_named(void)
{
    check("GIF89a", 6, GIF,
          "image: GIF needs giflib; this build is without it ('<bytes>')");
    check("RIFF\4\0\0\0WEBP", 12, WEBP,
          "image: WebP needs libwebp; this build is without it ('<bytes>')");
    check("II*\0\0\0\0\0", 8, TIFF,
          "image: TIFF needs libtiff; this build is without it ('<bytes>')");
    check("\0\0\0\x10"
          "ftypavif\0\0\0\0",
          16, AVIF, "image: AVIF needs libavif; this build is without it ('<bytes>')");
}

static void our_own_reader_is_always_there(void)
{
    check("BM", 2, true, NULL);
}

/* A profile that is none, in a JPEG's segment: damaged, for who can tell. */
static void colour_profiles_need_their_library(void)
{
    static const char segment[] = "\xff\xe2\0\x14ICC_PROFILE\0\1\1none";
    uint8_t grey[64] = {0};
    struct blob jpeg = jpeg_of(grey, 8, 8, (struct jpeg_how){.colour = GREY});
    struct blob blob = {NULL, 0};
    struct hr_image_options options;
    struct hr_array *array;
    struct hr_error err = {0};

    blob_append(&blob, jpeg.data, 2);
    blob_append(&blob, segment, sizeof(segment) - 1);
    blob_append(&blob, jpeg.data + 2, jpeg.size - 2);
    hr_image_options_init(&options);
    HR_CHECK_EQ_INT(load_blob(&blob, &options, &array, NULL), HR_OK);
    hr_array_unref(&array);
    options.icc = HR_ICC_SRGB;
    HR_CHECK_EQ_INT(load_blob(&blob, &options, &array, &err),
                    LCMS ? HR_ERR_FORMAT : HR_ERR_UNSUPPORTED);
    HR_CHECK_STR(err.text, LCMS ? "image: the colour profile is damaged ('<bytes>')"
                                : "image: colour profiles need Little CMS; this build "
                                  "is without it ('<bytes>')");
    blob_free(&blob);
    blob_free(&jpeg);
}

static const struct hr_test tests[] = {
    HR_TEST(a_missing_library_is_named),
    HR_TEST(our_own_reader_is_always_there),
    HR_TEST(colour_profiles_need_their_library),
};
HR_TEST_MAIN(tests)
