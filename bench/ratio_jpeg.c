/* One thread of hr_image_load_batch beside the bare libjpeg loop, in turns in one run.
 *
 *     ratio_jpeg [--size WxH] [--mode pad|crop|stretch] [--algo NAME] [--exact 0|1]
 *                [--layout HWC|CHW] [--dtype uint8|float16|bfloat16|float32]
 *                FOLDER|FILE...
 *
 * Prints the medians of CPU per picture and their ratio: 1 would mean that reading,
 * checking, resizing and batching cost nothing. */
#include "limit_jpeg.h"

#include "headrace/headrace.h"

#define ROUNDS 15
#define BATCH 32

static void must(enum hr_status status, const struct hr_error *err)
{
    if (status != HR_OK)
        die("headrace", err->text);
}

static size_t choice(const char *value, const char *const *names, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(value, names[i]) == 0)
            return i;
    die("unknown value", value);
    return 0;
}

static void set_option(struct hr_image_options *o, const char *name, const char *value)
{
    static const char *const modes[] = {"stretch", "pad", "crop"};
    static const char *const algos[] = {"box", "bilinear", "bicubic", "lanczos"};
    static const char *const layouts[] = {"HWC", "CHW"};
    static const char *const dtype_names[] = {"uint8", "float16", "bfloat16",
                                              "float32"};
    static const enum hr_dtype dtypes[] = {HR_U8, HR_F16, HR_BF16, HR_F32};
    long long w;
    long long h;

    if (strcmp(name, "--size") == 0 && sscanf(value, "%lldx%lld", &w, &h) == 2) {
        o->width = w;
        o->height = h;
    } else if (strcmp(name, "--mode") == 0) {
        o->mode = (enum hr_scale_mode)choice(value, modes, 3);
    } else if (strcmp(name, "--algo") == 0) {
        o->algo = (enum hr_scale_algo)choice(value, algos, 4);
    } else if (strcmp(name, "--exact") == 0) {
        o->exact = value[0] == '1';
    } else if (strcmp(name, "--layout") == 0) {
        o->layout = (enum hr_layout)choice(value, layouts, 2);
    } else if (strcmp(name, "--dtype") == 0) {
        o->dtype = dtypes[choice(value, dtype_names, 4)];
    } else {
        die("unknown option", name);
    }
}

/* The set as bytes values, which borrow the files. */
static struct hr_value *wrap(const struct jpeg_set *set)
{
    struct hr_value *values = calloc(set->count, sizeof(*values));
    struct hr_error err = {0};

    for (size_t i = 0; i < set->count; i++) {
        struct hr_buffer *buffer;

        must(hr_buffer_wrap(set->file[i].data, set->file[i].size, HR_BUFFER_READONLY,
                            NULL, NULL, &buffer, &err),
             &err);
        values[i] = hr_value_of_bytes(&buffer);
    }
    return values;
}

/* CPU seconds for the whole set once, in batches. */
static double time_batches(struct hr_ctx *ctx, const struct hr_value *values, size_t n,
                           const struct hr_image_options *options)
{
    double start = cpu_seconds();
    struct hr_error err = {0};

    for (size_t i = 0; i < n; i += BATCH) {
        struct hr_value batch;

        must(hr_image_load_batch(ctx, values + i, n - i < BATCH ? n - i : BATCH, NULL,
                                 options, 1, &batch, &err),
             &err);
        hr_value_release(&batch);
    }
    return cpu_seconds() - start;
}

int main(int argc, char **argv)
{
    struct jpeg_decompress_struct lib;
    struct jpeg_error_mgr errors;
    struct jpeg_set set = {NULL, 0};
    struct hr_image_options options;
    struct hr_ctx *ctx;
    struct hr_error err = {0};
    struct hr_value *values;
    double limit[ROUNDS];
    double full[ROUNDS];
    double ratio[ROUNDS];
    double per;

    hr_image_options_init(&options);
    options.width = options.height = 224;
    for (int i = 1; i < argc; i++) {
        if (strncmp(argv[i], "--", 2) == 0 && i + 1 < argc) {
            set_option(&options, argv[i], argv[i + 1]);
            i++;
        } else {
            add_path(&set, argv[i]);
        }
    }
    if (set.count == 0)
        die("usage: ratio_jpeg [--size WxH] [--mode M] [--algo A] FOLDER|FILE...",
            "no pictures");
    lib.err = jpeg_std_error(&errors);
    jpeg_create_decompress(&lib);
    must(hr_ctx_new(&ctx, &err), &err);
    values = wrap(&set);
    time_limit(&lib, &set);
    time_batches(ctx, values, set.count, &options);
    for (int r = 0; r < ROUNDS; r++) {
        limit[r] = time_limit(&lib, &set);
        full[r] = time_batches(ctx, values, set.count, &options);
        ratio[r] = limit[r] / full[r];
    }
    per = 1e3 / (double)set.count;
    printf("limit %.4f ms, full job %.4f ms per picture; ratio %.3f (%s)\n",
           median(limit, ROUNDS) * per, median(full, ROUNDS) * per,
           median(ratio, ROUNDS), hr_image_simd());
    for (size_t i = 0; i < set.count; i++)
        hr_value_release(&values[i]);
    free(values);
    hr_ctx_free(&ctx);
    jpeg_destroy_decompress(&lib);
    return 0;
}
