/*
 * rebuild.h - the entries of one node, or of two siblings, with a new one among them, laid out
 * again over one to three nodes. Splitting is one node over two, sharing two over two, merging two
 * over one; rebuilding in place is one over one. tree_balance.c decides which.
 *
 * Use: fill in txn, root, level, sources, new_entry (and parent, parent_index, separator); gather;
 * choose the parts; run.
 */
#ifndef PANDO_STORAGE_REBUILD_H
#define PANDO_STORAGE_REBUILD_H

#include "storage/tree.h"

#define MAX_PARTS 3u
#define NEW_ITEM  1u /* override: the entry being put */
#define SEPARATOR 2u /* override: the second source's first child, with its key from the parent */

/* One entry on its way from a source to a part. */
struct item {
    const struct page *page;
    uint16_t index;
    uint8_t override;
    bool key_in_run;
    uint32_t key_len;
    uint32_t fixed; /* bytes of cell besides an inline key, and 6 of index */
};

struct rebuild {
    struct ps_txn *txn;
    struct tree_root *root;
    unsigned level;
    struct item *items;
    unsigned n;
    struct node_entry new_entry, separator;
    struct page *source[2];
    unsigned nsources;
    struct page *parent; /* NULL: the node is the root */
    unsigned parent_index;
    unsigned bounds[MAX_PARTS + 1]; /* part k: items [bounds[k], bounds[k + 1]) */
    unsigned nparts;
};

/* Lists the entries, with new_entry at new_at if with_new. */
int rebuild_gather(struct rebuild *r, unsigned new_at, bool with_new);
/* The prefix with which items [from, to) take the least room, and that room. */
int rebuild_measure(struct rebuild *r, unsigned from, unsigned to, uint32_t *prefix,
                    uint32_t *size);
/* Where both halves are about equal in bytes, and whether two parts cut at an item would fit. */
unsigned rebuild_middle(const struct rebuild *r);
int rebuild_two_fit(struct rebuild *r, unsigned at, bool *yes);
/* *yes stays if cutting there needs no separator in a run of the file. */
int rebuild_may_cut(struct rebuild *r, unsigned at, bool *yes);
/* Parts cut before items a and b (where that leaves none empty). */
void rebuild_set_parts(struct rebuild *r, unsigned a, unsigned b);
/* Lays out part k in scratch page k. */
int rebuild_part(struct rebuild *r, unsigned k, struct child *child);
/* Carries the plan out. `source` are the children of the sources as their parent knows them. */
int rebuild_run(struct rebuild *r, struct path *path, const struct child source[2]);
/* Recomputes what the ancestors say of the path's nodes from a level upwards. */
void recount(struct tree_root *root, const struct path *path, unsigned level);

#endif
