/* libtiff reads from memory by these callbacks. It keeps no decoder: each file is opened
 * anew, and its directory read into memory of its own. Its complaints are kept for the
 * error that follows; warnings are dropped. */
#include "image/tiff_file.h"

#include <stdio.h>
#include <string.h>

#include <tiffio.h>

#include "base/banned.h"

static tmsize_t on_read(thandle_t handle, void *to, tmsize_t n)
{
    struct hr__tiff_file *f = handle;
    uint64_t left = f->at < f->in.size ? f->in.size - f->at : 0;
    size_t some = (uint64_t)n < left ? (size_t)n : (size_t)left;

    if (some > 0)
        memcpy(to, f->in.data + f->at, some);
    f->at += some;
    return (tmsize_t)some;
}

static tmsize_t on_write(thandle_t handle, void *from, tmsize_t n)
{
    (void)handle;
    (void)from;
    (void)n;
    return 0;
}

static toff_t on_seek(thandle_t handle, toff_t offset, int whence)
{
    struct hr__tiff_file *f = handle;

    f->at = whence == SEEK_CUR   ? f->at + offset
            : whence == SEEK_END ? f->in.size + offset
                                 : offset;
    return f->at;
}

static int on_close(thandle_t handle)
{
    (void)handle;
    return 0;
}

static toff_t on_size(thandle_t handle)
{
    return ((const struct hr__tiff_file *)handle)->in.size;
}

static int on_error(TIFF *lib, void *cookie, const char *module, const char *format,
                    va_list args)
{
    struct hr__tiff_file *f = cookie;

    (void)lib;
    (void)module;
    (void)vsnprintf(f->text, sizeof(f->text), format, args);
    return 1;
}

static int on_warning(TIFF *lib, void *cookie, const char *module, const char *format,
                      va_list args)
{
    (void)lib;
    (void)cookie;
    (void)module;
    (void)format;
    (void)args;
    return 1;
}

static TIFF *open_lib(struct hr__tiff_file *f)
{
    TIFFOpenOptions *options = TIFFOpenOptionsAlloc();
    uint64_t most = f->in.options->bytes_max;
    TIFF *lib;

    if (options == NULL)
        return NULL;
    TIFFOpenOptionsSetMaxSingleMemAlloc(options,
                                        most > INT32_MAX ? INT32_MAX : (tmsize_t)most);
    TIFFOpenOptionsSetErrorHandlerExtR(options, on_error, f);
    TIFFOpenOptionsSetWarningHandlerExtR(options, on_warning, f);
    /* m: no memory map; h: the header alone, directories when they are asked for */
    lib = TIFFClientOpenExt("memory", "rm", f, on_read, on_write, on_seek, on_close,
                            on_size, NULL, NULL, options);
    TIFFOpenOptionsFree(options);
    return lib;
}

void hr__tiff_file_open(struct hr__tiff_file *f, const struct hr__input *in)
{
    f->in = *in;
    f->at = 0;
    f->text[0] = '\0';
    f->lib = open_lib(f);
}

void hr__tiff_file_close(struct hr__tiff_file *f)
{
    if (f->lib != NULL)
        TIFFClose(f->lib);
    f->lib = NULL;
}
