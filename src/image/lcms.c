/* Little CMS: a profile's colours to sRGB's.
 *
 * A profile for grey or RGB pixels is linked with sRGB, perceptually, at the depth of
 * the rows; grey stays grey, with sRGB's tone curve. Alpha is copied. CMYK becomes RGB. */
#include "image/lcms.h"

#include <string.h>

#include <lcms2.h>

#include "base/mem.h"
#include "base/banned.h"

struct hr__colours {
    cmsHTRANSFORM link;
};

static cmsUInt32Number format_of(const struct hr__picture *p)
{
    bool grey = p->channels < 3;
    cmsUInt32Number space = grey ? PT_GRAY : PT_RGB;
    cmsUInt32Number format = COLORSPACE_SH(space) | CHANNELS_SH(grey ? 1u : 3u);

    format |= BYTES_SH((cmsUInt32Number)p->sample_bytes);
    return p->channels % 2 == 0 ? format | EXTRA_SH(1) : format;
}

/* sRGB's tone curve for grey: section 4.2 of IEC 61966-2-1. */
static cmsHPROFILE grey_srgb(void)
{
    const cmsFloat64Number form[5] = {2.4, 1 / 1.055, 0.055 / 1.055, 1 / 12.92,
                                      0.04045};
    cmsToneCurve *curve = cmsBuildParametricToneCurve(NULL, 4, form);
    cmsHPROFILE profile = NULL;

    if (curve != NULL)
        profile = cmsCreateGrayProfile(cmsD50_xyY(), curve);
    cmsFreeToneCurve(curve);
    return profile;
}

static cmsHTRANSFORM make_link(cmsHPROFILE from, const struct hr__picture *p)
{
    cmsHPROFILE to = p->channels < 3 ? grey_srgb() : cmsCreate_sRGBProfile();
    cmsUInt32Number format = format_of(p);
    cmsHTRANSFORM link = NULL;

    if (to != NULL) {
        link = cmsCreateTransform(from, p->ink ? TYPE_CMYK_8_REV : format, to,
                                  p->ink ? TYPE_RGB_8 : format, INTENT_PERCEPTUAL,
                                  cmsFLAGS_COPY_ALPHA | cmsFLAGS_NOCACHE);
        cmsCloseProfile(to);
    }
    return link;
}

enum hr_status hr__colours_new(const struct hr__picture *picture,
                               struct hr__colours **out, struct hr_error *err)
{
    cmsColorSpaceSignature space = picture->ink            ? cmsSigCmykData
                                   : picture->channels < 3 ? cmsSigGrayData
                                                           : cmsSigRgbData;
    struct hr__colours *c = NULL;
    cmsHPROFILE from;

    *out = NULL;
    if (picture->icc == NULL)
        return HR_OK;
    from = cmsOpenProfileFromMem(picture->icc, (cmsUInt32Number)picture->icc_size);
    if (from == NULL)
        return hr_error_set(err, HR_ERR_FORMAT, "image", 0,
                            "image: the colour profile is damaged");
    if (cmsGetColorSpace(from) == space) {
        c = hr__calloc(1, sizeof(*c));
        if (c != NULL)
            c->link = make_link(from, picture);
    }
    cmsCloseProfile(from);
    if (c != NULL && c->link == NULL)
        hr__colours_free(&c);
    if (c == NULL && picture->ink)
        return hr_error_set(err, HR_ERR_FORMAT, "image", 0,
                            "image: the colour profile makes no colours of CMYK");
    *out = c;
    return HR_OK;
}

void hr__colours_free(struct hr__colours **colours)
{
    struct hr__colours *c = *colours;

    *colours = NULL;
    if (c == NULL)
        return;
    if (c->link != NULL)
        cmsDeleteTransform(c->link);
    hr__free(c);
}

void hr__colours_row(const struct hr__colours *colours, const uint8_t *from,
                     uint8_t *to, size_t pixels)
{
    cmsDoTransform(colours->link, from, to, (cmsUInt32Number)pixels);
}
