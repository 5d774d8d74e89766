/* buffer.c - reference-counted blocks from a process-wide pool of size classes.
 *
 * Why a pool. A freshly mapped page costs a fault and its zeroing when it is first
 * touched: 1.4 us per page, 52 us for the 150 KB of one 224 x 224 picture. malloc
 * spares that while one block is made and freed in turn, but gives memory back to the
 * system as soon as a few blocks are free at once; a loader frees a batch at a time,
 * and so pays for every page of every picture. Here a freed block goes to a list of its
 * size class and is found there by the next request, in 43 ns: steady work maps
 * nothing. docs/internals/buffers.md says how this was measured.
 *
 * Layout of a block; all of it is one piece of memory:
 *
 *     ┌──────────────────┬─ pad ─┬──────────── size ───────────┬── ≥ 64 ──┐
 *     │ struct hr_buffer │       │ data, aligned to 256        │ readable │
 *     └──────────────────┴───────┴─────────────────────────────┴──────────┘
 *     └── at most HEAD_MAX bytes ┘
 *
 * The header lives in the block, so that a buffer costs no second allocation. The header
 * of an array that is made together with its memory lies behind it, where mapped blocks
 * have room anyway. A wrapped buffer is a block of the smallest class whose data pointer
 * leads elsewhere.
 *
 * Size classes. Sizes are counted in units of 256 bytes: 1, 2, 3, 4, 5, 6, 7, 8, 10,
 * 12, 14, 16, 20, 24, 28, 32, 40 ... that is four classes per power of two, and a block
 * is less than 25 % larger than what was asked for (with the header). Classes below
 * MAP_MIN are malloc's; the others are mapped, those from 2 MiB on in huge pages where
 * the system has them.
 *
 * Locks. Four neighbouring classes (an octave) share one mutex, which guards a few
 * loads and stores: no system call, callback or allocation is made under it. Not one
 * mutex per class, since fork must take them all (see fork_prepare), and not thread
 * caches, since buffers are made by workers and dropped by consumers: each would fill
 * on one side.
 *
 * What is kept. At most cached_max bytes (1 GiB) are kept for reuse. Beyond that, each
 * freed block first drives out about its own size from the other classes, in turn, and
 * from its own class at last: classes that are no longer used drain away. */
#include "headrace/buffer.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/mem.h"
#include "base/mutex.h"
#include "base/pool.h"
#include "base/sys.h"

#if defined(__SANITIZE_ADDRESS__)
#define HR_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HR_ASAN 1
#endif
#endif
#ifdef HR_ASAN
#include <sanitizer/asan_interface.h>
#endif

#include "base/banned.h"

#define UNIT ((size_t)HR_BUFFER_ALIGN)
#define TAIL ((size_t)HR_BUFFER_TAIL)
#define MAP_MIN ((size_t)64 << 10)
#define OCTAVES 40
#define CLASSES (OCTAVES * 4)

struct hr_buffer {
    /* const while somebody holds a reference */
    _Alignas(16) void *data; /* so that HEAD_MAX below is right */
    size_t size;
    hr_release_fn release; /* wrapped memory: may be NULL */
    void *cookie;
    uint32_t class_id;
    uint32_t flags;
    /* under the octave's lock, while the block is cached */
    struct hr_buffer *next;
    /* atomic: holders, see hr_buffer_ref */
    _Atomic uint32_t refs;
};

/* What a class needs beyond size + TAIL. A block of malloc's is aligned to 16, a mapped
 * one to a page, so the data begins at most this far from the block's start. */
#define HEAD_MAX (sizeof(struct hr_buffer) + UNIT - 16)
_Static_assert(sizeof(struct hr_buffer) == 64, "one cache line, a multiple of 16");

struct size_class {
    struct hr_buffer *cached; /* a list by .next, last freed first */
    uint64_t cached_count;
    uint64_t live_count;
    uint64_t mapped_total;
};

struct octave {
    _Alignas(64) struct hr_mutex lock;
    struct size_class cls[4]; /* under lock */
};

static struct {
    pthread_once_t once;
    /* atomic: added to before a block is put on a list, subtracted from after it was
     * taken; relaxed, as nothing is published through it */
    _Atomic size_t cached_bytes;
    _Atomic size_t cached_max; /* relaxed; only tests ever change it */
    struct octave octave[OCTAVES];
} pool = {.once = PTHREAD_ONCE_INIT, .cached_max = HR_POOL_CACHED_MAX};

/* ---- size classes ---- */

/* The class of blocks of at least `units` units; CLASSES or more: too large. */
static uint32_t class_of_units(size_t units)
{
    size_t u = units - 1;
    if (u < 4)
        return (uint32_t)u;
    uint32_t log = 63 - (uint32_t)__builtin_clzll(u);
    return (log - 1) * 4 + (uint32_t)(u >> (log - 2)) - 4;
}

