/* Status codes and error details.
 *
 * Every fallible function returns an enum hr_status. Results travel through
 * out-parameters, which are NULL (or zeroed) unless HR_OK is returned. Detail goes to
 * a caller's struct hr_error: fixed size, no allocation, no global "last error". */
#ifndef HEADRACE_STATUS_H
#define HEADRACE_STATUS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define HR_API __attribute__((visibility("default")))
#define HR_MUST_USE __attribute__((warn_unused_result))
#define HR_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#else
#define HR_API
#define HR_MUST_USE
#define HR_PRINTF(fmt, args)
#endif

enum hr_status {
    HR_OK = 0,

    /* Flow: not failures, never carried by an item's error. */
    HR_AGAIN = 1,     /* nothing now; try later */
    HR_TIMEOUT = 2,   /* the deadline passed first; nothing was lost */
    HR_CANCELLED = 3, /* the pipeline or the task was cancelled */
    HR_END = 4,       /* no more items */
    HR_EPOCH = 5,     /* end of one pass over a continuous source */
    HR_SKIP = 6,      /* an op filtered its item on purpose */

    /* Failures. */
    HR_ERR_ARG = 16,         /* the caller's bug; the text names argument and value */
    HR_ERR_STATE = 17,       /* not allowed in this state, e.g. start after stop */
    HR_ERR_NOMEM = 18,       /* memory could not be had */
    HR_ERR_IO = 19,          /* the system refused a file operation; code = errno */
    HR_ERR_FORMAT = 20,      /* the data is not what it should be */
    HR_ERR_UNSUPPORTED = 21, /* valid data of a kind that is not handled */
    HR_ERR_LIMIT = 22,       /* refused by a limit; the text names it */
    HR_ERR_TYPE = 23,        /* a value of the wrong kind was given to an op */
    HR_ERR_DEADLINE = 24,    /* a task took longer than it was allowed */
    HR_ERR_FOREIGN = 25,     /* an exception of the host language; see its value */
    HR_ERR_THREAD = 26       /* a thread could not be started; code = errno */
};

/* Filled by a failing function. Zero-initialise it; a NULL pointer is accepted
 * everywhere and means "no detail wanted". */
struct hr_error {
    enum hr_status status;
    int32_t code;    /* errno or a codec's own code, 0 if none */
    int64_t item;    /* source index of the item, -1 if none is known */
    char origin[24]; /* who says it: "image", "file", "pipeline", ... */
    char text[232];  /* expected, found, and which item; UTF-8, NUL-terminated */
};

/* A lower-case name for a status: "ok", "timeout", "format", ... Never NULL.
 * Threads: any. */
HR_API const char *hr_status_name(enum hr_status status);

/* Fill *err (if not NULL) and return status, so that a failing function can end with
 * `return hr_error_set(err, HR_ERR_FORMAT, "image", 0, "...", ...)`.
 * A text that does not fit is cut at a UTF-8 boundary. err->item becomes -1. The
 * arguments may point into *err, to put something around its text. Threads: any. */
HR_API enum hr_status hr_error_set(struct hr_error *err, enum hr_status status,
                                   const char *origin, int32_t code, const char *fmt,
                                   ...) HR_PRINTF(5, 6);

/* The library's version as "MAJOR.MINOR.PATCH". Threads: any. */
HR_API const char *hr_version(void);

#ifdef __cplusplus
}
#endif

#endif
