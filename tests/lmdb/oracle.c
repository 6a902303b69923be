/*
 * oracle.c - LMDB as the store that is right.
 *
 * Nothing is synced: the comparison is about what is answered, and LMDB's files are never opened
 * after a crash. A crash leaves a directory of the test behind, which its parent removes.
 */
#include "tests/lmdb/oracle.h"

#include <lmdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAP_BYTES (UINT64_C(8) << 30) /* address space, not memory */
#define READERS   32

struct oracle {
    MDB_env *env;
    MDB_dbi tree[ORACLE_TREES], catalogue;
    unsigned char zeros[ORACLE_MAX_KEY];
};

static int must(int rc, const char *call)
{
    if (rc != 0) {
        fprintf(stderr, "LMDB: %s: %s\n", call, mdb_strerror(rc));
        abort();
    }
    return rc;
}

/* For calls that may find nothing. */
static bool found(int rc, const char *call)
{
    return rc != MDB_NOTFOUND && must(rc, call) == 0;
}

int key_compare(struct ps_slice a, struct ps_slice b)
{
    size_t n = a.len < b.len ? a.len : b.len;
    int c = n > 0 ? memcmp(a.data, b.data, n) : 0;
    return c != 0 ? c : (a.len > b.len) - (a.len < b.len);
}

static bool all_zero(const unsigned char *bytes, size_t len)
{
    while (len > 0 && bytes[len - 1] == 0)
        len--;
    return len == 0;
}

static MDB_val to_lmdb(struct oracle *o, struct ps_slice key)
{
    if (!all_zero(key.data, key.len))
        return (MDB_val){key.len, (void *)key.data};
    if (key.len >= ORACLE_MAX_KEY) {
        fprintf(stderr, "a key of %zu zero bytes has no place in LMDB\n", key.len);
        abort();
    }
    return (MDB_val){key.len + 1, o->zeros};
}

static struct ps_slice from_lmdb(MDB_val key)
{
    return (struct ps_slice){key.mv_data, key.mv_size - all_zero(key.mv_data, key.mv_size)};
}

struct oracle *oracle_open(const char *dir)
{
    struct oracle *o = calloc(1, sizeof *o);
    MDB_txn *txn;
    if (!o)
        abort();
    must(mdb_env_create(&o->env), "mdb_env_create");
    must(mdb_env_set_mapsize(o->env, MAP_BYTES), "mdb_env_set_mapsize");
    must(mdb_env_set_maxdbs(o->env, ORACLE_TREES + 1), "mdb_env_set_maxdbs");
    must(mdb_env_set_maxreaders(o->env, READERS), "mdb_env_set_maxreaders");
    must(mdb_env_open(o->env, dir, MDB_NOSYNC | MDB_NOTLS, 0600), "mdb_env_open");
    if (mdb_env_get_maxkeysize(o->env) < ORACLE_MAX_KEY)
        must(MDB_BAD_VALSIZE, "mdb_env_get_maxkeysize");
    must(mdb_txn_begin(o->env, NULL, 0, &txn), "mdb_txn_begin");
    must(mdb_dbi_open(txn, "catalogue", MDB_CREATE, &o->catalogue), "mdb_dbi_open");
    for (unsigned i = 0; i < ORACLE_TREES; i++) {
        char name[16];
        snprintf(name, sizeof name, "tree %u", i);
        must(mdb_dbi_open(txn, name, MDB_CREATE, &o->tree[i]), "mdb_dbi_open");
    }
    must(mdb_txn_commit(txn), "mdb_txn_commit");
    return o;
}

void oracle_close(struct oracle *o)
{
    mdb_env_close(o->env);
    free(o);
}

/* ---- transactions --------------------------------------------------------------------------- */

struct MDB_txn *oracle_begin(struct oracle *o, struct MDB_txn *parent)
{
    MDB_txn *txn;
    must(mdb_txn_begin(o->env, parent, 0, &txn), "mdb_txn_begin");
    return txn;
}

struct MDB_txn *oracle_snapshot(struct oracle *o)
{
    MDB_txn *txn;
    must(mdb_txn_begin(o->env, NULL, MDB_RDONLY, &txn), "mdb_txn_begin");
    return txn;
}

void oracle_commit(struct MDB_txn *txn)
{
    must(mdb_txn_commit(txn), "mdb_txn_commit");
}

void oracle_abort(struct MDB_txn *txn)
{
    mdb_txn_abort(txn);
}

/* ---- trees ---------------------------------------------------------------------------------- */

bool oracle_tree_find(struct oracle_view v, unsigned tree, ps_tree *number)
{
    MDB_val key = {sizeof tree, &tree}, value;
    if (!found(mdb_get(v.txn, v.oracle->catalogue, &key, &value), "mdb_get"))
        return false;
    memcpy(number, value.mv_data, sizeof *number);
    return true;
}

void oracle_tree_make(struct oracle_view v, unsigned tree, ps_tree number)
{
    MDB_val key = {sizeof tree, &tree}, value = {sizeof number, &number};
    must(mdb_put(v.txn, v.oracle->catalogue, &key, &value, 0), "mdb_put");
}

