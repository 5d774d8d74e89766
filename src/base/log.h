/* log.h - messages of the core. Silent unless a callback is set; the Python face sets
 * one that feeds the logging module from an attached thread. */
#ifndef HR_BASE_LOG_H
#define HR_BASE_LOG_H

#include "headrace/status.h"

enum hr_log_level { HR_LOG_DEBUG = 10, HR_LOG_INFO = 20, HR_LOG_WARNING = 30 };

/* Called under the lock of rank LOG, and often under that of a pipeline: it must neither
 * wait nor call the library. */
typedef void (*hr_log_fn)(void *cookie, enum hr_log_level level, const char *text);

void hr__log_set(hr_log_fn fn, void *cookie);
void hr__log(enum hr_log_level level, const char *fmt, ...) HR_PRINTF(2, 3);

#endif
