/* Files (I3, I5): what is read, what is refused, and a system that misbehaves. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/sys.h"
#include "fault.h"
#include "hr_test.h"
#include "headrace/file.h"

static char folder[64];

static const char *in_folder(const char *name)
{
    static char path[512];

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    return path;
}

/* A file of n bytes, byte i being i * 7. */
static const char *make_file(const char *name, size_t n)
{
    const char *path = in_folder(name);
    FILE *f = fopen(path, "wb");

    if (f == NULL)
        abort();
    for (size_t i = 0; i < n; i++)
        fputc((int)(i * 7 & 255), f);
    fclose(f);
    return path;
}

static void check_read(const char *path, size_t n)
{
    struct hr_buffer *buffer;
    struct hr_error err = {0};
    const uint8_t *data;

    HR_CHECK_EQ_INT(hr_file_read(path, 1 << 20, &buffer, &err), HR_OK);
    HR_CHECK_STR(err.text, "");
    HR_REQUIRE(buffer != NULL);
    data = hr_buffer_data(buffer);
    HR_CHECK_EQ_INT(hr_buffer_size(buffer), n);
    for (size_t i = 0; i < n; i++)
        HR_CHECK_EQ_INT(data[i], i * 7 & 255);
    for (size_t i = n; i < n + 64; i++)
        HR_CHECK_EQ_INT(data[i], 0);
    hr_buffer_unref(&buffer);
}

static void check_refused(const char *path, enum hr_status want, int code,
                          const char *part)
{
    struct hr_buffer *buffer;
    struct hr_error err = {0};

    HR_CHECK_EQ_INT(hr_file_read(path, 1000, &buffer, &err), want);
    HR_CHECK(buffer == NULL);
    HR_CHECK_EQ_INT(err.code, code);
    HR_CHECK_STR(err.origin, "file");
    HR_CHECK(strstr(err.text, part) != NULL);
}

static void files_are_read_whole(void)
{
    check_read(make_file("empty", 0), 0);
    check_read(make_file("one", 1), 1);
    check_read(make_file("many", 70000), 70000);
    check_read(make_file("\xff\xfe not UTF-8 \n", 10), 10);
}

static void what_is_no_regular_file_is_refused(void)
{
    const char *path;

    check_refused(folder, HR_ERR_FORMAT, 0, "is a directory");
    check_refused("/dev/zero", HR_ERR_FORMAT, 0, "is a device");
    path = in_folder("fifo");
    HR_REQUIRE(mkfifo(path, 0600) == 0);
    check_refused(path, HR_ERR_FORMAT, 0, "is a FIFO"); /* at once: nobody writes */
}

static void what_cannot_be_opened_says_why(void)
{
    char longest[5000];
    const char *path;

    check_refused(in_folder("missing"), HR_ERR_IO, ENOENT, "No such file");
    path = in_folder("loop");
    HR_REQUIRE(symlink("loop", path) == 0);
    check_refused(path, HR_ERR_IO, ELOOP, "cannot open");
    memset(longest, 'a', sizeof(longest) - 1);
    longest[sizeof(longest) - 1] = '\0';
    check_refused(longest, HR_ERR_IO, ENAMETOOLONG, "cannot open");
}

static void the_limit_is_kept(void)
{
    check_refused(make_file("large", 1001), HR_ERR_LIMIT, 0,
                  "has 1001 bytes, the limit is 1000");
}

/* ---- a system that misbehaves ---- */

static int calls;

static ssize_t slow_read(int fd, void *buf, size_t count, off_t offset)
{
    if (calls++ % 2 == 0) {
        errno = EINTR;
        return -1;
    }
    return hr__sys_direct.file_read_at(fd, buf, count < 7 ? count : 7, offset);
}

static void short_and_interrupted_reads_go_on(void)
{
    const char *path = make_file("slow", 100);

    calls = 0;
    hr__sys.file_read_at = slow_read;
    check_read(path, 100);
    hr__sys = hr__sys_direct;
    HR_CHECK_EQ_INT(calls, 30); /* 15 pieces of up to 7 bytes, each interrupted once */
}

static int growing_stat(int fd, struct stat *st)
{
    int result = hr__sys_direct.file_stat(fd, st);

    if (calls++ > 0)
        st->st_size += 5;
    return result;
}

