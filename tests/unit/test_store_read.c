/*
 * test_store_read.c - lookups, counts, ranks, and how long a view and its bytes live.
 */
#include "tests/support/store_fixture.h"

static void a_key_that_was_put_has_its_value_and_another_is_not_found(void **state)
{
    struct fixture *f = *state;
    fixture_put(f, "key", "value");
    struct ps_snapshot *snap = fixture_snapshot(f);
    struct ps_slice value;
    assert_int_equal(ps_get(ps_snapshot_view(snap), f->tree, text("key"), &value), 0);
    assert_slice(value, "value");
    assert_int_equal(ps_get(ps_snapshot_view(snap), f->tree, text("ke"), &value), PS_NOTFOUND);
    assert_int_equal(ps_get(ps_snapshot_view(snap), f->tree, text("key0"), &value), PS_NOTFOUND);
    ps_snapshot_free(snap);
}

static void the_empty_key_and_the_empty_value_are_a_key_and_a_value(void **state)
{
    struct fixture *f = *state;
    fixture_put(f, "", "of the empty key");
    fixture_put(f, "k", "");
    struct ps_snapshot *snap = fixture_snapshot(f);
    struct ps_slice value = {0}, nothing = {NULL, 0};
    assert_int_equal(ps_get(ps_snapshot_view(snap), f->tree, nothing, &value), 0);
    assert_slice(value, "of the empty key");
    assert_int_equal(ps_get(ps_snapshot_view(snap), f->tree, text("k"), &value), 0);
    assert_int_equal(value.len, 0);
    ps_snapshot_free(snap);
}

static void in_a_tree_that_does_not_exist_nothing_is_found(void **state)
{
    struct fixture *f = *state;
    struct ps_snapshot *snap = fixture_snapshot(f);
    struct ps_view *view = ps_snapshot_view(snap);
    struct ps_slice value;
    uint64_t n;
    struct ps_lookup lookup = {.tree = f->tree + 77, .key = text("k")};
    assert_int_equal(ps_get(view, f->tree + 77, text("k"), &value), PS_NOTFOUND);
    assert_int_equal(ps_count(view, f->tree + 77, &n), PS_NOTFOUND);
    assert_int_equal(ps_rank(view, f->tree + 77, text("k"), &n), PS_NOTFOUND);
    ps_get_many(view, &lookup, 1);
    assert_int_equal(lookup.rc, PS_NOTFOUND);
    assert_int_equal(ps_tree_find(view, text("no such tree"), &lookup.tree), PS_NOTFOUND);
    ps_snapshot_free(snap);
}

static void many_lookups_at_once_answer_as_single_ones_do(void **state)
{
    struct fixture *f = *state;
    static struct ps_lookup lookups[500];
    static char keys[500][16];
    fixture_fill(f, 0, 1000, 30);
    struct ps_snapshot *snap = fixture_snapshot(f);
    struct ps_view *view = ps_snapshot_view(snap);
    for (unsigned i = 0; i < 500; i++) {
        snprintf(keys[i], sizeof keys[i], "key %05u", i * 7 % 1300);
        lookups[i] = (struct ps_lookup){.tree = f->tree, .key = text(keys[i]), .rc = 99};
    }
    ps_get_many(view, lookups, 500);
    for (unsigned i = 0; i < 500; i++) {
        struct ps_slice value;
        int rc = ps_get(view, f->tree, lookups[i].key, &value);
        assert_int_equal(lookups[i].rc, rc);
        assert_int_equal(rc, i * 7 % 1300 < 1000 ? 0 : PS_NOTFOUND);
        if (rc == 0) {
            assert_int_equal(lookups[i].value.len, value.len);
            assert_memory_equal(lookups[i].value.data, value.data, value.len);
        }
    }
    ps_get_many(view, NULL, 0);
    ps_snapshot_free(snap);
}

