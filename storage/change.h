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
/* What the caller read in this transaction would move while it is being put: a copy, to be freed.
 * (Not what is long: it is in a run of the file, which stays where it is until the transaction has
 * dropped it.) */
int change_take_out(const struct ps_store *store, struct ps_slice *slice, void **copy);
/* Notes that an entry is put whose key or value is in a run of the file. */
void change_note_long(struct ps_txn *txn, struct ps_slice key, struct ps_slice value);
/* Puts a value as it is to be stored: out of the log. */
int put_encoded(struct ps_txn *txn, ps_tree tree, struct ps_slice key, struct ps_slice encoded);
/* Whether bytes are in the store's own memory, where a change may move them. */
bool is_in_store(const struct ps_store *store, struct ps_slice slice);

#endif
