/*
 * test_copy.c - copies of a snapshot: what is in them, full pages, a place of their own, whole or
 * not at all; the compaction of a store that is not open.
 */
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "storage/store.h"
#include "tests/support/fault_fixture.h"
#include "tests/support/odd_entries.h"
#include "tests/support/store_fixture.h"

#define MANY 3000u

static char key_room[ODD_ROOM], value_room[ODD_ROOM];

static void put_range(struct fixture *f, unsigned from, unsigned to, char tag)
{
    struct ps_txn *txn = fixture_begin(f);
    ps_keep_whole(txn);
    for (unsigned i = from; i < to; i++) {
        unsigned k = from + (i - from) * 1999u % (to - from);
        assert_int_equal(ps_put(txn, f->tree, odd_key(k, key_room), odd_value(k, tag, value_room)),
                         0);
    }
    fixture_commit(txn);
}

static void assert_same(struct ps_view *a, struct ps_view *b, ps_tree tree)
{
    struct ps_cursor *x, *y;
    uint64_t na, nb, n = 0;
    assert_int_equal(ps_count(a, tree, &na), 0);
    assert_int_equal(ps_count(b, tree, &nb), 0);
    assert_int_equal(na, nb);
    assert_int_equal(ps_cursor_open(a, tree, &x), 0);
    assert_int_equal(ps_cursor_open(b, tree, &y), 0);
    int rc = ps_cursor_first(x);
    assert_int_equal(ps_cursor_first(y), rc);
    while (rc == 0) {
        struct ps_slice k[2], v[2];
        assert_int_equal(ps_cursor_get(x, &k[0], &v[0]), 0);
        assert_int_equal(ps_cursor_get(y, &k[1], &v[1]), 0);
        assert_true(k[0].len == k[1].len && v[0].len == v[1].len);
        assert_memory_equal(k[0].data, k[1].data, k[0].len);
        assert_memory_equal(v[0].data, v[1].data, v[0].len);
        n++;
        rc = ps_cursor_next(x);
        assert_int_equal(ps_cursor_next(y), rc);
    }
    assert_int_equal(n, na);
    ps_cursor_close(x);
    ps_cursor_close(y);
}

struct place {
    char dir[STORE_DIR_PATH + 32], making[STORE_DIR_PATH + 64];
};

static struct place place_for(const struct fixture *f, const char *name)
{
    struct place p;
    snprintf(p.dir, sizeof p.dir, "%s/%s", f->dir, name);
    snprintf(p.making, sizeof p.making, "%s.copying", p.dir);
    return p;
}

static bool exists(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0;
}

static void check_copy(struct fixture *f, struct ps_snapshot *snap, const char *dir)
{
    struct ps_store *copy;
    struct ps_recovery recovery;
    struct ps_snapshot *other;
    assert_int_equal(ps_open(dir, &f->options, &copy, &recovery, NULL), 0);
    assert_false(recovery.created);
    assert_int_equal(ps_check(copy, NULL, NULL), 0);
    assert_int_equal(ps_snapshot_new(copy, &other), 0);
    ps_snapshot_renew(other);
    assert_int_equal(ps_snapshot_seq(other), ps_snapshot_seq(snap));
    assert_same(ps_snapshot_view(snap), ps_snapshot_view(other), f->tree);
    ps_snapshot_free(other);
    assert_int_equal(ps_close(copy, false), 0);
}

static void a_copy_holds_what_the_snapshot_does_and_no_free_page(void **state)
{
    struct fixture *f = *state;
    put_range(f, 0, MANY, 'a');
    assert_int_equal(ps_checkpoint(f->store), 0);
    put_range(f, MANY / 2, MANY + 500, 'b'); /* in dirty memory */
    struct ps_snapshot *snap = fixture_snapshot(f);
    put_range(f, 0, MANY, 'c');
    struct place p = place_for(f, "copy");
    struct ps_copy_report report;
    struct ps_fault fault;
    assert_int_equal(ps_copy(snap, p.dir, NULL, &report, &fault), 0);
    assert_int_equal(report.entries, MANY + 500);
    assert_int_equal(report.trees, 1);
    assert_false(exists(p.making));
    struct ps_options look = {.read_only_check = true};
    struct ps_store *copy;
    struct ps_stat stat;
    assert_int_equal(ps_open(p.dir, &look, &copy, NULL, NULL), 0);
    assert_int_equal(ps_check(copy, NULL, NULL), 0);
    ps_stats(copy, &stat);
    assert_int_equal(stat.file_pages_free, 0);
    assert_int_equal(stat.file_bytes, report.bytes);
    assert_int_equal(ps_close(copy, false), 0);
    check_copy(f, snap, p.dir);
    check_copy(f, snap, p.dir); /* with a log now */
    ps_snapshot_free(snap);
    store_dir_remove(p.dir);
}

