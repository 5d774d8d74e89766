/* One picture: source -> bytes -> format -> decoder -> canvas.
 *
 * Decoders, tables and rows live in the worker's scratch, so that in the steady state
 * the only memory that changes hands is the pooled buffer of the file and of the
 * output. */
#include "image/load.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "headrace/file.h"
#include "image/canvas.h"
#include "image/codec.h"
#include "image/limits.h"
#include "image/sniff.h"
#include "base/banned.h"

#define SHOWN_BYTES 100 /* of a name in a message */

/* ---- options ---- */

void hr_image_options_init(struct hr_image_options *options)
{
    memset(options, 0, sizeof(*options));
    options->size = sizeof(*options);
    options->pix_fmt = HR_RGB24;
    options->mode = HR_SCALE_PAD;
    options->algo = HR_SCALE_BICUBIC;
    options->background = -1;
    options->pixels_max = 178956970;
    options->side_max = 65535;
    options->bytes_max = (uint64_t)1 << 30;
    options->encoded_max = (uint64_t)256 << 20;
    options->scans_max = 100;
    for (int i = 0; i < 4; i++)
        options->std[i] = 1;
    options->scale[0] = 0.08;
    options->scale[1] = 1;
    options->ratio[0] = 3.0 / 4;
    options->ratio[1] = 4.0 / 3;
}

static enum hr_status bad(struct hr_error *err, const char *who, const char *what,
                          int64_t value)
{
    return hr_error_set(err, HR_ERR_ARG, "image", 0, "%s: %s, got %lld", who, what,
                        (long long)value);
}

enum hr_status hr__image_options_check(const struct hr_image_options *o,
                                       const char *who, struct hr_error *err)
{
    if (o->size != sizeof(*o))
        return bad(err, who, "options.size is not that of this library",
                   (int64_t)o->size);
    if (o->width < 0 || o->width > HR_TARGET_MAX)
        return bad(err, who, "width must be 0 … 65535", o->width);
    if (o->height < 0 || o->height > HR_TARGET_MAX)
        return bad(err, who, "height must be 0 … 65535", o->height);
    if ((unsigned)o->pix_fmt > HR_RGB48)
        return bad(err, who, "pix_fmt must be one of enum hr_pix_fmt", o->pix_fmt);
    if ((unsigned)o->mode > HR_SCALE_CROP)
        return bad(err, who, "mode must be one of enum hr_scale_mode", o->mode);
    if ((unsigned)o->algo > HR_SCALE_LANCZOS)
        return bad(err, who, "algo must be one of enum hr_scale_algo", o->algo);
    if (o->background < -1 || o->background > 0xffffff)
        return bad(err, who, "background must be 0xrrggbb or -1", o->background);
    if ((unsigned)o->orientation > HR_ORIENTATION_IGNORE)
        return bad(err, who, "orientation must be one of enum hr_orientation",
                   o->orientation);
    if (hr__form_check(o, who, err) != HR_OK)
        return HR_ERR_ARG;
    return hr__take_check(o, who, err);
}

/* ---- what a worker keeps ---- */

struct studio {
    struct hr__easel easel;
    void *decoder[HR_FORMAT_COUNT]; /* each made by the first picture of its format */
};

/* What decodes a format in this build, or NULL. */
static const struct hr__codec *const codecs[HR_FORMAT_COUNT] = {
    [HR_FORMAT_JPEG] = &hr__codec_jpeg,
    [HR_FORMAT_PNG] = &hr__codec_png,
};

static enum hr_status studio_new(void **out, struct hr_error *err)
{
    *out = hr__calloc(1, sizeof(struct studio));
    return *out != NULL ? HR_OK
                        : hr__nomem(err, "image", "a decoder", sizeof(struct studio));
}

static void studio_free(void *scratch)
{
    struct studio *s = scratch;

    for (int i = 0; i < HR_FORMAT_COUNT; i++)
        if (s->decoder[i] != NULL)
            codecs[i]->destroy(s->decoder[i]);
    hr__easel_fini(&s->easel);
    hr__free(s);
}

