/*
 * test_bulk.c - filling a tree bottom-up: what is read back, full pages, nothing seen before, and
 * nothing left of what was given up; the sorting of what comes in any order.
 */
#include "storage/store.h"
#include "tests/support/fault_fixture.h"
#include "tests/support/odd_entries.h"
#include "tests/support/store_fixture.h"

#define MANY 6000u

static char key_room[ODD_ROOM], value_room[ODD_ROOM];

static void put_odd(struct ps_bulk *bulk, unsigned i, char tag)
{
    assert_int_equal(ps_bulk_put(bulk, odd_key(i, key_room), odd_value(i, tag, value_room)), 0);
}

static struct ps_bulk *begin(struct fixture *f, struct ps_txn *txn, enum ps_bulk_order order,
                             uint64_t memory)
{
    struct ps_bulk *bulk;
    assert_int_equal(ps_bulk_begin(txn, f->tree, order, memory, &bulk), 0);
    return bulk;
}

static void load(struct fixture *f, unsigned n)
{
    struct ps_txn *txn = fixture_begin(f);
    struct ps_bulk *bulk = begin(f, txn, PS_SORTED, 0);
    uint64_t entries;
    for (unsigned i = 0; i < n; i++)
        put_odd(bulk, i, 'v');
    assert_int_equal(ps_bulk_finish(bulk, &entries), 0);
    assert_int_equal(entries, n);
    fixture_commit(txn);
}

static void assert_all(struct fixture *f, unsigned n, char tag)
{
    struct ps_snapshot *snap = fixture_snapshot(f);
    struct ps_cursor *cursor;
    unsigned i = 0;
    assert_int_equal(ps_cursor_open(ps_snapshot_view(snap), f->tree, &cursor), 0);
    for (int rc = ps_cursor_first(cursor); rc == 0; rc = ps_cursor_next(cursor), i++) {
        struct ps_slice key, value, found;
        assert_int_equal(ps_cursor_get(cursor, &key, &value), 0);
        struct ps_slice k = odd_key(i, key_room), v = odd_value(i, tag, value_room);
        assert_int_equal(key.len, k.len);
        assert_memory_equal(key.data, k.data, k.len);
        assert_int_equal(value.len, v.len);
        assert_memory_equal(value.data, v.data, v.len);
        assert_int_equal(ps_get(ps_snapshot_view(snap), f->tree, k, &found), 0);
        assert_int_equal(found.len, v.len);
    }
    assert_int_equal(i, n);
    ps_cursor_close(cursor);
    ps_snapshot_free(snap);
}

static uint64_t count(struct fixture *f)
{
    struct ps_snapshot *snap = fixture_snapshot(f);
    uint64_t n;
    assert_int_equal(ps_count(ps_snapshot_view(snap), f->tree, &n), 0);
    ps_snapshot_free(snap);
    return n;
}

static void every_form_of_entry_is_read_back_and_checks(void **state)
{
    struct fixture *f = *state;
    load(f, MANY);
    assert_all(f, MANY, 'v');
    assert_int_equal(ps_check(f->store, NULL, NULL), 0);
    fixture_reopen(f, true);
    assert_all(f, MANY, 'v');
}

static void any_number_of_entries_makes_a_tree_that_checks(void **state)
{
    struct fixture *f = *state;
    for (unsigned n = 0; n < 200; n = n < 12 ? n + 1 : n + 37) {
        struct ps_txn *txn = fixture_begin(f);
        assert_int_equal(ps_clear(txn, f->tree), 0);
        fixture_commit(txn);
        load(f, n);
        assert_int_equal(count(f), n);
        assert_int_equal(ps_check(f->store, NULL, NULL), 0);
    }
}

