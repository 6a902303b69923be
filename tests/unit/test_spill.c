/*
 * test_spill.c - pages of a running transaction in the file: the rules P1 to P7 of storage/spill.c.
 */
#include <errno.h>

#include "storage/store.h"
#include "tests/support/fault_vfs.h"
#include "tests/support/store_fixture.h"

#define SLOTS 128u

static struct ps_slice key_of(char buffer[16], unsigned i)
{
    int n = snprintf(buffer, 16, "key %08u", i);
    return (struct ps_slice){buffer, (size_t)n};
}

/* Values of 100 bytes that begin with the number and end with the tag. */
static void put(struct fixture *f, struct ps_txn *txn, unsigned i, char tag)
{
    char key[16], value[100] = {0};
    memcpy(value, &i, sizeof i);
    value[99] = tag;
    assert_int_equal(ps_put(txn, f->tree, key_of(key, i), (struct ps_slice){value, 100}), 0);
}

static void put_range(struct fixture *f, struct ps_txn *txn, unsigned from, unsigned to, char tag)
{
    for (unsigned i = from; i < to; i++)
        put(f, txn, i, tag);
}

static void assert_value(struct ps_view *view, ps_tree tree, unsigned i, char tag)
{
    char key[16];
    struct ps_slice value;
    assert_int_equal(ps_get(view, tree, key_of(key, i), &value), 0);
    assert_int_equal(value.len, 100);
    assert_memory_equal(value.data, &i, sizeof i);
    assert_int_equal(((const char *)value.data)[99], tag);
}

static void assert_range(struct fixture *f, struct ps_view *view, unsigned from, unsigned to,
                         char tag)
{
    for (unsigned i = from; i < to; i++)
        assert_value(view, f->tree, i, tag);
}

static void assert_count(struct fixture *f, struct ps_view *view, uint64_t expected)
{
    uint64_t count;
    assert_int_equal(ps_count(view, f->tree, &count), 0);
    assert_int_equal(count, expected);
}

static struct ps_txn *begin_whole(struct fixture *f)
{
    struct ps_txn *txn = fixture_begin(f);
    ps_keep_whole(txn);
    return txn;
}

static void small_memory(struct fixture *f)
{
    f->options.dirty_memory = SLOTS * 4096;
    f->options.manual_checkpoint = true;
    fixture_reopen(f, true);
}

static uint64_t spilled(struct fixture *f)
{
    return f->store->stat.spilled_pages;
}

static void expect_stored(struct fixture *f, unsigned n, char tag)
{
    struct ps_snapshot *snap = fixture_snapshot(f);
    assert_count(f, ps_snapshot_view(snap), n);
    assert_range(f, ps_snapshot_view(snap), 0, n, tag);
    ps_snapshot_free(snap);
}

static void what_was_moved_is_read_changed_and_committed_like_the_rest(void **state)
{
    struct fixture *f = *state;
    small_memory(f);
    struct ps_txn *txn = begin_whole(f);
    put_range(f, txn, 0, 20000, 'a');
    assert_true(spilled(f) > 300 && f->store->arena.peak <= SLOTS);
    assert_range(f, ps_txn_view(txn), 0, 20000, 'a');
    put_range(f, txn, 0, 20000, 'b');
    assert_true(f->store->stat.spilled_again > 300);
    fixture_commit(txn);
    expect_stored(f, 20000, 'b');
    assert_int_equal(ps_check(f->store, NULL, NULL), 0);
    fixture_reopen(f, false);
    expect_stored(f, 20000, 'b');
}

static void rolling_back_finds_what_the_savepoint_needs(void **state)
{
    struct fixture *f = *state;
    small_memory(f);
    struct ps_txn *txn = fixture_begin(f); /* not whole yet: the savepoints keep slots */
    put_range(f, txn, 0, 800, 'a');
    assert_int_equal(ps_savepoint(txn), 0);
    uint64_t kept = txn->own_slots;
    assert_true(kept > 20 && spilled(f) == 0);
    ps_keep_whole(txn);
    put_range(f, txn, 400, 8000, 'b');
    assert_int_equal(ps_savepoint(txn), 0);
    put_range(f, txn, 0, 3000, 'c');
    assert_true(spilled(f) > 200);
    assert_int_equal(ps_savepoint_rollback(txn), 0);
    assert_range(f, ps_txn_view(txn), 0, 400, 'a');
    assert_range(f, ps_txn_view(txn), 400, 8000, 'b');
    assert_int_equal(ps_savepoint_rollback(txn), 0);
    assert_int_equal(txn->own_slots, kept);
    assert_count(f, ps_txn_view(txn), 800);
    fixture_commit(txn);
    expect_stored(f, 800, 'a');
    assert_int_equal(ps_check(f->store, NULL, NULL), 0);
}

