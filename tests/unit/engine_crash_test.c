/* engine_crash_test.c - the report of a crash, written by children that really crash. */
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/task.h"
#include "engine_kit.h"
#include "hr_test.h"

enum { HANG_S = 20 };

/* ---- a child ---- */

struct ended {
    char text[4096]; /* what it wrote to the descriptor of its report */
    int status;
};

static void in_child(void (*body)(int fd), int fd)
{
    static const struct rlimit none = {0, 0};
    static const int fatal[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
    (void)setrlimit(RLIMIT_CORE, &none);
    for (size_t i = 0; i < sizeof(fatal) / sizeof(fatal[0]); i++)
        (void)signal(fatal[i], SIG_DFL); /* a sanitizer's would exit, with a report */
    alarm(HANG_S);
    hr_crash_report_enable(fd);
    body(fd);
    _exit(0);
}

static bool run_child(void (*body)(int fd), struct ended *out)
{
    int ends[2];
    size_t size = 0;
    ssize_t n;
    (void)fflush(stdout);
    if (pipe(ends))
        return false;
    pid_t pid = fork();
    if (pid == 0)
        in_child(body, ends[1]);
    (void)close(ends[1]);
    while (size + 1 < sizeof(out->text) &&
           (n = read(ends[0], &out->text[size], sizeof(out->text) - 1 - size)) > 0)
        size += (size_t)n;
    out->text[size] = '\0';
    (void)close(ends[0]);
    return pid > 0 && waitpid(pid, &out->status, 0) == pid;
}

/* The child was ended by the signal and wrote exactly that. */
static void check_child(void (*body)(int fd), int number, const char *text)
{
    struct ended ended;
    HR_REQUIRE(run_child(body, &ended));
    HR_CHECK(WIFSIGNALED(ended.status));
    HR_CHECK_EQ_INT(WTERMSIG(ended.status), number);
    HR_CHECK_STR(ended.text, text);
}

/* ---- what it runs ---- */

static char *bad_page(void)
{
    void *page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return page == MAP_FAILED ? NULL : page;
}

static void crash(void)
{
    *(volatile char *)bad_page() = 1;
}

/* Where a worker's own thread stays until another one crashes. */
static struct kit_gate other = KIT_GATE(0);

static void crash_at_seven(void *cookie, struct hr_ctx *ctx, long number)
{
    (void)cookie;
    (void)ctx;
    if (number == 7)
        crash();
}

static void abort_at_seven(void *cookie, struct hr_ctx *ctx, long number)
{
    (void)cookie;
    (void)ctx;
    if (number == 7)
        abort();
}

static void wait_at_two_crash_at_three(void *cookie, struct hr_ctx *ctx, long number)
{
    (void)cookie;
    if (number == 2)
        kit_gate_hook(&other, ctx, number);
    if (number != 3)
        return;
    kit_gate_await(&other);
    crash();
}

static volatile bool for_ever = true;

__attribute__((noinline)) static int fill_the_stack(const volatile char *above)
{
    volatile char frame[4096];
    frame[0] = above ? above[0] : 0;
    return (for_ever ? fill_the_stack(frame) : 0) + frame[0];
}

static void overflow_at_seven(void *cookie, struct hr_ctx *ctx, long number)
{
    (void)cookie;
    (void)ctx;
    if (number == 7)
        (void)fill_the_stack(NULL);
}

#ifndef __SANITIZE_THREAD__
/* All that a thread says of itself lies in a page that can't be read. */
static void crash_without_a_trail(void *cookie, struct hr_ctx *ctx, long number)
{
    struct hr_worker *w = hr__worker_self();
    (void)cookie;
    (void)ctx;
    (void)number;
    hr__trail_at(w, (const struct hr_item *)(void *)bad_page(), NULL);
    crash();
}
#endif

static void drain(struct hr_pipeline *p, bool attached)
{
    enum hr_status end;
    (void)kit_drain(p, attached, NULL, 0, &end);
}

/* Ten texts through one op with that hook. */
static void run_op(enum kit_kind kind, uint32_t threads,
                   void (*hook)(void *cookie, struct hr_ctx *ctx, long number))
{
    static struct fake_settings settings;
    static struct kit_source source = {.end = 10, .fail_at = -1, .fatal_at = -1};
    static struct kit_op op;
    op.hook = hook;
    struct kit_plan plan = {
        .source = &source,
        .foreign_source = kind != KIT_NATIVE,
        .stages = {{.kind = kind,
                    .op = &op,
                    .options = {.name = "decode", .concurrency = threads}}},
        .count = 1,
        .options = {.num_threads = threads},
        .runtime = fake_begin(&settings)};
    drain(kit_start(&plan), plan.foreign_source);
}

/* ---- tests ---- */

static void native_body(int fd)
{
    (void)fd;
    run_op(KIT_NATIVE, 1, crash_at_seven);
}

static void an_op_crashes(void)
{
    check_child(native_body, SIGSEGV,
                "headrace: SIGSEGV in thread hr-work-0: stage 'decode', item 7 "
                "('7')\n");
}

static void foreign_body(int fd)
{
    (void)fd;
    run_op(KIT_FOREIGN, 1, crash_at_seven);
}

/* Several calls are made in one stay: the one at work counts. */
static void a_foreign_call_crashes(void)
{
    check_child(foreign_body, SIGSEGV,
                "headrace: SIGSEGV in thread hr-work-0: stage 'decode', item 7 "
                "('7')\n");
}

static void expand_body(int fd)
{
    (void)fd;
    run_op(KIT_EXPAND, 1, crash_at_seven);
}

static void a_generator_crashes(void)
{
    check_child(expand_body, SIGSEGV,
                "headrace: SIGSEGV in thread hr-work-0: stage 'decode', item 7 "
                "('7')\n");
}

static void abort_body(int fd)
{
    (void)fd;
    run_op(KIT_NATIVE, 1, abort_at_seven);
}

static void an_op_aborts(void)
{
    check_child(abort_body, SIGABRT,
                "headrace: SIGABRT in thread hr-work-0: stage 'decode', item 7 "
                "('7')\n");
}

static void overflow_body(int fd)
{
    (void)fd;
    run_op(KIT_NATIVE, 1, overflow_at_seven);
}

static void a_stack_is_full(void)
{
    check_child(overflow_body, SIGSEGV,
                "headrace: SIGSEGV in thread hr-work-0: stage 'decode', item 7 "
                "('7')\n");
}

static void two_body(int fd)
{
    (void)fd;
    run_op(KIT_NATIVE, 2, wait_at_two_crash_at_three);
}

static void the_other_threads_are_told_of(void)
{
    struct ended ended;
    HR_REQUIRE(run_child(two_body, &ended));
    bool first = strstr(ended.text, "SIGSEGV in thread hr-work-0") != NULL;
    HR_CHECK_STR(ended.text,
                 first ? "headrace: SIGSEGV in thread hr-work-0: stage 'decode', "
                         "item 3 ('3')\n"
                         "headrace: thread hr-work-1: stage 'decode', item 2 ('2')\n"
                       : "headrace: SIGSEGV in thread hr-work-1: stage 'decode', "
                         "item 3 ('3')\n"
                         "headrace: thread hr-work-0: stage 'decode', item 2 "
                         "('2')\n");
    HR_CHECK_EQ_INT(WTERMSIG(ended.status), SIGSEGV);
}

static void main_thread_body(int fd)
{
    static struct kit_op op = {.hook = kit_gate_hook, .cookie = &other};
    static struct kit_source source = {.end = 10, .fail_at = -1, .fatal_at = -1};
    struct fake_settings settings = {0};
    struct kit_plan plan = {.source = &source,
                            .stages = {{.op = &op, .options = {.name = "decode"}}},
                            .count = 1,
                            .options = {.num_threads = 1},
                            .runtime = fake_begin(&settings)};
    (void)fd;
    (void)kit_start(&plan);
    kit_gate_await(&other);
    crash();
}

static void a_thread_of_no_pipeline_crashes(void)
{
    check_child(main_thread_body, SIGSEGV,
                "headrace: SIGSEGV in a thread of no pipeline\n"
                "headrace: thread hr-work-0: stage 'decode', item 0 ('0')\n");
}

static void idle_body(int fd)
{
    (void)fd;
    crash();
}

static void without_a_pipeline_nothing_is_said(void)
{
    check_child(idle_body, SIGSEGV, "");
}

static void disabled_body(int fd)
{
    (void)fd;
    hr_crash_report_disable();
    run_op(KIT_NATIVE, 1, crash_at_seven);
}

static void a_report_can_be_disabled(void)
{
    check_child(disabled_body, SIGSEGV, "");
}

/* ---- slots ---- */

static void crash_in_slot_two(void *cookie, size_t slot, struct hr_ctx *ctx)
{
    (void)cookie;
    (void)ctx;
    if (slot == 2)
        crash();
}

static enum hr_status slots_run(void *state, struct hr_ctx *ctx,
                                const struct hr_value *in, struct hr_value *out,
                                struct hr_error *err)
{
    (void)state;
    (void)out;
    (void)err;
    hr_ctx_for_each(ctx, hr_list_size(in), crash_in_slot_two, NULL);
    return HR_SKIP;
}

static void slots_body(int fd)
{
    static const char *const paths[] = {"a.jpg", "b.jpg", "dir/c\n.jpg", "d.jpg"};
    static const struct hr_op_class cls = {.name = "load", .run = slots_run};
    static const struct hr_stage_options options = {.concurrency = 1};
    static const struct hr_pipeline_options one_thread = {.num_threads = 1};
    struct hr_op op = {&cls, NULL};
    struct hr_plan *plan = NULL;
    struct hr_source source;
    struct hr_pipeline *p = NULL;
    (void)fd;
    if (hr_source_of_texts(paths, 4, &source, NULL) != HR_OK ||
        hr_plan_new(&plan, NULL) != HR_OK ||
        hr_plan_source(plan, &source, NULL) != HR_OK ||
        hr_plan_aggregate(plan, 4, 0, 0, NULL) != HR_OK ||
        hr_plan_pipe(plan, &op, &options, NULL) != HR_OK ||
        hr_plan_sink(plan, 3, NULL) != HR_OK ||
        hr_pipeline_new(&plan, &one_thread, &p, NULL) != HR_OK ||
        hr_pipeline_start(p, NULL) != HR_OK)
        _exit(1);
    drain(p, false);
}

/* Of a batch, the picture is named; what would break the line is not written. */
static void a_slot_crashes(void)
{
    check_child(slots_body, SIGSEGV,
                "headrace: SIGSEGV in thread hr-work-0: stage 'load', item 0, slot 2 "
                "('dir/c?.jpg')\n");
}

/* ---- sources ---- */

static void crash_before_seven(void *cookie, long number)
{
    (void)cookie;
    if (number == 7)
        crash();
}

static void run_source(enum kit_kind kind, bool attached)
{
    struct fake_settings settings = {0};
    struct kit_source source = {
        .end = 10, .fail_at = -1, .fatal_at = -1, .hook = crash_before_seven};
    struct kit_op op = {0};
    struct kit_plan plan = {.source = &source,
                            .foreign_source = true,
                            .stages = {{.kind = kind, .op = &op}},
                            .count = 1,
                            .options = {.num_threads = 1},
                            .runtime = fake_begin(&settings)};
    drain(kit_start(&plan), attached);
}

static void consumer_body(int fd)
{
    (void)fd;
    run_source(KIT_NATIVE, true);
}

static void leader_body(int fd)
{
    (void)fd;
    run_source(KIT_FOREIGN, false);
}

/* It may be the helper that advances it, the consumer, or a worker that is attached;
 * others may be at work. */
static void a_source_crashes(void)
{
    static const char tail[] = ": stage 'source', item 7\n";
    for (int i = 0; i < 10; i++) {
        struct ended ended;
        HR_REQUIRE(run_child(i % 2 ? leader_body : consumer_body, &ended));
        char *at = strstr(ended.text, tail);
        HR_REQUIRE(at);
        *at = '\0';
        HR_CHECK(strcmp(ended.text, "headrace: SIGSEGV in thread hr-source") == 0 ||
                 strcmp(ended.text, "headrace: SIGSEGV in thread hr-work-0") == 0 ||
                 strcmp(ended.text, "headrace: SIGSEGV in a consumer's thread") == 0);
        HR_CHECK_EQ_INT(WTERMSIG(ended.status), SIGSEGV);
    }
}

/* ---- who comes next ---- */

static int before_fd;

static void say_before(int number)
{
    (void)number;
    (void)!write(before_fd, "the one before\n", 15);
    _exit(3);
}

static void chained_body(int fd)
{
    before_fd = fd;
    hr_crash_report_disable();
    (void)signal(SIGSEGV, say_before);
    hr_crash_report_enable(fd);
    run_op(KIT_NATIVE, 1, crash_at_seven);
}

static void chained_abort_body(int fd)
{
    before_fd = fd;
    hr_crash_report_disable();
    (void)signal(SIGABRT, say_before);
    hr_crash_report_enable(fd);
    run_op(KIT_NATIVE, 1, abort_at_seven);
}

static void check_chain(void (*body)(int fd), const char *text)
{
    struct ended ended;
    HR_REQUIRE(run_child(body, &ended));
    HR_CHECK_STR(ended.text, text);
    HR_CHECK(WIFEXITED(ended.status));
    HR_CHECK_EQ_INT(WEXITSTATUS(ended.status), 3);
}

static void the_handler_before_comes_next(void)
{
    check_chain(chained_body, "headrace: SIGSEGV in thread hr-work-0: stage 'decode', "
                              "item 7 ('7')\nthe one before\n");
    check_chain(chained_abort_body, "headrace: SIGABRT in thread hr-work-0: stage "
                                    "'decode', item 7 ('7')\nthe one before\n");
}

#ifndef __SANITIZE_THREAD__ /* whose own handler does not take a second fault */
static void broken_report_body(int fd)
{
    before_fd = fd;
    hr_crash_report_disable();
    (void)signal(SIGSEGV, say_before);
    hr_crash_report_enable(fd);
    run_op(KIT_NATIVE, 1, crash_without_a_trail);
}

static void a_fault_in_the_report_ends_it(void)
{
    check_chain(broken_report_body, "the one before\n");
}
#endif

static struct sigaction passed_on;

/* As faulthandler does it. */
static void pass_on(int number)
{
    (void)!write(before_fd, "in between\n", 11);
    (void)sigaction(number, &passed_on, NULL);
    (void)raise(number);
}

static void circle_body(int fd)
{
    struct sigaction between = {.sa_handler = pass_on, .sa_flags = SA_NODEFER};
    before_fd = fd;
    (void)sigaction(SIGSEGV, &between, &passed_on); /* we come after it, */
    hr_crash_report_enable(fd);                     /* and before it */
    run_op(KIT_NATIVE, 1, crash_at_seven);
}

static void two_that_point_at_each_other_end(void)
{
    check_child(circle_body, SIGSEGV,
                "headrace: SIGSEGV in thread hr-work-0: stage 'decode', item 7 "
                "('7')\nin between\n");
}

/* ---- fork ---- */

static void fork_body(int fd)
{
    static struct kit_op op = {.hook = kit_gate_hook, .cookie = &other};
    static struct kit_source source = {.end = 10, .fail_at = -1, .fatal_at = -1};
    struct fake_settings settings = {0};
    struct kit_plan plan = {.source = &source,
                            .stages = {{.op = &op}},
                            .count = 1,
                            .options = {.num_threads = 1},
                            .runtime = fake_begin(&settings)};
    int status = 0;
    (void)fd;
    (void)kit_start(&plan);
    kit_gate_await(&other);
    pid_t pid = fork();
    if (pid == 0)
        crash();
    if (waitpid(pid, &status, 0) == pid && WIFSIGNALED(status))
        (void)raise(WTERMSIG(status));
}

/* Its threads are not there: the child says nothing, and its parent that it was sent. */
static void a_child_of_fork_has_no_threads(void)
{
    check_child(fork_body, SIGSEGV,
                "headrace: SIGSEGV in a thread of no pipeline\n"
                "headrace: thread hr-work-0: stage 'op', item 0 ('0')\n");
}

static const struct hr_test tests[] = {
    HR_TEST(an_op_crashes),
    HR_TEST(a_foreign_call_crashes),
    HR_TEST(a_generator_crashes),
    HR_TEST(an_op_aborts),
    HR_TEST(a_stack_is_full),
    HR_TEST(the_other_threads_are_told_of),
    HR_TEST(a_thread_of_no_pipeline_crashes),
    HR_TEST(without_a_pipeline_nothing_is_said),
    HR_TEST(a_report_can_be_disabled),
    HR_TEST(a_slot_crashes),
    HR_TEST(a_source_crashes),
    HR_TEST(the_handler_before_comes_next),
#ifndef __SANITIZE_THREAD__
    HR_TEST(a_fault_in_the_report_ends_it),
#endif
    HR_TEST(two_that_point_at_each_other_end),
    HR_TEST(a_child_of_fork_has_no_threads),
};
HR_TEST_MAIN(tests)
