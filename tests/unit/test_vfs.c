/* test_vfs.c - the operating system's table, in a temporary directory. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "storage/vfs.h"

struct place {
    const struct ps_vfs *vfs;
    char dir[64];
    char path[96];
};

static int set_up(void **state)
{
    struct place *p = calloc(1, sizeof(*p));

    assert_non_null(p);
    p->vfs = ps_vfs_posix();
    snprintf(p->dir, sizeof(p->dir), "/tmp/pando-vfs-XXXXXX");
    assert_non_null(mkdtemp(p->dir));
    snprintf(p->path, sizeof(p->path), "%s/file", p->dir);
    *state = p;
    return 0;
}

static int tear_down(void **state)
{
    struct place *p = *state;

    (void)unlink(p->path);
    assert_int_equal(rmdir(p->dir), 0);
    free(p);
    return 0;
}

static int create(struct place *p)
{
    int fd = p->vfs->open(p->vfs->ctx, p->path, O_RDWR | O_CREAT, 0600);

    assert_true(fd >= 0);
    return fd;
}

static void what_was_written_is_read_and_reading_beyond_the_end_is_short(void **state)
{
    struct place *p = *state;
    int fd = create(p);
    uint64_t size;
    char buf[16];

    assert_int_equal(p->vfs->pwrite(p->vfs->ctx, fd, "0123456789", 10, 5), 0);
    assert_int_equal(p->vfs->size(p->vfs->ctx, fd, &size), 0);
    assert_int_equal(size, 15);
    assert_int_equal(p->vfs->pread(p->vfs->ctx, fd, buf, 16, 5), 10);
    assert_memory_equal(buf, "0123456789", 10);
    assert_int_equal(p->vfs->pread(p->vfs->ctx, fd, buf, 16, 15), 0);
    assert_int_equal(p->vfs->fdatasync(p->vfs->ctx, fd), 0);
    assert_int_equal(p->vfs->fsync(p->vfs->ctx, fd), 0);
    assert_int_equal(p->vfs->sync_file_range(p->vfs->ctx, fd, 0, 15), 0);
    assert_int_equal(p->vfs->close(p->vfs->ctx, fd), 0);
    assert_int_equal(p->vfs->sync_dir(p->vfs->ctx, p->dir), 0);
}

static void no_file_gets_the_number_of_a_standard_stream(void **state)
{
    struct place *p = *state;
    int input = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    int fd, flags, next;

    assert_true(input > STDERR_FILENO);
    assert_int_equal(close(STDIN_FILENO), 0);
    fd = p->vfs->open(p->vfs->ctx, p->path, O_RDWR | O_CREAT, 0600);
    flags = fcntl(fd, F_GETFD);
    next = dup(input); /* the lowest number is free still */
    assert_int_equal(dup2(input, STDIN_FILENO), STDIN_FILENO);
    assert_int_equal(close(input), 0);
    assert_true(fd > STDERR_FILENO);
    assert_int_equal(flags & FD_CLOEXEC, FD_CLOEXEC);
    assert_int_equal(next, STDIN_FILENO);
    assert_int_equal(p->vfs->pwrite(p->vfs->ctx, fd, "x", 1, 0), 0);
    assert_int_equal(p->vfs->close(p->vfs->ctx, fd), 0);
}

static void a_pipe_in_a_files_place_is_an_error_and_not_waited_for(void **state)
{
    struct place *p = *state;
    char byte;
    int fd;

    assert_int_equal(mkfifo(p->path, 0600), 0);
    (void)alarm(60);
    fd = p->vfs->open(p->vfs->ctx, p->path, O_RDONLY, 0);
    (void)alarm(0);
    assert_true(fd >= 0);
    assert_int_equal(p->vfs->pread(p->vfs->ctx, fd, &byte, 1, 0), -ESPIPE);
    assert_int_equal(p->vfs->close(p->vfs->ctx, fd), 0);
}

static void errors_are_negative_errnos(void **state)
{
    struct place *p = *state;
    char missing[128], buf[1];

    snprintf(missing, sizeof(missing), "%s/none", p->dir);
    assert_int_equal(p->vfs->open(p->vfs->ctx, missing, O_RDONLY, 0), -ENOENT);
    assert_int_equal(p->vfs->unlink(p->vfs->ctx, missing), -ENOENT);
    assert_int_equal(p->vfs->rename(p->vfs->ctx, missing, p->path), -ENOENT);
    assert_int_equal(p->vfs->mkdir(p->vfs->ctx, p->dir, 0700), -EEXIST);
    assert_int_equal(p->vfs->sync_dir(p->vfs->ctx, missing), -ENOENT);
    assert_int_equal(p->vfs->list(p->vfs->ctx, missing, NULL, NULL), -ENOENT);
    assert_int_equal(p->vfs->pread(p->vfs->ctx, -1, buf, 1, 0), -EBADF);
    assert_int_equal(p->vfs->pwrite(p->vfs->ctx, -1, buf, 1, 0), -EBADF);
    assert_int_equal(p->vfs->fdatasync(p->vfs->ctx, -1), -EBADF);
}

/* A file size limit makes the kernel write short before it refuses. */
static void a_short_write_is_completed_or_refused_whole(void **state)
{
    struct place *p = *state;
    int fd = create(p);
    struct rlimit old, small;
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    char *bytes = calloc(1, 8192);

    assert_non_null(bytes);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    small = old;
    small.rlim_cur = 5000;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    assert_int_equal(p->vfs->pwrite(p->vfs->ctx, fd, bytes, 8192, 0), -EFBIG);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    assert_int_equal(p->vfs->pwrite(p->vfs->ctx, fd, bytes, 8192, 0), 0);
    (void)signal(SIGXFSZ, handler);
    assert_int_equal(p->vfs->close(p->vfs->ctx, fd), 0);
    free(bytes);
}

