/*
 * test_tree_pages.c - pages of a tree by its branches (storage/tree_pages.c), and the figures of
 * what was changed and written.
 */
#include "storage/inspect.h"
#include "tests/support/store_fixture.h"

static struct ps_stat stat_of(struct fixture *f)
{
    struct ps_stat stat;
    ps_stats(f->store, &stat);
    return stat;
}

/* What reading every page finds must be what the branches say. */
static void assert_as_surveyed(struct fixture *f)
{
    struct ps_figures all;
    struct ps_tree_pages pages;
    assert_int_equal(ps_survey(f->store, NULL, NULL, &all), 0);
    struct ps_snapshot *snap = fixture_snapshot(f);
    assert_int_equal(ps_tree_pages(ps_snapshot_view(snap), f->tree, &pages), 0);
    ps_snapshot_free(snap);
    assert_int_equal(pages.leaves, all.leaves);
    assert_int_equal(pages.branches, all.branches);
    assert_int_equal(pages.run_pages, all.run_pages + all.long_run_pages);
    assert_int_equal(pages.entries, stat_of(f).entries);
}

static void the_branches_know_how_many_pages_a_tree_has(void **state)
{
    struct fixture *f = *state;
    assert_as_surveyed(f);
    fixture_fill(f, 0, 20000, 40);
    assert_as_surveyed(f);
    fixture_fill(f, 5000, 5040, 3000);
    fixture_fill(f, 7000, 7004, 100000);
    assert_as_surveyed(f);
    fixture_reopen(f, true);
    struct ps_stat before = stat_of(f);
    struct ps_tree_pages pages;
    struct ps_snapshot *snap = fixture_snapshot(f);
    assert_int_equal(ps_tree_pages(ps_snapshot_view(snap), f->tree, &pages), 0);
    assert_int_equal(ps_tree_pages(ps_snapshot_view(snap), 99, &pages), PS_NOTFOUND);
    ps_snapshot_free(snap);
    assert_true(stat_of(f).pages_verified - before.pages_verified < 60);
    assert_as_surveyed(f);
}

static void what_was_changed_and_written_is_counted(void **state)
{
    struct fixture *f = *state;
    struct ps_stat before = stat_of(f), after;
    fixture_fill(f, 0, 1000, 91); /* keys of 9 bytes */
    after = stat_of(f);
    assert_int_equal(after.bytes_changed - before.bytes_changed, 100000);
    assert_int_equal(ps_checkpoint(f->store), 0);
    after = stat_of(f);
    assert_true(after.data_bytes_written - before.data_bytes_written >=
                after.checkpoint_bytes - before.checkpoint_bytes + 2 * 512);
    before = after;
    fixture_fill(f, 1, 2, 300000);
    after = stat_of(f);
    assert_in_range(after.data_bytes_written - before.data_bytes_written, 300000, 320000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORE_TEST(the_branches_know_how_many_pages_a_tree_has),
        STORE_TEST(what_was_changed_and_written_is_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
