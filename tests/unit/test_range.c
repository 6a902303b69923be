/*
 * test_range.c - ps_delete_range and ps_split_range (storage/range.c, storage/tree_range.c).
 */
#include "storage/inspect.h"
#include "tests/support/store_fixture.h"

#define ENTRIES 20000u

static struct ps_stat stat_of(struct fixture *f)
{
    struct ps_stat stat;
    ps_stats(f->store, &stat);
    return stat;
}

static struct ps_slice key_of(char buffer[32], unsigned i)
{
    return (struct ps_slice){buffer, (size_t)snprintf(buffer, 32, "key %05u", i)};
}

/* Deletes keys [from, to) in a transaction. */
static uint64_t delete_in(struct fixture *f, struct ps_txn *txn, unsigned from, unsigned to,
                          uint64_t most)
{
    char a[32], b[32];
    struct ps_slice low = key_of(a, from), high = key_of(b, to);
    uint64_t deleted = 0;
    assert_int_equal(ps_delete_range(txn, f->tree, &low, &high, most, &deleted), 0);
    return deleted;
}

static uint64_t delete_keys(struct fixture *f, unsigned from, unsigned to)
{
    struct ps_txn *txn = fixture_begin(f);
    uint64_t deleted = delete_in(f, txn, from, to, 0);
    fixture_commit(txn);
    return deleted;
}

/* That just keys [from, to) are missing among the first `all`. */
static void assert_missing(struct ps_view *view, ps_tree tree, unsigned from, unsigned to,
                           unsigned all)
{
    char buffer[32];
    uint64_t count;
    struct ps_slice value;
    assert_int_equal(ps_count(view, tree, &count), 0);
    assert_int_equal(count, all - (to - from));
    for (unsigned i = 0; i < all; i++) {
        int rc = ps_get(view, tree, key_of(buffer, i), &value);
        assert_int_equal(rc, i >= from && i < to ? PS_NOTFOUND : 0);
    }
}

static void assert_missing_now(struct fixture *f, unsigned from, unsigned to, unsigned all)
{
    struct ps_snapshot *snap = fixture_snapshot(f);
    assert_missing(ps_snapshot_view(snap), f->tree, from, to, all);
    ps_snapshot_free(snap);
    assert_int_equal(ps_check(f->store, NULL, NULL), 0);
}

static void a_range_is_gone_and_nothing_else(void **state)
{
    struct fixture *f = *state;
    fixture_fill(f, 0, ENTRIES, 40);
    assert_int_equal(delete_keys(f, 5000, 15000), 10000);
    assert_missing_now(f, 5000, 15000, ENTRIES);
    assert_int_equal(delete_keys(f, 5000, 15000), 0);
}

static void a_bound_that_is_open_takes_all_on_its_side(void **state)
{
    struct fixture *f = *state;
    char buffer[32];
    uint64_t deleted;
    fixture_fill(f, 0, ENTRIES, 40);
    struct ps_slice key = key_of(buffer, 6000), empty = {"", 0};
    struct ps_txn *txn = fixture_begin(f);
    assert_int_equal(ps_delete_range(txn, f->tree, NULL, &key, 0, &deleted), 0);
    assert_int_equal(deleted, 6000);
    assert_int_equal(ps_delete_range(txn, f->tree, NULL, &empty, 0, &deleted), 0);
    assert_int_equal(deleted, 0);
    assert_missing(ps_txn_view(txn), f->tree, 0, 6000, ENTRIES);
    key = key_of(buffer, 7000);
    assert_int_equal(ps_delete_range(txn, f->tree, &key, NULL, 0, &deleted), 0);
    assert_int_equal(deleted, ENTRIES - 7000);
    assert_int_equal(ps_delete_range(txn, f->tree, &empty, NULL, 0, &deleted), 0);
    assert_int_equal(deleted, 1000);
    fixture_commit(txn);
    assert_int_equal(ps_check(f->store, NULL, NULL), 0);
    assert_int_equal(stat_of(f).entries, 0);
}

