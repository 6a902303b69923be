/*
 * test_pieces.c - the log of a running transaction: the rules O1 to O4 of storage/pieces.c, and
 * what storage/replay.c makes of it.
 */
#include <errno.h>
#include <pthread.h>

#include "storage/store.h"
#include "tests/support/fault_vfs.h"
#include "tests/support/store_fixture.h"

#define SMALL (128u * 4096u)

static struct ps_slice key_of(char buffer[16], unsigned i)
{
    int n = snprintf(buffer, 16, "key %08u", i);
    return (struct ps_slice){buffer, (size_t)n};
}

static int try_put(struct fixture *f, struct ps_txn *txn, unsigned i, char tag)
{
    char key[16], value[100];
    memset(value, tag, sizeof value);
    return ps_put(txn, f->tree, key_of(key, i), (struct ps_slice){value, sizeof value});
}

static void put_range(struct fixture *f, struct ps_txn *txn, unsigned from, unsigned to, char tag)
{
    for (unsigned i = from; i < to; i++)
        assert_int_equal(try_put(f, txn, i, tag), 0);
}

static void assert_range(struct fixture *f, unsigned from, unsigned to, char tag)
{
    struct ps_snapshot *snap = fixture_snapshot(f);
    for (unsigned i = from; i < to; i++) {
        char key[16];
        struct ps_slice value;
        int rc = ps_get(ps_snapshot_view(snap), f->tree, key_of(key, i), &value);
        assert_int_equal(rc, tag ? 0 : PS_NOTFOUND);
        if (tag) {
            assert_int_equal(value.len, 100);
            assert_int_equal(((const char *)value.data)[50], tag);
        }
    }
    ps_snapshot_free(snap);
}

static void small_memory(struct fixture *f)
{
    f->options.dirty_memory = SMALL;
    f->options.manual_checkpoint = true;
    fixture_reopen(f, true);
}

/* A new directory (one that exists keeps its segments' size): no write that makes a segment comes
 * between. */
static void large_segments(struct fixture *f)
{
    fixture_close(f, false);
    store_dir_remove(f->dir);
    store_dir_make(f->dir, "pando-unit");
    f->options.log_segment_size = 16u << 20;
    fixture_open(f);
    struct ps_txn *txn = fixture_begin(f);
    assert_int_equal(ps_tree_create(txn, text("tree"), &f->tree), 0);
    fixture_commit(txn);
}

static struct ps_txn *begin_whole(struct fixture *f)
{
    struct ps_txn *txn = fixture_begin(f);
    ps_keep_whole(txn);
    return txn;
}

static uint64_t pieces(struct fixture *f)
{
    return f->store->stat.log_pieces_early;
}

/* Opened without a checkpoint, with little memory (the commit is applied while it is read) or with
 * much (it is put together first). */
static void reopen_with(struct fixture *f, bool much)
{
    f->options.dirty_memory = much ? 64u << 20 : SMALL;
    fixture_reopen(f, false);
    assert_true((f->store->stat.replayed_pieces > 0) != much);
}

static void a_large_commit_is_replayed_with_little_memory_and_with_much(void **state)
{
    struct fixture *f = *state;
    small_memory(f);
    for (unsigned much = 0; much < 2; much++) {
        struct ps_txn *txn = fixture_begin(f);
        put_range(f, txn, 0, 10, 'a');
        fixture_commit(txn);
        uint64_t before = pieces(f);
        txn = begin_whole(f);
        put_range(f, txn, 5, 20000, much ? 'c' : 'b');
        assert_true(pieces(f) > before + (much ? 0 : 10));
        assert_true(txn->group->ops.n < 3u << 20);
        fixture_commit(txn);
        put_range(f, txn = fixture_begin(f), 20000, 20010, 'd');
        uint64_t seq = fixture_commit(txn);
        reopen_with(f, much);
        assert_int_equal(ps_published(f->store), seq);
        assert_range(f, 0, 5, 'a');
        assert_range(f, 5, 20000, much ? 'c' : 'b');
        assert_range(f, 20000, 20010, 'd');
        assert_int_equal(ps_check(f->store, NULL, NULL), 0);
        small_memory(f);
    }
}

/* Savepoints that end after some of their operations are in the log: released, rolled back one by
 * one, and rolled back together with those within. */
