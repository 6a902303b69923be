/*
 * store_fixture.h - a store in a temporary directory, for the tests of the engine's header.
 *
 * Each test gets its own store through setup/teardown; helpers end the test at the first call that
 * does not answer what it must.
 */
#ifndef PANDO_TESTS_SUPPORT_STORE_FIXTURE_H
#define PANDO_TESTS_SUPPORT_STORE_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "storage/pandostore.h"
#include "tests/support/store_dir.h"

struct fixture {
    char dir[STORE_DIR_PATH];
    struct ps_options options;
    struct ps_store *store;
    struct ps_recovery recovery;
    ps_tree tree; /* "tree", made by fixture_new() */
};

static inline struct ps_slice text(const char *string)
{
    return (struct ps_slice){string, strlen(string)};
}

#define assert_slice(slice, string)                           \
    do {                                                      \
        struct ps_slice slice_ = (slice);                     \
        assert_int_equal(slice_.len, strlen(string));         \
        assert_memory_equal(slice_.data, string, slice_.len); \
    } while (0)

static inline void fixture_open(struct fixture *f)
{
    struct ps_fault fault = {0};
    int rc = ps_open(f->dir, &f->options, &f->store, &f->recovery, &fault);
    if (rc)
        print_error("%s: %s at %llu: %s\n", ps_strerror(rc), fault.file,
                    (unsigned long long)fault.offset, fault.what);
    assert_int_equal(rc, 0);
}

static inline void fixture_close(struct fixture *f, bool checkpoint)
{
    assert_int_equal(ps_close(f->store, checkpoint), 0);
    f->store = NULL;
}

static inline void fixture_reopen(struct fixture *f, bool checkpoint)
{
    fixture_close(f, checkpoint);
    fixture_open(f);
}

static inline struct ps_txn *fixture_begin(struct fixture *f)
{
    struct ps_txn *txn = NULL;
    assert_int_equal(ps_begin(f->store, &txn), 0);
    return txn;
}

static inline uint64_t fixture_commit(struct ps_txn *txn)
{
    uint64_t seq = 0;
    assert_int_equal(ps_commit(txn, PS_EVERYSEC, &seq), 0);
    return seq;
}

/* One committed put. */
static inline uint64_t fixture_put(struct fixture *f, const char *key, const char *value)
{
    struct ps_txn *txn = fixture_begin(f);
    assert_int_equal(ps_put(txn, f->tree, text(key), text(value)), 0);
    return fixture_commit(txn);
}

static inline struct ps_snapshot *fixture_snapshot(struct fixture *f)
{
    struct ps_snapshot *snap = NULL;
    assert_int_equal(ps_snapshot_new(f->store, &snap), 0);
    ps_snapshot_renew(snap);
    return snap;
}

/* Keys "key 00000" and so on, values of `value_len` bytes that begin with the number. */
static inline void fixture_fill(struct fixture *f, unsigned from, unsigned to, size_t value_len)
{
    char key[32], *value = malloc(value_len + 16);
    struct ps_txn *txn = fixture_begin(f);
    memset(value, 'v', value_len + 16);
    for (unsigned i = from; i < to; i++) {
        int n = snprintf(key, sizeof key, "key %05u", i);
        snprintf(value, 16, "%014u", i);
        struct ps_slice v = {value, value_len}, k = {key, (size_t)n};
        int rc = ps_put(txn, f->tree, k, v);
        if (rc == PS_BUSY) {
            fixture_commit(txn);
            txn = fixture_begin(f);
            rc = ps_put(txn, f->tree, k, v);
        }
        assert_int_equal(rc, 0);
    }
    fixture_commit(txn);
    free(value);
}

/* A new directory and default options that suit small tests; no store yet. */
static inline struct fixture *fixture_directory(void)
{
    struct fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    store_dir_make(f->dir, "pando-unit");
    f->options = (struct ps_options){
        .dirty_memory = 8u << 20,
        .map_size = UINT64_C(1) << 32,
        .log_segment_size = 1u << 20,
        .durability = PS_EVERYSEC,
    };
    return f;
}

/* The same with a store that is open and has a tree. */
static inline struct fixture *fixture_new(void)
{
    struct fixture *f = fixture_directory();
    fixture_open(f);
    struct ps_txn *txn = fixture_begin(f);
    assert_int_equal(ps_tree_create(txn, text("tree"), &f->tree), 0);
    fixture_commit(txn);
    return f;
}

static inline int fixture_setup_directory(void **state)
{
    *state = fixture_directory();
    return 0;
}

static inline int fixture_setup(void **state)
{
    *state = fixture_new();
    return 0;
}

static inline int fixture_teardown(void **state)
{
    struct fixture *f = *state;
    if (f->store)
        ps_close(f->store, false);
    store_dir_remove(f->dir);
    free(f);
    return 0;
}

#define STORE_TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
#define DIRECTORY_TEST(name) \
    cmocka_unit_test_setup_teardown(name, fixture_setup_directory, fixture_teardown)

#endif