static void leaves_between_the_ends_are_not_read(void **state)
{
    struct fixture *f = *state;
    fixture_fill(f, 0, ENTRIES, 40);
    fixture_reopen(f, true);
    struct ps_stat before = stat_of(f);
    delete_keys(f, 1, ENTRIES - 1);
    struct ps_stat after = stat_of(f);
    assert_true(after.leaves_freed_unread - before.leaves_freed_unread > 200);
    assert_true(after.pages_verified - before.pages_verified < 20);
    assert_int_equal(after.ranges_deleted, before.ranges_deleted + 1);
    assert_missing_now(f, 1, ENTRIES - 1, ENTRIES);
}

static void the_pages_of_a_range_come_back(void **state)
{
    struct fixture *f = *state;
    fixture_fill(f, 0, ENTRIES, 200);
    fixture_reopen(f, true);
    delete_keys(f, 100, ENTRIES);
    assert_int_equal(ps_checkpoint(f->store), 0);
    assert_int_equal(ps_checkpoint(f->store), 0); /* both metas */
    struct ps_txn *txn = fixture_begin(f);
    ps_abort(txn);
    struct ps_stat stat = stat_of(f);
    assert_true(stat.file_pages_free > stat.file_pages / 2);
}

static void runs_of_keys_and_values_go_with_their_range(void **state)
{
    struct fixture *f = *state;
    static char bytes[200000];
    uint64_t deleted;
    memset(bytes, 'k', sizeof bytes);
    for (unsigned round = 0; round < 2; round++) {
        struct ps_txn *txn = fixture_begin(f);
        for (unsigned i = 0; i < 60; i++) {
            size_t len = i % 3 == 0 ? 3000 : i % 3 == 1 ? 9000 : i % 20 == 2 ? 150000 : 10;
            (void)snprintf(bytes + 1000, 8, "%06u", i);
            bytes[1006] = 'k';
            struct ps_slice key = {bytes, i % 2 ? 1007 : 2000}, value = {bytes, len};
            assert_int_equal(ps_put(txn, f->tree, key, value), 0);
        }
        fixture_commit(txn);
        struct ps_slice low = {bytes, 1006}, high = {bytes, 1006};
        char from[1006], to[1006];
        memcpy(from, bytes, sizeof from);
        memcpy(to, bytes, sizeof to);
        memcpy(from + 1000, "000003", 6);
        memcpy(to + 1000, "000057", 6);
        low.data = from;
        high.data = to;
        if (round > 0) {
            fixture_reopen(f, true);
        }
        txn = fixture_begin(f);
        assert_int_equal(ps_delete_range(txn, f->tree, &low, &high, 0, &deleted), 0);
        assert_int_equal(deleted, 54);
        fixture_commit(txn);
        assert_int_equal(ps_check(f->store, NULL, NULL), 0);
    }
}

static void a_snapshot_keeps_what_was_deleted_after_it(void **state)
{
    struct fixture *f = *state;
    fixture_fill(f, 0, ENTRIES, 40);
    struct ps_snapshot *plain = fixture_snapshot(f), *pinned = fixture_snapshot(f);
    assert_int_equal(ps_snapshot_pin(pinned), 0);
    delete_keys(f, 10, 19990);
    fixture_fill(f, ENTRIES, 2 * ENTRIES, 40);
    assert_int_equal(ps_checkpoint(f->store), 0);
    fixture_fill(f, ENTRIES, 2 * ENTRIES, 41);
    assert_missing(ps_snapshot_view(plain), f->tree, 0, 0, ENTRIES);
    assert_missing(ps_snapshot_view(pinned), f->tree, 0, 0, ENTRIES);
    ps_snapshot_free(plain);
    ps_snapshot_free(pinned);
    assert_missing_now(f, 10, 19990, 2 * ENTRIES);
}

