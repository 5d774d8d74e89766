/* WebP by libwebp; animations by libwebpdemux.
 *
 * Decoding needs the whole picture at hand, so it is held in a pooled buffer. Lossy
 * pictures are YCbCr, 4:2:0, BT.601 in its limited range; the planes are given, or libwebp
 * makes RGB of them with smooth chroma. Frames of an animation are composed on a transparent canvas, as
 * browsers do; the file's background colour is ignored. */
#include <string.h>

#include <webp/decode.h>
#include <webp/demux.h>

#include "base/mem.h"
#include "image/canvas.h"
#include "image/codec.h"
#include "image/exif.h"
#include "base/banned.h"

#define RIFF_HEAD 12
#define CHUNK_HEAD 8
#define FORMAT_LOSSY 1 /* of WebPBitstreamFeatures */

struct webp {
    struct hr__input in;
    struct hr__picture rows;
    bool animated;
    WebPAnimDecoder *movie; /* made by the first read */
    int64_t frame;          /* turned to */
    int64_t composed;       /* frames so far */
};

static enum hr_status fail(VP8StatusCode code, struct hr_error *err)
{
    static const char *const texts[] = {
        [VP8_STATUS_OUT_OF_MEMORY] = "out of memory",
        [VP8_STATUS_INVALID_PARAM] = "wrong parameters",
        [VP8_STATUS_BITSTREAM_ERROR] = "damaged data",
        [VP8_STATUS_UNSUPPORTED_FEATURE] = "an unsupported feature",
    };
    enum hr_status status = HR_ERR_FORMAT;

    if (code == VP8_STATUS_OUT_OF_MEMORY)
        return hr__nomem(err, "image", "a WebP picture", 0);
    if (code == VP8_STATUS_UNSUPPORTED_FEATURE)
        status = HR_ERR_UNSUPPORTED;
    if (code == VP8_STATUS_SUSPENDED || code == VP8_STATUS_NOT_ENOUGH_DATA ||
        code > VP8_STATUS_NOT_ENOUGH_DATA)
        return hr_error_set(err, HR_ERR_FORMAT, "image", (int32_t)code,
                            "image: WebP ends in its header");
    return hr_error_set(err, status, "image", (int32_t)code,
                        "image: WebP cannot be read: %s", texts[code]);
}

/* ---- the header ---- */

