/* libjpeg reports errors by a callback that must not return. Ours fills the caller's
 * error and jumps back to guarded(), the one function with a setjmp; it has no
 * variables, so there is none to lose. After a jump jpeg_abort_decompress makes the
 * object ready again.
 *
 * What libjpeg calls a warning is mostly a picture with lost data: it goes on with
 * grey blocks. Those are errors here (see loses_data).
 *
 * The object is kept from picture to picture. */
#include "image/jpeg_object.h"

#include <jerror.h>

#include "base/banned.h"

/* The progress callback looks for a cancelled task once in so many calls. */
#define CALLS_PER_CHECK 16
/* What may lie between coded data and a marker. */
#define STRAY_BYTES 16

_Noreturn void hr__jpeg_escape(struct hr__jpeg_object *o, enum hr_status status)
{
    o->status = status;
    longjmp(o->escape, 1);
}

/* Run body; the status of the escape, if it took that. */
static enum hr_status guarded(struct hr__jpeg_object *o,
                              enum hr_status (*body)(void *cookie), void *cookie)
{
    if (setjmp(o->escape) != 0)
        return o->status;
    return body(cookie);
}

/* How far decoding went, for messages: "after 60 of 480 rows". */
static void where(const struct hr__jpeg_object *o, char *out, size_t size)
{
    const struct jpeg_decompress_struct *lib = &o->lib;

    if (o->started)
        snprintf(out, size, "after %u of %u rows",
                 lib->output_scanline < lib->image_height ? lib->output_scanline
                                                          : lib->image_height,
                 lib->image_height);
    else if (lib->input_scan_number > 0)
        snprintf(out, size, "in scan %d", lib->input_scan_number);
    else
        snprintf(out, size, "in its header");
}

_Noreturn void hr__jpeg_contradict(struct hr__jpeg_object *o)
{
    hr__jpeg_escape(o, hr_error_set(o->err, HR_ERR_FORMAT, "image", 0,
                                    "image: JPEG has contradictory headers"));
}

static enum hr_status status_of(int code)
{
    switch (code) {
    case JERR_BAD_PRECISION:
    case JERR_SOF_UNSUPPORTED:
    case JERR_ARITH_NOTIMPL:
    case JERR_NOTIMPL:
    case JERR_NOT_COMPILED:
    case JERR_CONVERSION_NOTIMPL:
    case JERR_FRACT_SAMPLE_NOTIMPL:
    case JERR_CCIR601_NOTIMPL:
        return HR_ERR_UNSUPPORTED;
    case JERR_OUT_OF_MEMORY:
        return HR_ERR_NOMEM;
    case JERR_IMAGE_TOO_BIG:
    case JERR_WIDTH_OVERFLOW:
        return HR_ERR_LIMIT;
    default:
        return HR_ERR_FORMAT;
    }
}

static enum hr_status say_ended(const struct hr__jpeg_object *o)
{
    char place[64];

    where(o, place, sizeof(place));
    return hr_error_set(o->err, HR_ERR_FORMAT, "image", JWRN_JPEG_EOF,
                        "image: JPEG ends %s", place);
}

static enum hr_status say_damaged(struct hr__jpeg_object *o)
{
    char place[64];
    char text[JMSG_LENGTH_MAX];

    where(o, place, sizeof(place));
    o->manager.format_message((j_common_ptr)&o->lib, text);
    return hr_error_set(o->err, HR_ERR_FORMAT, "image", o->manager.msg_code,
                        "image: JPEG is damaged %s: %s", place, text);
}

void hr__jpeg_lose(struct hr__jpeg_object *o)
{
    bool goes_on = !o->started && o->in->options->allow_truncated &&
                   jpeg_has_multiple_scans(&o->lib);

    if (o->lost)
        return;
    o->status = o->ended ? say_ended(o) : say_damaged(o);
    if (!goes_on)
        hr__jpeg_escape(o, o->status);
    o->lost = true;
}

static void on_error(j_common_ptr lib)
{
    struct hr__jpeg_object *o = lib->client_data;
    int code = lib->err->msg_code;
    char place[64];
    char text[JMSG_LENGTH_MAX];

    if (o->ended)
        hr__jpeg_escape(o, say_ended(o));
    where(o, place, sizeof(place));
    lib->err->format_message(lib, text);
    hr__jpeg_escape(o, hr_error_set(o->err, status_of(code), "image", code,
                                    "image: JPEG cannot be read %s: %s", place, text));
}

