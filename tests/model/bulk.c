/*
 * bulk.c - many changes at once, so that transactions outgrow the dirty memory.
 *
 * Keys are of a range of their own, in ascending order or at random; values are small. What was put
 * is deleted again in the same way, mostly before the tree is large.
 */
#include "tests/model/round.h"

#include <stdio.h>
#include <string.h>

#define BULK_KEYS   20000 /* different ones */
#define BULK_TREE   4000  /* entries in a tree, about */
#define BULK_BYTES  300   /* of a value, at most */
#define BULK_LOSING 4000  /* puts until a failing log must have been noticed */

static struct ps_slice bulk_key(struct round *r, uint64_t number)
{
    int n = snprintf((char *)r->key, sizeof r->key, "bulk %08llu",
                     (unsigned long long)(number % BULK_KEYS));
    return (struct ps_slice){r->key, (size_t)n};
}

static struct ps_slice bulk_value(struct round *r)
{
    size_t len = rng_between(&r->rng, 0, BULK_BYTES);
    memset(r->value, (int)rng_below(&r->rng, 256), len);
    return (struct ps_slice){r->value, len};
}

static void bulk_put(struct round *r, int tree)
{
    uint64_t n = rng_between(&r->rng, 50, 2000), at = rng_below(&r->rng, BULK_KEYS);
    bool ascending = rng_one_in(&r->rng, 2);
    for (uint64_t i = 0; i < n && r->now.tree[tree].exists; i++) {
        struct ps_slice key = bulk_key(r, ascending ? at + i : rng_below(&r->rng, BULK_KEYS));
        change_put(r, tree, key, bulk_value(r));
        r->progress->tally[TALLY_bulk_changes]++;
    }
}

static void bulk_delete(struct round *r, int tree)
{
    uint64_t n = rng_between(&r->rng, 50, 2 * BULK_TREE), at = rng_below(&r->rng, BULK_KEYS);
    for (uint64_t i = 0; i < n && r->now.tree[tree].exists; i++) {
        const struct table *table = r->now.tree[tree].table;
        if (table->n == 0)
            return;
        struct ps_slice key = table->at[(at + i / 2) % table->n]->key;
        if (key.len > 0)
            memcpy(r->key, key.data, key.len);
        change_delete(r, tree, (struct ps_slice){r->key, key.len});
        r->progress->tally[TALLY_bulk_changes]++;
    }
}

void op_bulk(struct round *r)
{
    if (!r->config.bulk)
        return;
    if (!r->txn)
        begin_transaction(r);
    int tree = pick_tree(r, &r->now);
    if (tree < 0)
        return;
    if (r->now.tree[tree].table->n < BULK_TREE && !rng_one_in(&r->rng, 6))
        bulk_put(r, tree);
    else
        bulk_delete(r, tree);
    if (r->txn && rng_one_in(&r->rng, 6)) {
        end_transaction(r, false);
        if (rng_one_in(&r->rng, 2))
            op_crash(r);
        else
            op_reopen(r);
    }
}

/* Tries what is left to a transaction that was lost: nothing but its end. */
static void end_lost(struct round *r, int tree)
{
    struct ps_slice key = {"k", 1};
    r->progress->tally[TALLY_transactions_lost]++;
    while (r->savepoints > 0) {
        int rc = ps_savepoint_rollback(r->txn);
        map_free(&r->savepoint[--r->savepoints]);
        if (rc != PS_IO)
            round_fail(r, "rolling back in a lost transaction answered %d", rc);
    }
    int rc = ps_put(r->txn, r->now.tree[tree].id, key, key);
    if (rc != PS_IO)
        round_fail(r, "a put into a lost transaction answered %d (%s)", rc, ps_strerror(rc));
    if (rng_one_in(&r->rng, 2)) {
        rc = ps_commit(r->txn, PS_ALWAYS, NULL);
        if (rc != PS_IO)
            round_fail(r, "committing a lost transaction answered %d (%s)", rc, ps_strerror(rc));
    } else {
        ps_abort(r->txn);
    }
    r->txn = NULL;
    map_free(&r->now);
}

void lose_transaction(struct round *r)
{
    begin_transaction(r);
    int tree = pick_tree(r, &r->now), rc = 0;
    for (unsigned i = 0; tree >= 0 && rc == 0 && i < BULK_LOSING; i++) {
        if (rng_one_in(&r->rng, 500) && r->savepoints < 6) {
            round_must(r, ps_savepoint(r->txn), "ps_savepoint");
            map_copy(&r->savepoint[r->savepoints++], &r->now);
        }
        struct ps_slice key = bulk_key(r, rng_below(&r->rng, BULK_KEYS));
        rc = ps_put(r->txn, r->now.tree[tree].id, key, bulk_value(r));
        if (rc == PS_IO) /* if making a segment failed, nothing is lost */
            rc = ps_put(r->txn, r->now.tree[tree].id, key, bulk_value(r));
    }
    if (rc == PS_IO) {
        end_lost(r, tree);
        return;
    }
    if (rc != 0 && rc != PS_BUSY && rc != PS_TXNFULL)
        round_fail(r, "a put while the log fails answered %d (%s)", rc, ps_strerror(rc));
    end_transaction(r, true);
}
