/* What is known of a JPEG before libjpeg sees it: its rows, its planes, its memory. */
#include "image/jpeg_picture.h"

#include "base/banned.h"

#define BLOCK 8              /* samples across and down */
#define BLOCK_BYTES (64 * 2) /* of coefficients */

static uint64_t over(uint64_t a, uint64_t b)
{
    return (a + b - 1) / b;
}

/* What libjpeg gathers of a picture in several scans: its coefficients. */
static uint64_t coefficient_bytes(const struct hr__jpeg_header *h)
{
    uint64_t blocks = 0;
    uint64_t across = 1;
    uint64_t down = 1;

    for (int i = 0; i < h->components && i < 4; i++) {
        unsigned x = h->sampling[i] >> 4;
        unsigned y = h->sampling[i] & 15u;

        across = across > x ? across : x;
        down = down > y ? down : y;
    }
    for (int i = 0; i < h->components && i < 4; i++)
        blocks += over((uint64_t)h->width * (h->sampling[i] >> 4), across * 8) *
                  over((uint64_t)h->height * (h->sampling[i] & 15u), down * 8);
    return blocks * BLOCK_BYTES;
}

/* How libjpeg would bring a plane with a factor of 1 / x, 1 / y to full size. */
static void choose_upsampling(struct hr__plane *p)
{
    bool fancy = (p->factor_x == 2 && p->factor_y <= 2 && p->width > 2) ||
                 (p->factor_x == 1 && p->factor_y == 2);

    p->upsampling_x = fancy ? HR_UPSAMPLE_CENTRED : HR_UPSAMPLE_REPEAT;
    p->upsampling_y = p->upsampling_x;
}

/* What libjpeg's raw data will be; no planes where that has surprises. */
static void describe_planes(const struct hr__jpeg_header *h, struct hr__yuv *out)
{
    int across = 1;
    int down = 1;

    if (h->bits != 8 || (h->components != 1 && !h->ycc))
        return;
    for (int i = 0; i < h->components; i++) {
        across = across > h->sampling[i] >> 4 ? across : h->sampling[i] >> 4;
        down = down > (h->sampling[i] & 15) ? down : h->sampling[i] & 15;
    }
    for (int i = 0; i < h->components; i++) {
        int x = h->sampling[i] >> 4;
        int y = h->sampling[i] & 15;
        struct hr__plane *p = &out->plane[i];

        if (x == 0 || y == 0 || across > 4 || down > 4 || across % x != 0 ||
            down % y != 0)
            return;
        p->factor_x = across / x;
        p->factor_y = down / y;
        p->width = (h->width + p->factor_x - 1) / p->factor_x;
        p->height = (h->height + p->factor_y - 1) / p->factor_y;
        p->group = y * BLOCK;
        /* whole MCUs, and what our own decoder writes behind them */
        p->row_bytes =
            (int64_t)over((uint64_t)h->width, (uint64_t)across * BLOCK) * x * BLOCK +
            BLOCK;
        choose_upsampling(p);
    }
    out->count = h->components;
    out->space = HR_COLOUR_BT601;
    out->range = HR_RANGE_FULL;
}

/* Grey of YCbCr is its Y, unless colours are to be converted before. */
static int row_channels(const struct hr__jpeg_header *h,
                        const struct hr_image_options *o)
{
    bool converts = o->icc != HR_ICC_IGNORE && h->icc != NULL;

    return h->components == 1 || (h->ycc && hr__wants_grey(o) && !converts) ? 1 : 3;
}

void hr__jpeg_describe(const struct hr__jpeg_header *h,
                       const struct hr_image_options *options, struct hr__picture *out)
{
    out->width = h->width;
    out->height = h->height;
    out->channels = row_channels(h, options);
    out->sample_bytes = 1;
    out->stored_channels = h->components;
    out->stored_bits = h->bits;
    out->orientation = h->orientation;
    out->raw_bytes = (uint64_t)h->width * (uint64_t)h->height * (uint64_t)h->components;
    out->work_bytes = h->several_scans ? coefficient_bytes(h) : 0;
    out->shrinks = true;
    describe_planes(h, &out->yuv);
    out->icc = h->icc;
    out->icc_size = h->icc_size;
}
