/* Our decoder of baseline JPEGs against libjpeg: the same planes, and no file taken that
 * libjpeg complains about. Every comparison is made with both variants of the decoder. */
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>

#include <jpeglib.h>

#include "hr_test.h"
#include "image/baseline.h"
#include "pictures.h"

#define SIDE_MAX 192 /* samples of a test's picture */
#define ROOM (SIDE_MAX + 64)

/* ---- libjpeg ---- */

struct planes {
    int count;
    unsigned width[3]; /* that show */
    unsigned height[3];
    uint8_t sample[3][ROOM * ROOM];
};

struct reference {
    struct jpeg_decompress_struct lib;
    struct jpeg_error_mgr errors;
    jmp_buf escape;
};

static void on_error(j_common_ptr lib)
{
    struct reference *r = lib->client_data;

    longjmp(r->escape, 1);
}

static void on_message(j_common_ptr lib, int level)
{
    if (level < 0)
        lib->err->num_warnings++;
}

static void read_planes(struct reference *r, struct planes *out)
{
    struct jpeg_decompress_struct *lib = &r->lib;
    JSAMPROW row[3][4 * DCTSIZE];
    JSAMPARRAY rows[3] = {row[0], row[1], row[2]};

    lib->raw_data_out = TRUE;
    lib->dct_method = JDCT_ISLOW;
    lib->out_color_space = lib->jpeg_color_space;
    jpeg_start_decompress(lib);
    out->count = lib->num_components;
    for (int c = 0; c < lib->num_components; c++) {
        out->width[c] = lib->comp_info[c].downsampled_width;
        out->height[c] = lib->comp_info[c].downsampled_height;
    }
    for (int y = 0; lib->output_scanline < lib->output_height; y++) {
        for (int c = 0; c < lib->num_components; c++) {
            int lines = DCTSIZE * lib->comp_info[c].v_samp_factor;

            for (int i = 0; i < lines; i++)
                row[c][i] = out->sample[c] + (size_t)(y * lines + i) * ROOM;
        }
        jpeg_read_raw_data(lib, rows, (JDIMENSION)(DCTSIZE * lib->max_v_samp_factor));
    }
    jpeg_finish_decompress(lib);
}

/* Decode by libjpeg; false: it has an error or a warning. */
static bool decode_reference(const struct blob *blob, struct planes *out)
{
    struct reference r;
    volatile bool ok = false;

    r.lib.err = jpeg_std_error(&r.errors);
    r.errors.error_exit = on_error;
    r.errors.emit_message = on_message;
    r.lib.client_data = &r;
    jpeg_create_decompress(&r.lib);
    r.lib.client_data = &r;
    if (setjmp(r.escape) == 0) {
        jpeg_mem_src(&r.lib, blob->data, (unsigned long)blob->size);
        jpeg_read_header(&r.lib, TRUE);
        if (r.lib.image_width <= SIDE_MAX && r.lib.image_height <= SIDE_MAX &&
            r.lib.num_components <= 3) {
            read_planes(&r, out);
            ok = r.errors.num_warnings == 0;
        }
    }
    jpeg_destroy_decompress(&r.lib);
    return ok;
}

/* ---- ours ---- */

static struct hr__baseline *decoder;

/* Decode row y of MCUs to its place. */
static bool decode_row(const struct hr__baseline_planes *p, uint32_t y, int count,
                       struct planes *out)
{
    uint8_t *row[3][4 * DCTSIZE];
    uint8_t *const *const rows[3] = {row[0], row[1], row[2]};

    for (int c = 0; c < p->planes; c++)
        for (int i = 0; i < p->plane[c].lines; i++)
            row[c][i] = out->sample[c] +
                        ((size_t)y * (size_t)p->plane[c].lines + (size_t)i) * ROOM;
    return hr__baseline_row(decoder, rows, count);
}

static bool decode_own(const struct blob *blob, struct planes *out)
{
    struct hr__baseline_planes p;

    if (!hr__baseline_begin(decoder, blob->data, blob->size, &p))
        return false;
    if (p.width > SIDE_MAX || p.height > SIDE_MAX)
        return false;
    out->count = p.planes;
    for (int c = 0; c < p.planes; c++) {
        out->width[c] = p.plane[c].width;
        out->height[c] = p.plane[c].height;
    }
    for (uint32_t y = 0; y < p.rows; y++)
        if (!decode_row(&p, y, p.planes, out))
            return false;
    return hr__baseline_finish(decoder);
}

