/* The decoder of baseline JPEGs (src/image/baseline.h) beside libjpeg, stage by stage and
 * kind by kind of picture, in turns in one run.
 *
 *     ratio_stages [--rounds N] [--only KIND] FOLDER|FILE...
 *
 * The given pictures are one kind; the others are made of them: thumbnails, other
 * samplings and qualities, tables of their own, restart intervals. Three ratios for each,
 * libjpeg's CPU over ours, by the medians of rounds:
 *
 *     entropy   to coefficients, and no further (libjpeg: jpeg_read_coefficients)
 *     planes    to samples of Y, Cb and Cr (libjpeg: raw_data_out)
 *     job       by hr_image_load_batch to 224x224 RGB, or to half the size of a small
 *               picture; libjpeg only makes rows of RGB, which it overwrites, and resizes
 *               nothing */
#include "limit_jpeg.h"

#include "headrace/headrace.h"
#include "image/baseline.h"

#define ROUNDS_MAX 99
#define BATCH 32
#define LINES 32 /* of a plane, at most, in a row of MCUs */

static void must(enum hr_status status, const struct hr_error *err)
{
    if (status != HR_OK)
        die("headrace", err->text);
}

/* ---- the kinds ---- */

struct kind {
    const char *name;
    unsigned denominator; /* the picture becomes this part of itself; 0: left alone */
    unsigned side;        /* and is cut to a square, 0: is not */
    int quality;
    int h; /* luma's sampling factors; 0: grey */
    int v;
    bool optimised;
    int restart_rows;
    unsigned restart; /* MCUs */
};

static const struct kind kinds[] = {
    {"as given", 0, 0, 0, 0, 0, false, 0, 0},
    {"32x32", 8, 32, 90, 2, 2, false, 0, 0},
    {"32x32, own tables", 8, 32, 90, 2, 2, true, 0, 0},
    {"64x64", 4, 64, 90, 2, 2, false, 0, 0},
    {"64x64, own tables", 4, 64, 90, 2, 2, true, 0, 0},
    {"own tables", 1, 0, 90, 2, 2, true, 0, 0},
    {"restart per row", 1, 0, 90, 2, 2, false, 1, 0},
    {"restart per 4 MCUs", 1, 0, 90, 2, 2, false, 0, 4},
    {"restart per MCU", 1, 0, 90, 2, 2, false, 0, 1},
    {"quality 50", 1, 0, 50, 2, 2, false, 0, 0},
    {"quality 75", 1, 0, 75, 2, 2, false, 0, 0},
    {"quality 97, own tables", 1, 0, 97, 2, 2, true, 0, 0},
    {"4:2:2", 1, 0, 90, 2, 1, false, 0, 0},
    {"4:4:4", 1, 0, 90, 1, 1, false, 0, 0},
    {"grey", 1, 0, 90, 0, 0, false, 0, 0},
};

#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

static void start_encoder(struct jpeg_compress_struct *to, const struct kind *kind,
                          unsigned width, unsigned height)
{
    to->image_width = width;
    to->image_height = height;
    to->input_components = kind->h == 0 ? 1 : 3;
    to->in_color_space = kind->h == 0 ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_set_defaults(to);
    jpeg_set_quality(to, kind->quality, TRUE);
    if (kind->h > 0) {
        to->comp_info[0].h_samp_factor = kind->h;
        to->comp_info[0].v_samp_factor = kind->v;
    }
    to->optimize_coding = kind->optimised;
    to->restart_in_rows = kind->restart_rows;
    to->restart_interval = kind->restart;
    jpeg_start_compress(to, TRUE);
}

/* One picture, decoded and encoded again. */
static struct jpeg_file remake(const struct jpeg_file *file, const struct kind *kind)
{
    static JSAMPLE row[65536 * 3];
    JSAMPROW rows[1] = {row};
    struct jpeg_error_mgr errors;
    struct jpeg_decompress_struct from;
    struct jpeg_compress_struct to;
    struct jpeg_file out = {NULL, 0};
    unsigned long size = 0;
    unsigned side = kind->side;

