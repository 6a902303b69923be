/*
 * writes.c - changes, made in both stores.
 *
 * Invariant: LMDB is changed only after the engine said that it did it.
 */
#include "tests/lmdb/run.h"

#include <string.h>

struct side txn_side(struct run *r)
{
    return (struct side){
        ps_txn_view(r->engine.txn), {r->oracle, r->txn[r->savepoints]}, "transaction"};
}

/* The tree of a change in the open transaction, which is made if it is missing; false: it did not
 * fit. */
static bool tree_for_change(struct run *r, ps_tree *number)
{
    begin_for_change(r);
    struct side side = txn_side(r);
    if (find_tree(r, &side, r->op->tree, number))
        return true;
    do_make_tree(r);
    side = txn_side(r);
    return find_tree(r, &side, r->op->tree, number);
}

/* The same key and value for both; the value may be in the engine's memory. */
static void put(struct run *r, struct ps_slice key, struct ps_slice value)
{
    ps_tree number;
    int rc;
    do {
        if (!tree_for_change(r, &number))
            return;
        rc = engine_put(&r->engine, number, key, value);
    } while (rc && make_way(r, rc, "ps_put", key.len + value.len));
    if (rc)
        return;
    oracle_put(txn_side(r).lmdb, r->op->tree, key, value);
    if (!ps_txn_changed(r->engine.txn))
        differ(r, "put: changed", "after a put the transaction says that it has no changes");
}

void do_put(struct run *r)
{
    put(r, op_key(r->config, r->op, r->key),
        stream_value(r->config, r->op->value, r->op->key, r->value));
}

/* Up to 48 keys of ascending numbers. */
void do_put_run(struct run *r)
{
    for (unsigned i = 0; i <= r->op->arg % 48u; i++) {
        uint16_t spec = (uint16_t)(r->op->key + i);
        put(r, stream_key(r->config, r->op->tree, spec, 15, r->key),
            stream_value(r->config, (uint16_t)(r->op->value + i), spec, r->value));
    }
}

/* Puts what is read in the transaction under one key at another; the engine is given its own
 * memory.
 */
void do_put_read(struct run *r)
{
    ps_tree number;
    struct ps_slice from = op_key(r->config, r->op, r->key), value = {0}, expected;
    struct ps_slice to = op_other(r->config, r->op, r->other);
    int rc;
    do {
        if (!tree_for_change(r, &number))
            return;
        struct side side = txn_side(r);
        bool found = oracle_get(side.lmdb, r->op->tree, from, &expected);
        rc = engine_get(&r->engine, side.pando, number, from, &value);
        if (!same_answer(r, &side, "put what was read: found", rc, found))
            return;
        if (value.len > sizeof r->value)
            differ(r, "put what was read: value", "%zu bytes, the longest was %u", value.len,
                   MAX_VALUE);
        if (value.len > 0)
            memcpy(r->value, value.data, value.len);
        rc = engine_put(&r->engine, number, to, value);
    } while (rc && make_way(r, rc, "ps_put", to.len + value.len));
    if (!rc)
        oracle_put(txn_side(r).lmdb, r->op->tree, to, (struct ps_slice){r->value, value.len});
}

static void delete (struct run *r, struct ps_slice key)
{
    ps_tree number;
    int rc;
    do {
        begin_for_change(r);
        struct side side = txn_side(r);
        if (!find_tree(r, &side, r->op->tree, &number))
            return;
        rc = engine_delete(&r->engine, number, key);
    } while (rc && rc != PS_NOTFOUND && make_way(r, rc, "ps_delete", key.len));
    if (rc && rc != PS_NOTFOUND)
        return;
    struct side side = txn_side(r);
    same_answer(r, &side, "delete: found", rc, oracle_delete(side.lmdb, r->op->tree, key));
}

void do_delete(struct run *r)
{
    delete (r, op_key(r->config, r->op, r->key));
}

/* Up to 96 entries from a key on. */
void do_delete_run(struct run *r)
{
    struct ps_slice from = op_key(r->config, r->op, r->key);
    for (unsigned i = 0; i <= r->op->arg % 96u; i++) {
        struct oracle_cursor c;
        begin_for_change(r);
        oracle_cursor_open(&c, txn_side(r).lmdb, r->op->tree, NULL, NULL);
        bool found = oracle_cursor_seek(&c, from, PS_GE);
        if (found && c.key.len > 0)
            memcpy(r->other, c.key.data, c.key.len);
        struct ps_slice key = {r->other, c.key.len};
        oracle_cursor_close(&c);
        if (!found)
            return;
        delete (r, key);
    }
}

