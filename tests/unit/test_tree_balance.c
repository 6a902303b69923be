/*
 * test_tree_balance.c - what nodes look like after keys that rise.
 */
#include <stdio.h>

#include "storage/node.h"
#include "storage/store.h"
#include "tests/support/store_fixture.h"

#define MANY 3000u

static struct ps_slice key_of(unsigned number, char key[17])
{
    snprintf(key, 17, "%016u", number);
    return (struct ps_slice){key, 16};
}

/* The transaction stays open: nobody moves its pages meanwhile. */
static struct ps_txn *put_rising(struct fixture *f)
{
    static const char value[100];
    struct ps_txn *txn = fixture_begin(f);
    for (unsigned i = 0; i < MANY; i++) {
        char key[17];
        struct ps_slice v = {value, sizeof value};
        assert_int_equal(ps_put(txn, f->tree, key_of(i, key), v), 0);
    }
    return txn;
}

static const struct page *leaf_of(struct fixture *f, const struct ps_txn *txn, unsigned number)
{
    char key[17];
    const struct page *leaf;
    const struct tree_root *root = &txn->state->trees[f->tree];
    assert_int_equal(tree_leaf(f->store, root, key_of(number, key), &leaf), 0);
    return leaf;
}

static void keys_that_rise_leave_full_leaves(void **state)
{
    struct fixture *f = *state;
    struct ps_txn *txn = put_rising(f);
    uint32_t size = f->store->page_size;
    for (unsigned i = 0; i + 100 < MANY; i += 100) {
        assert_true(node_used(leaf_of(f, txn, i), size) > size - size / 20);
    }
    ps_abort(txn);
}

static void heads_tell_keys_apart_in_leaves_that_began_with_one_entry(void **state)
{
    struct fixture *f = *state;
    struct ps_txn *txn = put_rising(f);
    for (unsigned i = 0; i < MANY; i += 10) {
        const struct page *leaf = leaf_of(f, txn, i);
        const uint32_t *heads = node_heads(leaf);
        assert_true(leaf->count <= 4 || heads[0] != heads[leaf->count - 1]);
    }
    ps_abort(txn);
}

static void what_is_left_as_it_is_keeps_its_count_and_its_order(void **state)
{
    struct fixture *f = *state;
    struct ps_txn *txn = put_rising(f);
    fixture_commit(txn);
    struct ps_snapshot *snap = fixture_snapshot(f);
    for (unsigned i = 0; i < MANY; i++) {
        char key[17];
        uint64_t rank;
        assert_int_equal(ps_rank(ps_snapshot_view(snap), f->tree, key_of(i, key), &rank), 0);
        assert_int_equal(rank, i);
    }
    ps_snapshot_free(snap);
    assert_int_equal(ps_check(f->store, NULL, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORE_TEST(keys_that_rise_leave_full_leaves),
        STORE_TEST(heads_tell_keys_apart_in_leaves_that_began_with_one_entry),
        STORE_TEST(what_is_left_as_it_is_keeps_its_count_and_its_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