static void pages_are_full(void **state)
{
    struct fixture *f = *state;
    struct ps_txn *txn = fixture_begin(f);
    struct ps_bulk *bulk = begin(f, txn, PS_SORTED, 0);
    char value[100];
    memset(value, 'v', sizeof value);
    uint64_t before = f->store->stat.bulk_pages, bytes = 0;
    for (uint64_t i = 0; i < 50000; i++) {
        uint64_t big = __builtin_bswap64(i * UINT64_C(0x9e3779b97f4));
        char key[16] = "........";
        memcpy(key, &big, 8);
        assert_int_equal(
            ps_bulk_put(bulk, (struct ps_slice){key, 16}, (struct ps_slice){value, sizeof value}),
            0);
        bytes += 16 + sizeof value;
    }
    assert_int_equal(ps_bulk_finish(bulk, NULL), 0);
    fixture_commit(txn);
    uint64_t pages = f->store->stat.bulk_pages - before;
    assert_true(pages * 4096 <
                bytes * 110 / 100); /* 10 bytes an entry, half an entry at the end of each page */
}

static void entries_that_do_not_ascend_are_refused_and_change_nothing(void **state)
{
    struct fixture *f = *state;
    struct ps_txn *txn = fixture_begin(f);
    struct ps_bulk *bulk = begin(f, txn, PS_SORTED, 0);
    assert_int_equal(ps_bulk_put(bulk, text("b"), text("1")), 0);
    assert_int_equal(ps_bulk_put(bulk, text("b"), text("2")), PS_INVALID);
    assert_int_equal(ps_bulk_put(bulk, text("a"), text("3")), PS_INVALID);
    assert_int_equal(ps_bulk_put(bulk, text("c"), text("4")), 0);
    assert_int_equal(ps_bulk_finish(bulk, NULL), 0);
    fixture_commit(txn);
    assert_int_equal(count(f), 2);
}

static void a_tree_with_entries_is_refused(void **state)
{
    struct fixture *f = *state;
    struct ps_bulk *bulk;
    fixture_put(f, "key", "value");
    struct ps_txn *txn = fixture_begin(f);
    assert_int_equal(ps_bulk_begin(txn, f->tree, PS_SORTED, 0, &bulk), PS_EXISTS);
    assert_int_equal(ps_bulk_begin(txn, f->tree + 1, PS_SORTED, 0, &bulk), PS_NOTFOUND);
    assert_int_equal(ps_put(txn, f->tree, text("other"), text("value")), 0);
    fixture_commit(txn);
    assert_int_equal(count(f), 2);
}

static void nothing_else_is_done_while_a_bulk_is_open(void **state)
{
    struct fixture *f = *state;
    struct ps_txn *txn = fixture_begin(f);
    struct ps_bulk *bulk = begin(f, txn, PS_SORTED, 0);
    uint64_t seq;
    assert_int_equal(ps_bulk_put(bulk, text("a"), text("1")), 0);
    assert_int_equal(ps_put(txn, f->tree, text("b"), text("1")), PS_INVALID);
    assert_int_equal(ps_savepoint(txn), PS_INVALID);
    ps_bulk_cancel(bulk);
    assert_int_equal(ps_commit(txn, PS_EVERYSEC, &seq), PS_ENDED);
    assert_int_equal(count(f), 0);
    assert_int_equal(ps_check(f->store, NULL, NULL), 0);
}

static void what_is_given_up_leaves_no_page(void **state)
{
    struct fixture *f = *state;
    load(f, 50);
    assert_int_equal(ps_checkpoint(f->store), 0);
    struct ps_txn *txn = fixture_begin(f);
    ps_tree other;
    assert_int_equal(ps_tree_create(txn, text("other"), &other), 0);
    fixture_commit(txn);
    assert_int_equal(ps_checkpoint(f->store), 0);
    uint64_t live = space_pages(&f->store->space) - space_free_pages(&f->store->space);
    txn = fixture_begin(f);
    struct ps_bulk *bulk;
    assert_int_equal(ps_savepoint(txn), 0);
    assert_int_equal(ps_bulk_begin(txn, other, PS_SORTED, 0, &bulk), 0);
    for (unsigned i = 0; i < 2000; i++)
        put_odd(bulk, i, 'x');
    ps_bulk_cancel(bulk);
    assert_int_equal(ps_savepoint_rollback(txn), 0);
    assert_int_equal(ps_bulk_begin(txn, other, PS_SORTED, 0, &bulk), 0);
    for (unsigned i = 0; i < 2000; i++)
        put_odd(bulk, i, 'y');
    assert_int_equal(ps_bulk_finish(bulk, NULL), 0);
    ps_abort(txn);
    assert_true(space_pages(&f->store->space) - space_free_pages(&f->store->space) <= live);
    assert_int_equal(ps_check(f->store, NULL, NULL), 0);
    assert_all(f, 50, 'v');
}