    from.err = to.err = jpeg_std_error(&errors);
    jpeg_create_decompress(&from);
    jpeg_create_compress(&to);
    jpeg_mem_src(&from, file->data, file->size);
    jpeg_mem_dest(&to, &out.data, &size);
    jpeg_read_header(&from, TRUE);
    from.out_color_space = kind->h == 0 ? JCS_GRAYSCALE : JCS_RGB;
    from.scale_num = 1;
    from.scale_denom = kind->denominator;
    jpeg_start_decompress(&from);
    if (from.output_width < side || from.output_height < side)
        die("a picture is too small for", kind->name);
    start_encoder(&to, kind, side ? side : from.output_width,
                  side ? side : from.output_height);
    while (to.next_scanline < to.image_height) {
        jpeg_read_scanlines(&from, rows, 1);
        jpeg_write_scanlines(&to, rows, 1);
    }
    jpeg_finish_compress(&to);
    jpeg_destroy_compress(&to);
    jpeg_destroy_decompress(&from);
    out.size = size;
    return out;
}

static struct jpeg_set remake_all(const struct jpeg_set *set, const struct kind *kind)
{
    struct jpeg_set out = {calloc(set->count, sizeof(struct jpeg_file)), set->count};

    for (size_t i = 0; i < set->count; i++)
        out.file[i] = remake(&set->file[i], kind);
    return out;
}

/* ---- libjpeg ---- */

static void read_entropy(struct jpeg_decompress_struct *lib,
                         const struct jpeg_file *file)
{
    jpeg_mem_src(lib, file->data, file->size);
    jpeg_read_header(lib, TRUE);
    jpeg_read_coefficients(lib);
    jpeg_finish_decompress(lib);
}

/* Rows of samples that are overwritten by the next ones. */
static JSAMPLE sample[3][LINES][65536 + 64];

static void read_planes(struct jpeg_decompress_struct *lib,
                        const struct jpeg_file *file)
{
    JSAMPROW row[3][LINES];
    JSAMPARRAY rows[3] = {row[0], row[1], row[2]};

    for (int c = 0; c < 3; c++)
        for (int i = 0; i < LINES; i++)
            row[c][i] = sample[c][i];
    jpeg_mem_src(lib, file->data, file->size);
    jpeg_read_header(lib, TRUE);
    lib->raw_data_out = TRUE;
    lib->out_color_space = lib->jpeg_color_space;
    jpeg_start_decompress(lib);
    while (lib->output_scanline < lib->output_height)
        jpeg_read_raw_data(lib, rows, (JDIMENSION)(DCTSIZE * lib->max_v_samp_factor));
    jpeg_finish_decompress(lib);
}

/* ---- ours ---- */

