/* sched_bench.c - what the scheduler alone costs: CPU nanoseconds of one claim
 * and finish.
 *
 * One thread serves a linear plan  source → n × map → sink  without doing any work in
 * the tasks; two depths give the cost of one more map stage by subtraction, so source
 * and sink fall out. Prints a line per shape. Usage: sched_bench [items] */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "sched/sched.h"

enum { STAGES_MAX = 20 };

struct shape {
    const char *name;
    enum hr_stage_kind kind;
    enum hr_order order;
    uint32_t concurrency, arity, capacity;
};

static int64_t cpu_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
    return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

static struct hr_sched *make(const struct shape *shape, uint32_t depth)
{
    struct hr_sched_stage stages[STAGES_MAX];
    struct hr_sched_edge edges[STAGES_MAX];
    struct hr_sched_plan plan = {stages, depth + 2, edges, depth + 1};
    struct hr_sched *sched;
    struct hr_error err;

    memset(stages, 0, sizeof(stages));
    for (uint32_t i = 0; i < depth + 2; i++) {
        stages[i] = (struct hr_sched_stage){shape->kind, shape->order, 0, 1, 1,
                                            false,       -1,           0, 0};
        if (i > 0 && i <= depth) {
            stages[i].concurrency = shape->concurrency;
            stages[i].arity = shape->arity;
        }
        if (i <= depth)
            edges[i] = (struct hr_sched_edge){i, i + 1, shape->capacity};
    }
    stages[0].kind = HR_STAGE_SOURCE;
    stages[depth + 1].kind = HR_STAGE_SINK;
    if (hr__sched_new(&plan, 0, &sched, &err) != HR_OK) {
        fprintf(stderr, "%s\n", err.text);
        abort();
    }
    return sched;
}

/* Do what was claimed: pass the item on, or give as many new ones as are wanted. */
static void serve(struct hr_sched *sched, const struct hr_claim *claim, uint64_t *left,
                  int64_t now)
{
    hr_handle out[HR_SCHED_GRANT_MAX];
    uint32_t n = 0;

    if (claim->stage > 0) {
        hr__sched_finish(sched, claim->task, HR_TASK_DONE, claim->inputs, 1, now);
        return;
    }
    while (n < claim->grant && *left > 0) {
        out[n++] = *left;
        --*left;
    }
    hr__sched_finish(sched, claim->task, *left > 0 ? HR_TASK_MORE : HR_TASK_DONE, out,
                     n, now);
}

/* CPU seconds that `items` take through `depth` stages. */
static double run(const struct shape *shape, uint32_t depth, uint64_t items)
{
    struct hr_sched *sched = make(shape, depth);
    uint64_t left = items;
    int64_t start = cpu_ns(), now = 0;
    enum hr_take take;
    hr_handle handle;

    do {
        struct hr_claim claim;

        while (hr__sched_claim(sched, 1, ++now, &claim))
            serve(sched, &claim, &left, now);
        while ((take = hr__sched_take(sched, &handle, ++now)) == HR_TAKE_ITEM)
            hr__sched_credit(sched, 1, now);
    } while (take != HR_TAKE_END);
    hr__sched_free(&sched);
    return (double)(cpu_ns() - start) * 1e-9;
}

int main(int argc, char **argv)
{
    static const struct shape shapes[] = {
        {"map, completion, capacity 16", HR_STAGE_MAP, HR_ORDER_COMPLETION, 4, 1, 16},
        {"map, input order, capacity 16", HR_STAGE_MAP, HR_ORDER_INPUT, 4, 1, 16},
        {"map, completion, capacity 2", HR_STAGE_MAP, HR_ORDER_COMPLETION, 1, 1, 2},
        {"expand to one, capacity 16", HR_STAGE_EXPAND, HR_ORDER_COMPLETION, 2, 1, 16},
    };
    uint64_t items = argc > 1 ? strtoull(argv[1], NULL, 10) : 1000000;

    for (size_t i = 0; i < sizeof(shapes) / sizeof(*shapes); i++) {
        double best_few = 1e9, best_many = 1e9;

        for (int round = 0; round < 5; round++) {
            double few = run(&shapes[i], 1, items), many = run(&shapes[i], 9, items);

            best_few = few < best_few ? few : best_few;
            best_many = many < best_many ? many : best_many;
        }
        printf("%-32s %5.1f ns per claim + finish\n", shapes[i].name,
               (best_many - best_few) / 8 / (double)items * 1e9);
    }
    return 0;
}
