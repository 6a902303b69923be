/*
 * oracle.h - what LMDB says: the other store, behind the few calls that the comparison needs.
 *
 * Invariants:
 *  1. Keys are those of the engine. LMDB refuses the empty key, so a key of n zero bytes is stored
 *     as n + 1 of them: keys of zero bytes alone come before all others, so the order stays, and no
 *     two keys become the same. Only 511 zero bytes have no place left: LMDB's limit is 511, and
 *     there is one string less of 1 to 511 bytes than of 0 to 511.
 *  2. LMDB closes the handle of a database that is dropped, also for snapshots that still see it.
 *     So a tree is a database that is there from the beginning, and a row in another one that says
 *     whether it exists, and which number the engine gave it. Both are part of LMDB's transactions.
 *  3. An answer of LMDB that is not foreseen ends the program: there is nothing to compare with.
 *
 * Memory: as LMDB has it: what was read is valid until the transaction ends or changes something.
 * Threads: one.
 */
#ifndef PANDO_TESTS_LMDB_ORACLE_H
#define PANDO_TESTS_LMDB_ORACLE_H

#include "storage/pandostore.h"

#define ORACLE_TREES   6
#define ORACLE_MAX_KEY 511

struct oracle;
struct MDB_txn; /* LMDB's: a write transaction, one nested in another, or a snapshot */

struct oracle *oracle_open(const char *dir);
void oracle_close(struct oracle *o);

/* `parent`: the transaction that it is nested in, or NULL. */
struct MDB_txn *oracle_begin(struct oracle *o, struct MDB_txn *parent);
struct MDB_txn *oracle_snapshot(struct oracle *o);
void oracle_commit(struct MDB_txn *txn);
void oracle_abort(struct MDB_txn *txn); /* also ends a snapshot */

/* What a read is made on. */
struct oracle_view {
    struct oracle *oracle;
    struct MDB_txn *txn;
};

bool oracle_tree_find(struct oracle_view v, unsigned tree, ps_tree *number);
void oracle_tree_make(struct oracle_view v, unsigned tree, ps_tree number);
void oracle_tree_drop(struct oracle_view v, unsigned tree);

bool oracle_get(struct oracle_view v, unsigned tree, struct ps_slice key, struct ps_slice *value);
void oracle_put(struct oracle_view v, unsigned tree, struct ps_slice key, struct ps_slice value);
bool oracle_delete(struct oracle_view v, unsigned tree, struct ps_slice key);
void oracle_clear(struct oracle_view v, unsigned tree);
uint64_t oracle_count(struct oracle_view v, unsigned tree);
/* Keys less than `key`: counted one by one. */
uint64_t oracle_rank(struct oracle_view v, unsigned tree, struct ps_slice key);

/* A cursor that sees the keys low <= key < high. The slices are the caller's and must live as long.
 * Every move says whether there is an entry; key and value are then its. */
struct oracle_cursor {
    struct oracle *oracle;
    struct MDB_cursor *mdb;
    const struct ps_slice *low, *high; /* NULL: open */
    struct ps_slice key, value;
};
void oracle_cursor_open(struct oracle_cursor *c, struct oracle_view v, unsigned tree,
                        const struct ps_slice *low, const struct ps_slice *high);
void oracle_cursor_close(struct oracle_cursor *c);
bool oracle_cursor_first(struct oracle_cursor *c);
bool oracle_cursor_last(struct oracle_cursor *c);
bool oracle_cursor_seek(struct oracle_cursor *c, struct ps_slice key, enum ps_seek how);
/* From the entry it stands on. */
bool oracle_cursor_step(struct oracle_cursor *c, bool forward);

/* <0, 0, >0: unsigned bytes, a prefix before its extensions. */
int key_compare(struct ps_slice a, struct ps_slice b);

#endif
