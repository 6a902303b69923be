/*
 * test_store_txn.c - the write transaction: what it sees, what it leaves, and how it ends.
 */
#include "storage/store.h"
#include "tests/support/fault_vfs.h"
#include "tests/support/store_fixture.h"

#include <pthread.h>
#include <sched.h>

static int read_from(struct ps_view *view, ps_tree tree, const char *key, struct ps_slice *value)
{
    return ps_get(view, tree, text(key), value);
}

/* The value of a key in the newest published state, or what get answers. */
static void assert_stored(struct fixture *f, const char *key, const char *expected)
{
    struct ps_snapshot *snap = fixture_snapshot(f);
    struct ps_slice value;
    int rc = read_from(ps_snapshot_view(snap), f->tree, key, &value);
    assert_int_equal(rc, expected ? 0 : PS_NOTFOUND);
    if (expected)
        assert_slice(value, expected);
    ps_snapshot_free(snap);
}

static void a_transaction_sees_its_own_changes_and_nobody_else_does(void **state)
{
    struct fixture *f = *state;
    struct ps_slice value;
    fixture_put(f, "a", "old");
    struct ps_txn *txn = fixture_begin(f);
    assert_int_equal(ps_put(txn, f->tree, text("a"), text("new")), 0);
    assert_int_equal(read_from(ps_txn_view(txn), f->tree, "a", &value), 0);
    assert_slice(value, "new");
    assert_stored(f, "a", "old");
    fixture_commit(txn);
    assert_stored(f, "a", "new");
}

static void an_aborted_transaction_leaves_nothing(void **state)
{
    struct fixture *f = *state;
    ps_tree made;
    fixture_put(f, "a", "1");
    uint64_t seq = ps_published(f->store);
    struct ps_txn *txn = fixture_begin(f);
    assert_int_equal(ps_put(txn, f->tree, text("b"), text("2")), 0);
    assert_int_equal(ps_delete(txn, f->tree, text("a")), 0);
    assert_int_equal(ps_tree_create(txn, text("made"), &made), 0);
    ps_abort(txn);
    assert_stored(f, "a", "1");
    assert_stored(f, "b", NULL);
    assert_int_equal(ps_published(f->store), seq);
    txn = fixture_begin(f);
    assert_int_equal(ps_tree_find(ps_txn_view(txn), text("made"), &made), PS_NOTFOUND);
    ps_abort(txn);
}

/* What was read in a transaction may be written in it: another key's value, a part of its own. */
static void a_value_read_in_a_transaction_can_be_put_by_it(void **state)
{
    struct fixture *f = *state;
    static char long_value[60001];
    memset(long_value, 'x', sizeof long_value - 1);
    memcpy(long_value + 30000, "middle", 6);
    struct ps_slice value;
    struct ps_txn *txn = fixture_begin(f);
    assert_int_equal(ps_put(txn, f->tree, text("a"), text("0123456789")), 0);
    assert_int_equal(ps_put(txn, f->tree, text("long"), text(long_value)), 0);
    for (unsigned i = 0; i < 200; i++) { /* through splits of its page */
        char key[8];
        snprintf(key, sizeof key, "b%03u", i);
        assert_int_equal(read_from(ps_txn_view(txn), f->tree, "a", &value), 0);
        assert_int_equal(ps_put(txn, f->tree, text(key), value), 0);
    }
    assert_int_equal(read_from(ps_txn_view(txn), f->tree, "a", &value), 0);
    value = (struct ps_slice){(const char *)value.data + 3, 4};
    assert_int_equal(ps_put(txn, f->tree, text("a"), value), 0);
    assert_int_equal(read_from(ps_txn_view(txn), f->tree, "long", &value), 0);
    value = (struct ps_slice){(const char *)value.data + 30000, 6};
    assert_int_equal(ps_put(txn, f->tree, text("long"), value), 0);
    assert_int_equal(read_from(ps_txn_view(txn), f->tree, "a", &value), 0);
    assert_int_equal(ps_put(txn, f->tree, value, value), 0);
    assert_int_equal(ps_put(txn, f->tree, text("name"), text("gone")), 0);
    assert_int_equal(ps_put(txn, f->tree, text("gone"), text("")), 0);
    assert_int_equal(read_from(ps_txn_view(txn), f->tree, "name", &value), 0);
    assert_int_equal(ps_delete(txn, f->tree, value), 0);
    fixture_commit(txn);
    fixture_reopen(f, false);
    assert_stored(f, "a", "3456");
    assert_stored(f, "b000", "0123456789");
    assert_stored(f, "b199", "0123456789");
    assert_stored(f, "long", "middle");
    assert_stored(f, "gone", NULL);
    assert_stored(f, "3456", "3456");
}

