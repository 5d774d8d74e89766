/* jpeg_object.h - libjpeg's decompressor, whose errors come back as a status.
 *
 *     init -> { begin(in) -> run(body), in which libjpeg is called } per picture -> fini
 */
#ifndef HR_IMAGE_JPEG_OBJECT_H
#define HR_IMAGE_JPEG_OBJECT_H

#include <setjmp.h>
#include <stdio.h>

#include <jpeglib.h>

#include "image/codec.h"
#include "image/jpeg_memory.h"

struct hr__jpeg_object {
    struct jpeg_decompress_struct lib;
    struct jpeg_error_mgr manager;
    struct jpeg_progress_mgr progress;
    jmp_buf escape;
    struct hr__jpeg_memory memory;
    /* one picture */
    const struct hr__input *in;
    struct hr_error *err;
    enum hr_status status; /* why the escape was taken */
    bool started;          /* rows can be had; set by the caller */
    bool ended;            /* the data ended before the end marker */
    bool lost;             /* scans that were gathered lack data */
    unsigned calls;        /* of the progress callback */
};

/* Errors: HR_ERR_NOMEM. */
HR_MUST_USE enum hr_status hr__jpeg_object_init(struct hr__jpeg_object *o,
                                                struct hr_error *err);
void hr__jpeg_object_fini(struct hr__jpeg_object *o);

/* Forget the last picture. in and err are borrowed until the next one. */
void hr__jpeg_object_begin(struct hr__jpeg_object *o, const struct hr__input *in,
                           struct hr_error *err);

/* Run body(cookie), and make the object ready again if that fails. Returns what body
 * did, or the status of the escape, if it took that. Whatever body has to undo must lie
 * behind the cookie, its own variables are lost then. */
HR_MUST_USE enum hr_status hr__jpeg_object_run(struct hr__jpeg_object *o,
                                               enum hr_status (*body)(void *cookie),
                                               void *cookie);

/* The rest must be called inside of a body. Leave it: */
_Noreturn void hr__jpeg_escape(struct hr__jpeg_object *o, enum hr_status status);
/* The same, libjpeg's picture not being what the header said. */
_Noreturn void hr__jpeg_contradict(struct hr__jpeg_object *o);
/* Data are lost: leave, but not where several scans are gathered and what there is of
 * them will do. */
void hr__jpeg_lose(struct hr__jpeg_object *o);
/* HR_OK, or that data were lost, once the whole picture has come. */
HR_MUST_USE enum hr_status hr__jpeg_verdict(struct hr__jpeg_object *o);

#endif
