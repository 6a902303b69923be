/*
 * test_fresh.c - pages of the file that transactions take: the table of them beside an array, and
 * their way into space maps and back among the free ones (F1-F3 of storage/fresh.h).
 *
 * The pages taken here belong to no tree, so that the full check is of no use: the map is looked
 * at.
 */
#include <errno.h>

#include "storage/store.h"
#include "tests/support/fault_fixture.h"
#include "tests/support/store_fixture.h"

static void the_table_finds_what_was_added_and_not_removed(void **state)
{
    (void)state;
    enum { PAGES = 500 };
    struct fresh fresh = {0};
    uint64_t birth[PAGES + 1] = {0};
    uint32_t seed = 5;
    for (unsigned step = 1; step <= 200000; step++) {
        seed = seed * 1664525u + 1013904223u;
        page_ref page = (seed >> 8) % PAGES + 1;
        if (birth[page] == 0) {
            assert_true(fresh_reserve(&fresh));
            birth[page] = step;
            fresh_add(&fresh, &(struct fresh_page){page, step, 0, (uint32_t)page});
        } else if (step % 3 != 0) {
            fresh_remove(&fresh, fresh_find(&fresh, page, birth[page]));
            birth[page] = 0;
        }
        if (step % 1000 != 0) {
            continue;
        }
        size_t n = 0;
        for (page_ref p = 1; p <= PAGES; p++) {
            const struct fresh_page *found = fresh_find(&fresh, p, birth[p]);
            assert_true((birth[p] != 0) == (found != NULL));
            assert_null(fresh_find(&fresh, p, step + 1));
            if (found != NULL) {
                assert_int_equal(found->pages, p);
                n++;
            }
        }
        assert_int_equal(n, fresh.n);
    }
    fresh_free(&fresh);
}

/* ---- in a store ------------------------------------------------------------------------------ */

static struct ps_txn *begin_changed(struct fixture *f)
{
    struct ps_txn *txn = fixture_begin(f);
    assert_int_equal(ps_put(txn, f->tree, text("key"), text("value")), 0);
    return txn;
}

static page_ref take(struct ps_txn *txn, uint32_t pages)
{
    page_ref ref = 0;
    assert_int_equal(txn_alloc_file(txn, pages, &ref), 0);
    assert_true(ref != 0 && !ref_in_arena(ref));
    assert_true(ref + pages <= atomic_load(&txn->view.store->file_pages));
    return ref;
}

/* One committed transaction that takes pages. */
static page_ref taken(struct fixture *f, uint32_t pages, uint64_t *birth)
{
    struct ps_txn *txn = begin_changed(f);
    page_ref ref = take(txn, pages);
    *birth = txn->stamp;
    fixture_commit(txn);
    return ref;
}

static void drop(struct fixture *f, page_ref ref, uint64_t birth, uint32_t pages)
{
    struct ps_txn *txn = begin_changed(f);
    assert_int_equal(txn_drop(txn, ref, birth, pages), 0);
    fixture_commit(txn);
}

/* What ended is harvested and reclaimed by whoever begins next. */
static void settle(struct fixture *f)
{
    ps_abort(fixture_begin(f));
}

static bool live(struct fixture *f, page_ref ref, uint32_t pages)
{
    unsigned n = 0;
    for (uint32_t i = 0; i < pages; i++) {
        n += space_is_live(&f->store->space, ref + i);
    }
    assert_true(n == 0 || n == pages);
    return n > 0;
}

static uint64_t free_pages(struct fixture *f)
{
    return space_free_pages(&f->store->space);
}

static void checkpoint(struct fixture *f)
{
    assert_int_equal(ps_checkpoint(f->store), 0);
}

static void what_is_rolled_back_or_aborted_is_free_again(void **state)
{
    struct fixture *f = *state;
    struct ps_txn *txn = begin_changed(f);
    take(txn, 5);
    uint64_t before = free_pages(f);
    assert_int_equal(ps_savepoint(txn), 0);
    take(txn, 7);
    take(txn, 1);
    assert_int_equal(free_pages(f), before - 8);
    assert_int_equal(ps_savepoint_rollback(txn), 0);
    assert_int_equal(free_pages(f), before);
    assert_int_equal(f->store->fresh.n, 1);
    ps_abort(txn);
    assert_int_equal(free_pages(f), before + 5);
    assert_int_equal(f->store->fresh.n, 0);
}

