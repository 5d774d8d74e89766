/* The whole public C API. */
#ifndef HEADRACE_H
#define HEADRACE_H

#include "headrace/array.h"
#include "headrace/buffer.h"
#include "headrace/file.h"
#include "headrace/image.h"
#include "headrace/op.h"
#include "headrace/pipeline.h"
#include "headrace/status.h"
#include "headrace/value.h"

#endif