static bool same_planes(const struct planes *a, const struct planes *b)
{
    if (a->count != b->count)
        return false;
    for (int c = 0; c < a->count; c++) {
        if (a->width[c] != b->width[c] || a->height[c] != b->height[c])
            return false;
        for (unsigned y = 0; y < a->height[c]; y++)
            if (memcmp(a->sample[c] + y * ROOM, b->sample[c] + y * ROOM, a->width[c]) !=
                0)
                return false;
    }
    return true;
}

static struct planes want, got;

enum verdict { LEFT, EQUAL, WRONG };

/* Both variants must come to the same. WRONG: taken with other samples than libjpeg's, or
 * though it complains, or by one variant only. */
static enum verdict judge(const struct blob *blob)
{
    bool good = decode_reference(blob, &want);
    bool taken[2];

    for (int portable = 0; portable < 2; portable++) {
        hr__baseline_set_portable(decoder, portable || !hr__baseline_is_fast());
        taken[portable] = decode_own(blob, &got);
        if (taken[portable] && !(good && same_planes(&want, &got)))
            return WRONG;
    }
    if (taken[0] != taken[1])
        return WRONG;
    return taken[0] ? EQUAL : LEFT;
}

/* ---- pictures ---- */

enum kind { SMOOTH, NOISE, SATURATED, EDGES, KINDS };

static void paint(enum kind kind, uint32_t seed, unsigned width, unsigned height,
                  uint8_t *samples)
{
    for (unsigned y = 0; y < height; y++)
        for (unsigned x = 0; x < width; x++, samples += 3)
            for (unsigned c = 0; c < 3; c++) {
                uint32_t random = next_random(&seed);

                if (kind == SMOOTH)
                    samples[c] = (uint8_t)(4 * x + (3 + c) * y + random % 9);
                else if (kind == NOISE)
                    samples[c] = (uint8_t)random;
                else if (kind == SATURATED)
                    samples[c] = random % 2 ? 255 : 0;
                else
                    samples[c] = (x / 5 + y / 3 + c) % 2 ? 250 : 4;
            }
}

struct how {
    int colours; /* 1 or 3 */
    int h;       /* of luma */
    int v;
    int quality;
    bool optimised;
    unsigned restart; /* MCUs */
};

static struct blob encode(const uint8_t *samples, unsigned width, unsigned height,
                          struct how how)
{
    struct jpeg_compress_struct lib;
    struct jpeg_error_mgr errors;
    struct blob blob = {NULL, 0};
    unsigned long size = 0;
    unsigned char *data = NULL;
    uint8_t grey[SIDE_MAX];

    lib.err = jpeg_std_error(&errors);
    jpeg_create_compress(&lib);
    jpeg_mem_dest(&lib, &data, &size);
    lib.image_width = width;
    lib.image_height = height;
    lib.input_components = how.colours;
    lib.in_color_space = how.colours == 1 ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_set_defaults(&lib);
    jpeg_set_quality(&lib, how.quality, TRUE);
    lib.comp_info[0].h_samp_factor = how.h;
    lib.comp_info[0].v_samp_factor = how.v;
    lib.optimize_coding = how.optimised;
    lib.restart_interval = how.restart;
    jpeg_start_compress(&lib, TRUE);
    for (unsigned y = 0; y < height; y++) {
        const uint8_t *row = samples + (size_t)y * width * 3;
        JSAMPROW rows[1] = {grey};

        for (unsigned x = 0; x < width; x++)
            grey[x] = row[3 * x];
        if (how.colours == 3)
            rows[0] = (JSAMPROW)row;
        jpeg_write_scanlines(&lib, rows, 1);
    }
    jpeg_finish_compress(&lib);
    jpeg_destroy_compress(&lib);
    blob_append(&blob, data, size);
    free(data);
    return blob;
}

static struct blob picture(enum kind kind, unsigned width, unsigned height,
                           struct how how)
{
    static uint8_t samples[SIDE_MAX * SIDE_MAX * 3];

    paint(kind, width * 7919 + height, width, height, samples);
    return encode(samples, width, height, how);
}

static const struct how samplings[] = {
    {.colours = 3, .h = 1, .v = 1}, {.colours = 3, .h = 2, .v = 1},
    {.colours = 3, .h = 2, .v = 2}, {.colours = 3, .h = 1, .v = 2},
    {.colours = 3, .h = 4, .v = 1}, {.colours = 3, .h = 4, .v = 2},
    {.colours = 1, .h = 1, .v = 1}, {.colours = 1, .h = 2, .v = 2}};
