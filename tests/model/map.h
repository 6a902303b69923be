/*
 * map.h - the model: what a store must contain, as sorted arrays.
 *
 * A state holds up to MAP_TREES trees. Each is a sorted array of references to entries that are
 * never changed. Copying a state copies references to the arrays; an array that somebody else
 * refers to is copied before it is changed. So a snapshot, a savepoint and the state before a
 * transaction are all just copies, and nothing here resembles what the engine does.
 *
 * Threads: one.
 */
#ifndef PANDO_TESTS_MODEL_MAP_H
#define PANDO_TESTS_MODEL_MAP_H

#include "storage/pandostore.h"

#define MAP_TREES 6

struct entry {
    uint32_t refs;
    struct ps_slice key, value; /* into the same allocation */
};

struct table {
    uint32_t refs;
    size_t n, room;
    struct entry **at; /* ascending */
};

struct map_tree {
    bool exists;
    ps_tree id;          /* the engine's number */
    struct table *table; /* NULL: the tree does not exist */
    struct ps_tree_options options;
};

struct map {
    struct map_tree tree[MAP_TREES];
};

/* <0, 0, >0: unsigned bytes, a prefix before its extensions. */
int slice_compare(struct ps_slice a, struct ps_slice b);

void map_copy(struct map *to, const struct map *from);
void map_free(struct map *map); /* leaves an empty one */

void map_create(struct map *map, int tree, ps_tree id);
void map_drop(struct map *map, int tree);
void map_put(struct map *map, int tree, struct ps_slice key, struct ps_slice value);
bool map_delete(struct map *map, int tree, struct ps_slice key);
/* Entries number `from` to `to`, that one not. */
void map_delete_range(struct map *map, int tree, size_t from, size_t to);
void map_clear(struct map *map, int tree);

/* Number of entries with a key below (or, with `equal`, at or below) the one given. */
size_t table_below(const struct table *table, struct ps_slice key, bool equal);
/* The entry with this key, or NULL. */
struct entry *table_find(const struct table *table, struct ps_slice key);
/* Whether both states hold the same trees with the same entries. */
bool options_equal(const struct ps_tree_options *a, const struct ps_tree_options *b);
bool map_equal(const struct map *a, const struct map *b);

#endif
