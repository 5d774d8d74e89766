/* Traces: every item's task once, whatever fails; started and ended while threads run. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "engine_kit.h"
#include "fault.h"
#include "hr_test.h"

enum { ITEMS = 60 };

static char path[] = "/tmp/hr-trace-XXXXXX";

/* What was written; the caller's to free. */
static char *read_trace(void)
{
    FILE *file = fopen(path, "re");
    size_t size = 1 << 22;
    char *text = calloc(1, size);
    if (file && text)
        HR_CHECK(fread(text, 1, size - 1, file) > 0);
    if (file)
        (void)fclose(file);
    return text;
}

static size_t count(const char *text, const char *what)
{
    size_t n = 0;
    for (const char *at = text; (at = strstr(at, what)) != NULL; at++)
        n++;
    return n;
}

/* A task event for each of the items, and the end of the file. */
static void check_complete(const char *text, const char *stage)
{
    for (int i = 0; i < ITEMS; i++) {
        char tail[64];
        size_t found = 0;
        (void)snprintf(tail, sizeof(tail), "\"args\":{\"item\":%d,\"label\":\"%d\"}}",
                       i, i);
        for (const char *at = text; (at = strstr(at, tail)) != NULL; at++) {
            const char *line = at;
            while (line > text && line[-1] != '\n')
                line--;
            found += strncmp(line, stage, strlen(stage)) == 0;
        }
        HR_CHECK_EQ_INT(found, 1);
    }
    HR_CHECK_EQ_INT(count(text, "\"lost_events\":0}}\n"), 1);
}

static struct kit_plan plan_of(struct kit_source *source, struct kit_op ops[2],
                               bool foreign_source)
{
    struct fake_settings settings = {0};
    return (struct kit_plan){
        .source = source,
        .foreign_source = foreign_source,
        .stages = {{.kind = KIT_NATIVE, .op = &ops[0], .options = {.name = "first"}},
                   {.kind = KIT_FOREIGN, .op = &ops[1], .options = {.name = "second"}}},
        .count = 2,
        .options = {.num_threads = 2},
        .runtime = fake_begin(&settings)};
}

static void every_item_has_its_tasks(void)
{
    for (int foreign = 0; foreign < 2; foreign++) {
        struct kit_source source = {.end = ITEMS, .fail_at = -1, .fatal_at = -1};
        struct kit_op ops[2] = {{0}, {.fail_every = 10, .skip_every = 7}};
        struct kit_plan plan = plan_of(&source, ops, foreign);
        struct hr_pipeline *p = NULL;
        enum hr_status end;
        HR_CHECK_EQ_INT(kit_build(&plan, &p, NULL), HR_OK);
        HR_REQUIRE(p);
        HR_CHECK_EQ_INT(hr_pipeline_trace_start(p, path, 0, NULL), HR_OK);
        HR_CHECK_EQ_INT(hr_pipeline_trace_start(p, path, 0, NULL), HR_ERR_STATE);
        HR_CHECK_EQ_INT(hr_pipeline_start(p, NULL), HR_OK);
        /* 6 fail; of the 9 multiples of 7 one, 0, had failed */
        HR_CHECK_EQ_INT(kit_drain(p, false, NULL, 0, &end), ITEMS - 6 - 8);
        HR_CHECK_EQ_INT(hr_pipeline_stop(p, HR_NO_DEADLINE, NULL), HR_OK);
        char *text = read_trace();
        HR_REQUIRE(text);
        check_complete(text, "{\"ph\":\"X\",\"name\":\"first\",\"cat\":\"task\"");
        check_complete(text, "{\"ph\":\"X\",\"name\":\"second\",\"cat\":\"task\"");
        HR_CHECK_EQ_INT(count(text, "\"name\":\"next\""), ITEMS - 6 - 8);
        HR_CHECK_EQ_INT(count(text, "\"args\":{\"name\":\"hr-source\"}"), foreign);
        free(text);
        HR_CHECK_EQ_INT(hr_pipeline_trace_stop(p, NULL), HR_OK); /* there is none */
        hr_pipeline_free(&p);
        HR_CHECK_EQ_INT(fake_end(), 0);
    }
}

