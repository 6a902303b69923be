/*
 * test_vec.c - arrays that cannot grow: each time that one wants to, in turn, there is no memory.
 * What is answered then is PS_NOMEM or nothing at all, and what was committed is there.
 */
#include <stdatomic.h>

#include "storage/store.h"
#include "storage/vec.h"
#include "tests/support/store_fixture.h"

#define KEYS 500u

/* How many arrays may still grow; then so many cannot; negative: all can. */
static _Atomic long may_grow = -1;
static _Atomic long cannot;
static _Atomic unsigned failures;

/* Instead of storage/vec.c. */
void *vec_realloc(void *at, size_t bytes)
{
    if (atomic_load(&may_grow) >= 0 && atomic_fetch_sub(&may_grow, 1) <= 0) {
        atomic_fetch_add(&failures, 1);
        atomic_store(&may_grow, atomic_fetch_sub(&cannot, 1) > 1 ? 0 : -1);
        return NULL;
    }
    return realloc(at, bytes);
}

struct world {
    struct fixture *f;
    unsigned round; /* committed: all values are of it; 0: there are none */
    unsigned char *bytes;
    struct ps_snapshot *held;
    unsigned held_round;
};

static void key_of(char key[16], unsigned i)
{
    snprintf(key, 16, "key %05u", i);
}

static void see(struct ps_view *view, ps_tree tree, unsigned round)
{
    for (unsigned i = 0; i < KEYS; i += 7) {
        char key[16];
        struct ps_slice value;
        key_of(key, i);
        int rc = ps_get(view, tree, text(key), &value);
        assert_int_equal(rc, round == 0 ? PS_NOTFOUND : 0);
        if (rc == 0) {
            assert_int_equal(value.len, 200);
            assert_int_equal(((const unsigned char *)value.data)[0], (unsigned char)round);
        }
    }
}

static int put_long(struct world *w, struct ps_txn *txn, unsigned round)
{
    w->bytes[0] = (unsigned char)round;
    struct ps_slice key = {w->bytes, 100000};
    int rc = ps_put(txn, w->f->tree, key, key);
    rc = rc == 0 ? ps_put(txn, w->f->tree, text("long"), (struct ps_slice){w->bytes, 300000}) : rc;
    return rc == 0 ? ps_delete(txn, w->f->tree, key) : rc;
}

/* Writes everything anew; what answers an error has changed nothing that is committed. */
static int write_round(struct world *w, unsigned round, bool whole)
{
    struct ps_txn *txn;
    int rc = ps_begin(w->f->store, &txn);
    if (rc != 0) {
        return rc;
    }
    if (whole) {
        ps_keep_whole(txn);
    }
    unsigned char value[200];
    memset(value, (int)round, sizeof value);
    rc = put_long(w, txn, round);
    for (unsigned i = 0; rc == 0 && i < KEYS; i++) {
        char key[16];
        key_of(key, i);
        rc = i == KEYS / 2 ? ps_savepoint(txn) : 0;
        rc = rc == 0 ? ps_put(txn, w->f->tree, text(key), (struct ps_slice){value, 200}) : rc;
    }
    if (rc != 0) {
        ps_abort(txn);
        return rc;
    }
    rc = ps_commit(txn, PS_EVERYSEC, NULL);
    if (rc == 0) {
        w->round = round;
    }
    return rc;
}

static void hold(struct world *w)
{
    ps_snapshot_renew(w->held);
    w->held_round = w->round;
}

static int step(struct world *w, unsigned n)
{
    switch (n % 5) {
    case 0:
        return write_round(w, n + 1, true);
    case 1:
        hold(w);
        return ps_checkpoint(w->f->store);
    case 2:
        return write_round(w, n + 1, false);
    case 3:
        see(ps_snapshot_view(w->held), w->f->tree, w->held_round);
        ps_snapshot_reset(w->held);
        return ps_checkpoint(w->f->store);
    default:
        return ps_flush(w->f->store, ps_published(w->f->store));
    }
}

static void finish(struct world *w)
{
    atomic_store(&may_grow, -1);
    ps_snapshot_renew(w->held);
    see(ps_snapshot_view(w->held), w->f->tree, w->round);
    ps_snapshot_reset(w->held);
    assert_int_equal(write_round(w, 99, false), 0);
    assert_int_equal(ps_check(w->f->store, NULL, NULL), 0);
    ps_snapshot_free(w->held);
    fixture_reopen(w->f, false);
    struct ps_snapshot *snap = fixture_snapshot(w->f);
    see(ps_snapshot_view(snap), w->f->tree, w->round);
    ps_snapshot_free(snap);
    assert_int_equal(ps_check(w->f->store, NULL, NULL), 0);
}

/* Nobody crashes here. */
static int no_sync(void *ctx, int fd)
{
    (void)ctx;
    (void)fd;
    return 0;
}

/* False: everything was done before that many arrays had grown. */
static bool without_memory(long grown, long times)
{
    struct world w = {.f = fixture_new(), .bytes = calloc(1, 300000)};
    assert_non_null(w.bytes);
    struct ps_vfs files = *ps_vfs_posix();
    files.fdatasync = no_sync;
    files.fsync = no_sync;
    w.f->options.vfs = &files;
    w.f->options.dirty_memory = 128 * 4096;
    w.f->options.manual_checkpoint = true;
    fixture_reopen(w.f, true);
    assert_int_equal(ps_snapshot_new(w.f->store, &w.held), 0);
    atomic_store(&failures, 0);
    atomic_store(&cannot, times);
    atomic_store(&may_grow, grown);
    for (unsigned n = 0; n < 10; n++) {
        int rc = step(&w, n);
        if (rc != 0 && rc != PS_UNKNOWN) {
            assert_int_equal(rc, PS_NOMEM);
        }
    }
    bool failed = atomic_load(&failures) > 0;
    finish(&w);
    free(w.bytes);
    void *f = w.f;
    fixture_teardown(&f);
    return failed;
}

static void wherever_an_array_cannot_grow_nothing_is_lost_and_nobody_ends(void **state)
{
    (void)state;
    long grown = 0;
    while (without_memory(grown, grown % 4 == 3 ? 4 : 1)) {
        grown++;
    }
    assert_true(grown > 50);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wherever_an_array_cannot_grow_nothing_is_lost_and_nobody_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
