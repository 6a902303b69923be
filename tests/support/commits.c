/* commits.c - see commits.h. */
#include "tests/support/commits.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define VALUE_MAX 9000u

static struct ps_slice text(const char *s)
{
    return (struct ps_slice){s, strlen(s)};
}

static struct ps_slice key_of(char buf[32], uint64_t n, unsigned k)
{
    snprintf(buf, 32, "c%08llu-%u", (unsigned long long)n, k);
    return text(buf);
}

/* Short ones, long ones, and ones in pages of their own. */
static struct ps_slice value_of(uint8_t buf[VALUE_MAX], uint64_t n, unsigned k)
{
    size_t len = (n * 31 + k * 7) % 300;
    len = (n + k) % 11 == 0 ? 1500 + len : (n + k) % 17 == 0 ? 8500 + len : len;
    for (size_t i = 0; i < len; i++) {
        buf[i] = (uint8_t)(n * 7 + k * 3 + i);
    }
    return (struct ps_slice){buf, len};
}

int commits_apply(struct ps_txn *txn, uint64_t n)
{
    static _Thread_local uint8_t value[VALUE_MAX];
    char key[32];
    ps_tree tree;
    int rc = ps_tree_create(txn, text("commits"), &tree);
    rc = rc == 0 ? ps_put(txn, tree, text("n"), (struct ps_slice){&n, sizeof n}) : rc;
    for (unsigned k = 0; rc == 0 && k < COMMITS_KEYS; k++) {
        rc = ps_put(txn, tree, key_of(key, n, k), value_of(value, n, k));
        if (rc == 0 && n > COMMITS_KEPT) {
            rc = ps_delete(txn, tree, key_of(key, n - COMMITS_KEPT, k));
        }
    }
    return rc;
}

int commits_make(struct ps_store *store, uint64_t n, enum ps_durability level)
{
    struct ps_txn *txn;
    int rc = ps_begin(store, &txn);
    if (rc != 0) {
        assert_null(txn);
        return rc;
    }
    rc = commits_apply(txn, n);
    if (rc != 0) {
        ps_abort(txn);
        return rc;
    }
    return ps_commit(txn, level, NULL);
}

uint64_t commits_seen(struct ps_view *view)
{
    static _Thread_local uint8_t expected[VALUE_MAX];
    ps_tree tree;
    struct ps_slice key, value;
    struct ps_cursor *cursor;
    char buf[32];
    uint64_t n, count, found = 0;
    if (ps_tree_find(view, text("commits"), &tree) != 0) {
        return 0;
    }
    assert_int_equal(ps_get(view, tree, text("n"), &value), 0);
    assert_int_equal(value.len, sizeof n);
    memcpy(&n, value.data, sizeof n);
    assert_int_equal(ps_cursor_open(view, tree, &cursor), 0);
    uint64_t first = n > COMMITS_KEPT ? n - COMMITS_KEPT + 1 : 1;
    int rc = ps_cursor_first(cursor);
    for (; rc == 0; rc = ps_cursor_next(cursor), found++) {
        assert_int_equal(ps_cursor_get(cursor, &key, &value), 0);
        struct ps_slice want_key = text("n"), want = {&n, sizeof n};
        if (found < (n - first + 1) * COMMITS_KEYS) {
            uint64_t of = first + found / COMMITS_KEYS;
            want_key = key_of(buf, of, (unsigned)(found % COMMITS_KEYS));
            want = value_of(expected, of, (unsigned)(found % COMMITS_KEYS));
        }
        assert_int_equal(key.len, want_key.len);
        assert_memory_equal(key.data, want_key.data, key.len);
        assert_int_equal(value.len, want.len);
        assert_true(value.len == 0 || memcmp(value.data, want.data, value.len) == 0);
    }
    assert_int_equal(rc, PS_NOTFOUND);
    ps_cursor_close(cursor);
    assert_int_equal(ps_count(view, tree, &count), 0);
    assert_int_equal(found, (n - first + 1) * COMMITS_KEYS + 1);
    assert_int_equal(count, found);
    return n;
}

uint64_t commits_published(struct ps_store *store)
{
    struct ps_snapshot *snap;
    assert_int_equal(ps_snapshot_new(store, &snap), 0);
    ps_snapshot_renew(snap);
    uint64_t n = commits_seen(ps_snapshot_view(snap));
    ps_snapshot_free(snap);
    return n;
}
