/* libjpeg makes its tables and rows for each picture, and all coefficients of a
 * progressive one: a megabyte for 640 x 400, which malloc may give back to the system and
 * map again each time. Its memory manager is a struct of functions that may be replaced.
 * Ours gives out pooled buffers:
 *
 *     chunk --> chunk --> chunk          what is small, one behind the other; what is
 *     ┌────┬──────────┬─────┐            large has a chunk of its own, put second
 *     │next│ given    │ room│
 *     └────┴──────────┴─────┘
 *
 * A picture ends with all of its chunks going back to the pool. A virtual array is one
 * that libjpeg would move to a file if it had to: here it is an array whose rows are
 * cleared when they are first asked for. The library's own manager goes on to keep what
 * stays with the object. */
#include "image/jpeg_memory.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <jerror.h>

#include "base/mem.h"
#include "headrace/buffer.h"
#include "base/banned.h"

#define CHUNK_BYTES ((size_t)48 << 10) /* a baseline picture of 640 pixels across */
#define ALIGN ((size_t)64)             /* of libjpeg-turbo's vectors, and a line */

struct hr__jpeg_chunk {
    struct hr_buffer *buffer; /* in which this lies */
    struct hr__jpeg_chunk *next;
    size_t used; /* with this head */
};

/* What libjpeg knows by its name alone. */
struct jvirt_barray_control {
    struct jvirt_barray_control *next;
    JBLOCKARRAY rows; /* NULL until it is realized */
    JDIMENSION count;
    JDIMENSION blocks;  /* of a row */
    JDIMENSION defined; /* rows that are cleared or written */
    bool clears;
};

static _Noreturn void fail(j_common_ptr lib, int code)
{
    lib->err->msg_code = code;
    lib->err->msg_parm.i[0] = 0;
    lib->err->error_exit(lib);
    __builtin_unreachable();
}

static size_t rounded(j_common_ptr lib, size_t size)
{
    size_t sum;

    if (!hr__add(size, ALIGN - 1, &sum))
        fail(lib, JERR_OUT_OF_MEMORY);
    return sum & ~(ALIGN - 1);
}

/* A chunk with room for size behind its head. */
static struct hr__jpeg_chunk *make_chunk(j_common_ptr lib, size_t size)
{
    size_t head = rounded(lib, sizeof(struct hr__jpeg_chunk));
    struct hr_buffer *buffer;
    struct hr__jpeg_chunk *chunk;
    size_t bytes;

    if (!hr__add(head, size, &bytes) || hr_buffer_new(bytes, &buffer, NULL) != HR_OK)
        fail(lib, JERR_OUT_OF_MEMORY);
    chunk = hr_buffer_data(buffer);
    *chunk = (struct hr__jpeg_chunk){.buffer = buffer, .used = head};
    return chunk;
}

static void *alloc(j_common_ptr lib, size_t size)
{
    struct hr__jpeg_memory *m = hr__jpeg_memory_of(lib);
    struct hr__jpeg_chunk *c = m->chunk;
    void *ptr;

    size = rounded(lib, size);
    if (c == NULL || size > hr_buffer_size(c->buffer) - c->used) {
        c = make_chunk(lib, size > CHUNK_BYTES / 4 ? size : CHUNK_BYTES);
        if (m->chunk != NULL && size > CHUNK_BYTES / 4) {
            c->next = m->chunk->next;
            m->chunk->next = c;
        } else {
            c->next = m->chunk;
            m->chunk = c;
        }
    }
    ptr = (uint8_t *)c + c->used;
    c->used += size;
    return ptr;
}

static void *alloc_small(j_common_ptr lib, int pool, size_t size)
{
    if (pool != JPOOL_IMAGE)
        return hr__jpeg_memory_of(lib)->own.alloc_small(lib, pool, size);
    return alloc(lib, size);
}

static void *alloc_large(j_common_ptr lib, int pool, size_t size)
{
    if (pool != JPOOL_IMAGE)
        return hr__jpeg_memory_of(lib)->own.alloc_large(lib, pool, size);
    return alloc(lib, size);
}

