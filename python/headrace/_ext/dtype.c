/* dtype.c - the element types by the names that Python's protocols give them. */
#include "ext.h"

#include <string.h>

#include "dlpack.h"

/* NumPy's int64 is C's long where that has 64 bits; "q" would be equal but not the
 * same type. */
#if LONG_MAX > 0x7fffffffL
#define FORMAT_I64 "l"
#define FORMAT_U64 "L"
#else
#define FORMAT_I64 "q"
#define FORMAT_U64 "Q"
#endif

const struct hrpy_dtype hrpy_dtypes[HR_DTYPE_COUNT] = {
    [HR_U8] = {"uint8", "B", 'u', DL_UINT},
    [HR_I8] = {"int8", "b", 'i', DL_INT},
    [HR_U16] = {"uint16", "H", 'u', DL_UINT},
    [HR_I16] = {"int16", "h", 'i', DL_INT},
    [HR_U32] = {"uint32", "I", 'u', DL_UINT},
    [HR_I32] = {"int32", "i", 'i', DL_INT},
    [HR_U64] = {"uint64", FORMAT_U64, 'u', DL_UINT},
    [HR_I64] = {"int64", FORMAT_I64, 'i', DL_INT},
    [HR_F16] = {"float16", "e", 'f', DL_FLOAT},
    [HR_F32] = {"float32", "f", 'f', DL_FLOAT},
    [HR_F64] = {"float64", "d", 'f', DL_FLOAT},
    [HR_BOOL] = {"bool", "?", 'b', DL_BOOL},
    /* NumPy has none: it sees the bits. */
    [HR_BF16] = {"bfloat16", "H", 'u', DL_BFLOAT},
};

static char kind_of_code(char code)
{
    if (strchr("bhilqn", code))
        return 'i';
    if (strchr("BHILQN", code))
        return 'u';
    if (strchr("efd", code))
        return 'f';
    return code == '?' ? 'b' : '\0';
}

enum hr_dtype hrpy_dtype_of_format(const char *format, Py_ssize_t itemsize)
{
    const char *native = PY_LITTLE_ENDIAN ? "@=<" : "@=>!";
    char kind;

    if (!format) /* by the protocol: unsigned bytes */
        return itemsize == 1 ? HR_U8 : HR_DTYPE_COUNT;
    if (*format && strchr(native, *format))
        format++;
    if (strlen(format) != 1)
        return HR_DTYPE_COUNT;
    kind = kind_of_code(*format);
    for (int i = 0; kind && i < HR_DTYPE_COUNT; i++) {
        enum hr_dtype dtype = (enum hr_dtype)i;

        if (hrpy_dtypes[i].kind == kind && hr_dtype_size(dtype) == (size_t)itemsize)
            return dtype;
    }
    return HR_DTYPE_COUNT;
}
