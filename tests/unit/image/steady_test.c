/* The steady state: once a thread is warm, a picture costs no allocation and no page
 * fault. malloc is counted, the codec libraries' calls included. */
#include <stdlib.h>
#include <sys/resource.h>

#include "fault.h"
#include "hr_test.h"
#include "pictures.h"

/* A picture whose output or coefficients were mapped anew would fault 37 times itself. */
#define FAULTS_MAX 20

#define CORPUS HR_TEST_DATA "/../fuzz/corpus/"

/* Sanitizers have a malloc of their own, and take forty times as long. */
#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) &&                            \
    !defined(__SANITIZE_THREAD__)
#define COUNTS_MALLOC 1
#define WARM_UP 20
#define PICTURES 100
extern void *libc_malloc(size_t size) __asm__("__libc_malloc");
extern void *libc_calloc(size_t count, size_t size) __asm__("__libc_calloc");
extern void *libc_realloc(void *ptr, size_t size) __asm__("__libc_realloc");

static _Atomic uint64_t mallocs;

void *malloc(size_t size)
{
    atomic_fetch_add(&mallocs, 1);
    return libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
    atomic_fetch_add(&mallocs, 1);
    return libc_calloc(count, size);
}

void *realloc(void *ptr, size_t size)
{
    atomic_fetch_add(&mallocs, 1);
    return libc_realloc(ptr, size);
}
#else
#define COUNTS_MALLOC 0
#define WARM_UP 4
#define PICTURES 18
static _Atomic uint64_t mallocs;
#endif

/* What a thread has asked for. */
struct cost {
    uint64_t own;     /* calls of the library's table of system calls */
    uint64_t mallocs; /* in the process */
    int64_t faults;
};

static int64_t faults_so_far(void)
{
    struct rusage usage;

    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_minflt;
}

static bool load_all(struct hr_ctx *ctx, const struct hr_value *pictures, size_t n,
                     const struct hr_image_options *options, int times)
{
    for (int i = 0; i < times; i++) {
        struct hr_array *array;

        if (hr_image_load(ctx, &pictures[(size_t)i % n], NULL, options, &array, NULL) !=
            HR_OK)
            return false;
        hr_array_unref(&array);
    }
    return true;
}

/* What loading them in turn costs a thread that has done so before. */
static struct cost cost_of(const struct hr_value *pictures, size_t n,
                           const struct hr_image_options *options)
{
    struct cost cost = {.own = UINT64_MAX, .mallocs = UINT64_MAX, .faults = INT64_MAX};
    struct hr_ctx *ctx;
    uint64_t before;
    int64_t faults;
    bool ok;

    if (hr_ctx_new(&ctx, NULL) != HR_OK)
        abort();
    ok = load_all(ctx, pictures, n, options, WARM_UP * (int)n);
    fault_arm(FAULT_MEMORY, FAULT_ONCE, UINT64_MAX);
    before = atomic_load(&mallocs);
    faults = faults_so_far();
    ok = ok && load_all(ctx, pictures, n, options, PICTURES);
    if (ok)
        cost = (struct cost){.own = fault_calls(),
                             .mallocs = atomic_load(&mallocs) - before,
                             .faults = faults_so_far() - faults};
    fault_disarm();
    hr_ctx_free(&ctx);
    return cost;
}

static void check_free(const struct hr_value *pictures, size_t n,
                       const struct hr_image_options *options)
{
    struct cost cost = cost_of(pictures, n, options);

    HR_CHECK_EQ_INT(cost.own, 0);
    HR_CHECK_EQ_INT(cost.mallocs, 0);
    HR_CHECK(cost.faults <= FAULTS_MAX);
}

static struct hr_image_options to_224(bool exact)
{
    struct hr_image_options options;

    hr_image_options_init(&options);
    options.width = options.height = 224;
    options.exact = exact;
    return options;
}

/* A smooth picture, so that it is small when encoded. */
static uint8_t *smooth(unsigned width, unsigned height, unsigned channels)
{
    uint8_t *pixels = malloc((size_t)width * height * channels);
    uint8_t *to = pixels;

    if (pixels == NULL)
        abort();
    for (unsigned y = 0; y < height; y++)
        for (unsigned x = 0; x < width; x++)
            for (unsigned c = 0; c < channels; c++)
                *to++ = (uint8_t)((x + 2 * y + 40 * c) / 8);
    return pixels;
}

static struct blob jpeg(unsigned width, unsigned height, struct jpeg_how how)
{
    uint8_t *pixels = smooth(width, height, how.colour == CMYK ? 4 : how.colour);
    struct blob blob = jpeg_of(pixels, width, height, how);