struct switcher {
    struct hr_pipeline *pipeline;
    atomic_bool done;
    atomic_int traces;
};

static void *switch_on_and_off(void *arg)
{
    struct switcher *switcher = arg;
    while (!atomic_load(&switcher->done) && atomic_load(&switcher->traces) < 200) {
        HR_CHECK_EQ_INT(hr_pipeline_trace_start(switcher->pipeline, path, 50, NULL),
                        HR_OK);
        HR_CHECK_EQ_INT(hr_pipeline_trace_stop(switcher->pipeline, NULL), HR_OK);
        atomic_fetch_add(&switcher->traces, 1);
    }
    return NULL;
}

static void traces_begin_and_end_in_the_midst(void)
{
    struct kit_source source = {.end = 20000, .fail_at = -1, .fatal_at = -1};
    struct kit_op ops[2] = {{0}, {0}};
    struct kit_plan plan = plan_of(&source, ops, true);
    struct switcher switcher = {.pipeline = kit_start(&plan)};
    enum hr_status end;
    pthread_t thread;
    HR_REQUIRE(switcher.pipeline);
    HR_CHECK_EQ_INT(pthread_create(&thread, NULL, switch_on_and_off, &switcher), 0);
    HR_CHECK_EQ_INT(kit_drain(switcher.pipeline, true, NULL, 0, &end), 20000);
    atomic_store(&switcher.done, true);
    pthread_join(thread, NULL);
    HR_CHECK(atomic_load(&switcher.traces) > 0);
    hr_pipeline_free(&switcher.pipeline);
    HR_CHECK_EQ_INT(fake_end(), 0);
}

/* ---- what can't be had ---- */

static enum hr_status traced_run(void *cookie)
{
    struct kit_source source = {.end = ITEMS, .fail_at = -1, .fatal_at = -1};
    struct kit_op ops[2] = {{0}, {0}};
    struct kit_plan plan = plan_of(&source, ops, false);
    struct hr_pipeline *p = NULL;
    enum hr_status end, status = kit_build(&plan, &p, NULL);
    (void)cookie;

    if (status == HR_OK)
        status = hr_pipeline_trace_start(p, path, 40, NULL);
    if (status == HR_OK)
        status = hr_pipeline_start(p, NULL);
    if (status == HR_OK)
        (void)kit_drain(p, false, NULL, 0, &end);
    if (p) {
        enum hr_status written = hr_pipeline_trace_stop(p, NULL);
        status = status == HR_OK ? written : status;
    }
    hr_pipeline_free(&p);
    HR_CHECK_EQ_INT(fake_end(), 0);
    return status;
}

static void files_that_fail_are_told(void)
{
    int failures = 0;
    uint64_t runs = fault_loop(FAULT_FILE, traced_run, NULL, &failures);
    HR_CHECK_EQ_INT(failures, 0);
    HR_CHECK(runs >= 3); /* create, write, close */
}

static void memory_that_fails_is_told(void)
{
    int failures = 0;
    HR_CHECK(fault_loop(FAULT_MEMORY, traced_run, NULL, &failures) > 0);
    HR_CHECK_EQ_INT(failures, 0);
}

static const struct hr_test tests[] = {
    HR_TEST(every_item_has_its_tasks),
    HR_TEST(traces_begin_and_end_in_the_midst),
    HR_TEST(files_that_fail_are_told),
    HR_TEST(memory_that_fails_is_told),
};

int main(int argc, char **argv)
{
    int fd = mkstemp(path);
    if (fd < 0)
        return 1;
    (void)close(fd);
    int status =
        hr_test_main(tests, (int)(sizeof(tests) / sizeof(tests[0])), argc, argv);
    (void)unlink(path);
    return status;
}
