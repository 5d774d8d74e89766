/* Planes against a model in real numbers that brings them to full size, resizes and
 * colours them one after another; weights worked out by hand; the kernels among
 * themselves. */
#include "image/planes.h"

#include <math.h>
#include <stdlib.h>

#include "hr_test.h"
#include "pictures.h"

/* ---- weights ---- */

static void check_weights(struct hr__plane_key key, const int *want, int taps)
{
    struct hr__plane_cache cache = {0};
    const struct hr__plane_taps *t;

    HR_REQUIRE(hr__plane_taps_get(&cache, &key, &t, NULL) == HR_OK);
    for (int64_t o = 0; o < key.count; o++) {
        int sum = 0;

        for (int64_t i = 0; i < t->width; i++) {
            int64_t at = t->start[o] + i;

            sum += t->weight[o * t->width + i];
            HR_CHECK_EQ_INT(t->weight[o * t->width + i],
                            at < taps ? want[o * taps + at] : 0);
        }
        HR_CHECK_EQ_INT(sum, 1 << HR_PLANE_BITS);
    }
    hr__plane_cache_fini(&cache);
}

static struct hr__plane_key pair_to_four(enum hr__upsampling upsampling)
{
    return (struct hr__plane_key){.own = 2,
                                  .factor = 2,
                                  .full = 4,
                                  .out = 4,
                                  .count = 4,
                                  .upsampling = upsampling,
                                  .algo = HR_SCALE_BILINEAR};
}

/* Full size to full size: what is left is the upsampling. One is 16384. */
static void upsampling_alone(void)
{
    check_weights(pair_to_four(HR_UPSAMPLE_REPEAT),
                  (const int[]){16384, 0, 16384, 0, 0, 16384, 0, 16384}, 2);
    check_weights(pair_to_four(HR_UPSAMPLE_CENTRED),
                  (const int[]){16384, 0, 12288, 4096, 4096, 12288, 0, 16384}, 2);
    check_weights(pair_to_four(HR_UPSAMPLE_COSITED),
                  (const int[]){16384, 0, 8192, 8192, 0, 16384, 0, 16384}, 2);
}

/* Boxes of two over the pixels 1, 3/4 1/4, 1/4 3/4, 1 of the centred way: 7/8, 1/8. */
static void upsampling_and_resize(void)
{
    struct hr__plane_key key = pair_to_four(HR_UPSAMPLE_CENTRED);

    key.out = key.count = 2;
    key.algo = HR_SCALE_BOX;
    check_weights(key, (const int[]){14336, 2048, 2048, 14336}, 2);
    key.flip = true;
    check_weights(key, (const int[]){2048, 14336, 14336, 2048}, 2);
}

/* A crop of the pixels 1 and 2: the upsampling sees both samples, the resize no more
 * than the crop. */
static void upsampling_sees_beyond_a_crop(void)
{
    struct hr__plane_key key = pair_to_four(HR_UPSAMPLE_CENTRED);

    key.origin = 1;
    key.full = 2;
    key.out = key.count = 1;
    key.algo = HR_SCALE_BOX;
    check_weights(key, (const int[]){8192, 8192}, 2);
}

static void too_much_shrinking_is_refused(void)
{
    struct hr__plane_cache cache = {0};
    const struct hr__plane_taps *t;
    struct hr__plane_key key = {.own = 320,
                                .factor = 1,
                                .full = 320,
                                .out = 20,
                                .count = 20,
                                .algo = HR_SCALE_BOX};

    HR_CHECK_EQ_INT(hr__plane_taps_get(&cache, &key, &t, NULL), HR_OK);
    key.out = key.count = 1;
    HR_CHECK_EQ_INT(hr__plane_taps_get(&cache, &key, &t, NULL), HR_ERR_LIMIT);
    hr__plane_cache_fini(&cache);
}

/* ---- colour ---- */

