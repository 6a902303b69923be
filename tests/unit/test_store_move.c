/*
 * test_store_move.c - a long read that leaves dirty memory for the file (storage/move.c).
 *
 * Everything here runs in one thread: a writer that had to wait for the snapshot would wait
 * forever, which the alarm ends.
 */
#include "tests/support/store_fixture.h"

#include <errno.h>
#include <unistd.h>

#include "tests/support/fault_vfs.h"

#define WATCHDOG_S 120
#define SLOTS      128u
#define KEYS       2000u
#define LONG_VALUE 9000u /* bytes: in overflow pages */
#define LONG_KEY   3000u

struct world {
    struct fixture *f;
    struct fault_vfs *files;
    struct ps_snapshot *snap;
};

static int set_up(void **state)
{
    struct world *w = calloc(1, sizeof *w);
    assert_non_null(w);
    alarm(WATCHDOG_S);
    w->files = fault_vfs_new();
    w->f = fixture_directory();
    w->f->options.dirty_memory = SLOTS * 4096;
    w->f->options.manual_checkpoint = true;
    w->f->options.vfs = fault_vfs(w->files);
    fixture_open(w->f);
    struct ps_txn *txn = fixture_begin(w->f);
    assert_int_equal(ps_tree_create(txn, text("tree"), &w->f->tree), 0);
    fixture_commit(txn);
    fixture_fill(w->f, 0, KEYS, 100);
    *state = w;
    return 0;
}

static int tear_down(void **state)
{
    struct world *w = *state;
    void *fixture = w->f;
    ps_snapshot_free(w->snap);
    fixture_teardown(&fixture);
    fault_vfs_free(w->files);
    free(w);
    alarm(0);
    return 0;
}

static struct ps_stat stats(struct world *w)
{
    struct ps_stat stat;
    ps_stats(w->f->store, &stat);
    return stat;
}

/* Writes one key after the other anew, each into a page of its own, until that is so many times all
 * of dirty memory; or, with `until_asked`, until the snapshot is asked to move. */
static bool write_on(struct world *w, unsigned times, bool until_asked)
{
    char key[32], value[100];
    uint64_t bytes = 0;
    memset(value, 'w', sizeof value);
    for (unsigned i = 0; bytes < (uint64_t)times * SLOTS * 4096; i++) {
        if (until_asked && ps_snapshot_should_move(w->snap)) {
            return true;
        }
        struct ps_txn *txn = fixture_begin(w->f);
        int n = snprintf(key, sizeof key, "key %05u", i * 61u % KEYS);
        struct ps_slice ks = {key, (size_t)n}, vs = {value, sizeof value};
        assert_int_equal(ps_reserve(txn, 1, 200), 0);
        assert_int_equal(ps_put(txn, w->f->tree, ks, vs), 0);
        bytes += 4096;
        fixture_commit(txn);
    }
    return false;
}

/* A snapshot of the keys as they were filled, which the writer wants to move. */
static void hold(struct world *w)
{
    w->snap = fixture_snapshot(w->f);
    assert_true(write_on(w, 4, true));
}

static void check_entry(struct ps_cursor *c, unsigned number)
{
    struct ps_slice key, value;
    char want[32];
    assert_int_equal(ps_cursor_get(c, &key, &value), 0);
    snprintf(want, sizeof want, "key %05u", number);
    assert_slice(key, want);
    assert_int_equal(value.len, 100);
    snprintf(want, sizeof want, "%014u", number);
    assert_memory_equal(value.data, want, 14);
}

