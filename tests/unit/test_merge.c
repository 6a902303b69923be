/*
 * test_merge.c - merging: the operators, what they refuse, and how often it costs a log operation.
 */
#include "storage/merge.h"

#include "storage/inspect.h"
#include "tests/support/store_fixture.h"

static void set_operator(struct fixture *f, const char *name)
{
    struct ps_txn *txn = fixture_begin(f);
    struct ps_tree_options options = {0};
    snprintf(options.merge, sizeof options.merge, "%s", name);
    assert_int_equal(ps_tree_set(txn, f->tree, &options), 0);
    fixture_commit(txn);
}

static int merge_by(struct fixture *f, struct ps_txn *txn, const char *key, int64_t operand)
{
    return ps_merge(txn, f->tree, text(key), (struct ps_slice){&operand, sizeof operand});
}

static void must_merge(struct fixture *f, struct ps_txn *txn, const char *key, int64_t operand)
{
    assert_int_equal(merge_by(f, txn, key, operand), 0);
}

static int64_t number_at(struct ps_view *view, ps_tree tree, const char *key)
{
    struct ps_slice value;
    int64_t number;
    assert_int_equal(ps_get(view, tree, text(key), &value), 0);
    assert_int_equal(value.len, sizeof number);
    memcpy(&number, value.data, sizeof number);
    return number;
}

static int64_t committed_number(struct fixture *f, const char *key)
{
    struct ps_snapshot *snap = fixture_snapshot(f);
    int64_t number = number_at(ps_snapshot_view(snap), f->tree, key);
    ps_snapshot_free(snap);
    return number;
}

static void expect(struct fixture *f, const char *key, const char *value)
{
    struct ps_snapshot *snap = fixture_snapshot(f);
    struct ps_slice found;
    assert_int_equal(ps_get(ps_snapshot_view(snap), f->tree, text(key), &found), 0);
    assert_slice(found, value);
    ps_snapshot_free(snap);
}

static struct ps_stat stat_of(struct fixture *f)
{
    struct ps_stat stat;
    struct ps_txn *txn = fixture_begin(f);
    ps_abort(txn);
    ps_stats(f->store, &stat);
    return stat;
}

static void numbers_are_added_and_an_overflow_changes_nothing(void **state)
{
    struct fixture *f = *state;
    set_operator(f, "add");
    struct ps_txn *txn = fixture_begin(f);
    must_merge(f, txn, "n", 40);
    must_merge(f, txn, "n", -50);
    must_merge(f, txn, "n", 52);
    must_merge(f, txn, "big", INT64_MAX - 1);
    must_merge(f, txn, "big", 1);
    assert_int_equal(merge_by(f, txn, "big", 1), PS_OVERFLOW);
    must_merge(f, txn, "small", INT64_MIN);
    assert_int_equal(merge_by(f, txn, "small", -1), PS_OVERFLOW);
    must_merge(f, txn, "n", 0); /* the transaction goes on */
    fixture_commit(txn);
    assert_int_equal(committed_number(f, "n"), 42);
    assert_int_equal(committed_number(f, "big"), INT64_MAX);
    assert_int_equal(committed_number(f, "small"), INT64_MIN);
    txn = fixture_begin(f);
    assert_int_equal(merge_by(f, txn, "big", 1), PS_OVERFLOW);
    assert_false(ps_txn_changed(txn));
    fixture_commit(txn); /* of nothing, though a path was copied */
    assert_int_equal(ps_check(f->store, NULL, NULL), 0);
}

static void saturating_addition_stops_at_both_ends(void **state)
{
    struct fixture *f = *state;
    set_operator(f, "add-saturating");
    struct ps_txn *txn = fixture_begin(f);
    must_merge(f, txn, "up", INT64_MAX - 1);
    must_merge(f, txn, "up", 5);
    must_merge(f, txn, "down", INT64_MIN + 1);
    must_merge(f, txn, "down", -5);
    must_merge(f, txn, "back", INT64_MAX);
    must_merge(f, txn, "back", 1);
    must_merge(f, txn, "back", -1);
    fixture_commit(txn);
    assert_int_equal(committed_number(f, "up"), INT64_MAX);
    assert_int_equal(committed_number(f, "down"), INT64_MIN);
    assert_int_equal(committed_number(f, "back"), INT64_MAX - 1);
}

static void the_least_and_the_greatest_number_stay(void **state)
{
    struct fixture *f = *state;
    static const int64_t numbers[] = {3, -7, 12, 0};
    for (unsigned i = 0; i < 4; i++) {
        set_operator(f, i % 2 ? "max" : "min"); /* changed while it is in use */
        struct ps_txn *txn = fixture_begin(f);
        for (unsigned k = 0; k < 4; k++)
            must_merge(f, txn, i % 2 ? "max" : "min", numbers[k]);
        fixture_commit(txn);
    }
    assert_int_equal(committed_number(f, "min"), -7);
    assert_int_equal(committed_number(f, "max"), 12);
}

