/* edge.h - the bounded FIFO of handles and marks between two stages.
 *
 *   ring   [ i i i M i i M . . . r r ]      i item, M mark, r reserved, . room
 *            └run┘                          capacity = queued + reserved + lent + room
 *
 * A place goes  room → reserved → queued → room,  in the sink's edge  queued → lent →
 * room. Losing a place never makes a stage runnable and gaining one never stops it, so
 * only gains touch the stage at the other end, and only when it watches for them. */
#ifndef HR_SCHED_EDGE_H
#define HR_SCHED_EDGE_H

#include "sched/sched_state.h"

static inline hr_handle hr__edge_peek(const struct edge *edge, uint32_t i)
{
    return edge->ring[(edge->head + i) & edge->mask];
}

static inline void hr__edge_reserve(struct edge *edge, uint32_t n)
{
    assert(edge->room >= n);
    edge->room -= n;
    edge->reserved += n;
}

/* The producer must update itself afterwards. */
static inline void hr__edge_unreserve(struct edge *edge, uint32_t n)
{
    assert(edge->reserved >= n);
    edge->room += n;
    edge->reserved -= n;
}

/* Put an item, or a mark (0), on a reserved place. */
static inline void hr__edge_push(struct hr_sched *sched, struct edge *edge,
                                 hr_handle handle)
{
    assert(edge->reserved > 0);
    edge->reserved--;
    edge->ring[(edge->head + edge->queued++) & edge->mask] = handle;
    if (handle == 0)
        edge->marks++;
    else if (edge->marks == 0)
        edge->run++;
    if (edge->to->watch || handle == 0)
        hr__stage_touch(sched, edge->to);
}

/* Take the oldest entry off the ring; its place is the caller's to pass on. */
static inline hr_handle hr__edge_shift(struct edge *edge)
{
    hr_handle handle = edge->ring[edge->head++ & edge->mask];

    assert(edge->queued > 0);
    edge->queued--;
    if (handle != 0) {
        edge->run--;
        return handle;
    }
    edge->marks--;
    while (edge->run < edge->queued && hr__edge_peek(edge, edge->run) != 0)
        edge->run++;
    return 0;
}

/* n places that the consumer had are to be had again. */
static inline void hr__edge_free(struct hr_sched *sched, struct edge *edge, uint32_t n)
{
    edge->room += n;
    if (edge->from->watch)
        hr__stage_touch(sched, edge->from);
}

/* Take the oldest entry and free its place. */
static inline hr_handle hr__edge_pop(struct hr_sched *sched, struct edge *edge)
{
    hr_handle handle = hr__edge_shift(edge);

    hr__edge_free(sched, edge, 1);
    return handle;
}

#endif
