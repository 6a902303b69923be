/*
 * change.h - what the public functions that change a tree begin and end with (change.c, range.c).
 */
#ifndef PANDO_STORAGE_CHANGE_H
#define PANDO_STORAGE_CHANGE_H

#include "storage/store.h"

/* Whether the transaction can change this tree. What the caller read before may be what it puts
 * now: then it must have been right. */
int change_usable(const struct ps_txn *txn, ps_tree tree);
/* Ends a change that was begun: after an error only rolling back is left. */
int change_done(struct ps_txn *txn, int rc);
/* Whether bytes are in the store's own memory, where a change may move them. */
bool is_in_store(const struct ps_store *store, struct ps_slice slice);

#endif