static uint32_t number(const uint8_t *at)
{
    return at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

/* Look through the chunks for what bears on the picture as a whole. */
static void read_chunks(const struct hr__input *in, struct hr__picture *out)
{
    size_t at = RIFF_HEAD;

    while (at <= in->size && in->size - at >= CHUNK_HEAD) {
        const uint8_t *head = in->data + at;
        size_t left = in->size - at - CHUNK_HEAD;
        size_t n = number(head + 4);

        if (memcmp(head, "ANMF", 4) == 0)
            out->frames++;
        if (n > left)
            return;
        if (memcmp(head, "EXIF", 4) == 0 && out->orientation == 0)
            out->orientation = hr__exif_orientation(head + CHUNK_HEAD, n);
        else if (memcmp(head, "ICCP", 4) == 0 && out->icc == NULL) {
            out->icc = head + CHUNK_HEAD;
            out->icc_size = n;
        }
        at += CHUNK_HEAD + n + n % 2;
    }
}

static enum hr_status webp_open(void *decoder, const struct hr__input *in,
                                struct hr__picture *out, struct hr_error *err)
{
    struct webp *w = decoder;
    WebPBitstreamFeatures features;
    VP8StatusCode code = WebPGetFeatures(in->data, in->size, &features);

    w->in = *in;
    w->frame = 0;
    w->composed = 0;
    if (code != VP8_STATUS_OK)
        return fail(code, err);
    out->width = features.width;
    out->height = features.height;
    out->stored_channels = features.has_alpha ? 4 : 3;
    out->stored_bits = 8;
    out->channels = features.has_alpha && hr__wants_alpha(in->options) ? 4 : 3;
    out->sample_bytes = 1;
    read_chunks(in, out);
    w->animated = features.has_animation;
    if (!w->animated)
        out->frames = 1;
    else
        out->channels = 4; /* what the composing decoder gives */
    out->raw_bytes = (uint64_t)out->width * (uint64_t)out->height * 3;
    out->work_bytes = (uint64_t)out->width * (uint64_t)out->height *
                      (uint64_t)(w->animated ? 8 : out->channels);
    if (!w->animated && features.format == FORMAT_LOSSY && out->channels == 3) {
        out->yuv = hr__yuv_whole(3, out->width, out->height, 2, 2);
        out->yuv.range = HR_RANGE_LIMITED;
    }
    w->rows = *out;
    return HR_OK;
}

static enum hr_status webp_turn(void *decoder, int64_t n, struct hr__picture *out,
                                struct hr_error *err)
{
    struct webp *w = decoder;

    (void)out;
    (void)err;
    w->frame = n;
    return HR_OK;
}

/* ---- the pixels ---- */

/* How many rows an incomplete file gives, decoded again into pixels. */
static int rows_of_part(const struct webp *w, uint8_t *pixels, size_t stride)
{
    size_t bytes = stride * (size_t)w->rows.height;
    WEBP_CSP_MODE mode = w->rows.channels == 4 ? MODE_RGBA : MODE_RGB;
    WebPIDecoder *part = WebPINewRGB(mode, pixels, bytes, (int)stride);
    int last = 0;

    if (part == NULL)
        return 0;
    (void)WebPIUpdate(part, w->in.data, w->in.size);
    if (WebPIDecGetRGB(part, &last, NULL, NULL, NULL) == NULL)
        last = 0;
    WebPIDelete(part);
    return last;
}

static enum hr_status say_ended(const struct webp *w, int rows, struct hr_error *err)
{
    return hr_error_set(err, HR_ERR_FORMAT, "image", 0,
                        "image: WebP ends after %d of %lld rows", rows,
                        (long long)w->rows.height);
}

/* The whole picture in rows, in a pooled buffer. */
static enum hr_status hold_rows(const struct webp *w, size_t stride,
                                struct hr_buffer **out, struct hr_error *err)
{
    size_t bytes = stride * (size_t)w->rows.height;
    enum hr_status status = hr_buffer_new(bytes, out, err);

    if (status == HR_OK)
        memset((uint8_t *)hr_buffer_data(*out) + bytes, 0, HR_ROW_SLACK);
    return status;
}

static enum hr_status read_part(const struct webp *w, uint8_t *pixels, size_t stride,
                                struct hr__canvas *canvas, struct hr_error *err)
{
    int rows = rows_of_part(w, pixels, stride);
    enum hr_status status = hr__canvas_put_all(canvas, pixels, stride, rows, err);

    return status == HR_OK ? say_ended(w, rows, err) : status;
}

static bool is_cut(VP8StatusCode code)
{
    return code == VP8_STATUS_SUSPENDED || code == VP8_STATUS_NOT_ENOUGH_DATA;
}

static enum hr_status read_rows(const struct webp *w, struct hr__canvas *canvas,
                                struct hr_error *err)
{
    size_t stride = (size_t)w->rows.width * (size_t)w->rows.channels;
    struct hr_buffer *whole = NULL;
    WebPDecoderConfig config;
    VP8StatusCode code;
    uint8_t *pixels;
    enum hr_status status = hold_rows(w, stride, &whole, err);

    if (status != HR_OK)
        return status;
    pixels = hr_buffer_data(whole);
    (void)WebPInitDecoderConfig(&config);
    config.output.colorspace = w->rows.channels == 4 ? MODE_RGBA : MODE_RGB;
    config.output.is_external_memory = 1;
    config.output.u.RGBA.rgba = pixels;
    config.output.u.RGBA.stride = (int)stride;
    config.output.u.RGBA.size = stride * (size_t)w->rows.height;
    code = WebPDecode(w->in.data, w->in.size, &config);
    if (code == VP8_STATUS_OK)
        status = hr__canvas_put_all(canvas, pixels, stride, w->rows.height, err);
    else if (is_cut(code))
        status = read_part(w, pixels, stride, canvas, err);
    else
        status = fail(code, err);
    hr_buffer_unref(&whole);
    return status;
}

/* After an end in planes: how many rows there were. */
static enum hr_status count_rows(const struct webp *w, struct hr_error *err)
{
    size_t stride = (size_t)w->rows.width * (size_t)w->rows.channels;
    struct hr_buffer *whole = NULL;
    enum hr_status status = hold_rows(w, stride, &whole, err);

    if (status == HR_OK)
        status = say_ended(w, rows_of_part(w, hr_buffer_data(whole), stride), err);
    hr_buffer_unref(&whole);
    return status;
}

static VP8StatusCode decode_planes(const struct webp *w, uint8_t *const base[HR_PLANES],
                                   const size_t stride[HR_PLANES])
{
    const struct hr__plane *plane = w->rows.yuv.plane;
    WebPDecoderConfig config;
    WebPYUVABuffer *yuv = &config.output.u.YUVA;

    (void)WebPInitDecoderConfig(&config);
    config.output.colorspace = MODE_YUV;
    config.output.is_external_memory = 1;
    yuv->y = base[0];
    yuv->u = base[1];
    yuv->v = base[2];
    yuv->y_stride = (int)stride[0];
    yuv->u_stride = (int)stride[1];
    yuv->v_stride = (int)stride[2];
    yuv->y_size = stride[0] * (size_t)plane[0].height;
    yuv->u_size = stride[1] * (size_t)plane[1].height;
    yuv->v_size = stride[2] * (size_t)plane[2].height;
    return WebPDecode(w->in.data, w->in.size, &config);
}

static enum hr_status read_planes(const struct webp *w, struct hr__canvas *canvas,
                                  struct hr_error *err)
{
    const struct hr__plane *plane = w->rows.yuv.plane;
    size_t stride[HR_PLANES];
    uint8_t *base[HR_PLANES];
    size_t bytes = 0;
    struct hr_buffer *whole = NULL;
    VP8StatusCode code;
    enum hr_status status;

    for (int i = 0; i < HR_PLANES; i++) {
        stride[i] = (size_t)plane[i].width;
        bytes += stride[i] * (size_t)plane[i].height;
    }
    status = hr_buffer_new(bytes, &whole, err);
    if (status != HR_OK)
        return status;
    base[0] = hr_buffer_data(whole);
    base[1] = base[0] + stride[0] * (size_t)plane[0].height;
    base[2] = base[1] + stride[1] * (size_t)plane[1].height;
    code = decode_planes(w, base, stride);
    if (code == VP8_STATUS_OK)
        status =
            hr__canvas_put_frame(canvas, (const uint8_t *const *)base, stride, err);
    else
        status = is_cut(code) ? count_rows(w, err) : fail(code, err);
    hr_buffer_unref(&whole);
    return status;
}

static enum hr_status open_movie(struct webp *w, struct hr_error *err)
{
    WebPData data = {w->in.data, w->in.size};
    WebPAnimDecoderOptions options;
    WebPAnimInfo info;

    if (w->movie != NULL)
        return HR_OK;
    (void)WebPAnimDecoderOptionsInit(&options);
    options.color_mode = MODE_RGBA;
    w->movie = WebPAnimDecoderNew(&data, &options);
    if (w->movie == NULL)
        return hr_error_set(err, HR_ERR_FORMAT, "image", 0,
                            "image: WebP animation is damaged or cut off");
    if (!WebPAnimDecoderGetInfo(w->movie, &info) ||
        (int64_t)info.canvas_width != w->rows.width ||
        (int64_t)info.canvas_height != w->rows.height)
        return hr_error_set(err, HR_ERR_FORMAT, "image", 0,
                            "image: WebP has contradictory headers");
    return HR_OK;
}

static enum hr_status read_movie(struct webp *w, struct hr__canvas *canvas,
                                 struct hr_error *err)
{
    size_t stride = (size_t)w->rows.width * 4;
    uint8_t *pixels = NULL;
    int time;
    enum hr_status status = open_movie(w, err);

    if (status != HR_OK)
        return status;
    do { /* frames are asked for in rising order */
        if (!WebPAnimDecoderGetNext(w->movie, &pixels, &time))
            return hr_error_set(err, HR_ERR_FORMAT, "image", 0,
                                "image: WebP is damaged in frame %lld of %lld",
                                (long long)w->composed, (long long)w->rows.frames);
        w->composed++;
        status = hr_ctx_check(w->in.ctx, err);
    } while (status == HR_OK && w->composed <= w->frame);
    if (status != HR_OK)
        return status;
    /* libwebp's memory ends with the last row: what has to be read past it is copied. */
    for (int64_t y = 0; status == HR_OK && y < w->rows.height;) {
        uint8_t *rows[HR_PUSH_ROWS];
        int n = hr__canvas_rows(canvas, rows);

        for (int i = 0; i < n; i++)
            memcpy(rows[i], pixels + (size_t)(y + i) * stride, stride);
        status = hr__canvas_put(canvas, (const uint8_t *const *)rows, n, err);
        y += n;
    }
    return status;
}

static enum hr_status webp_read(void *decoder, struct hr__canvas *canvas,
                                struct hr_error *err)
{
    struct webp *w = decoder;

    if (w->animated)
        return read_movie(w, canvas, err);
    return canvas->planar ? read_planes(w, canvas, err) : read_rows(w, canvas, err);
}

static void webp_close(void *decoder)
{
    struct webp *w = decoder;

    WebPAnimDecoderDelete(w->movie);
    w->movie = NULL;
}

static enum hr_status webp_create(void **out, struct hr_error *err)
{
    *out = hr__calloc(1, sizeof(struct webp));
    return *out != NULL
               ? HR_OK
               : hr__nomem(err, "image", "a WebP decoder", sizeof(struct webp));
}

const struct hr__codec hr__codec_webp = {
    .name = "WebP",
    .create = webp_create,
    .destroy = hr__free,
    .open = webp_open,
    .turn = webp_turn,
    .read = webp_read,
    .close = webp_close,
};