static void roll_back_in_many_ways(struct fixture *f)
{
    struct ps_txn *txn = begin_whole(f);
    put_range(f, txn, 0, 3000, 'a');
    assert_int_equal(ps_savepoint(txn), 0);
    put_range(f, txn, 2000, 5000, 'b');
    assert_int_equal(ps_savepoint(txn), 0);
    put_range(f, txn, 0, 4000, 'c');
    assert_int_equal(ps_savepoint_rollback(txn), 0);
    put_range(f, txn, 5000, 5010, 'd');
    assert_int_equal(ps_savepoint(txn), 0);
    put_range(f, txn, 6000, 9000, 'e');
    assert_int_equal(ps_savepoint_release(txn), 0);
    put_range(f, txn, 9000, 9003, 'f');
    assert_int_equal(ps_savepoint_release(txn), 0);
    assert_int_equal(ps_savepoint(txn), 0);
    put_range(f, txn, 0, 2500, 'x');
    assert_int_equal(ps_savepoint(txn), 0);
    put_range(f, txn, 0, 2500, 'y');
    assert_int_equal(ps_savepoint_release(txn), 0); /* its mark is cut with what follows */
    assert_int_equal(ps_savepoint_rollback(txn), 0);
    put_range(f, txn, 1, 2, 'g');
    assert_int_equal(ps_savepoint(txn), 0);
    put_range(f, txn, 10000, 10001, 'z');
    assert_int_equal(ps_savepoint_rollback(txn), 0); /* in memory yet */
    fixture_commit(txn);
}

static void what_was_rolled_back_after_it_was_logged_is_not_there_after_a_replay(void **state)
{
    struct fixture *f = *state;
    small_memory(f);
    for (unsigned much = 0; much < 2; much++) {
        roll_back_in_many_ways(f);
        reopen_with(f, much);
        assert_range(f, 0, 1, 'a');
        assert_range(f, 1, 2, 'g');
        assert_range(f, 2, 2000, 'a');
        assert_range(f, 2000, 5000, 'b');
        assert_range(f, 5000, 5010, 'd');
        assert_range(f, 5010, 6000, 0);
        assert_range(f, 6000, 9000, 'e');
        assert_range(f, 9000, 9003, 'f');
        assert_range(f, 10000, 10001, 0);
        assert_int_equal(ps_check(f->store, NULL, NULL), 0);
        struct ps_txn *txn = fixture_begin(f);
        assert_int_equal(ps_clear(txn, f->tree), 0);
        fixture_commit(txn);
        small_memory(f);
    }
}

static void a_transaction_that_aborts_leaves_its_log_to_others(void **state)
{
    struct fixture *f = *state;
    f->options.log_segment_size = 256 << 10;
    small_memory(f);
    struct ps_stat stat;
    uint64_t most = 0;
    for (unsigned i = 0; i < 10; i++) {
        struct ps_txn *txn = begin_whole(f);
        put_range(f, txn, 0, 8000, 'x');
        if (i % 2)
            ps_abort(txn);
        else
            assert_int_equal(ps_savepoint(txn), 0);
        if (i % 2 == 0) { /* nothing changed any more: committing it is ending it */
            put_range(f, txn, 0, 3000, 'y');
            assert_int_equal(ps_savepoint_rollback(txn), 0);
            ps_abort(txn);
        }
        txn = fixture_begin(f);
        put_range(f, txn, i, i + 1, 'a');
        fixture_commit(txn);
        ps_stats(f->store, &stat);
        most = i == 1 ? stat.log_segments : most;
        assert_true(i < 2 || stat.log_segments <= most + i);
    }
    assert_true(stat.log_epochs >= 10);
    uint64_t seq = ps_published(f->store);
    fixture_reopen(f, false);
    assert_int_equal(ps_published(f->store), seq);
    assert_int_equal(f->recovery.replayed_ops, 10);
    assert_range(f, 0, 10, 'a');
    assert_range(f, 10, 8000, 0);
}

static void what_changed_nothing_in_the_end_leaves_no_record(void **state)
{
    struct fixture *f = *state;
    small_memory(f);
    uint64_t seq = fixture_put(f, "k", "v"), committed = 0;
    struct ps_txn *txn = begin_whole(f);
    assert_int_equal(ps_savepoint(txn), 0);
    put_range(f, txn, 0, 8000, 'x');
    assert_true(pieces(f) > 0);
    assert_int_equal(ps_savepoint_rollback(txn), 0);
    assert_false(ps_txn_changed(txn));
    assert_int_equal(ps_commit(txn, PS_ALWAYS, &committed), 0);
    assert_int_equal(committed, seq);
    assert_int_equal(fixture_put(f, "k", "w"), seq + 1);
    fixture_reopen(f, false);
    assert_int_equal(ps_published(f->store), seq + 1);
    assert_range(f, 0, 8000, 0);
}

