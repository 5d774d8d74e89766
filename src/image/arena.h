/* arena.h - memory for a library that asks for the same blocks picture after picture. */
#ifndef HR_IMAGE_ARENA_H
#define HR_IMAGE_ARENA_H

#include <stddef.h>
#include <stdint.h>

/* One thread's. Zero-initialised. */
struct hr__arena {
    uint8_t *block;
    size_t bytes;
    size_t used;
    size_t asked; /* for this picture, in all */
};

/* Before a picture, when nothing of the last one is left: after that one the block is
 * large enough for what it asked for, within a bound. */
void hr__arena_reset(struct hr__arena *arena);
/* 16-byte aligned; NULL without memory. What the block has no room for comes from the
 * system. */
void *hr__arena_alloc(struct hr__arena *arena, size_t size);
void hr__arena_release(struct hr__arena *arena, void *ptr);
void hr__arena_fini(struct hr__arena *arena);

#endif
