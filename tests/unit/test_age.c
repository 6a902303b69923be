/*
 * test_age.c - how long snapshots are held, what they keep, and ending them (storage/age.c).
 */
#include "tests/support/store_fixture.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#define KEYS       1000u
#define VALUE      1000u
#define DATA_BYTES (KEYS * VALUE)
#define ROOM       8u

/* Everything is overwritten, a few keys at a time. */
static void overwrite(struct fixture *f)
{
    for (unsigned i = 0; i < KEYS; i += 50)
        fixture_fill(f, i, i + 50, VALUE);
}

/* What a transaction that changes nothing finds out. */
static void look_again(struct fixture *f)
{
    ps_abort(fixture_begin(f));
}

static struct ps_stat stats(struct fixture *f)
{
    struct ps_stat stat;
    ps_stats(f->store, &stat);
    return stat;
}

static struct ps_snapshot_info only(struct fixture *f)
{
    struct ps_snapshot_info info[ROOM];
    assert_int_equal(ps_snapshots(f->store, info, ROOM), 1);
    return info[0];
}

static int get(struct ps_snapshot *snap, struct fixture *f, const char *key, struct ps_slice *value)
{
    return ps_get(ps_snapshot_view(snap), f->tree, text(key), value);
}

static bool is_free(struct fixture *f, uint64_t memory, uint64_t file)
{
    struct ps_stat stat = stats(f);
    return stat.arena_slots_used <= memory && stat.file_pages - stat.file_pages_free <= file;
}

/* ---- listing --------------------------------------------------------------------------------- */

static void snapshots_that_hold_nothing_are_not_listed(void **state)
{
    struct fixture *f = *state;
    struct ps_snapshot_info info[ROOM];
    struct ps_snapshot *snap;
    assert_int_equal(ps_snapshots(f->store, info, ROOM), 0);
    assert_int_equal(ps_snapshot_new(f->store, &snap), 0);
    assert_int_equal(ps_snapshots(f->store, info, ROOM), 0);
    ps_snapshot_renew(snap);
    assert_int_equal(ps_snapshots(f->store, info, ROOM), 1);
    assert_int_equal(ps_snapshots(f->store, NULL, 0), 1);
    ps_snapshot_reset(snap);
    assert_int_equal(ps_snapshots(f->store, info, ROOM), 0);
    ps_snapshot_free(snap);
}

static void each_is_listed_with_its_kind_and_sequence_the_oldest_state_first(void **state)
{
    struct fixture *f = *state;
    struct ps_snapshot_info info[ROOM];
    fixture_fill(f, 0, KEYS, VALUE);
    struct ps_snapshot *moved = fixture_snapshot(f), *pinned, *plain;
    overwrite(f);
    assert_int_equal(ps_snapshot_new(f->store, &pinned), 0);
    assert_int_equal(ps_snapshot_pin(pinned), 0);
    fixture_put(f, "a", "1");
    plain = fixture_snapshot(f);
    fixture_put(f, "a", "2");
    assert_int_equal(ps_snapshot_move(moved), 0);
    const struct {
        struct ps_snapshot *snap;
        enum ps_snapshot_kind kind;
    } want[] = {{moved, PS_MOVED}, {pinned, PS_PINNED}, {plain, PS_PLAIN}};
    assert_int_equal(ps_snapshots(f->store, info, ROOM), 3);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(info[i].kind, want[i].kind);
        assert_int_equal(info[i].seq, ps_snapshot_seq(want[i].snap));
        assert_false(info[i].ended);
        assert_true(i == 0 || info[i].stamp > info[i - 1].stamp);
    }
    ps_snapshot_renew(moved);
    ps_snapshot_renew(pinned);
    assert_int_equal(ps_snapshots(f->store, info, ROOM), 3);
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(info[i].kind, PS_PLAIN);
    ps_snapshot_free(moved);
    ps_snapshot_free(pinned);
    ps_snapshot_free(plain);
}

static void the_age_is_that_of_the_hold(void **state)
{
    struct fixture *f = *state;
    struct ps_snapshot *snap = fixture_snapshot(f);
    assert_int_equal(only(f).age_ms, 0);
    while (only(f).age_ms < 5)
        fixture_put(f, "a", "1");
    assert_true(stats(f).oldest_snapshot_ms >= 5);
    uint64_t before = only(f).age_ms;
    assert_int_equal(ps_snapshot_move(snap), 0);
    assert_true(only(f).age_ms >= before);
    ps_snapshot_renew(snap);
    assert_int_equal(only(f).age_ms, 0);
    ps_snapshot_free(snap);
    assert_int_equal(stats(f).oldest_snapshot_ms, 0);
}