static const struct hr_scratch_class studio_class = {"image", studio_new, studio_free};

/* ---- names in messages ---- */

/* The last bytes of text that fit, from the start of a character on. */
static const char *tail(const char *text, size_t bytes)
{
    size_t length = strlen(text);

    if (length <= bytes)
        return text;
    text += length - bytes;
    while (((unsigned char)*text & 0xc0) == 0x80)
        text++;
    return text;
}

void hr__load_name(const struct hr_value *src, const char *name,
                   char out[HR_NAME_BYTES])
{
    const char *shown;

    if (name == NULL)
        name = src->cls == &hr_text_class ? hr_text_peek(src, NULL) : "<bytes>";
    shown = tail(name, SHOWN_BYTES);
    snprintf(out, HR_NAME_BYTES, "%s%s", shown == name ? "" : "...", shown);
}

/* Encoded bytes have no name but "<bytes>"; what is neither has none at all, and the
 * error has said what it is. */
static bool has_name(const struct hr_value *src)
{
    return src->cls == &hr_text_class || hr_value_peek_bytes(src) != NULL ||
           hr_value_peek_array(src) != NULL;
}

/* Append " (slot 3, item 17, 'a.jpg')" to the error's text: what of it is known and not
 * said yet. */
static void sign(struct hr_error *err, const struct hr_value *src,
                 const struct hr__load_id *id)
{
    struct hr_error plain;
    char name[HR_NAME_BYTES];
    char who[HR_NAME_BYTES + 64];
    int n = 0;

    if (err == NULL)
        return;
    plain = *err;
    if (id->slot >= 0)
        n += snprintf(who + n, sizeof(who) - (size_t)n, ", slot %lld",
                      (long long)id->slot);
    if (id->item >= 0)
        n += snprintf(who + n, sizeof(who) - (size_t)n, ", item %lld",
                      (long long)id->item);
    /* a file's error has named the path */
    if (strcmp(plain.origin, "file") != 0 && (id->name != NULL || has_name(src))) {
        hr__load_name(src, id->name, name);
        n += snprintf(who + n, sizeof(who) - (size_t)n, ", '%s'", name);
    }
    if (n > 0)
        (void)hr_error_set(err, plain.status, plain.origin, plain.code, "%.*s (%s)",
                           (int)(sizeof(err->text) - strlen(who) - 2), plain.text,
                           who + 2);
    err->item = id->item; /* hr_error_set knows of none */
}

/* ---- sources ---- */

static enum hr_status read_path(const struct hr_value *src, uint64_t bytes_max,
                                struct hr_buffer **out, struct hr_error *err)
{
    size_t length;
    const char *path = hr_text_peek(src, &length);

    if (strlen(path) != length)
        return hr_error_set(err, HR_ERR_ARG, "file", 0,
                            "file: a path holds a NUL byte after %zu bytes",
                            strlen(path));
    return hr_file_read(path, bytes_max, out, err);
}

/* The encoded bytes; *file is to be dropped when they are no longer needed. */
static enum hr_status open_source(const struct hr_value *src, uint64_t bytes_max,
                                  struct hr_buffer **file, const uint8_t **data,
                                  size_t *size, struct hr_error *err)
{
    const struct hr_array *array = hr_value_peek_array(src);
    const struct hr_buffer *bytes = hr_value_peek_bytes(src);
    enum hr_status status;

    if (src->cls == &hr_text_class) {
        status = read_path(src, bytes_max, file, err);
        if (status != HR_OK)
            return status;
        bytes = *file;
    }
    if (bytes != NULL) {
        *data = hr_buffer_data(bytes);
        *size = hr_buffer_size(bytes);
    } else if (array != NULL && hr_array_dtype(array) == HR_U8) {
        *data = hr_array_data(array);
        *size = hr_array_nbytes(array);
    } else {
        return hr_error_set(
            err, HR_ERR_TYPE, "image", 0,
            "load_image: expected a path or bytes, got %s%s",
            array != NULL ? "an array that is not uint8" : hr_value_kind(src),
            src->cls == &hr_record_class ? "; use pipe(..., key=...) for records" : "");
    }
    if (*size > bytes_max)
        return hr_error_set(err, HR_ERR_LIMIT, "image", 0,
                            "image: %zu encoded bytes, the limit is %llu", *size,
                            (unsigned long long)bytes_max);
    return HR_OK;
}

