/*
 * test_image.c - the data file as memory that sanitizers see (storage/image.c, storage/poison.h).
 *
 * The second half proves that they do: this program runs itself as a child that breaks a rule of
 * the engine on purpose, and expects the report; and once more without breaking it, and expects
 * none. In a build without a sanitizer, or with the file mapped, nobody watches, and there is none
 * either.
 */
#include "tests/support/store_fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <spawn.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "storage/image.h"
#include "storage/store.h"
#include "tests/support/fault_vfs.h"

#if defined(__SANITIZE_THREAD__)
#define WATCHES_THREADS 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define WATCHES_THREADS 1
#endif
#endif
#ifndef WATCHES_THREADS
#define WATCHES_THREADS 0
#endif

#if defined(__SANITIZE_ADDRESS__)
#define WATCHES_ADDRESSES 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define WATCHES_ADDRESSES 1
#endif
#endif
#ifndef WATCHES_ADDRESSES
#define WATCHES_ADDRESSES 0
#endif

extern char **environ;

/* ---- the memory holds what the file does ------------------------------------------------------
 */

#define RESERVED (1u << 20)

struct file {
    char dir[STORE_DIR_PATH], path[STORE_DIR_PATH + 16];
    struct fault_vfs *faults;
    struct image *image;
    const struct ps_vfs *vfs;
    int fd;
    uint8_t *memory;
};

static int file_set_up(void **state)
{
    struct file *f = calloc(1, sizeof *f);
    assert_non_null(f);
    store_dir_make(f->dir, "pando-image");
    snprintf(f->path, sizeof f->path, "%s/pando.db", f->dir);
    f->faults = fault_vfs_new();
    f->image = image_new(fault_vfs(f->faults));
    assert_non_null(f->image);
    f->vfs = image_vfs(f->image);
    f->fd = f->vfs->open(f->vfs->ctx, f->path, O_RDWR | O_CREAT, 0600);
    assert_true(f->fd >= 0);
    assert_int_equal(f->vfs->pwrite(f->vfs->ctx, f->fd, "before", 6, 4096), 0);
    void *at;
    assert_int_equal(f->vfs->mmap(f->vfs->ctx, f->fd, RESERVED, &at), 0);
    f->memory = at;
    *state = f;
    return 0;
}

static int file_tear_down(void **state)
{
    struct file *f = *state;
    assert_int_equal(f->vfs->munmap(f->vfs->ctx, f->memory, RESERVED), 0);
    f->vfs->close(f->vfs->ctx, f->fd);
    image_free(f->image);
    fault_vfs_free(f->faults);
    store_dir_remove(f->dir);
    free(f);
    return 0;
}

static void what_the_file_held_and_what_is_written_to_it_is_in_memory(void **state)
{
    struct file *f = *state;
    assert_memory_equal(f->memory + 4096, "before", 6);
    assert_int_equal(f->memory[0], 0);
    assert_int_equal(f->vfs->pwrite(f->vfs->ctx, f->fd, "after", 5, 8192), 0);
    assert_memory_equal(f->memory + 8192, "after", 5);
    assert_memory_equal(f->memory + 4096, "before", 6);
}

static void writes_to_other_files_are_not_in_memory(void **state)
{
    struct file *f = *state;
    char path[STORE_DIR_PATH + 16];
    snprintf(path, sizeof path, "%s/log-1", f->dir);
    int fd = f->vfs->open(f->vfs->ctx, path, O_RDWR | O_CREAT, 0600);
    assert_int_equal(f->vfs->pwrite(f->vfs->ctx, fd, "other", 5, 4096), 0);
    assert_memory_equal(f->memory + 4096, "before", 6);
    f->vfs->close(f->vfs->ctx, fd);
}

static void after_a_write_that_failed_memory_holds_what_the_file_does(void **state)
{
    struct file *f = *state;
    char now[6];
    fault_vfs_fail(f->faults, FAULT_PWRITE, FAULT_DATA, 1, EIO, false);
    assert_int_equal(f->vfs->pwrite(f->vfs->ctx, f->fd, "AFTER!", 6, 4096), -EIO);
    assert_int_equal(f->vfs->pread(f->vfs->ctx, f->fd, now, 6, 4096), 6);
    assert_memory_equal(f->memory + 4096, now, 6);
    assert_memory_not_equal(now, "before", 6); /* half of it was written */
}