/* n pointers to rows of `bytes` each, which lie side by side. */
static void **alloc_rows(j_common_ptr lib, size_t bytes, JDIMENSION n)
{
    void **rows = alloc(lib, n * sizeof(*rows));
    size_t stride = rounded(lib, bytes);
    size_t all;
    uint8_t *first;

    if (!hr__mul(stride, n, &all))
        fail(lib, JERR_OUT_OF_MEMORY);
    first = alloc(lib, all);
    for (JDIMENSION i = 0; i < n; i++)
        rows[i] = first + i * stride;
    return rows;
}

static JSAMPARRAY alloc_sarray(j_common_ptr lib, int pool, JDIMENSION samples,
                               JDIMENSION n)
{
    bool wide = ((j_decompress_ptr)lib)->data_precision > 8;

    if (pool != JPOOL_IMAGE)
        return hr__jpeg_memory_of(lib)->own.alloc_sarray(lib, pool, samples, n);
    /* Newer libraries have samples of 12 bits too. */
    return (JSAMPARRAY)alloc_rows(lib, samples * (wide ? 2 : sizeof(JSAMPLE)), n);
}

static JBLOCKARRAY alloc_barray(j_common_ptr lib, int pool, JDIMENSION blocks,
                                JDIMENSION n)
{
    if (pool != JPOOL_IMAGE)
        return hr__jpeg_memory_of(lib)->own.alloc_barray(lib, pool, blocks, n);
    return (JBLOCKARRAY)alloc_rows(lib, blocks * sizeof(JBLOCK), n);
}

static jvirt_barray_ptr request_array(j_common_ptr lib, int pool, boolean pre_zero,
                                      JDIMENSION blocks, JDIMENSION n,
                                      JDIMENSION rows_at_once)
{
    struct hr__jpeg_memory *m = hr__jpeg_memory_of(lib);
    struct jvirt_barray_control *a;

    (void)rows_at_once;
    if (pool != JPOOL_IMAGE)
        fail(lib, JERR_BAD_POOL_ID);
    a = alloc(lib, sizeof(*a));
    *a = (struct jvirt_barray_control){
        .next = m->arrays,
        .count = n,
        .blocks = blocks,
        .clears = pre_zero != FALSE,
    };
    m->arrays = a;
    return a;
}

static void realize_arrays(j_common_ptr lib)
{
    struct hr__jpeg_memory *m = hr__jpeg_memory_of(lib);

    for (struct jvirt_barray_control *a = m->arrays; a != NULL; a = a->next)
        if (a->rows == NULL)
            a->rows = alloc_barray(lib, JPOOL_IMAGE, a->blocks, a->count);
    m->own.realize_virt_arrays(lib);
}

static JBLOCKARRAY access_array(j_common_ptr lib, jvirt_barray_ptr a, JDIMENSION start,
                                JDIMENSION n, boolean writable)
{
    (void)writable;
    if (a->rows == NULL || n > a->count || start > a->count - n)
        fail(lib, JERR_BAD_VIRTUAL_ACCESS);
    for (; a->clears && a->defined < start + n; a->defined++)
        memset(a->rows[a->defined], 0, a->blocks * sizeof(JBLOCK));
    return a->rows + start;
}

static void free_chunks(struct hr__jpeg_memory *m)
{
    struct hr__jpeg_chunk *c = m->chunk;

    m->chunk = NULL;
    m->arrays = NULL;
    while (c != NULL) {
        struct hr_buffer *buffer = c->buffer;

        c = c->next;
        hr_buffer_unref(&buffer);
    }
}

static void free_pool(j_common_ptr lib, int pool)
{
    struct hr__jpeg_memory *m = hr__jpeg_memory_of(lib);

    if (pool == JPOOL_IMAGE)
        free_chunks(m);
    m->own.free_pool(lib, pool);
}

void hr__jpeg_memory_install(struct hr__jpeg_memory *m, j_common_ptr lib)
{
    struct jpeg_memory_mgr *mem = lib->mem;

    m->own = *mem;
    mem->alloc_small = alloc_small;
    mem->alloc_large = alloc_large;
    mem->alloc_sarray = alloc_sarray;
    mem->alloc_barray = alloc_barray;
    mem->request_virt_barray = request_array;
    mem->realize_virt_arrays = realize_arrays;
    mem->access_virt_barray = access_array;
    mem->free_pool = free_pool;
}

void hr__jpeg_memory_fini(struct hr__jpeg_memory *m)
{
    free_chunks(m);
}
