/* log.c - hand the core's messages to one callback. */
#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/mutex.h"
#include "base/utf8.h"
#include "base/banned.h"

static struct hr_mutex lock = HR_MUTEX_INIT(HR_RANK_LOG);
/* Under lock. */
static hr_log_fn log_fn;
static void *log_cookie;

void hr__log_set(hr_log_fn fn, void *cookie)
{
    hr__mutex_lock(&lock);
    log_fn = fn;
    log_cookie = cookie;
    hr__mutex_unlock(&lock);
}

void hr__log(enum hr_log_level level, const char *fmt, ...)
{
    char text[512];
    va_list args;
    va_start(args, fmt);
    int len = vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    if (len < 0)
        return;
    if ((size_t)len >= sizeof(text))
        text[hr__utf8_cut(text, sizeof(text) - 1)] = '\0';

    /* Called under the lock, so that hr__log_set(NULL, …) returns only when no call of
     * the old function is running: its cookie may then be freed. */
    hr__mutex_lock(&lock);
    if (log_fn)
        log_fn(log_cookie, level, text);
    hr__mutex_unlock(&lock);
}
