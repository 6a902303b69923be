/*
 * fold.h - repeated merges of a key within a transaction take one operation in its log.
 *
 * The result of a merge replaces what the merge before has logged for the same key, while that is
 * still in the buffer and nothing but merges was logged since: then no other operation on the key
 * can stand between.
 *
 *  F1 An operation is changed only if it was gathered since the innermost savepoint: rolling back
 *     leaves what was logged before.
 *  F2 Any other operation, writing the buffer, rolling back and a new transaction forget all of it
 *     (epoch).
 *
 * Threads: the transaction's.
 */
#ifndef PANDO_STORAGE_FOLD_H
#define PANDO_STORAGE_FOLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "storage/pandostore.h"

#define FOLDS     256u
#define FOLD_MOST 127u /* bytes of a value whose length takes one byte of the log */

struct fold {
    uint64_t epoch;
    size_t at; /* of the value, in the group's operations */
    ps_tree tree;
    uint32_t key_len, len;
};

struct folds {
    uint64_t epoch; /* of those that count */
    struct fold at[FOLDS];
};

struct ps_txn;

/* Logs a put that is the result of a merge. */
int fold_log(struct ps_txn *txn, ps_tree tree, struct ps_slice key, struct ps_slice value);

#endif
