/* load_image beside the bare loop of a PNG's or WebP's library, in turns in one run.
 *
 *     ratio_codec [--algo NAME] FILE...
 *
 * The loop decodes to RGB in memory that is used again, and resizes that to 224x224 by
 * hr_image_resize: the same work without reading of headers, checks, limits, staging.
 * Prints medians of CPU per picture, and the loop over load_image: by default, exact, and
 * to a normalised float32 tensor (that one over load_image by default). */
#include "limit_jpeg.h"

#include <png.h>
#include <webp/decode.h>

#include "headrace/headrace.h"

#define ROUNDS 41
#define SIDE 224

static void must(enum hr_status status, const struct hr_error *err)
{
    if (status != HR_OK)
        die("headrace", err->text);
}

struct pixels {
    struct hr_array *array; /* height, width, 3 */
    uint8_t *row[65536];
};

static void make_room(struct pixels *p, int64_t width, int64_t height)
{
    const int64_t shape[] = {height, width, 3};
    struct hr_error err = {0};

    hr_array_unref(&p->array);
    must(hr_array_alloc(HR_U8, 3, shape, &p->array, &err), &err);
    for (int64_t y = 0; y < height; y++)
        p->row[y] = (uint8_t *)hr_array_data(p->array) + y * width * 3;
}

struct source {
    const struct jpeg_file *file;
    size_t at;
};

static void read_source(png_structp png, png_bytep to, size_t n)
{
    struct source *s = png_get_io_ptr(png);

    memcpy(to, s->file->data + s->at, n);
    s->at += n;
}

static void decode_png(const struct jpeg_file *file, struct pixels *out)
{
    struct source source = {file, 0};
    png_structp png = png_create_read_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL);
    png_infop info = png_create_info_struct(png);

    png_set_read_fn(png, &source, read_source);
    png_read_info(png, info);
    png_set_palette_to_rgb(png);
    png_set_strip_alpha(png);
    png_read_update_info(png, info);
    if (out->array == NULL)
        make_room(out, png_get_image_width(png, info), png_get_image_height(png, info));
    png_read_image(png, out->row);
    png_read_end(png, NULL);
    png_destroy_read_struct(&png, &info, NULL);
}

static void decode_webp(const struct jpeg_file *file, struct pixels *out)
{
    int width;
    int height;

    WebPGetInfo(file->data, file->size, &width, &height);
    if (out->array == NULL)
        make_room(out, width, height);
    if (WebPDecodeRGBInto(file->data, file->size, out->row[0],
                          hr_array_nbytes(out->array), width * 3) == NULL)
        die("cannot decode", "WebP");
}

static double time_loop(struct hr_ctx *ctx, const struct jpeg_file *file,
                        const struct hr_image_options *options, struct pixels *pixels)
{
    struct hr_array *small;
    struct hr_error err = {0};
    double start = cpu_seconds();

    if (file->data[0] == 'R')
        decode_webp(file, pixels);
    else
        decode_png(file, pixels);
    must(hr_image_resize(ctx, pixels->array, SIDE, SIDE, options->algo, &small, &err),
         &err);
    hr_array_unref(&small);
    return cpu_seconds() - start;
}

static double time_load(struct hr_ctx *ctx, const struct hr_value *src,
                        const struct hr_image_options *options)
{
    struct hr_array *small;
    struct hr_error err = {0};
    double start = cpu_seconds();

    must(hr_image_load(ctx, src, NULL, options, &small, &err), &err);
    hr_array_unref(&small);
    return cpu_seconds() - start;
}

static struct hr_value wrap(const struct jpeg_file *file)
{
    struct hr_buffer *buffer;
    struct hr_error err = {0};

    must(hr_buffer_wrap(file->data, file->size, HR_BUFFER_READONLY, NULL, NULL, &buffer,
                        &err),
         &err);
    return hr_value_of_bytes(&buffer);
}

static void compare(struct hr_ctx *ctx, const struct jpeg_file *file,
                    const struct hr_image_options *plain)
{
    static struct pixels pixels;
    struct hr_image_options exact = *plain;
    struct hr_image_options tensor = *plain;
    struct hr_value src = wrap(file);
    double loop[ROUNDS];
    double load[3][ROUNDS];

    exact.exact = 1;
    tensor.layout = HR_CHW;
    tensor.dtype = HR_F32;
    for (int r = -3; r < ROUNDS; r++) {
        int i = r < 0 ? 0 : r;

        loop[i] = time_loop(ctx, file, plain, &pixels);
        load[0][i] = time_load(ctx, &src, plain);
        load[1][i] = time_load(ctx, &src, &exact);
        load[2][i] = time_load(ctx, &src, &tensor);
    }
    hr_array_unref(&pixels.array);
    hr_value_release(&src);
    printf(
        "loop %.3f ms, load %.3f (%.3f), exact %.3f (%.3f), tensor %.3f (%.3f)\n",
        median(loop, ROUNDS) * 1e3, median(load[0], ROUNDS) * 1e3,
        median(loop, ROUNDS) / median(load[0], ROUNDS), median(load[1], ROUNDS) * 1e3,
        median(loop, ROUNDS) / median(load[1], ROUNDS), median(load[2], ROUNDS) * 1e3,
        median(load[0], ROUNDS) / median(load[2], ROUNDS));
}

int main(int argc, char **argv)
{
    struct jpeg_set set = {NULL, 0};
    struct hr_image_options options;
    struct hr_ctx *ctx;
    struct hr_error err = {0};

    hr_image_options_init(&options);
    options.width = options.height = SIDE;
    options.mode = HR_SCALE_STRETCH;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--algo") == 0 && i + 1 < argc)
            options.algo = strcmp(argv[++i], "bilinear") == 0 ? HR_SCALE_BILINEAR
                                                              : HR_SCALE_BICUBIC;
        else
            add_path(&set, argv[i]);
    }
    must(hr_ctx_new(&ctx, &err), &err);
    for (size_t i = 0; i < set.count; i++)
        compare(ctx, &set.file[i], &options);
    hr_ctx_free(&ctx);
    return 0;
}
