/*
 * cursors.c - walks, ranges and scans with a cursor in each store, side by side.
 */
#include "tests/lmdb/run.h"

#define RANK_EVERY 61 /* in a scan, the rank of one entry in so many is asked for */

/* The two cursors of an operation. */
struct pair {
    const struct side *side;
    unsigned tree;
    ps_tree number;
    struct ps_cursor *pando;
    struct oracle_cursor lmdb;
};

static void open_pair(struct run *r, struct pair *p, const struct ps_slice *low,
                      const struct ps_slice *high)
{
    must(r, ps_cursor_open(p->side->pando, p->number, &p->pando), "ps_cursor_open");
    if (low || high)
        must(r, engine_bounds(&r->engine, p->pando, low, high), "ps_cursor_bounds");
    oracle_cursor_open(&p->lmdb, p->side->lmdb, p->tree, low, high);
}

static void close_pair(struct pair *p)
{
    ps_cursor_close(p->pando);
    oracle_cursor_close(&p->lmdb);
}

/* Both have moved: they stand on the same entry, or on none. */
static bool same_place(struct run *r, struct pair *p, const char *assertion, int rc, bool found)
{
    struct ps_slice key = {0}, value = {0};
    if (rc == 0 && !found) {
        must(r, ps_cursor_get(p->pando, &key, NULL), "ps_cursor_get");
        differ(r, assertion, "%s: stands on %s, LMDB found nothing", p->side->name, show(key));
    }
    if (rc != (found ? 0 : PS_NOTFOUND))
        differ(r, assertion, "%s: answered %d (%s), LMDB stands on %s", p->side->name, rc,
               ps_strerror(rc), show(p->lmdb.key));
    if (!found)
        return false;
    must(r, ps_cursor_get(p->pando, &key, &value), "ps_cursor_get");
    same_bytes(r, p->side, assertion, key, p->lmdb.key);
    same_bytes(r, p->side, assertion, value, p->lmdb.value);
    return true;
}

static bool step(struct run *r, struct pair *p, bool forward)
{
    int rc = forward ? ps_cursor_next(p->pando) : engine_prev(&r->engine, p->pando);
    bool found = oracle_cursor_step(&p->lmdb, forward);
    return same_place(r, p, forward ? "next" : "prev", rc, found);
}

/* Off an end it stays off, whichever way. */
static void stays_off(struct run *r, struct pair *p)
{
    int next = ps_cursor_next(p->pando), prev = ps_cursor_prev(p->pando);
    if (next != PS_NOTFOUND || prev != PS_NOTFOUND)
        differ(r, "off an end", "%s: next answered %d, prev %d", p->side->name, next, prev);
}

static bool seek(struct run *r, struct pair *p, struct ps_slice key, unsigned how)
{
    static const char *const names[] = {"seek >=", "seek >", "seek <=", "seek <", "seek =="};
    int rc = engine_seek(&r->engine, p->pando, key, (enum ps_seek)how);
    return same_place(r, p, names[how], rc, oracle_cursor_seek(&p->lmdb, key, (enum ps_seek)how));
}

static bool go_first(struct run *r, struct pair *p)
{
    return same_place(r, p, "first", ps_cursor_first(p->pando), oracle_cursor_first(&p->lmdb));
}

static bool go_last(struct run *r, struct pair *p)
{
    return same_place(r, p, "last", ps_cursor_last(p->pando), oracle_cursor_last(&p->lmdb));
}

/* The operation's tree as a pair of cursors; false: there is no such tree. */
static bool take_pair(struct run *r, struct pair *p, const struct side *side,
                      const struct ps_slice *low, const struct ps_slice *high)
{
    *p = (struct pair){.side = side, .tree = r->op->tree};
    if (!find_tree(r, side, r->op->tree, &p->number))
        return false;
    open_pair(r, p, low, high);
    return true;
}

/* A seek, and steps from there; bits of the operation's value say which way each goes. */
void do_walk(struct run *r)
{
    struct side side = take_side(r);
    struct ps_slice key = op_key(r->config, r->op, r->key);
    struct pair p;
    if (take_pair(r, &p, &side, NULL, NULL)) {
        unsigned how = r->op->arg % 7, steps = r->op->arg / 7 % 20, turns = r->op->value;
        bool on = how == 5 ? go_first(r, &p) : how == 6 ? go_last(r, &p) : seek(r, &p, key, how);
        if (turns % 4 == 0)
            turns = 0xffff; /* all one way */
        for (; on && steps > 0; steps--, turns = turns >> 1 | turns << 15)
            on = step(r, &p, (turns & 1u) != 0);
        if (!on)
            stays_off(r, &p);
        close_pair(&p);
    }
    leave_side(r);
}