static void count_and_rank_agree_with_the_order_of_keys(void **state)
{
    struct fixture *f = *state;
    fixture_fill(f, 0, 3000, 40);
    struct ps_snapshot *snap = fixture_snapshot(f);
    struct ps_view *view = ps_snapshot_view(snap);
    uint64_t n = 0;
    assert_int_equal(ps_count(view, f->tree, &n), 0);
    assert_int_equal(n, 3000);
    for (unsigned i = 0; i < 3000; i += 37) {
        char key[16];
        snprintf(key, sizeof key, "key %05u", i);
        assert_int_equal(ps_rank(view, f->tree, text(key), &n), 0);
        assert_int_equal(n, i);
        strcat(key, "+");
        assert_int_equal(ps_rank(view, f->tree, text(key), &n), 0);
        assert_int_equal(n, i + 1);
    }
    assert_int_equal(ps_rank(view, f->tree, text(""), &n), 0);
    assert_int_equal(n, 0);
    assert_int_equal(ps_rank(view, f->tree, text("z"), &n), 0);
    assert_int_equal(n, 3000);
    ps_snapshot_free(snap);
}

static void a_range_counts_its_low_bound_and_not_its_high_one(void **state)
{
    struct fixture *f = *state;
    fixture_fill(f, 0, 3000, 40);
    struct ps_snapshot *snap = fixture_snapshot(f);
    struct ps_view *view = ps_snapshot_view(snap);
    struct ps_slice low = text("key 00100"), high = text("key 02000");
    uint64_t n = 0;
    assert_int_equal(ps_count_range(view, f->tree, &low, &high, &n), 0);
    assert_int_equal(n, 1900);
    assert_int_equal(ps_count_range(view, f->tree, NULL, &high, &n), 0);
    assert_int_equal(n, 2000);
    assert_int_equal(ps_count_range(view, f->tree, &low, NULL, &n), 0);
    assert_int_equal(n, 2900);
    assert_int_equal(ps_count_range(view, f->tree, NULL, NULL, &n), 0);
    assert_int_equal(n, 3000);
    assert_int_equal(ps_count_range(view, f->tree, &low, &low, &n), 0);
    assert_int_equal(n, 0);
    assert_int_equal(ps_count_range(view, f->tree, &high, &low, &n), 0);
    assert_int_equal(n, 0);
    ps_snapshot_free(snap);
}

static void keys_are_ordered_by_unsigned_bytes_a_prefix_first(void **state)
{
    struct fixture *f = *state;
    static const char *const ordered[] = {"", "\x01", "a", "aa", "ab", "b", "\x7f", "\x80", "\xff"};
    uint64_t n = 0;
    for (int i = 8; i >= 0; i--)
        fixture_put(f, ordered[i], "v");
    struct ps_snapshot *snap = fixture_snapshot(f);
    for (unsigned i = 0; i < 9; i++) {
        assert_int_equal(ps_rank(ps_snapshot_view(snap), f->tree, text(ordered[i]), &n), 0);
        assert_int_equal(n, i);
    }
    ps_snapshot_free(snap);
}

static void a_snapshot_sees_no_later_commit_until_it_is_renewed(void **state)
{
    struct fixture *f = *state;
    uint64_t first = fixture_put(f, "a", "1");
    struct ps_snapshot *snap = fixture_snapshot(f);
    struct ps_view *view = ps_snapshot_view(snap);
    uint64_t second = fixture_put(f, "a", "2");
    struct ps_slice value;
    assert_int_equal(ps_get(view, f->tree, text("a"), &value), 0);
    assert_slice(value, "1");
    assert_int_equal(ps_snapshot_seq(snap), first);
    ps_snapshot_renew(snap);
    assert_int_equal(ps_get(view, f->tree, text("a"), &value), 0);
    assert_slice(value, "2");
    assert_int_equal(ps_snapshot_seq(snap), second);
    ps_snapshot_free(snap);
}

static void what_a_snapshot_returned_stays_while_everything_is_rewritten(void **state)
{
    struct fixture *f = *state;
    fixture_fill(f, 0, 400, 200);
    struct ps_snapshot *snap = fixture_snapshot(f);
    struct ps_slice value;
    char before[200];
    assert_int_equal(ps_get(ps_snapshot_view(snap), f->tree, text("key 00123"), &value), 0);
    assert_int_equal(value.len, 200);
    memcpy(before, value.data, 200);
    for (int i = 0; i < 6; i++) {
        fixture_fill(f, 0, 400, 100 + (size_t)i);
        assert_int_equal(ps_checkpoint(f->store), 0);
    }
    assert_memory_equal(value.data, before, 200);
    ps_snapshot_free(snap);
}