    free(pixels);
    return blob;
}

static void check_jpeg(struct jpeg_how how, bool exact)
{
    struct hr_image_options options = to_224(exact);
    struct blob blob = jpeg(320, 240, how);
    struct hr_value src = bytes_of(&blob);

    check_free(&src, 1, &options);
    hr_value_release(&src);
    blob_free(&blob);
}

static void jpegs_by_each_decoder_and_road(void)
{
    for (int exact = 0; exact < 2; exact++) {
        check_jpeg((struct jpeg_how){.colour = RGB, .h = 2, .v = 2}, exact);
        check_jpeg(
            (struct jpeg_how){.colour = RGB, .h = 2, .v = 2, .progressive = true},
            exact);
        check_jpeg((struct jpeg_how){.colour = RGB, .arithmetic = true}, exact);
        check_jpeg((struct jpeg_how){.colour = GREY}, exact);
    }
    check_jpeg((struct jpeg_how){.colour = CMYK}, true);
}

static void check_png(int type, unsigned channels, bool interlaced)
{
    struct hr_image_options options = to_224(false);
    uint8_t *pixels = smooth(320, 240, channels);
    struct blob blob =
        png_of(pixels, (size_t)320 * channels, 320, 240,
               (struct png_how){.depth = 8, .type = type, .interlaced = interlaced});
    struct hr_value src = bytes_of(&blob);

    check_free(&src, 1, &options);
    hr_value_release(&src);
    blob_free(&blob);
    free(pixels);
}

static void pngs(void)
{
    check_png(2, 3, false); /* RGB */
    check_png(6, 4, false); /* RGBA */
    check_png(0, 1, false); /* grey */
    check_png(2, 3, true);
}

/* Sizes that take turns, more of them than there are tables kept. */
static void sizes_that_change(void)
{
    enum { N = 9 };
    struct hr_image_options options = to_224(false);
    struct blob blob[N];
    struct hr_value src[N];

    for (unsigned i = 0; i < N; i++) {
        blob[i] = jpeg(300 + 40 * i, 500 - 30 * i,
                       (struct jpeg_how){
                           .colour = RGB, .h = 2, .v = 2, .progressive = i % 3 == 0});
        src[i] = bytes_of(&blob[i]);
    }
    check_free(src, N, &options);
    options.exact = true;
    check_free(src, N, &options);
    for (int i = 0; i < N; i++) {
        hr_value_release(&src[i]);
        blob_free(&blob[i]);
    }
}

/* The libraries of these formats allocate for each picture, and offer no way to give
 * them memory; what is ours does not. */
static void of_other_formats_the_library_alone_allocates(void)
{
    static const char *const paths[] = {
#ifdef HR_HAVE_WEBP
        CORPUS "webp/lossy.webp",
#endif
#ifdef HR_HAVE_GIF
        CORPUS "gif/still.gif",
#endif
#ifdef HR_HAVE_AVIF
        CORPUS "avif/still.avif",
#endif
#ifdef HR_HAVE_TIFF
        CORPUS "tiff/lzw.tif",
#endif
        CORPUS "bmp/rgb.bmp",
    };
    struct hr_image_options options = to_224(false);

    for (size_t i = 0; i < sizeof(paths) / sizeof(*paths); i++) {
        struct hr_value src = text_of(paths[i]);
        struct cost cost = cost_of(&src, 1, &options);

        HR_CHECK_EQ_INT(cost.own, 0);
        hr_value_release(&src);
    }
}

/* The check itself must see what it is to see. */
static void a_cold_thread_does_allocate(void)
{
    struct blob blob = jpeg(64, 64, (struct jpeg_how){.colour = RGB});
    struct hr_array *array;
    uint64_t before = atomic_load(&mallocs);

    fault_arm(FAULT_MEMORY, FAULT_ONCE, UINT64_MAX);
    HR_CHECK_EQ_INT(load_blob(&blob, NULL, &array, NULL), HR_OK);
    HR_CHECK(fault_calls() > 0);
    if (COUNTS_MALLOC)
        HR_CHECK(atomic_load(&mallocs) > before);
    fault_disarm();
    hr_array_unref(&array);
    blob_free(&blob);
}

static const struct hr_test tests[] = {
    HR_TEST(jpegs_by_each_decoder_and_road),
    HR_TEST(pngs),
    HR_TEST(sizes_that_change),
    HR_TEST(of_other_formats_the_library_alone_allocates),
    HR_TEST(a_cold_thread_does_allocate),
};
HR_TEST_MAIN(tests)
