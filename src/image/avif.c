/* AVIF by libavif.
 *
 * libavif decodes to YUV planes. A still picture of 8 bits without alpha gives these, if
 * its matrix is one that the tail has; else libavif makes RGB of them with its own
 * rounding, at 8 or 16 bits as the output wants. Chroma is taken to lie in the middle of
 * its pixels, whatever the file says, as libavif does. The file's rotation and mirror boxes are its orientation;
 * EXIF's is ignored, as the format's standard demands. */
#include <string.h>

#include <avif/avif.h>

#include "base/mem.h"
#include "image/canvas.h"
#include "image/codec.h"
#include "base/banned.h"

#define FRAMES_MAX 65536 /* of a sequence; the limit of the options is checked later */

struct avif {
    struct hr__input in;
    struct hr__picture rows;
    avifDecoder *lib; /* for one picture: libavif does not forget all of the last */
    int64_t frame;
};

static enum hr_status fail(const struct avif *a, const char *doing, avifResult result,
                           struct hr_error *err)
{
    enum hr_status status = HR_ERR_FORMAT;
    const char *detail = a->lib != NULL ? a->lib->diag.error : "";

    if (result == AVIF_RESULT_OUT_OF_MEMORY)
        return hr__nomem(err, "image", "an AVIF picture", 0);
    /* libavif's own limit on sizes has no code of its own. */
    if (strstr(detail, "too large") != NULL)
        status = HR_ERR_LIMIT;
    if (result == AVIF_RESULT_UNSUPPORTED_DEPTH ||
        result == AVIF_RESULT_NO_CODEC_AVAILABLE ||
        result == AVIF_RESULT_NOT_IMPLEMENTED)
        status = HR_ERR_UNSUPPORTED;
    return hr_error_set(
        err, status, "image", (int32_t)result, "image: AVIF cannot be %s: %s%s%.100s",
        doing, avifResultToString(result), detail[0] != '\0' ? ", " : "", detail);
}

/* EXIF's number for a rotation by angle * 90 degrees counter-clockwise and then a
 * mirror: none, top for bottom, left for right. */
static int orientation_of(const avifImage *image)
{
    static const int numbers[3][4] = {{1, 8, 3, 6}, {4, 5, 2, 7}, {2, 7, 4, 5}};
    int angle = 0;
    int mirror = 0;

    if ((image->transformFlags & AVIF_TRANSFORM_IROT) != 0)
        angle = image->irot.angle & 3;
    if ((image->transformFlags & AVIF_TRANSFORM_IMIR) != 0)
#if AVIF_VERSION >= 1000000
        mirror = image->imir.axis + 1;
#else
        mirror = image->imir.mode + 1;
#endif
    return numbers[mirror][angle];
}

static enum hr_status parse(struct avif *a, struct hr_error *err)
{
    avifResult result;

    a->lib = avifDecoderCreate();
    if (a->lib == NULL)
        return hr__nomem(err, "image", "an AVIF decoder", 0);
    a->lib->maxThreads = 1;
    a->lib->ignoreXMP = AVIF_TRUE;
    a->lib->ignoreExif = AVIF_TRUE;
    a->lib->imageCountLimit = FRAMES_MAX;
    /* Sizes are judged by our own limits. */
    a->lib->imageSizeLimit = AVIF_DEFAULT_IMAGE_SIZE_LIMIT;
    a->lib->imageDimensionLimit = 0;
    result = avifDecoderSetIOMemory(a->lib, a->in.data, a->in.size);
    if (result == AVIF_RESULT_OK)
        result = avifDecoderParse(a->lib);
    return result == AVIF_RESULT_OK ? HR_OK : fail(a, "parsed", result, err);
}

static bool space_of(const avifImage *image, enum hr__colour_space *out)
{
    switch (image->matrixCoefficients) {
    case AVIF_MATRIX_COEFFICIENTS_UNSPECIFIED: /* as libavif does */
    case AVIF_MATRIX_COEFFICIENTS_BT470BG:
    case AVIF_MATRIX_COEFFICIENTS_BT601:
        *out = HR_COLOUR_BT601;
        return true;
    case AVIF_MATRIX_COEFFICIENTS_BT709:
        *out = HR_COLOUR_BT709;
        return true;
    case AVIF_MATRIX_COEFFICIENTS_BT2020_NCL:
        *out = HR_COLOUR_BT2020;
        return true;
    default:
        return false;
    }
}

/* The planes that the tail can take; count 0: it cannot. */
static struct hr__yuv planes_of(const avifImage *image)
{
    bool grey = image->yuvFormat == AVIF_PIXEL_FORMAT_YUV400;
    bool full = image->yuvFormat == AVIF_PIXEL_FORMAT_YUV444;
    bool low = image->yuvFormat == AVIF_PIXEL_FORMAT_YUV420;
    struct hr__yuv yuv = hr__yuv_whole(grey ? 1 : 3, image->width, image->height,
                                       full ? 1 : 2, low ? 2 : 1);

    if (image->depth != 8 || image->yuvFormat == AVIF_PIXEL_FORMAT_NONE ||
        !space_of(image, &yuv.space))
        return (struct hr__yuv){0};
    yuv.range = image->yuvRange == AVIF_RANGE_FULL ? HR_RANGE_FULL : HR_RANGE_LIMITED;
    return yuv;
}

static enum hr_status avif_open(void *decoder, const struct hr__input *in,
                                struct hr__picture *out, struct hr_error *err)
{
    struct avif *a = decoder;
    const avifImage *image;
    enum hr_status status;