/* All that there was, both ways and by every kind of look-up. */
static void check_all(struct world *w)
{
    struct ps_view *view = ps_snapshot_view(w->snap);
    struct ps_cursor *c;
    struct ps_slice value;
    uint64_t n;
    assert_int_equal(ps_cursor_open(view, w->f->tree, &c), 0);
    for (unsigned i = 0; i < KEYS; i++) {
        assert_int_equal(i == 0 ? ps_cursor_first(c) : ps_cursor_next(c), 0);
        check_entry(c, i);
    }
    assert_int_equal(ps_cursor_next(c), PS_NOTFOUND);
    assert_int_equal(ps_cursor_select(c, 17), 0);
    check_entry(c, 17);
    assert_int_equal(ps_cursor_prev(c), 0);
    check_entry(c, 16);
    ps_cursor_close(c);
    assert_int_equal(ps_count(view, w->f->tree, &n), 0);
    assert_int_equal(n, KEYS);
    assert_int_equal(ps_rank(view, w->f->tree, text("key 00123"), &n), 0);
    assert_int_equal(n, 123);
    assert_int_equal(ps_get(view, w->f->tree, text("key 00200"), &value), 0);
    assert_memory_equal(value.data, "00000000000200", 14);
}

static void report(void *arg, const char *line)
{
    (void)arg;
    print_error("%s\n", line);
}

/* ---- being asked ---------------------------------------------------------------------------- */

static void who_keeps_wanted_slots_is_asked_to_move_and_nobody_else(void **state)
{
    struct world *w = *state;
    assert_int_equal(ps_checkpoint(w->f->store), 0);
    ps_abort(fixture_begin(w->f));
    struct ps_snapshot *in_file = fixture_snapshot(w->f); /* holds pages of the file alone */
    fixture_fill(w->f, 0, KEYS, 100);
    w->snap = fixture_snapshot(w->f);
    assert_false(ps_snapshot_should_move(w->snap));
    assert_true(write_on(w, 4, true));
    assert_false(ps_snapshot_should_move(in_file));
    assert_true(stats(w).snapshots_asked >= 1);
    ps_snapshot_free(in_file);
}

static void a_snapshot_taken_after_one_that_was_asked_is_not_asked(void **state)
{
    struct world *w = *state;
    hold(w);
    ps_snapshot_renew(w->snap);
    assert_false(ps_snapshot_should_move(w->snap));
    ps_snapshot_reset(w->snap);
    assert_false(ps_snapshot_should_move(w->snap));
}

static void moving_without_a_state_or_one_in_the_file_is_nothing(void **state)
{
    struct world *w = *state;
    assert_int_equal(ps_snapshot_new(w->f->store, &w->snap), 0);
    assert_int_equal(ps_snapshot_move(w->snap), 0);
    assert_int_equal(ps_snapshot_pin(w->snap), 0);
    assert_int_equal(ps_snapshot_move(w->snap), 0);
    check_all(w);
    assert_int_equal(stats(w).snapshots_moved, 0);
}

/* ---- what a move keeps ----------------------------------------------------------------------- */

static void a_moved_snapshot_is_the_same_state_and_holds_no_dirty_memory(void **state)
{
    struct world *w = *state;
    hold(w);
    uint64_t seq = ps_snapshot_seq(w->snap);
    assert_int_equal(ps_snapshot_move(w->snap), 0);
    assert_int_equal(ps_snapshot_seq(w->snap), seq);
    assert_false(ps_snapshot_should_move(w->snap));
    check_all(w);
    write_on(w, 8, false);
    check_all(w);
    struct ps_stat stat = stats(w);
    assert_int_equal(stat.snapshots_moved, 1);
    assert_true(stat.moved_pages > 0);
    assert_int_equal(stat.snapshots, 1);
}

static void a_moved_snapshot_outlives_checkpoints_and_the_check_finds_nothing(void **state)
{
    struct world *w = *state;
    hold(w);
    assert_int_equal(ps_snapshot_move(w->snap), 0);
    for (unsigned i = 0; i < 5; i++) {
        write_on(w, 2, false);
        assert_int_equal(ps_checkpoint(w->f->store), 0);
        assert_int_equal(ps_check(w->f->store, report, NULL), 0);
        check_all(w);
    }
}