static void an_abort_gives_every_page_and_slot_back(void **state)
{
    struct fixture *f = *state;
    small_memory(f);
    uint64_t slots = f->store->arena.used;
    struct ps_txn *txn = begin_whole(f);
    put_range(f, txn, 0, 5000, 'a');
    assert_int_equal(ps_savepoint(txn), 0);
    put_range(f, txn, 2000, 9000, 'b');
    assert_true(f->store->fresh.n > 100);
    ps_abort(txn);
    assert_int_equal(f->store->fresh.n, 0);
    assert_int_equal(f->store->arena.used, slots);
    expect_stored(f, 0, 'a');
    assert_int_equal(ps_check(f->store, NULL, NULL), 0);
}

static void a_cursor_goes_on_over_pages_that_were_moved(void **state)
{
    struct fixture *f = *state;
    small_memory(f);
    struct ps_txn *txn = begin_whole(f);
    put_range(f, txn, 0, 5000, 'a');
    struct ps_cursor *cursor;
    assert_int_equal(ps_cursor_open(ps_txn_view(txn), f->tree, &cursor), 0);
    assert_int_equal(ps_cursor_first(cursor), 0);
    for (unsigned i = 0; i < 5000; i++) {
        struct ps_slice key;
        char expected[16];
        struct ps_slice e = key_of(expected, i);
        assert_int_equal(ps_cursor_get(cursor, &key, NULL), 0);
        assert_int_equal(key.len, e.len);
        assert_memory_equal(key.data, e.data, e.len);
        if (i % 10 == 0)
            put(f, txn, 5000 + i * 7919 % 5000, 'b');
        assert_int_equal(ps_cursor_next(cursor), 0);
    }
    ps_cursor_close(cursor);
    ps_abort(txn);
}

/* A place is written once with a birth: whoever is there later was born later. */
static void a_place_that_is_used_again_has_another_birth(void **state)
{
    struct fixture *f = *state;
    small_memory(f);
    struct ps_txn *txn = begin_whole(f);
    static uint64_t last[1 << 16];
    memset(last, 0, sizeof last);
    unsigned again = 0;
    for (unsigned i = 0; i < 30000; i++) {
        uint64_t sweeps = f->store->stat.spill_sweeps;
        put(f, txn, i * 7919 % 4001, 'a');
        for (size_t k = 0; sweeps != f->store->stat.spill_sweeps && k < f->store->fresh.room; k++) {
            const struct fresh_page *p = &f->store->fresh.at[k];
            if (p->first == 0 || p->birth + 1 != txn->stamp)
                continue; /* not of this sweep */
            assert_true(p->first < 1 << 16 && last[p->first] < p->birth);
            again += last[p->first] != 0;
            last[p->first] = p->birth;
        }
    }
    assert_true(again > 1000);
    ps_abort(txn);
}

static void changing_the_same_pages_for_ever_takes_neither_file_nor_lists(void **state)
{
    struct fixture *f = *state;
    small_memory(f);
    struct ps_txn *txn = begin_whole(f);
    put_range(f, txn, 0, 8009, 'a');
    for (unsigned i = 0; i < 30000; i++)
        put(f, txn, (i * 2654435761u >> 7) % 8009, 'a');
    assert_true(f->store->stat.spilled_again > 10000);
    assert_true(f->store->fresh.n < 600);
    assert_true(txn->group->born_file.n < 2000);
    assert_true(txn->group->born.n < 4 * SLOTS);
    assert_true(space_pages(&f->store->space) - space_free_pages(&f->store->space) < 1000);
    fixture_commit(txn);
    expect_stored(f, 8009, 'a');
}

/* What was dropped under a savepoint waits for its end only. */
static void thousands_of_savepoints_that_are_released_keep_nothing(void **state)
{
    struct fixture *f = *state;
    small_memory(f);
    struct ps_txn *txn = begin_whole(f);
    for (unsigned i = 0; i < 6000; i++) {
        assert_int_equal(ps_savepoint(txn), 0);
        put(f, txn, i * 7919 % 3001, 'a');
        assert_int_equal(ps_savepoint_release(txn), 0);
    }
    assert_true(txn->group->deaths.n < 1000);
    fixture_commit(txn);
    expect_stored(f, 3001, 'a');
}