#define SAMPLINGS (sizeof(samplings) / sizeof(samplings[0]))

static void expect(enum verdict want_verdict, const struct blob *blob, const char *what,
                   struct how how, unsigned width, unsigned height)
{
    enum verdict verdict = judge(blob);

    if (verdict == want_verdict)
        return;
    printf("# %s, %ux%u, %d components %dx%d, quality %d, restart %u: %s\n", what,
           width, height, how.colours, how.h, how.v, how.quality, how.restart,
           verdict == LEFT ? "left to libjpeg" : "taken");
    HR_CHECK(verdict == want_verdict);
}

/* ---- the same samples ---- */

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define QUALITY_STEP 9
#else
#define QUALITY_STEP 1
#endif

/* Kinds and optimised tables go round within it. */
static void every_sampling_quality_and_odd_size(void)
{
    unsigned n = 0;

    for (size_t s = 0; s < SAMPLINGS; s++)
        for (int quality = 1; quality <= 100; quality += QUALITY_STEP)
            for (unsigned side = 1; side <= 64; side += 2, n++) {
                struct how how = samplings[s];
                unsigned height = 1 + (n * 29) % 64;
                struct blob blob;

                how.quality = quality;
                how.optimised = n % 3 == 0;
                blob = picture((enum kind)(n % KINDS), side, height, how);
                expect(EQUAL, &blob, "size", how, side, height);
                blob_free(&blob);
            }
}

static void every_restart_interval(void)
{
    for (size_t s = 0; s < SAMPLINGS; s++)
        for (unsigned restart = 1; restart <= 20; restart++) {
            struct how how = samplings[s];
            struct blob blob;

            how.quality = 85;
            how.restart = restart;
            blob = picture(SMOOTH, 150, 130, how);
            expect(EQUAL, &blob, "restart", how, 150, 130);
            blob_free(&blob);
        }
}

static void large_pictures_of_every_kind(void)
{
    for (size_t s = 0; s < SAMPLINGS; s++)
        for (int kind = 0; kind < KINDS; kind++)
            for (int optimised = 0; optimised < 2; optimised++) {
                struct how how = samplings[s];
                struct blob blob;

                how.quality = kind == SATURATED ? 97 : 90;
                how.optimised = optimised;
                blob = picture((enum kind)kind, SIDE_MAX - 1, SIDE_MAX, how);
                expect(EQUAL, &blob, "large", how, SIDE_MAX - 1, SIDE_MAX);
                blob_free(&blob);
            }
}

/* Only the wanted columns are written, and they are the same. */
static void unneeded_columns_are_left_alone(void)
{
    struct how how = {.colours = 3, .h = 2, .v = 2, .quality = 90};
    struct blob blob = picture(NOISE, 190, 16, how);
    struct hr__baseline_planes p;

    HR_CHECK(decode_reference(&blob, &want));
    memset(&got, 77, sizeof(got));
    HR_REQUIRE(hr__baseline_begin(decoder, blob.data, blob.size, &p));
    hr__baseline_need(decoder, 40, 90);
    HR_CHECK(decode_row(&p, 0, 3, &got));
    HR_CHECK(hr__baseline_finish(decoder));
    for (unsigned y = 0; y < 16; y++)
        HR_CHECK(
            !memcmp(got.sample[0] + y * ROOM + 40, want.sample[0] + y * ROOM + 40, 50));
    for (unsigned y = 0; y < 8; y++)
        HR_CHECK(
            !memcmp(got.sample[1] + y * ROOM + 20, want.sample[1] + y * ROOM + 20, 25));
    HR_CHECK_EQ_INT(got.sample[0][31], 77);  /* MCU 1 is not needed, MCU 2 is */
    HR_CHECK_EQ_INT(got.sample[0][112], 77); /* nor is MCU 7 (a pair may pass 96) */
    blob_free(&blob);
}