    a->in = *in;
    a->frame = 0;
    status = parse(a, err);
    if (status != HR_OK)
        return status;
    image = a->lib->image;
    out->width = image->width;
    out->height = image->height;
    out->stored_bits = (int)image->depth;
    out->stored_channels = image->yuvFormat == AVIF_PIXEL_FORMAT_YUV400 ? 1 : 3;
    out->stored_channels += a->lib->alphaPresent ? 1 : 0;
    out->channels =
        a->lib->alphaPresent ? 4 : 3; /* or libavif would blend with black */
    out->sample_bytes = image->depth > 8 && hr__wants_16(in->options) ? 2 : 1;
    out->orientation = orientation_of(image);
    out->frames = a->lib->imageCount;
    out->raw_bytes = (uint64_t)out->width * (uint64_t)out->height * 3;
    /* planes, and then RGB */
    out->work_bytes =
        (uint64_t)out->width * (uint64_t)out->height *
        (uint64_t)(4 * (image->depth > 8 ? 2 : 1) + out->channels * out->sample_bytes);
    out->icc = image->icc.size > 0 ? image->icc.data : NULL;
    out->icc_size = image->icc.size;
    if (!a->lib->alphaPresent && a->lib->imageCount == 1)
        out->yuv = planes_of(image);
    a->rows = *out;
    return HR_OK;
}

static enum hr_status avif_turn(void *decoder, int64_t n, struct hr__picture *out,
                                struct hr_error *err)
{
    struct avif *a = decoder;

    (void)out;
    (void)err;
    a->frame = n;
    return HR_OK;
}

static enum hr_status put_rgb(struct avif *a, struct hr__canvas *canvas,
                              struct hr_error *err)
{
    size_t stride =
        (size_t)a->rows.width * (size_t)a->rows.channels * (size_t)a->rows.sample_bytes;
    size_t bytes = stride * (size_t)a->rows.height;
    struct hr_buffer *whole = NULL;
    avifRGBImage rgb;
    avifResult result;
    enum hr_status status = hr_buffer_new(bytes, &whole, err);

    if (status != HR_OK)
        return status;
    avifRGBImageSetDefaults(&rgb, a->lib->image);
    rgb.format = a->rows.channels == 4 ? AVIF_RGB_FORMAT_RGBA : AVIF_RGB_FORMAT_RGB;
    rgb.depth = a->rows.sample_bytes == 2 ? 16 : 8;
    rgb.pixels = hr_buffer_data(whole);
    rgb.rowBytes = (uint32_t)stride;
    memset(rgb.pixels + bytes, 0, HR_ROW_SLACK);
    result = avifImageYUVToRGB(a->lib->image, &rgb);
    status = result == AVIF_RESULT_OK
                 ? hr__canvas_put_all(canvas, rgb.pixels, stride, a->rows.height, err)
                 : fail(a, "made RGB", result, err);
    hr_buffer_unref(&whole);
    return status;
}

static enum hr_status contradict(struct hr_error *err)
{
    return hr_error_set(err, HR_ERR_FORMAT, "image", 0,
                        "image: AVIF has contradictory headers");
}

static bool same_planes(const struct hr__yuv *a, const struct hr__yuv *b)
{
    return a->count == b->count && a->space == b->space && a->range == b->range &&
           a->plane[1].factor_x == b->plane[1].factor_x &&
           a->plane[1].factor_y == b->plane[1].factor_y;
}

/* The planes were described by the container; what comes must be that. */
static enum hr_status put_planes(struct avif *a, struct hr__canvas *canvas,
                                 struct hr_error *err)
{
    const avifImage *image = a->lib->image;
    struct hr__yuv yuv = planes_of(image);
    const uint8_t *base[HR_PLANES] = {NULL};
    size_t stride[HR_PLANES] = {0};

    if (!same_planes(&yuv, &a->rows.yuv))
        return contradict(err);
    for (int i = 0; i < yuv.count; i++) {
        base[i] = image->yuvPlanes[i];
        stride[i] = image->yuvRowBytes[i];
        if (base[i] == NULL || stride[i] < (size_t)yuv.plane[i].width)
            return contradict(err);
    }
    return hr__canvas_put_frame(canvas, base, stride, err);
}

static enum hr_status avif_read(void *decoder, struct hr__canvas *canvas,
                                struct hr_error *err)
{
    struct avif *a = decoder;
    avifResult result;

    /* What lies in the container may be no larger than what that said. */
    a->lib->imageSizeLimit = (uint32_t)(a->rows.width * a->rows.height);
    result = avifDecoderNthImage(a->lib, (uint32_t)a->frame);
    if (result != AVIF_RESULT_OK)
        return fail(a, "decoded", result, err);
    if ((int64_t)a->lib->image->width != a->rows.width ||
        (int64_t)a->lib->image->height != a->rows.height)
        return contradict(err);
    return canvas->planar ? put_planes(a, canvas, err) : put_rgb(a, canvas, err);
}

static void avif_close(void *decoder)
{
    struct avif *a = decoder;

    if (a->lib != NULL)
        avifDecoderDestroy(a->lib);
    a->lib = NULL;
}

static enum hr_status avif_create(void **out, struct hr_error *err)
{
    *out = hr__calloc(1, sizeof(struct avif));
    return *out != NULL
               ? HR_OK
               : hr__nomem(err, "image", "an AVIF decoder", sizeof(struct avif));
}

const struct hr__codec hr__codec_avif = {
    .name = "AVIF",
    .create = avif_create,
    .destroy = hr__free,
    .open = avif_open,
    .turn = avif_turn,
    .read = avif_read,
    .close = avif_close,
};
