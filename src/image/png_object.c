/* As in jpeg_object.c, errors jump back to the one function with a setjmp, which has no
 * variables. libpng's own structures are made for each picture, in memory that is kept:
 * libpng itself offers no way to keep them. Chunks that do not bear on the pixels are
 * skipped unread. */
#include "image/png_object.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/banned.h"

#define CHUNK_BYTES_MAX 8000000
#define CHUNKS_MAX 128

_Noreturn void hr__png_escape(struct hr__png_object *o, enum hr_status status)
{
    o->status = status;
    longjmp(o->escape, 1);
}

/* "after 60 of 480 rows" */
static void where(const struct hr__png_object *o, char *out, size_t size)
{
    if (o->passes == 0)
        snprintf(out, size, "in its header");
    else if (o->passes == 1)
        snprintf(out, size, "after %lld of %lld rows", (long long)o->row,
                 (long long)o->height);
    else
        snprintf(out, size, "in pass %d of %d", o->pass + 1, o->passes);
}

static void on_error(png_structp lib, png_const_charp text)
{
    struct hr__png_object *o = png_get_error_ptr(lib);
    char place[64];

    if (o->nomem)
        hr__png_escape(o, hr__nomem(o->err, "image", "a PNG decoder", 0));
    where(o, place, sizeof(place));
    hr__png_escape(o, hr_error_set(o->err, HR_ERR_FORMAT, "image", 0,
                                   "image: PNG is damaged %s: %s", place, text));
}

static void on_warning(png_structp lib, png_const_charp text)
{
    (void)lib;
    (void)text;
}

static png_voidp on_malloc(png_structp lib, png_alloc_size_t size)
{
    struct hr__png_object *o = png_get_mem_ptr(lib);
    void *ptr = hr__arena_alloc(&o->arena, size);

    if (ptr == NULL)
        o->nomem = true;
    return ptr;
}

static void on_free(png_structp lib, png_voidp ptr)
{
    struct hr__png_object *o = png_get_mem_ptr(lib);

    hr__arena_release(&o->arena, ptr);
}

static void on_read(png_structp lib, png_bytep to, size_t n)
{
    struct hr__png_object *o = png_get_io_ptr(lib);
    char place[64];

    if (n > o->in->size - o->at) {
        where(o, place, sizeof(place));
        hr__png_escape(o, hr_error_set(o->err, HR_ERR_FORMAT, "image", 0,
                                       "image: PNG ends %s", place));
    }
    memcpy(to, o->in->data + o->at, n);
    o->at += n;
}

void hr__png_object_open(struct hr__png_object *o, bool cut)
{
    const struct hr_image_options *options = o->in->options;
    uint32_t side =
        options->side_max > INT32_MAX ? INT32_MAX : (uint32_t)options->side_max;

    o->lib = png_create_read_struct_2(PNG_LIBPNG_VER_STRING, o, on_error, on_warning, o,
                                      on_malloc, on_free);
    if (o->lib != NULL)
        o->info = png_create_info_struct(o->lib);
    if (o->info == NULL)
        hr__png_escape(o, hr__nomem(o->err, "image", "a PNG decoder", 0));
    png_set_read_fn(o->lib, o, on_read);
    png_set_user_limits(o->lib, side, side);
    if (cut) /* so that no row is lost with data that libpng reads ahead */
        png_set_compression_buffer_size(o->lib, 1);
    png_set_chunk_malloc_max(o->lib, CHUNK_BYTES_MAX);
    png_set_chunk_cache_max(o->lib, CHUNKS_MAX);
#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
    /* A fuzzer cannot guess checksums. */
    png_set_crc_action(o->lib, PNG_CRC_QUIET_USE, PNG_CRC_QUIET_USE);
#else
    png_set_crc_action(o->lib, PNG_CRC_ERROR_QUIT, PNG_CRC_ERROR_QUIT);
#endif
    png_set_keep_unknown_chunks(o->lib, PNG_HANDLE_CHUNK_NEVER, NULL, -1);
}

void hr__png_object_begin(struct hr__png_object *o, const struct hr__input *in,
                          struct hr_error *err)
{
    hr__arena_reset(&o->arena);
    o->in = in;
    o->err = err;
    o->at = 0;
    o->nomem = false;
    o->row = 0;
    o->pass = 0;
    o->passes = 0;
}

enum hr_status hr__png_object_run(struct hr__png_object *o,
                                  enum hr_status (*body)(void *), void *cookie)
{
    if (setjmp(o->escape) != 0)
        return o->status;
    return body(cookie);
}

void hr__png_object_end(struct hr__png_object *o)
{
    png_destroy_read_struct(&o->lib, &o->info, NULL);
}

void hr__png_object_fini(struct hr__png_object *o)
{
    hr__arena_fini(&o->arena);
}
