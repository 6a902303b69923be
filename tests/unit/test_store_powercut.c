/*
 * test_store_powercut.c - what a loss of power leaves of a store's making and of its reopening.
 *
 * Each of these was found by tests/powerloss; here each is one test by itself.
 */
#include "storage/vfs.h"
#include "tests/support/fault_vfs.h"
#include "tests/support/store_fixture.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#define META 512u
#define B    65536u /* where meta B is */

static int data_file(struct fixture *f)
{
    char path[STORE_DIR_PATH + 16];
    snprintf(path, sizeof path, "%s/pando.db", f->dir);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    return fd;
}

static void fill_with(struct fixture *f, uint64_t offset, size_t len, int byte)
{
    unsigned char bytes[META];
    int fd = data_file(f);
    assert_true(len <= sizeof bytes);
    memset(bytes, byte, len);
    assert_int_equal(pwrite(fd, bytes, len, (off_t)offset), len);
    close(fd);
}

static int open_again(struct fixture *f, struct ps_fault *fault)
{
    memset(fault, 0, sizeof *fault);
    return ps_open(f->dir, &f->options, &f->store, &f->recovery, fault);
}

/* ---- a store in the making --------------------------------------------------------------------
 */

struct watched {
    struct ps_vfs vfs;
    pthread_mutex_t lock; /* the log thread syncs the directory, too */
    char synced[8][STORE_DIR_PATH];
    unsigned n;
    const char *fails; /* syncing this directory answers so */
    int with;
};

static int note_sync_dir(void *ctx, const char *path)
{
    struct watched *w = ctx;
    pthread_mutex_lock(&w->lock);
    if (w->n < 8)
        snprintf(w->synced[w->n++], STORE_DIR_PATH, "%s", path);
    pthread_mutex_unlock(&w->lock);
    return w->fails != NULL && strcmp(w->fails, path) == 0 ? w->with : 0;
}

static bool was_synced(struct watched *w, const char *path)
{
    bool found = false;
    pthread_mutex_lock(&w->lock);
    for (unsigned i = 0; i < w->n; i++)
        found |= strcmp(w->synced[i], path) == 0;
    pthread_mutex_unlock(&w->lock);
    return found;
}

/* Else the whole directory may be gone, commits and all. Also when it is there already: whoever
 * made it may have been killed before this. */
static void the_directorys_own_name_is_synced_before_a_store_is_served(void **state)
{
    struct fixture *f = *state;
    char above[STORE_DIR_PATH];
    struct watched w = {.vfs = *ps_vfs_posix(), .lock = PTHREAD_MUTEX_INITIALIZER};
    snprintf(above, sizeof above, "%s", f->dir);
    snprintf(f->dir + strlen(f->dir), 8, "/new");
    w.vfs.ctx = &w;
    w.vfs.sync_dir = note_sync_dir;
    f->options.vfs = &w.vfs;
    for (unsigned again = 0; again < 2; again++) {
        w.n = 0;
        fixture_open(f);
        assert_true(was_synced(&w, f->dir));
        assert_true(was_synced(&w, above));
        fixture_close(f, false);
    }
    store_dir_remove(f->dir);
    snprintf(f->dir, sizeof f->dir, "%s", above);
}

/* A directory that a service may not read was made for it, by somebody else. */
static void a_directory_above_that_may_not_be_read_is_no_obstacle(void **state)
{
    static const int errors[] = {-EACCES, -EPERM, -EROFS, -EIO};
    struct fixture *f = *state;
    char above[STORE_DIR_PATH];
    struct watched w = {.vfs = *ps_vfs_posix(), .lock = PTHREAD_MUTEX_INITIALIZER, .fails = above};
    struct ps_fault fault;
    snprintf(above, sizeof above, "%s", f->dir);
    snprintf(f->dir + strlen(f->dir), 8, "/new");
    w.vfs.ctx = &w;
    w.vfs.sync_dir = note_sync_dir;
    f->options.vfs = &w.vfs;
    for (unsigned i = 0; i < 4; i++) {
        w.with = errors[i];
        assert_int_equal(open_again(f, &fault), errors[i] == -EIO ? PS_IO : 0);
        if (errors[i] != -EIO)
            fixture_close(f, false);
    }
    w.fails = f->dir; /* its own directory, though, must be synced */
    w.with = -EACCES;
    assert_int_not_equal(open_again(f, &fault), 0);
    store_dir_remove(f->dir);
    snprintf(f->dir, sizeof f->dir, "%s", above);
}

/* The first meta is written, and synced, before the second is begun. */
static void a_store_in_whose_making_the_first_meta_was_torn_is_made_anew(void **state)
{
    struct fixture *f = *state;
    struct ps_fault fault;
    fixture_open(f);
    fixture_close(f, false);
    fill_with(f, B, META, 0);
    fill_with(f, 100, 300, 0);
    assert_int_equal(open_again(f, &fault), 0);
    assert_true(f->recovery.created);
    fixture_close(f, false);
}

static void a_file_with_other_bytes_after_a_torn_meta_is_refused(void **state)
{
    struct fixture *f = *state;
    struct ps_fault fault;
    fixture_open(f);
    fixture_close(f, false);
    fill_with(f, B, META, 0);
    fill_with(f, 100, META, 7); /* beyond its sector, too */
    assert_int_equal(open_again(f, &fault), PS_CORRUPT);
    assert_non_null(strstr(fault.what, "neither meta is valid"));
}

