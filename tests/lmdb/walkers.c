/*
 * walkers.c - cursors that stay open: in a transaction that changes, in a snapshot that moves.
 *
 * The engine promises that they go on from the key they stood on. LMDB's cursors promise something
 * else after a deletion, so on its side that key is looked for again each time.
 */
#include "tests/lmdb/run.h"

#include <string.h>

static void close_walker(struct walker *w)
{
    if (w->cursor)
        ps_cursor_close(w->cursor);
    w->cursor = NULL;
}

void close_walkers(struct run *r, unsigned of)
{
    for (unsigned i = 0; i < CURSORS; i++) {
        if (r->walkers[i].of == of)
            close_walker(&r->walkers[i]);
    }
}

void close_walkers_of_tree(struct run *r, unsigned tree)
{
    for (unsigned i = 0; i < CURSORS; i++) {
        if (r->walkers[i].of == OF_TXN && r->walkers[i].tree == tree)
            close_walker(&r->walkers[i]);
    }
}

void close_lost_walkers(struct run *r)
{
    struct side side = txn_side(r);
    for (unsigned i = 0; i < CURSORS; i++) {
        struct walker *w = &r->walkers[i];
        ps_tree number;
        if (w->cursor && w->of == OF_TXN &&
            (!find_tree(r, &side, w->tree, &number) || number != w->number))
            close_walker(w);
    }
}

static void remember(struct walker *w, struct ps_slice key)
{
    w->len = key.len;
    if (key.len > 0)
        memcpy(w->key, key.data, key.len);
}

static struct side walker_side(struct run *r, const struct walker *w)
{
    if (w->of == OF_TXN)
        return txn_side(r);
    struct held *held = &r->held[w->of];
    return (struct side){ps_snapshot_view(held->snap), {r->oracle, held->lmdb}, "held snapshot"};
}

/* The engine's cursor has answered; LMDB stands where it must stand, or `found` is false. */
static void arrive(struct run *r, struct walker *w, const struct side *side, const char *assertion,
                   int rc, bool found, const struct oracle_cursor *c)
{
    struct ps_slice key = {0}, value = {0};
    if (!same_answer(r, side, assertion, rc, found)) {
        close_walker(w);
        return;
    }
    must(r, ps_cursor_get(w->cursor, &key, &value), "ps_cursor_get");
    same_bytes(r, side, assertion, key, c->key);
    same_bytes(r, side, assertion, value, c->value);
    remember(w, key);
}

/* On a held snapshot if the operation names one, else on the transaction. */
void do_place_cursor(struct run *r)
{
    struct walker *w = &r->walkers[r->op->arg % CURSORS];
    unsigned held = (r->op->view - 8u) % HELD;
    close_walker(w);
    w->of = r->op->view >= 8 && r->held[held].snap ? held : OF_TXN;
    if (w->of == OF_TXN && !r->engine.txn)
        return;
    struct side side = walker_side(r, w);
    struct oracle_cursor c;
    struct ps_slice key = op_key(r->config, r->op, r->key);
    enum ps_seek how = (enum ps_seek)(r->op->value % 5);
    w->tree = r->op->tree;
    if (!find_tree(r, &side, w->tree, &w->number))
        return;
    must(r, ps_cursor_open(side.pando, w->number, &w->cursor), "ps_cursor_open");
    oracle_cursor_open(&c, side.lmdb, w->tree, NULL, NULL);
    bool found = oracle_cursor_seek(&c, key, how);
    arrive(r, w, &side, "placing a cursor", engine_seek(&r->engine, w->cursor, key, how), found,
           &c);
    oracle_cursor_close(&c);
}

/* What it stands on: the entry as it is now, or nothing if that was deleted. */
static void look(struct run *r, struct walker *w, const struct side *side, struct ps_slice at)
{
    struct ps_slice key = {0}, value = {0}, expected;
    bool found = oracle_get(side->lmdb, w->tree, at, &expected);
    if (same_answer(r, side, "lasting cursor: get", ps_cursor_get(w->cursor, &key, &value),
                    found)) {
        same_bytes(r, side, "lasting cursor: key", key, at);
        same_bytes(r, side, "lasting cursor: value", value, expected);
    }
}

void do_move_cursor(struct run *r)
{
    struct walker *w = &r->walkers[r->op->arg % CURSORS];
    if (!w->cursor)
        return;
    struct side side = walker_side(r, w);
    struct ps_slice at = {w->key, w->len};
    struct oracle_cursor c;
    if (r->op->arg / CURSORS % 4 == 0) {
        look(r, w, &side, at);
        return;
    }
    bool forward = r->op->arg / CURSORS % 4 != 1;
    oracle_cursor_open(&c, side.lmdb, w->tree, NULL, NULL);
    for (unsigned steps = r->op->arg / 64u + 1; w->cursor && steps > 0; steps--) {
        at.len = w->len;
        bool found = oracle_cursor_seek(&c, at, forward ? PS_GT : PS_LT);
        int rc = forward ? ps_cursor_next(w->cursor) : engine_prev(&r->engine, w->cursor);
        arrive(r, w, &side, forward ? "lasting cursor: next" : "lasting cursor: prev", rc, found,
               &c);
    }
    oracle_cursor_close(&c);
}