static void check_colour(enum hr__colour_space space, enum hr__colour_range range,
                         const int ycc[3], const uint8_t want[3])
{
    struct hr__matrix m = hr__matrix_of(space, range);
    int16_t level[3];
    uint8_t rgb[3];

    for (int i = 0; i < 3; i++)
        level[i] = (int16_t)(ycc[i] << HR_LEVEL_BITS);
    hr__plane_kernels_portable.colour(
        &m, (const int16_t *const[]){level, level + 1, level + 2},
        (uint8_t *const[]){rgb, rgb + 1, rgb + 2}, 1);
    for (int i = 0; i < 3; i++)
        HR_CHECK_EQ_INT(rgb[i], want[i]);
}

/* JFIF: R = 76 + 1.402 * 127 = 254.05, G = 76 - .344136 * -43 - .714136 * 127 = .1,
 * B = 76 + 1.772 * -43 = -.2. Video: 16 is black and 235 white; of BT.709,
 * R = 1.164384 * (63 - 16) + 1.792741 * (240 - 128) = 255.5, G = 54.73 - .213249 * -26
 * - .532909 * 112 = .6, B = 54.73 + 2.112402 * -26 = -.2. */
static void colours_by_hand(void)
{
    static const uint8_t white[3] = {255, 255, 255};
    static const uint8_t black[3] = {0, 0, 0};

    check_colour(HR_COLOUR_BT601, HR_RANGE_FULL, (const int[]){255, 128, 128}, white);
    check_colour(HR_COLOUR_BT601, HR_RANGE_FULL, (const int[]){0, 128, 128}, black);
    check_colour(HR_COLOUR_BT601, HR_RANGE_FULL, (const int[]){76, 85, 255},
                 (const uint8_t[]){254, 0, 0});
    check_colour(HR_COLOUR_BT709, HR_RANGE_LIMITED, (const int[]){235, 128, 128},
                 white);
    check_colour(HR_COLOUR_BT2020, HR_RANGE_LIMITED, (const int[]){16, 128, 128},
                 black);
    check_colour(HR_COLOUR_BT709, HR_RANGE_LIMITED, (const int[]){63, 102, 240},
                 (const uint8_t[]){255, 1, 0});
}

/* ---- the whole way ---- */

struct scene {
    struct hr__planes_plan plan;
    uint8_t *plane[HR_PLANES];
    size_t stride[HR_PLANES];
};

static int64_t ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

/* width, height: of the picture; the fit keeps all of it. */
static struct scene scene_of(int64_t width, int64_t height, int factor_x, int factor_y,
                             enum hr__upsampling upsampling, uint32_t seed)
{
    struct scene s = {.plan = {
                          .fit = {.take_width = width, .take_height = height},
                          .count = 3,
                          .matrix = hr__matrix_of(HR_COLOUR_BT601, HR_RANGE_FULL),
                      }};

    for (int i = 0; i < 3; i++) {
        struct hr__plane *p = &s.plan.plane[i];

        p->factor_x = i > 0 ? factor_x : 1;
        p->factor_y = i > 0 ? factor_y : 1;
        p->width = ceil_div(width, p->factor_x);
        p->height = ceil_div(height, p->factor_y);
        p->upsampling_x = p->upsampling_y = upsampling;
        p->group = 4 * factor_y / p->factor_y;
        p->row_bytes = p->width;
        s.stride[i] = (size_t)p->width;
        s.plane[i] = malloc(s.stride[i] * (size_t)p->height);
        fill_random(s.plane[i], s.stride[i] * (size_t)p->height, seed + (uint32_t)i);
        /* Near grey, so that no pixel leaves the gamut and clamping plays no part. */
        for (size_t k = 0; k < s.stride[i] * (size_t)p->height; k++)
            s.plane[i][k] =
                (uint8_t)(i == 0 ? 64 + s.plane[i][k] / 2 : 112 + s.plane[i][k] / 8);
    }
    return s;
}

static void scene_target(struct scene *s, int64_t width, int64_t height,
                         enum hr_scale_algo algo)
{
    struct hr__fit *f = &s->plan.fit;

    f->scaled_width = f->kept_width = width;
    f->scaled_height = f->kept_height = height;
    s->plan.algo = algo;
}

static void scene_free(struct scene *s)
{
    for (int i = 0; i < 3; i++)
        free(s->plane[i]);
}

