/* engine_fault_test.c - the n-th allocation fails while a pipeline is built and runs.
 *
 * Whatever fails, the run ends, every item is accounted for, nothing is left, and the next
 * run works (fault.h checks that). A watchdog ends the program if a run hangs. */
#include <stdlib.h>
#include <unistd.h>

#include "engine_kit.h"
#include "fault.h"
#include "hr_test.h"

enum { ITEMS = 40, HANG_S = 10 };

static enum hr_status accept(enum hr_status status)
{
    return status == HR_END ? HR_OK : status;
}

/* A run of `plan`. In the failures' list are those of the memory, and no others. */
static enum hr_status run(const struct kit_plan *plan)
{
    struct hr_pipeline *p = NULL;
    struct hr_failure failure;
    enum hr_status status = kit_build(plan, &p, NULL);
    if (status == HR_OK)
        status = hr_pipeline_start(p, NULL);
    if (status == HR_OK) {
        (void)kit_drain(p, plan->foreign_source, NULL, 0, &status);
        status = accept(status);
        for (size_t i = 0; hr_pipeline_failure(p, i, &failure) == HR_OK; i++)
            fake_expect(failure.error.status == HR_ERR_NOMEM, "failures are of memory");
    }
    hr_pipeline_free(&p);
    return status;
}

/* "N" native, "F" foreign, "X" expand, "B" batch, "C" columns, "S" spread. */
struct shape {
    const char *letters;
    bool foreign_source;
    enum kit_form form;
    bool keyed;
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
    struct kit_source source = {
        .end = ITEMS, .fail_at = -1, .fatal_at = -1, .form = shape->form};
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
        if (shape->keyed)
            plan.stages[plan.count].options =
                (struct hr_stage_options){.has_key = 1, .key_name = "y"};
    }
    alarm(HANG_S);
    enum hr_status status = run(&plan);
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
    HR_TEST(native_maps), HR_TEST(foreign_maps), HR_TEST(expands),
    HR_TEST(batches),     HR_TEST(mixtures),     HR_TEST(threads),
};

HR_TEST_MAIN(tests)
