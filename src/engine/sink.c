/* sink.c - the ring of ready items; see consumer.c for the way out of it. */
#include "engine/sink.h"

#include "base/mem.h"
#include "base/banned.h"

enum hr_status hr__sink_init(struct hr_sink *sink, uint32_t capacity)
{
    hr__mutex_init(&sink->lock, HR_RANK_SINK);
    atomic_init(&sink->look_ns, HR_LOOK_MIN_NS);
    uint32_t size = 1;
    while (size < capacity)
        size *= 2;
    sink->ring = hr__calloc(size, sizeof(*sink->ring));
    if (!sink->ring)
        return HR_ERR_NOMEM;
    sink->mask = size - 1;
    return HR_OK;
}

void hr__sink_fini(struct hr_sink *sink)
{
    while (sink->count > 0) {
        struct hr_item *item = hr__item_of(sink->ring[sink->head & sink->mask]);
        sink->head++;
        sink->count--;
        if (item) {
            hr_value_release(&item->value);
            hr_value_release(&item->label);
        }
    }
    hr__free(sink->ring);
    sink->ring = NULL;
    hr__mutex_fini(&sink->lock);
}

void hr__sink_spend(struct hr_sink *sink, struct hr_item *item)
{
    /* Only ever emptied as a whole, so the usual ABA trap of such a list is not there. */
    struct hr_item *head = atomic_load_explicit(&sink->spent, memory_order_relaxed);
    do
        item->next = head;
    while (!atomic_compare_exchange_weak_explicit(
        &sink->spent, &head, item, memory_order_release, /* exchange in */
        memory_order_relaxed)); /* the pump */
}