static void allocation_extends_with_zeros(void **state)
{
    struct place *p = *state;
    int fd = create(p);
    uint64_t size;
    char buf[100], zeros[100] = {0};

    assert_int_equal(p->vfs->fallocate(p->vfs->ctx, fd, 0, 1 << 20), 0);
    assert_int_equal(p->vfs->size(p->vfs->ctx, fd, &size), 0);
    assert_int_equal(size, 1 << 20);
    assert_int_equal(p->vfs->pread(p->vfs->ctx, fd, buf, 100, (1 << 20) - 100), 100);
    assert_memory_equal(buf, zeros, 100);
    assert_int_equal(p->vfs->ftruncate(p->vfs->ctx, fd, 50), 0);
    assert_int_equal(p->vfs->pread(p->vfs->ctx, fd, buf, 100, 0), 50);
    assert_int_equal(p->vfs->close(p->vfs->ctx, fd), 0);
}

static void a_mapping_reaches_beyond_the_end_and_sees_later_writes(void **state)
{
    struct place *p = *state;
    int fd = create(p);
    void *address;

    assert_int_equal(p->vfs->pwrite(p->vfs->ctx, fd, "old", 3, 0), 0);
    assert_int_equal(p->vfs->mmap(p->vfs->ctx, fd, (size_t)1 << 34, &address), 0);
    assert_memory_equal(address, "old", 3);
    assert_int_equal(p->vfs->pwrite(p->vfs->ctx, fd, "new", 3, 0), 0);
    assert_int_equal(p->vfs->pwrite(p->vfs->ctx, fd, "far", 3, 1 << 20), 0);
    assert_memory_equal(address, "new", 3);
    assert_memory_equal((char *)address + (1 << 20), "far", 3);
    assert_int_equal(p->vfs->munmap(p->vfs->ctx, address, (size_t)1 << 34), 0);
    assert_int_equal(p->vfs->close(p->vfs->ctx, fd), 0);
}

static void what_was_just_written_is_in_memory_and_what_is_beyond_the_end_is_not(void **state)
{
    struct place *p = *state;
    int fd = create(p);
    enum { LEN = 4 * 65536 };
    unsigned char there[LEN / 4096];
    void *address;

    assert_int_equal(p->vfs->pwrite(p->vfs->ctx, fd, "new", 3, 0), 0);
    assert_int_equal(p->vfs->mmap(p->vfs->ctx, fd, LEN, &address), 0);
    assert_int_equal(p->vfs->resident(p->vfs->ctx, address, LEN, there), 0);
    assert_int_equal(there[0] & 1, 1);
    assert_int_equal(there[65536 / 4096] & 1, 0);
    p->vfs->prefetch(p->vfs->ctx, (char *)address + 1, 2);
    assert_int_equal(p->vfs->munmap(p->vfs->ctx, address, LEN), 0);
    assert_int_equal(p->vfs->close(p->vfs->ctx, fd), 0);
}

static void a_lock_holds_against_a_second_open_in_the_same_process(void **state)
{
    struct place *p = *state;
    int first = create(p), second = create(p);

    assert_int_equal(p->vfs->lock(p->vfs->ctx, first), 0);
    assert_int_equal(p->vfs->lock(p->vfs->ctx, second), -EWOULDBLOCK);
    assert_int_equal(p->vfs->close(p->vfs->ctx, first), 0);
    assert_int_equal(p->vfs->lock(p->vfs->ctx, second), 0);
    assert_int_equal(p->vfs->close(p->vfs->ctx, second), 0);
}

static void count_name(void *arg, const char *name)
{
    assert_true(strcmp(name, "file") == 0 || strcmp(name, "moved") == 0);
    ++*(int *)arg;
}

static void names_are_listed_moved_and_removed(void **state)
{
    struct place *p = *state;
    char moved[128];
    int count = 0;

    snprintf(moved, sizeof(moved), "%s/moved", p->dir);
    assert_int_equal(p->vfs->close(p->vfs->ctx, create(p)), 0);
    assert_int_equal(p->vfs->rename(p->vfs->ctx, p->path, moved), 0);
    assert_int_equal(p->vfs->close(p->vfs->ctx, create(p)), 0);
    assert_int_equal(p->vfs->list(p->vfs->ctx, p->dir, count_name, &count), 0);
    assert_int_equal(count, 2);
    assert_int_equal(p->vfs->unlink(p->vfs->ctx, moved), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_was_written_is_read_and_reading_beyond_the_end_is_short),
        TEST(no_file_gets_the_number_of_a_standard_stream),
        TEST(a_pipe_in_a_files_place_is_an_error_and_not_waited_for),
        TEST(errors_are_negative_errnos),
        TEST(a_short_write_is_completed_or_refused_whole),
        TEST(allocation_extends_with_zeros),
        TEST(a_mapping_reaches_beyond_the_end_and_sees_later_writes),
        TEST(what_was_just_written_is_in_memory_and_what_is_beyond_the_end_is_not),
        TEST(a_lock_holds_against_a_second_open_in_the_same_process),
        TEST(names_are_listed_moved_and_removed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