static void a_reader_sees_nothing_before_the_commit(void **state)
{
    struct fixture *f = *state;
    struct ps_txn *txn = fixture_begin(f);
    struct ps_bulk *bulk = begin(f, txn, PS_SORTED, 0);
    for (unsigned i = 0; i < 1000; i++)
        put_odd(bulk, i, 'v');
    assert_int_equal(count(f), 0);
    assert_int_equal(ps_bulk_finish(bulk, NULL), 0);
    assert_int_equal(count(f), 0);
    fixture_commit(txn);
    assert_int_equal(count(f), 1000);
}

static void a_committed_load_is_replayed_from_the_log(void **state)
{
    struct fixture *f = *state;
    f->options.manual_checkpoint = true;
    fixture_reopen(f, true);
    load(f, MANY);
    fixture_reopen(f, false);
    assert_true(f->recovery.replayed_ops >= MANY);
    assert_all(f, MANY, 'v');
}

static void the_tree_goes_on_as_any_other(void **state)
{
    struct fixture *f = *state;
    load(f, 3000);
    for (unsigned i = 0; i < 3000; i += 3) {
        struct ps_txn *txn = fixture_begin(f);
        for (unsigned k = i; k < i + 3; k++)
            assert_int_equal(
                ps_put(txn, f->tree, odd_key(k, key_room), odd_value(k + 1, 'w', value_room)), 0);
        assert_int_equal(ps_delete(txn, f->tree, odd_key(i, key_room)), 0);
        fixture_commit(txn);
    }
    assert_int_equal(count(f), 2000);
    assert_int_equal(ps_check(f->store, NULL, NULL), 0);
}

static void entries_in_any_order_are_sorted_and_the_last_of_a_key_counts(void **state)
{
    struct fixture *f = *state;
    for (unsigned small = 0; small < 2; small++) {
        struct ps_txn *txn = fixture_begin(f);
        assert_int_equal(ps_clear(txn, f->tree), 0);
        fixture_commit(txn);
        uint64_t runs = f->store->stat.bulk_sort_runs;
        txn = fixture_begin(f);
        struct ps_bulk *bulk = begin(f, txn, PS_UNSORTED, small ? 65536 : 0);
        for (unsigned i = 0; i < 3 * MANY / 2; i++) {
            unsigned k = i * 2971u % MANY; /* each, and half of them again */
            put_odd(bulk, k, i < MANY ? 'o' : 'v');
        }
        for (unsigned i = 0; i < MANY; i++)
            put_odd(bulk, MANY - 1 - i, 'v');
        uint64_t entries;
        assert_int_equal(ps_bulk_finish(bulk, &entries), 0);
        assert_int_equal(entries, MANY);
        fixture_commit(txn);
        assert_all(f, MANY, 'v');
        uint64_t made = f->store->stat.bulk_sort_runs - runs;
        assert_true(small ? made > 100 : made <= 5);
    }
    assert_int_equal(ps_check(f->store, NULL, NULL), 0);
}

