/* PNG out of pixels, by libpng; its errors leave as in png_object.c. */
#include <setjmp.h>
#include <string.h>

#include <png.h>

#include "base/mem.h"
#include "image/encode.h"
#include "base/banned.h"

#define ROWS_PER_CHECK 16

struct png {
    png_structp lib;
    png_infop info;
    jmp_buf escape;
    struct hr_ctx *ctx;
    const struct hr__drawing *drawing;
    const struct hr_encode_options *options;
    struct hr__ink *out;
    struct hr_error *err;
    enum hr_status status; /* why the escape was taken */
};

static _Noreturn void escape(struct png *p, enum hr_status status)
{
    p->status = status;
    longjmp(p->escape, 1);
}

static enum hr_status guarded(struct png *p, enum hr_status (*body)(struct png *))
{
    if (setjmp(p->escape) != 0)
        return p->status;
    return body(p);
}

/* What is asked for was checked before: only memory can lack. */
static void on_error(png_structp lib, png_const_charp text)
{
    struct png *p = png_get_error_ptr(lib);

    escape(p, hr_error_set(p->err, HR_ERR_NOMEM, "image", 0, "encode_image: PNG: %s",
                           text));
}

static void on_warning(png_structp lib, png_const_charp text)
{
    (void)lib;
    (void)text;
}

static png_voidp on_malloc(png_structp lib, png_alloc_size_t size)
{
    (void)lib;
    return hr__malloc(size);
}

static void on_free(png_structp lib, png_voidp ptr)
{
    (void)lib;
    hr__free(ptr);
}

static void on_write(png_structp lib, png_bytep bytes, size_t n)
{
    struct png *p = png_get_io_ptr(lib);

    if (!hr__ink_append(p->out, bytes, n))
        escape(p, hr__nomem(p->err, "image", "an encoded picture", n));
}

static void on_flush(png_structp lib)
{
    (void)lib;
}

static void set_up(struct png *p)
{
    static const int types[] = {0, PNG_COLOR_TYPE_GRAY, PNG_COLOR_TYPE_GRAY_ALPHA,
                                PNG_COLOR_TYPE_RGB, PNG_COLOR_TYPE_RGB_ALPHA};
    const struct hr__drawing *d = p->drawing;

    p->lib = png_create_write_struct_2(PNG_LIBPNG_VER_STRING, p, on_error, on_warning,
                                       p, on_malloc, on_free);
    if (p->lib != NULL)
        p->info = png_create_info_struct(p->lib);
    if (p->info == NULL)
        escape(p, hr__nomem(p->err, "image", "a PNG encoder", 0));
    png_set_write_fn(p->lib, p, on_write, on_flush);
    png_set_user_limits(p->lib, PNG_UINT_31_MAX, PNG_UINT_31_MAX);
    png_set_compression_level(p->lib, p->options->compression);
    png_set_IHDR(p->lib, p->info, (png_uint_32)d->width, (png_uint_32)d->height,
                 d->wide ? 16 : 8, types[d->channels], PNG_INTERLACE_NONE,
                 PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    png_write_info(p->lib, p->info);
    if (d->bgr)
        png_set_bgr(p->lib);
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    if (d->wide)
        png_set_swap(p->lib);
#endif
}

static enum hr_status encode(struct png *p)
{
    const struct hr__drawing *d = p->drawing;

    set_up(p);
    for (int y = 0; y < d->height; y++) {
        enum hr_status status = HR_OK;

        if (y % ROWS_PER_CHECK == 0)
            status = hr_ctx_check(p->ctx, p->err);
        if (status != HR_OK)
            return status;
        png_write_row(p->lib, d->pixels + (size_t)y * d->stride);
    }
    png_write_end(p->lib, NULL);
    return HR_OK;
}

enum hr_status hr__png_encode(struct hr_ctx *ctx, const struct hr__drawing *drawing,
                              const struct hr_encode_options *options,
                              struct hr__ink *out, struct hr_error *err)
{
    struct png p = {
        .ctx = ctx, .drawing = drawing, .options = options, .out = out, .err = err};
    enum hr_status status = guarded(&p, encode);

    png_destroy_write_struct(&p.lib, &p.info);
    return status;
}