static void cursors_go_on_from_where_they_stood(void **state)
{
    struct world *w = *state;
    struct ps_cursor *c[4];
    struct ps_slice low = text("key 00100"), high = text("key 00103");
    w->snap = fixture_snapshot(w->f);
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(ps_cursor_open(ps_snapshot_view(w->snap), w->f->tree, &c[i]), 0);
    }
    assert_int_equal(ps_cursor_seek(c[0], text("key 00150"), PS_EQ), 0);
    assert_int_equal(ps_cursor_bounds(c[1], &low, &high), 0);
    assert_int_equal(ps_cursor_last(c[1]), 0);
    assert_int_equal(ps_cursor_last(c[2]), 0);
    assert_int_equal(ps_cursor_next(c[2]), PS_NOTFOUND);
    assert_int_equal(ps_cursor_seek(c[3], text("key 00200"), PS_EQ), 0);
    ps_cursor_close(c[0]); /* the newest but one, the oldest: whichever is closed, others stay */
    assert_int_equal(ps_cursor_open(ps_snapshot_view(w->snap), w->f->tree, &c[0]), 0);
    assert_int_equal(ps_cursor_seek(c[0], text("key 00150"), PS_EQ), 0);
    assert_true(write_on(w, 4, true));
    assert_int_equal(ps_snapshot_move(w->snap), 0);
    write_on(w, 4, false);
    check_entry(c[0], 150);
    assert_int_equal(ps_cursor_next(c[0]), 0);
    check_entry(c[0], 151);
    assert_int_equal(ps_cursor_next(c[1]), PS_NOTFOUND);
    assert_int_equal(ps_cursor_next(c[2]), PS_NOTFOUND);
    assert_int_equal(ps_cursor_prev(c[3]), 0);
    check_entry(c[3], 199);
    assert_int_equal(ps_cursor_last(c[1]), 0);
    check_entry(c[1], 102);
    for (unsigned i = 0; i < 4; i++) {
        ps_cursor_close(c[i]);
    }
}

static void long_keys_and_values_move_as_well(void **state)
{
    struct world *w = *state;
    char *key = malloc(LONG_KEY), *value = malloc(LONG_VALUE);
    struct ps_slice k = {key, LONG_KEY}, v = {value, LONG_VALUE}, found;
    memset(key, 'k', LONG_KEY);
    memset(value, 'v', LONG_VALUE);
    struct ps_txn *txn = fixture_begin(w->f);
    assert_int_equal(ps_put(txn, w->f->tree, k, v), 0);
    fixture_commit(txn);
    w->snap = fixture_snapshot(w->f);
    struct ps_cursor *c;
    assert_int_equal(ps_cursor_open(ps_snapshot_view(w->snap), w->f->tree, &c), 0);
    assert_int_equal(ps_cursor_last(c), 0);
    txn = fixture_begin(w->f);
    assert_int_equal(ps_delete(txn, w->f->tree, k), 0);
    fixture_commit(txn);
    assert_int_equal(ps_snapshot_move(w->snap), 0);
    write_on(w, 4, false);
    assert_int_equal(ps_get(ps_snapshot_view(w->snap), w->f->tree, k, &found), 0);
    assert_int_equal(found.len, LONG_VALUE);
    assert_memory_equal(found.data, value, LONG_VALUE);
    assert_int_equal(ps_cursor_get(c, &found, NULL), 0);
    assert_int_equal(found.len, LONG_KEY);
    assert_memory_equal(found.data, key, LONG_KEY);
    ps_cursor_close(c);
    free(key);
    free(value);
}

/* ---- places of the file ---------------------------------------------------------------------- */

static void what_a_checkpoint_has_written_is_not_written_again(void **state)
{
    struct world *w = *state;
    w->snap = fixture_snapshot(w->f);
    assert_int_equal(ps_checkpoint(w->f->store), 0);
    assert_int_equal(ps_snapshot_move(w->snap), 0);
    assert_int_equal(stats(w).snapshots_moved, 1);
    assert_int_equal(stats(w).moved_pages, 0);
    write_on(w, 4, false);
    check_all(w);
}

