/*
 * salvage.h - what the files salvage*.c share: the store that is read, the one that is written.
 *
 *  V1 Nothing of the old store is believed but pages whose checksum and number are right.
 *  V2 What a page of the old store says counts once: a page that was read is marked.
 *  V3 What is in the new store already, from a newer page or by the right way, is not overwritten
 * by what was found by searching.
 *
 * Threads: one. A crash leaves the old store as it was, and part of a new one.
 */
#ifndef PANDO_STORAGE_SALVAGE_H
#define PANDO_STORAGE_SALVAGE_H

#include "storage/inspect.h"
#include "storage/node.h"
#include "storage/store.h"

/* Marks of a page of the old file. */
enum {
    MARK_NODE = 1,  /* a leaf or branch, whole */
    MARK_TAKEN = 2, /* read, or part of a run that was */
    MARK_FREE = 4,  /* the space map says so */
    MARK_CHILD = 8, /* some whole branch names it */
};

/* Where a subtree could not be read. */
struct hole {
    size_t tree;        /* in salvage.trees */
    struct child child; /* as its parent has it */
    unsigned level;     /* of the lost page */
    bool has_low, has_high;
    byte_vec low, high; /* keys in it are >= low and < high */
    uint64_t found;     /* entries that were found by searching */
};

struct old_tree {
    char *name;
    uint8_t name_len;
    ps_tree old, made;
    bool known;   /* it has a number in the old store: the log names it by that */
    bool dropped; /* as the log says: to be removed in the end */
};

struct salvage {
    struct ps_store *from, *to;
    const struct ps_watch *watch;
    struct ps_salvage_report *report;
    struct ps_fault *fault;
    uint64_t pages, reserved;
    uint8_t *marks; /* a page each */
    uint8_t *keybuf[TREE_MAX_LEVELS][2];
    struct meta meta;
    bool has_meta;
    struct state *state;        /* of the catalogue that was found; or NULL */
    bool exact;                 /* it is the newest meta's */
    uint16_t *owners;           /* if not: the tree of the catalogue a page is part of, + 1 */
    bool renewed[PS_MAX_TREES]; /* a newer version of that tree was found */
    size_t nameless;            /* trees that have got a name */
    VEC(struct old_tree) trees;
    VEC(struct hole) holes;
    size_t lost_and_found; /* tree for what fits nowhere, + 1; 0: not made */
    struct ps_txn *txn;
    uint64_t txn_ops, txn_bytes;
    struct decoded decoded;
};

/* A finding about a place of the old file (page 0: about none). */
void salvage_finding(struct salvage *s, page_ref page, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Bytes of a key as text for a finding: shortened, what cannot be printed as \xx. */
const char *salvage_key(struct ps_slice key, char out[80]);

/* salvage_scan.c: what the old file holds. */
int salvage_page_size(const char *dir, struct ps_meta metas[2], int newest, uint32_t *page_size,
                      struct ps_fault *fault);
int salvage_scan(struct salvage *s);
/* The newest catalogue that can be read: s->state. */
int salvage_catalogue(struct salvage *s);

/* salvage.c: the new store. */
int salvage_tree(struct salvage *s, struct ps_slice name, size_t *tree);
/* One that the catalogue has, with its options. */
int salvage_known_tree(struct salvage *s, const struct tree_root *t, size_t *tree);
int salvage_put(struct salvage *s, size_t tree, struct ps_slice key, struct ps_slice value,
                bool if_absent);
/* Commits once enough has been gathered; `now`: in any case. */
int salvage_commit(struct salvage *s, bool now);

/* salvage_trees.c */
int salvage_trees(struct salvage *s);
int salvage_orphans(struct salvage *s);

/* salvage_log.c */
int salvage_log(struct salvage *s, const char *dir);

#endif
