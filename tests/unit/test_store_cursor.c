/*
 * test_store_cursor.c - cursors at both ends, within bounds, by seek and by position, and over a
 * transaction's own changes.
 */
#include "tests/support/store_fixture.h"

#define N 1000 /* keys "key 00000", "key 00010", "key 00020", ... */

static int setup(void **state)
{
    struct fixture *f = fixture_new();
    char key[16];
    struct ps_txn *txn = fixture_begin(f);
    for (unsigned i = 0; i < N; i++) {
        snprintf(key, sizeof key, "key %05u", i * 10);
        assert_int_equal(ps_put(txn, f->tree, text(key), text(key)), 0);
    }
    fixture_commit(txn);
    *state = f;
    return 0;
}

static struct ps_cursor *open_on(struct fixture *f, struct ps_snapshot **snap)
{
    struct ps_cursor *cursor = NULL;
    *snap = fixture_snapshot(f);
    assert_int_equal(ps_cursor_open(ps_snapshot_view(*snap), f->tree, &cursor), 0);
    return cursor;
}

static void stands_on(struct ps_cursor *cursor, int rc, const char *key)
{
    struct ps_slice k, v;
    assert_int_equal(rc, 0);
    assert_int_equal(ps_cursor_get(cursor, &k, &v), 0);
    assert_slice(k, key);
    assert_slice(v, key);
}

static void first_and_last_stand_on_the_ends(void **state)
{
    struct ps_snapshot *snap;
    struct ps_cursor *c = open_on(*state, &snap);
    stands_on(c, ps_cursor_first(c), "key 00000");
    stands_on(c, ps_cursor_next(c), "key 00010");
    stands_on(c, ps_cursor_last(c), "key 09990");
    stands_on(c, ps_cursor_prev(c), "key 09980");
    ps_cursor_close(c);
    ps_snapshot_free(snap);
}

static void a_walk_sees_every_entry_once_in_order(void **state)
{
    struct ps_snapshot *snap;
    struct ps_cursor *c = open_on(*state, &snap);
    char key[16];
    for (int forward = 0; forward < 2; forward++) {
        int rc = forward ? ps_cursor_first(c) : ps_cursor_last(c);
        for (unsigned i = 0; i < N; i++) {
            snprintf(key, sizeof key, "key %05u", (forward ? i : N - 1 - i) * 10);
            stands_on(c, rc, key);
            rc = forward ? ps_cursor_next(c) : ps_cursor_prev(c);
        }
        assert_int_equal(rc, PS_NOTFOUND);
    }
    ps_cursor_close(c);
    ps_snapshot_free(snap);
}

static void off_an_end_it_stays_off_and_stands_on_nothing(void **state)
{
    struct ps_snapshot *snap;
    struct ps_cursor *c = open_on(*state, &snap);
    struct ps_slice key;
    assert_int_equal(ps_cursor_last(c), 0);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(ps_cursor_next(c), PS_NOTFOUND);
        assert_int_equal(ps_cursor_get(c, &key, NULL), PS_NOTFOUND);
    }
    assert_int_equal(ps_cursor_prev(c), PS_NOTFOUND);
    assert_int_equal(ps_cursor_first(c), 0);
    for (int i = 0; i < 3; i++)
        assert_int_equal(ps_cursor_prev(c), PS_NOTFOUND);
    assert_int_equal(ps_cursor_next(c), PS_NOTFOUND);
    stands_on(c, ps_cursor_last(c), "key 09990");
    ps_cursor_close(c);
    ps_snapshot_free(snap);
}

static void each_kind_of_seek_finds_its_neighbour(void **state)
{
    static const struct {
        const char *key;
        const char *found[5]; /* GE GT LE LT EQ; NULL: none */
    } cases[] = {
        {"key 00500", {"key 00500", "key 00510", "key 00500", "key 00490", "key 00500"}},
        {"key 00505", {"key 00510", "key 00510", "key 00500", "key 00500", NULL}},
        {"", {"key 00000", "key 00000", NULL, NULL, NULL}},
        {"key 00000", {"key 00000", "key 00010", "key 00000", NULL, "key 00000"}},
        {"key 09990", {"key 09990", NULL, "key 09990", "key 09980", "key 09990"}},
        {"z", {NULL, NULL, "key 09990", "key 09990", NULL}},
    };
    struct ps_snapshot *snap;
    struct ps_cursor *c = open_on(*state, &snap);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (int how = PS_GE; how <= PS_EQ; how++) {
            int rc = ps_cursor_seek(c, text(cases[i].key), (enum ps_seek)how);
            if (cases[i].found[how])
                stands_on(c, rc, cases[i].found[how]);
            else
                assert_int_equal(rc, PS_NOTFOUND);
        }
    }
    ps_cursor_close(c);
    ps_snapshot_free(snap);
}