static void an_empty_store_is_copied(void **state)
{
    struct fixture *f = *state;
    struct ps_snapshot *snap = fixture_snapshot(f);
    struct place p = place_for(f, "copy");
    struct ps_copy_report report;
    assert_int_equal(ps_copy(snap, p.dir, NULL, &report, NULL), 0);
    assert_int_equal(report.entries, 0);
    check_copy(f, snap, p.dir);
    ps_snapshot_free(snap);
    store_dir_remove(p.dir);
}

static void commits_to_a_copy_survive_without_a_checkpoint(void **state)
{
    struct fixture *f = *state;
    put_range(f, 0, 200, 'a');
    struct ps_snapshot *snap = fixture_snapshot(f);
    struct place p = place_for(f, "copy");
    struct ps_copy_report report;
    assert_int_equal(ps_copy(snap, p.dir, NULL, &report, NULL), 0);
    ps_snapshot_free(snap);
    struct fixture copy = {.options = f->options, .tree = f->tree};
    copy.options.manual_checkpoint = true;
    memcpy(copy.dir, p.dir, strlen(p.dir) + 1);
    for (unsigned round = 0; round < 3; round++) {
        char key[] = {'z', (char)('0' + round), 0};
        fixture_open(&copy);
        assert_int_equal(copy.recovery.replayed_commits, round);
        fixture_put(&copy, key, "value");
        fixture_close(&copy, false);
    }
    fixture_open(&copy);
    snap = fixture_snapshot(&copy);
    struct ps_slice value;
    assert_int_equal(ps_get(ps_snapshot_view(snap), f->tree, text("z2"), &value), 0);
    ps_snapshot_free(snap);
    fixture_close(&copy, true);
    store_dir_remove(p.dir);
}

static void a_place_that_is_taken_is_refused(void **state)
{
    struct fixture *f = *state;
    struct ps_snapshot *snap = fixture_snapshot(f);
    struct place p = place_for(f, "copy");
    struct ps_copy_report report;
    struct ps_fault fault;
    assert_int_equal(ps_copy(snap, f->dir, NULL, &report, &fault), PS_EXISTS);
    assert_int_equal(mkdir(p.dir, 0777), 0);
    assert_int_equal(ps_copy(snap, p.dir, NULL, &report, &fault), 0);
    assert_int_equal(ps_copy(snap, p.dir, NULL, &report, &fault), PS_EXISTS);
    assert_string_equal(fault.file, p.dir);
    assert_false(exists(p.making));
    ps_snapshot_free(snap);
    store_dir_remove(p.dir);
}

static bool stop_after(void *arg, uint64_t done, uint64_t whole)
{
    assert_true(done <= whole);
    return --*(int *)arg > 0;
}

static void a_copy_that_is_stopped_leaves_nothing(void **state)
{
    struct fixture *f = *state;
    put_range(f, 0, MANY, 'a');
    struct ps_snapshot *snap = fixture_snapshot(f);
    struct place p = place_for(f, "copy");
    int calls = 2;
    struct ps_copy_watch watch = {stop_after, &calls};
    struct ps_copy_report report;
    assert_int_equal(ps_copy(snap, p.dir, &watch, &report, NULL), PS_ENDED);
    assert_int_equal(calls, 0);
    assert_false(exists(p.dir));
    assert_false(exists(p.making));
    ps_snapshot_free(snap);
}

