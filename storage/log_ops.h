/*
 * log_ops.h - operations one after another, out of a commit that comes in pieces.
 *
 * Pure but for the reader's memory: any thread.
 */
#ifndef PANDO_STORAGE_LOG_OPS_H
#define PANDO_STORAGE_LOG_OPS_H

#include "storage/replay_op.h"

struct log_op_reader {
    VEC(uint8_t) rest; /* an operation whose end is in the next piece */
    size_t wanted;     /* bytes of it, as far as is known */
};

/* Calls `take` for each operation that ends in these bytes; stops at its first non-zero answer.
 * PS_CORRUPT: an impossible operation, or one that is not whole although this is the commit's last
 * piece. PS_NOMEM. */
int log_ops_read(struct log_op_reader *reader, const void *bytes, size_t len, bool last,
                 int (*take)(void *arg, const struct replay_op *op), void *arg);
void log_ops_free(struct log_op_reader *reader);

#endif
