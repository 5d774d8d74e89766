/* Arbitrary bytes as a picture, decoded into a small target. The last byte chooses mode
 * and filter, the one before crop and form, so that all ways of the rows are taken;
 * pictures end before their files do.
 *
 * With libFuzzer, from the project's root (any clang):
 *     clang -std=gnu11 -O1 -g -fsanitize=fuzzer,address,undefined -Iinclude -Isrc \
 *         -DHR_VERSION='"0"' tests/fuzz/fuzz_image.c src/base/[a-z]*.c src/io/[a-z]*.c \
 *         src/image/[a-z]*.c -ljpeg -lpng -lm -lpthread -o build/fuzz_image
 *     build/fuzz_image -max_len=4096 NEW_FOLDER tests/fuzz/corpus/image */
#include <stdlib.h>

#include "fuzz.h"
#include "headrace/headrace.h"

/* The byte before the last: crop, flip, layout and type. */
static void choose_form(struct hr_image_options *o, const uint8_t *data, size_t size)
{
    static const enum hr_dtype dtypes[] = {HR_U8, HR_U8, HR_F16, HR_F32};
    unsigned choice = size > 1 ? data[size - 2] : 0;

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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct hr_image_options options;
    struct hr_buffer *buffer;
    struct hr_array *array;
    struct hr_value src;
    struct hr_ctx *ctx;
    unsigned choice = size > 0 ? data[size - 1] : 0;

    hr_image_options_init(&options);
    options.mode = (enum hr_scale_mode)(choice % 3);
    options.algo = (enum hr_scale_algo)(choice / 3 % 4);
    options.width = choice / 12 % 2 ? 24 : 0;
    options.height = choice / 24 % 2 ? 17 : 0;
    options.pixels_max = 1 << 20;
    choose_form(&options, data, size);
    if (hr_ctx_new(&ctx, NULL) != HR_OK)
        abort();
    if (hr_buffer_wrap((void *)data, size, HR_BUFFER_READONLY, NULL, NULL, &buffer,
                       NULL) != HR_OK)
        abort();
    src = hr_value_of_bytes(&buffer);
    if (hr_image_load(ctx, &src, NULL, &options, &array, NULL) == HR_OK) {
        int channels = options.layout == HR_CHW ? 0 : 2;

        if (hr_array_ndim(array) != 3 || hr_array_shape(array)[channels] != 3)
            abort();
        hr_array_unref(&array);
    }
    hr_value_release(&src);
    hr_ctx_free(&ctx);
    return 0;
}
