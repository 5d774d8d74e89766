#include "fake_runtime.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/mutex.h"

/* What thread_new returns; one per thread of the core. */
struct fake_thread {
    pthread_t self;
};

static struct {
    /* const while threads are in */
    struct fake_settings settings;
    struct hr_runtime runtime;

    /* the big lock: tickets; under mutex */
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    uint64_t next_ticket, serving;

    atomic_uint attaches, news;
    atomic_int threads, objects, iterators, broken;
} fake = {.mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static _Thread_local bool attached;
static _Thread_local struct fake_thread *known;

void fake_expect(bool ok, const char *rule)
{
    if (ok)
        return;
    atomic_fetch_add(&fake.broken, 1);
    printf("# broken rule: %s\n", rule);
}

static void expect_no_lock(const char *rule)
{
    fake_expect(hr__mutex_held_count() == 0, rule);
}

/* ---- the big lock ---- */

static void big_lock(void)
{
    if (fake.settings.parallel)
        return;
    pthread_mutex_lock(&fake.mutex);
    uint64_t ticket = fake.next_ticket++;
    while (ticket != fake.serving)
        pthread_cond_wait(&fake.changed, &fake.mutex);
    pthread_mutex_unlock(&fake.mutex);
}

static void big_unlock(void)
{
    if (fake.settings.parallel)
        return;
    pthread_mutex_lock(&fake.mutex);
    fake.serving++;
    pthread_cond_broadcast(&fake.changed);
    pthread_mutex_unlock(&fake.mutex);
}

static void sleep_ns(int64_t ns)
{
    struct timespec time = {ns / 1000000000, ns % 1000000000};
    while (nanosleep(&time, &time) != 0)
        continue;
}

static void get_in(void)
{
    fake_expect(!attached, "attached twice");
    expect_no_lock("a lock is held while attaching");
    if (fake.settings.attach_delay_ns > 0)
        sleep_ns(fake.settings.attach_delay_ns);
    big_lock();
    attached = true;
}

static void get_out(void)
{
    fake_expect(attached, "detached without being attached");
    attached = false;
    big_unlock();
}

void fake_enter(void)
{
    get_in();
}

void fake_leave(void)
{
    get_out();
}

bool fake_is_attached(void)
{
    return attached;
}

void fake_sleep(int64_t ns)
{
    get_out();
    sleep_ns(ns);
    get_in();
}

/* ---- the runtime ---- */

static bool over(atomic_uint *count, uint32_t from)
{
    uint32_t n = atomic_fetch_add(count, 1) + 1;
    return from > 0 && n >= from;
}

static void *thread_new(void)
{
    fake_expect(!known, "a thread made known twice");
    fake_expect(!attached, "made known while attached");
    expect_no_lock("a lock is held in thread_new");
    if (over(&fake.news, fake.settings.unknown_from))
        return NULL;
    known = malloc(sizeof(*known));
    known->self = pthread_self();
    atomic_fetch_add(&fake.threads, 1);
    return known;
}

static bool attach(void *thread)
{
    fake_expect(thread == known && known, "attached with another thread's state");
    if (over(&fake.attaches, fake.settings.refuse_from)) {
        expect_no_lock("a lock is held while attaching");
        return false;
    }
    get_in();
    return true;
}

static void detach(void *thread)
{
    fake_expect(thread == known && known, "detached with another thread's state");
    get_out();
}

static void reenter(void *thread)
{
    fake_expect(thread == known && known, "reentered with another thread's state");
    get_in();
}

static void thread_free(void *thread)
{
    fake_expect(thread == known && known, "forgot another thread");
    fake_expect(!attached, "forgotten while attached");
    expect_no_lock("a lock is held in thread_free");
    known = NULL;
    free(thread);
    atomic_fetch_sub(&fake.threads, 1);
}

const struct hr_runtime *fake_begin(const struct fake_settings *settings)
{
    fake.settings = *settings;
    fake.runtime = (struct hr_runtime){.thread_new = thread_new,
                                       .attach = attach,
                                       .detach = detach,
                                       .thread_free = thread_free,
                                       .reenter = reenter,
                                       .start_loop = settings->start_loop,
                                       .drop_loop = settings->drop_loop,
                                       .parallel = settings->parallel};
    atomic_store(&fake.attaches, 0);
    atomic_store(&fake.news, 0);
    atomic_store(&fake.broken, 0);
    return &fake.runtime;
}

int fake_end(void)
{
    fake_expect(atomic_load(&fake.threads) == 0, "a thread was not forgotten");
    fake_expect(atomic_load(&fake.objects) == 0, "an object was not released");
    fake_expect(atomic_load(&fake.iterators) == 0, "an iterator was not dropped");
    fake_expect(!attached, "the caller is attached still");
    atomic_store(&fake.threads, 0);
    atomic_store(&fake.objects, 0);
    atomic_store(&fake.iterators, 0);
    return atomic_load(&fake.broken);
}

/* ---- objects ---- */

struct fake_object {
    atomic_int refs;
    long number;
    size_t bytes;
};

static void object_release(struct hr_value *value)
{
    struct fake_object *object = value->ptr;
    expect_no_lock("a lock is held while an object is released");
    if (atomic_fetch_sub(&object->refs, 1) > 1)
        return;
    free(object);
    atomic_fetch_sub(&fake.objects, 1);
}

static struct hr_value object_share(const struct hr_value *value)
{
    struct fake_object *object = value->ptr;
    atomic_fetch_add(&object->refs, 1);
    return *value;
}

static size_t object_nbytes(const struct hr_value *value)
{
    return ((const struct fake_object *)value->ptr)->bytes;
}

const struct hr_value_class fake_object_class = {.name = "object",
                                                 .release = object_release,
                                                 .share = object_share,
                                                 .nbytes = object_nbytes};

struct hr_value fake_object_new(long number, size_t bytes)
{
    struct fake_object *object = malloc(sizeof(*object));
    atomic_init(&object->refs, 1);
    object->number = number;
    object->bytes = bytes;
    atomic_fetch_add(&fake.objects, 1);
    return (struct hr_value){&fake_object_class, object};
}

long fake_object_number(const struct hr_value *value)
{
    return ((const struct fake_object *)value->ptr)->number;
}

/* ---- iterators ---- */

struct fake_iterator *fake_iterator_new(void)
{
    fake_expect(attached, "an iterator made while not attached");
    atomic_fetch_add(&fake.iterators, 1);
    return calloc(1, sizeof(struct fake_iterator));
}

void fake_iterator_drop(struct fake_iterator *iterator)
{
    expect_no_lock("a lock is held while an iterator is dropped");
    atomic_fetch_sub(&fake.iterators, 1);
    free(iterator);
}