static int shrinking_stat(int fd, struct stat *st)
{
    int result = hr__sys_direct.file_stat(fd, st);

    st->st_size += 5; /* it seemed longer than what can be read */
    return result;
}

static void a_file_that_changes_is_an_error(void)
{
    const char *path = make_file("moving", 100);

    calls = 0;
    hr__sys.file_stat = growing_stat;
    check_refused(path, HR_ERR_FORMAT, 0,
                  "changed from 100 to 105 bytes while it was read");
    hr__sys.file_stat = shrinking_stat;
    check_refused(path, HR_ERR_FORMAT, 0, "ends after 100 of 105 bytes");
    hr__sys = hr__sys_direct;
}

static enum hr_status read_once(void *cookie)
{
    struct hr_buffer *buffer;
    enum hr_status status = hr_file_read(cookie, 1000, &buffer, NULL);

    hr_buffer_unref(&buffer);
    return status;
}

static int open_descriptors(void)
{
    int n = 0;

    for (int fd = 0; fd < 100; fd++)
        n += fcntl(fd, F_GETFD) != -1;
    return n;
}

static void every_failing_call_is_reported_and_nothing_is_left(void)
{
    char path[512];
    int failures = 0;
    int before = open_descriptors();

    snprintf(path, sizeof(path), "%s", make_file("faulty", 100));
    HR_CHECK(fault_loop(FAULT_MEMORY, read_once, path, &failures) > 0);
    HR_CHECK_EQ_INT(failures, 0);
    HR_CHECK_EQ_INT(open_descriptors(), before);
    HR_CHECK(fault_loop(FAULT_FILE, read_once, path, &failures) > 3);
    HR_CHECK_EQ_INT(failures, 0);
}

static void the_op_takes_a_path_alone(void)
{
    struct hr_op op;
    struct hr_ctx *ctx;
    struct hr_value in;
    struct hr_value out;
    struct hr_value none;
    struct hr_error err = {0};
    const char *path = make_file("op", 12);

    HR_REQUIRE(hr_ctx_new(&ctx, NULL) == HR_OK);
    HR_REQUIRE(hr_file_read_op(0, &op, NULL) == HR_OK);
    HR_REQUIRE(hr_text_new(path, strlen(path), &in) == HR_OK);
    HR_CHECK_EQ_INT(op.cls->run(op.state, ctx, &in, &out, &err), HR_OK);
    HR_CHECK_STR(hr_value_kind(&out), "bytes");
    HR_CHECK_EQ_INT(hr_buffer_size(hr_value_peek_bytes(&out)), 12);
    HR_CHECK_EQ_INT(op.cls->run(op.state, ctx, &out, &none, &err), HR_ERR_TYPE);
    HR_CHECK(none.cls == NULL);
    HR_CHECK_STR(err.text, "read_file: expected a path, got bytes");
    hr_value_release(&out);
    hr_value_release(&in);
    hr_op_free(&op);
    hr_ctx_free(&ctx);
}

static const struct hr_test tests[] = {
    HR_TEST(files_are_read_whole),
    HR_TEST(what_is_no_regular_file_is_refused),
    HR_TEST(what_cannot_be_opened_says_why),
    HR_TEST(the_limit_is_kept),
    HR_TEST(short_and_interrupted_reads_go_on),
    HR_TEST(a_file_that_changes_is_an_error),
    HR_TEST(every_failing_call_is_reported_and_nothing_is_left),
    HR_TEST(the_op_takes_a_path_alone),
};

static void remove_folder(void)
{
    DIR *dir = opendir(folder);
    const struct dirent *entry;

    while (dir != NULL && (entry = readdir(dir)) != NULL)
        (void)unlink(in_folder(entry->d_name));
    if (dir != NULL)
        closedir(dir);
    (void)rmdir(folder);
}

int main(int argc, char **argv)
{
    int status;

    snprintf(folder, sizeof(folder), "/tmp/headrace-file-test-XXXXXX");
    if (mkdtemp(folder) == NULL)
        return 1;
    status = hr_test_main(tests, (int)(sizeof(tests) / sizeof(tests[0])), argc, argv);
    remove_folder();
    return status;
}
