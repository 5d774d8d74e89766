/* From data to a decoder that has read its header, and from there to the canvas.
 *
 * Decoders, tables and rows stay with the worker from picture to picture, so that in
 * the steady state the only memory that changes hands is the pooled buffer of the file
 * and of the output. */
#include "image/studio.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "image/lcms.h"
#include "image/limits.h"
#include "base/banned.h"

/* What decodes a format in this build, or NULL. */
static const struct hr__codec *const codecs[HR_FORMAT_COUNT] = {
    [HR_FORMAT_JPEG] = &hr__codec_jpeg, [HR_FORMAT_PNG] = &hr__codec_png,
    [HR_FORMAT_BMP] = &hr__codec_bmp,
#ifdef HR_HAVE_WEBP
    [HR_FORMAT_WEBP] = &hr__codec_webp,
#endif
#ifdef HR_HAVE_GIF
    [HR_FORMAT_GIF] = &hr__codec_gif,
#endif
#ifdef HR_HAVE_TIFF
    [HR_FORMAT_TIFF] = &hr__codec_tiff,
#endif
#ifdef HR_HAVE_AVIF
    [HR_FORMAT_AVIF] = &hr__codec_avif,
#endif
};

/* What a build lacks if it has no codec for a format. */
static const char *const libraries[HR_FORMAT_COUNT] = {
    [HR_FORMAT_WEBP] = "libwebp",
    [HR_FORMAT_GIF] = "giflib",
    [HR_FORMAT_TIFF] = "libtiff",
    [HR_FORMAT_AVIF] = "libavif",
};

#ifndef HR_HAVE_LCMS
enum hr_status hr__colours_new(const struct hr__picture *picture,
                               struct hr__colours **out, struct hr_error *err)
{
    (void)picture;
    *out = NULL;
    return hr_error_set(err, HR_ERR_UNSUPPORTED, "image", 0,
                        "image: colour profiles need Little CMS; this build is "
                        "without it");
}

void hr__colours_free(struct hr__colours **colours)
{
    *colours = NULL;
}

void hr__colours_row(const struct hr__colours *colours, const uint8_t *from,
                     uint8_t *to, size_t pixels)
{
    (void)colours;
    (void)from;
    (void)to;
    (void)pixels;
}
#endif

static void forget_colours(struct hr__colour_cache *cache)
{
    hr__colours_free(&cache->colours);
    hr__free(cache->profile);
    *cache = (struct hr__colour_cache){0};
}

static bool remembers(const struct hr__colour_cache *cache, const struct hr__picture *p)
{
    return cache->size == p->icc_size && cache->channels == p->channels &&
           cache->sample_bytes == p->sample_bytes && cache->ink == p->ink &&
           memcmp(cache->profile, p->icc, p->icc_size) == 0;
}

/* What is to be done to the colours of a picture; *out stays the cache's. */
static enum hr_status find_colours(struct hr__colour_cache *cache,
                                   const struct hr_image_options *options,
                                   const struct hr__picture *p,
                                   const struct hr__colours **out, struct hr_error *err)
{
    enum hr_status status = HR_OK;

    *out = NULL;
    if (options->icc == HR_ICC_IGNORE || p->icc == NULL || p->icc_size == 0)
        return HR_OK;
    if (!remembers(cache, p)) {
        forget_colours(cache);
        status = hr__colours_new(p, &cache->colours, err);
        if (status != HR_OK)
            return status;
        cache->profile = hr__malloc(p->icc_size);
        if (cache->profile == NULL) {
            forget_colours(cache);
            return hr__nomem(err, "image", "a colour profile", p->icc_size);
        }
        memcpy(cache->profile, p->icc, p->icc_size);
        cache->size = p->icc_size;
        cache->channels = p->channels;
        cache->sample_bytes = p->sample_bytes;
        cache->ink = p->ink;
    }
    *out = cache->colours;
    return HR_OK;
}

static enum hr_status studio_new(void **out, struct hr_error *err)
{
    *out = hr__calloc(1, sizeof(struct hr__studio));
    return *out != NULL
               ? HR_OK
               : hr__nomem(err, "image", "a decoder", sizeof(struct hr__studio));
}

static void studio_free(void *scratch)
{
    struct hr__studio *s = scratch;

    for (int i = 0; i < HR_FORMAT_COUNT; i++)
        if (codecs[i] != NULL && s->decoder[i] != NULL)
            codecs[i]->destroy(s->decoder[i]);
    forget_colours(&s->colours);
    hr__easel_fini(&s->easel);
    hr__free(s);
}

