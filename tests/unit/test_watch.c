/*
 * test_watch.c - the assertion that no page which a pinned state can see is written (watch.h).
 *
 * This program runs itself as a child that breaks one rule of the engine on purpose, and expects it
 * to end at the assertion; and once more without breaking it, and expects it to end well. In a
 * build where nobody watches only the latter is done.
 */
#include "tests/support/store_fixture.h"

#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "storage/store.h"

extern char **environ;

#define ENTRIES 50u
#define ROUNDS  6u /* of rewriting everything: what came free is used again */

static struct fixture *filled(void)
{
    struct fixture *f = fixture_directory();
    f->options.manual_checkpoint = true;
    fixture_open(f);
    struct ps_txn *txn = fixture_begin(f);
    assert_int_equal(ps_tree_create(txn, text("tree"), &f->tree), 0);
    fixture_commit(txn);
    fixture_fill(f, 0, ENTRIES, 200);
    return f;
}

static void rewrite(struct fixture *f, bool checkpoint)
{
    for (unsigned i = 0; i < ROUNDS; i++) {
        fixture_fill(f, 0, ENTRIES, 300);
        if (checkpoint) {
            assert_int_equal(ps_checkpoint(f->store), 0);
        }
    }
}

static void leave(struct fixture *f)
{
    fixture_close(f, false);
    store_dir_remove(f->dir);
    free(f);
}

/* ---- children ---------------------------------------------------------------------------------
 */

/* I3: the stamp of a reader is announced as long as it reads. */
static void child_reader(bool broken, bool in_file)
{
    struct fixture *f = filled();
    if (in_file) {
        assert_int_equal(ps_checkpoint(f->store), 0);
    }
    struct ps_snapshot *snap = fixture_snapshot(f);
    if (broken) {
        atomic_store(&f->store->readers[snap->slot].announced, 0);
    }
    rewrite(f, in_file);
    ps_snapshot_free(snap);
    leave(f);
}

static void child_slot(bool broken)
{
    child_reader(broken, false);
}

static void child_page(bool broken)
{
    child_reader(broken, true);
}

/* I3: pages of the file wait for both durable metas to leave them. Broken, the first one never did:
 * it is the engine that is wrong about it. */
static void child_meta(bool broken)
{
    struct fixture *f = filled();
    assert_int_equal(ps_checkpoint(f->store), 0);
    uint64_t first = f->store->meta_stamps[0];
    for (unsigned i = 0; i < ROUNDS; i++) {
        if (broken) {
            watch_meta(f->store->watch, 0, first);
        }
        fixture_fill(f, 0, ENTRIES, 300);
        assert_int_equal(ps_checkpoint(f->store), 0);
    }
    leave(f);
}

/* I2: under a savepoint no page is changed in place that it can see. */
static void child_savepoint(bool broken)
{
    struct fixture *f = filled();
    struct ps_txn *txn = fixture_begin(f);
    assert_int_equal(ps_put(txn, f->tree, text("key 00007"), text("one")), 0);
    assert_int_equal(ps_savepoint(txn), 0);
    if (broken) {
        txn->base = txn->savepoints[0].base;
    }
    assert_int_equal(ps_put(txn, f->tree, text("key 00007"), text("two")), 0);
    assert_int_equal(ps_savepoint_rollback(txn), 0);
    fixture_commit(txn);
    leave(f);
}

/* What is part of a state is never written; a page that was taken is, once. */
static void child_write(bool broken)
{
    struct fixture *f = filled();
    assert_int_equal(ps_checkpoint(f->store), 0);
    struct ps_store *store = f->store;
    uint8_t bytes[4096] = {0};
    page_ref page;
    uint32_t got;
    assert_int_equal(space_alloc(&store->space, 1, 1, &page, &got), 0);
    watch_taken(store->watch, page, 1);
    page_ref to = broken ? store->file_state->trees[f->tree].root.ref : page;
    assert_int_equal(store->vfs->pwrite(store->vfs->ctx, store->fd, bytes, sizeof bytes,
                                        to << store->page_shift),
                     0);
    space_free(&store->space, page, got);
    leave(f);
}

static const struct {
    const char *name;
    void (*run)(bool broken);
    const char *assertion; /* what fails when it is broken */
} children[] = {
    {"slot", child_slot, "state_that_sees_it == 0"},
    {"page", child_page, "state_that_sees_it == 0"},
    {"meta", child_meta, "state_that_sees_it == 0"},
    {"savepoint", child_savepoint, "state_that_sees_it == 0"},
    {"write", child_write, "written_page_was_taken"},
};

#define CHILDREN (sizeof children / sizeof *children)

static int child(const char *name, bool broken)
{
    for (size_t i = 0; i < CHILDREN; i++) {
        if (strcmp(name, children[i].name) == 0) {
            children[i].run(broken);
            return 0;
        }
    }
    return 1;
}

/* ---- their parent -----------------------------------------------------------------------------
 */

/* How a child ended, as wait() says, and what it wrote to standard error. */
static int run_child(const char *name, const char *how, char *report, size_t room)
{
    int ends[2], status;
    pid_t pid;
    posix_spawn_file_actions_t actions;
    char self[] = "/proc/self/exe", which[32], way[32];
    snprintf(which, sizeof which, "%s", name);
    snprintf(way, sizeof way, "%s", how);
    char *arguments[] = {self, which, way, NULL};
    setenv("ASAN_OPTIONS", "detect_leaks=0", 1);
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
    return status;
}

static void expect(size_t i)
{
    static char report[1 << 16];
    int status = run_child(children[i].name, "right", report, sizeof report);
    if (status != 0) {
        print_error("child %s: %d\n%s\n", children[i].name, status, report);
    }
    assert_int_equal(status, 0);
    if (!IMAGE_ANONYMOUS) {
        return;
    }
    status = run_child(children[i].name, "broken", report, sizeof report);
    bool caught = WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT &&
                  strstr(report, "storage/watch.c") != NULL &&
                  strstr(report, children[i].assertion) != NULL;
    if (!caught) {
        print_error("broken child %s: %d\n%s\n", children[i].name, status, report);
    }
    assert_true(caught);
}

static void a_slot_that_a_reader_sees_is_not_given_back(void **state)
{
    (void)state;
    expect(0);
}

static void a_page_of_the_file_that_a_reader_sees_is_not_written(void **state)
{
    (void)state;
    expect(1);
}

static void a_page_of_the_file_that_a_durable_meta_sees_is_not_written(void **state)
{
    (void)state;
    expect(2);
}

static void a_slot_that_a_savepoint_sees_is_not_changed(void **state)
{
    (void)state;
    expect(3);
}

static void a_page_of_the_file_that_nobody_took_is_not_written(void **state)
{
    (void)state;
    expect(4);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_slot_that_a_reader_sees_is_not_given_back),
        cmocka_unit_test(a_page_of_the_file_that_a_reader_sees_is_not_written),
        cmocka_unit_test(a_page_of_the_file_that_a_durable_meta_sees_is_not_written),
        cmocka_unit_test(a_slot_that_a_savepoint_sees_is_not_changed),
        cmocka_unit_test(a_page_of_the_file_that_nobody_took_is_not_written),
    };
    if (argc == 3) {
        return child(argv[1], strcmp(argv[2], "broken") == 0);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
