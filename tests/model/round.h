/*
 * round.h - one round of the model test: a store, what it must contain, and what is open.
 *
 * A round is a function of (seed, number, length): its configuration, its operations and their
 * arguments come from one generator. What other threads of the engine do meanwhile does not.
 *
 * Every function that finds a difference calls round_fail(), which prints both sides and how to
 * see it again, and ends the process.
 *
 * Threads: one, but for round_published() (the engine's callback) and crashfs.
 */
#ifndef PANDO_TESTS_MODEL_ROUND_H
#define PANDO_TESTS_MODEL_ROUND_H

#include "storage/pandostore.h"
#include "tests/model/crashfs.h"
#include "tests/model/keys.h"
#include "tests/model/map.h"
#include "tests/model/rng.h"
#include "tests/model/totals.h"

#include <pthread.h>

#define HISTORY 256 /* committed states remembered: published ones until they survive a crash */
#define HELD    4   /* snapshots held over many commits */

struct config {
    uint32_t page_size;
    uint64_t slots; /* dirty memory, in slots of 4 KiB */
    enum ps_durability level;
    bool manual_checkpoint;
    unsigned trees; /* used in this round */
    uint64_t segment;
    unsigned commit_every; /* changes in a transaction, on average */
    size_t target;         /* entries in a tree, about */
    uint64_t rare;         /* one in so many values is large */
    unsigned whole;        /* one in so many transactions cannot be committed halfway */
    bool bulk;             /* there are bulk changes */
    bool log_failures;
};

struct past {
    uint64_t seq;
    struct map map;
};

struct held {
    struct ps_snapshot *snap; /* NULL: none */
    struct map map;
    uint64_t seq, until;    /* operation number */
    bool in_file;           /* pinned to a checkpoint, or moved: it holds no slots */
    struct ps_cursor *scan; /* walks one of its trees meanwhile, from end to end; NULL: none */
    int tree;
    size_t at; /* the entry it stands on */
};

struct walker { /* a cursor of the transaction that stays open while the transaction changes */
    struct ps_cursor *cursor; /* NULL: none */
    int tree;
    size_t key_len;
    unsigned char key[MODEL_MAX_KEY]; /* where it stands */
};

struct round {
    uint64_t seed, number, length;
    bool verbose;
    struct progress *progress;
    struct config config;
    struct rng rng;
    struct keygen keys[MAP_TREES];

    struct crashfs *fs;
    char base[STORE_DIR_PATH - 32];
    char dir[STORE_DIR_PATH];
    unsigned dirs;      /* directories made so far: each crash goes on in a new one */
    uint64_t armed_low; /* a crash copy is armed: what must survive it */
    bool armed, armed_power;

    struct ps_store *store;
    uint64_t last_seq;    /* of the last commit started */
    struct map committed; /* its state */
    struct past history[HISTORY];
    size_t past; /* states in it, ascending, the last being `committed` */
    struct held held[HELD];
    struct ps_snapshot *fresh;
    struct ps_residency *residency;

    struct ps_txn *txn; /* NULL: none open */
    struct map now;     /* what the transaction sees */
    bool whole;         /* the transaction was said to be */
    struct map savepoint[PS_MAX_SAVEPOINTS];
    unsigned savepoints;
    struct walker walker;
    uint64_t reserved_ops, reserved_bytes; /* promised by ps_reserve() and not used yet */

    pthread_mutex_t mutex; /* the callback's */
    pthread_cond_t changed;
    uint64_t told_published;
    bool told_failure, told_backwards;

    unsigned char merged[2 * MODEL_MAX_VALUE];
    unsigned char key[MODEL_MAX_KEY], low[MODEL_MAX_KEY], high[MODEL_MAX_KEY],
        value[MODEL_MAX_VALUE + 8];
};

/* What a read is made on, and what it must find. */
struct side {
    struct ps_view *view;
    const struct map *map;
    const char *name;
};