static void the_places_are_free_again_when_the_snapshot_ends(void **state)
{
    struct world *w = *state;
    hold(w);
    uint64_t taken = stats(w).file_pages - stats(w).file_pages_free;
    for (unsigned how = 0; how < 3; how++) {
        assert_int_equal(ps_snapshot_move(w->snap), 0);
        uint64_t moved = stats(w).file_pages - stats(w).file_pages_free;
        assert_true(moved > taken);
        if (how == 0) {
            ps_snapshot_renew(w->snap);
        } else if (how == 1) {
            ps_snapshot_reset(w->snap);
            ps_snapshot_renew(w->snap);
        } else {
            ps_snapshot_free(w->snap);
            w->snap = NULL;
        }
        assert_int_equal(stats(w).file_pages - stats(w).file_pages_free, taken);
    }
}

static void a_crash_frees_the_places(void **state)
{
    struct world *w = *state;
    char copy[STORE_DIR_PATH + 8];
    hold(w);
    assert_int_equal(ps_checkpoint(w->f->store), 0);
    assert_int_equal(ps_snapshot_move(w->snap), 0);
    assert_true(stats(w).moved_pages > 0);
    write_on(w, 1, false);
    assert_int_equal(ps_checkpoint(w->f->store), 0);
    snprintf(copy, sizeof copy, "%s.copy", w->f->dir);
    store_dir_copy(w->f->dir, copy);
    struct ps_store *after;
    struct ps_stat here, there;
    assert_int_equal(ps_open(copy, &w->f->options, &after, NULL, NULL), 0);
    assert_int_equal(ps_check(after, report, NULL), 0);
    ps_stats(after, &there);
    here = stats(w);
    assert_true(there.file_pages - there.file_pages_free + here.moved_pages <=
                here.file_pages - here.file_pages_free);
    assert_int_equal(ps_close(after, true), 0);
    store_dir_remove(copy);
}

/* ---- moves that fail ------------------------------------------------------------------------- */

static void check_ended(struct world *w, struct ps_cursor *c)
{
    struct ps_view *view = ps_snapshot_view(w->snap);
    struct ps_slice value;
    struct ps_lookup lookup = {.tree = w->f->tree, .key = text("key 00001")};
    struct ps_cursor *other;
    ps_tree tree;
    uint64_t n;
    assert_int_equal(ps_get(view, w->f->tree, text("key 00001"), &value), PS_ENDED);
    ps_get_many(view, &lookup, 1);
    assert_int_equal(lookup.rc, PS_ENDED);
    assert_int_equal(ps_get_part(view, w->f->tree, text("key 00001"), 0, 1, &value, &n), PS_ENDED);
    assert_int_equal(ps_touch(view, w->f->tree, text("key 00001"), 0, &value), PS_ENDED);
    assert_int_equal(ps_probe(view, w->f->tree, text("key 00001"), 1, NULL, &value), PS_ENDED);
    assert_int_equal(ps_count(view, w->f->tree, &n), PS_ENDED);
    assert_int_equal(ps_rank(view, w->f->tree, text("key 00001"), &n), PS_ENDED);
    assert_int_equal(ps_count_range(view, w->f->tree, NULL, NULL, &n), PS_ENDED);
    assert_int_equal(ps_tree_find(view, text("tree"), &tree), PS_ENDED);
    assert_int_equal(ps_cursor_open(view, w->f->tree, &other), PS_ENDED);
    assert_int_equal(ps_cursor_get(c, &value, NULL), PS_ENDED);
    assert_int_equal(ps_cursor_next(c), PS_ENDED);
    assert_int_equal(ps_cursor_prev(c), PS_ENDED);
    assert_int_equal(ps_cursor_first(c), PS_ENDED);
    assert_int_equal(ps_cursor_last(c), PS_ENDED);
    assert_int_equal(ps_cursor_select(c, 0), PS_ENDED);
    assert_int_equal(ps_cursor_seek(c, text("key 00001"), PS_GE), PS_ENDED);
    assert_int_equal(ps_snapshot_seq(w->snap), 0);
}