static size_t class_bytes(uint32_t id)
{
    if (id < 4)
        return (id + 1) * UNIT;
    return ((size_t)(id % 4 + 5) << (id / 4 - 1)) * UNIT;
}

/* False when no class is that large. */
static bool class_of_size(size_t size, size_t room, uint32_t *out)
{
    size_t bytes;
    if (!hr__add(size, HEAD_MAX + room + TAIL + UNIT - 1, &bytes))
        return false;
    *out = class_of_units(bytes / UNIT);
    return *out < CLASSES;
}

static struct size_class *class_at(uint32_t id)
{
    return &pool.octave[id / 4].cls[id % 4];
}

static struct hr_mutex *class_lock(uint32_t id)
{
    return &pool.octave[id / 4].lock;
}

/* ---- blocks ---- */

/* AddressSanitizer: a cached block may not be touched, nor what lies beyond size + TAIL
 * of a live one. */
static void block_close(struct hr_buffer *block)
{
#ifdef HR_ASAN
    char *end = (char *)block + class_bytes(block->class_id);
    ASAN_POISON_MEMORY_REGION(block + 1, (size_t)(end - (char *)(block + 1)));
#else
    (void)block;
#endif
}

static void block_open(struct hr_buffer *block, size_t bytes)
{
#ifdef HR_ASAN
    char *end = (char *)block + class_bytes(block->class_id);
    char *begin = (char *)(block + 1);
    size_t all = (size_t)(end - begin);
    ASAN_UNPOISON_MEMORY_REGION(begin, bytes < all ? bytes : all);
#else
    (void)block;
    (void)bytes;
#endif
}

/* Where data begin that leave room behind the header. */
static char *block_data(struct hr_buffer *block, size_t room)
{
    char *pos = (char *)(block + 1) + room;
    return pos + (-(uintptr_t)pos & (UNIT - 1));
}

static struct hr_buffer *block_map(uint32_t id)
{
    size_t bytes = class_bytes(id);
    struct hr_buffer *block =
        bytes < MAP_MIN ? HR_SYS(alloc)(bytes) : HR_SYS(map)(bytes);
    if (!block)
        return NULL;
    block->class_id = id;
    block_close(block);
    return block;
}

static void block_unmap(struct hr_buffer *block)
{
    size_t bytes = class_bytes(block->class_id);
    block_open(block, bytes);
    if (bytes < MAP_MIN)
        HR_SYS(release)(block);
    else
        HR_SYS(unmap)(block, bytes);
}

/* ---- the pool ---- */

/* A child of fork has the one thread that called it. Locks that other threads held at
 * that moment would stay locked for ever, and lists be half changed; so all are taken
 * around the fork. Taken natively: the rank check would refuse two of one rank, and is
 * not needed where they are always taken in this one order. */
static void fork_prepare(void)
{
    for (int i = 0; i < OCTAVES; i++)
        pthread_mutex_lock(&pool.octave[i].lock.native);
}

static void fork_done(void)
{
    for (int i = OCTAVES - 1; i >= 0; i--)
        pthread_mutex_unlock(&pool.octave[i].lock.native);
}

static void pool_init(void)
{
    for (int i = 0; i < OCTAVES; i++)
        hr__mutex_init(&pool.octave[i].lock, HR_RANK_POOL);
    /* Fails only without memory; then a fork beside running threads is less safe. */
    (void)pthread_atfork(fork_prepare, fork_done, fork_done);
}

/* Take a cached block out; NULL if there is none. live: it will be used, not
 * unmapped. */
static struct hr_buffer *pool_pop(uint32_t id, bool live)
{
    struct size_class *cls = class_at(id);
    hr__mutex_lock(class_lock(id));
    struct hr_buffer *block = cls->cached;
    if (block) {
        cls->cached = block->next;
        cls->cached_count--;
        cls->live_count += live;
    }
    hr__mutex_unlock(class_lock(id));
    if (block)
        atomic_fetch_sub_explicit(&pool.cached_bytes, class_bytes(id),
                                  memory_order_relaxed);
    return block;
}

/* A block of the class with one reference, its data closed; NULL without memory. */
static struct hr_buffer *pool_take(uint32_t id)
{
    pthread_once(&pool.once, pool_init);
    struct hr_buffer *block = pool_pop(id, true);
    if (!block) {
        block = block_map(id);
        if (!block)
            return NULL;
        hr__mutex_lock(class_lock(id));
        class_at(id)->live_count++;
        class_at(id)->mapped_total++;
        hr__mutex_unlock(class_lock(id));
    }
    atomic_init(&block->refs, 1);
    block->release = NULL;
    block->cookie = NULL;
    block->flags = 0;
    return block;
}

