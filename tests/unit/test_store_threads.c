/*
 * test_store_threads.c - a writer at all levels, readers, pinned snapshots, checkpoints, flushes
 * and statistics at once, with little memory: every state anybody sees is one that was committed,
 * whole, across trees, and none is older than one seen before.
 */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "storage/pandostore.h"
#include "tests/support/commits.h"
#include "tests/support/fault_vfs.h"
#include "tests/support/store_dir.h"

#define WATCHDOG_S 300
#define COMMITS    600u
#define BULK       1500u /* keys of the second tree; they always add up to zero */

struct shared {
    char dir[STORE_DIR_PATH];
    struct ps_options options;
    struct fault_vfs *files;
    struct ps_store *store;
    bool faults, levels;
    atomic_bool done;
    _Atomic uint64_t acked; /* newest commit that was waited for */
    _Atomic uint64_t told;  /* by on_publish */
    atomic_uint backwards, drops;
};

static uint32_t next_random(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

static struct ps_slice slice(const void *data, size_t len)
{
    return (struct ps_slice){data, len};
}

static void published(void *arg, uint64_t seq, int rc)
{
    struct shared *s = arg;
    if (rc != 0) {
        atomic_fetch_add(&s->drops, 1);
        return;
    }
    uint64_t before = atomic_exchange(&s->told, seq);
    if (before > seq) {
        atomic_fetch_add(&s->backwards, 1);
    }
}

static int64_t balance_of(struct ps_slice value)
{
    int64_t balance;
    assert_true(value.len >= sizeof balance);
    memcpy(&balance, value.data, sizeof balance);
    return balance;
}

/* Both trees of a view, all of them; the number of the commit. */
static uint64_t look(struct ps_view *view)
{
    ps_tree bulk;
    struct ps_cursor *c;
    struct ps_slice value;
    uint64_t found = 0, count;
    int64_t sum = 0;
    uint64_t n = commits_seen(view);
    if (ps_tree_find(view, slice("bulk", 4), &bulk) != 0) {
        assert_int_equal(n, 0);
        return 0;
    }
    assert_int_equal(ps_get(view, bulk, slice("n", 1), &value), 0);
    assert_int_equal(balance_of(value), n);
    assert_int_equal(ps_cursor_open(view, bulk, &c), 0);
    int rc = ps_cursor_first(c);
    for (; rc == 0; rc = ps_cursor_next(c), found++) {
        struct ps_slice key;
        assert_int_equal(ps_cursor_get(c, &key, &value), 0);
        sum += key.len == 1 ? 0 : balance_of(value);
    }
    assert_int_equal(rc, PS_NOTFOUND);
    ps_cursor_close(c);
    assert_int_equal(sum, 0);
    assert_int_equal(ps_count(view, bulk, &count), 0);
    assert_int_equal(count, found);
    return n;
}

/* ---- the writer ------------------------------------------------------------------------------ */

static int set_balance(struct ps_txn *txn, ps_tree bulk, uint32_t k, int64_t change)
{
    uint8_t key[24] = {0}, value[1200] = {0};
    struct ps_slice old;
    int64_t balance = 0;
    snprintf((char *)key, sizeof key, "account-%07u", (unsigned)(k * 7919u % BULK));
    if (ps_get(ps_txn_view(txn), bulk, slice(key, 15), &old) == 0) {
        balance = balance_of(old);
    }
    balance += change;
    memcpy(value, &balance, sizeof balance);
    return ps_put(txn, bulk, slice(key, 15),
                  slice(value, k % 40 == 0 ? sizeof value : sizeof balance + k % 64));
}

static int move_some(struct ps_txn *txn, uint64_t n, uint32_t *seed)
{
    ps_tree bulk;
    int rc = ps_tree_create(txn, slice("bulk", 4), &bulk);
    rc = rc == 0 ? ps_put(txn, bulk, slice("n", 1), slice(&n, sizeof n)) : rc;
    for (unsigned i = 0; rc == 0 && i < 6; i++) {
        int64_t amount = next_random(seed) % 1000;
        rc = set_balance(txn, bulk, next_random(seed) % BULK, amount);
        rc = rc == 0 ? set_balance(txn, bulk, next_random(seed) % BULK, -amount) : rc;
    }
    return rc;
}

/* What must leave no trace: a savepoint rolled back, before or after the change. */
static int stray(struct ps_txn *txn, uint64_t n, uint32_t *seed)
{
    int rc = ps_savepoint(txn);
    rc = rc == 0 ? move_some(txn, n + 1, seed) : rc;
    int back = ps_savepoint_rollback(txn);
    return rc != 0 ? rc : back;
}

static int change(struct ps_txn *txn, uint64_t n, uint32_t *seed)
{
    int rc = ps_reserve(txn, 40, 24000);
    rc = rc == 0 && next_random(seed) % 4 == 0 ? stray(txn, n, seed) : rc;
    rc = rc == 0 ? commits_apply(txn, n) : rc;
    rc = rc == 0 ? move_some(txn, n, seed) : rc;
    return rc == 0 && next_random(seed) % 4 == 0 ? stray(txn, n, seed) : rc;
}

/* Lets a write to the log fail that is yet to come. One failure at a time: while one is dealt with
 * (states dropped, a new epoch begun), another would rightly end all writing. */
static void arm(struct shared *s, uint32_t *seed)
{
    struct ps_stat stat;
    ps_stats(s->store, &stat);
    if (stat.groups_unpublished == 0) {
        fault_vfs_fail(s->files, FAULT_PWRITE, FAULT_LOG, 1 + next_random(seed) % 4, EIO, false);
    }
}

/* One transaction; `next` is what comes after. */
static void write_one(struct shared *s, uint64_t *next, uint32_t *seed)
{
    struct ps_txn *txn;
    assert_int_equal(ps_begin(s->store, &txn), 0);
    uint64_t n = commits_seen(ps_txn_view(txn)) + 1; /* commits may have been dropped */
    assert_true(s->faults || n == *next);
    int rc = change(txn, n, seed);
    /* Making room may write to the log: its next segment. */
    assert_true(rc == 0 || rc == PS_BUSY || (s->faults && rc == PS_IO));
    uint32_t r = next_random(seed) % 16;
    if (rc != 0 || r == 0) {
        ps_abort(txn);
        *next = n;
        return;
    }
    enum ps_durability level = (enum ps_durability)(r % 3);
    if (s->faults && r == 5) {
        arm(s, seed);
    }
    if (r < 8) {
        rc = ps_commit_start(txn, level, r < 4, NULL);
        assert_true(rc == 0 || (s->faults && rc == PS_IO));
    } else {
        rc = ps_commit(txn, level, NULL);
        assert_true(rc == 0 || (s->faults && (rc == PS_IO || rc == PS_UNKNOWN)));
        if (rc == 0) {
            atomic_store(&s->acked, n);
        }
    }
    *next = n + 1;
}

static void *write_all(void *arg)
{
    struct shared *s = arg;
    uint32_t seed = 1;
    uint64_t next = 1;
    for (unsigned i = 0; i < COMMITS; i++) {
        write_one(s, &next, &seed);
    }
    atomic_store(&s->done, true);
    return NULL;
}

/* ---- the others ------------------------------------------------------------------------------ */

static void *read_all(void *arg)
{
    struct shared *s = arg;
    struct ps_snapshot *snap;
    uint64_t newest = 0;
    assert_int_equal(ps_snapshot_new(s->store, &snap), 0);
    while (!atomic_load(&s->done)) {
        uint64_t acked = atomic_load(&s->acked);
        ps_snapshot_renew(snap);
        uint64_t n = look(ps_snapshot_view(snap));
        assert_true(n >= newest && n >= acked);
        newest = n;
        if (n % 3 == 0) {
            assert_int_equal(look(ps_snapshot_view(snap)), n);
        }
        if (n % 7 == 0) {
            ps_snapshot_reset(snap);
        }
    }
    ps_snapshot_free(snap);
    return NULL;
}

static void *pin_all(void *arg)
{
    struct shared *s = arg;
    struct ps_snapshot *snap[2];
    assert_int_equal(ps_snapshot_new(s->store, &snap[0]), 0);
    assert_int_equal(ps_snapshot_new(s->store, &snap[1]), 0);
    uint64_t held = 0;
    for (unsigned i = 0; !atomic_load(&s->done); i++) {
        uint64_t acked = atomic_load(&s->acked);
        assert_int_equal(ps_snapshot_pin(snap[i % 2]), 0);
        uint64_t n = look(ps_snapshot_view(snap[i % 2]));
        assert_true(n >= acked && n >= held);
        if (i > 0) {
            assert_int_equal(look(ps_snapshot_view(snap[(i + 1) % 2])), held);
        }
        held = n;
    }
    ps_snapshot_free(snap[0]);
    ps_snapshot_free(snap[1]);
    return NULL;
}

static void *tend(void *arg)
{
    struct shared *s = arg;
    uint32_t seed = 7;
    struct ps_stat stat;
    while (!atomic_load(&s->done)) {
        uint64_t seq = ps_published(s->store);
        switch (next_random(&seed) % (s->levels ? 5 : 4)) {
        case 0:
            assert_int_equal(ps_checkpoint(s->store), 0);
            break;
        case 1:
            assert_int_equal(ps_flush(s->store, seq), 0);
            assert_true(ps_durable(s->store) >= seq);
            break;
        case 4:
            assert_int_equal(ps_set_durability(s->store, next_random(&seed) % 3), 0);
            break;
        default:
            ps_stats(s->store, &stat);
            assert_true(stat.published_seq >= seq);
            assert_true(stat.arena_slots_used <= stat.arena_slots);
            break;
        }
    }
    return NULL;
}

static void report(void *arg, const char *line)
{
    (void)arg;
    print_error("%s\n", line);
}

static void run(struct shared *s)
{
    void *(*const work[])(void *) = {write_all, read_all, read_all, read_all, pin_all, tend};
    pthread_t threads[sizeof work / sizeof *work];
    store_dir_make_in_memory(s->dir, "pando-threads");
    s->files = fault_vfs_new();
    s->options = (struct ps_options){
        .dirty_memory = 512 * 4096,
        .map_size = UINT64_C(1) << 30,
        .log_segment_size = 4 << 20,
        .durability = PS_EVERYSEC,
        .vfs = fault_vfs(s->files),
        .on_publish = published,
        .arg = s,
    };
    alarm(WATCHDOG_S);
    assert_int_equal(ps_open(s->dir, &s->options, &s->store, NULL, NULL), 0);
    for (size_t i = 0; i < sizeof work / sizeof *work; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, work[i], s), 0);
    }
    for (size_t i = 0; i < sizeof work / sizeof *work; i++) {
        pthread_join(threads[i], NULL);
    }
    fault_vfs_fail(s->files, FAULT_CALLS, 0, 0, 0, false);
    assert_int_equal(ps_check(s->store, report, NULL), 0);
    uint64_t n = commits_published(s->store);
    assert_true(n >= atomic_load(&s->acked));
    assert_int_equal(atomic_load(&s->backwards), 0);
    assert_true(s->faults == (atomic_load(&s->drops) > 0));
    assert_int_equal(ps_close(s->store, false), 0);
    assert_int_equal(ps_open(s->dir, &s->options, &s->store, NULL, NULL), 0);
    assert_int_equal(commits_published(s->store), n);
    assert_int_equal(ps_check(s->store, report, NULL), 0);
    assert_int_equal(ps_close(s->store, true), 0);
    store_dir_remove(s->dir);
    fault_vfs_free(s->files);
    alarm(0);
}

static void readers_see_committed_states_whatever_else_goes_on(void **state)
{
    struct shared s = {0};
    (void)state;
    run(&s);
}

static void readers_see_committed_states_while_levels_change(void **state)
{
    struct shared s = {.levels = true};
    (void)state;
    run(&s);
}

static void readers_see_committed_states_while_log_writes_fail(void **state)
{
    struct shared s = {.faults = true};
    (void)state;
    run(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(readers_see_committed_states_whatever_else_goes_on),
        cmocka_unit_test(readers_see_committed_states_while_levels_change),
        cmocka_unit_test(readers_see_committed_states_while_log_writes_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
