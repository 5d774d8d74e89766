/* JPEG out of pixels, by libjpeg: baseline, 4:2:0, the tables of its quality scale. Its
 * errors leave as in jpeg_object.c, through one function with a setjmp. */
#include <setjmp.h>
#include <stdio.h>

#include <jpeglib.h>

#include "base/mem.h"
#include "image/encode.h"
#include "base/banned.h"

#define CHUNK_BYTES 16384
#define ROWS_PER_CHECK 16

struct jpeg {
    struct jpeg_compress_struct lib;
    struct jpeg_error_mgr manager;
    struct jpeg_destination_mgr destination;
    jmp_buf escape;
    struct hr_ctx *ctx;
    const struct hr__drawing *drawing;
    const struct hr_encode_options *options;
    struct hr__ink *out;
    struct hr_error *err;
    enum hr_status status; /* why the escape was taken */
    JOCTET chunk[CHUNK_BYTES];
};

static _Noreturn void escape(struct jpeg *j, enum hr_status status)
{
    j->status = status;
    longjmp(j->escape, 1);
}

static enum hr_status guarded(struct jpeg *j, enum hr_status (*body)(struct jpeg *))
{
    if (setjmp(j->escape) != 0)
        return j->status;
    return body(j);
}

static void on_error(j_common_ptr lib)
{
    struct jpeg *j = lib->client_data;
    char text[JMSG_LENGTH_MAX];

    lib->err->format_message(lib, text);
    escape(j, hr_error_set(j->err, HR_ERR_NOMEM, "image", lib->err->msg_code,
                           "encode_image: JPEG: %s", text));
}

static void on_message(j_common_ptr lib, int level)
{
    (void)lib;
    (void)level;
}

static void restart_chunk(struct jpeg *j)
{
    j->destination.next_output_byte = j->chunk;
    j->destination.free_in_buffer = sizeof(j->chunk);
}

static void on_start(j_compress_ptr lib)
{
    restart_chunk(lib->client_data);
}

static void write_chunk(struct jpeg *j, size_t n)
{
    if (!hr__ink_append(j->out, j->chunk, n))
        escape(j, hr__nomem(j->err, "image", "an encoded picture", n));
}

static boolean on_full(j_compress_ptr lib)
{
    write_chunk(lib->client_data, CHUNK_BYTES);
    restart_chunk(lib->client_data);
    return TRUE;
}

static void on_end(j_compress_ptr lib)
{
    struct jpeg *j = lib->client_data;

    write_chunk(j, CHUNK_BYTES - j->destination.free_in_buffer);
}

static void set_up(struct jpeg *j)
{
    const struct hr__drawing *d = j->drawing;
    struct jpeg_compress_struct *lib = &j->lib;

    jpeg_create_compress(lib);
    j->destination.init_destination = on_start;
    j->destination.empty_output_buffer = on_full;
    j->destination.term_destination = on_end;
    lib->dest = &j->destination;
    lib->image_width = (JDIMENSION)d->width;
    lib->image_height = (JDIMENSION)d->height;
    lib->input_components = d->channels;
    lib->in_color_space = d->channels == 1 ? JCS_GRAYSCALE
                          : d->bgr         ? JCS_EXT_BGR
                                           : JCS_RGB;
    jpeg_set_defaults(lib);
    jpeg_set_quality(lib, j->options->quality, TRUE);
}

static enum hr_status encode(struct jpeg *j)
{
    const struct hr__drawing *d = j->drawing;

    set_up(j);
    jpeg_start_compress(&j->lib, TRUE);
    while (j->lib.next_scanline < j->lib.image_height) {
        JSAMPROW row =
            (JSAMPROW)(uintptr_t)(d->pixels + j->lib.next_scanline * d->stride);
        enum hr_status status = HR_OK;

        if (j->lib.next_scanline % ROWS_PER_CHECK == 0)
            status = hr_ctx_check(j->ctx, j->err);
        if (status != HR_OK)
            return status;
        jpeg_write_scanlines(&j->lib, &row, 1);
    }
    jpeg_finish_compress(&j->lib);
    return HR_OK;
}

enum hr_status hr__jpeg_encode(struct hr_ctx *ctx, const struct hr__drawing *drawing,
                               const struct hr_encode_options *options,
                               struct hr__ink *out, struct hr_error *err)
{
    struct jpeg *j = hr__calloc(1, sizeof(*j));
    enum hr_status status;

    if (j == NULL)
        return hr__nomem(err, "image", "a JPEG encoder", sizeof(*j));
    j->lib.err = jpeg_std_error(&j->manager);
    j->lib.client_data = j;
    j->manager.error_exit = on_error;
    j->manager.emit_message = on_message;
    j->ctx = ctx;
    j->drawing = drawing;
    j->options = options;
    j->out = out;
    j->err = err;
    status = guarded(j, encode);
    jpeg_destroy_compress(&j->lib);
    hr__free(j);
    return status;
}