static void keys_and_values_in_runs_move_with_their_leaf(void **state)
{
    struct fixture *f = *state;
    small_memory(f);
    static char bytes[30000];
    struct ps_txn *txn = begin_whole(f);
    for (unsigned i = 0; i < 400; i++) {
        memset(bytes, 'k', 2000);
        snprintf(bytes + 1900, 20, "%08u", i * 7919 % 400);
        struct ps_slice key = {bytes, 2000}, value = {bytes, 1900 + i * 50};
        assert_int_equal(ps_put(txn, f->tree, key, value), 0);
    }
    assert_true(spilled(f) > 1000);
    fixture_commit(txn);
    fixture_reopen(f, true);
    struct ps_snapshot *snap = fixture_snapshot(f);
    for (unsigned i = 0; i < 400; i++) {
        struct ps_slice value;
        memset(bytes, 'k', 2000);
        snprintf(bytes + 1900, 20, "%08u", i * 7919 % 400);
        assert_int_equal(
            ps_get(ps_snapshot_view(snap), f->tree, (struct ps_slice){bytes, 2000}, &value), 0);
        assert_int_equal(value.len, 1900 + i * 50);
        assert_memory_equal(value.data, bytes, value.len < 1908 ? value.len : 1908);
    }
    ps_snapshot_free(snap);
    assert_int_equal(ps_check(f->store, NULL, NULL), 0);
}

/* Branches lead to leaves of states before, which are not in the file, or have images there. */
static void move_whole_tree(struct fixture *f, bool images, bool nested)
{
    struct ps_txn *txn = fixture_begin(f);
    put_range(f, txn, 0, 9000, 'a');
    fixture_commit(txn);
    if (images) /* a state after the checkpoint's, so that it is not relinked as a whole */
        assert_int_equal(ps_checkpoint(f->store), 0);
    txn = fixture_begin(f);
    for (unsigned i = 0; i < 9000; i += 300)
        put(f, txn, i, 'b');
    assert_true(!nested || ps_savepoint(txn) == 0);
    for (unsigned i = 0; i < 9000; i += 500)
        put(f, txn, i, 'c');
    assert_int_equal(spill(txn, f->store->arena.capacity), 0);
    assert_false(ref_in_arena(txn->state->trees[f->tree].root.ref));
    assert_int_equal(txn_loose_slots(txn), 0);
    assert_value(ps_txn_view(txn), f->tree, 500, 'c');
    assert_value(ps_txn_view(txn), f->tree, 501, 'a');
    if (nested) {
        assert_int_equal(ps_savepoint_rollback(txn), 0);
        assert_value(ps_txn_view(txn), f->tree, 500, 'a');
    }
    put(f, txn, 1, 'd');
    fixture_commit(txn);
    struct ps_snapshot *snap = fixture_snapshot(f);
    assert_count(f, ps_snapshot_view(snap), 9000);
    assert_value(ps_snapshot_view(snap), f->tree, 1, 'd');
    assert_value(ps_snapshot_view(snap), f->tree, 500, nested ? 'a' : 'c');
    ps_snapshot_free(snap);
    assert_int_equal(ps_check(f->store, NULL, NULL), 0);
}

/* Branches lead to leaves of states before, some with images in the file, some without. */
static void the_whole_tree_can_leave_the_arena(void **state)
{
    struct fixture *f = *state;
    f->options.manual_checkpoint = true;
    fixture_reopen(f, true);
    for (unsigned i = 0; i < 4; i++)
        move_whole_tree(f, i & 1, i & 2);
}

static void a_sorted_load_is_written_in_long_pieces(void **state)
{
    struct fixture *f = *state;
    struct fault_vfs *files = fault_vfs_new();
    f->options.vfs = fault_vfs(files);
    small_memory(f);
    fault_vfs_fail(files, FAULT_PWRITE, FAULT_DATA, 0, 0, false);
    struct ps_txn *txn = begin_whole(f);
    put_range(f, txn, 0, 30000, 'a');
    assert_true(spilled(f) > 700);
    assert_true(fault_vfs_calls(files) * 16 < spilled(f));
    ps_abort(txn);
    fixture_close(f, false);
    fault_vfs_free(files);
}