static double filter(enum hr_scale_algo algo, double x)
{
    x = fabs(x);
    switch (algo) {
    case HR_SCALE_BOX:
        return x < 0.5 ? 1 : x == 0.5 ? 0.5 : 0;
    case HR_SCALE_BILINEAR:
        return x < 1 ? 1 - x : 0;
    case HR_SCALE_BICUBIC:
        return x < 1   ? 1.5 * x * x * x - 2.5 * x * x + 1
               : x < 2 ? -0.5 * x * x * x + 2.5 * x * x - 4 * x + 2
                       : 0;
    default:
        if (x == 0)
            return 1;
        return x < 3 ? 3 * sin(M_PI * x) * sin(M_PI * x / 3) / (M_PI * M_PI * x * x)
                     : 0;
    }
}

/* A sample of a line at pixel x of full size. */
static double upsampled(const double *line, int64_t n, int64_t factor,
                        enum hr__upsampling how, int64_t x)
{
    double at = how == HR_UPSAMPLE_CENTRED ? ((double)x + 0.5) / (double)factor - 0.5
                                           : (double)x / (double)factor;
    double low = floor(at);
    int64_t k = (int64_t)low;
    int64_t k0 = k < 0 ? 0 : k >= n ? n - 1 : k;
    int64_t k1 = k + 1 < 0 ? 0 : k + 1 >= n ? n - 1 : k + 1;

    if (how == HR_UPSAMPLE_REPEAT || factor == 1)
        return line[k0];
    return line[k0] * (1 - (at - low)) + line[k1] * (at - low);
}

/* Output o of a line: upsampled, cut, resized. */
static double model_line(const double *line, int64_t n, int64_t factor,
                         enum hr__upsampling how, int64_t from, int64_t full,
                         int64_t out, enum hr_scale_algo algo, int64_t o)
{
    double scale = (double)full / (double)out;
    double stretch = scale < 1 ? 1 : scale;
    double center = ((double)o + 0.5) * scale;
    double total = 0;
    double sum = 0;

    for (int64_t i = 0; i < full; i++) {
        double w = filter(algo, ((double)i + 0.5 - center) / stretch);

        total += w;
        sum += w * upsampled(line, n, factor, how, from + i);
    }
    return sum / total;
}

/* The kept rectangle of plane i in levels: columns of the plane's rows first. */
static double *model_plane(const struct scene *s, int i)
{
    const struct hr__plane *p = &s->plan.plane[i];
    const struct hr__fit *f = &s->plan.fit;
    double *narrow = calloc((size_t)(f->kept_width * p->height), sizeof(double));
    double *out = calloc((size_t)(f->kept_width * f->kept_height), sizeof(double));
    double *line =
        calloc((size_t)(p->width > p->height ? p->width : p->height), sizeof(double));

    for (int64_t y = 0; y < p->height; y++) {
        for (int64_t x = 0; x < p->width; x++)
            line[x] = s->plane[i][(size_t)y * s->stride[i] + (size_t)x];
        for (int64_t o = 0; o < f->kept_width; o++) {
            int64_t at = s->plan.flip ? f->kept_width - 1 - o : o;

            narrow[y * f->kept_width + at] =
                model_line(line, p->width, p->factor_x, p->upsampling_x, f->take_x,
                           f->take_width, f->scaled_width, s->plan.algo, f->cut_x + o);
        }
    }
    for (int64_t x = 0; x < f->kept_width; x++) {
        for (int64_t y = 0; y < p->height; y++)
            line[y] = narrow[y * f->kept_width + x];
        for (int64_t o = 0; o < f->kept_height; o++)
            out[o * f->kept_width + x] = model_line(
                line, p->height, p->factor_y, p->upsampling_y, f->take_y,
                f->take_height, f->scaled_height, s->plan.algo, f->cut_y + o);
    }
    free(narrow);
    free(line);
    return out;
}