static void as_many_as_may_exist_are_listed_in_order(void **state)
{
    struct fixture *f = *state;
    static struct ps_snapshot *snaps[PS_MAX_SNAPSHOTS];
    static struct ps_snapshot_info info[PS_MAX_SNAPSHOTS];
    for (unsigned i = 0; i < PS_MAX_SNAPSHOTS; i++) {
        snaps[i] = fixture_snapshot(f);
        if (i % 2 == 0)
            fixture_put(f, "a", "1");
    }
    assert_int_equal(ps_snapshots(f->store, info, PS_MAX_SNAPSHOTS), PS_MAX_SNAPSHOTS);
    for (unsigned i = 0; i < PS_MAX_SNAPSHOTS; i++)
        assert_int_equal(info[i].seq, ps_snapshot_seq(snaps[i]));
    assert_int_equal(ps_snapshots(f->store, info, 1), PS_MAX_SNAPSHOTS);
    assert_int_equal(info[0].seq, ps_snapshot_seq(snaps[0]));
    for (unsigned i = 0; i < PS_MAX_SNAPSHOTS; i++)
        ps_snapshot_free(snaps[i]);
    assert_int_equal(ps_snapshots(f->store, info, PS_MAX_SNAPSHOTS), 0);
}

/* ---- what is retained ------------------------------------------------------------------------ */

static void a_snapshot_retains_what_was_overwritten_once_and_no_more(void **state)
{
    struct fixture *f = *state;
    fixture_fill(f, 0, KEYS, VALUE);
    struct ps_snapshot *snap;
    assert_int_equal(ps_snapshot_new(f->store, &snap), 0);
    assert_int_equal(ps_snapshot_pin(snap), 0);
    assert_int_equal(only(f).retained_file, 0);
    uint64_t after[3];
    for (unsigned i = 0; i < 3; i++) {
        overwrite(f);
        assert_int_equal(ps_checkpoint(f->store), 0);
        assert_int_equal(ps_checkpoint(f->store), 0);
        look_again(f);
        after[i] = only(f).retained_file;
        assert_int_equal(only(f).retained_memory, 0);
        assert_int_equal(stats(f).snapshots_retained_file, after[i]);
    }
    assert_in_range(after[0], DATA_BYTES, 2 * DATA_BYTES);
    assert_int_equal(after[1], after[0]);
    assert_int_equal(after[2], after[0]);
    ps_snapshot_reset(snap);
    look_again(f);
    assert_int_equal(stats(f).snapshots_retained_file, 0);
    ps_snapshot_free(snap);
}

static void dirty_memory_is_told_from_the_file_and_moving_changes_one_into_the_other(void **state)
{
    struct fixture *f = *state;
    fixture_fill(f, 0, KEYS, VALUE);
    struct ps_snapshot *snap = fixture_snapshot(f);
    overwrite(f);
    look_again(f);
    assert_in_range(only(f).retained_memory, DATA_BYTES, 2 * DATA_BYTES);
    assert_int_equal(only(f).retained_file, 0);
    assert_int_equal(stats(f).snapshots_retained_memory, only(f).retained_memory);
    assert_int_equal(ps_snapshot_move(snap), 0);
    look_again(f);
    assert_int_equal(only(f).retained_memory, 0);
    assert_in_range(only(f).retained_file, DATA_BYTES, 2 * DATA_BYTES);
    assert_int_equal(only(f).retained_file, stats(f).moved_pages * 4096);
    assert_int_equal(stats(f).snapshots_retained_file, only(f).retained_file);
    ps_snapshot_free(snap);
    look_again(f);
    assert_int_equal(stats(f).snapshots_retained_file, 0);
    assert_int_equal(stats(f).snapshots_retained_memory, 0);
}

