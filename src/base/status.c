/* status.c - names of status codes, and filling a caller's struct hr_error. */
#include "headrace/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"
#include "base/banned.h"

const char *hr_status_name(enum hr_status status)
{
    switch (status) {
    case HR_OK:
        return "ok";
    case HR_AGAIN:
        return "again";
    case HR_TIMEOUT:
        return "timeout";
    case HR_CANCELLED:
        return "cancelled";
    case HR_END:
        return "end";
    case HR_EPOCH:
        return "epoch";
    case HR_SKIP:
        return "skip";
    case HR_ERR_ARG:
        return "argument";
    case HR_ERR_STATE:
        return "state";
    case HR_ERR_NOMEM:
        return "no memory";
    case HR_ERR_IO:
        return "io";
    case HR_ERR_FORMAT:
        return "format";
    case HR_ERR_UNSUPPORTED:
        return "unsupported";
    case HR_ERR_LIMIT:
        return "limit";
    case HR_ERR_TYPE:
        return "type";
    case HR_ERR_DEADLINE:
        return "deadline";
    case HR_ERR_FOREIGN:
        return "foreign";
    case HR_ERR_THREAD:
        return "thread";
    }
    return "unknown";
}

/* Copy what fits of source[0 … len-1] and terminate it. */
static void copy_cut(char *out, size_t size, const char *source, size_t len)
{
    if (len >= size)
        len = hr__utf8_cut(source, size - 1);
    memcpy(out, source, len);
    out[len] = '\0';
}

enum hr_status hr_error_set(struct hr_error *err, enum hr_status status,
                            const char *origin, int32_t code, const char *fmt, ...)
{
    if (!err)
        return status;

    /* Formatted aside: the arguments may point into *err. One byte more than fits, so
     * that copy_cut sees whether a character was cut. */
    char text[sizeof(err->text) + 1];
    va_list args;
    va_start(args, fmt);
    int len = vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    if (len < 0)
        len = 0;
    if ((size_t)len >= sizeof(text))
        len = (int)sizeof(text) - 1;

    char name[sizeof(err->origin)];
    copy_cut(name, sizeof(name), origin, strlen(origin));
    memcpy(err->origin, name, sizeof(name));
    copy_cut(err->text, sizeof(err->text), text, (size_t)len);
    err->status = status;
    err->code = code;
    err->item = -1;
    return status;
}

const char *hr_version(void)
{
    return HR_VERSION;
}
