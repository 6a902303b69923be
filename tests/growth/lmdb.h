/*
 * lmdb.h - how the file of another engine grows under the same work, while one reader is held.
 *
 * For comparison alone: nothing is asserted about it.
 */
#ifndef PANDO_TESTS_GROWTH_LMDB_H
#define PANDO_TESTS_GROWTH_LMDB_H

#include <stdint.h>

struct lmdb_growth {
    uint64_t base, after_one, after_all, after_release; /* bytes of the file in use */
};

/* Fills a database in a folder, takes a read transaction, overwrites everything `rounds` times, in
 * transactions of `step` keys, ends the reader, and overwrites once more. 0, or LMDB's error. */
int lmdb_grow(const char *dir, unsigned keys, unsigned value, unsigned step, unsigned rounds,
              struct lmdb_growth *growth);

#endif