/* Within two bounds, either of which may be open, from one end to the other, or from a key. */
void do_range(struct run *r)
{
    struct side side = take_side(r);
    struct ps_slice low = op_key(r->config, r->op, r->key);
    struct ps_slice high = op_other(r->config, r->op, r->other);
    unsigned open = r->op->arg % 8;
    if (key_compare(low, high) > 0 && r->op->value % 16 != 0) {
        struct ps_slice swap = low;
        low = high;
        high = swap;
    }
    struct pair p;
    if (take_pair(r, &p, &side, open == 1 ? NULL : &low, open == 2 ? NULL : &high)) {
        bool forward = (r->op->arg & 8u) != 0;
        unsigned limit = r->op->arg & 16u ? 10000 : r->op->value % 40u;
        bool on = forward ? go_first(r, &p) : go_last(r, &p);
        if (r->op->arg & 32u) {
            unsigned char buffer[ORACLE_MAX_KEY];
            struct ps_slice from =
                stream_key(r->config, r->op->tree, r->op->value, r->op->twist + 5u, buffer);
            on = seek(r, &p, from, r->op->value % 5u);
        }
        for (; on && limit > 0; limit--)
            on = step(r, &p, forward);
        if (!on)
            stays_off(r, &p);
        close_pair(&p);
    }
    leave_side(r);
}

/* The entry of a number that LMDB counts to. */
void do_select(struct run *r)
{
    struct side side = take_side(r);
    struct pair p;
    if (take_pair(r, &p, &side, NULL, NULL)) {
        uint64_t rank = r->op->key % (oracle_count(side.lmdb, r->op->tree) + 2);
        bool found = oracle_cursor_first(&p.lmdb);
        for (uint64_t i = 0; found && i < rank; i++)
            found = oracle_cursor_step(&p.lmdb, true);
        int rc = engine_select(&r->engine, p.pando, rank);
        if (same_place(r, &p, "select", rc, found) && step(r, &p, true) && step(r, &p, false))
            (void)step(r, &p, false);
        close_pair(&p);
    }
    leave_side(r);
}

/* ---- everything ----------------------------------------------------------------------------- */

static void check_rank(struct run *r, const struct pair *p, uint64_t expected)
{
    uint64_t rank = 0;
    must(r, engine_rank(&r->engine, p->side->pando, p->number, p->lmdb.key, &rank), "ps_rank");
    if (rank != expected)
        differ(r, "scan: rank", "%s: the rank of %s is %llu, in LMDB %llu", p->side->name,
               show(p->lmdb.key), (unsigned long long)rank, (unsigned long long)expected);
}

static void compare_tree(struct run *r, const struct side *side, unsigned tree)
{
    struct pair p = {.side = side, .tree = tree};
    if (!find_tree(r, side, tree, &p.number))
        return;
    uint64_t expected = oracle_count(side->lmdb, tree), count = 0, seen = 0;
    must(r, engine_count(&r->engine, side->pando, p.number, &count), "ps_count");
    open_pair(r, &p, NULL, NULL);
    for (bool on = go_first(r, &p); on; on = step(r, &p, true)) {
        if (seen % RANK_EVERY == RANK_EVERY / 2)
            check_rank(r, &p, seen);
        seen++;
    }
    for (bool on = go_last(r, &p); on; on = step(r, &p, false))
        seen--;
    close_pair(&p);
    if (seen != 0 || count != expected)
        differ(r, "scan: count", "%s: tree %u has %llu entries, in LMDB %llu", side->name, tree,
               (unsigned long long)count, (unsigned long long)expected);
}

void compare_all(struct run *r, const struct side *side)
{
    for (unsigned tree = 0; tree < ORACLE_TREES; tree++)
        compare_tree(r, side, tree);
    if (r->report)
        r->report->totals.full_scans++;
}

void do_scan(struct run *r)
{
    struct side side = take_side(r);
    compare_tree(r, &side, r->op->tree);
    leave_side(r);
}

void do_scan_all(struct run *r)
{
    struct side side = take_side(r);
    compare_all(r, &side);
    leave_side(r);
}