/* Nor are planes that nobody asks for; the next picture is not the worse for it. */
static void unneeded_planes_are_left_alone(void)
{
    struct how how = {.colours = 3, .h = 2, .v = 2, .quality = 90};
    struct blob blob = picture(NOISE, 60, 16, how);
    struct hr__baseline_planes p;

    HR_CHECK(decode_reference(&blob, &want));
    for (int count = 0; count < 2; count++) {
        memset(&got, 77, sizeof(got));
        HR_REQUIRE(hr__baseline_begin(decoder, blob.data, blob.size, &p));
        HR_CHECK(decode_row(&p, 0, count, &got));
        HR_CHECK(hr__baseline_finish(decoder));
        HR_CHECK_EQ_INT(got.sample[1][0], 77);
        HR_CHECK(!memcmp(got.sample[0], want.sample[0], 60) == (count == 1));
    }
    HR_CHECK(judge(&blob) == EQUAL);
    blob_free(&blob);
}

/* ---- the same judgement ---- */

static struct blob copy(const struct blob *blob)
{
    struct blob out = {NULL, 0};

    blob_append(&out, blob->data, blob->size);
    return out;
}

static void files_that_end_early_are_left(void)
{
    struct how how = {.colours = 3, .h = 2, .v = 2, .quality = 60, .restart = 3};
    struct blob blob = picture(SMOOTH, 50, 40, how);

    HR_CHECK(judge(&blob) == EQUAL);
    for (size_t size = 0; size < blob.size; size++) {
        struct blob cut = {blob.data, size};

        HR_CHECK(judge(&cut) == LEFT);
    }
    blob_append(&blob, "behind the end", 14);
    HR_CHECK(judge(&blob) == EQUAL);
    blob_free(&blob);
}

/* Replace the byte at `offset` of the n-th marker's segment. */
static void expect_changed(const struct blob *blob, uint8_t marker, size_t offset,
                           uint8_t value, enum verdict verdict)
{
    struct blob changed = copy(blob);
    size_t at = marker_at(&changed, marker, 0);

    HR_REQUIRE(at + offset < changed.size);
    changed.data[at + offset] = value;
    HR_CHECK_EQ_INT(judge(&changed), verdict);
    blob_free(&changed);
}

static void what_is_unusual_is_left(void)
{
    struct how how = {.colours = 3, .h = 2, .v = 2, .quality = 90};
    struct blob blob = picture(SMOOTH, 33, 33, how);

    HR_CHECK(judge(&blob) == EQUAL);
    expect_changed(&blob, 0xc0, 1, 0xc1, EQUAL); /* extended sequential: the same */
    expect_changed(&blob, 0xc0, 1, 0xc2, LEFT);  /* progressive */
    expect_changed(&blob, 0xc0, 1, 0xc9, LEFT);  /* arithmetic */
    expect_changed(&blob, 0xc0, 4, 12, LEFT);    /* bits of a sample */
    expect_changed(&blob, 0xc0, 6, 0, LEFT);     /* height 0: comes later, by DNL */
    expect_changed(&blob, 0xc0, 9, 4, LEFT);     /* components */
    expect_changed(&blob, 0xc0, 11, 0x31, LEFT); /* factor 3 */
    expect_changed(&blob, 0xc0, 14, 0x21, LEFT); /* chroma of 2 blocks */
    expect_changed(&blob, 0xc0, 12, 3, LEFT);    /* no such quantisation table */
    expect_changed(&blob, 0xdb, 4, 0x10, LEFT);  /* a table of 16-bit values */
    expect_changed(&blob, 0xda, 12, 62, LEFT);   /* fewer coefficients */
    expect_changed(&blob, 0xc4, 4, 0x02, LEFT);  /* the table is elsewhere */
    expect_changed(&blob, 0xc4, 5, 3, LEFT);     /* more codes than there can be */
    blob_free(&blob);
}

static void other_colours_are_left(void)
{
    static const uint8_t samples[24 * 24 * 4] = {9, 8, 7, 6};
    static const struct jpeg_how hows[] = {{.colour = CMYK},
                                           {.colour = YCCK},
                                           {.colour = RGB, .progressive = true},
                                           {.colour = RGB, .arithmetic = true}};

    for (size_t i = 0; i < sizeof(hows) / sizeof(hows[0]); i++) {
        struct blob blob = jpeg_of(samples, 24, 24, hows[i]);

        HR_CHECK_EQ_INT(judge(&blob), LEFT);
        blob_free(&blob);
    }
}