static void groups_that_wait_are_written_before_the_first_piece(void **state)
{
    struct fixture *f = *state;
    struct fault_vfs *files = fault_vfs_new();
    f->options.vfs = fault_vfs(files);
    f->options.durability = PS_ALWAYS;
    small_memory(f);
    uint64_t seq = 0;
    fault_vfs_hold(files, FAULT_FDATASYNC, FAULT_LOG);
    for (unsigned i = 0; i < 5; i++) {
        struct ps_txn *txn = fixture_begin(f);
        put_range(f, txn, i, i + 1, 'a');
        assert_int_equal(ps_commit_start(txn, PS_ALWAYS, false, &seq), 0);
    }
    struct ps_txn *txn = begin_whole(f);
    fault_vfs_await_held(files, 1);
    fault_vfs_release(files, FAULT_LOG);
    put_range(f, txn, 5, 8000, 'b');
    assert_int_equal(ps_published(f->store), seq);
    assert_true(pieces(f) > 0);
    fixture_commit(txn);
    f->options.vfs = NULL;
    fixture_reopen(f, false);
    assert_int_equal(ps_published(f->store), seq + 1);
    assert_range(f, 0, 5, 'a');
    assert_range(f, 5, 8000, 'b');
    fault_vfs_free(files);
}

static void a_failed_write_loses_the_transaction_and_nothing_else(void **state)
{
    struct fixture *f = *state;
    struct fault_vfs *files = fault_vfs_new();
    f->options.vfs = fault_vfs(files);
    large_segments(f);
    small_memory(f);
    uint64_t seq = fixture_put(f, "k", "v");
    struct ps_txn *txn = begin_whole(f);
    put_range(f, txn, 0, 3000, 'x');
    assert_int_equal(ps_savepoint(txn), 0);
    fault_vfs_fail(files, FAULT_PWRITE, FAULT_LOG, 1, EIO, false);
    int rc = 0;
    for (unsigned i = 3000; rc == 0 && i < 20000; i++)
        rc = try_put(f, txn, i, 'y');
    assert_int_equal(rc, PS_IO);
    assert_int_equal(ps_savepoint_rollback(txn), PS_IO); /* what came before it is lost, too */
    assert_int_equal(try_put(f, txn, 0, 'z'), PS_IO);
    assert_int_equal(ps_commit(txn, PS_EVERYSEC, NULL), PS_IO);
    assert_int_equal(fixture_put(f, "k", "w"), seq + 1);
    f->options.vfs = NULL;
    fixture_reopen(f, false);
    assert_int_equal(ps_published(f->store), seq + 1);
    assert_range(f, 0, 20000, 0);
    assert_int_equal(ps_check(f->store, NULL, NULL), 0);
    fault_vfs_free(files);
}

/* The key is in the log when the savepoint is rolled back, and what was gathered is cut. */
static void a_long_operation_is_in_the_log_as_a_whole(void **state)
{
    static uint8_t key[SMALL / 4];
    struct fixture *f = *state;
    small_memory(f);
    memset(key, 'k', sizeof key);
    for (unsigned much = 0; much < 2; much++) {
        struct ps_txn *txn = begin_whole(f);
        put_range(f, txn, 0, 3000, much ? 'c' : 'a');
        assert_int_equal(ps_savepoint(txn), 0);
        struct ps_slice long_key = {key, sizeof key};
        assert_int_equal(ps_put(txn, f->tree, long_key, (struct ps_slice){"value", 5}), 0);
        assert_int_equal(ps_savepoint_rollback(txn), 0);
        put_range(f, txn, 3000, 3010, 'b');
        fixture_commit(txn);
        reopen_with(f, much);
        assert_range(f, 0, 3000, much ? 'c' : 'a');
        assert_range(f, 3000, 3010, 'b');
        assert_int_equal(ps_check(f->store, NULL, NULL), 0);
        small_memory(f);
    }
}