static void bounds_hide_what_is_outside_from_every_move(void **state)
{
    struct ps_snapshot *snap;
    struct ps_cursor *c = open_on(*state, &snap);
    char low_bytes[] = "key 00100", high_bytes[] = "key 00200";
    struct ps_slice low = text(low_bytes), high = text(high_bytes);
    assert_int_equal(ps_cursor_bounds(c, &low, &high), 0);
    memset(low_bytes, 'x', 9);
    memset(high_bytes, 'x', 9);
    stands_on(c, ps_cursor_first(c), "key 00100");
    assert_int_equal(ps_cursor_prev(c), PS_NOTFOUND);
    stands_on(c, ps_cursor_last(c), "key 00190");
    assert_int_equal(ps_cursor_next(c), PS_NOTFOUND);
    stands_on(c, ps_cursor_seek(c, text(""), PS_GE), "key 00100");
    stands_on(c, ps_cursor_seek(c, text("z"), PS_LT), "key 00190");
    assert_int_equal(ps_cursor_seek(c, text("key 00200"), PS_EQ), PS_NOTFOUND);
    assert_int_equal(ps_cursor_seek(c, text("key 00200"), PS_GE), PS_NOTFOUND);
    assert_int_equal(ps_cursor_seek(c, text("key 00099"), PS_LE), PS_NOTFOUND);
    stands_on(c, ps_cursor_select(c, 15), "key 00150");
    assert_int_equal(ps_cursor_select(c, 9), PS_NOTFOUND);
    assert_int_equal(ps_cursor_select(c, 20), PS_NOTFOUND);
    assert_int_equal(ps_cursor_bounds(c, NULL, NULL), 0);
    stands_on(c, ps_cursor_first(c), "key 00000");
    ps_cursor_close(c);
    ps_snapshot_free(snap);
}

static void bounds_that_hold_nothing_find_nothing(void **state)
{
    struct ps_snapshot *snap;
    struct ps_cursor *c = open_on(*state, &snap);
    struct ps_slice low = text("key 00101"), high = text("key 00109");
    for (int i = 0; i < 2; i++) {
        assert_int_equal(ps_cursor_bounds(c, &low, &high), 0);
        assert_int_equal(ps_cursor_first(c), PS_NOTFOUND);
        assert_int_equal(ps_cursor_last(c), PS_NOTFOUND);
        assert_int_equal(ps_cursor_seek(c, text("key 00105"), PS_GE), PS_NOTFOUND);
        struct ps_slice swap = low;
        low = high;
        high = swap;
    }
    ps_cursor_close(c);
    ps_snapshot_free(snap);
}

static void select_stands_on_the_entry_of_that_number(void **state)
{
    struct ps_snapshot *snap;
    struct ps_cursor *c = open_on(*state, &snap);
    char key[16];
    for (unsigned i = 0; i < N; i += 13) {
        snprintf(key, sizeof key, "key %05u", i * 10);
        stands_on(c, ps_cursor_select(c, i), key);
    }
    stands_on(c, ps_cursor_select(c, N - 1), "key 09990");
    assert_int_equal(ps_cursor_select(c, N), PS_NOTFOUND);
    assert_int_equal(ps_cursor_select(c, UINT64_MAX), PS_NOTFOUND);
    ps_cursor_close(c);
    ps_snapshot_free(snap);
}

static void in_an_empty_tree_every_move_finds_nothing(void **state)
{
    struct fixture *f = *state;
    struct ps_txn *txn = fixture_begin(f);
    ps_tree empty;
    struct ps_cursor *c;
    assert_int_equal(ps_tree_create(txn, text("empty"), &empty), 0);
    assert_int_equal(ps_cursor_open(ps_txn_view(txn), empty, &c), 0);
    assert_int_equal(ps_cursor_first(c), PS_NOTFOUND);
    assert_int_equal(ps_cursor_last(c), PS_NOTFOUND);
    assert_int_equal(ps_cursor_next(c), PS_NOTFOUND);
    assert_int_equal(ps_cursor_prev(c), PS_NOTFOUND);
    assert_int_equal(ps_cursor_select(c, 0), PS_NOTFOUND);
    assert_int_equal(ps_cursor_seek(c, text(""), PS_GE), PS_NOTFOUND);
    ps_cursor_close(c);
    ps_abort(txn);
}

