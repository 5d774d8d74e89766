/* Where pictures land. The numbers are worked out by hand from the rules in
 * headrace/image.h. */
#include "image/fit.h"

#include "hr_test.h"

static struct hr__fit fit(int64_t width, int64_t height, int64_t w, int64_t h,
                          enum hr_scale_mode mode)
{
    struct hr_image_options options;
    struct hr__take take = {.width = width, .height = height};
    struct hr__fit out;

    hr_image_options_init(&options);
    options.width = w;
    options.height = h;
    options.mode = mode;
    hr__fit(&take, &options, &out);
    return out;
}

static void check(struct hr__fit f, const int64_t want[10])
{
    HR_CHECK_EQ_INT(f.scaled_width, want[0]);
    HR_CHECK_EQ_INT(f.scaled_height, want[1]);
    HR_CHECK_EQ_INT(f.cut_x, want[2]);
    HR_CHECK_EQ_INT(f.cut_y, want[3]);
    HR_CHECK_EQ_INT(f.kept_width, want[4]);
    HR_CHECK_EQ_INT(f.kept_height, want[5]);
    HR_CHECK_EQ_INT(f.put_x, want[6]);
    HR_CHECK_EQ_INT(f.put_y, want[7]);
    HR_CHECK_EQ_INT(f.out_width, want[8]);
    HR_CHECK_EQ_INT(f.out_height, want[9]);
}

static void stretch_fills_the_target(void)
{
    check(fit(640, 400, 224, 224, HR_SCALE_STRETCH),
          (int64_t[]){224, 224, 0, 0, 224, 224, 0, 0, 224, 224});
}

/* 400 * 224 / 640 = 140; (224 - 140) / 2 = 42 */
static void pad_keeps_the_aspect(void)
{
    check(fit(640, 400, 224, 224, HR_SCALE_PAD),
          (int64_t[]){224, 140, 0, 0, 224, 140, 0, 42, 224, 224});
    check(fit(400, 640, 224, 224, HR_SCALE_PAD),
          (int64_t[]){140, 224, 0, 0, 140, 224, 42, 0, 224, 224});
}

/* 3 * 5 / 10 = 1.5, up to 2; the rest of 3 is halved down, to 1.
 * 3 * 4 / 10 = 1.2, down to 1; the rest of 3 is halved down, to 1. */
static void pad_rounds_half_up_and_centres_down(void)
{
    check(fit(10, 3, 5, 5, HR_SCALE_PAD), (int64_t[]){5, 2, 0, 0, 5, 2, 0, 1, 5, 5});
    check(fit(10, 3, 4, 4, HR_SCALE_PAD), (int64_t[]){4, 1, 0, 0, 4, 1, 0, 1, 4, 4});
}

static void pad_leaves_at_least_one_row(void)
{
    check(fit(1000, 1, 10, 10, HR_SCALE_PAD),
          (int64_t[]){10, 1, 0, 0, 10, 1, 0, 4, 10, 10});
}

/* 640 * 224 / 400 = 358.4, down to 358; (358 - 224) / 2 = 67 */
static void crop_covers_and_cuts_centrally(void)
{
    check(fit(640, 400, 224, 224, HR_SCALE_CROP),
          (int64_t[]){358, 224, 67, 0, 224, 224, 0, 0, 224, 224});
    check(fit(400, 640, 224, 224, HR_SCALE_CROP),
          (int64_t[]){224, 358, 0, 67, 224, 224, 0, 0, 224, 224});
}

/* 7 * 3 / 2 = 10.5, up to 11; (11 - 4) / 2 = 3.5, down to 3 */
static void crop_cuts_the_odd_column_at_the_end(void)
{
    check(fit(7, 2, 4, 3, HR_SCALE_CROP), (int64_t[]){11, 3, 3, 0, 4, 3, 0, 0, 4, 3});
}

static void equal_aspects_need_neither(void)
{
    for (int mode = HR_SCALE_STRETCH; mode <= HR_SCALE_CROP; mode++)
        check(fit(640, 480, 320, 240, (enum hr_scale_mode)mode),
              (int64_t[]){320, 240, 0, 0, 320, 240, 0, 0, 320, 240});
}

/* The target is 224 x 400 then: 224 / 640 of the picture is 224 x 140. */
static void a_missing_side_is_the_pictures_own(void)
{
    check(fit(640, 400, 224, 0, HR_SCALE_PAD),
          (int64_t[]){224, 140, 0, 0, 224, 140, 0, 130, 224, 400});
    check(fit(640, 400, 0, 224, HR_SCALE_STRETCH),
          (int64_t[]){640, 224, 0, 0, 640, 224, 0, 0, 640, 224});
    check(fit(640, 400, 0, 0, HR_SCALE_CROP),
          (int64_t[]){640, 400, 0, 0, 640, 400, 0, 0, 640, 400});
}

/* 65535 * 224 = 14,679,840 rows, of which 224 are kept. */
static void extreme_aspects_do_not_overflow(void)
{
    check(fit(1, 65535, 224, 224, HR_SCALE_CROP),
          (int64_t[]){224, 14679840, 0, 7339808, 224, 224, 0, 0, 224, 224});
}

static const struct hr_test tests[] = {
    HR_TEST(stretch_fills_the_target),
    HR_TEST(pad_keeps_the_aspect),
    HR_TEST(pad_rounds_half_up_and_centres_down),
    HR_TEST(pad_leaves_at_least_one_row),
    HR_TEST(crop_covers_and_cuts_centrally),
    HR_TEST(crop_cuts_the_odd_column_at_the_end),
    HR_TEST(equal_aspects_need_neither),
    HR_TEST(a_missing_side_is_the_pictures_own),
    HR_TEST(extreme_aspects_do_not_overflow),
};
HR_TEST_MAIN(tests)