static void appending_goes_on_through_leaf_run_and_long_run(void **state)
{
    struct fixture *f = *state;
    char *all = malloc(300000), part[1500];
    for (unsigned how = PS_UNCOMPRESSED; how <= PS_ZSTD; how++) {
        struct ps_txn *txn = fixture_begin(f);
        struct ps_tree_options options = {.compression = how, .compress_over = 300};
        snprintf(options.merge, sizeof options.merge, "append");
        assert_int_equal(ps_tree_set(txn, f->tree, &options), 0);
        assert_int_equal(ps_clear(txn, f->tree), 0);
        size_t len = 0;
        for (unsigned i = 0; len < 250000; i++) {
            size_t n = i < 40 ? i : sizeof part - i % 7;
            memset(part, 'a' + (int)(i % 23), n);
            memcpy(all + len, part, n);
            len += n;
            int rc = ps_merge(txn, f->tree, text("log"), (struct ps_slice){part, n});
            assert_int_equal(rc, 0);
            if (i % 5 == 4) {
                fixture_commit(txn);
                txn = fixture_begin(f);
            }
        }
        fixture_commit(txn);
        fixture_reopen(f, false);
        struct ps_snapshot *snap = fixture_snapshot(f);
        struct ps_slice found;
        assert_int_equal(ps_get(ps_snapshot_view(snap), f->tree, text("log"), &found), 0);
        assert_int_equal(found.len, len);
        assert_memory_equal(found.data, all, len);
        ps_snapshot_free(snap);
    }
    assert_int_equal(ps_check(f->store, NULL, NULL), 0);
    free(all);
}

static void bits_are_joined_to_the_length_of_the_longer(void **state)
{
    struct fixture *f = *state;
    set_operator(f, "or");
    struct ps_txn *txn = fixture_begin(f);
    assert_int_equal(ps_merge(txn, f->tree, text("b"), text("\x01\x02")), 0);
    assert_int_equal(ps_merge(txn, f->tree, text("b"), text("\x10\x20\x40\x08")), 0);
    assert_int_equal(ps_merge(txn, f->tree, text("b"), text("\x80")), 0);
    fixture_commit(txn);
    expect(f, "b", "\x91\x22\x40\x08");
}

static void what_is_no_number_has_an_error_of_its_own(void **state)
{
    struct fixture *f = *state;
    static const char *const names[] = {"add", "add-saturating", "min", "max"};
    fixture_put(f, "text", "seven b");
    for (unsigned i = 0; i < 4; i++) {
        set_operator(f, names[i]);
        struct ps_txn *txn = fixture_begin(f);
        assert_int_equal(ps_merge(txn, f->tree, text("new"), text("four")), PS_INVALID);
        assert_int_equal(merge_by(f, txn, "text", 1), PS_MISMATCH);
        assert_false(ps_txn_changed(txn));
        fixture_commit(txn);
    }
    expect(f, "text", "seven b");
}

static void without_an_operator_there_is_no_merging(void **state)
{
    struct fixture *f = *state;
    struct ps_txn *txn = fixture_begin(f);
    assert_int_equal(merge_by(f, txn, "n", 1), PS_NOOPERATOR);
    assert_int_equal(ps_put(txn, f->tree, text("m"), text("m")), 0);
    assert_int_equal(merge_by(f, txn, "n", 1), PS_NOOPERATOR);
    assert_int_equal(ps_merge(txn, f->tree + 1, text("n"), text("m")), PS_NOTFOUND);
    fixture_commit(txn);
    set_operator(f, "unheard-of");
    txn = fixture_begin(f);
    assert_int_equal(merge_by(f, txn, "n", 1), PS_NOOPERATOR);
    ps_abort(txn);
}

/* ---- operators of the program's own ----------------------------------------------------------
 */

static int longest(void *arg, const struct ps_slice *old, struct ps_slice operand,
                   struct ps_merged *result)
{
    ++*(unsigned *)arg;
    struct ps_slice kept = old != NULL && old->len >= operand.len ? *old : operand;
    void *room = ps_merged_room(result, kept.len);
    if (room == NULL)
        return PS_NOMEM;
    memcpy(room, kept.data, kept.len);
    return operand.len == 4 ? PS_EXISTS : 0; /* refuses words of four letters */
}