static void a_range_comes_back_with_its_savepoint(void **state)
{
    struct fixture *f = *state;
    fixture_fill(f, 0, ENTRIES, 40);
    assert_int_equal(ps_checkpoint(f->store), 0);
    struct ps_txn *txn = fixture_begin(f);
    assert_int_equal(delete_in(f, txn, 100, 200, 0), 100);
    assert_int_equal(ps_savepoint(txn), 0);
    assert_int_equal(delete_in(f, txn, 50, 19000, 0), 18850);
    assert_int_equal(ps_savepoint_rollback(txn), 0);
    assert_missing(ps_txn_view(txn), f->tree, 100, 200, ENTRIES);
    assert_int_equal(ps_savepoint(txn), 0);
    assert_int_equal(delete_in(f, txn, 200, 300, 0), 100);
    assert_int_equal(ps_savepoint_release(txn), 0);
    fixture_commit(txn);
    assert_missing_now(f, 100, 300, ENTRIES);
    txn = fixture_begin(f);
    delete_in(f, txn, 0, ENTRIES, 0);
    ps_abort(txn);
    assert_missing_now(f, 100, 300, ENTRIES);
}

static void a_range_is_replayed_at_its_place_among_other_operations(void **state)
{
    struct fixture *f = *state;
    char buffer[32];
    fixture_fill(f, 0, ENTRIES, 40);
    fixture_reopen(f, true);
    struct ps_txn *txn = fixture_begin(f);
    assert_int_equal(ps_put(txn, f->tree, key_of(buffer, 7001), text("old")), 0);
    delete_in(f, txn, 7000, 8000, 0);
    assert_int_equal(ps_put(txn, f->tree, key_of(buffer, 7002), text("new")), 0);
    fixture_commit(txn);
    fixture_reopen(f, false);
    assert_int_equal(f->recovery.replayed_ops, 3);
    struct ps_snapshot *snap = fixture_snapshot(f);
    struct ps_slice value;
    struct ps_view *view = ps_snapshot_view(snap);
    assert_int_equal(ps_get(view, f->tree, key_of(buffer, 7001), &value), PS_NOTFOUND);
    assert_int_equal(ps_get(view, f->tree, key_of(buffer, 7002), &value), 0);
    assert_slice(value, "new");
    ps_snapshot_free(snap);
    assert_int_equal(stat_of(f).entries, ENTRIES - 999);
    assert_int_equal(ps_check(f->store, NULL, NULL), 0);
}

static void the_open_end_of_a_range_is_replayed_too(void **state)
{
    struct fixture *f = *state;
    char buffer[32];
    uint64_t deleted;
    fixture_fill(f, 0, ENTRIES, 40);
    struct ps_slice low = key_of(buffer, 300);
    struct ps_txn *txn = fixture_begin(f);
    assert_int_equal(ps_delete_range(txn, f->tree, &low, NULL, 0, &deleted), 0);
    fixture_commit(txn);
    fixture_reopen(f, false);
    assert_missing_now(f, 300, ENTRIES, ENTRIES);
}

static void keep_op(void *arg, const struct ps_log_op *op)
{
    if (strcmp(op->name, "delete-range") == 0) {
        char *line = arg;
        (void)snprintf(line, 100, "%.*s to %.*s", (int)op->key.len, (const char *)op->key.data,
                       (int)op->value.len, (const char *)op->value.data);
    }
}

static void the_log_is_listed_with_both_bounds(void **state)
{
    struct fixture *f = *state;
    char line[100] = "";
    struct ps_log_watch watch = {.op = keep_op, .arg = line};
    struct ps_log_report report;
    struct ps_fault fault;
    fixture_fill(f, 0, 100, 40);
    assert_int_equal(delete_keys(f, 30, 60), 30);
    assert_int_equal(ps_flush(f->store, ps_published(f->store)), 0);
    assert_int_equal(ps_log_read(f->dir, NULL, &watch, &report, &fault), 0);
    assert_string_equal(line, "key 00030 to key 00060");
}

static void with_a_bound_it_stops_at_the_end_of_a_leaf_and_goes_on(void **state)
{
    struct fixture *f = *state;
    uint64_t sum = 0, deleted;
    unsigned steps = 0;
    fixture_fill(f, 0, ENTRIES, 40);
    do {
        struct ps_txn *txn = fixture_begin(f);
        deleted = delete_in(f, txn, 1000, 19000, 500);
        fixture_commit(txn);
        assert_true(deleted <= 500 + 200);
        assert_true(deleted >= 500 || sum + deleted == 18000);
        sum += deleted;
        steps += deleted > 0;
        if (steps == 10) {
            assert_missing_now(f, 1000, 1000 + (unsigned)sum, ENTRIES);
        }
        if (steps == 20) {
            fixture_reopen(f, false);
        }
    } while (deleted > 0);
    assert_int_equal(sum, 18000);
    assert_true(steps > 25);
    assert_missing_now(f, 1000, 19000, ENTRIES);
}

