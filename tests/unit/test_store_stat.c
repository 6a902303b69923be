/*
 * test_store_stat.c - statistics say what has happened; the check of a good store finds nothing.
 */
#include "tests/support/store_fixture.h"

static struct ps_stat stats(struct fixture *f)
{
    struct ps_stat stat;
    ps_stats(f->store, &stat);
    return stat;
}

static void entries_and_trees_are_counted(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(stats(f).entries, 0);
    assert_int_equal(stats(f).trees, 1);
    fixture_fill(f, 0, 1234, 50);
    assert_int_equal(stats(f).entries, 1234);
    assert_true(stats(f).depth_max >= 2);
    fixture_reopen(f, true);
    assert_int_equal(stats(f).entries, 1234);
}

static void commits_and_aborts_are_counted(void **state)
{
    struct fixture *f = *state;
    struct ps_stat before = stats(f);
    for (int i = 0; i < 5; i++)
        fixture_put(f, "a", "1");
    struct ps_txn *txn = fixture_begin(f);
    assert_int_equal(ps_put(txn, f->tree, text("b"), text("2")), 0);
    ps_abort(txn);
    struct ps_stat after = stats(f);
    assert_int_equal(after.commits, before.commits + 5);
    assert_int_equal(after.aborts, before.aborts + 1);
    assert_int_equal(after.published_seq, before.published_seq + 5);
    assert_int_equal(after.published_seq, ps_published(f->store));
    assert_int_equal(after.durable_seq, ps_durable(f->store));
    assert_true(after.log_position > before.log_position);
    assert_true(after.log_bytes_written > before.log_bytes_written);
}

static void a_checkpoint_moves_the_store_into_the_file(void **state)
{
    struct fixture *f = *state;
    fixture_fill(f, 0, 2000, 100);
    struct ps_stat before = stats(f);
    assert_true(before.arena_slots_used > 10);
    assert_int_equal(ps_checkpoint(f->store), 0);
    struct ps_stat after = stats(f);
    assert_true(after.checkpoints > before.checkpoints);
    assert_int_equal(after.checkpoint_seq, after.published_seq);
    assert_true(after.checkpoint_pages > before.checkpoint_pages + 40);
    assert_true(after.file_pages * after.page_size <= after.file_bytes);
    assert_true(after.log_checkpoint_position >= before.log_checkpoint_position);
}

static void the_dirty_memory_never_exceeds_its_size(void **state)
{
    struct fixture *f = *state;
    f->options.dirty_memory = 128 * 4096;
    fixture_reopen(f, true);
    for (unsigned i = 0; i < 20; i++)
        fixture_fill(f, i * 100, i * 100 + 100, 300);
    struct ps_stat stat = stats(f);
    assert_int_equal(stat.arena_slots, 128);
    assert_true(stat.arena_slots_peak <= 128);
    assert_true(stat.arena_slots_used <= stat.arena_slots_peak);
    assert_true(stat.checkpoints > 0);
    assert_true(stat.relinks > 0);
}

static void space_of_deleted_entries_is_used_again(void **state)
{
    struct fixture *f = *state;
    fixture_fill(f, 0, 3000, 200);
    assert_int_equal(ps_checkpoint(f->store), 0);
    uint64_t once = stats(f).file_bytes;
    for (int i = 0; i < 12; i++) {
        fixture_fill(f, 0, 3000, 200);
        assert_int_equal(ps_checkpoint(f->store), 0);
    }
    assert_true(stats(f).file_bytes <= 4 * once);
    assert_int_equal(ps_check(f->store, NULL, NULL), 0);
}

static void ascending_keys_fill_their_pages(void **state)
{
    struct fixture *f = *state;
    fixture_fill(f, 0, 10000, 100);
    assert_int_equal(ps_checkpoint(f->store), 0);
    struct ps_stat stat = stats(f);
    uint64_t used = (stat.file_pages - stat.file_pages_free) * stat.page_size;
    assert_true(used < 10000 * 112 * 3 / 2);
}

static void finding(void *arg, const char *line)
{
    print_error("%s\n", line);
    ++*(unsigned *)arg;
}

static void the_check_of_a_good_store_reports_nothing(void **state)
{
    struct fixture *f = *state;
    unsigned lines = 0;
    assert_int_equal(ps_check(f->store, finding, &lines), 0);
    fixture_fill(f, 0, 3000, 150);
    assert_int_equal(ps_check(f->store, finding, &lines), 0);
    struct ps_txn *txn = fixture_begin(f);
    assert_int_equal(ps_clear(txn, f->tree), 0);
    fixture_commit(txn);
    assert_int_equal(ps_check(f->store, finding, &lines), 0);
    assert_int_equal(lines, 0);
}

static void counters_of_paths_rise_with_what_they_count(void **state)
{
    struct fixture *f = *state;
    struct ps_stat before = stats(f);
    fixture_fill(f, 0, 2000, 100);
    assert_true(stats(f).splits + stats(f).edge_splits > before.splits + before.edge_splits);
    struct ps_txn *txn = fixture_begin(f);
    assert_int_equal(ps_savepoint(txn), 0);
    for (unsigned i = 0; i < 1990; i++) {
        char key[16];
        snprintf(key, sizeof key, "key %05u", i);
        assert_int_equal(ps_delete(txn, f->tree, text(key)), 0);
    }
    assert_int_equal(ps_savepoint_release(txn), 0);
    assert_int_equal(ps_savepoint(txn), 0);
    assert_int_equal(ps_savepoint_rollback(txn), 0);
    fixture_commit(txn);
    struct ps_stat after = stats(f);
    assert_true(after.merges > before.merges);
    assert_int_equal(after.savepoints, before.savepoints + 2);
    assert_int_equal(after.rollbacks, before.rollbacks + 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORE_TEST(entries_and_trees_are_counted),
        STORE_TEST(commits_and_aborts_are_counted),
        STORE_TEST(a_checkpoint_moves_the_store_into_the_file),
        STORE_TEST(the_dirty_memory_never_exceeds_its_size),
        STORE_TEST(space_of_deleted_entries_is_used_again),
        STORE_TEST(ascending_keys_fill_their_pages),
        STORE_TEST(the_check_of_a_good_store_reports_nothing),
        STORE_TEST(counters_of_paths_rise_with_what_they_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