static void an_operator_of_the_program_needs_no_program_to_be_replayed(void **state)
{
    struct fixture *f = *state;
    unsigned calls = 0;
    assert_int_equal(ps_merge_register(f->store, "longest", longest, &calls), 0);
    assert_int_equal(ps_merge_register(f->store, "longest", longest, &calls), PS_EXISTS);
    assert_int_equal(ps_merge_register(f->store, "add", longest, &calls), PS_EXISTS);
    assert_int_equal(ps_merge_register(f->store, "", longest, &calls), PS_INVALID);
    assert_int_equal(ps_merge_register(f->store, "a b", longest, &calls), PS_INVALID);
    set_operator(f, "longest");
    struct ps_txn *txn = fixture_begin(f);
    assert_int_equal(ps_merge(txn, f->tree, text("w"), text("aspen")), 0);
    assert_int_equal(ps_merge(txn, f->tree, text("w"), text("oak")), 0);
    assert_int_equal(ps_merge(txn, f->tree, text("w"), text("chestnut")), 0);
    assert_int_equal(ps_merge(txn, f->tree, text("w"), text("pine")), PS_EXISTS);
    assert_int_equal(calls, 4);
    fixture_commit(txn);
    fixture_reopen(f, false); /* it is not registered now */
    expect(f, "w", "chestnut");
    assert_int_equal(calls, 4);
    txn = fixture_begin(f);
    assert_int_equal(ps_merge(txn, f->tree, text("w"), text("oak")), PS_NOOPERATOR);
    assert_int_equal(ps_merge_register(f->store, "longest", longest, &calls), 0);
    assert_int_equal(ps_merge(txn, f->tree, text("w"), text("horse-chestnut")), 0);
    fixture_commit(txn);
    expect(f, "w", "horse-chestnut");
}

/* ---- folding ---------------------------------------------------------------------------------
 */

static void merges_of_a_key_in_a_transaction_take_one_operation_of_the_log(void **state)
{
    struct fixture *f = *state;
    set_operator(f, "add");
    struct ps_stat before = stat_of(f);
    struct ps_txn *txn = fixture_begin(f);
    for (unsigned i = 0; i < 9000; i++)
        must_merge(f, txn, i % 3 ? "hot" : "warm", 2);
    assert_true(txn->group->ops.n < 200);
    fixture_commit(txn);
    struct ps_stat after = stat_of(f);
    assert_int_equal(after.merge_ops - before.merge_ops, 9000);
    assert_int_equal(after.merge_ops_in_place - before.merge_ops_in_place, 8998);
    assert_true(after.merge_ops_folded - before.merge_ops_folded >= 8995);
    fixture_reopen(f, false);
    assert_int_equal(committed_number(f, "hot"), 12000);
    assert_int_equal(committed_number(f, "warm"), 6000);
}

static void what_stands_between_merges_is_replayed_between_them(void **state)
{
    struct fixture *f = *state;
    int64_t seven = 7;
    set_operator(f, "add");
    struct ps_txn *txn = fixture_begin(f);
    must_merge(f, txn, "deleted", 1);
    assert_int_equal(ps_delete(txn, f->tree, text("deleted")), 0);
    must_merge(f, txn, "deleted", 2);
    must_merge(f, txn, "put", 1);
    assert_int_equal(ps_put(txn, f->tree, text("put"), (struct ps_slice){&seven, 8}), 0);
    must_merge(f, txn, "put", 2);
    must_merge(f, txn, "last", 5);
    assert_int_equal(ps_put(txn, f->tree, text("last"), (struct ps_slice){&seven, 8}), 0);
    fixture_commit(txn);
    txn = fixture_begin(f);
    must_merge(f, txn, "gone", 1);
    must_merge(f, txn, "gone", 1);
    assert_int_equal(ps_delete(txn, f->tree, text("gone")), 0);
    fixture_commit(txn);
    fixture_reopen(f, false);
    assert_int_equal(committed_number(f, "deleted"), 2);
    assert_int_equal(committed_number(f, "put"), 9);
    assert_int_equal(committed_number(f, "last"), 7);
    struct ps_snapshot *snap = fixture_snapshot(f);
    struct ps_slice value;
    assert_int_equal(ps_get(ps_snapshot_view(snap), f->tree, text("gone"), &value), PS_NOTFOUND);
    ps_snapshot_free(snap);
}

static void a_savepoint_keeps_what_was_logged_before_it(void **state)
{
    struct fixture *f = *state;
    set_operator(f, "add");
    struct ps_txn *txn = fixture_begin(f);
    must_merge(f, txn, "n", 1);
    assert_int_equal(ps_savepoint(txn), 0);
    must_merge(f, txn, "n", 10);
    must_merge(f, txn, "n", 100);
    assert_int_equal(ps_savepoint_rollback(txn), 0);
    assert_int_equal(number_at(ps_txn_view(txn), f->tree, "n"), 1);
    must_merge(f, txn, "n", 1000);
    assert_int_equal(ps_savepoint(txn), 0);
    must_merge(f, txn, "n", 10000);
    assert_int_equal(ps_savepoint_release(txn), 0);
    must_merge(f, txn, "n", 100000);
    fixture_commit(txn);
    fixture_reopen(f, false);
    assert_int_equal(committed_number(f, "n"), 111001);
}