static void fail_and_go_on(struct world *w, enum fault_call call, int err, int rc)
{
    struct ps_cursor *c;
    hold(w);
    assert_int_equal(ps_cursor_open(ps_snapshot_view(w->snap), w->f->tree, &c), 0);
    assert_int_equal(ps_cursor_first(c), 0);
    uint64_t taken = stats(w).file_pages - stats(w).file_pages_free;
    fault_vfs_fail(w->files, call, FAULT_DATA, 1, err, true);
    assert_int_equal(ps_snapshot_move(w->snap), rc);
    assert_true(fault_vfs_failed(w->files) > 0);
    fault_vfs_fail(w->files, FAULT_CALLS, 0, 0, 0, false);
    assert_int_equal(stats(w).file_pages - stats(w).file_pages_free, taken);
    assert_int_equal(stats(w).snapshot_move_failures, 1);
    assert_int_equal(stats(w).snapshots, 0);
    check_ended(w, c);
    ps_cursor_close(c);
    write_on(w, 4, false);
    struct ps_slice value;
    ps_snapshot_renew(w->snap);
    assert_int_equal(ps_get(ps_snapshot_view(w->snap), w->f->tree, text("key 00001"), &value), 0);
    assert_int_equal(ps_check(w->f->store, report, NULL), 0);
}

static void a_move_that_finds_no_space_ends_the_snapshot_and_writing_goes_on(void **state)
{
    fail_and_go_on(*state, FAULT_FALLOCATE, ENOSPC, PS_NOSPACE);
}

static void a_move_whose_write_fails_ends_the_snapshot_and_writing_goes_on(void **state)
{
    fail_and_go_on(*state, FAULT_PWRITE, EIO, PS_IO);
}

static void in_a_store_that_takes_no_more_writes_nobody_has_to_move(void **state)
{
    struct world *w = *state;
    hold(w);
    fault_vfs_fail(w->files, FAULT_FDATASYNC, FAULT_DATA, 1, EIO, false);
    assert_true(ps_checkpoint(w->f->store) != 0);
    assert_int_equal(ps_snapshot_move(w->snap), 0);
    assert_false(ps_snapshot_should_move(w->snap));
    assert_int_equal(stats(w).snapshots_moved, 0);
    check_all(w);
}

#define MOVE_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        MOVE_TEST(who_keeps_wanted_slots_is_asked_to_move_and_nobody_else),
        MOVE_TEST(a_snapshot_taken_after_one_that_was_asked_is_not_asked),
        MOVE_TEST(moving_without_a_state_or_one_in_the_file_is_nothing),
        MOVE_TEST(a_moved_snapshot_is_the_same_state_and_holds_no_dirty_memory),
        MOVE_TEST(a_moved_snapshot_outlives_checkpoints_and_the_check_finds_nothing),
        MOVE_TEST(cursors_go_on_from_where_they_stood),
        MOVE_TEST(long_keys_and_values_move_as_well),
        MOVE_TEST(what_a_checkpoint_has_written_is_not_written_again),
        MOVE_TEST(the_places_are_free_again_when_the_snapshot_ends),
        MOVE_TEST(a_crash_frees_the_places),
        MOVE_TEST(a_move_that_finds_no_space_ends_the_snapshot_and_writing_goes_on),
        MOVE_TEST(a_move_whose_write_fails_ends_the_snapshot_and_writing_goes_on),
        MOVE_TEST(in_a_store_that_takes_no_more_writes_nobody_has_to_move),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
