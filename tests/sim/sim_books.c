/* sim_books.c - the driver's books: which item is where, which places are in use, which
 * stage has failed too often. Kept from what the scheduler says and nothing else. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "sim_state.h"

bool sim_fail(struct drive *d, const char *fmt, ...)
{
    va_list args;

    if (d->wrong[0])
        return false;
    va_start(args, fmt);
    vsnprintf(d->wrong, sizeof(d->wrong), fmt, args);
    va_end(args);
    return false;
}

/* ---- items ---- */

hr_handle sim_item_add(struct drive *d, struct item item)
{
    if (d->item_count == d->item_room) {
        d->item_room = d->item_room * 2 + 64;
        d->items = realloc(d->items, sizeof(*d->items) * d->item_room);
        if (!d->items)
            abort();
    }
    item.where = IN_TASK;
    d->items[d->item_count++] = item;
    return d->item_count; /* handles are 1, 2, ... */
}

struct item *sim_item_of(struct drive *d, hr_handle handle)
{
    static struct item none = {.where = CONSUMED};

    if (handle < 1 || handle > d->item_count) {
        sim_fail(d, "a handle that never was: %llu", (unsigned long long)handle);
        return &none;
    }
    return &d->items[handle - 1];
}

static bool keeps_order(const struct drive *d, uint32_t stage)
{
    const struct hr_sched_stage *s = &d->plan->stages[stage];

    return s->order == HR_ORDER_INPUT || s->concurrency == 1;
}

bool sim_is_cut_off(const struct drive *d, uint32_t stage, uint32_t start,
                    uint32_t epoch)
{
    const struct sim_stage *s = &d->stages[stage];

    if (!s->cut)
        return false;
    return d->plan->stages[stage].order == HR_ORDER_INPUT ? start > s->cut_start
                                                          : epoch > s->cut_epoch;
}

/* The item leaves the queue in front of its consumer: is it its turn? */
bool sim_item_arrives(struct drive *d, hr_handle handle, uint32_t stage)
{
    struct item *item = sim_item_of(d, handle);
    struct sim_stage *from = &d->stages[item->from];

    if (item->where != IN_SCHED)
        return sim_fail(d, "item %u came twice, or was never given", (unsigned)handle);
    if (item->to != stage)
        return sim_fail(d, "item %u came to stage %u, not %u", (unsigned)handle, stage,
                        item->to);
    if (sim_is_cut_off(d, item->from, item->start, item->epoch))
        return sim_fail(d, "item %u comes after the failure that cut stage %u",
                        (unsigned)handle, item->from);
    d->load[item->edge]--;
    if (d->plan->stages[item->from].kind == HR_STAGE_ROUTE)
        return true; /* serial; its paths are looked at by epoch and the model */
    if (item->start >= from->last_sub_room) {
        uint32_t room = item->start * 2 + 16;

        from->last_sub = realloc(from->last_sub, sizeof(uint32_t) * room);
        if (!from->last_sub)
            abort();
        memset(from->last_sub + from->last_sub_room, 0,
               sizeof(uint32_t) * (room - from->last_sub_room));
        from->last_sub_room = room;
    }
    if (item->sub + 1 <= from->last_sub[item->start])
        return sim_fail(d, "outputs of one task of stage %u changed order", item->from);
    from->last_sub[item->start] = item->sub + 1;
    if (keeps_order(d, item->from) && item->start + 1 < from->last_start)
        return sim_fail(d, "stage %u does not keep its order", item->from);
    from->last_start = item->start + 1;
    return true;
}

/* A handle may be let go by cancel, by a failure further down, or as a dropped rest. */
static bool released_ok(struct drive *d, struct item *item)
{
    const struct hr_sched_stage *to = &d->plan->stages[item->to];

    if (item->where != IN_SCHED)
        return sim_fail(d, "a handle was released that the scheduler did not have");
    if (!d->cancelled && !d->result->failed &&
        !(to->kind == HR_STAGE_AGGREGATE && to->drop_last))
        return sim_fail(d, "a handle was released without need");
    item->where = RELEASED;
    d->load[item->edge]--;
    d->released++;
    return true;
}

