/*
 * tree.h - what the parts of the tree code share (tree.c, tree_balance.c, tree_range.c).
 */
#ifndef PANDO_STORAGE_TREE_H
#define PANDO_STORAGE_TREE_H

#include "storage/node.h"
#include "storage/store.h"

static inline struct page *page_mut(struct ps_store *store, page_ref ref)
{
    PS_ASSERT(ref_in_arena(ref));
    return (struct page *)(void *)(store->arena.memory + (ref << store->page_shift));
}

/* Owns the path to `key` from the root down to to_level. */
int path_own(struct ps_txn *txn, struct tree_root *root, struct ps_slice key, unsigned to_level,
             struct path *path);

/* Puts an entry at position i of the path's node on a level, splitting or sharing as needed. */
int node_put(struct ps_txn *txn, struct tree_root *root, struct path *path, unsigned level,
             unsigned i, const struct node_entry *e);
/* After a removal from the path's node on a level: merges, removes, or lowers the tree. */
int node_thinned(struct ps_txn *txn, struct tree_root *root, struct path *path, unsigned level);

/* Drops a page with all below it. Leaves are read only where runs may be. */
int subtree_drop(struct ps_txn *txn, const struct child *child, unsigned level);

#endif