/* Three planes of the output, one behind another. */
static uint8_t *run(const struct scene *s, const char *kernels, bool stream)
{
    const struct hr__fit *f = &s->plan.fit;
    struct hr__planes p = {.kernels = hr__kernels_find(kernels)->planes};
    size_t size = (size_t)(f->kept_width * f->kept_height);
    uint8_t *out = malloc(3 * size);
    uint8_t *rgb[3] = {out, out + size, out + 2 * size};
    int64_t done[HR_PLANES] = {0};
    int64_t first;
    int64_t end;

    if (hr__planes_begin(&p, &s->plan, NULL) != HR_OK)
        abort();
    if (!stream)
        hr__planes_frame(&p, (const uint8_t *const *)s->plane, s->stride);
    else if (hr__planes_stream(&p, NULL) != HR_OK)
        abort();
    hr__planes_span(&p, &first, &end);
    for (int64_t g = 0; g < (stream ? end : 1); g++) {
        for (int i = 0; stream && i < s->plan.count; i++) {
            const struct hr__plane *plane = &s->plan.plane[i];
            uint8_t *rows[HR_PLANE_GROUP];

            hr__planes_rows(&p, i, rows);
            for (int k = 0; k < plane->group; k++, done[i]++)
                if (g < first || done[i] >= plane->height)
                    memset(rows[k], 0xee, (size_t)plane->width); /* must not show */
                else
                    memcpy(rows[k], s->plane[i] + (size_t)done[i] * s->stride[i],
                           (size_t)plane->width);
        }
        if (stream)
            hr__planes_put(&p);
        while (hr__planes_take(&p, rgb))
            for (int c = 0; c < 3; c++)
                rgb[c] += f->kept_width;
    }
    HR_CHECK(rgb[0] == out + size);
    hr__planes_fini(&p);
    return out;
}

/* Within 0.6 of the model: half a level of rounding, the rest for weights and levels. */
static void check_scene(const struct scene *s)
{
    const struct hr__fit *f = &s->plan.fit;
    size_t size = (size_t)(f->kept_width * f->kept_height);
    uint8_t *got = run(s, "portable", false);
    double *ycc[3];

    for (int i = 0; i < 3; i++)
        ycc[i] = model_plane(s, i);
    for (size_t k = 0; k < size; k++) {
        double cb = ycc[1][k] - 128;
        double cr = ycc[2][k] - 128;
        double want[3] = {ycc[0][k] + 1.402 * cr,
                          ycc[0][k] - 0.344136 * cb - 0.714136 * cr,
                          ycc[0][k] + 1.772 * cb};

        for (size_t c = 0; c < 3; c++)
            HR_CHECK(fabs(got[c * size + k] - want[c]) < 0.6);
    }
    for (int i = 0; i < 3; i++)
        free(ycc[i]);
    free(got);
}

static void planes_equal_the_model(void)
{
    static const int64_t targets[][2] = {{16, 16}, {7, 40}, {1, 1}, {33, 29}};
    static const int factors[][2] = {{1, 1}, {2, 1}, {2, 2}, {1, 2}, {4, 1}};

    for (size_t i = 0; i < 5; i++)
        for (int how = HR_UPSAMPLE_REPEAT; how <= HR_UPSAMPLE_COSITED; how++) {
            struct scene s = scene_of(15, 13, factors[i][0], factors[i][1],
                                      (enum hr__upsampling)how, (uint32_t)i);

            for (size_t t = 0; t < 4; t++)
                for (int algo = HR_SCALE_BILINEAR; algo <= HR_SCALE_LANCZOS; algo++) {
                    scene_target(&s, targets[t][0], targets[t][1],
                                 (enum hr_scale_algo)algo);
                    check_scene(&s);
                }
            scene_free(&s);
        }
}

static void crops_and_flips_equal_the_model(void)
{
    struct scene s = scene_of(31, 22, 2, 2, HR_UPSAMPLE_CENTRED, 5);

    scene_target(&s, 12, 10, HR_SCALE_BICUBIC);
    s.plan.fit.take_x = 7;
    s.plan.fit.take_y = 3;
    s.plan.fit.take_width = 24;
    s.plan.fit.take_height = 15;
    s.plan.fit.cut_x = 2;
    s.plan.fit.cut_y = 1;
    s.plan.fit.kept_width = 9;
    s.plan.fit.kept_height = 8;
    check_scene(&s);
    s.plan.flip = true;
    check_scene(&s);
    scene_free(&s);
}