static void deleting_what_is_not_there_says_so_and_changes_nothing(void **state)
{
    struct fixture *f = *state;
    struct ps_txn *txn = fixture_begin(f);
    assert_int_equal(ps_delete(txn, f->tree, text("none")), PS_NOTFOUND);
    assert_false(ps_txn_changed(txn));
    ps_abort(txn);
}

static void changed_and_sequence_are_told_before_the_commit(void **state)
{
    struct fixture *f = *state;
    uint64_t last = fixture_put(f, "a", "1"), seq = 0;
    struct ps_txn *txn = fixture_begin(f);
    assert_false(ps_txn_changed(txn));
    assert_int_equal(ps_txn_seq(txn), last + 1);
    assert_int_equal(ps_put(txn, f->tree, text("b"), text("2")), 0);
    assert_true(ps_txn_changed(txn));
    assert_int_equal(ps_commit(txn, PS_ALWAYS, &seq), 0);
    assert_int_equal(seq, last + 1);
    assert_int_equal(ps_published(f->store), seq);
    assert_true(ps_durable(f->store) >= seq);
}

static void an_unchanged_transaction_commits_to_the_published_sequence(void **state)
{
    struct fixture *f = *state;
    uint64_t last = fixture_put(f, "a", "1"), seq = 0;
    struct ps_txn *txn = fixture_begin(f);
    assert_int_equal(ps_commit(txn, PS_ALWAYS, &seq), 0);
    assert_int_equal(seq, last);
    txn = fixture_begin(f);
    assert_int_equal(ps_commit_start(txn, PS_EVERYSEC, true, &seq), 0);
    assert_int_equal(seq, last);
    assert_int_equal(fixture_put(f, "b", "2"), last + 1);
}

static void the_sequence_need_not_be_asked_for(void **state)
{
    struct fixture *f = *state;
    struct ps_txn *txn = fixture_begin(f);
    assert_int_equal(ps_put(txn, f->tree, text("a"), text("1")), 0);
    assert_int_equal(ps_commit(txn, PS_NONE, NULL), 0);
    assert_stored(f, "a", "1");
}

static void rolling_back_undoes_all_since_the_innermost_savepoint(void **state)
{
    struct fixture *f = *state;
    struct ps_txn *txn = fixture_begin(f);
    assert_int_equal(ps_put(txn, f->tree, text("a"), text("1")), 0);
    assert_int_equal(ps_savepoint(txn), 0);
    assert_int_equal(ps_put(txn, f->tree, text("a"), text("2")), 0);
    assert_int_equal(ps_savepoint(txn), 0);
    assert_int_equal(ps_put(txn, f->tree, text("a"), text("3")), 0);
    assert_int_equal(ps_put(txn, f->tree, text("b"), text("3")), 0);
    struct ps_slice value;
    assert_int_equal(ps_savepoint_rollback(txn), 0);
    assert_int_equal(read_from(ps_txn_view(txn), f->tree, "a", &value), 0);
    assert_slice(value, "2");
    assert_int_equal(read_from(ps_txn_view(txn), f->tree, "b", &value), PS_NOTFOUND);
    assert_int_equal(ps_savepoint_rollback(txn), 0);
    assert_int_equal(read_from(ps_txn_view(txn), f->tree, "a", &value), 0);
    assert_slice(value, "1");
    fixture_commit(txn);
    assert_stored(f, "a", "1");
    fixture_reopen(f, false);
    assert_stored(f, "a", "1");
    assert_stored(f, "b", NULL);
}

