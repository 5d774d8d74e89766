/* The kernels among themselves, and against values worked out by hand. Equality with
 * Pillow is tests/python/test_resize_pillow.py. */
#include "image/resample.h"

#include <stdlib.h>

#include "hr_test.h"
#include "pictures.h"

/* Resize in[height][width][channels], rows given in groups of `group`. */
static uint8_t *resample(const char *kernels, const struct hr__resample_plan *plan,
                         const uint8_t *in, int group)
{
    struct hr__resampler r = {.narrow = hr__kernels_find(kernels)};
    size_t stride = (size_t)plan->width * (size_t)plan->channels;
    size_t out_stride = (size_t)plan->kept_width * (size_t)plan->channels;
    uint8_t *rows = calloc((size_t)group, stride + HR_ROW_SLACK);
    /* Guard bytes behind the output: no kernel may write past its row. */
    uint8_t *out = malloc(out_stride * (size_t)plan->kept_height + 4);
    const uint8_t *row[HR_PUSH_ROWS];
    uint8_t *to = out;

    memset(out + out_stride * (size_t)plan->kept_height, 0xa5, 4);
    if (hr__resample_begin(&r, plan, NULL) != HR_OK)
        abort();
    for (int64_t y = 0; y < plan->height; y += group) {
        int n = plan->height - y < group ? (int)(plan->height - y) : group;

        for (int i = 0; i < n; i++) {
            row[i] = rows + (size_t)i * (stride + HR_ROW_SLACK);
            memcpy(rows + (size_t)i * (stride + HR_ROW_SLACK),
                   in + (size_t)(y + i) * stride, stride);
        }
        hr__resample_push(&r, row, n);
        while (hr__resample_take(&r, to))
            to += out_stride;
    }
    HR_CHECK_EQ_INT(r.rows_out, plan->kept_height);
    for (int i = 0; i < 4; i++)
        HR_CHECK_EQ_INT(out[out_stride * (size_t)plan->kept_height + (size_t)i], 0xa5);
    hr__resampler_fini(&r);
    free(rows);
    return out;
}

static struct hr__resample_plan whole(int64_t w, int64_t h, int64_t to_w, int64_t to_h,
                                      int channels, enum hr_scale_algo algo)
{
    return (struct hr__resample_plan){
        .width = w,
        .height = h,
        .scaled_width = to_w,
        .scaled_height = to_h,
        .kept_width = to_w,
        .kept_height = to_h,
        .channels = channels,
        .algo = algo,
    };
}

static void check_row(const uint8_t *in, int64_t n, int64_t to, enum hr_scale_algo algo,
                      const uint8_t *want)
{
    struct hr__resample_plan across = whole(n, 1, to, 1, 1, algo);
    struct hr__resample_plan down = whole(1, n, 1, to, 1, algo);
    uint8_t *a = resample("portable", &across, in, 1);
    uint8_t *b = resample("portable", &down, in, 1);

    for (int64_t i = 0; i < to; i++) {
        HR_CHECK_EQ_INT(a[i], want[i]);
        HR_CHECK_EQ_INT(b[i], want[i]);
    }
    free(a);
    free(b);
}

/* Upwards the filter keeps its width: the centres of 2 -> 4 are 1/4, 3/4, 5/4, 7/4, so
 * 0, 255/4 = 63.75, 255 * 3/4 = 191.25, 255. */
static void bilinear_by_hand(void)
{
    check_row((const uint8_t[]){0, 255}, 2, 4, HR_SCALE_BILINEAR,
              (const uint8_t[]){0, 64, 191, 255});
    /* Downwards it is stretched: of 4 -> 2 the centres are 1 and 3 and the reach is 2.
     * Distances 1/2, 1/2, 3/2 weigh 3, 3, 1 of 7: (3 * 10 + 3 * 20 + 40) / 7 = 18.57,
     * (20 + 3 * 40 + 3 * 80) / 7 = 54.29. */
    check_row((const uint8_t[]){10, 20, 40, 80}, 4, 2, HR_SCALE_BILINEAR,
              (const uint8_t[]){19, 54});
}

/* (0 + 1) / 2 = 0.5 rounds up; (10 + 20 + 30) / 3 = 20 */
static void box_by_hand(void)
{
    check_row((const uint8_t[]){0, 1, 254, 255}, 4, 2, HR_SCALE_BOX,
              (const uint8_t[]){1, 255});
    check_row((const uint8_t[]){10, 20, 30, 1, 1, 1}, 6, 2, HR_SCALE_BOX,
              (const uint8_t[]){20, 1});
    check_row((const uint8_t[]){7, 9}, 2, 6, HR_SCALE_BOX,
              (const uint8_t[]){7, 7, 7, 9, 9, 9});
}

/* Keys' kernel with a = -1/2 is 111/128, 29/128, -9/128 at distances 1/4, 3/4, 5/4. From
 * the centre 1/4 the inputs lie at 1/4 and 5/4: 255 * -9 / 102 is below 0. From 3/4 they
 * lie at 1/4 and 3/4: 255 * 29 / 140 = 52.8, and then 255 * 111 / 140 = 202.2. */
static void bicubic_by_hand(void)
{
    check_row((const uint8_t[]){0, 255}, 2, 4, HR_SCALE_BICUBIC,
              (const uint8_t[]){0, 53, 202, 255});
}

