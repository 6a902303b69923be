/*
 * shapes.h - the stores that are damaged: one for each way in which files can look.
 *
 * A shape is made by the engine, the same way every time but for random log epochs. What it holds
 * is known as a list of entries for the checkpoint and for the end of the log, and as a digest of
 * the state after each commit of the log.
 */
#ifndef PANDO_TESTS_DAMAGE_SHAPES_H
#define PANDO_TESTS_DAMAGE_SHAPES_H

#include "storage/pandostore.h"
#include "storage/vec.h"
#include "tests/damage/files.h"

struct known_entry {
    ps_tree tree;
    uint32_t len;
    uint8_t *key;
    uint64_t value; /* hash of the value */
};

struct known {
    VEC(struct known_entry) entries;
    uint64_t digest;
};

#define SHAPE_COMMITS 64u

struct shape {
    const char *name;
    struct ps_options options;
    struct files image;         /* as it was closed */
    struct files before;        /* as it was at an earlier checkpoint: for stale pages */
    struct known at_checkpoint; /* what the metas name */
    struct known at_end;        /* the same, after the log */
    uint64_t digests[SHAPE_COMMITS];
    unsigned ndigests; /* of every state from the checkpoint to the end */
};

#define SHAPES     9u
#define TINY       SHAPES /* small ones, for fuzzing: trees and runs; a log */
#define TINY_LOG   (SHAPES + 1u)
#define ALL_SHAPES (SHAPES + 2u)
extern const char *const shape_names[ALL_SHAPES];

/* Makes shape number `i` in a directory that is empty before and after. */
void shape_make(unsigned i, const char *dir, struct shape *shape);
void shape_free(struct shape *shape);

uint64_t hash_bytes(const void *data, size_t len);
/* Of an entry, so that the sum over entries is a digest of a state. */
uint64_t hash_entry(ps_tree tree, struct ps_slice key, uint64_t value);

#endif
