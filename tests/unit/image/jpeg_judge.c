#include "jpeg_judge.h"

#include <setjmp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>
#include <jerror.h>

#include "image/baseline.h"
#include "pictures.h"

#define PLANES 3
#define LINES_MAX (4 * DCTSIZE) /* of a plane in a row of MCUs */
#define BLANK 0xa5              /* what no decoder has written */
#define MARGIN 32               /* bytes behind a row's room */
#define REGIONS 3

/* Samples; the block ends where the room of the last row does, for AddressSanitizer. */
struct sheet {
    uint8_t *samples;
    unsigned width; /* that show */
    unsigned height;
    unsigned lines; /* that are there */
    size_t room;
    size_t stride;
};

struct reference {
    struct jpeg_decompress_struct lib;
    struct jpeg_error_mgr errors;
    jmp_buf escape;
    int planes;
    struct sheet sheet[PLANES];
    unsigned group; /* lines of plane 0 that come at a time */
    unsigned lines; /* of plane 0 that came before the first warning */
    bool ended;     /* the file, before the end marker */
    bool good;      /* no warning at all */
};

struct jpeg_judge {
    struct hr__baseline *decoder;
    struct hr__baseline_planes about;
    struct sheet sheet[PLANES];
    struct reference reference;
    bool has_reference; /* of this picture */
    const char *reason;
};

/* ---- sheets ---- */

static void sheet_begin(struct sheet *s, unsigned lines, size_t room)
{
    s->lines = lines;
    s->room = room;
    s->stride = room + MARGIN;
    s->samples = malloc(lines * s->stride - MARGIN);
    if (s->samples == NULL)
        abort();
    memset(s->samples, BLANK, lines * s->stride - MARGIN);
}

static void sheet_end(struct sheet *s)
{
    free(s->samples);
    s->samples = NULL;
}

static const uint8_t *line_of(const struct sheet *s, unsigned y)
{
    return s->samples + y * s->stride;
}

static bool is_blank(const uint8_t *samples, size_t n)
{
    while (n > 0 && samples[n - 1] == BLANK)
        n--;
    return n == 0;
}

/* ---- libjpeg ---- */

static void on_error(j_common_ptr lib)
{
    struct reference *r = lib->client_data;

    longjmp(r->escape, 1);
}

/* libjpeg reads ahead: that the file ends it may say before it lacks anything. */
static void on_message(j_common_ptr lib, int level)
{
    struct reference *r = lib->client_data;

    if (level >= 0)
        return;
    if (lib->err->msg_code == JWRN_JPEG_EOF)
        r->ended = true;
    else
        lib->err->num_warnings++;
}

static void begin_reference(struct reference *r)
{
    struct jpeg_decompress_struct *lib = &r->lib;

    lib->raw_data_out = TRUE;
    lib->dct_method = JDCT_ISLOW;
    lib->out_color_space = lib->jpeg_color_space;
    jpeg_start_decompress(lib);
    r->planes = lib->num_components;
    r->group = (unsigned)(lib->comp_info[0].v_samp_factor * DCTSIZE);
    for (int c = 0; c < r->planes; c++) {
        const jpeg_component_info *info = &lib->comp_info[c];
        unsigned mcu = (unsigned)(info->h_samp_factor * DCTSIZE);
        unsigned mcus = (info->width_in_blocks * DCTSIZE + mcu - 1) / mcu;

        sheet_begin(&r->sheet[c],
                    lib->total_iMCU_rows * (unsigned)(info->v_samp_factor * DCTSIZE),
                    (size_t)mcus * mcu);
        r->sheet[c].width = info->downsampled_width;
        r->sheet[c].height = info->downsampled_height;
    }
}

static void read_reference(struct reference *r)
{
    struct jpeg_decompress_struct *lib = &r->lib;
    JSAMPROW row[PLANES][LINES_MAX];
    JSAMPARRAY rows[PLANES] = {row[0], row[1], row[2]};

    for (uint32_t y = 0; lib->output_scanline < lib->output_height; y++) {
        for (int c = 0; c < r->planes; c++) {
            unsigned lines = (unsigned)(DCTSIZE * lib->comp_info[c].v_samp_factor);

            for (unsigned i = 0; i < lines; i++)
                row[c][i] = (JSAMPROW)line_of(&r->sheet[c], y * lines + i);
        }
        jpeg_read_raw_data(lib, rows, (JDIMENSION)(DCTSIZE * lib->max_v_samp_factor));
        if (r->errors.num_warnings == 0)
            r->lines = (y + 1) * r->group;
    }
    jpeg_finish_decompress(lib);
}

