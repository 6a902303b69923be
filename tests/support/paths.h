/*
 * paths.h - the engine's path counters, added up over stores: which were taken, and which had to
 * be.
 *
 * A suite has a table of the counters (struct ps_stat) that it is about, and a sum for each. A path
 * that had to be taken and was not fails the suite: it has not shown what it is there to show.
 *
 * Threads: any; a sum belongs to its caller.
 */
#ifndef PANDO_TESTS_SUPPORT_PATHS_H
#define PANDO_TESTS_SUPPORT_PATHS_H

#include <stddef.h>

#include "storage/pandostore.h"

struct path {
    const char *name;
    size_t offset; /* in struct ps_stat */
    uint64_t from; /* operations from which it must have been taken; 0: printed only */
};

#define PATH(field, from)                             \
    {                                                 \
#field, offsetof(struct ps_stat, field), from \
    }

/* Adds the n counters of a store that is about to be closed. */
void paths_add_store(const struct path *paths, size_t n, uint64_t *sums, struct ps_store *store);
/* Prints the sums as a NOTE line, and a line for each path that had to be taken in so many
 * operations and was not: how many. */
unsigned paths_print(const struct path *paths, size_t n, const uint64_t *sums, uint64_t operations);

#endif