static void releasing_keeps_the_changes_for_the_savepoint_outside(void **state)
{
    struct fixture *f = *state;
    struct ps_txn *txn = fixture_begin(f);
    assert_int_equal(ps_savepoint(txn), 0);
    assert_int_equal(ps_put(txn, f->tree, text("a"), text("1")), 0);
    assert_int_equal(ps_savepoint(txn), 0);
    assert_int_equal(ps_put(txn, f->tree, text("b"), text("2")), 0);
    assert_int_equal(ps_savepoint_release(txn), 0);
    struct ps_slice value;
    assert_int_equal(read_from(ps_txn_view(txn), f->tree, "b", &value), 0);
    assert_int_equal(ps_savepoint_rollback(txn), 0);
    assert_int_equal(read_from(ps_txn_view(txn), f->tree, "a", &value), PS_NOTFOUND);
    assert_int_equal(read_from(ps_txn_view(txn), f->tree, "b", &value), PS_NOTFOUND);
    ps_abort(txn);
}

static void rolling_back_restores_trees_that_were_made_dropped_and_cleared(void **state)
{
    struct fixture *f = *state;
    fixture_fill(f, 0, 500, 50);
    struct ps_txn *txn = fixture_begin(f);
    ps_tree made, found;
    uint64_t count = 0;
    assert_int_equal(ps_savepoint(txn), 0);
    assert_int_equal(ps_clear(txn, f->tree), 0);
    assert_int_equal(ps_savepoint(txn), 0);
    assert_int_equal(ps_tree_create(txn, text("made"), &made), 0);
    assert_int_equal(ps_put(txn, made, text("k"), text("v")), 0);
    assert_int_equal(ps_tree_drop(txn, f->tree), 0);
    assert_int_equal(ps_tree_find(ps_txn_view(txn), text("tree"), &found), PS_NOTFOUND);
    assert_int_equal(ps_savepoint_rollback(txn), 0);
    assert_int_equal(ps_tree_find(ps_txn_view(txn), text("made"), &found), PS_NOTFOUND);
    assert_int_equal(ps_count(ps_txn_view(txn), f->tree, &count), 0);
    assert_int_equal(count, 0);
    assert_int_equal(ps_savepoint_rollback(txn), 0);
    assert_int_equal(ps_count(ps_txn_view(txn), f->tree, &count), 0);
    assert_int_equal(count, 500);
    fixture_commit(txn);
    assert_int_equal(ps_check(f->store, NULL, NULL), 0);
}

static void without_a_savepoint_there_is_none_to_end(void **state)
{
    struct fixture *f = *state;
    struct ps_txn *txn = fixture_begin(f);
    assert_int_equal(ps_savepoint_rollback(txn), PS_INVALID);
    assert_int_equal(ps_savepoint_release(txn), PS_INVALID);
    ps_abort(txn);
}

static void a_name_gives_the_same_tree_again(void **state)
{
    struct fixture *f = *state;
    struct ps_txn *txn = fixture_begin(f);
    ps_tree again, other;
    assert_int_equal(ps_tree_create(txn, text("tree"), &again), 0);
    assert_int_equal(again, f->tree);
    assert_false(ps_txn_changed(txn));
    assert_int_equal(ps_tree_create(txn, text("other"), &other), 0);
    assert_int_not_equal(other, f->tree);
    fixture_commit(txn);
    fixture_reopen(f, false);
    txn = fixture_begin(f);
    assert_int_equal(ps_tree_find(ps_txn_view(txn), text("other"), &again), 0);
    assert_int_equal(again, other);
    ps_abort(txn);
}