/* What libjpeg makes of it, as far as it comes. */
static void decode_reference(struct reference *r, const uint8_t *data, size_t size)
{
    r->lines = 0;
    r->group = 0;
    r->ended = false;
    r->good = false;
    r->planes = 0;
    r->lib.err = jpeg_std_error(&r->errors);
    r->errors.error_exit = on_error;
    r->errors.emit_message = on_message;
    jpeg_create_decompress(&r->lib);
    r->lib.client_data = r;
    if (setjmp(r->escape) == 0) {
        jpeg_mem_src(&r->lib, data, (unsigned long)size);
        jpeg_read_header(&r->lib, TRUE);
        if ((uint64_t)r->lib.image_width * r->lib.image_height <= JUDGE_PIXELS_MAX &&
            r->lib.num_components <= PLANES) {
            begin_reference(r);
            read_reference(r);
            r->good = r->errors.num_warnings == 0 && !r->ended;
        }
    }
    jpeg_destroy_decompress(&r->lib);
}

/* ---- ours ---- */

static bool decode_row(struct jpeg_judge *j, uint32_t y, int planes)
{
    uint8_t *row[PLANES][LINES_MAX];
    uint8_t *const *const rows[PLANES] = {row[0], row[1], row[2]};

    for (int c = 0; c < planes; c++) {
        unsigned lines = (unsigned)j->about.plane[c].lines;

        for (unsigned i = 0; i < lines; i++)
            row[c][i] = (uint8_t *)line_of(&j->sheet[c], y * lines + i);
    }
    return hr__baseline_row(j->decoder, rows, planes);
}

/* The region, whose columns count unless it is the whole. */
static bool decode_own(struct jpeg_judge *j, const uint8_t *data, size_t size,
                       const struct jpeg_region *region)
{
    struct hr__baseline_planes *p = &j->about;

    if (!hr__baseline_begin(j->decoder, data, size, p))
        return false;
    for (int c = 0; c < p->planes; c++) {
        sheet_begin(&j->sheet[c], p->rows * (unsigned)p->plane[c].lines,
                    p->plane[c].room);
        j->sheet[c].width = p->plane[c].width;
        j->sheet[c].height = p->plane[c].height;
    }
    if (region->left > 0 || region->right < p->width)
        hr__baseline_need(j->decoder, region->left, region->right);
    for (uint32_t y = 0; y < p->rows; y++) {
        bool needed = y >= region->first && y < region->end;

        if (region->stops && y == region->end)
            return true;
        if (!decode_row(j, y, needed ? region->planes : 0))
            return false;
    }
    return hr__baseline_finish(j->decoder);
}

/* ---- the comparison ---- */

static enum jpeg_verdict wrong(struct jpeg_judge *j, const char *reason)
{
    j->reason = reason;
    return WRONG;
}

/* One line of a plane whose needed columns are left … right - 1, those of whole MCUs from
 * … to - 1. */
struct columns {
    unsigned left;
    unsigned right;
    unsigned from;
    unsigned to;
};

static struct columns columns_of(const struct jpeg_judge *j,
                                 const struct jpeg_region *region, int plane)
{
    unsigned factor = plane == 0 ? 1 : (unsigned)j->about.h;
    unsigned mcu = 8 * (unsigned)j->about.h;
    struct columns c = {
        .left = region->left / factor,
        .right = (region->right + factor - 1) / factor,
        .from = region->left / mcu * mcu / factor,
        .to = (region->right + mcu - 1) / mcu * mcu / factor,
    };

    if (c.right > j->sheet[plane].width)
        c.right = j->sheet[plane].width;
    return c;
}

static enum jpeg_verdict compare_plane(struct jpeg_judge *j,
                                       const struct jpeg_region *region, int plane)
{
    const struct sheet *own = &j->sheet[plane];
    const struct sheet *lib = &j->reference.sheet[plane];
    struct columns c = columns_of(j, region, plane);
    size_t written = c.to + 8 < own->room ? c.to + 8 : own->room;

    for (unsigned y = 0; y < own->lines; y++) {
        uint32_t row = y / (unsigned)j->about.plane[plane].lines;
        const uint8_t *line = line_of(own, y);

        if (y + 1 < own->lines && !is_blank(line + own->room, MARGIN))
            return wrong(j, "written behind a row's room");
        if (plane >= region->planes || row < region->first || row >= region->end) {
            if (!is_blank(line, own->room))
                return wrong(j, "written to a row that is not needed");
            continue;
        }
        if (!is_blank(line, c.from) || !is_blank(line + written, own->room - written))
            return wrong(j, "written to columns that are not needed");
        if (y < own->height &&
            memcmp(line + c.left, line_of(lib, y) + c.left, c.right - c.left) != 0)
            return wrong(j, "other samples than libjpeg's");
    }
    return EQUAL;
}

/* Does libjpeg read the region without complaint? Of a lone component it may read some
 * more lines at a time than we do, and then complain of those. */
static bool is_good(const struct jpeg_judge *j, const struct jpeg_region *region)
{
    const struct reference *r = &j->reference;
    unsigned lines = (unsigned)j->about.plane[0].lines;

    if (!region->stops)
        return r->good;
    return r->lines + r->group >= region->end * lines + lines;
}

static enum jpeg_verdict compare(struct jpeg_judge *j, const struct jpeg_region *region)
{
    struct reference *r = &j->reference;
    enum jpeg_verdict verdict = EQUAL;

