/* Arbitrary bytes as a picture: its header, one frame and all frames, into small
 * targets. The last four bytes choose among the options, so that all ways of the rows
 * are taken; pictures end before their files do.
 *
 * HR_FUZZ_FORMAT names the codec to which all data go: their first bytes become its
 * signature. Without it the data choose. `make fuzz` runs these with libFuzzer. */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "headrace/headrace.h"

#define CHOICES 4
#define PIXELS_MAX (1 << 18)
#define BYTES_MAX (1 << 24)

struct signature {
    const char *format;
    size_t at;
    size_t length;
    const char *bytes;
};

static const struct signature signatures[] = {
    {"jpeg", 0, 3, "\xff\xd8\xff"}, {"png", 0, 8, "\x89PNG\r\n\x1a\n"},
    {"gif", 0, 4, "GIF8"},          {"webp", 0, 4, "RIFF"},
    {"webp", 8, 4, "WEBP"},         {"bmp", 0, 2, "BM"},
    {"tiff", 0, 4, "II*\0"},        {"avif", 4, 8, "ftypavif"},
};

#ifndef HR_FUZZ_FORMAT
#define HR_FUZZ_FORMAT ""
#endif

/* A copy, exactly as large as the data, that begins as the format does. */
static uint8_t *copy_with_signature(const uint8_t *data, size_t size)
{
    uint8_t *copy = malloc(size > 0 ? size : 1);

    if (copy == NULL)
        abort();
    if (size > 0)
        memcpy(copy, data, size);
    for (size_t i = 0; i < sizeof(signatures) / sizeof(signatures[0]); i++) {
        const struct signature *s = &signatures[i];

        if (strcmp(s->format, HR_FUZZ_FORMAT) == 0 && size >= s->at + s->length)
            memcpy(copy + s->at, s->bytes, s->length);
    }
    return copy;
}

static void choose(const uint8_t *choice, struct hr_image_options *options)
{
    hr_image_options_init(options);
    options->mode = (enum hr_scale_mode)(choice[0] % 3);
    options->algo = (enum hr_scale_algo)(choice[0] / 3 % 4);
    options->width = choice[0] / 12 % 2 ? 24 : 0;
    options->height = choice[0] / 24 % 2 ? 17 : 0;
    options->pix_fmt = (enum hr_pix_fmt)(choice[1] % 6);
    options->background = choice[1] / 6 % 2 ? 0x102030 : -1;
    options->orientation = (enum hr_orientation)(choice[1] / 12 % 2);
    options->icc = (enum hr_icc)(choice[1] / 24 % 2);
    options->allow_truncated = choice[2] % 2;
    options->frame = choice[2] / 2 % 4;
    options->pixels_max = PIXELS_MAX;
    options->bytes_max = BYTES_MAX;
    options->frames_max = 16;
    options->scans_max = 10;
}

/* Crop, flip, layout and type. */
static void choose_form(unsigned choice, struct hr_image_options *o)
{
    static const enum hr_dtype dtypes[] = {HR_U8, HR_U8, HR_F16, HR_F32};

    o->crop = (enum hr_crop)(choice % 4);
    if (o->crop == HR_CROP_CENTER && (o->width == 0 || o->height == 0))
        o->crop = HR_CROP_NONE;
    o->box = (struct hr_box){choice / 4 % 8, choice % 16, 1 + choice % 5, 3};
    o->resize_size = choice / 8 % 2 ? 20 : 0;
    o->flip = choice / 16 % 2;
    o->layout = choice / 32 % 2 ? HR_CHW : HR_HWC;
    o->dtype = dtypes[choice / 64];
    o->exact = (choice & 4) != 0;
    o->draft = (choice & 8) != 0;
    o->seed = choice;
}

static void check(const struct hr_array *array, int ndim,
                  const struct hr_image_options *options)
{
    static const int channels[] = {3, 3, 1, 4, 1, 3};
    int axis = options->layout == HR_CHW ? ndim - 3 : ndim - 1;

    if (hr_array_ndim(array) != ndim ||
        hr_array_shape(array)[axis] != channels[options->pix_fmt])
        abort();
}

static void run(struct hr_ctx *ctx, const struct hr_value *src,
                struct hr_image_options *options)
{
    struct hr_value info;
    struct hr_array *array;
    int known = hr_image_info(ctx, src, NULL, options, &info, NULL) == HR_OK;

    hr_value_release(&info);
    if (hr_image_load(ctx, src, NULL, options, &array, NULL) == HR_OK) {
        check(array, 3, options);
        if (!known) /* what has pixels has a header */
            abort();
        hr_array_unref(&array);
    }
    options->frame = 0;
    options->crop = HR_CROP_NONE;
    if (hr_image_load_frames(ctx, src, NULL, options, &array, NULL) == HR_OK) {
        check(array, 4, options);
        hr_array_unref(&array);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t choice[CHOICES] = {0};
    struct hr_image_options options;
    struct hr_buffer *buffer;
    struct hr_value src;
    struct hr_ctx *ctx;
    uint8_t *copy = copy_with_signature(data, size);

    if (size >= CHOICES)
        memcpy(choice, data + size - CHOICES, CHOICES);
    choose(choice, &options);
    choose_form(choice[3], &options);
    if (hr_ctx_new(&ctx, NULL) != HR_OK)
        abort();
    if (hr_buffer_wrap(copy, size, HR_BUFFER_READONLY, NULL, NULL, &buffer, NULL) !=
        HR_OK)
        abort();
    src = hr_value_of_bytes(&buffer);
    run(ctx, &src, &options);
    hr_value_release(&src);
    hr_ctx_free(&ctx);
    free(copy);
    return 0;
}