static void what_its_transaction_drops_is_free_at_once(void **state)
{
    struct fixture *f = *state;
    struct ps_txn *txn = begin_changed(f);
    uint64_t before = free_pages(f);
    page_ref ref = take(txn, 9);
    uint64_t birth = txn->stamp;
    assert_int_equal(txn_drop(txn, ref, birth, 9), 0);
    assert_int_equal(free_pages(f), before);
    ref = take(txn, 4);
    assert_int_equal(ps_savepoint(txn), 0);
    assert_int_equal(txn_drop(txn, ref, birth, 4), 0);
    assert_int_equal(free_pages(f), before - 4); /* the savepoint sees it */
    assert_int_equal(ps_savepoint_rollback(txn), 0);
    assert_non_null(fresh_find(&f->store->fresh, ref, birth));
    assert_int_equal(txn_drop(txn, ref, birth, 4), 0);
    assert_int_equal(free_pages(f), before);
    ps_abort(txn);
    assert_int_equal(free_pages(f), before);
}

static void the_next_checkpoint_marks_what_lives(void **state)
{
    struct fixture *f = *state;
    uint64_t birth;
    page_ref ref = taken(f, 70, &birth);
    assert_false(live(f, ref, 70));
    checkpoint(f);
    assert_true(live(f, ref, 70));
    assert_int_equal(f->store->fresh.n, 0);
    drop(f, ref, birth, 70);
    settle(f);
    assert_true(live(f, ref, 70)); /* the metas see it */
    checkpoint(f);
    assert_false(live(f, ref, 70));
    settle(f);
    uint64_t before = free_pages(f);
    settle(f);
    assert_int_equal(free_pages(f), before);
}

static void what_lived_between_two_checkpoints_is_never_marked(void **state)
{
    struct fixture *f = *state;
    uint64_t birth;
    uint64_t before = free_pages(f);
    page_ref ref = taken(f, 3, &birth);
    drop(f, ref, birth, 3);
    settle(f);
    assert_int_equal(free_pages(f), before); /* no checkpoint was needed */
    assert_int_equal(f->store->fresh.n, 0);
    assert_int_equal(f->store->unmapped.n, 0);
    checkpoint(f);
    assert_false(live(f, ref, 3));
}

static void a_snapshot_keeps_it_and_the_map_never_has_it(void **state)
{
    struct fixture *f = *state;
    uint64_t birth;
    uint64_t before = free_pages(f);
    page_ref ref = taken(f, 3, &birth);
    struct ps_snapshot *snap = fixture_snapshot(f);
    drop(f, ref, birth, 3);
    settle(f);
    assert_int_equal(free_pages(f), before - 3);
    checkpoint(f);
    assert_false(live(f, ref, 3));
    struct ps_stat stat;
    ps_stats(f->store, &stat);
    assert_int_equal(stat.fresh_unmapped, 1);
    settle(f);
    before = free_pages(f);
    ps_snapshot_free(snap);
    settle(f);
    assert_in_range(free_pages(f), before + 3, before + 64); /* what else it kept comes, too */
}

/* A page that T sees and that dies later is in T's map, and leaves it with the next. */
static void a_death_after_the_state_of_the_checkpoint_is_recorded_by_the_next(void **state)
{
    struct fixture *f = *state;
    uint64_t birth;
    page_ref ref = taken(f, 2, &birth);
    struct ps_store *store = f->store;
    struct fresh_page *fresh = fresh_find(&store->fresh, ref, birth);
    fresh->death = UINT64_MAX; /* as if harvested between choosing T and taking the births */
    checkpoint(f);
    assert_true(live(f, ref, 2));
    assert_int_equal(store->unmapped.n, 1);
    store->unmapped.n = 0;
    drop(f, ref, birth, 2);
    checkpoint(f);
    assert_false(live(f, ref, 2));
}

static void unpublished_states_that_are_dropped_give_theirs_back(void **state)
{
    struct fixture *f = *state;
    struct fault_vfs *files = fixture_close_for_faults(f);
    fixture_open(f);
    settle(f);
    uint64_t before = free_pages(f);
    struct ps_txn *txn = begin_changed(f);
    take(txn, 6);
    fault_vfs_fail(files, FAULT_PWRITE, FAULT_LOG, 1, EIO, false);
    assert_int_equal(ps_commit(txn, PS_EVERYSEC, NULL), PS_UNKNOWN);
    settle(f);
    assert_int_equal(free_pages(f), before);
    assert_int_equal(f->store->fresh.n, 0);
    fixture_close(f, false);
    fault_vfs_free(files);
}