static void a_failed_write_poisons_and_leaves_the_state_before(void **state)
{
    struct fixture *f = *state;
    struct fault_vfs *files = fault_vfs_new();
    f->options.vfs = fault_vfs(files);
    small_memory(f);
    struct ps_txn *txn = fixture_begin(f);
    put_range(f, txn, 0, 100, 'a');
    fixture_commit(txn);
    txn = begin_whole(f);
    put_range(f, txn, 0, 3000, 'b');
    fault_vfs_fail(files, FAULT_PWRITE, FAULT_DATA, 2, EIO, false);
    char key[16];
    int rc = 0;
    for (unsigned i = 3000; rc == 0 && i < 20000; i++)
        rc = ps_put(txn, f->tree, key_of(key, i), (struct ps_slice){"a value", 7});
    assert_int_equal(rc, PS_POISONED);
    assert_int_equal(ps_put(txn, f->tree, text("k"), text("v")), PS_POISONED);
    unsigned unread = 0;
    for (unsigned i = 0; i < 3000; i++) { /* no word of damage */
        struct ps_slice value;
        rc = ps_get(ps_txn_view(txn), f->tree, key_of(key, i), &value);
        assert_true(rc == 0 || rc == PS_POISONED);
        unread += rc != 0;
    }
    assert_true(unread > 0);
    assert_int_equal(ps_commit(txn, PS_NONE, NULL), PS_POISONED);
    expect_stored(f, 100, 'a');
    assert_int_equal(ps_begin(f->store, &txn), PS_POISONED);
    ps_close(f->store, false);
    f->options.vfs = NULL;
    fixture_open(f);
    expect_stored(f, 100, 'a');
    assert_int_equal(ps_check(f->store, NULL, NULL), 0);
    fault_vfs_free(files);
}

static void a_full_disk_refuses_and_the_transaction_can_still_end(void **state)
{
    struct fixture *f = *state;
    struct fault_vfs *files = fault_vfs_new();
    f->options.vfs = fault_vfs(files);
    f->options.durability = PS_NONE;
    small_memory(f);
    struct ps_txn *txn = begin_whole(f);
    put_range(f, txn, 0, 2000, 'a');
    fault_vfs_full(files, true);
    char key[16];
    unsigned n = 2000;
    int rc = 0;
    for (; rc == 0 && n < 100000; n++)
        rc = ps_put(txn, f->tree, key_of(key, n), (struct ps_slice){"a value", 7});
    assert_int_equal(rc, PS_NOSPACE);
    assert_count(f, ps_txn_view(txn), n - 1);
    assert_range(f, ps_txn_view(txn), 0, 2000, 'a');
    fixture_commit(txn);
    fault_vfs_full(files, false);
    struct ps_snapshot *snap = fixture_snapshot(f);
    assert_count(f, ps_snapshot_view(snap), n - 1);
    ps_snapshot_free(snap);
    assert_int_equal(ps_check(f->store, NULL, NULL), 0);
    fixture_close(f, false);
    fault_vfs_free(files);
}

static void on_a_full_disk_a_savepoint_that_would_keep_too_much_is_refused(void **state)
{
    struct fixture *f = *state;
    struct fault_vfs *files = fault_vfs_new();
    f->options.vfs = fault_vfs(files);
    f->options.durability = PS_NONE;
    small_memory(f);
    struct ps_txn *txn = begin_whole(f);
    put_range(f, txn, 0, 900, 'a');
    assert_true(spilled(f) == 0 && txn->own_slots > SLOTS / 8);
    fault_vfs_full(files, true);
    page_ref first;
    uint32_t got; /* others take what there is */
    while (space_alloc(&f->store->space, 1, 64, &first, &got) == 0) {
    }
    assert_int_equal(ps_savepoint(txn), PS_NOSPACE);
    assert_int_equal(txn->nsavepoints, 0);
    fault_vfs_full(files, false);
    assert_int_equal(ps_savepoint(txn), 0);
    put_range(f, txn, 900, 9000, 'a');
    fixture_commit(txn);
    expect_stored(f, 9000, 'a');
    fixture_close(f, false);
    fault_vfs_free(files);
}