static void a_page_counts_for_the_oldest_snapshot_and_then_for_the_next(void **state)
{
    struct fixture *f = *state;
    struct ps_snapshot_info info[ROOM];
    fixture_fill(f, 0, KEYS, VALUE);
    struct ps_snapshot *first = fixture_snapshot(f);
    fixture_put(f, "a", "1");
    struct ps_snapshot *second = fixture_snapshot(f);
    overwrite(f);
    look_again(f);
    assert_int_equal(ps_snapshots(f->store, info, ROOM), 2);
    assert_in_range(info[0].retained_memory, DATA_BYTES, 2 * DATA_BYTES);
    assert_in_range(info[1].retained_memory, 1, 10 * 4096); /* the path of the put between them */
    uint64_t both = info[0].retained_memory + info[1].retained_memory;
    assert_int_equal(stats(f).snapshots_retained_memory, both);
    ps_snapshot_free(first);
    look_again(f);
    assert_in_range(only(f).retained_memory, DATA_BYTES, both);
    ps_snapshot_free(second);
    look_again(f);
    assert_int_equal(stats(f).snapshots_retained_memory, 0);
}

/* ---- ending ---------------------------------------------------------------------------------- */

static void an_ended_snapshot_says_so_and_takes_nothing_away_from_its_reader(void **state)
{
    struct fixture *f = *state;
    struct ps_slice value;
    fixture_fill(f, 0, KEYS, VALUE);
    struct ps_snapshot *snap = fixture_snapshot(f);
    assert_int_equal(get(snap, f, "key 00007", &value), 0);
    assert_int_equal(ps_end_snapshots(f->store, 0), 1);
    assert_int_equal(ps_end_snapshots(f->store, 0), 0);
    assert_int_equal(stats(f).snapshots_ended, 1);
    assert_true(only(f).ended);
    overwrite(f);
    look_again(f);
    assert_int_equal(value.len, VALUE);
    assert_memory_equal(value.data, "00000000000007", 14);
    assert_true(only(f).retained_memory >= DATA_BYTES);
    struct ps_slice none;
    assert_int_equal(get(snap, f, "key 00007", &none), PS_ENDED);
    assert_true(ps_snapshot_should_move(snap));
    assert_int_equal(ps_snapshot_move(snap), PS_ENDED);
    assert_int_equal(get(snap, f, "key 00007", &none), PS_ENDED);
    assert_false(ps_snapshot_should_move(snap));
    assert_int_equal(ps_snapshots(f->store, NULL, 0), 0);
    look_again(f);
    assert_int_equal(stats(f).snapshots_retained_memory, 0);
    ps_snapshot_renew(snap);
    assert_int_equal(get(snap, f, "key 00007", &value), 0);
    ps_snapshot_free(snap);
}

static void every_read_of_an_ended_snapshot_says_so(void **state)
{
    struct fixture *f = *state;
    struct ps_slice value, key = text("a");
    struct ps_cursor *c, *other;
    struct ps_residency *residency;
    struct ps_lookup lookup = {.tree = f->tree, .key = key};
    ps_tree tree;
    uint64_t n;
    fixture_put(f, "a", "1");
    fixture_put(f, "b", "2");
    struct ps_snapshot *snap = fixture_snapshot(f);
    struct ps_view *view = ps_snapshot_view(snap);
    assert_int_equal(ps_residency_new(f->store, &residency), 0);
    ps_residency_renew(residency, 1);
    for (int let_go = 0; let_go < 2; let_go++) {
        if (let_go) {
            assert_int_equal(ps_snapshot_move(snap), PS_ENDED);
        } else {
            assert_int_equal(ps_cursor_open(view, f->tree, &c), 0);
            assert_int_equal(ps_cursor_first(c), 0);
            assert_int_equal(ps_end_snapshots(f->store, 0), 1);
        }
        assert_int_equal(ps_get(view, f->tree, key, &value), PS_ENDED);
        assert_int_equal(ps_get_part(view, f->tree, key, 0, 1, &value, &n), PS_ENDED);
        ps_get_many(view, &lookup, 1);
        assert_int_equal(lookup.rc, PS_ENDED);
        ps_get_many_resident(view, &lookup, 1, residency);
        assert_int_equal(lookup.rc, PS_ENDED);
        assert_int_equal(ps_probe(view, f->tree, key, 0, residency, &value), PS_ENDED);
        assert_int_equal(ps_touch(view, f->tree, key, 0, &value), PS_ENDED);
        assert_int_equal(ps_count(view, f->tree, &n), PS_ENDED);
        assert_int_equal(ps_rank(view, f->tree, key, &n), PS_ENDED);
        assert_int_equal(ps_count_range(view, f->tree, &key, NULL, &n), PS_ENDED);
        assert_int_equal(ps_tree_find(view, text("tree"), &tree), PS_ENDED);
        assert_int_equal(ps_cursor_open(view, f->tree, &other), PS_ENDED);
        assert_int_equal(ps_cursor_next(c), PS_ENDED);
        assert_int_equal(ps_cursor_get(c, &value, NULL), PS_ENDED);
        assert_int_equal(ps_cursor_prev(c), PS_ENDED);
        assert_int_equal(ps_cursor_first(c), PS_ENDED);
        assert_int_equal(ps_cursor_last(c), PS_ENDED);
        assert_int_equal(ps_cursor_select(c, 0), PS_ENDED);
        assert_int_equal(ps_cursor_seek(c, key, PS_GE), PS_ENDED);
    }
    ps_cursor_close(c);
    ps_residency_free(residency);
    ps_snapshot_reset(snap);
    assert_int_equal(ps_get(view, f->tree, key, &value), PS_NOTFOUND);
    ps_snapshot_free(snap);
}