static void a_cursor_over_no_tree_cannot_be_opened(void **state)
{
    struct fixture *f = *state;
    struct ps_snapshot *snap = fixture_snapshot(f);
    struct ps_cursor *c;
    assert_int_equal(ps_cursor_open(ps_snapshot_view(snap), f->tree + 50, &c), PS_NOTFOUND);
    ps_snapshot_free(snap);
}

static void key_and_value_may_be_asked_for_singly(void **state)
{
    struct ps_snapshot *snap;
    struct ps_cursor *c = open_on(*state, &snap);
    struct ps_slice slice;
    assert_int_equal(ps_cursor_first(c), 0);
    assert_int_equal(ps_cursor_get(c, &slice, NULL), 0);
    assert_slice(slice, "key 00000");
    assert_int_equal(ps_cursor_get(c, NULL, &slice), 0);
    assert_slice(slice, "key 00000");
    ps_cursor_close(c);
    ps_snapshot_free(snap);
}

static void in_a_transaction_it_goes_on_from_its_key_after_changes(void **state)
{
    struct fixture *f = *state;
    struct ps_txn *txn = fixture_begin(f);
    struct ps_cursor *c;
    char key[16];
    assert_int_equal(ps_cursor_open(ps_txn_view(txn), f->tree, &c), 0);
    stands_on(c, ps_cursor_seek(c, text("key 00500"), PS_EQ), "key 00500");
    assert_int_equal(ps_put(txn, f->tree, text("key 00505"), text("key 00505")), 0);
    stands_on(c, ps_cursor_next(c), "key 00505");
    assert_int_equal(ps_delete(txn, f->tree, text("key 00505")), 0);
    assert_int_equal(ps_delete(txn, f->tree, text("key 00510")), 0);
    stands_on(c, ps_cursor_next(c), "key 00520");
    assert_int_equal(ps_delete(txn, f->tree, text("key 00520")), 0);
    stands_on(c, ps_cursor_prev(c), "key 00500");
    for (unsigned i = 0; i < 500; i++) {
        snprintf(key, sizeof key, "key 005%02u%03u", i / 250, i % 250);
        assert_int_equal(ps_put(txn, f->tree, text(key), text(key)), 0);
    }
    stands_on(c, ps_cursor_next(c), "key 00500000");
    ps_cursor_close(c);
    ps_abort(txn);
}

static void a_walk_that_deletes_what_it_stands_on_empties_the_tree(void **state)
{
    struct fixture *f = *state;
    struct ps_txn *txn = fixture_begin(f);
    struct ps_cursor *c;
    uint64_t count = 99;
    unsigned deleted = 0;
    assert_int_equal(ps_cursor_open(ps_txn_view(txn), f->tree, &c), 0);
    for (int rc = ps_cursor_first(c); rc == 0; rc = ps_cursor_next(c)) {
        struct ps_slice key;
        assert_int_equal(ps_cursor_get(c, &key, NULL), 0);
        assert_int_equal(ps_delete(txn, f->tree, key), 0);
        deleted++;
    }
    assert_int_equal(deleted, N);
    assert_int_equal(ps_count(ps_txn_view(txn), f->tree, &count), 0);
    assert_int_equal(count, 0);
    ps_cursor_close(c);
    fixture_commit(txn);
    assert_int_equal(ps_check(f->store, NULL, NULL), 0);
}

#define CURSOR_TEST(name) cmocka_unit_test_setup_teardown(name, setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CURSOR_TEST(first_and_last_stand_on_the_ends),
        CURSOR_TEST(a_walk_sees_every_entry_once_in_order),
        CURSOR_TEST(off_an_end_it_stays_off_and_stands_on_nothing),
        CURSOR_TEST(each_kind_of_seek_finds_its_neighbour),
        CURSOR_TEST(bounds_hide_what_is_outside_from_every_move),
        CURSOR_TEST(bounds_that_hold_nothing_find_nothing),
        CURSOR_TEST(select_stands_on_the_entry_of_that_number),
        CURSOR_TEST(in_an_empty_tree_every_move_finds_nothing),
        CURSOR_TEST(a_cursor_over_no_tree_cannot_be_opened),
        CURSOR_TEST(key_and_value_may_be_asked_for_singly),
        CURSOR_TEST(in_a_transaction_it_goes_on_from_its_key_after_changes),
        CURSOR_TEST(a_walk_that_deletes_what_it_stands_on_empties_the_tree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