void oracle_tree_drop(struct oracle_view v, unsigned tree)
{
    MDB_val key = {sizeof tree, &tree};
    must(mdb_del(v.txn, v.oracle->catalogue, &key, NULL), "mdb_del");
    oracle_clear(v, tree);
}

void oracle_clear(struct oracle_view v, unsigned tree)
{
    must(mdb_drop(v.txn, v.oracle->tree[tree], 0), "mdb_drop");
}

/* ---- entries -------------------------------------------------------------------------------- */

bool oracle_get(struct oracle_view v, unsigned tree, struct ps_slice key, struct ps_slice *value)
{
    MDB_val k = to_lmdb(v.oracle, key), got;
    if (!found(mdb_get(v.txn, v.oracle->tree[tree], &k, &got), "mdb_get"))
        return false;
    *value = (struct ps_slice){got.mv_data, got.mv_size};
    return true;
}

void oracle_put(struct oracle_view v, unsigned tree, struct ps_slice key, struct ps_slice value)
{
    MDB_val k = to_lmdb(v.oracle, key), data = {value.len, (void *)value.data};
    must(mdb_put(v.txn, v.oracle->tree[tree], &k, &data, 0), "mdb_put");
}

bool oracle_delete(struct oracle_view v, unsigned tree, struct ps_slice key)
{
    MDB_val k = to_lmdb(v.oracle, key);
    return found(mdb_del(v.txn, v.oracle->tree[tree], &k, NULL), "mdb_del");
}

uint64_t oracle_count(struct oracle_view v, unsigned tree)
{
    MDB_stat stat;
    must(mdb_stat(v.txn, v.oracle->tree[tree], &stat), "mdb_stat");
    return stat.ms_entries;
}

uint64_t oracle_rank(struct oracle_view v, unsigned tree, struct ps_slice key)
{
    struct oracle_cursor c;
    uint64_t rank = 0;
    oracle_cursor_open(&c, v, tree, NULL, &key);
    for (bool more = oracle_cursor_first(&c); more; more = oracle_cursor_step(&c, true))
        rank++;
    oracle_cursor_close(&c);
    return rank;
}

/* ---- cursors -------------------------------------------------------------------------------- */

void oracle_cursor_open(struct oracle_cursor *c, struct oracle_view v, unsigned tree,
                        const struct ps_slice *low, const struct ps_slice *high)
{
    *c = (struct oracle_cursor){.oracle = v.oracle, .low = low, .high = high};
    must(mdb_cursor_open(v.txn, v.oracle->tree[tree], &c->mdb), "mdb_cursor_open");
}

void oracle_cursor_close(struct oracle_cursor *c)
{
    mdb_cursor_close(c->mdb);
}

static bool move(struct oracle_cursor *c, MDB_cursor_op op)
{
    MDB_val key, value;
    if (!found(mdb_cursor_get(c->mdb, &key, &value, op), "mdb_cursor_get"))
        return false;
    c->key = from_lmdb(key);
    c->value = (struct ps_slice){value.mv_data, value.mv_size};
    return true;
}

static bool to_key(struct oracle_cursor *c, struct ps_slice wanted)
{
    MDB_val key = to_lmdb(c->oracle, wanted), value;
    if (!found(mdb_cursor_get(c->mdb, &key, &value, MDB_SET_RANGE), "mdb_cursor_get"))
        return false;
    c->key = from_lmdb(key);
    c->value = (struct ps_slice){value.mv_data, value.mv_size};
    return true;
}

static bool within(const struct oracle_cursor *c)
{
    return (!c->low || key_compare(c->key, *c->low) >= 0) &&
           (!c->high || key_compare(c->key, *c->high) < 0);
}

static bool seek_up(struct oracle_cursor *c, struct ps_slice key, bool or_equal)
{
    if (!to_key(c, key))
        return false;
    return or_equal || key_compare(c->key, key) != 0 || move(c, MDB_NEXT);
}

static bool seek_down(struct oracle_cursor *c, struct ps_slice key, bool or_equal)
{
    if (!to_key(c, key))
        return move(c, MDB_LAST);
    return (or_equal && key_compare(c->key, key) == 0) || move(c, MDB_PREV);
}

bool oracle_cursor_first(struct oracle_cursor *c)
{
    return (c->low ? seek_up(c, *c->low, true) : move(c, MDB_FIRST)) && within(c);
}

bool oracle_cursor_last(struct oracle_cursor *c)
{
    return (c->high ? seek_down(c, *c->high, false) : move(c, MDB_LAST)) && within(c);
}

bool oracle_cursor_seek(struct oracle_cursor *c, struct ps_slice key, enum ps_seek how)
{
    switch (how) {
    case PS_GE:
    case PS_GT:
        if (c->low && key_compare(key, *c->low) < 0)
            return oracle_cursor_first(c);
        return seek_up(c, key, how == PS_GE) && within(c);
    case PS_LE:
    case PS_LT:
        if (c->high && key_compare(key, *c->high) >= 0)
            return oracle_cursor_last(c);
        return seek_down(c, key, how == PS_LE) && within(c);
    default:
        return to_key(c, key) && key_compare(c->key, key) == 0 && within(c);
    }
}

bool oracle_cursor_step(struct oracle_cursor *c, bool forward)
{
    return move(c, forward ? MDB_NEXT : MDB_PREV) && within(c);
}
