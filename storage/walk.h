/*
 * walk.h - all entries of a tree in the order of their keys, read once and never again: for copies.
 *
 * Pages are copied before they are checked and taken apart, so a store that another process goes on
 * writing can be read (inspect.h): what it finds may be wrong then, but leads nowhere.
 *
 * Threads: any; a walk belongs to one at a time.
 */
#ifndef PANDO_STORAGE_WALK_H
#define PANDO_STORAGE_WALK_H

#include "storage/node.h"
#include "storage/store.h"

struct walk {
    struct ps_store *store;
    /* Gets each entry, the value as it is stored (encode.h); the bytes are good until it returns.
     * Not 0: the walk ends with that. */
    int (*entry)(void *arg, struct ps_slice key, struct ps_slice value, bool encoded);
    /* So many pages were read; not 0: the walk ends with that. May be NULL. */
    int (*pages)(void *arg, uint64_t n);
    /* A page or run could not be read; 0: go on behind it. May be NULL: the walk ends. */
    int (*unreadable)(void *arg, int rc);
    void *arg;
    uint8_t *rooms[TREE_MAX_LEVELS]; /* a page and a key each */
};

/* 0, what a callback said, or why a page could not be read. */
int walk_tree(struct walk *walk, const struct tree_root *root);
/* From the first key >= `from` on. */
int walk_tree_from(struct walk *walk, const struct tree_root *root, struct ps_slice from);
void walk_free(struct walk *walk);

/* The children of a branch lie side by side as a rule: each such row is read ahead at once. */
void walk_read_ahead(struct ps_store *store, const struct page *branch);

#endif
