/* dlpack.h - the part of DLPack 1.0's binary interface that the extension speaks.
 * https://dmlc.github.io/dlpack/latest/c_api.html; the layout is fixed within major
 * version 1. Names of our own, so that a consumer's dlpack.h may be included beside. */
#ifndef HRPY_DLPACK_H
#define HRPY_DLPACK_H

#include <stdint.h>

#define DL_MAJOR 1
#define DL_MINOR 0

#define DL_CPU 1 /* DLDeviceType */

enum dl_type_code { DL_INT = 0, DL_UINT = 1, DL_FLOAT = 2, DL_BFLOAT = 4, DL_BOOL = 6 };

enum dl_flags { DL_FLAG_READ_ONLY = 1, DL_FLAG_IS_COPIED = 2 };

struct dl_device {
    int32_t type;
    int32_t id;
};

struct dl_data_type {
    uint8_t code;
    uint8_t bits;
    uint16_t lanes;
};

struct dl_tensor {
    void *data;
    struct dl_device device;
    int32_t ndim;
    struct dl_data_type dtype;
    int64_t *shape;
    int64_t *strides; /* in elements */
    uint64_t byte_offset;
};

/* The legacy form: capsule "dltensor", renamed "used_dltensor" by its consumer. */
struct dl_managed {
    struct dl_tensor tensor;
    void *context;
    void (*deleter)(struct dl_managed *self);
};

/* Since 1.0: capsule "dltensor_versioned", "used_dltensor_versioned". */
struct dl_managed_versioned {
    struct {
        uint32_t major;
        uint32_t minor;
    } version;
    void *context;
    void (*deleter)(struct dl_managed_versioned *self);
    uint64_t flags;
    struct dl_tensor tensor;
};

#endif