/* Warnings after which pixels are made up. Bytes before a marker show that coded data
 * were not read to their end: libjpeg-turbo takes codes that are none for zeros and says
 * nothing, and so the blocks behind are others. Before a restart marker one is too many;
 * before others, some cameras leave a few. */
static bool loses_data(const struct jpeg_error_mgr *m)
{
    switch (m->msg_code) {
    case JWRN_HIT_MARKER:
    case JWRN_HUFF_BAD_CODE:
    case JWRN_ARITH_BAD_CODE:
    case JWRN_MUST_RESYNC:
    case JWRN_BOGUS_PROGRESSION:
        return true;
    case JWRN_EXTRANEOUS_DATA:
        return m->msg_parm.i[0] > STRAY_BYTES ||
               (m->msg_parm.i[1] >= 0xd0 && m->msg_parm.i[1] <= 0xd7);
    default:
        return false;
    }
}

/* The end of the data comes up when libjpeg reads ahead, often before bits are missing:
 * then it says so (JWRN_HIT_MARKER), and only then is it known how many rows there are.
 * Its arithmetic decoder never says so. */
static void on_message(j_common_ptr lib, int level)
{
    struct hr__jpeg_object *o = lib->client_data;

    if (level >= 0)
        return;
    if (lib->err->msg_code == JWRN_JPEG_EOF) {
        o->ended = true;
        if (o->lib.arith_code)
            hr__jpeg_lose(o);
    } else if (loses_data(lib->err)) {
        hr__jpeg_lose(o);
    }
}

static void on_output(j_common_ptr lib)
{
    (void)lib;
}

/* Called by libjpeg for each row and, while it gathers scans, each row of blocks. */
static void on_progress(j_common_ptr lib)
{
    struct hr__jpeg_object *o = lib->client_data;
    int scans_max = o->in->options->scans_max;
    enum hr_status status;

    if (o->lib.input_scan_number > scans_max)
        hr__jpeg_escape(o,
                        hr_error_set(o->err, HR_ERR_LIMIT, "image", 0,
                                     "image: JPEG has more scans than the limit of %d",
                                     scans_max));
    if (++o->calls % CALLS_PER_CHECK != 0)
        return;
    status = hr_ctx_check(o->in->ctx, o->err);
    if (status != HR_OK)
        hr__jpeg_escape(o, status);
}

static enum hr_status create(void *cookie)
{
    struct hr__jpeg_object *o = cookie;

    jpeg_create_decompress(&o->lib);
    o->lib.progress = &o->progress;
    hr__jpeg_memory_install(&o->memory, (j_common_ptr)&o->lib);
    return HR_OK;
}

enum hr_status hr__jpeg_object_init(struct hr__jpeg_object *o, struct hr_error *err)
{
    *o = (struct hr__jpeg_object){.err = err};
    o->lib.err = jpeg_std_error(&o->manager);
    o->lib.client_data = o;
    o->manager.error_exit = on_error;
    o->manager.emit_message = on_message;
    o->manager.output_message = on_output;
    o->progress.progress_monitor = on_progress;
    return guarded(o, create, o);
}

void hr__jpeg_object_fini(struct hr__jpeg_object *o)
{
    jpeg_destroy_decompress(&o->lib);
    hr__jpeg_memory_fini(&o->memory);
}

struct hr__jpeg_memory *hr__jpeg_memory_of(j_common_ptr lib)
{
    return &((struct hr__jpeg_object *)lib->client_data)->memory;
}

void hr__jpeg_object_begin(struct hr__jpeg_object *o, const struct hr__input *in,
                           struct hr_error *err)
{
    o->in = in;
    o->err = err;
    o->started = false;
    o->ended = false;
    o->lost = false;
    o->lib.input_scan_number = 0; /* of the last picture, until the header is read */
}

enum hr_status hr__jpeg_object_run(struct hr__jpeg_object *o,
                                   enum hr_status (*body)(void *), void *cookie)
{
    enum hr_status status = guarded(o, body, cookie);

    if (status != HR_OK)
        jpeg_abort_decompress(&o->lib);
    return status;
}

enum hr_status hr__jpeg_verdict(struct hr__jpeg_object *o)
{
    if (o->ended && !o->lost)
        return say_ended(o);
    return o->lost ? HR_ERR_FORMAT : HR_OK;
}
