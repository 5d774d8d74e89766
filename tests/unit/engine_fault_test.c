/* engine_fault_test.c - the n-th allocation fails while a pipeline is built and runs.
 *
 * Whatever fails, the run ends, every item is accounted for, nothing is left, and the next
 * run works (fault.h checks that). A watchdog ends the program if a run hangs. */
#include <stdlib.h>
#include <unistd.h>

#include "engine_kit.h"
#include "fault.h"
#include "hr_test.h"

#define TRACE_PATH "engine_fault_test.json"

enum { ITEMS = 40, HANG_S = 10 };

static enum hr_status accept(enum hr_status status)
{
    return status == HR_END ? HR_OK : status;
}

/* A run of `plan`, traced to a file if there is one, for `epochs` at most. In the
 * failures' list are those of the memory and of the files, and no others. */
static enum hr_status run(const struct kit_plan *plan, const char *trace, int epochs)
{
    struct hr_pipeline *p = NULL;
    struct hr_failure failure;
    enum hr_status status = kit_build(plan, &p, NULL);
    if (status == HR_OK && trace)
        status = hr_pipeline_trace_start(p, trace, 100, NULL);
    if (status == HR_OK)
        status = hr_pipeline_start(p, NULL);
    if (status == HR_OK) {
        do
            (void)kit_drain(p, plan->foreign_source, NULL, 0, &status);
        while (status == HR_EPOCH && --epochs > 0);
        status = status == HR_EPOCH ? HR_OK : accept(status);
        for (size_t i = 0; hr_pipeline_failure(p, i, &failure) == HR_OK; i++)
            fake_expect(failure.error.status == HR_ERR_NOMEM, "failures are of memory");
    }
    hr_pipeline_free(&p);
    return status;
}

/* "N" native, "F" foreign, "X" expand, "A" fold, "B" batch, "C" columns, "S" spread. */
struct shape {
    const char *letters;
    bool foreign_source;
    enum kit_form form;
    bool keyed;
    long pass;  /* items of an epoch; 0: there are none */
    bool flaky; /* each third item fails at first, and is tried again */
    bool traced;
};

static enum kit_kind kind_of(char letter)
{
    switch (letter) {
    case 'N':
        return KIT_NATIVE;
    case 'F':
        return KIT_FOREIGN;
    case 'X':
        return KIT_EXPAND;
    case 'A':
        return KIT_FOLD;
    case 'B':
        return KIT_BATCH;
    case 'C':
        return KIT_COLUMNS;
    default:
        return KIT_SPREAD;
    }
}

static enum hr_status run_shape(void *cookie)
{
    const struct shape *shape = cookie;
    struct fake_settings settings = {0};
    struct kit_source source = {.end = ITEMS,
                                .fail_at = -1,
                                .fatal_at = -1,
                                .form = shape->form,
                                .pass = shape->pass};
    struct kit_op ops[6];
    struct kit_plan plan = {.source = &source,
                            .foreign_source = shape->foreign_source,
                            .options = {.num_threads = 2},
                            .runtime = fake_begin(&settings)};
    memset(ops, 0, sizeof(ops));
    for (; shape->letters[plan.count]; plan.count++) {
        struct kit_op *op = &ops[plan.count];
        op->fan = 3;
        op->add = 1;
        plan.stages[plan.count] = (struct kit_stage){
            .kind = kind_of(shape->letters[plan.count]), .op = op, .n = 7};
        if (shape->flaky) {
            op->flaky_every = 3;
            op->flaky_times = 1;
            plan.stages[plan.count].retry = (struct hr_retry_policy){
                .times = 2, .backoff_ns = 1000, .statuses = ~UINT64_C(0)};
        }
        if (shape->keyed)
            plan.stages[plan.count].options =
                (struct hr_stage_options){.has_key = 1, .key_name = "y"};
    }
    alarm(HANG_S);
    enum hr_status status = run(&plan, shape->traced ? TRACE_PATH : NULL, 3);
    alarm(0);
    return fake_end() == 0 ? status : HR_ERR_STATE;
}

static void without_memory(struct shape shape)
{
    int failures = 0;
    HR_CHECK(fault_loop(FAULT_MEMORY, run_shape, &shape, &failures) >= 10);
    HR_CHECK_EQ_INT(failures, 0);
}

static void without_threads(struct shape shape)
{
    int failures = 0;
    HR_CHECK(fault_loop(FAULT_THREAD, run_shape, &shape, &failures) >= 3);
    HR_CHECK_EQ_INT(failures, 0);
}

static void native_maps(void)
{
    without_memory((struct shape){.letters = "N"});
    without_memory((struct shape){.letters = "N", .form = KIT_RECORD, .keyed = true});
}

static void foreign_maps(void)
{
    without_memory((struct shape){.letters = "F", .foreign_source = true});
    without_memory((struct shape){.letters = "F", .form = KIT_RECORD, .keyed = true});
}

static void expands(void)
{
    without_memory((struct shape){.letters = "X", .foreign_source = true});
    without_memory((struct shape){.letters = "X", .form = KIT_RECORD, .keyed = true});
}

static void batches(void)
{
    without_memory((struct shape){.letters = "BS"});
    without_memory((struct shape){.letters = "C", .form = KIT_TUPLE});
}

static void folds(void)
{
    without_memory((struct shape){.letters = "A"});
    without_memory((struct shape){.letters = "NA", .foreign_source = true, .pass = 15});
}

static void epochs(void)
{
    without_memory((struct shape){.letters = "NB", .pass = 15});
    without_memory((struct shape){.letters = "FX", .foreign_source = true, .pass = 15});
}

static void retries(void)
{
    without_memory((struct shape){.letters = "N", .flaky = true});
    without_memory(
        (struct shape){.letters = "F", .flaky = true, .foreign_source = true});
}

/* A trace that cannot be written is told, and no reason for the run to fail. */
static void traces(void)
{
    struct shape shape = {.letters = "NB", .traced = true};
    int failures = 0;
    without_memory(shape);
    HR_CHECK(fault_loop(FAULT_FILE, run_shape, &shape, &failures) >= 2);
    HR_CHECK_EQ_INT(failures, 0);
    (void)unlink(TRACE_PATH);
}

static void mixtures(void)
{
    without_memory((struct shape){.letters = "NFBSX", .foreign_source = true});
    without_memory((struct shape){.letters = ""});
}

static void threads(void)
{
    without_threads((struct shape){.letters = "NF", .foreign_source = true});
    without_threads((struct shape){.letters = "N"});
}

static const struct hr_test tests[] = {
    HR_TEST(native_maps), HR_TEST(foreign_maps), HR_TEST(expands), HR_TEST(folds),
    HR_TEST(epochs),      HR_TEST(retries),      HR_TEST(traces),  HR_TEST(batches),
    HR_TEST(mixtures),    HR_TEST(threads),
};

HR_TEST_MAIN(tests)
