/*
 * txns.c - transactions of both stores: beginning, savepoints beside nested transactions, the ends.
 *
 * Invariants:
 *  1. engine.txn is open exactly when txn[0] is; txn[savepoints] is LMDB's innermost.
 *  2. PS_BUSY is only for transactions with changes or savepoints that were not said to be whole;
 *     PS_TXNFULL says it only of what is large beside the dirty memory.
 */
#include "tests/lmdb/run.h"

#define SMALL_PART    24 /* a change below this part of the dirty memory must always fit */
#define RESERVE_OPS   8
#define RESERVE_BYTES 20000

static uint64_t dirty_memory(const struct run *r)
{
    return arena_slots(r->config, r->arena) * 4096;
}

static void start(struct run *r, enum mode mode)
{
    relieve(r, mode != MODE_PLAIN);
    must(r, ps_begin(r->engine.store, &r->engine.txn), "ps_begin");
    r->txn[0] = oracle_begin(r->oracle, NULL);
    r->savepoints = 0;
    r->whole = mode == MODE_WHOLE;
    if (ps_txn_changed(r->engine.txn))
        differ(r, "begin: changed", "a new transaction says that it has changes");
    if (r->whole)
        ps_keep_whole(r->engine.txn);
    if (mode == MODE_RESERVED)
        must(r, ps_reserve(r->engine.txn, RESERVE_OPS, RESERVE_BYTES), "ps_reserve");
}

void begin(struct run *r, enum mode mode)
{
    if (!r->engine.txn)
        start(r, mode);
}

void begin_for_change(struct run *r)
{
    begin(r, r->config->whole && mix(r->op->key) % 4 == 0 ? MODE_WHOLE : MODE_PLAIN);
}

static void abort_both(struct run *r)
{
    close_walkers(r, OF_TXN);
    engine_abort(&r->engine);
    for (; r->savepoints > 0; r->savepoints--)
        oracle_abort(r->txn[r->savepoints]);
    oracle_abort(r->txn[0]);
}

static void release(struct run *r)
{
    must(r, ps_savepoint_release(r->engine.txn), "ps_savepoint_release");
    oracle_commit(r->txn[r->savepoints--]);
}

void commit(struct run *r, bool wait)
{
    struct ps_store *store = r->engine.store;
    close_walkers(r, OF_TXN);
    while (r->savepoints > 0)
        release(r);
    bool changed = ps_txn_changed(r->engine.txn);
    uint64_t expected = ps_txn_seq(r->engine.txn), seq = 0;
    enum ps_durability level = ps_get_durability(store);
    int rc = wait ? ps_commit(r->engine.txn, level, &seq)
                  : ps_commit_start(r->engine.txn, level, expected % 2 == 0, &seq);
    r->engine.txn = NULL;
    must(r, rc, wait ? "ps_commit" : "ps_commit_start");
    oracle_commit(r->txn[0]);
    if (changed && (seq != expected || seq != r->last_seq + 1))
        differ(r, "commit: sequence", "committed as %llu, was to be %llu, the last was %llu",
               (unsigned long long)seq, (unsigned long long)expected,
               (unsigned long long)r->last_seq);
    if (changed)
        r->last_seq = seq;
    if (wait && ps_published(store) < r->last_seq)
        differ(r, "commit: published", "committed %llu, published is %llu",
               (unsigned long long)r->last_seq, (unsigned long long)ps_published(store));
}

void settle(struct run *r)
{
    if (r->engine.txn)
        commit(r, true);
}

bool make_way(struct run *r, int rc, const char *call, uint64_t bytes)
{
    bool fresh = !ps_txn_changed(r->engine.txn) && r->savepoints == 0;
    if (rc == PS_BUSY) {
        if (fresh || r->whole)
            differ(r, "busy", "%s answered PS_BUSY in a transaction %s", call,
                   fresh ? "without changes" : "that must be whole");
        if (r->report)
            r->report->totals.busy++;
        commit(r, false);
        start(r, MODE_PLAIN);
        return true;
    }
    if (rc == PS_TXNFULL) {
        if (bytes * SMALL_PART < dirty_memory(r))
            differ(r, "transaction full", "%s of %llu bytes did not fit into dirty memory of %llu",
                   call, (unsigned long long)bytes, (unsigned long long)dirty_memory(r));
        if (r->report)
            r->report->totals.full++;
        return false;
    }
    must(r, rc, call);
    return false;
}

void do_begin(struct run *r)
{
    begin(r, r->op->arg % 4 == 0 ? MODE_WHOLE : r->op->arg % 4 == 1 ? MODE_RESERVED : MODE_PLAIN);
}

/* One in so many commits is one: that makes transactions of all sizes. */
void do_commit(struct run *r)
{
    if (r->engine.txn && r->op->value % r->config->patience == 0)
        commit(r, r->op->arg % 2 == 0);
}

void do_abort(struct run *r)
{
    if (r->engine.txn)
        abort_both(r);
}

void do_savepoint(struct run *r)
{
    begin_for_change(r);
    if (r->savepoints == SAVEPOINTS)
        return;
    must(r, ps_savepoint(r->engine.txn), "ps_savepoint");
    r->txn[r->savepoints + 1] = oracle_begin(r->oracle, r->txn[r->savepoints]);
    r->savepoints++;
}

void do_release(struct run *r)
{
    if (r->engine.txn && r->savepoints > 0)
        release(r);
}

void do_roll_back(struct run *r)
{
    if (!r->engine.txn || r->savepoints == 0)
        return;
    must(r, engine_roll_back(&r->engine), "ps_savepoint_rollback");
    oracle_abort(r->txn[r->savepoints--]);
    close_lost_walkers(r);
}