static void an_operation_may_lie_across_pieces(void **state)
{
    struct fixture *f = *state;
    f->options.log_segment_size = 64 << 10; /* values are longer than what is left of a segment */
    small_memory(f);
    static char value[60000];
    struct ps_txn *txn = begin_whole(f);
    char key[16];
    for (unsigned i = 0; i < 60; i++) {
        memset(value, 'A' + (int)(i % 26), sizeof value);
        assert_int_equal(
            ps_put(txn, f->tree, key_of(key, i), (struct ps_slice){value, sizeof value - i}), 0);
    }
    fixture_commit(txn);
    fixture_reopen(f, false);
    assert_true(f->store->stat.replayed_pieces > 20);
    struct ps_snapshot *snap = fixture_snapshot(f);
    for (unsigned i = 0; i < 60; i++) {
        struct ps_slice got;
        memset(value, 'A' + (int)(i % 26), sizeof value);
        assert_int_equal(ps_get(ps_snapshot_view(snap), f->tree, key_of(key, i), &got), 0);
        assert_int_equal(got.len, sizeof value - i);
        assert_memory_equal(got.data, value, got.len);
    }
    ps_snapshot_free(snap);
}

#define LONG_VALUE (20u * RUN_PIECE)

static unsigned char *long_value(void)
{
    unsigned char *bytes = malloc(LONG_VALUE);
    assert_non_null(bytes);
    for (unsigned i = 0; i < LONG_VALUE; i++)
        bytes[i] = (unsigned char)(i * 7 + i / 251);
    return bytes;
}

/* What a transaction has made itself is free as soon as it drops it. */
static void *put_what_it_has_read(void *arg)
{
    struct fixture *f = ((void **)arg)[0];
    struct fault_vfs *files = ((void **)arg)[1];
    unsigned char *bytes = long_value();
    struct ps_txn *txn = fixture_begin(f);
    struct ps_slice got;
    assert_int_equal(ps_put(txn, f->tree, text("k"), (struct ps_slice){bytes, LONG_VALUE}), 0);
    assert_int_equal(ps_get(ps_txn_view(txn), f->tree, text("k"), &got), 0);
    fault_vfs_hold(files, FAULT_PWRITE, FAULT_LOG);
    assert_int_equal(ps_put(txn, f->tree, text("k"), got), 0);
    fixture_commit(txn);
    free(bytes);
    return NULL;
}

static void what_was_read_and_is_put_again_stays_until_it_is_logged(void **state)
{
    struct fixture *f = *state;
    struct fault_vfs *files = fault_vfs_new();
    f->options.vfs = fault_vfs(files);
    f->options.dirty_memory = 2u << 20; /* more than an eighth goes to the log at once */
    f->options.manual_checkpoint = true;
    large_segments(f);
    fixture_reopen(f, true);
    assert_int_equal(f->store->fresh.n, 0);
    void *arg[2] = {f, files};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, put_what_it_has_read, arg), 0);
    fault_vfs_await_held(files, 1);
    size_t listed = f->store->fresh.n;
    fault_vfs_release(files, FAULT_ANY);
    pthread_join(thread, NULL);
    assert_int_equal(listed, 2);
    unsigned char *bytes = long_value();
    fixture_reopen(f, false); /* replays */
    struct ps_snapshot *snap = fixture_snapshot(f);
    struct ps_slice got;
    assert_int_equal(ps_get(ps_snapshot_view(snap), f->tree, text("k"), &got), 0);
    assert_int_equal(got.len, LONG_VALUE);
    assert_memory_equal(got.data, bytes, LONG_VALUE);
    ps_snapshot_free(snap);
    assert_int_equal(ps_check(f->store, NULL, NULL), 0);
    fixture_close(f, false);
    fault_vfs_free(files);
    free(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORE_TEST(a_large_commit_is_replayed_with_little_memory_and_with_much),
        STORE_TEST(what_was_rolled_back_after_it_was_logged_is_not_there_after_a_replay),
        STORE_TEST(a_transaction_that_aborts_leaves_its_log_to_others),
        STORE_TEST(what_changed_nothing_in_the_end_leaves_no_record),
        STORE_TEST(groups_that_wait_are_written_before_the_first_piece),
        STORE_TEST(a_failed_write_loses_the_transaction_and_nothing_else),
        STORE_TEST(an_operation_may_lie_across_pieces),
        STORE_TEST(a_long_operation_is_in_the_log_as_a_whole),
        STORE_TEST(what_was_read_and_is_put_again_stays_until_it_is_logged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