static void a_tree_that_compresses_does_so_here_and_in_its_copy(void **state)
{
    struct fixture *f = *state;
    const struct ps_tree_options options = {.compression = PS_LZ4, .compress_over = 500};
    struct ps_txn *txn = fixture_begin(f);
    assert_int_equal(ps_tree_set(txn, f->tree, &options), 0);
    fixture_commit(txn);
    load(f, MANY);
    assert_true(f->store->stat.values_compressed > 100);
    assert_all(f, MANY, 'v');
    struct ps_snapshot *snap = fixture_snapshot(f);
    char place[STORE_DIR_PATH + 8];
    snprintf(place, sizeof place, "%s/copy", f->dir);
    struct ps_copy_report report;
    assert_int_equal(ps_copy(snap, place, NULL, &report, NULL), 0);
    ps_snapshot_free(snap);
    assert_true(report.bytes < ps_file_bytes(f->store));
    struct fixture copy = {.options = f->options, .tree = f->tree};
    memcpy(copy.dir, place, strlen(place) + 1);
    fixture_open(&copy);
    assert_all(&copy, MANY, 'v');
    assert_int_equal(ps_check(copy.store, NULL, NULL), 0);
    struct ps_tree_options kept;
    snap = fixture_snapshot(&copy);
    assert_int_equal(ps_tree_options(ps_snapshot_view(snap), f->tree, &kept), 0);
    assert_int_equal(kept.compression, PS_LZ4);
    ps_snapshot_free(snap);
    fixture_close(&copy, false);
    store_dir_remove(place);
    fixture_reopen(f, false); /* out of the log */
    assert_all(f, MANY, 'v');
}

static void a_write_that_fails_poisons_the_store_and_leaves_what_was_there(void **state)
{
    struct fixture *f = *state;
    struct fault_vfs *files = fixture_close_for_faults(f);
    f->options.manual_checkpoint = true;
    fixture_open(f);
    struct ps_txn *txn = fixture_begin(f);
    struct ps_bulk *bulk = begin(f, txn, PS_SORTED, 0);
    fault_vfs_fail(files, FAULT_PWRITE, FAULT_DATA, 3, 5, false);
    int rc = 0;
    for (unsigned i = 0; rc == 0 && i < MANY; i++)
        rc = ps_bulk_put(bulk, odd_key(i, key_room), odd_value(i, 'v', value_room));
    rc = rc == 0 ? ps_bulk_finish(bulk, NULL) : (ps_bulk_cancel(bulk), rc);
    assert_int_equal(rc, PS_POISONED);
    ps_abort(txn);
    (void)ps_close(f->store, false);
    f->options.vfs = NULL;
    fixture_open(f);
    assert_int_equal(count(f), 0);
    fault_vfs_free(files);
}

static void a_full_disk_ends_the_load_and_leaves_the_store_writable(void **state)
{
    struct fixture *f = *state;
    struct fault_vfs *files = fixture_close_for_faults(f);
    fixture_open(f);
    struct ps_txn *txn = fixture_begin(f);
    struct ps_bulk *bulk = begin(f, txn, PS_SORTED, 0);
    fault_vfs_full(files, true);
    int rc = 0;
    for (unsigned i = 0; rc == 0 && i < MANY; i++)
        rc = ps_bulk_put(bulk, odd_key(i, key_room), odd_value(i, 'v', value_room));
    assert_int_equal(rc, PS_NOSPACE);
    ps_bulk_cancel(bulk);
    ps_abort(txn);
    fault_vfs_full(files, false);
    fixture_put(f, "key", "value");
    assert_int_equal(count(f), 1);
    assert_int_equal(ps_check(f->store, NULL, NULL), 0);
    fixture_close(f, true);
    f->options.vfs = NULL;
    fixture_open(f);
    fault_vfs_free(files);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORE_TEST(every_form_of_entry_is_read_back_and_checks),
        STORE_TEST(any_number_of_entries_makes_a_tree_that_checks),
        STORE_TEST(pages_are_full),
        STORE_TEST(entries_that_do_not_ascend_are_refused_and_change_nothing),
        STORE_TEST(a_tree_with_entries_is_refused),
        STORE_TEST(nothing_else_is_done_while_a_bulk_is_open),
        STORE_TEST(what_is_given_up_leaves_no_page),
        STORE_TEST(a_reader_sees_nothing_before_the_commit),
        STORE_TEST(a_committed_load_is_replayed_from_the_log),
        STORE_TEST(the_tree_goes_on_as_any_other),
        STORE_TEST(entries_in_any_order_are_sorted_and_the_last_of_a_key_counts),
        STORE_TEST(a_tree_that_compresses_does_so_here_and_in_its_copy),
        STORE_TEST(a_write_that_fails_poisons_the_store_and_leaves_what_was_there),
        STORE_TEST(a_full_disk_ends_the_load_and_leaves_the_store_writable),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
