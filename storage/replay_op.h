/*
 * replay_op.h - operations as the log has them (pieces.c writes them).
 *
 * Threads: any; nothing is shared.
 */
#ifndef PANDO_STORAGE_REPLAY_OP_H
#define PANDO_STORAGE_REPLAY_OP_H

#include "storage/store.h"

struct replay_op {
    uint8_t op;
    uint8_t savepoint; /* of a mark: which one */
    ps_tree tree;
    uint32_t order;
    struct ps_slice key, value;
};

/* Reads the operation at `at`, of which there is at least a byte; key and value point into the
 * bytes. Returns where it ends, or NULL if the bytes end early (*wanted: how many more there must
 * be, at least) or cannot be right (*wanted: 0). */
const uint8_t *replay_op_read(const uint8_t *at, const uint8_t *end, struct replay_op *op,
                              size_t *wanted);

#endif
