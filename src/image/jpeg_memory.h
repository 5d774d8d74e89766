/* jpeg_memory.h - what libjpeg asks for per picture, from the buffer pool. */
#ifndef HR_IMAGE_JPEG_MEMORY_H
#define HR_IMAGE_JPEG_MEMORY_H

#include <stdio.h>

#include <jpeglib.h>

struct hr__jpeg_chunk;

/* One decompressor's. Zero-initialised. */
struct hr__jpeg_memory {
    struct hr__jpeg_chunk *chunk;        /* of this picture, the one in use first */
    struct jvirt_barray_control *arrays; /* of this picture */
    struct jpeg_memory_mgr own;          /* the functions that libjpeg came with */
};

/* Take over from libjpeg's own memory manager, which goes on to keep what stays from
 * picture to picture. *memory must be found by hr__jpeg_memory_of until lib's end. */
void hr__jpeg_memory_install(struct hr__jpeg_memory *memory, j_common_ptr lib);
/* After lib's end. */
void hr__jpeg_memory_fini(struct hr__jpeg_memory *memory);

/* Where the memory of lib is; its owner says so. */
struct hr__jpeg_memory *hr__jpeg_memory_of(j_common_ptr lib);

#endif