static void a_copy_that_is_killed_is_absent_and_the_next_one_succeeds(void **state)
{
    struct fixture *f = *state;
    put_range(f, 0, MANY, 'a');
    fixture_close(f, true);
    struct place p = place_for(f, "copy");
    pid_t child = fork();
    if (child == 0) {
        int calls = 2;
        struct ps_copy_watch watch = {end_the_process, &calls};
        struct ps_copy_report report;
        struct ps_snapshot *snap;
        if (ps_open(f->dir, &f->options, &f->store, NULL, NULL) == 0 &&
            ps_snapshot_new(f->store, &snap) == 0) {
            ps_snapshot_renew(snap);
            (void)ps_copy(snap, p.dir, &watch, &report, NULL);
        }
        _exit(1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 9);
    assert_false(exists(p.dir));
    assert_true(exists(p.making));
    fixture_open(f);
    struct ps_snapshot *snap = fixture_snapshot(f);
    struct ps_copy_report report;
    assert_int_equal(ps_copy(snap, p.dir, NULL, &report, NULL), 0);
    assert_false(exists(p.making));
    check_copy(f, snap, p.dir);
    ps_snapshot_free(snap);
    store_dir_remove(p.dir);
}

static void damage_is_not_copied(void **state)
{
    struct fixture *f = *state;
    put_range(f, 0, MANY, 'a');
    fixture_close(f, true);
    struct ps_options look = {.read_only_check = true};
    assert_int_equal(ps_open(f->dir, &look, &f->store, NULL, NULL), 0);
    const struct page *root = page_at(f->store, f->store->file_state->trees[f->tree].root.ref);
    struct child child;
    memcpy(&child, (const uint8_t *)root + root->heap, sizeof child);
    char path[STORE_DIR_PATH + 16];
    snprintf(path, sizeof path, "%s/pando.db", f->dir);
    assert_int_equal(ps_close(f->store, false), 0);
    int fd = open(path, O_RDWR);
    uint8_t byte;
    off_t at = (off_t)(child.ref * 4096 + 2000);
    assert_int_equal(pread(fd, &byte, 1, at), 1);
    byte ^= 1;
    assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    close(fd);
    fixture_open(f);
    struct ps_snapshot *snap = fixture_snapshot(f);
    struct place p = place_for(f, "copy");
    struct ps_copy_report report;
    struct ps_fault fault;
    assert_int_equal(ps_copy(snap, p.dir, NULL, &report, &fault), PS_CORRUPT);
    assert_int_equal(fault.offset, child.ref * 4096);
    assert_false(exists(p.dir));
    ps_snapshot_free(snap);
}

static void every_call_that_fails_leaves_nothing_or_all(void **state)
{
    struct fixture *f = *state;
    struct fault_vfs *files = fault_vfs_new();
    put_range(f, 0, 400, 'a');
    fixture_close(f, true);
    f->options.vfs = fault_vfs(files);
    f->options.read_only_check = true; /* no thread whose calls could fail instead */
    fixture_open(f);
    struct ps_snapshot *snap = fixture_snapshot(f);
    struct place p = place_for(f, "copy");
    const enum fault_call kinds[] = {FAULT_OPEN,  FAULT_PWRITE, FAULT_FTRUNCATE, FAULT_FSYNC,
                                     FAULT_MKDIR, FAULT_RENAME, FAULT_SYNC_DIR,  FAULT_LOCK};
    for (unsigned k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        unsigned failed = 0;
        for (unsigned n = 1; n < 100; n++) {
            struct ps_copy_report report;
            fault_vfs_fail(files, kinds[k], FAULT_ANY, n, 5, false);
            int rc = ps_copy(snap, p.dir, NULL, &report, NULL);
            bool hit = fault_vfs_failed(files) > 0;
            fault_vfs_fail(files, kinds[k], FAULT_ANY, 0, 5, false);
            assert_true(hit ? rc == PS_IO : rc == 0);
            failed += hit;
            if (exists(p.dir)) { /* the last sync of the directory above may fail */
                check_copy(f, snap, p.dir);
                store_dir_remove(p.dir);
            }
            if (!hit)
                break;
        }
        assert_true(failed > 0);
    }
    ps_snapshot_free(snap);
    fixture_close(f, false);
    f->options.vfs = NULL;
    f->options.read_only_check = false;
    fixture_open(f);
    fault_vfs_free(files);
}

static void compacting_keeps_everything_and_the_log_goes_on(void **state)
{
    struct fixture *f = *state;
    f->options.manual_checkpoint = true;
    fixture_reopen(f, true);
    put_range(f, 0, MANY, 'a');
    assert_int_equal(ps_checkpoint(f->store), 0);
    put_range(f, 0, MANY, 'b');
    uint64_t seq = ps_published(f->store);
    uint64_t before = ps_file_bytes(f->store);
    fixture_close(f, false); /* its log is not applied yet */
    struct ps_copy_report report;
    assert_int_equal(ps_compact(f->dir, NULL, NULL, &report, NULL), 0);
    assert_int_equal(report.entries, MANY);
    assert_true(report.bytes < before * 8 / 10);
    fixture_open(f);
    assert_int_equal(ps_file_bytes(f->store), report.bytes);
    assert_int_equal(ps_published(f->store), seq);
    assert_int_equal(ps_check(f->store, NULL, NULL), 0);
    fixture_put(f, "key", "value");
    fixture_reopen(f, false);
    assert_int_equal(f->recovery.replayed_commits, 1);
    assert_int_equal(ps_check(f->store, NULL, NULL), 0);
}

static void what_is_no_store_is_not_compacted(void **state)
{
    struct fixture *f = *state;
    struct ps_copy_report report;
    struct ps_fault fault;
    assert_int_equal(ps_compact(f->dir, NULL, NULL, &report, &fault), PS_LOCKED);
    struct place p = place_for(f, "nothing");
    assert_int_not_equal(ps_compact(p.dir, NULL, NULL, &report, &fault), 0);
    assert_false(exists(p.dir));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORE_TEST(a_copy_holds_what_the_snapshot_does_and_no_free_page),
        STORE_TEST(an_empty_store_is_copied),
        STORE_TEST(commits_to_a_copy_survive_without_a_checkpoint),
        STORE_TEST(a_place_that_is_taken_is_refused),
        STORE_TEST(a_copy_that_is_stopped_leaves_nothing),
        STORE_TEST(a_copy_that_is_killed_is_absent_and_the_next_one_succeeds),
        STORE_TEST(damage_is_not_copied),
        STORE_TEST(every_call_that_fails_leaves_nothing_or_all),
        STORE_TEST(compacting_keeps_everything_and_the_log_goes_on),
        STORE_TEST(what_is_no_store_is_not_compacted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