/* Without JFIF's segment the components' numbers decide: R, G, B are no Y Cb Cr. */
static void component_numbers_that_say_rgb_are_left(void)
{
    struct how how = {.colours = 3, .h = 1, .v = 1, .quality = 90};
    struct blob blob = picture(SMOOTH, 20, 20, how);
    size_t jfif = marker_at(&blob, 0xe0, 0);
    size_t frame;
    size_t scan;

    memmove(blob.data + jfif, blob.data + jfif + 18, blob.size - jfif - 18);
    blob.size -= 18;
    HR_CHECK(judge(&blob) == EQUAL);
    frame = marker_at(&blob, 0xc0, 0);
    scan = marker_at(&blob, 0xda, 0);
    for (size_t i = 0; i < 3; i++)
        blob.data[frame + 10 + 3 * i] = blob.data[scan + 5 + 2 * i] = (uint8_t)"RGB"[i];
    HR_CHECK_EQ_INT(judge(&blob), LEFT);
    blob_free(&blob);
}

/* ---- mutants ---- */

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define MUTANTS 300 /* of each file and kind */
#else
#define MUTANTS 1500
#endif

static void flip(struct blob *blob, uint32_t *seed, size_t from, size_t to)
{
    for (uint32_t n = 1 + next_random(seed) % 3; n > 0; n--)
        blob->data[from + next_random(seed) % (to - from)] ^=
            (uint8_t)(1U << next_random(seed) % 8);
}

/* One change of the kind; false: this file has no room for it. */
static void mutate(struct blob *blob, int kind, uint32_t *seed)
{
    size_t scan = marker_at(blob, 0xda, 0);
    size_t a = 2 + next_random(seed) % (blob->size - 4);
    size_t b = 2 + next_random(seed) % (blob->size - 4);

    switch (kind) {
    case 0: /* anywhere */
        flip(blob, seed, 2, blob->size);
        break;
    case 1: /* in the header */
        flip(blob, seed, 2, scan);
        break;
    case 2: /* in the data */
        flip(blob, seed, scan + 14, blob->size);
        break;
    case 3: /* in the Huffman tables */
        a = marker_at(blob, 0xc4, (int)(next_random(seed) % 2));
        flip(blob, seed, a + 2, a + 30);
        break;
    case 4: /* a piece that is missing */
        if (a > b) {
            size_t c = a;

            a = b;
            b = c;
        }
        memmove(blob->data + a, blob->data + b, blob->size - b);
        blob->size -= b - a;
        break;
    default: /* bytes of one place at another */
        blob->data[a] = blob->data[b];
        blob->data[a + 1] = blob->data[b + 1];
    }
}

static void what_is_taken_is_right(void)
{
    uint32_t seed = 20;
    int taken = 0;

    for (size_t s = 0; s < SAMPLINGS; s++)
        for (int kind = 0; kind < 6; kind++) {
            struct how how = samplings[s];
            struct blob blob;

            how.quality = 40 + 7 * (int)s;
            how.restart = s % 2 ? 4 : 0;
            how.optimised = kind % 2;
            blob = picture((enum kind)(kind % KINDS), 41, 30, how);
            for (int i = 0; i < MUTANTS; i++) {
                struct blob mutant = copy(&blob);
                enum verdict verdict;

                mutate(&mutant, kind, &seed);
                verdict = judge(&mutant);
                taken += verdict == EQUAL;
                if (verdict == WRONG) {
                    HR_CHECK(verdict != WRONG);
                    printf("# sampling %zu, kind %d, mutant %d\n", s, kind, i);
                }
                blob_free(&mutant);
            }
            blob_free(&blob);
        }
    HR_CHECK(taken > (int)SAMPLINGS * MUTANTS / 10); /* else nothing was tried */
    printf("# %d of %d mutants taken\n", taken, (int)SAMPLINGS * 6 * MUTANTS);
}

static const struct hr_test tests[] = {
    HR_TEST(every_sampling_quality_and_odd_size),
    HR_TEST(every_restart_interval),
    HR_TEST(large_pictures_of_every_kind),
    HR_TEST(unneeded_columns_are_left_alone),
    HR_TEST(unneeded_planes_are_left_alone),
    HR_TEST(files_that_end_early_are_left),
    HR_TEST(what_is_unusual_is_left),
    HR_TEST(other_colours_are_left),
    HR_TEST(component_numbers_that_say_rgb_are_left),
    HR_TEST(what_is_taken_is_right),
};

int main(int argc, char **argv)
{
    int failed;

    if (hr__baseline_new(&decoder, NULL) != HR_OK)
        return 1;
    failed = hr_test_main(tests, sizeof(tests) / sizeof(tests[0]), argc, argv);
    hr__baseline_free(&decoder);
    return failed;
}
