/* png_object.h - libpng's reader, in memory that is kept, whose errors come back as a
 * status.
 *
 *     begin(in) -> run(body), in which open is called and then libpng -> end, per picture
 *     fini
 */
#ifndef HR_IMAGE_PNG_OBJECT_H
#define HR_IMAGE_PNG_OBJECT_H

#include <setjmp.h>

#include <png.h>

#include "image/arena.h"
#include "image/codec.h"

/* One thread's. Zero-initialised. */
struct hr__png_object {
    png_structp lib;
    png_infop info;
    jmp_buf escape;
    struct hr__arena arena; /* libpng's own memory, kept from picture to picture */
    /* one picture */
    const struct hr__input *in;
    struct hr_error *err;
    enum hr_status status; /* why the escape was taken */
    size_t at;             /* read so far */
    bool nomem;            /* an allocation failed */
    /* how far decoding went, for messages; set by the caller */
    int64_t row; /* decoded so far, of this pass */
    int64_t height;
    int pass;
    int passes; /* 0: still in the header */
};

/* Begin reading from the start. in and err are borrowed until the end. */
void hr__png_object_begin(struct hr__png_object *o, const struct hr__input *in,
                          struct hr_error *err);

/* Run body(cookie). Returns what it did, or the status of the escape, if it took that.
 * Whatever body has to undo must lie behind the cookie, its own variables are lost then. */
HR_MUST_USE enum hr_status hr__png_object_run(struct hr__png_object *o,
                                              enum hr_status (*body)(void *cookie),
                                              void *cookie);

/* Drop what open made. */
void hr__png_object_end(struct hr__png_object *o);
void hr__png_object_fini(struct hr__png_object *o);

/* To be called inside of a body: make lib and info. cut: the data end before the end. */
void hr__png_object_open(struct hr__png_object *o, bool cut);
/* The same: leave it. */
_Noreturn void hr__png_escape(struct hr__png_object *o, enum hr_status status);

#endif