static const struct hr_scratch_class studio_class = {"image", studio_new, studio_free};

enum hr_status hr__studio_get(struct hr_ctx *ctx, struct hr__studio **out,
                              struct hr_error *err)
{
    void *scratch = NULL;
    enum hr_status status = hr_ctx_scratch(ctx, &studio_class, &scratch, err);

    *out = scratch;
    return status;
}

static enum hr_status not_decoded(const uint8_t *data, size_t size, const char *name,
                                  enum hr__format format, struct hr_error *err)
{
    char hex[16] = "";

    if (libraries[format] != NULL)
        return hr_error_set(err, HR_ERR_UNSUPPORTED, "image", 0,
                            "image: %s needs %s; this build is without it", name,
                            libraries[format]);
    if (format == HR_FORMAT_OTHER)
        return hr_error_set(err, HR_ERR_UNSUPPORTED, "image", 0,
                            "image: %s is not supported", name);
    if (size == 0)
        return hr_error_set(err, HR_ERR_FORMAT, "image", 0, "image: empty input");
    if (name != NULL)
        return hr_error_set(err, HR_ERR_FORMAT, "image", 0,
                            "image: not an image (looks like %s)", name);
    for (size_t i = 0; i < size && i < 4; i++)
        snprintf(hex + 3 * i, sizeof(hex) - 3 * i, " %02x", data[i]);
    return hr_error_set(err, HR_ERR_FORMAT, "image", 0,
                        "image: not an image (%zu bytes, starting with%s)", size, hex);
}

enum hr_status hr__studio_open(struct hr__studio *studio, const struct hr__input *in,
                               struct hr__opened *out, struct hr_error *err)
{
    const char *name;
    enum hr__format format = hr__sniff(in->data, in->size, &name);
    const struct hr__codec *codec = codecs[format];
    enum hr_status status = HR_OK;

    *out = (struct hr__opened){0};
    if (codec == NULL)
        return not_decoded(in->data, in->size, name, format, err);
    if (studio->decoder[format] == NULL)
        status = codec->create(&studio->decoder[format], err);
    if (status != HR_OK)
        return status;
    out->codec = codec;
    out->decoder = studio->decoder[format];
    return codec->open(out->decoder, in, &out->picture, err);
}

void hr__studio_close(struct hr__opened *opened)
{
    if (opened->codec != NULL)
        opened->codec->close(opened->decoder);
    opened->codec = NULL;
}

enum hr_status hr__studio_turn(struct hr__opened *opened, int64_t frame,
                               struct hr_error *err)
{
    int64_t frames = opened->picture.frames > 0 ? opened->picture.frames : 1;

    if (frame >= frames)
        return hr_error_set(err, HR_ERR_ARG, "image", 0,
                            "image: frame %lld of a %s that has %lld", (long long)frame,
                            opened->codec->name, (long long)frames);
    if (frame == 0 || opened->codec->turn == NULL)
        return HR_OK;
    return opened->codec->turn(opened->decoder, frame, &opened->picture, err);
}

/* The rows that are missing become zero. */
static enum hr_status fill_up(struct hr__canvas *canvas)
{
    uint8_t *rows[HR_PUSH_ROWS];
    enum hr_status status = HR_OK;
    int n;

    canvas->blank = true;
    while (status == HR_OK && (n = hr__canvas_rows(canvas, rows)) > 0) {
        for (int i = 0; i < n; i++)
            memset(rows[i], 0, hr__canvas_row_bytes(canvas));
        status = hr__canvas_put(canvas, (const uint8_t *const *)rows, n, NULL);
    }
    return status;
}

enum hr_status hr__studio_paint(struct hr__studio *studio, struct hr__opened *opened,
                                const struct hr__input *in, struct hr__canvas *canvas,
                                struct hr_error *err)
{
    enum hr_status status = hr__limits_check(in->options, opened->codec->name,
                                             &opened->picture, in->size, err);

    canvas->ctx = in->ctx;
    canvas->options = in->options;
    canvas->easel = &studio->easel;
    if (status == HR_OK)
        status = find_colours(&studio->colours, in->options, &opened->picture,
                              &canvas->colours, err);
    if (status == HR_OK)
        status = hr__canvas_begin(canvas, &opened->picture, err);
    if (status == HR_OK) {
        status = opened->codec->read(opened->decoder, canvas, err);
        if (status == HR_ERR_FORMAT && in->options->allow_truncated &&
            canvas->rows_put > 0)
            status = fill_up(canvas);
    }
    if (status == HR_OK)
        hr__canvas_flush(canvas);
    hr__canvas_end(canvas);
    return status;
}
