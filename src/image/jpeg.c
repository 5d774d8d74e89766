/* JPEG: the header by jpeg_header.c; the pixels by the decoder of our own (jpeg_fast.h),
 * or by libjpeg (jpeg_pixels.h). Bytes after the end marker are ignored. */
#include "base/mem.h"
#include "image/codec.h"
#include "image/jpeg_fast.h"
#include "image/jpeg_header.h"
#include "image/jpeg_picture.h"
#include "image/jpeg_pixels.h"
#include "base/banned.h"

struct jpeg {
    struct hr__jpeg_fast fast; /* who is asked first */
    struct hr__jpeg_pixels pixels;
    uint8_t *profile; /* that is spread over several segments, put together */
    /* one file */
    struct hr__input whole;
    struct hr__jpeg_header first;
    /* one picture of it */
    struct hr__input in;
    struct hr__jpeg_header header;
    struct hr__yuv yuv;
    bool grey; /* rows are */
};

static void jpeg_destroy_decoder(void *decoder)
{
    struct jpeg *j = decoder;

    hr__jpeg_pixels_fini(&j->pixels);
    hr__jpeg_fast_fini(&j->fast);
    hr__free(j->profile);
    hr__free(j);
}

static enum hr_status jpeg_create_decoder(void **out, struct hr_error *err)
{
    struct jpeg *j = hr__calloc(1, sizeof(*j));
    enum hr_status status;

    *out = NULL;
    if (j == NULL)
        return hr__nomem(err, "image", "a JPEG decoder", sizeof(*j));
    status = hr__jpeg_pixels_init(&j->pixels, err);
    if (status == HR_OK)
        *out = j;
    else
        jpeg_destroy_decoder(j);
    return status;
}

static enum hr_status read_profile(struct jpeg *j, struct hr__picture *out,
                                   struct hr_error *err)
{
    size_t size;

    if (j->header.icc_chunks <= 1 || j->in.options->icc == HR_ICC_IGNORE)
        return HR_OK;
    size = hr__jpeg_profile(j->in.data, j->in.size, NULL);
    j->profile = hr__malloc(size);
    if (j->profile == NULL)
        return hr__nomem(err, "image", "a colour profile", size);
    out->icc = j->profile;
    out->icc_size = hr__jpeg_profile(j->in.data, j->in.size, j->profile);
    return HR_OK;
}

/* Read the header of the picture that j->in holds. */
static enum hr_status describe(struct jpeg *j, struct hr__picture *out,
                               struct hr_error *err)
{
    enum hr_status status = hr__jpeg_header(j->in.data, j->in.size, &j->header, err);

    if (status != HR_OK)
        return status;
    hr__jpeg_describe(&j->header, j->in.options, out);
    j->grey = out->channels == 1;
    j->yuv = out->yuv;
    status = read_profile(j, out, err);
    if (status == HR_OK && j->header.components == 4 &&
        hr__wants_ink(j->in.options, out)) {
        out->ink = true;
        out->channels = 4;
    }
    return status;
}

static enum hr_status jpeg_open(void *decoder, const struct hr__input *in,
                                struct hr__picture *out, struct hr_error *err)
{
    struct jpeg *j = decoder;
    enum hr_status status;

    j->in = *in;
    status = describe(j, out, err);
    if (status == HR_OK) {
        j->whole = *in;
        j->first = j->header;
        out->frames = hr__jpeg_pictures(&j->header);
    }
    return status;
}

/* The pictures of a multi-picture file are JPEGs of their own. */
static enum hr_status jpeg_turn(void *decoder, int64_t n, struct hr__picture *out,
                                struct hr_error *err)
{
    struct jpeg *j = decoder;
    int64_t frames = out->frames;
    size_t at = 0;
    size_t length = 0;

    if (!hr__jpeg_picture(&j->first, j->whole.data, j->whole.size, n, &at, &length))
        return hr_error_set(err, HR_ERR_FORMAT, "image", 0,
                            "image: JPEG lacks picture %lld of %lld", (long long)n,
                            (long long)frames);
    j->in.data = j->whole.data + at;
    j->in.size = length;
    hr__free(j->profile);
    j->profile = NULL;
    *out = (struct hr__picture){.frames = frames};
    return describe(j, out, err);
}

static void jpeg_close(void *decoder)
{
    struct jpeg *j = decoder;

    hr__free(j->profile);
    j->profile = NULL;
}

static enum hr_status jpeg_read(void *decoder, struct hr__canvas *canvas,
                                struct hr_error *err)
{
    struct jpeg *j = decoder;
    /* What there is of a damaged picture comes by whole rows. */
    bool crops = !canvas->options->allow_truncated &&
                 (canvas->options->crop != HR_CROP_NONE || canvas->pick.box != NULL);

    if (canvas->planar) {
        bool taken;
        enum hr_status status =
            hr__jpeg_fast_read(&j->fast, &j->in, &j->yuv, crops, canvas, &taken, err);

        if (taken)
            return status;
    }
    hr__jpeg_fast_passed();
    return hr__jpeg_pixels_read(&j->pixels, &j->in, &j->header, j->grey, crops, canvas,
                                err);
}

const struct hr__codec hr__codec_jpeg = {
    .name = "JPEG",
    .create = jpeg_create_decoder,
    .destroy = jpeg_destroy_decoder,
    .open = jpeg_open,
    .turn = jpeg_turn,
    .read = jpeg_read,
    .close = jpeg_close,
};
