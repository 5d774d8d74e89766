/* Crops and flips: given, or drawn.
 *
 * A draw is a function of seed, epoch, index and its own number, so it does not matter
 * which thread makes it, nor what was drawn before. The stream of a picture is that of
 * SplitMix64 (G. Steele, D. Lea, C. Flood, "Fast splittable pseudorandom number
 * generators", 2014) from a key that mixes the three. */
#include "image/take.h"

#include <math.h>

#include "base/banned.h"

#define GAMMA 0x9e3779b97f4a7c15ULL
#define TRIES 10

enum draw { DRAW_FLIP = 0, DRAW_FIRST_TRY = 1, DRAWS_OF_A_TRY = 4 };

static uint64_t mix(uint64_t z)
{
    z += GAMMA;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ z >> 27) * 0x94d049bb133111ebULL;
    return z ^ z >> 31;
}

static uint64_t key_of(const struct hr_image_options *o, int64_t index)
{
    return mix(mix(mix(o->seed) + o->epoch) + (uint64_t)index);
}

/* Draw k, 0 <= draw < 1. */
static double draw(uint64_t key, uint64_t k)
{
    return (double)(mix(key + (k + 1) * GAMMA) >> 11) * 0x1p-53;
}

static double between(double draw, double low, double high)
{
    return low + draw * (high - low);
}

/* Any of 0 … count - 1. */
static int64_t choose(double draw, int64_t count)
{
    int64_t value = (int64_t)(draw * (double)count);

    return value < count ? value : count - 1;
}

/* The largest rectangle in the middle whose ratio is allowed. */
static void take_middle(const struct hr_image_options *o, int64_t width, int64_t height,
                        struct hr__take *take)
{
    double ratio = (double)width / (double)height;
    double w = (double)width;
    double h = (double)height;

    if (ratio < o->ratio[0])
        h = rint(w / o->ratio[0]);
    else if (ratio > o->ratio[1])
        w = rint(h * o->ratio[1]);
    take->width = w<1 ? 1 : w>(double) width ? width : (int64_t)w;
    take->height = h<1 ? 1 : h>(double) height ? height : (int64_t)h;
    take->x = (width - take->width) / 2;
    take->y = (height - take->height) / 2;
}

static void take_random(const struct hr_image_options *o, uint64_t key, int64_t width,
                        int64_t height, struct hr__take *take)
{
    double area = (double)width * (double)height;
    double log_low = log(o->ratio[0]);
    double log_high = log(o->ratio[1]);

    for (uint64_t i = 0; i < TRIES; i++) {
        uint64_t k = DRAW_FIRST_TRY + i * DRAWS_OF_A_TRY;
        double target = area * between(draw(key, k), o->scale[0], o->scale[1]);
        double ratio = exp(between(draw(key, k + 1), log_low, log_high));
        double w = rint(sqrt(target * ratio));
        double h = rint(sqrt(target / ratio));

        if (w < 1 || w > (double)width || h < 1 || h > (double)height)
            continue;
        take->width = (int64_t)w;
        take->height = (int64_t)h;
        take->y = choose(draw(key, k + 2), height - take->height + 1);
        take->x = choose(draw(key, k + 3), width - take->width + 1);
        return;
    }
    take_middle(o, width, height, take);
}

static enum hr_status take_box(const struct hr_box *box, int64_t width, int64_t height,
                               struct hr__take *take, struct hr_error *err)
{
    if (box->top < 0 || box->left < 0 || box->height < 1 || box->width < 1 ||
        box->height > height || box->width > width || box->top > height - box->height ||
        box->left > width - box->width)
        return hr_error_set(err, HR_ERR_ARG, "image", 0,
                            "image: a crop of %lld x %lld at row %lld, column %lld "
                            "leaves the picture of %lld x %lld",
                            (long long)box->width, (long long)box->height,
                            (long long)box->top, (long long)box->left, (long long)width,
                            (long long)height);
    *take = (struct hr__take){box->left, box->top, box->width, box->height};
    return HR_OK;
}

enum hr_status hr__take_choose(const struct hr_image_options *o,
                               const struct hr__pick *pick, int64_t width,
                               int64_t height, struct hr__take *take, bool *flip,
                               struct hr_error *err)
{
    uint64_t key = key_of(o, pick->index);

    *take = (struct hr__take){.width = width, .height = height};
    *flip = pick->flip >= 0 ? pick->flip != 0 : draw(key, DRAW_FLIP) < o->flip;
    if (pick->box != NULL)
        return take_box(pick->box, width, height, take, err);
    if (o->crop == HR_CROP_BOX)
        return take_box(&o->box, width, height, take, err);
    if (o->crop == HR_CROP_RANDOM)
        take_random(o, key, width, height, take);
    return HR_OK;
}

/* ---- arguments ---- */

static bool is_range(const double range[2], double low, double high)
{
    return range[0] >= low && range[0] <= range[1] && range[1] <= high;
}

enum hr_status hr__take_check(const struct hr_image_options *o, const char *who,
                              struct hr_error *err)
{
    if ((unsigned)o->crop > HR_CROP_RANDOM)
        return hr_error_set(err, HR_ERR_ARG, "image", 0,
                            "%s: crop must be one of enum hr_crop, got %d", who,
                            (int)o->crop);
    if (!(o->flip >= 0 && o->flip <= 1))
        return hr_error_set(err, HR_ERR_ARG, "image", 0,
                            "%s: flip must be 0 … 1, got %g", who, o->flip);
    if (o->crop == HR_CROP_RANDOM && !is_range(o->scale, 1e-9, 1))
        return hr_error_set(err, HR_ERR_ARG, "image", 0,
                            "%s: scale must rise within 1e-9 … 1, got %g, %g", who,
                            o->scale[0], o->scale[1]);
    if (o->crop == HR_CROP_RANDOM && !is_range(o->ratio, 1e-6, 1e6))
        return hr_error_set(err, HR_ERR_ARG, "image", 0,
                            "%s: ratio must rise within 1e-6 … 1e6, got %g, %g", who,
                            o->ratio[0], o->ratio[1]);
    if (o->resize_size < 0 || o->resize_size > HR_TARGET_MAX)
        return hr_error_set(err, HR_ERR_ARG, "image", 0,
                            "%s: resize_size must be 0 … 65535, got %lld", who,
                            (long long)o->resize_size);
    if (o->crop == HR_CROP_CENTER && (o->width == 0 || o->height == 0))
        return hr_error_set(err, HR_ERR_ARG, "image", 0,
                            "%s: a central crop needs a width and a height", who);
    return HR_OK;
}

enum hr_status hr_image_draw(const struct hr_image_options *o, int64_t width,
                             int64_t height, struct hr_box *box, int *flip,
                             struct hr_error *err)
{
    struct hr__pick pick = {.index = o->index, .flip = -1};
    struct hr__take take;
    bool flipped;
    enum hr_status status = hr__take_check(o, "draw", err);

    if (status == HR_OK &&
        (width < 1 || width > INT32_MAX || height < 1 || height > INT32_MAX))
        status = hr_error_set(err, HR_ERR_ARG, "image", 0,
                              "draw: a picture of %lld x %lld pixels", (long long)width,
                              (long long)height);
    if (status == HR_OK)
        status = hr__take_choose(o, &pick, width, height, &take, &flipped, err);
    if (status != HR_OK)
        return status;
    *box = (struct hr_box){take.y, take.x, take.height, take.width};
    *flip = flipped;
    return HR_OK;
}