static void an_abandoned_checkpoint_gives_births_and_deaths_back(void **state)
{
    struct fixture *f = *state;
    struct fault_vfs *files = fixture_close_for_faults(f);
    f->options.manual_checkpoint = true;
    fixture_open(f);
    uint64_t birth;
    page_ref ref = taken(f, 6, &birth);
    fault_vfs_fail(files, FAULT_PWRITE, FAULT_DATA, 1, ENOSPC, false);
    assert_int_equal(ps_checkpoint(f->store), PS_NOSPACE);
    assert_false(live(f, ref, 6));
    assert_non_null(fresh_find(&f->store->fresh, ref, birth));
    drop(f, ref, birth, 6);
    settle(f);
    assert_null(fresh_find(&f->store->fresh, ref, birth)); /* free before any map had it */
    checkpoint(f);
    assert_false(live(f, ref, 6));
    fixture_close(f, false);
    fault_vfs_free(files);
}

static void a_crash_frees_what_no_map_has(void **state)
{
    struct fixture *f = *state;
    f->options.manual_checkpoint = true;
    fixture_reopen(f, true);
    uint64_t birth;
    taken(f, 200, &birth);
    assert_int_equal(f->store->fresh.n, 1);
    fixture_reopen(f, false); /* replays the put alone: no operation took the pages */
    assert_int_equal(f->store->fresh.n, 0);
    assert_int_equal(ps_check(f->store, NULL, NULL), 0);
}

/* Within one transaction a place may be taken twice, with the same birth and another length. */
static void a_place_taken_twice_is_given_back_once(void **state)
{
    struct fixture *f = *state;
    uint64_t before = space_free_pages(&f->store->space);
    uint64_t file = space_pages(&f->store->space);
    struct ps_txn *txn = begin_changed(f);
    page_ref first = take(txn, 5);
    page_ref again = 0;
    assert_int_equal(txn_drop(txn, first, txn->stamp, 5), 0);
    for (unsigned i = 0; i < 100000 && again != first; i++) {
        if (again != 0) {
            assert_int_equal(txn_drop(txn, again, txn->stamp, 3), 0);
        }
        again = take(txn, 3);
    }
    assert_int_equal(again, first);
    ps_abort(txn);
    assert_int_equal(f->store->fresh.n, 0);
    uint64_t grown = space_pages(&f->store->space) - file;
    assert_int_equal(space_free_pages(&f->store->space), before + grown);
}

static void a_place_that_is_used_again_has_another_birth(void **state)
{
    struct fixture *f = *state;
    f->options.manual_checkpoint = true;
    fixture_reopen(f, true);
    struct fresh_page seen[8];
    unsigned n = 0, again = 0;
    unsigned char *bytes = calloc(1, 20 * RUN_PIECE);
    assert_non_null(bytes);
    struct ps_txn *txn = fixture_begin(f);
    for (; n < 8; n++) {
        assert_int_equal(ps_put(txn, f->tree, text("k"), (struct ps_slice){bytes, 19 * RUN_PIECE}),
                         0);
        assert_int_equal(f->store->fresh.n, 1);
        for (size_t i = 0; i < f->store->fresh.room; i++) {
            if (f->store->fresh.at[i].first != 0)
                seen[n] = f->store->fresh.at[i];
        }
        for (unsigned k = 0; k < n; k++) {
            again += seen[k].first == seen[n].first;
            assert_true(seen[k].birth < seen[n].birth);
        }
    }
    assert_true(again > 0);
    fixture_commit(txn);
    assert_int_equal(ps_check(f->store, NULL, NULL), 0);
    free(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_table_finds_what_was_added_and_not_removed),
        STORE_TEST(what_is_rolled_back_or_aborted_is_free_again),
        STORE_TEST(what_its_transaction_drops_is_free_at_once),
        STORE_TEST(a_place_taken_twice_is_given_back_once),
        STORE_TEST(the_next_checkpoint_marks_what_lives),
        STORE_TEST(what_lived_between_two_checkpoints_is_never_marked),
        STORE_TEST(a_snapshot_keeps_it_and_the_map_never_has_it),
        STORE_TEST(a_death_after_the_state_of_the_checkpoint_is_recorded_by_the_next),
        STORE_TEST(unpublished_states_that_are_dropped_give_theirs_back),
        STORE_TEST(an_abandoned_checkpoint_gives_births_and_deaths_back),
        STORE_TEST(a_crash_frees_what_no_map_has),
        STORE_TEST(a_place_that_is_used_again_has_another_birth),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