static void merges_of_a_transaction_in_pieces_are_all_there(void **state)
{
    struct fixture *f = *state;
    set_operator(f, "add");
    struct ps_txn *txn = fixture_begin(f);
    char *filler = calloc(1, 60000);
    ps_keep_whole(txn);
    for (unsigned i = 0; i < 400; i++) {
        char key[16];
        must_merge(f, txn, "n", 1);
        must_merge(f, txn, "n", 1);
        snprintf(key, sizeof key, "filler %u", i % 20);
        assert_int_equal(ps_put(txn, f->tree, text(key), (struct ps_slice){filler, 60000}), 0);
        must_merge(f, txn, "n", 1);
        if (i % 50 == 10)
            assert_int_equal(ps_savepoint(txn), 0);
        if (i % 50 == 30)
            assert_int_equal(ps_savepoint_release(txn), 0);
    }
    assert_true(txn->in_pieces);
    fixture_commit(txn);
    fixture_reopen(f, false);
    assert_int_equal(committed_number(f, "n"), 1200);
    free(filler);
}

static void a_cursor_stays_right_under_merges(void **state)
{
    struct fixture *f = *state;
    struct ps_cursor *cursor;
    struct ps_slice key, value;
    set_operator(f, "append");
    fixture_put(f, "b", "1");
    struct ps_txn *txn = fixture_begin(f);
    assert_int_equal(ps_cursor_open(ps_txn_view(txn), f->tree, &cursor), 0);
    assert_int_equal(ps_cursor_first(cursor), 0);
    assert_int_equal(ps_merge(txn, f->tree, text("a"), text("0")), 0);
    assert_int_equal(ps_merge(txn, f->tree, text("b"), text("2")), 0);
    assert_int_equal(ps_cursor_get(cursor, &key, &value), 0);
    assert_slice(key, "b");
    assert_slice(value, "12");
    assert_int_equal(ps_cursor_prev(cursor), 0);
    assert_int_equal(ps_cursor_get(cursor, &key, &value), 0);
    assert_slice(key, "a");
    assert_int_equal(ps_merge(txn, f->tree, key, value), 0); /* with what was read */
    assert_int_equal(ps_cursor_get(cursor, &key, &value), 0);
    assert_slice(value, "00");
    ps_cursor_close(cursor);
    fixture_commit(txn);
    expect(f, "a", "00");
}

static void keys_of_any_length_are_merged(void **state)
{
    struct fixture *f = *state;
    static const size_t lengths[] = {0, 1, 500, 5000, 70000};
    char *key = malloc(70000);
    memset(key, 'k', 70000);
    set_operator(f, "add");
    for (unsigned round = 0; round < 3; round++) {
        struct ps_txn *txn = fixture_begin(f);
        for (unsigned i = 0; i < 5; i++) {
            int64_t n = 1 + i;
            for (unsigned k = 0; k < 2; k++)
                assert_int_equal(ps_merge(txn, f->tree, (struct ps_slice){key, lengths[i]},
                                          (struct ps_slice){&n, 8}),
                                 0);
        }
        fixture_commit(txn);
    }
    fixture_reopen(f, false);
    struct ps_snapshot *snap = fixture_snapshot(f);
    for (unsigned i = 0; i < 5; i++) {
        struct ps_slice value;
        int64_t n;
        assert_int_equal(
            ps_get(ps_snapshot_view(snap), f->tree, (struct ps_slice){key, lengths[i]}, &value), 0);
        memcpy(&n, value.data, 8);
        assert_int_equal(n, 6 * (1 + i));
    }
    ps_snapshot_free(snap);
    free(key);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORE_TEST(numbers_are_added_and_an_overflow_changes_nothing),
        STORE_TEST(saturating_addition_stops_at_both_ends),
        STORE_TEST(the_least_and_the_greatest_number_stay),
        STORE_TEST(appending_goes_on_through_leaf_run_and_long_run),
        STORE_TEST(bits_are_joined_to_the_length_of_the_longer),
        STORE_TEST(what_is_no_number_has_an_error_of_its_own),
        STORE_TEST(without_an_operator_there_is_no_merging),
        STORE_TEST(an_operator_of_the_program_needs_no_program_to_be_replayed),
        STORE_TEST(merges_of_a_key_in_a_transaction_take_one_operation_of_the_log),
        STORE_TEST(what_stands_between_merges_is_replayed_between_them),
        STORE_TEST(a_savepoint_keeps_what_was_logged_before_it),
        STORE_TEST(merges_of_a_transaction_in_pieces_are_all_there),
        STORE_TEST(a_cursor_stays_right_under_merges),
        STORE_TEST(keys_of_any_length_are_merged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
