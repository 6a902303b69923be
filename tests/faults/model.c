/* model.c - see model.h. */
#include "tests/faults/model.h"

#include <stdio.h>
#include <string.h>

#define LONGEST_KEY   70000u
#define LONGEST_VALUE 150000u
#define BIG_KEYS      560u /* with values of 900 bytes: more than dirty memory */

static struct ps_slice text(const char *s)
{
    return (struct ps_slice){s, strlen(s)};
}

static unsigned keys_of(uint64_t n)
{
    return n % 9 == 5 ? BIG_KEYS : 4;
}

/* Some are filled up with dots: in a run of pages, in one of the file. */
static struct ps_slice key_of(char *buf, uint64_t n, unsigned k)
{
    size_t len = (size_t)snprintf(buf, 32, "c%08llu-%05u", (unsigned long long)n, k);
    size_t whole = k == 2 && n % 6 == 1 ? 700 : k == 3 && n % 10 == 7 ? LONGEST_KEY : len;
    memset(buf + len, '.', whole - len);
    return (struct ps_slice){buf, whole};
}

static struct ps_slice value_of(uint8_t *buf, uint64_t n, unsigned k)
{
    size_t len = keys_of(n) == BIG_KEYS ? 900 : (size_t)(n * 31 + k * 7) % 200;
    len = k == 0 && n % 4 == 3 ? LONGEST_VALUE : k == 1 && n % 5 == 2 ? 9000 : len;
    memset(buf, (int)(n * 7 + k), len);
    for (size_t i = 0; i < len; i += 97) {
        buf[i] = (uint8_t)(n + k + i / 97);
    }
    return (struct ps_slice){buf, len};
}

/* The second tree: made by commits 3, 6, ..., dropped by 5, 8, ... */
static int second_tree(struct ps_txn *txn, uint64_t n)
{
    ps_tree tree;
    int rc = 0;
    if (n % 3 == 0) {
        rc = ps_tree_create(txn, text("second"), &tree);
        rc = rc == 0 ? ps_put(txn, tree, text("of"), (struct ps_slice){&n, sizeof n}) : rc;
    } else if (n % 3 == 2 && n > 3) {
        rc = ps_tree_find(ps_txn_view(txn), text("second"), &tree);
        rc = rc == 0 ? ps_tree_drop(txn, tree) : rc;
    }
    return rc;
}

/* Made, and undone. */
static int rolled_back(struct ps_txn *txn, ps_tree tree, uint8_t *value, uint64_t n)
{
    int rc = ps_savepoint(txn);
    if (rc != 0) {
        return rc;
    }
    rc = ps_put(txn, tree, text("zz"), value_of(value, n, 7));
    int undone = ps_savepoint_rollback(txn);
    return rc != 0 ? rc : undone;
}

int model_apply(struct ps_txn *txn, uint64_t n)
{
    static char key[LONGEST_KEY + 32];
    static uint8_t value[LONGEST_VALUE];
    ps_tree tree;
    if (keys_of(n) == BIG_KEYS || (n > MODEL_KEPT && keys_of(n - MODEL_KEPT) == BIG_KEYS)) {
        ps_keep_whole(txn);
    }
    int rc = ps_tree_create(txn, text("first"), &tree);
    rc = rc == 0 ? ps_put(txn, tree, text("n"), (struct ps_slice){&n, sizeof n}) : rc;
    rc = rc == 0 && n % 2 == 0 ? rolled_back(txn, tree, value, n) : rc;
    for (unsigned k = 0; rc == 0 && k < keys_of(n); k++) {
        rc = ps_put(txn, tree, key_of(key, n, k), value_of(value, n, k));
    }
    for (unsigned k = 0; rc == 0 && n > MODEL_KEPT && k < keys_of(n - MODEL_KEPT); k++) {
        rc = ps_delete(txn, tree, key_of(key, n - MODEL_KEPT, k));
    }
    return rc == 0 ? second_tree(txn, n) : rc;
}

/* The first tree against what commits (first..n) left. */
static int compare(struct ps_cursor *cursor, uint64_t first, uint64_t n, const char **what)
{
    static char key[LONGEST_KEY + 32];
    static uint8_t value[LONGEST_VALUE];
    struct ps_slice found_key, found_value;
    int rc = ps_cursor_first(cursor);
    for (uint64_t of = first; rc == 0 && of <= n; of++) {
        for (unsigned k = 0; rc == 0 && k < keys_of(of); k++) {
            struct ps_slice want_key = key_of(key, of, k), want = value_of(value, of, k);
            rc = ps_cursor_get(cursor, &found_key, &found_value);
            if (rc != 0) {
                return rc;
            }
            if (found_key.len != want_key.len ||
                memcmp(found_key.data, want_key.data, want_key.len) != 0) {
                *what = "another key than expected";
                return 0;
            }
            if (found_value.len != want.len ||
                (want.len > 0 && memcmp(found_value.data, want.data, want.len) != 0)) {
                *what = "another value than expected";
                return 0;
            }
            rc = ps_cursor_next(cursor);
        }
    }
    rc = rc == 0 ? ps_cursor_next(cursor) : rc; /* past the counter */
    if (rc == PS_NOTFOUND) {
        return 0;
    }
    *what = rc == 0 ? "a key too many" : *what;
    return rc;
}

static void look_at_second(struct ps_view *view, uint64_t n, const char **what)
{
    ps_tree tree;
    uint64_t count = 0;
    bool there = ps_tree_find(view, text("second"), &tree) == 0;
    bool should = n >= 3 && n % 3 != 2;
    if (there != should) {
        *what = should ? "the second tree is missing" : "the second tree should be gone";
    } else if (there && (ps_count(view, tree, &count) != 0 || count != 1)) {
        *what = "the second tree's entries";
    }
}

int64_t model_seen(struct ps_view *view, int *rc, const char **what)
{
    ps_tree tree;
    struct ps_slice value;
    struct ps_cursor *cursor;
    uint64_t n;
    *what = NULL;
    *rc = ps_tree_find(view, text("first"), &tree);
    if (*rc == PS_NOTFOUND) {
        *rc = 0;
        return 0;
    }
    *rc = *rc == 0 ? ps_get(view, tree, text("n"), &value) : *rc;
    if (*rc != 0 || value.len != sizeof n) {
        *what = "no number";
        return -1;
    }
    memcpy(&n, value.data, sizeof n);
    *rc = ps_cursor_open(view, tree, &cursor);
    if (*rc != 0) {
        return -1;
    }
    *rc = compare(cursor, n > MODEL_KEPT ? n - MODEL_KEPT + 1 : 1, n, what);
    ps_cursor_close(cursor);
    if (*rc == 0 && *what == NULL) {
        look_at_second(view, n, what);
    }
    return *rc != 0 || *what != NULL ? -1 : (int64_t)n;
}