static void one_pixel_fills_everything(void)
{
    const uint8_t pixel[4] = {1, 77, 254, 130};

    for (int algo = HR_SCALE_BOX; algo <= HR_SCALE_LANCZOS; algo++) {
        struct hr__resample_plan plan = whole(1, 1, 9, 7, 4, (enum hr_scale_algo)algo);
        uint8_t *out = resample("portable", &plan, pixel, 1);

        for (size_t i = 0; i < 9 * 7; i++)
            HR_CHECK(memcmp(out + 4 * i, pixel, 4) == 0);
        free(out);
    }
}

/* The order of the passes shows where both round. Ones on a chessboard of 2 x 4, then
 * zeros: down, each column is 2/8, 0. Across, four rows are 1/2, which rounds to 1; then
 * 4/8 is 1. Seven rows are lost, more than twice the one column: down comes first. */
static void many_lost_rows_go_down_first(void)
{
    const uint8_t in[16] = {0, 1, 1, 0, 0, 1, 1, 0};
    struct hr__resample_plan plan = whole(2, 8, 1, 1, 1, HR_SCALE_BOX);
    uint8_t *out = resample("portable", &plan, in, 1);

    HR_CHECK_EQ_INT(out[0], 0);
    free(out);
}

/* The same picture turned: one row is lost, seven columns are. Across, each row is 2/8,
 * 0; down first would have given 1. */
static void else_across_comes_first(void)
{
    const uint8_t in[16] = {0, 1, 0, 1, 0, 0, 0, 0, 1, 0, 1, 0, 0, 0, 0, 0};
    struct hr__resample_plan plan = whole(8, 2, 1, 1, 1, HR_SCALE_BOX);
    uint8_t *out = resample("portable", &plan, in, 1);

    HR_CHECK_EQ_INT(out[0], 0);
    free(out);
}

static int64_t random_side(uint32_t *seed)
{
    static const int64_t most[] = {3, 20, 90, 400};

    return 1 + (int64_t)(next_random(seed) % (uint32_t)most[next_random(seed) % 4]);
}

/* Random sizes, up and down, cut or whole, rows in groups of any size. */
static void check_set(const char *kernels)
{
    uint32_t seed = 20260301;

    if (hr__kernels_find(kernels) == NULL)
        return;
    for (int round = 0; round < 300; round++) {
        struct hr__resample_plan p =
            whole(random_side(&seed), random_side(&seed), random_side(&seed),
                  random_side(&seed), 1 + (int)(next_random(&seed) % 4),
                  (enum hr_scale_algo)(next_random(&seed) % 4));
        size_t bytes = (size_t)(p.width * p.height * p.channels);
        uint8_t *in = malloc(bytes);
        uint8_t *a;
        uint8_t *b;

        if (round % 2) {
            p.cut_x = next_random(&seed) % p.scaled_width;
            p.cut_y = next_random(&seed) % p.scaled_height;
            p.kept_width = 1 + next_random(&seed) % (p.scaled_width - p.cut_x);
            p.kept_height = 1 + next_random(&seed) % (p.scaled_height - p.cut_y);
        }
        for (size_t i = 0; i < bytes; i++)
            in[i] = (uint8_t)(round % 3 ? next_random(&seed)
                                        : (next_random(&seed) & 1) * 255);
        a = resample("portable", &p, in, 1);
        b = resample(kernels, &p, in, 1 + (int)(next_random(&seed) % HR_PUSH_ROWS));
        HR_CHECK(memcmp(a, b, (size_t)(p.kept_width * p.kept_height * p.channels)) ==
                 0);
        free(a);
        free(b);
        free(in);
    }
}

static void sse41_equals_portable(void)
{
    check_set("sse4.1");
}

static void avx2_equals_portable(void)
{
    check_set("avx2");
}

static void groups_of_rows_do_not_matter(void)
{
    check_set("portable");
}

/* A part equals the same part of the whole. */
static void a_cut_is_a_part_of_the_whole(void)
{
    struct hr__resample_plan all = whole(57, 41, 33, 29, 3, HR_SCALE_LANCZOS);
    struct hr__resample_plan part = all;
    uint8_t in[57 * 41 * 3];
    uint32_t seed = 5;
    uint8_t *a;
    uint8_t *b;

    part.cut_x = 4;
    part.cut_y = 11;
    part.kept_width = 20;
    part.kept_height = 7;
    for (size_t i = 0; i < sizeof(in); i++)
        in[i] = (uint8_t)next_random(&seed);
    a = resample("portable", &all, in, 8);
    b = resample("portable", &part, in, 8);
    for (int y = 0; y < 7; y++)
        HR_CHECK(memcmp(b + y * 60, a + ((y + 11) * 33 + 4) * 3, 60) == 0);
    free(a);
    free(b);
}

static void an_unknown_set_is_none(void)
{
    HR_CHECK(hr__kernels_find("avx512") == NULL);
    HR_CHECK_STR(hr__kernels_find("portable")->name, "portable");
}

static const struct hr_test tests[] = {
    HR_TEST(bilinear_by_hand),
    HR_TEST(box_by_hand),
    HR_TEST(bicubic_by_hand),
    HR_TEST(one_pixel_fills_everything),
    HR_TEST(many_lost_rows_go_down_first),
    HR_TEST(else_across_comes_first),
    HR_TEST(groups_of_rows_do_not_matter),
    HR_TEST(sse41_equals_portable),
    HR_TEST(avx2_equals_portable),
    HR_TEST(a_cut_is_a_part_of_the_whole),
    HR_TEST(an_unknown_set_is_none),
};
HR_TEST_MAIN(tests)