static void a_tree_is_emptied_in_bounded_steps(void **state)
{
    struct fixture *f = *state;
    uint64_t deleted;
    unsigned steps = 0;
    fixture_fill(f, 0, ENTRIES, 40);
    struct ps_txn *txn = fixture_begin(f);
    do {
        assert_int_equal(ps_delete_range(txn, f->tree, NULL, NULL, 3000, &deleted), 0);
        steps++;
    } while (deleted > 0);
    assert_int_equal(ps_tree_drop(txn, f->tree), 0);
    fixture_commit(txn);
    assert_true(steps >= 6 && steps <= 9);
    assert_true(stat_of(f).ranges_shortened >= 5);
    assert_int_equal(ps_check(f->store, NULL, NULL), 0);
}

/* All but every hundredth leaf or so is taken out in stripes: what is left must be few pages. */
static void what_is_left_is_packed_as_after_deletes(void **state)
{
    struct fixture *f = *state;
    fixture_fill(f, 0, ENTRIES, 40);
    struct ps_txn *txn = fixture_begin(f);
    for (unsigned i = 0; i < ENTRIES; i += 500) {
        assert_int_equal(delete_in(f, txn, i + 2, i + 500, 0), 498);
    }
    fixture_commit(txn);
    assert_int_equal(ps_check(f->store, NULL, NULL), 0);
    assert_true(stat_of(f).range_edges_balanced > 20);
    fixture_reopen(f, true);
    struct ps_stat stat = stat_of(f);
    assert_int_equal(stat.entries, 80);
    assert_true(stat.depth_max <= 2); /* 80 entries of 60 bytes: two to six leaves */
}

static void it_spills_like_any_other_change(void **state)
{
    struct fixture *f = *state;
    f->options.dirty_memory = 1u << 20;
    fixture_reopen(f, true);
    struct ps_txn *txn = fixture_begin(f);
    char buffer[32], value[300] = "";
    ps_keep_whole(txn);
    for (unsigned i = 0; i < ENTRIES; i++) {
        assert_int_equal(
            ps_put(txn, f->tree, key_of(buffer, i), (struct ps_slice){value, sizeof value}), 0);
        if (i % 4000 == 3999) {
            assert_int_equal(delete_in(f, txn, i - 3000, i - 1000, 0), 2000);
        }
    }
    assert_int_equal(delete_in(f, txn, 100, 19900, 0), 9800);
    fixture_commit(txn);
    assert_true(stat_of(f).spilled_pages > 0);
    assert_missing_now(f, 100, 19900, ENTRIES);
    fixture_reopen(f, false);
    assert_missing_now(f, 100, 19900, ENTRIES);
}

static void a_cursor_of_the_transaction_goes_on_behind_the_range(void **state)
{
    struct fixture *f = *state;
    char buffer[32];
    struct ps_cursor *cursor;
    struct ps_slice key;
    fixture_fill(f, 0, ENTRIES, 40);
    struct ps_txn *txn = fixture_begin(f);
    assert_int_equal(ps_cursor_open(ps_txn_view(txn), f->tree, &cursor), 0);
    assert_int_equal(ps_cursor_seek(cursor, key_of(buffer, 6000), PS_EQ), 0);
    delete_in(f, txn, 5000, 7000, 0);
    assert_int_equal(ps_cursor_next(cursor), 0);
    assert_int_equal(ps_cursor_get(cursor, &key, NULL), 0);
    assert_slice(key, "key 07000");
    assert_int_equal(ps_cursor_prev(cursor), 0);
    assert_int_equal(ps_cursor_get(cursor, &key, NULL), 0);
    assert_slice(key, "key 04999");
    /* bounds that were read here, and are gone with the range */
    uint64_t deleted;
    assert_int_equal(ps_delete_range(txn, f->tree, &key, NULL, 0, &deleted), 0);
    assert_int_equal(deleted, ENTRIES - 2000 - 4999);
    ps_cursor_close(cursor);
    fixture_commit(txn);
    assert_missing_now(f, 4999, ENTRIES, ENTRIES);
}