static void what_is_cut_off_reads_as_zeros(void **state)
{
    struct file *f = *state;
    assert_int_equal(f->vfs->ftruncate(f->vfs->ctx, f->fd, 4096 + 3), 0);
    assert_memory_equal(f->memory + 4096, "bef\0\0\0", 6);
}

static void mapping_fails_as_the_file_s_would(void **state)
{
    struct file *f = *state;
    struct image *other = image_new(fault_vfs(f->faults));
    void *at;
    fault_vfs_fail(f->faults, FAULT_MMAP, FAULT_ANY, 1, ENOMEM, false);
    assert_int_equal(image_vfs(other)->mmap(other, f->fd, RESERVED, &at), -ENOMEM);
    fault_vfs_fail(f->faults, FAULT_PREAD, FAULT_DATA, 1, EIO, false);
    assert_int_equal(image_vfs(other)->mmap(other, f->fd, RESERVED, &at), -EIO);
    image_free(other);
}

/* ---- children that break a rule ---------------------------------------------------------------
 */

#define ENTRIES 50u

struct late {
    struct ps_slice value; /* of a key in the snapshot */
    atomic_bool go;
    unsigned sum;
};

static void rewrite(struct fixture *f)
{
    fixture_fill(f, 0, ENTRIES, 300);
    assert_int_equal(ps_checkpoint(f->store), 0);
}

/* A reader that is on a page when it should not be. Relaxed, so that nothing but the engine's own
 * rules says which access is the earlier one. */
static void *read_late(void *arg)
{
    struct late *late = arg;
    while (!atomic_load_explicit(&late->go, memory_order_relaxed)) {
        sched_yield();
    }
    const uint8_t *bytes = late->value.data;
    for (size_t i = 0; i < late->value.len; i++) {
        late->sum += bytes[i];
    }
    return NULL;
}

/* A snapshot's value in the arena, or in the file, is read after everything was written anew. The
 * rule that is broken: a reader's stamp is announced as long as it reads. */
static void child_reads_late(bool in_file, bool broken)
{
    struct fixture *f = fixture_directory();
    struct late late = {0};
    pthread_t reader;
    f->options.manual_checkpoint = true;
    fixture_open(f);
    struct ps_txn *txn = fixture_begin(f);
    assert_int_equal(ps_tree_create(txn, text("tree"), &f->tree), 0);
    fixture_commit(txn);
    fixture_fill(f, 0, ENTRIES, 200);
    if (in_file) {
        assert_int_equal(ps_checkpoint(f->store), 0);
    }
    struct ps_snapshot *snap = fixture_snapshot(f);
    assert_int_equal(ps_get(ps_snapshot_view(snap), f->tree, text("key 00007"), &late.value), 0);
    pthread_create(&reader, NULL, read_late, &late);
    if (broken) {
        watch_reader(f->store->watch, snap->slot, 0); /* else it speaks up first (watch.h) */
        atomic_store(&f->store->readers[snap->slot].announced, 0);
    }
    rewrite(f);
    rewrite(f);
    ps_abort(fixture_begin(f)); /* reclaims */
    atomic_store_explicit(&late.go, true, memory_order_relaxed);
    pthread_join(reader, NULL);
    ps_snapshot_free(snap);
    fixture_close(f, false);
    store_dir_remove(f->dir);
    free(f);
}

/* A page of the file is written while a reader is on it. The rule that is broken: a page that is in
 * use is never written; otherwise it is one that nobody uses. */
static void child_writes(bool broken)
{
    struct fixture *f = fixture_new();
    struct late late = {0};
    pthread_t reader;
    fixture_fill(f, 0, ENTRIES, 200);
    assert_int_equal(ps_checkpoint(f->store), 0);
    struct ps_snapshot *snap = fixture_snapshot(f);
    assert_int_equal(ps_get(ps_snapshot_view(snap), f->tree, text("key 00007"), &late.value), 0);
    pthread_create(&reader, NULL, read_late, &late);
    uint64_t offset = (uint64_t)((const uint8_t *)late.value.data - f->store->base[0]);
    uint8_t same[200];
    page_ref unused;
    uint32_t got;
    assert_int_equal(space_alloc(&f->store->space, 1, 1, &unused, &got), 0);
    const struct ps_vfs *vfs = f->store->vfs;
    assert_int_equal(vfs->pread(vfs->ctx, f->store->fd, same, sizeof same, offset), sizeof same);
    offset = broken ? offset : unused << f->store->page_shift;
    watch_taken(f->store->watch, offset >> f->store->page_shift, 1);
    atomic_store_explicit(&late.go, true, memory_order_relaxed);
    assert_int_equal(vfs->pwrite(vfs->ctx, f->store->fd, same, sizeof same, offset), 0);
    pthread_join(reader, NULL);
    space_free(&f->store->space, unused, got);
    ps_snapshot_free(snap);
    fixture_close(f, false);
    store_dir_remove(f->dir);
    free(f);
}