/* ---- decoding ---- */

static enum hr_status not_decoded(const uint8_t *data, size_t size, const char *name,
                                  enum hr__format format, struct hr_error *err)
{
    char hex[16] = "";

    if (format == HR_FORMAT_OTHER)
        return hr_error_set(err, HR_ERR_UNSUPPORTED, "image", 0,
                            "image: %s is not supported, only JPEG and PNG are", name);
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

static enum hr_status decode_by(const struct hr__codec *codec, void *decoder,
                                const struct hr__input *in, struct hr__canvas *canvas,
                                struct hr_error *err)
{
    struct hr__picture picture = {0};
    enum hr_status status = codec->open(decoder, in, &picture, err);

    if (status == HR_OK)
        status = hr__limits_check(in->options, codec->name, &picture, in->size, err);
    if (status == HR_OK)
        status = hr__canvas_begin(canvas, &picture, err);
    if (status == HR_OK)
        status = codec->read(decoder, canvas, err);
    if (status == HR_OK)
        hr__canvas_flush(canvas);
    hr__canvas_end(canvas);
    codec->close(decoder);
    return status;
}

static enum hr_status decode(struct studio *s, const struct hr__input *in,
                             struct hr__canvas *canvas, struct hr_error *err)
{
    const char *name;
    enum hr__format format = hr__sniff(in->data, in->size, &name);
    const struct hr__codec *codec = codecs[format];
    enum hr_status status = HR_OK;

    if (codec == NULL)
        return not_decoded(in->data, in->size, name, format, err);
    if (s->decoder[format] == NULL)
        status = codec->create(&s->decoder[format], err);
    return status == HR_OK ? decode_by(codec, s->decoder[format], in, canvas, err)
                           : status;
}

enum hr_status hr__load(struct hr_ctx *ctx, const struct hr_value *src,
                        const struct hr__load_id *id,
                        const struct hr_image_options *options, uint8_t *slot,
                        struct hr_array **out, struct hr_error *err)
{
    struct hr__canvas canvas = {
        .ctx = ctx, .options = options, .pick = id->pick, .slot = slot};
    struct hr__input in = {.options = options, .ctx = ctx};
    struct hr_buffer *file = NULL;
    void *scratch;
    enum hr_status status = hr_ctx_scratch(ctx, &studio_class, &scratch, err);

    if (status == HR_OK)
        status = hr_ctx_check(ctx, err);
    if (status == HR_OK)
        status = open_source(src, options->encoded_max, &file, &in.data, &in.size, err);
    if (status == HR_OK) {
        struct studio *s = scratch;

        canvas.easel = &s->easel;
        status = decode(s, &in, &canvas, err);
    }
    hr_buffer_unref(&file);
    if (status == HR_OK) {
        if (out != NULL)
            *out = canvas.array;
        return HR_OK;
    }
    hr_array_unref(&canvas.array);
    if (status >= HR_ERR_ARG)
        sign(err, src, id);
    return status;
}

enum hr_status hr_image_load(struct hr_ctx *ctx, const struct hr_value *src,
                             const char *name, const struct hr_image_options *options,
                             struct hr_array **out, struct hr_error *err)
{
    int64_t item = hr_ctx_item(ctx);
    const struct hr__load_id id = {
        .name = name,
        .item = -1,
        .slot = -1,
        .pick = {.index = item >= 0 ? item : options->index, .flip = -1},
    };
    enum hr_status status = hr__image_options_check(options, "load_image", err);

    *out = NULL;
    if (status != HR_OK)
        return status;
    return hr__load(ctx, src, &id, options, NULL, out, err);
}