static void what_cannot_be_done_is_refused(void **state)
{
    struct fixture *f = *state;
    uint64_t deleted = 7;
    struct ps_slice much = {"", (size_t)PS_MAX_KEY + 1};
    struct ps_txn *txn = fixture_begin(f);
    assert_int_equal(ps_delete_range(txn, 99, NULL, NULL, 0, &deleted), PS_NOTFOUND);
    assert_int_equal(deleted, 0);
    assert_int_equal(ps_delete_range(txn, f->tree, &much, NULL, 0, &deleted), PS_TOOBIG);
    assert_int_equal(ps_delete_range(txn, f->tree, NULL, NULL, 0, &deleted), 0);
    assert_false(ps_txn_changed(txn));
    ps_abort(txn);
}

static void a_range_is_cut_into_equal_parts(void **state)
{
    struct fixture *f = *state;
    char a[32], b[32];
    struct ps_slice keys[64], low = key_of(a, 1000), high = key_of(b, 19000);
    unsigned n;
    void *memory;
    fixture_fill(f, 0, ENTRIES, 40);
    struct ps_snapshot *snap = fixture_snapshot(f);
    struct ps_view *view = ps_snapshot_view(snap);
    for (unsigned parts = 1; parts <= 64; parts++) {
        assert_int_equal(ps_split_range(view, f->tree, &low, &high, parts, keys, &n, &memory), 0);
        assert_int_equal(n, parts - 1);
        for (unsigned i = 0; i <= n; i++) {
            uint64_t count;
            assert_int_equal(ps_count_range(view, f->tree, i == 0 ? &low : &keys[i - 1],
                                            i == n ? &high : &keys[i], &count),
                             0);
            assert_in_range(count, 18000 / parts, 18000 / parts + 1);
        }
        free(memory);
    }
    high = key_of(b, 1003);
    assert_int_equal(ps_split_range(view, f->tree, &low, &high, 64, keys, &n, &memory), 0);
    assert_int_equal(n, 2);
    assert_slice(keys[0], "key 01001");
    free(memory);
    assert_int_equal(ps_split_range(view, f->tree, &high, &low, 64, keys, &n, &memory), 0);
    assert_int_equal(n, 0);
    free(memory);
    assert_int_equal(ps_split_range(view, f->tree, NULL, NULL, 0, keys, &n, &memory), PS_INVALID);
    assert_int_equal(ps_split_range(view, 99, NULL, NULL, 2, keys, &n, &memory), PS_NOTFOUND);
    ps_snapshot_free(snap);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORE_TEST(a_range_is_gone_and_nothing_else),
        STORE_TEST(a_bound_that_is_open_takes_all_on_its_side),
        STORE_TEST(leaves_between_the_ends_are_not_read),
        STORE_TEST(the_pages_of_a_range_come_back),
        STORE_TEST(runs_of_keys_and_values_go_with_their_range),
        STORE_TEST(a_snapshot_keeps_what_was_deleted_after_it),
        STORE_TEST(a_range_comes_back_with_its_savepoint),
        STORE_TEST(a_range_is_replayed_at_its_place_among_other_operations),
        STORE_TEST(the_open_end_of_a_range_is_replayed_too),
        STORE_TEST(the_log_is_listed_with_both_bounds),
        STORE_TEST(with_a_bound_it_stops_at_the_end_of_a_leaf_and_goes_on),
        STORE_TEST(a_tree_is_emptied_in_bounded_steps),
        STORE_TEST(what_is_left_is_packed_as_after_deletes),
        STORE_TEST(it_spills_like_any_other_change),
        STORE_TEST(a_cursor_of_the_transaction_goes_on_behind_the_range),
        STORE_TEST(what_cannot_be_done_is_refused),
        STORE_TEST(a_range_is_cut_into_equal_parts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