static int child(const char *what)
{
    bool broken = strncmp(what, "broken-", 7) == 0;
    const char *name = broken ? what + 7 : what;
    if (strcmp(name, "slot") == 0 || strcmp(name, "page") == 0) {
        child_reads_late(name[0] == 'p', broken);
    } else {
        child_writes(broken);
    }
    return 0;
}

/* ---- their parent -----------------------------------------------------------------------------
 */

#define REPORTED 66 /* exit status after a report */

/* Runs a child; its exit status, and what it wrote to standard error. */
static int run_child(const char *what, char *report, size_t room)
{
    int ends[2], status;
    pid_t pid;
    posix_spawn_file_actions_t actions;
    char self[] = "/proc/self/exe", flag[] = "--child", name[32];
    snprintf(name, sizeof name, "%s", what);
    char *arguments[] = {self, flag, name, NULL};
    setenv("ASAN_OPTIONS", "exitcode=66:detect_leaks=0", 1);
    setenv("TSAN_OPTIONS", "exitcode=66:halt_on_error=1:history_size=7", 1);
    assert_int_equal(pipe(ends), 0);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], 2);
    posix_spawn_file_actions_addclose(&actions, ends[0]);
    assert_int_equal(posix_spawn(&pid, self, &actions, NULL, arguments, environ), 0);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    size_t n = 0;
    ssize_t got;
    while ((got = read(ends[0], report + n, room - 1 - n)) > 0) {
        n += (size_t)got;
    }
    report[n] = 0;
    close(ends[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

/* `kind` and `place` are in the report; kind NULL: nobody watches for this here. */
static void expect(const char *what, const char *kind, const char *place)
{
    static char report[1 << 18];
    int status = run_child(what, report, sizeof report);
    bool as_expected = kind == NULL ? status == 0 && report[0] == 0
                                    : status == REPORTED && strstr(report, kind) != NULL &&
                                          strstr(report, place) != NULL &&
                                          strstr(report, "read_late") != NULL;
    if (!as_expected) {
        print_error("child %s: exit status %d\n%s\n", what, status, report);
    }
    assert_true(as_expected);
}

static const char *kind_of_late_read(void)
{
    return !IMAGE_ANONYMOUS    ? NULL
           : WATCHES_THREADS   ? "data race"
           : WATCHES_ADDRESSES ? "use-after-poison"
                               : NULL;
}

static void a_reader_on_a_slot_that_was_given_back_is_reported(void **state)
{
    (void)state;
    expect("slot", NULL, NULL);
    expect("broken-slot", kind_of_late_read(), WATCHES_THREADS ? "arena_free" : "read_late");
}

static void a_reader_on_a_page_of_the_file_that_was_given_back_is_reported(void **state)
{
    (void)state;
    expect("page", NULL, NULL);
    expect("broken-page", kind_of_late_read(), WATCHES_THREADS ? "space_free" : "read_late");
}

static void a_write_to_a_page_of_the_file_that_a_reader_is_on_is_reported(void **state)
{
    (void)state;
    bool watched = WATCHES_THREADS && IMAGE_ANONYMOUS;
    expect("write", NULL, NULL);
    expect("broken-write", watched ? "data race" : NULL, "image_pwrite");
}

#define FILE_TEST(name) cmocka_unit_test_setup_teardown(name, file_set_up, file_tear_down)

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        FILE_TEST(what_the_file_held_and_what_is_written_to_it_is_in_memory),
        FILE_TEST(writes_to_other_files_are_not_in_memory),
        FILE_TEST(after_a_write_that_failed_memory_holds_what_the_file_does),
        FILE_TEST(what_is_cut_off_reads_as_zeros),
        FILE_TEST(mapping_fails_as_the_file_s_would),
        cmocka_unit_test(a_reader_on_a_slot_that_was_given_back_is_reported),
        cmocka_unit_test(a_reader_on_a_page_of_the_file_that_was_given_back_is_reported),
        cmocka_unit_test(a_write_to_a_page_of_the_file_that_a_reader_is_on_is_reported),
    };
    if (argc == 3 && strcmp(argv[1], "--child") == 0) {
        return child(argv[2]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
