/* Limits on pictures. All of them are judged by the header. */
#include "image/limits.h"

#include "base/banned.h"

/* Expansion is judged only above this many bytes, where it can hurt. */
#define EXPANSION_FREE ((uint64_t)64 << 20)

static enum hr_status check_size(const struct hr_image_options *o, const char *format,
                                 int64_t width, int64_t height, struct hr_error *err)
{
    uint64_t w = (uint64_t)width;
    uint64_t h = (uint64_t)height;

    if (width < 1 || height < 1)
        return hr_error_set(err, HR_ERR_FORMAT, "image", 0,
                            "image: %s says its size is %lld x %lld", format,
                            (long long)width, (long long)height);
    if (w > o->side_max || h > o->side_max)
        return hr_error_set(
            err, HR_ERR_LIMIT, "image", 0,
            "image: %s of %lld x %lld pixels, sides are limited to %llu", format,
            (long long)width, (long long)height, (unsigned long long)o->side_max);
    if (w > INT32_MAX || h > INT32_MAX || w * h > o->pixels_max)
        return hr_error_set(err, HR_ERR_LIMIT, "image", 0,
                            "image: %s of %lld x %lld pixels, the limit is %llu pixels",
                            format, (long long)width, (long long)height,
                            (unsigned long long)o->pixels_max);
    return HR_OK;
}

enum hr_status hr__limits_check(const struct hr_image_options *o, const char *format,
                                const struct hr__picture *p, size_t encoded,
                                struct hr_error *err)
{
    enum hr_status status = check_size(o, format, p->width, p->height, err);
    uint64_t decoded;

    if (status != HR_OK)
        return status;
    decoded = (uint64_t)p->width * (uint64_t)p->height *
              (unsigned)(p->channels * p->sample_bytes);
    if (decoded > o->bytes_max)
        return hr_error_set(
            err, HR_ERR_LIMIT, "image", 0,
            "image: %s of %lld x %lld pixels takes %llu bytes, the limit is %llu "
            "decoded bytes",
            format, (long long)p->width, (long long)p->height,
            (unsigned long long)decoded, (unsigned long long)o->bytes_max);
    if (p->work_bytes > o->bytes_max)
        return hr_error_set(err, HR_ERR_LIMIT, "image", 0,
                            "image: %s needs %llu bytes while it is decoded, the limit "
                            "is %llu decoded bytes",
                            format, (unsigned long long)p->work_bytes,
                            (unsigned long long)o->bytes_max);
    if (p->raw_bytes > EXPANSION_FREE &&
        (p->raw_bytes - 1) / encoded >=
            o->expansion_max) /* that is, raw > max * encoded */
        return hr_error_set(
            err, HR_ERR_LIMIT, "image", 0,
            "image: %s of %zu bytes expands to %llu, the limit is %llu:1", format,
            encoded, (unsigned long long)p->raw_bytes,
            (unsigned long long)o->expansion_max);
    return HR_OK;
}

enum hr_status hr__limits_target(const struct hr_image_options *o, int64_t width,
                                 int64_t height, size_t pixel_bytes,
                                 struct hr_error *err)
{
    uint64_t pixels = (uint64_t)width * (uint64_t)height; /* sides fit 31 bits */
    uint64_t bytes;

    if (__builtin_mul_overflow(pixels, (uint64_t)pixel_bytes, &bytes))
        bytes = UINT64_MAX;
    if (bytes <= o->bytes_max)
        return HR_OK;
    return hr_error_set(
        err, HR_ERR_LIMIT, "image", 0,
        "image: a target of %lld x %lld pixels takes %llu bytes, the limit is %llu "
        "decoded bytes",
        (long long)width, (long long)height, (unsigned long long)bytes,
        (unsigned long long)o->bytes_max);
}