/* Where a range of up to 127 entries ends that begins with `low`: the key in r->other. */
static struct ps_slice range_end(struct run *r, struct ps_slice low)
{
    struct oracle_cursor c;
    struct ps_slice high = op_other(r->config, r->op, r->other);
    if (r->op->arg % 8u == 0)
        return high; /* anywhere, before `low` too */
    oracle_cursor_open(&c, txn_side(r).lmdb, r->op->tree, NULL, NULL);
    bool found = oracle_cursor_seek(&c, low, PS_GE);
    for (unsigned i = 0; found && i < r->op->arg / 8u % 128u; i++)
        found = oracle_cursor_step(&c, true);
    if (found && c.key.len > 0)
        memcpy(r->other, c.key.data, c.key.len);
    high = found ? (struct ps_slice){r->other, c.key.len} : high;
    oracle_cursor_close(&c);
    return high;
}

/* LMDB deletes one by one: the first `n` of a range; how many there were. */
static uint64_t oracle_delete_first(struct run *r, struct ps_slice low, const struct ps_slice *high,
                                    uint64_t n)
{
    uint64_t done = 0;
    for (bool found = true; found && done < n;) {
        struct oracle_cursor c;
        unsigned char bytes[ORACLE_MAX_KEY];
        oracle_cursor_open(&c, txn_side(r).lmdb, r->op->tree, &low, high);
        found = oracle_cursor_first(&c);
        struct ps_slice key = {bytes, found ? c.key.len : 0};
        if (key.len > 0)
            memcpy(bytes, c.key.data, key.len);
        oracle_cursor_close(&c);
        done += found && oracle_delete(txn_side(r).lmdb, r->op->tree, key);
    }
    return done;
}

/* All of a range, or, with a bound, the first part of it; now and then to the tree's end. */
void do_delete_range(struct run *r)
{
    struct ps_slice low = op_key(r->config, r->op, r->key), end;
    uint64_t most = r->op->arg % 4u == 1 ? 1 + r->op->arg / 4u % 64u : 0, deleted = 0, there = 0;
    const struct ps_slice *high = r->op->arg % 64u == 0 || r->op->arg % 16u == 1 ? NULL : &end;
    ps_tree number;
    int rc;
    do {
        if (!tree_for_change(r, &number))
            return;
        end = range_end(r, low);
        rc = ps_count_range(txn_side(r).pando, number, &low, high, &there);
        if (rc == 0)
            rc = engine_delete_range(&r->engine, number, &low, high, most, &deleted);
    } while (rc && make_way(r, rc, "ps_delete_range", low.len + end.len));
    if (rc)
        return;
    uint64_t gone = oracle_delete_first(r, low, high, deleted);
    if (gone != deleted || deleted < (most > 0 && most < there ? most : there))
        differ(r, "delete a range", "%llu entries of %llu from %s on, from LMDB %llu",
               (unsigned long long)deleted, (unsigned long long)there, show(low),
               (unsigned long long)gone);
}

void do_clear(struct run *r)
{
    ps_tree number;
    int rc;
    do {
        begin_for_change(r);
        struct side side = txn_side(r);
        if (!find_tree(r, &side, r->op->tree, &number))
            return;
        rc = engine_clear(&r->engine, number);
    } while (rc && make_way(r, rc, "ps_clear", 0));
    if (!rc)
        oracle_clear(txn_side(r).lmdb, r->op->tree);
}

void do_drop_tree(struct run *r)
{
    ps_tree number;
    int rc;
    do {
        begin_for_change(r);
        close_walkers_of_tree(r, r->op->tree);
        struct side side = txn_side(r);
        if (!find_tree(r, &side, r->op->tree, &number))
            return;
        rc = engine_drop(&r->engine, number);
    } while (rc && make_way(r, rc, "ps_tree_drop", 0));
    if (rc)
        return;
    oracle_tree_drop(txn_side(r).lmdb, r->op->tree);
    struct side side = txn_side(r);
    (void)find_tree(r, &side, r->op->tree, &number);
}