static void pinned_and_moved_ones_are_ended_as_well_and_their_pages_come_free(void **state)
{
    struct fixture *f = *state;
    struct ps_slice value;
    fixture_fill(f, 0, KEYS, VALUE);
    assert_int_equal(ps_checkpoint(f->store), 0);
    overwrite(f);
    assert_int_equal(ps_checkpoint(f->store), 0);
    assert_int_equal(ps_checkpoint(f->store), 0);
    look_again(f);
    uint64_t memory = stats(f).arena_slots_used;
    uint64_t file = stats(f).file_pages - stats(f).file_pages_free;
    for (int pinned = 0; pinned < 2; pinned++) {
        overwrite(f); /* a plain one sees dirty memory */
        struct ps_snapshot *snap = fixture_snapshot(f);
        if (pinned)
            assert_int_equal(ps_snapshot_pin(snap), 0);
        overwrite(f);
        assert_int_equal(ps_snapshot_move(snap), 0);
        assert_int_equal(only(f).kind, pinned ? PS_PINNED : PS_MOVED);
        assert_int_equal(ps_checkpoint(f->store), 0);
        look_again(f);
        assert_false(is_free(f, memory + 8, file + 8));
        assert_int_equal(ps_end_snapshots(f->store, 0), 1);
        assert_int_equal(get(snap, f, "key 00007", &value), PS_ENDED);
        assert_int_equal(ps_snapshot_move(snap), PS_ENDED);
        assert_int_equal(ps_checkpoint(f->store), 0);
        look_again(f);
        assert_true(is_free(f, memory + 8, file + 8));
        assert_int_equal(ps_check(f->store, NULL, NULL), 0);
        ps_snapshot_free(snap);
    }
}

static void only_holds_of_that_age_end_and_a_renewed_hold_is_another(void **state)
{
    struct fixture *f = *state;
    struct ps_slice value;
    fixture_put(f, "a", "1");
    struct ps_snapshot *old = fixture_snapshot(f), *young;
    while (only(f).age_ms < 20)
        look_again(f);
    young = fixture_snapshot(f); /* of the same state */
    assert_int_equal(ps_end_snapshots(f->store, 20), 1);
    assert_int_equal(get(old, f, "a", &value), PS_ENDED);
    assert_int_equal(get(young, f, "a", &value), 0);
    ps_snapshot_renew(old);
    assert_int_equal(ps_end_snapshots(f->store, 3600 * 1000), 0);
    assert_int_equal(get(old, f, "a", &value), 0);
    ps_snapshot_free(old);
    ps_snapshot_free(young);
}

static void a_transaction_reads_on_whatever_ends(void **state)
{
    struct fixture *f = *state;
    struct ps_slice value;
    struct ps_txn *txn = fixture_begin(f);
    assert_int_equal(ps_put(txn, f->tree, text("a"), text("1")), 0);
    assert_int_equal(ps_end_snapshots(f->store, 0), 0);
    assert_int_equal(ps_get(ps_txn_view(txn), f->tree, text("a"), &value), 0);
    fixture_commit(txn);
}