static void decode_own(struct hr__baseline *own, const struct jpeg_file *file,
                       bool to_planes)
{
    uint8_t *row[3][LINES];
    uint8_t *const *const rows[3] = {row[0], row[1], row[2]};
    struct hr__baseline_planes p;

    for (int c = 0; c < 3; c++)
        for (int i = 0; i < LINES; i++)
            row[c][i] = sample[c][i];
    if (!hr__baseline_begin(own, file->data, file->size, &p))
        die("the baseline decoder", "leaves a picture to libjpeg");
    for (uint32_t y = 0; y < p.rows; y++)
        if (!hr__baseline_row(own, rows, to_planes ? p.planes : 0))
            die("the baseline decoder", "gives a picture up");
    if (!hr__baseline_finish(own))
        die("the baseline decoder", "does not like a picture's end");
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

static void load_batches(struct hr_ctx *ctx, const struct hr_value *values, size_t n,
                         unsigned side)
{
    struct hr_image_options options;
    struct hr_error err = {0};

    hr_image_options_init(&options);
    options.width = options.height = side;
    options.algo = HR_SCALE_BILINEAR;
    for (size_t i = 0; i < n; i += BATCH) {
        struct hr_value batch;

        must(hr_image_load_batch(ctx, values + i, n - i < BATCH ? n - i : BATCH, NULL,
                                 &options, 1, &batch, &err),
             &err);
        hr_value_release(&batch);
    }
}

/* ---- the comparison ---- */

struct sides {
    struct jpeg_decompress_struct *lib;
    struct hr__baseline *own;
    struct hr_ctx *ctx;
};

enum stage { ENTROPY, PLANES, JOB, STAGES };

/* CPU seconds of one stage for the whole set. */
static double time_libjpeg(const struct sides *s, enum stage stage,
                           const struct jpeg_set *set)
{
    double start = cpu_seconds();

    if (stage == JOB)
        return time_limit(s->lib, set);
    for (size_t i = 0; i < set->count; i++)
        (stage == ENTROPY ? read_entropy : read_planes)(s->lib, &set->file[i]);
    return cpu_seconds() - start;
}

static double time_own(const struct sides *s, enum stage stage,
                       const struct jpeg_set *set, const struct hr_value *values,
                       unsigned side)
{
    double start = cpu_seconds();

    if (stage == JOB)
        load_batches(s->ctx, values, set->count, side);
    else
        for (size_t i = 0; i < set->count; i++)
            decode_own(s->own, &set->file[i], stage == PLANES);
    return cpu_seconds() - start;
}

static double bytes_of(const struct jpeg_set *set)
{
    double bytes = 0;

    for (size_t i = 0; i < set->count; i++)
        bytes += (double)set->file[i].size;
    return bytes / (double)set->count;
}

/* One line of the table. */
static void compare(const struct sides *s, const struct kind *kind,
                    const struct jpeg_set *set, int rounds)
{
    unsigned side = kind->side > 0 ? kind->side / 2 : 224;
    struct hr_value *values = wrap(set);
    double per = 1e3 / (double)set->count;

    printf("%-22s %8.1f", kind->name, bytes_of(set) / 1000);
    for (int stage = ENTROPY; stage < STAGES; stage++) {
        double theirs[ROUNDS_MAX];
        double ours[ROUNDS_MAX];
        double ratio[ROUNDS_MAX];

        for (int r = -1; r < rounds; r++) { /* one to warm up */
            int at = r < 0 ? 0 : r;

            theirs[at] = time_libjpeg(s, (enum stage)stage, set);
            ours[at] = time_own(s, (enum stage)stage, set, values, side);
            ratio[at] = theirs[at] / ours[at];
        }
        printf(" | %7.4f %7.4f %5.2f", median(theirs, rounds) * per,
               median(ours, rounds) * per, median(ratio, rounds));
    }
    printf("\n");
    for (size_t i = 0; i < set->count; i++)
        hr_value_release(&values[i]);
    free(values);
}

int main(int argc, char **argv)
{
    struct jpeg_decompress_struct lib;
    struct jpeg_error_mgr errors;
    struct sides sides = {.lib = &lib};
    struct jpeg_set set = {NULL, 0};
    struct hr_error err = {0};
    const char *only = NULL;
    int rounds = 9;

    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--rounds") == 0 && i + 1 < argc)
            rounds = atoi(argv[++i]);
        else if (strcmp(argv[i], "--only") == 0 && i + 1 < argc)
            only = argv[++i];
        else
            add_path(&set, argv[i]);
    }
    if (set.count == 0 || rounds < 1 || rounds > ROUNDS_MAX)
        die("usage: ratio_stages [--rounds N] [--only KIND] FOLDER|FILE...", "");
    lib.err = jpeg_std_error(&errors);
    jpeg_create_decompress(&lib);
    must(hr__baseline_new(&sides.own, &err), &err);
    must(hr_ctx_new(&sides.ctx, &err), &err);
    printf("ms of CPU per picture: libjpeg, headrace, ratio\n");
    printf("%-22s %8s | %-21s | %-21s | %-21s\n", "kind", "KB", "entropy", "planes",
           "job");
    for (size_t k = 0; k < KINDS; k++) {
        struct jpeg_set made = set;

        if (only != NULL && strcmp(only, kinds[k].name) != 0)
            continue;
        if (kinds[k].denominator > 0)
            made = remake_all(&set, &kinds[k]);
        compare(&sides, &kinds[k], &made, rounds);
    }
    hr_ctx_free(&sides.ctx);
    hr__baseline_free(&sides.own);
    jpeg_destroy_decompress(&lib);
    return 0;
}