static void a_dropped_tree_is_gone_with_all_that_is_in_it(void **state)
{
    struct fixture *f = *state;
    fixture_fill(f, 0, 2000, 100);
    struct ps_snapshot *before = fixture_snapshot(f);
    struct ps_txn *txn = fixture_begin(f);
    assert_int_equal(ps_tree_drop(txn, f->tree), 0);
    assert_int_equal(ps_tree_drop(txn, f->tree), PS_NOTFOUND);
    assert_int_equal(ps_put(txn, f->tree, text("k"), text("v")), PS_NOTFOUND);
    assert_int_equal(ps_delete(txn, f->tree, text("key 00001")), PS_NOTFOUND);
    assert_int_equal(ps_clear(txn, f->tree), PS_NOTFOUND);
    fixture_commit(txn);
    struct ps_slice value;
    struct ps_view *view = ps_snapshot_view(before);
    assert_int_equal(read_from(view, f->tree, "key 00001", &value), 0);
    ps_snapshot_free(before);
    assert_stored(f, "key 00001", NULL);
    assert_int_equal(ps_checkpoint(f->store), 0);
    assert_int_equal(ps_check(f->store, NULL, NULL), 0);
    fixture_reopen(f, false);
    assert_stored(f, "key 00001", NULL);
}

static void a_cleared_tree_is_empty_and_can_be_filled_again(void **state)
{
    struct fixture *f = *state;
    fixture_fill(f, 0, 2000, 100);
    struct ps_txn *txn = fixture_begin(f);
    uint64_t count = 1;
    assert_int_equal(ps_clear(txn, f->tree), 0);
    assert_int_equal(ps_count(ps_txn_view(txn), f->tree, &count), 0);
    assert_int_equal(count, 0);
    assert_int_equal(ps_put(txn, f->tree, text("k"), text("v")), 0);
    fixture_commit(txn);
    fixture_reopen(f, false);
    assert_stored(f, "k", "v");
    assert_stored(f, "key 00001", NULL);
    assert_int_equal(ps_check(f->store, NULL, NULL), 0);
}

struct published {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    uint64_t seq;
    bool wrong;
};

static void note_published(void *arg, uint64_t seq, int rc)
{
    struct published *p = arg;
    pthread_mutex_lock(&p->mutex);
    p->wrong |= rc != 0 || seq < p->seq;
    p->seq = seq;
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->mutex);
}