static void an_abort_on_a_full_disk_ends_what_went_to_the_log(void **state)
{
    struct fixture *f = *state;
    struct fault_vfs *files = fault_vfs_new();
    f->options.vfs = fault_vfs(files);
    small_memory(f);
    fixture_put(f, "before", "1");
    for (unsigned round = 0; round < 3; round++) {
        struct ps_txn *txn = begin_whole(f);
        put_range(f, txn, 0, 2000, 'a');
        assert_true(txn->in_pieces);
        fault_vfs_full(files, true);
        char key[16];
        int rc = 0;
        for (unsigned n = 2000; rc == 0 && n < 200000; n++)
            rc = ps_put(txn, f->tree, key_of(key, n % 3000), (struct ps_slice){"a value", 7});
        assert_int_equal(rc, PS_NOSPACE);
        ps_abort(txn);
        txn = fixture_begin(f);
        assert_int_equal(ps_delete(txn, f->tree, text("before")), round == 0 ? 0 : PS_NOTFOUND);
        fixture_commit(txn);
        fault_vfs_full(files, false);
        expect_stored(f, 0, 'a');
    }
    fixture_reopen(f, false);
    expect_stored(f, 0, 'a');
    assert_int_equal(ps_check(f->store, NULL, NULL), 0);
    fixture_close(f, false);
    fault_vfs_free(files);
}

static void a_commit_whose_log_fails_gives_its_pages_back(void **state)
{
    struct fixture *f = *state;
    struct fault_vfs *files = fault_vfs_new();
    f->options.vfs = fault_vfs(files);
    small_memory(f);
    struct ps_txn *txn = begin_whole(f);
    put_range(f, txn, 0, 9000, 'a');
    fault_vfs_fail(files, FAULT_PWRITE, FAULT_LOG, 1, EIO, false);
    assert_int_equal(ps_commit(txn, PS_EVERYSEC, NULL), PS_UNKNOWN);
    ps_abort(fixture_begin(f));
    assert_int_equal(f->store->fresh.n, 0);
    expect_stored(f, 0, 'a');
    assert_int_equal(ps_check(f->store, NULL, NULL), 0);
    fixture_close(f, false);
    fault_vfs_free(files);
}

static void within_its_share_a_transaction_is_told_to_commit_and_never_if_it_must_be_whole(
    void **state)
{
    struct fixture *f = *state;
    small_memory(f);
    struct ps_snapshot *snap = fixture_snapshot(f);
    struct ps_txn *txn = fixture_begin(f);
    put_range(f, txn, 0, 2000, 'a'); /* more than half the arena: what dies is kept by the reader */
    fixture_commit(txn);
    txn = fixture_begin(f);
    char key[16];
    int rc = 0;
    for (unsigned i = 0; rc == 0 && i < 2000; i += 30)
        rc = ps_put(txn, f->tree, key_of(key, i), (struct ps_slice){"new", 3});
    assert_int_equal(rc, PS_BUSY);
    assert_false(txn->whole);
    ps_keep_whole(txn); /* late: what others hold stays, but its own pages can go */
    for (unsigned i = 0; i < 2000; i += 30)
        assert_int_equal(ps_put(txn, f->tree, key_of(key, i), (struct ps_slice){"new", 3}), 0);
    fixture_commit(txn);
    ps_snapshot_free(snap);
    assert_int_equal(ps_check(f->store, NULL, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORE_TEST(what_was_moved_is_read_changed_and_committed_like_the_rest),
        STORE_TEST(rolling_back_finds_what_the_savepoint_needs),
        STORE_TEST(an_abort_gives_every_page_and_slot_back),
        STORE_TEST(a_cursor_goes_on_over_pages_that_were_moved),
        STORE_TEST(a_place_that_is_used_again_has_another_birth),
        STORE_TEST(changing_the_same_pages_for_ever_takes_neither_file_nor_lists),
        STORE_TEST(thousands_of_savepoints_that_are_released_keep_nothing),
        STORE_TEST(keys_and_values_in_runs_move_with_their_leaf),
        STORE_TEST(the_whole_tree_can_leave_the_arena),
        STORE_TEST(a_sorted_load_is_written_in_long_pieces),
        STORE_TEST(a_failed_write_poisons_and_leaves_the_state_before),
        STORE_TEST(a_full_disk_refuses_and_the_transaction_can_still_end),
        STORE_TEST(on_a_full_disk_a_savepoint_that_would_keep_too_much_is_refused),
        STORE_TEST(an_abort_on_a_full_disk_ends_what_went_to_the_log),
        STORE_TEST(a_commit_whose_log_fails_gives_its_pages_back),
        STORE_TEST(within_its_share_a_transaction_is_told_to_commit_and_never_if_it_must_be_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
