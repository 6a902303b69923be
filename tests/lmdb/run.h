/*
 * run.h - one stream on both stores.
 *
 * Invariants:
 *  1. Both stores have done the same operations before each; every answer of one is compared with
 *     the other's. The first difference ends the run: differ() names the assertion, says both
 *     sides, and does not return.
 *  2. Where the engine may refuse (PS_BUSY: commit first; PS_TXNFULL: too large for so little
 *     memory), LMDB does what the caller is told to do. pandostore.h says when it may.
 *  3. A snapshot that is held keeps dirty memory only while there is plenty: this thread is the
 *     writer as well, and could not answer while it waits.
 *
 * Threads: one, and those of the engine.
 */
#ifndef PANDO_TESTS_LMDB_RUN_H
#define PANDO_TESTS_LMDB_RUN_H

#include "tests/lmdb/engine.h"
#include "tests/lmdb/stream.h"
#include "tests/lmdb/totals.h"
#include "tests/support/store_dir.h"

#define HELD          6 /* snapshots at once */
#define CURSORS       4 /* cursors that stay open over operations */
#define SAVEPOINTS    8
#define REPORT_TEXT   1500
#define ASSERTION_LEN 64

/* What a run has come to, in memory that its parent sees. */
struct report {
    uint64_t operations; /* done */
    bool done;           /* all of them, and everything was equal */
    char assertion[ASSERTION_LEN];
    char text[REPORT_TEXT];
    struct totals totals;
};

/* A state in both stores. */
struct side {
    struct ps_view *pando;
    struct oracle_view lmdb;
    const char *name;
};

struct held {
    struct ps_snapshot *snap; /* NULL: none */
    struct MDB_txn *lmdb;
    uint64_t seq;
    bool in_file; /* keeps no dirty memory */
};

#define OF_TXN HELD /* in place of the number of a held snapshot */

struct walker {
    struct ps_cursor *cursor; /* NULL: none */
    unsigned of;              /* a held snapshot, or OF_TXN */
    unsigned tree;
    ps_tree number;
    size_t len;
    unsigned char key[ORACLE_MAX_KEY]; /* where it stands */
};

struct run {
    const struct config *config;
    const struct op *op; /* being done */
    struct report *report;
    struct engine engine;
    struct oracle *oracle;
    char pando_dir[STORE_DIR_PATH], lmdb_dir[STORE_DIR_PATH];
    unsigned arena;
    uint64_t last_seq; /* of the last commit that changed something */

    struct MDB_txn *txn[SAVEPOINTS + 1]; /* LMDB's side of engine.txn and of its savepoints */
    unsigned savepoints;
    bool whole;

    struct held held[HELD];
    struct walker walkers[CURSORS];
    struct ps_snapshot *fresh;
    struct MDB_txn *fresh_lmdb;

    unsigned char key[ORACLE_MAX_KEY], other[ORACLE_MAX_KEY], value[MAX_VALUE];
};

struct run_options {
    const char *base; /* a directory: the stores are made below it */
    enum fault fault;
    struct report *report; /* NULL: a difference is printed and aborts; else the process exits */
    bool verbose;          /* say each operation first */
};
void run_stream(const struct stream *stream, const struct run_options *options);

/* ---- run.c */
void differ(struct run *r, const char *assertion, const char *format, ...)
    __attribute__((noreturn, format(printf, 3, 4)));
/* A call that must have answered 0. */
void must(struct run *r, int rc, const char *call);
/* Both found, or neither did. */
bool same_answer(struct run *r, const struct side *side, const char *assertion, int rc, bool found);
void same_bytes(struct run *r, const struct side *side, const char *assertion,
                struct ps_slice pando, struct ps_slice lmdb);
bool slices_equal(struct ps_slice a, struct ps_slice b);
/* The state that the operation reads: the transaction's, a held one, or the newest. */
struct side take_side(struct run *r);
void leave_side(struct run *r);
/* Whether there is such a tree, and its number: compared. */
bool find_tree(struct run *r, const struct side *side, unsigned tree, ps_tree *number);

/* ---- reads.c */
void do_get(struct run *r);
void do_get_part(struct run *r);
void do_get_many(struct run *r);
void do_touch(struct run *r);
void do_count(struct run *r);

/* ---- cursors.c */
void do_walk(struct run *r);
void do_range(struct run *r);
void do_select(struct run *r);
void do_scan(struct run *r);
void do_scan_all(struct run *r);
/* Everything there is, both ways, with counts and ranks. */
void compare_all(struct run *r, const struct side *side);

/* ---- walkers.c */
void do_place_cursor(struct run *r);
void do_move_cursor(struct run *r);
void close_walkers(struct run *r, unsigned of);
void close_walkers_of_tree(struct run *r, unsigned tree);
/* After rolling back: those whose tree is not there any more, or is another one. */
void close_lost_walkers(struct run *r);

/* ---- writes.c */
struct side txn_side(struct run *r);
void do_put(struct run *r);
void do_put_run(struct run *r);
void do_put_read(struct run *r);
void do_delete(struct run *r);
void do_delete_run(struct run *r);
void do_delete_range(struct run *r);
void do_clear(struct run *r);
void do_make_tree(struct run *r);
void do_drop_tree(struct run *r);

/* ---- txns.c */
enum mode { MODE_PLAIN, MODE_WHOLE, MODE_RESERVED };
/* Begins a transaction if none is open. */
void begin(struct run *r, enum mode mode);
void begin_for_change(struct run *r);
void commit(struct run *r, bool wait);
void settle(struct run *r); /* commits what is open */
/* What to do about a call that did not answer 0: true: there is a new transaction, try again;
 * false: it was too large. */
bool make_way(struct run *r, int rc, const char *call, uint64_t bytes);
void do_begin(struct run *r);
void do_commit(struct run *r);
void do_abort(struct run *r);
void do_savepoint(struct run *r);
void do_release(struct run *r);
void do_roll_back(struct run *r);

/* ---- states.c */
void open_stores(struct run *r);
void close_stores(struct run *r, bool checkpoint);
void ensure_published(struct run *r);
/* Moves held snapshots out of dirty memory: all of them, or if it runs low. */
void relieve(struct run *r, bool all);
void release_all(struct run *r);
void do_hold(struct run *r);
void do_let_go(struct run *r);
void do_move_snapshot(struct run *r);
void do_checkpoint(struct run *r);
void do_check(struct run *r);
void do_reopen(struct run *r);

#endif