/* The alarm ends the program if nobody looks at ages. */
static void the_option_ends_them_by_itself(void **state)
{
    struct fixture *f = *state;
    struct ps_slice value;
    fixture_put(f, "a", "1");
    alarm(120);
    for (int set_later = 0; set_later < 2; set_later++) {
        if (set_later) {
            ps_set_max_snapshot(f->store, 0);
        } else {
            f->options.max_snapshot_ms = 1;
            fixture_reopen(f, true);
        }
        struct ps_snapshot *snap = fixture_snapshot(f);
        if (set_later) {
            while (only(f).age_ms < 1500) /* the looker came by */
                fixture_put(f, "b", "2");
            assert_int_equal(get(snap, f, "a", &value), 0);
            ps_set_max_snapshot(f->store, 1);
        }
        int rc;
        while ((rc = get(snap, f, "a", &value)) == 0)
            fixture_put(f, "b", "2");
        assert_int_equal(rc, PS_ENDED);
        ps_snapshot_free(snap);
        assert_int_equal(stats(f).snapshots_ended, set_later + 1);
    }
    alarm(0);
}

/* ---- readers that are ended all the time ------------------------------------------------------
 */

#define READERS 3u
#define ENDS    3000u

struct crowd {
    struct fixture *f;
    atomic_bool over;
    atomic_uint told;
};

static void *reader_main(void *arg)
{
    struct crowd *crowd = arg;
    struct fixture *f = crowd->f;
    struct ps_snapshot *snap;
    if (ps_snapshot_new(f->store, &snap) != 0)
        abort();
    while (!atomic_load(&crowd->over)) {
        struct ps_slice a, b;
        ps_snapshot_renew(snap);
        int rc = 0;
        while (rc == 0 && !atomic_load(&crowd->over)) {
            rc = get(snap, f, "a", &a);
            int second = rc == 0 ? get(snap, f, "b", &b) : rc;
            /* Both were written in one transaction; what was read stays, ended or not. */
            if (second == 0 && (a.len != b.len || memcmp(a.data, b.data, a.len) != 0))
                abort();
            rc = second;
        }
        if (rc != 0 && rc != PS_ENDED)
            abort();
        atomic_fetch_add(&crowd->told, rc == PS_ENDED);
    }
    ps_snapshot_free(snap);
    return NULL;
}

static void each_end_is_told_to_one_hold_and_to_no_other(void **state)
{
    struct fixture *f = *state;
    struct crowd crowd = {.f = f};
    pthread_t threads[READERS];
    unsigned ended = 0;
    fixture_put(f, "a", "0");
    fixture_put(f, "b", "0");
    for (unsigned i = 0; i < READERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, reader_main, &crowd), 0);
    for (unsigned i = 0; ended < ENDS; i++) {
        char number[16];
        snprintf(number, sizeof number, "%u", i);
        struct ps_txn *txn = fixture_begin(f);
        assert_int_equal(ps_put(txn, f->tree, text("a"), text(number)), 0);
        assert_int_equal(ps_put(txn, f->tree, text("b"), text(number)), 0);
        fixture_commit(txn);
        ended += ps_end_snapshots(f->store, 0);
    }
    atomic_store(&crowd.over, true);
    for (unsigned i = 0; i < READERS; i++)
        pthread_join(threads[i], NULL);
    assert_in_range(atomic_load(&crowd.told), ended - 2 * READERS, ended);
    assert_int_equal(stats(f).snapshots_ended, ended);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORE_TEST(snapshots_that_hold_nothing_are_not_listed),
        STORE_TEST(each_is_listed_with_its_kind_and_sequence_the_oldest_state_first),
        STORE_TEST(the_age_is_that_of_the_hold),
        STORE_TEST(as_many_as_may_exist_are_listed_in_order),
        STORE_TEST(a_snapshot_retains_what_was_overwritten_once_and_no_more),
        STORE_TEST(dirty_memory_is_told_from_the_file_and_moving_changes_one_into_the_other),
        STORE_TEST(a_page_counts_for_the_oldest_snapshot_and_then_for_the_next),
        STORE_TEST(an_ended_snapshot_says_so_and_takes_nothing_away_from_its_reader),
        STORE_TEST(every_read_of_an_ended_snapshot_says_so),
        STORE_TEST(pinned_and_moved_ones_are_ended_as_well_and_their_pages_come_free),
        STORE_TEST(only_holds_of_that_age_end_and_a_renewed_hold_is_another),
        STORE_TEST(a_transaction_reads_on_whatever_ends),
        STORE_TEST(the_option_ends_them_by_itself),
        STORE_TEST(each_end_is_told_to_one_hold_and_to_no_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