    if (!is_good(j, region))
        return wrong(j, "taken, but libjpeg complains");
    if (r->planes != j->about.planes)
        return wrong(j, "another number of planes");
    for (int c = 0; c < r->planes && verdict == EQUAL; c++) {
        if (r->sheet[c].width != j->sheet[c].width ||
            r->sheet[c].height != j->sheet[c].height)
            return wrong(j, "planes of another size");
        verdict = compare_plane(j, region, c);
    }
    return verdict;
}

/* ---- the judgement ---- */

static enum jpeg_verdict judge_variant(struct jpeg_judge *j, const uint8_t *data,
                                       size_t size, const struct jpeg_region *region,
                                       bool portable)
{
    enum jpeg_verdict verdict = LEFT;

    hr__baseline_set_portable(j->decoder, portable || !hr__baseline_is_fast());
    if (decode_own(j, data, size, region)) {
        if (!j->has_reference)
            decode_reference(&j->reference, data, size);
        j->has_reference = true;
        verdict = compare(j, region);
    }
    for (int c = 0; c < PLANES; c++)
        sheet_end(&j->sheet[c]);
    return verdict;
}

static enum jpeg_verdict judge_variants(struct jpeg_judge *j, const uint8_t *data,
                                        size_t size, const struct jpeg_region *region)
{
    enum jpeg_verdict fast = judge_variant(j, data, size, region, false);
    enum jpeg_verdict portable;

    if (fast == WRONG)
        return WRONG;
    portable = judge_variant(j, data, size, region, true);
    if (portable != WRONG && portable != fast)
        return wrong(j, "taken by one variant only");
    return portable;
}

/* from … to - 1 of 0 … size - 1, neither often empty nor often all. */
static void choose_range(uint32_t size, uint32_t *seed, uint32_t *from, uint32_t *to)
{
    *from = next_random(seed) % size;
    *to = *from + 1 + next_random(seed) % (size - *from);
}

static struct jpeg_region choose_region(const struct hr__baseline_planes *p,
                                        uint32_t *seed)
{
    struct jpeg_region region = {.stops = next_random(seed) % 2};

    choose_range(p->width, seed, &region.left, &region.right);
    choose_range(p->rows, seed, &region.first, &region.end);
    region.planes = next_random(seed) % 4 == 0 ? 1 : p->planes;
    return region;
}

/* False: there is nothing to decode. */
static bool begin(struct jpeg_judge *j, const uint8_t *data, size_t size)
{
    struct hr__baseline_planes *p = &j->about;

    return hr__baseline_begin(j->decoder, data, size, p) &&
           (uint64_t)p->width * p->height <= JUDGE_PIXELS_MAX;
}

static void end(struct jpeg_judge *j)
{
    for (int c = 0; c < PLANES; c++)
        sheet_end(&j->reference.sheet[c]);
    j->has_reference = false;
}

static struct jpeg_region whole(const struct hr__baseline_planes *p)
{
    return (struct jpeg_region){0, p->width, 0, p->rows, p->planes, false};
}

enum jpeg_verdict jpeg_judge_region(struct jpeg_judge *j, const uint8_t *data,
                                    size_t size, const struct jpeg_region *region)
{
    enum jpeg_verdict verdict;

    if (!begin(j, data, size) || region->left >= region->right ||
        region->right > j->about.width || region->first >= region->end ||
        region->end > j->about.rows || region->planes > j->about.planes)
        return LEFT;
    verdict = judge_variants(j, data, size, region);
    end(j);
    return verdict;
}

enum jpeg_verdict jpeg_judge(struct jpeg_judge *j, const uint8_t *data, size_t size)
{
    struct jpeg_region all;

    if (!begin(j, data, size))
        return LEFT;
    all = whole(&j->about);
    return jpeg_judge_region(j, data, size, &all);
}

enum jpeg_verdict jpeg_judge_all(struct jpeg_judge *j, const uint8_t *data, size_t size,
                                 uint32_t seed)
{
    struct hr__baseline_planes p;
    struct jpeg_region region;
    enum jpeg_verdict verdict;
    enum jpeg_verdict part = EQUAL;

    if (!begin(j, data, size))
        return LEFT;
    p = j->about;
    region = whole(&p);
    verdict = judge_variants(j, data, size, &region);
    for (int i = 0; i < REGIONS && verdict != WRONG && part != WRONG; i++) {
        region = choose_region(&p, &seed);
        part = judge_variants(j, data, size, &region);
        if (part == LEFT && verdict == EQUAL)
            part = wrong(j, "a region is left of what is taken");
    }
    end(j);
    return part == WRONG ? WRONG : verdict;
}

struct jpeg_judge *jpeg_judge_new(void)
{
    struct jpeg_judge *j = calloc(1, sizeof(*j));

    if (j == NULL || hr__baseline_new(&j->decoder, NULL) != HR_OK)
        abort();
    return j;
}

void jpeg_judge_free(struct jpeg_judge **judge)
{
    if (*judge == NULL)
        return;
    hr__baseline_free(&(*judge)->decoder);
    free(*judge);
    *judge = NULL;
}

const char *jpeg_judge_reason(const struct jpeg_judge *j)
{
    return j->reason == NULL ? "nothing" : j->reason;
}