/* ---- round.c */
void round_run(struct round *r);
void round_fail(struct round *r, const char *format, ...)
    __attribute__((noreturn, format(printf, 2, 3)));
/* A call that must have worked. */
void round_must(struct round *r, int rc, const char *call);
/* Path of the round's store number `number`: each crash goes on in the next one. */
void name_dir(const struct round *r, char path[STORE_DIR_PATH], unsigned number);
/* A tree that exists in this map, or -1. */
int pick_tree(struct round *r, const struct map *map);
/* A key in `buffer`: usually one of the tree's, else a new one, or a close neighbour. */
struct ps_slice pick_key(struct round *r, const struct map *map, int tree, unsigned char *buffer);
/* How a slice is shown in messages; one of a few static buffers. */
const char *show(struct ps_slice s);
struct ps_slice tree_name(int tree);

/* ---- reads.c */
void read_something(struct round *r, const struct side *side);
/* Places the cursor of a held snapshot; walks it on; and checks where it stands. */
void scan_begin(struct round *r, struct held *held);
void scan_on(struct round *r, struct held *held);
void scan_check(struct round *r, struct held *held);
/* Every entry of every tree, both ways, counts, and some ranks. */
void compare_all(struct round *r, const struct side *side);

/* ---- writes.c */
void begin_transaction(struct round *r);
/* Commits or aborts what is open. */
void end_transaction(struct round *r, bool abort);
void op_change(struct round *r);
void op_clear(struct round *r);
void op_trees(struct round *r);
void make_trees(struct round *r); /* all of the round's that are missing */
void change_put(struct round *r, int tree, struct ps_slice key, struct ps_slice value);
void change_delete(struct round *r, int tree, struct ps_slice key);
/* What to do about an answer of PS_BUSY or PS_TXNFULL: true to try again, in a new transaction. */
bool make_way(struct round *r, int rc, const char *call, uint64_t bytes);
/* A change took so much of what was reserved. */
void use_reservation(struct round *r, uint64_t bytes);
void op_savepoint(struct round *r);
void op_reserve(struct round *r);
void op_walker(struct round *r);
void close_walker(struct round *r);

/* What to do about an answer of PS_BUSY or PS_TXNFULL: true to try again, in a new transaction. */
bool make_way(struct round *r, int rc, const char *call, uint64_t bytes);

/* ---- ranges.c */
void op_delete_range(struct round *r);
void read_split(struct round *r, const struct side *side, int tree);

/* ---- bulk.c */
void op_bulk(struct round *r);
void op_refill(struct round *r);
void op_shrink(struct round *r);
/* Lets a write to the log fail while a large transaction runs, which is then lost. */
void lose_transaction(struct round *r);

/* ---- values.c */
void op_options(struct round *r);
void op_merge(struct round *r);
void compare_options(struct round *r, const struct side *side, int tree);

/* ---- states.c */
void history_push(struct round *r, uint64_t seq, const struct map *map);
const struct map *history_find(struct round *r, uint64_t seq);
void history_cut(struct round *r, uint64_t seq); /* forgets what came after seq */
/* Sequence of the oldest state that a crash now may go back to. */
uint64_t must_survive(struct round *r);
void op_hold(struct round *r);
void release_held(struct round *r, bool all);
void release_slots(struct round *r);

/* ---- store.c */
void open_store(struct round *r, uint64_t low, uint64_t high, bool exact_replay);
void close_store(struct round *r, bool checkpoint);
void round_published(void *arg, uint64_t seq, int rc);
void wait_published(struct round *r);
void check_structure(struct round *r);
void op_checkpoint(struct round *r);
void op_reopen(struct round *r);
void op_crash(struct round *r);
void op_log_failure(struct round *r);
void op_durability(struct round *r);
/* Takes back an order for a crash, and what has come of it. */
void disarm(struct round *r);
/* An armed crash copy has been made: goes on with it. */
void follow_crash(struct round *r);

#endif
