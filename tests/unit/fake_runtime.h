/* fake_runtime.h - a host language for the engine, without a language.
 *
 * One big lock that threads attach to (first come, first served), or none in the parallel
 * mode; opaque objects; and checks of what the engine promises about them:
 *
 *   - a thread attaches while it is not attached, and detaches while it is
 *   - no mutex of the library is held in any function of the runtime, nor when an object
 *     or an iterator is let go
 *   - calls are made attached, a source's by one thread at a time
 *   - every thread made known is forgotten, by itself; every iterator is dropped once
 *
 * What is broken is printed and counted; fake_end returns the count. */
#ifndef HR_FAKE_RUNTIME_H
#define HR_FAKE_RUNTIME_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/runtime.h"

struct fake_settings {
    bool parallel;
    uint32_t refuse_from;    /* the n-th attach of a core thread and all later ones are
                                refused; 0: none */
    uint32_t unknown_from;   /* the same for thread_new */
    int64_t attach_delay_ns; /* each attach takes so long */
    bool (*start_loop)(void *cookie);
    void (*drop_loop)(void *cookie);
};

/* Begin anew; no thread may be in the runtime. */
const struct hr_runtime *fake_begin(const struct fake_settings *settings);
/* Everything is gone again? Returns the number of broken rules since fake_begin. */
int fake_end(void);

/* The calling thread, not one of the core's, attaches and detaches. */
void fake_enter(void);
void fake_leave(void);
bool fake_is_attached(void);
/* Attached: give up the big lock for a while, as an op that sleeps does. */
void fake_sleep(int64_t ns);

/* Note a broken rule unless ok. */
void fake_expect(bool ok, const char *rule);

/* An object of the language: a number, and the bytes it claims to have. */
extern const struct hr_value_class fake_object_class;
/* The empty value without memory. */
struct hr_value fake_object_new(long number, size_t bytes);
long fake_object_number(const struct hr_value *value);

/* An iterator: counted, so that one that is lost or dropped twice is noted. */
struct fake_iterator {
    long item;
    uint32_t next, end;
    bool ends_badly;
};
struct fake_iterator *fake_iterator_new(void);
void fake_iterator_drop(struct fake_iterator *iterator);

#endif