static void remove_segments(struct fixture *f)
{
    char path[STORE_DIR_PATH + 300];
    DIR *dir = opendir(f->dir);
    assert_non_null(dir);
    for (struct dirent *e; (e = readdir(dir)) != NULL;)
        if (strncmp(e->d_name, "log-", 4) == 0) {
            snprintf(path, sizeof path, "%s/%s", f->dir, e->d_name);
            assert_int_equal(unlink(path), 0);
        }
    closedir(dir);
}

static void a_torn_meta_without_a_log_is_somebody_elses_file(void **state)
{
    struct fixture *f = *state;
    struct ps_fault fault;
    fixture_open(f);
    fixture_close(f, false);
    fill_with(f, B, META, 0);
    fill_with(f, 100, 300, 0);
    remove_segments(f);
    assert_int_equal(open_again(f, &fault), PS_CORRUPT);
}

/* ---- reopening --------------------------------------------------------------------------------
 */

static void read_meta(struct fixture *f, uint64_t offset, unsigned char bytes[META])
{
    int fd = data_file(f);
    assert_int_equal(pread(fd, bytes, META, (off_t)offset), META);
    close(fd);
}

/* Meta B was torn; writing A again, of which only a half arrives, must not come before B is whole.
 */
static void reopening_writes_the_damaged_meta_before_the_good_one(void **state)
{
    struct fixture *f = *state;
    struct ps_fault fault;
    unsigned char before[META], after[META];
    for (unsigned damaged = 0; damaged < 2; damaged++) {
        struct fault_vfs *faults = fault_vfs_new();
        fixture_put(f, "a", "1");
        fixture_close(f, true);
        fixture_open(f); /* the log goes on elsewhere: the metas will name another place of it */
        fixture_close(f, false);
        fill_with(f, damaged * B, META, 0x5a);
        read_meta(f, (1 - damaged) * B, before);
        fault_vfs_fail(faults, FAULT_PWRITE, FAULT_DATA, 1, EIO, false);
        f->options.vfs = fault_vfs(faults);
        assert_int_not_equal(open_again(f, &fault), 0);
        assert_int_equal(fault_vfs_failed(faults), 1);
        f->options.vfs = NULL;
        read_meta(f, (1 - damaged) * B, after);
        assert_memory_equal(before, after, META);
        assert_int_equal(open_again(f, &fault), 0);
        fault_vfs_free(faults);
    }
}

/* If syncs failed, only the other one is sure to be on the device. */
static void reopening_writes_the_meta_that_it_took_before_the_other_good_one(void **state)
{
    struct fixture *f = *state;
    struct ps_fault fault;
    unsigned char before[2][META], after[2][META];
    struct fault_vfs *faults = fault_vfs_new();
    fixture_put(f, "a", "1");
    fixture_close(f, true);
    fixture_open(f); /* the log goes on elsewhere: the metas will name another place of it */
    fixture_close(f, false);
    for (unsigned k = 0; k < 2; k++)
        read_meta(f, k * B, before[k]);
    fault_vfs_fail(faults, FAULT_PWRITE, FAULT_DATA, 1, EIO, false);
    f->options.vfs = fault_vfs(faults);
    assert_int_not_equal(open_again(f, &fault), 0);
    f->options.vfs = NULL;
    for (unsigned k = 0; k < 2; k++)
        read_meta(f, k * B, after[k]);
    assert_memory_not_equal(before[0], after[0], META);
    assert_memory_equal(before[1], after[1], META);
    assert_int_equal(open_again(f, &fault), 0);
    fault_vfs_free(faults);
}

/* A stamp that says a page's birth must not come twice, whatever became of the first one. */
static void two_recoveries_from_the_same_meta_use_no_stamp_twice(void **state)
{
    struct fixture *f = *state;
    uint64_t stamps[2];
    fixture_put(f, "a", "1");
    for (unsigned i = 0; i < 2; i++) {
        char copy[STORE_DIR_PATH], left[STORE_DIR_PATH];
        struct ps_stat stat;
        fixture_close(f, false);
        snprintf(copy, sizeof copy, "%.200s-copy", f->dir);
        store_dir_copy(f->dir, copy);
        memcpy(left, f->dir, sizeof left);
        memcpy(f->dir, copy, sizeof copy);
        fixture_open(f);
        fixture_put(f, "b", "2");
        struct ps_snapshot *snap = fixture_snapshot(f);
        ps_stats(f->store, &stat);
        stamps[i] = stat.oldest_snapshot_stamp;
        ps_snapshot_free(snap);
        fixture_close(f, false);
        store_dir_remove(copy);
        memcpy(f->dir, left, sizeof left);
        fixture_open(f);
    }
    assert_true(stamps[0] != stamps[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        DIRECTORY_TEST(the_directorys_own_name_is_synced_before_a_store_is_served),
        DIRECTORY_TEST(a_directory_above_that_may_not_be_read_is_no_obstacle),
        DIRECTORY_TEST(a_store_in_whose_making_the_first_meta_was_torn_is_made_anew),
        DIRECTORY_TEST(a_file_with_other_bytes_after_a_torn_meta_is_refused),
        DIRECTORY_TEST(a_torn_meta_without_a_log_is_somebody_elses_file),
        STORE_TEST(reopening_writes_the_damaged_meta_before_the_good_one),
        STORE_TEST(reopening_writes_the_meta_that_it_took_before_the_other_good_one),
        STORE_TEST(two_recoveries_from_the_same_meta_use_no_stamp_twice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