/* Unmap at least `excess` bytes of cached blocks, those of class `last` at last. */
static void pool_evict(size_t excess, uint32_t last)
{
    for (uint32_t i = 1; i <= CLASSES; i++) {
        uint32_t id = (last + i) % CLASSES;
        struct hr_buffer *block;
        while ((block = pool_pop(id, false)) != NULL) {
            block_unmap(block);
            if (excess <= class_bytes(id))
                return;
            excess -= class_bytes(id);
        }
    }
}

static void pool_give(struct hr_buffer *block)
{
    uint32_t id = block->class_id;
    size_t bytes = class_bytes(id);
    size_t max = atomic_load_explicit(&pool.cached_max, memory_order_relaxed);
    bool keep = bytes <= max;
    if (keep) {
        block_close(block);
        size_t held = bytes + atomic_fetch_add_explicit(&pool.cached_bytes, bytes,
                                                        memory_order_relaxed);
        if (held > max)
            pool_evict(held - max, id);
    }
    struct size_class *cls = class_at(id);
    hr__mutex_lock(class_lock(id));
    cls->live_count--;
    if (keep) {
        block->next = cls->cached;
        cls->cached = block;
        cls->cached_count++;
    }
    hr__mutex_unlock(class_lock(id));
    if (!keep)
        block_unmap(block);
}

void hr_pool_stats(struct hr_pool_stats *out)
{
    *out = (struct hr_pool_stats){0};
    pthread_once(&pool.once, pool_init);
    for (uint32_t id = 0; id < CLASSES; id++) {
        const struct size_class *cls = class_at(id);
        hr__mutex_lock(class_lock(id));
        out->live_count += cls->live_count;
        out->live_bytes += cls->live_count * class_bytes(id);
        out->cached_bytes += cls->cached_count * class_bytes(id);
        out->mapped_total += cls->mapped_total;
        hr__mutex_unlock(class_lock(id));
    }
}

void hr_pool_trim(void)
{
    pthread_once(&pool.once, pool_init);
    for (uint32_t id = 0; id < CLASSES; id++) {
        struct hr_buffer *block;
        while ((block = pool_pop(id, false)) != NULL)
            block_unmap(block);
    }
}

#ifdef HR_TESTING
void hr__pool_set_cached_max(size_t bytes)
{
    atomic_store_explicit(&pool.cached_max, bytes, memory_order_relaxed);
}
#endif

/* ---- buffers ---- */

enum hr_status hr__buffer_new_beside(size_t size, size_t room, struct hr_buffer **out,
                                     void **beside, struct hr_error *err)
{
    *out = NULL;
    *beside = NULL;
    uint32_t id;
    struct hr_buffer *buffer = class_of_size(size, room, &id) ? pool_take(id) : NULL;
    if (!buffer)
        return hr__nomem(err, "buffer", "a buffer", size);
    buffer->data = block_data(buffer, room);
    buffer->size = size;
    block_open(buffer,
               (size_t)((char *)buffer->data - (char *)(buffer + 1)) + size + TAIL);
    *out = buffer;
    *beside = buffer + 1;
    return HR_OK;
}

enum hr_status hr_buffer_new(size_t size, struct hr_buffer **out, struct hr_error *err)
{
    void *beside;

    return hr__buffer_new_beside(size, 0, out, &beside, err);
}

enum hr_status hr_buffer_wrap(void *data, size_t size, unsigned flags,
                              hr_release_fn release, void *cookie,
                              struct hr_buffer **out, struct hr_error *err)
{
    *out = NULL;
    struct hr_buffer *buffer = pool_take(0);
    if (!buffer)
        return hr__nomem(err, "buffer", "the header of a wrapped buffer",
                         class_bytes(0));
    buffer->data = data;
    buffer->size = size;
    buffer->flags = flags;
    buffer->release = release;
    buffer->cookie = cookie;
    *out = buffer;
    return HR_OK;
}

struct hr_buffer *hr_buffer_ref(struct hr_buffer *buffer)
{
    /* relaxed: the caller holds a reference already, so nothing can end meanwhile. */
    uint32_t old = atomic_fetch_add_explicit(&buffer->refs, 1, memory_order_relaxed);
    assert(old > 0);
    (void)old;
    return buffer;
}

void hr_buffer_unref(struct hr_buffer **buffer)
{
    struct hr_buffer *old = *buffer;
    if (!old)
        return;
    *buffer = NULL;
    /* acq_rel: pairs with itself in the other holders; what each did with the memory
     * comes before its reuse. */
    uint32_t refs = atomic_fetch_sub_explicit(&old->refs, 1, memory_order_acq_rel);
    assert(refs > 0);
    if (refs != 1)
        return;
    if (old->release)
        old->release(old->cookie);
    pool_give(old);
}

void *hr_buffer_data(const struct hr_buffer *buffer)
{
    return buffer->data;
}

size_t hr_buffer_size(const struct hr_buffer *buffer)
{
    return buffer->size;
}

int hr_buffer_is_readonly(const struct hr_buffer *buffer)
{
    return (buffer->flags & HR_BUFFER_READONLY) != 0;
}