bool sim_release(struct drive *d)
{
    hr_handle handles[5];
    size_t n;

    do {
        n = hr__sched_take_released(d->sched, handles, 5);
        for (size_t i = 0; i < n; i++) {
            SAY(d, "released (%u)", (unsigned)handles[i]);
            if (!released_ok(d, sim_item_of(d, handles[i])))
                return false;
        }
    } while (n > 0);
    return true;
}

/* ---- failure policy, told independently ---- */

static void forbid_ancestors(struct drive *d, uint32_t stage)
{
    for (uint32_t k = 0; k < d->plan->edge_count; k++) {
        if (d->plan->edges[k].to == stage) {
            uint32_t from = d->plan->edges[k].from;

            d->stages[from].unwanted = true;
            d->stages[from].excess = false;
            forbid_ancestors(d, from);
        }
    }
}

void sim_task_counted(struct drive *d, uint32_t stage)
{
    struct sim_stage *s = &d->stages[stage];
    const struct hr_sched_stage *plan = &d->plan->stages[stage];
    bool excess = plan->failures_max >= 0 && s->failed > (uint64_t)plan->failures_max;

    excess |= plan->cuts && s->failed > 0;
    if (plan->kind == HR_STAGE_SOURCE || s->unwanted || d->cancelled)
        return;
    if (plan->fraction_den > 0 && s->tasks >= HR_SCHED_PROBATION)
        excess |= s->failed * plan->fraction_den > s->tasks * plan->fraction_num;
    if (!excess)
        return;
    SAY(d, "stage %u exceeds its policy", stage);
    s->excess = s->unwanted = true;
    if (d->failed_stage < 0)
        d->failed_stage = (int)stage;
    d->result->failed = true;
    forbid_ancestors(d, stage);
}

/* ---- after the end ---- */

static bool check_counts(struct drive *d, uint32_t stage, uint64_t *released)
{
    struct hr_sched_counts counts;
    const struct sim_stage *s = &d->stages[stage];
    const struct hr_sched_stage *plan = &d->plan->stages[stage];
    uint64_t time = 0;

    hr__sched_counts(d->sched, stage, d->now, &counts);
    *released += counts.released;
    for (int i = 0; i < HR_STATE_COUNT; i++)
        time += counts.time_ns[i];
    if (time != (uint64_t)d->now - 1000)
        return sim_fail(d, "stage %u: its times do not add up", stage);
    if (counts.running || counts.held || counts.queued)
        return sim_fail(d, "stage %u: something is left in it", stage);
    if (plan->kind == HR_STAGE_MERGE || plan->kind == HR_STAGE_SINK)
        return true;
    if (counts.failed != s->failed || counts.tasks != s->tasks)
        return sim_fail(d, "stage %u: wrong count of tasks or failures", stage);
    if (!d->cancelled && !d->result->failed) {
        bool drops = plan->kind == HR_STAGE_AGGREGATE && plan->drop_last;

        if (counts.out != s->accepted || counts.released != 0)
            return sim_fail(d, "stage %u: wrong count of outputs", stage);
        if (drops ? counts.in < s->in || counts.filtered != counts.in - s->in
                  : counts.in != s->in || counts.filtered != s->filtered)
            return sim_fail(d, "stage %u: wrong count of inputs or filtered", stage);
    }
    return true;
}

bool sim_check_end(struct drive *d)
{
    struct hr_edge_fill fill;
    uint64_t released = 0, dropped = 0;
    struct hr_sched_counts counts;

    for (uint32_t i = 0; i < d->item_count; i++) {
        if (d->items[i].where == IN_SCHED || d->items[i].where == IN_TASK)
            return sim_fail(d, "item %u was lost", i + 1);
    }
    for (uint32_t i = 0; i < d->plan->stage_count; i++) {
        const struct hr_sched_stage *plan = &d->plan->stages[i];

        if (!check_counts(d, i, &released))
            return false;
        hr__sched_counts(d->sched, i, d->now, &counts);
        if (plan->kind == HR_STAGE_AGGREGATE)
            dropped += counts.filtered;
    }
    if (released + dropped != d->released + d->refused)
        return sim_fail(d, "released handles do not add up");
    for (uint32_t k = 0; k < d->plan->edge_count; k++) {
        hr__sched_edge_fill(d->sched, k, &fill);
        if (fill.reserved != 0 || (d->lent == 0 && fill.filled != 0))
            return sim_fail(d, "edge %u: places are in use after the end", k);
    }
    return true;
}
