/*
 * refill.c - a tree emptied and loaded again with what it held, in bulk: the model does not change.
 *
 * In the order of the keys, or backwards to be sorted; now and then given up in the middle. And the
 * file made shorter, which does not change it either.
 */
#include "tests/model/round.h"

/* The transaction cannot go on with that. */
static void give_up(struct round *r, int rc, const char *call)
{
    if (rc != 0 && rc != PS_BUSY && rc != PS_TXNFULL)
        round_fail(r, "%s answered %d (%s)", call, rc, ps_strerror(rc));
    r->progress->tally[TALLY_refills_given_up]++;
    end_transaction(r, true);
}

static int put_all(struct ps_bulk *bulk, const struct table *table, bool backwards, size_t stop)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < table->n && i < stop; i++) {
        const struct entry *e = table->at[backwards ? table->n - 1 - i : i];
        if (backwards && i % 16 == 0)
            rc = ps_bulk_put(bulk, e->key, e->key); /* the last one counts */
        rc = rc == 0 ? ps_bulk_put(bulk, e->key, e->value) : rc;
    }
    return rc;
}

void op_refill(struct round *r)
{
    if (!r->txn)
        begin_transaction(r);
    int tree = pick_tree(r, &r->now);
    if (tree < 0)
        return;
    ps_tree id = r->now.tree[tree].id;
    const struct table *table = r->now.tree[tree].table;
    bool backwards = rng_one_in(&r->rng, 2);
    size_t stop = rng_one_in(&r->rng, 8) ? table->n / 2 : SIZE_MAX;
    struct ps_bulk *bulk;
    close_walker(r);
    int rc = ps_clear(r->txn, id);
    rc = rc == 0 ? ps_bulk_begin(r->txn, id, backwards ? PS_UNSORTED : PS_SORTED, 0, &bulk) : rc;
    if (rc != 0) {
        give_up(r, rc, "ps_clear or ps_bulk_begin");
        return;
    }
    struct ps_slice key = {"k", 1};
    if (ps_put(r->txn, id, key, key) != PS_INVALID)
        round_fail(r, "a put beside an open bulk was not refused");
    rc = put_all(bulk, table, backwards, stop);
    if (rc != 0 || stop != SIZE_MAX) {
        ps_bulk_cancel(bulk);
        give_up(r, rc, "ps_bulk_put");
        return;
    }
    uint64_t entries;
    rc = ps_bulk_finish(bulk, &entries);
    if (rc != 0) {
        give_up(r, rc, "ps_bulk_finish");
        return;
    }
    if (entries != table->n)
        round_fail(r, "a bulk of %zu entries says that it had %llu", table->n,
                   (unsigned long long)entries);
    r->reserved_ops = r->reserved_bytes = 0;
    r->progress->tally[TALLY_refills]++;
}

static bool go_on(void *arg, uint64_t done, uint64_t whole)
{
    struct round *r = arg;
    if (done > whole)
        round_fail(r, "shrinking has done %llu of %llu pages", (unsigned long long)done,
                   (unsigned long long)whole);
    return !rng_one_in(&r->rng, 20);
}

void op_shrink(struct round *r)
{
    if (r->txn)
        end_transaction(r, rng_one_in(&r->rng, 4));
    struct ps_copy_watch watch = {go_on, r};
    int rc = ps_shrink(r->store, rng_one_in(&r->rng, 2) ? &watch : NULL, NULL);
    if (rc != 0 && rc != PS_ENDED && rc != PS_TXNFULL) /* held snapshots keep the slots */
        round_fail(r, "ps_shrink answered %d (%s)", rc, ps_strerror(rc));
    r->progress->tally[TALLY_shrinks]++;
}