static void started_commits_are_published_in_order_and_said_to_be(void **state)
{
    struct fixture *f = *state;
    struct published p = {.mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
    f->options.on_publish = note_published;
    f->options.arg = &p;
    f->options.durability = PS_ALWAYS;
    fixture_reopen(f, true);
    uint64_t seq = 0;
    for (unsigned i = 0; i < 200; i++) {
        char key[16];
        struct ps_slice value;
        struct ps_txn *txn = fixture_begin(f);
        snprintf(key, sizeof key, "key %u", i);
        assert_int_equal(ps_put(txn, f->tree, text(key), text(key)), 0);
        assert_int_equal(ps_commit_start(txn, PS_ALWAYS, i % 3 == 0, &seq), 0);
        txn = fixture_begin(f);
        assert_int_equal(read_from(ps_txn_view(txn), f->tree, key, &value), 0);
        ps_abort(txn);
    }
    pthread_mutex_lock(&p.mutex);
    while (p.seq < seq)
        pthread_cond_wait(&p.changed, &p.mutex);
    pthread_mutex_unlock(&p.mutex);
    assert_false(p.wrong);
    assert_int_equal(ps_published(f->store), seq);
    assert_true(ps_durable(f->store) >= seq);
    fixture_close(f, false);
}

static void a_flush_makes_a_commit_durable(void **state)
{
    struct fixture *f = *state;
    uint64_t seq = 0;
    struct ps_txn *txn = fixture_begin(f);
    assert_int_equal(ps_put(txn, f->tree, text("a"), text("1")), 0);
    assert_int_equal(ps_commit_start(txn, PS_NONE, false, &seq), 0);
    assert_int_equal(ps_flush(f->store, seq), 0);
    assert_true(ps_durable(f->store) >= seq);
    assert_true(ps_published(f->store) >= seq);
}

/* Holds the moment between the end of a sync and the publication of what it made durable. */
static void what_is_durable_is_published(void **state)
{
    struct fixture *f = *state;
    struct fault_vfs *files = fault_vfs_new();
    uint64_t seq = 0;
    fixture_close(f, true);
    f->options.vfs = fault_vfs(files);
    fixture_open(f);
    fault_vfs_hold(files, FAULT_FDATASYNC, FAULT_LOG);
    struct ps_txn *txn = fixture_begin(f);
    assert_int_equal(ps_put(txn, f->tree, text("a"), text("1")), 0);
    assert_int_equal(ps_commit_start(txn, PS_ALWAYS, false, &seq), 0);
    fault_vfs_await_held(files, 1);
    pthread_mutex_lock(&f->store->mu);
    fault_vfs_release(files, FAULT_LOG);
    while (atomic_load(&f->store->durable_seq) < seq)
        sched_yield();
    uint64_t public = ps_published(f->store), durable = ps_durable(f->store);
    pthread_mutex_unlock(&f->store->mu);
    assert_true(public < seq);
    assert_int_equal(durable, public);
    assert_int_equal(ps_flush(f->store, seq), 0);
    assert_true(ps_published(f->store) >= seq);
    assert_true(ps_durable(f->store) >= seq);
    fixture_close(f, true);
    fault_vfs_free(files);
}

struct second_writer {
    struct fixture *f;
    pthread_barrier_t barrier;
    uint64_t seen;
};

static void *second_writer_main(void *arg)
{
    struct second_writer *w = arg;
    struct ps_txn *txn = NULL;
    struct ps_slice value;
    pthread_barrier_wait(&w->barrier);
    if (ps_begin(w->f->store, &txn) == 0) {
        w->seen = read_from(ps_txn_view(txn), w->f->tree, "last", &value) == 0;
        ps_abort(txn);
    }
    return NULL;
}

static void a_second_transaction_begins_after_the_first_has_ended(void **state)
{
    struct fixture *f = *state;
    struct second_writer w = {.f = f};
    pthread_t thread;
    char key[16];
    pthread_barrier_init(&w.barrier, NULL, 2);
    struct ps_txn *txn = fixture_begin(f);
    assert_int_equal(pthread_create(&thread, NULL, second_writer_main, &w), 0);
    pthread_barrier_wait(&w.barrier);
    for (unsigned i = 0; i < 300; i++) {
        snprintf(key, sizeof key, "key %u", i);
        assert_int_equal(ps_put(txn, f->tree, text(key), text(key)), 0);
    }
    assert_int_equal(ps_put(txn, f->tree, text("last"), text("1")), 0);
    fixture_commit(txn);
    pthread_join(thread, NULL);
    pthread_barrier_destroy(&w.barrier);
    assert_int_equal(w.seen, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORE_TEST(a_transaction_sees_its_own_changes_and_nobody_else_does),
        STORE_TEST(an_aborted_transaction_leaves_nothing),
        STORE_TEST(deleting_what_is_not_there_says_so_and_changes_nothing),
        STORE_TEST(changed_and_sequence_are_told_before_the_commit),
        STORE_TEST(an_unchanged_transaction_commits_to_the_published_sequence),
        STORE_TEST(the_sequence_need_not_be_asked_for),
        STORE_TEST(rolling_back_undoes_all_since_the_innermost_savepoint),
        STORE_TEST(releasing_keeps_the_changes_for_the_savepoint_outside),
        STORE_TEST(rolling_back_restores_trees_that_were_made_dropped_and_cleared),
        STORE_TEST(without_a_savepoint_there_is_none_to_end),
        STORE_TEST(a_name_gives_the_same_tree_again),
        STORE_TEST(a_dropped_tree_is_gone_with_all_that_is_in_it),
        STORE_TEST(a_value_read_in_a_transaction_can_be_put_by_it),
        STORE_TEST(a_cleared_tree_is_empty_and_can_be_filled_again),
        STORE_TEST(started_commits_are_published_in_order_and_said_to_be),
        STORE_TEST(a_flush_makes_a_commit_durable),
        STORE_TEST(what_is_durable_is_published),
        STORE_TEST(a_second_transaction_begins_after_the_first_has_ended),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