static int64_t random_side(uint32_t *seed)
{
    return 1 + (int64_t)(next_random(seed) % (1u << next_random(seed) % 7));
}

/* All kernels, with rows that come in groups, and with a whole frame. */
static void all_ways_give_the_same_bytes(void)
{
    static const char *const sets[] = {"portable", "sse4.1", "avx2"};
    uint32_t seed = 7;

    for (int n = 0; n < 300; n++) {
        int64_t width = random_side(&seed);
        int64_t height = random_side(&seed);
        struct scene s = scene_of(width, height, 1 + (int)(next_random(&seed) % 2),
                                  1 + (int)(next_random(&seed) % 2),
                                  (enum hr__upsampling)(next_random(&seed) % 3), seed);
        struct hr__fit *f = &s.plan.fit;
        uint8_t *want;

        f->take_x = next_random(&seed) % width;
        f->take_y = next_random(&seed) % height;
        f->take_width = 1 + next_random(&seed) % (width - f->take_x);
        f->take_height = 1 + next_random(&seed) % (height - f->take_y);
        s.plan.flip = next_random(&seed) % 2;
        scene_target(&s, 4 + random_side(&seed), 4 + random_side(&seed),
                     (enum hr_scale_algo)(next_random(&seed) % 4));
        want = run(&s, "portable", false);
        for (size_t k = 0; k < 3; k++)
            for (int stream = 0; hr__kernels_find(sets[k]) != NULL && stream < 2;
                 stream++) {
                uint8_t *got = run(&s, sets[k], stream);

                HR_CHECK(memcmp(got, want,
                                (size_t)(3 * f->kept_width * f->kept_height)) == 0);
                free(got);
            }
        free(want);
        scene_free(&s);
    }
}

/* Extremes of samples: every overshoot meets the clamps. */
static void kernels_agree_on_extremes(void)
{
    static const char *const sets[] = {"sse4.1", "avx2"};
    struct scene s = scene_of(97, 61, 2, 2, HR_UPSAMPLE_CENTRED, 9);

    for (int i = 0; i < 3; i++)
        for (size_t k = 0; k < s.stride[i] * (size_t)s.plan.plane[i].height; k++)
            s.plane[i][k] = (s.plane[i][k] & 1) ? 255 : 0;
    for (int algo = HR_SCALE_BOX; algo <= HR_SCALE_LANCZOS; algo++) {
        uint8_t *want;

        scene_target(&s, 150, 40, (enum hr_scale_algo)algo);
        want = run(&s, "portable", false);
        for (size_t k = 0; k < 2 && hr__kernels_find(sets[k]) != NULL; k++) {
            uint8_t *got = run(&s, sets[k], false);

            HR_CHECK(memcmp(got, want, 3 * 150 * 40) == 0);
            free(got);
        }
        free(want);
    }
    scene_free(&s);
}

/* Luma alone is grey, exactly. */
static void one_plane_is_grey(void)
{
    struct scene s = scene_of(40, 30, 1, 1, HR_UPSAMPLE_REPEAT, 3);
    uint8_t *out;

    s.plan.count = 1;
    scene_target(&s, 40, 30, HR_SCALE_BICUBIC);
    out = run(&s, "portable", true);
    for (size_t c = 0; c < 3; c++)
        HR_CHECK(memcmp(out + c * 1200, s.plane[0], 1200) == 0);
    free(out);
    scene_free(&s);
}

static const struct hr_test tests[] = {
    HR_TEST(upsampling_alone),
    HR_TEST(upsampling_and_resize),
    HR_TEST(upsampling_sees_beyond_a_crop),
    HR_TEST(too_much_shrinking_is_refused),
    HR_TEST(colours_by_hand),
    HR_TEST(planes_equal_the_model),
    HR_TEST(crops_and_flips_equal_the_model),
    HR_TEST(all_ways_give_the_same_bytes),
    HR_TEST(kernels_agree_on_extremes),
    HR_TEST(one_plane_is_grey),
};

HR_TEST_MAIN(tests)