static void a_pinned_snapshot_is_at_least_as_new_as_the_call_and_stays(void **state)
{
    struct fixture *f = *state;
    uint64_t seq = fixture_put(f, "a", "1");
    struct ps_snapshot *snap;
    assert_int_equal(ps_snapshot_new(f->store, &snap), 0);
    assert_int_equal(ps_snapshot_pin(snap), 0);
    assert_true(ps_snapshot_seq(snap) >= seq);
    for (int i = 0; i < 4; i++) {
        fixture_put(f, "a", "later");
        assert_int_equal(ps_checkpoint(f->store), 0);
    }
    struct ps_slice value;
    assert_int_equal(ps_get(ps_snapshot_view(snap), f->tree, text("a"), &value), 0);
    assert_slice(value, "1");
    struct ps_stat stat;
    ps_stats(f->store, &stat);
    assert_true(stat.snapshots_pinned >= 1);
    assert_int_equal(stat.snapshots, 1);
    assert_int_equal(stat.oldest_snapshot_stamp > 0, true);
    ps_snapshot_free(snap);
}

static void a_pinned_snapshot_holds_no_dirty_memory(void **state)
{
    struct fixture *f = *state;
    struct ps_snapshot *snap;
    struct ps_stat stat;
    struct ps_slice value;
    assert_int_equal(ps_snapshot_new(f->store, &snap), 0);
    for (unsigned i = 0; i < 10; i++) {
        fixture_put(f, "a", "old");
        assert_int_equal(ps_snapshot_pin(snap), 0);
        fixture_put(f, "a", "new");
        assert_int_equal(ps_checkpoint(f->store), 0);
        ps_abort(fixture_begin(f));
        ps_stats(f->store, &stat);
        assert_int_equal(stat.arena_slots_used, 0);
        assert_int_equal(ps_get(ps_snapshot_view(snap), f->tree, text("a"), &value), 0);
        assert_slice(value, "old");
    }
    ps_snapshot_free(snap);
}

static void a_snapshot_that_was_reset_can_be_renewed(void **state)
{
    struct fixture *f = *state;
    struct ps_snapshot *snap = fixture_snapshot(f);
    struct ps_stat stat;
    ps_stats(f->store, &stat);
    assert_int_equal(stat.snapshots, 1);
    ps_snapshot_reset(snap);
    ps_stats(f->store, &stat);
    assert_int_equal(stat.snapshots, 0);
    assert_int_equal(stat.oldest_snapshot_stamp, 0);
    fixture_put(f, "a", "1");
    ps_snapshot_renew(snap);
    struct ps_slice value;
    assert_int_equal(ps_get(ps_snapshot_view(snap), f->tree, text("a"), &value), 0);
    ps_snapshot_free(snap);
}

static void every_error_has_a_text_of_its_own(void **state)
{
    (void)state;
    for (int a = 0; a >= PS_ENDED; a--) {
        assert_non_null(ps_strerror(a));
        assert_true(ps_strerror(a)[0] != 0);
        for (int b = 0; b > a; b--)
            assert_string_not_equal(ps_strerror(a), ps_strerror(b));
    }
    assert_non_null(ps_strerror(-9999));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORE_TEST(a_key_that_was_put_has_its_value_and_another_is_not_found),
        STORE_TEST(the_empty_key_and_the_empty_value_are_a_key_and_a_value),
        STORE_TEST(in_a_tree_that_does_not_exist_nothing_is_found),
        STORE_TEST(many_lookups_at_once_answer_as_single_ones_do),
        STORE_TEST(count_and_rank_agree_with_the_order_of_keys),
        STORE_TEST(a_range_counts_its_low_bound_and_not_its_high_one),
        STORE_TEST(keys_are_ordered_by_unsigned_bytes_a_prefix_first),
        STORE_TEST(a_snapshot_sees_no_later_commit_until_it_is_renewed),
        STORE_TEST(what_a_snapshot_returned_stays_while_everything_is_rewritten),
        STORE_TEST(a_pinned_snapshot_is_at_least_as_new_as_the_call_and_stays),
        STORE_TEST(a_pinned_snapshot_holds_no_dirty_memory),
        STORE_TEST(a_snapshot_that_was_reset_can_be_renewed),
        cmocka_unit_test(every_error_has_a_text_of_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
