/*
 * tree_options.h - what a tree does with its values, kept with its root.
 *
 * The options are part of the state (struct tree_root), so they are transactional as all else is.
 * In the catalogue they follow the root of a tree that has any (bit 7 of its level), with a byte
 * that says how long they are; in the log they stand in place of a key (OP_OPTIONS). As bytes:
 *
 *   u8 compression | u32 compress over | the merge operator's name
 *
 * Threads: as for the state.
 */
#ifndef PANDO_STORAGE_TREE_OPTIONS_H
#define PANDO_STORAGE_TREE_OPTIONS_H

#include "storage/store.h"

#define OPTIONS_FIXED 5u
#define OPTIONS_MOST  (OPTIONS_FIXED + PS_MAX_MERGE_NAME)
#define LEVEL_OPTIONS 0x80u /* of the level in the catalogue */

/* Bytes of a tree's options; 0: it has none. */
size_t tree_options_write(struct ps_store *store, const struct tree_root *t,
                          uint8_t out[OPTIONS_MOST]);
/* PS_CORRUPT: they cannot be. PS_LIMIT: too many operators in this process. */
int tree_options_read(struct ps_store *store, struct ps_slice bytes, struct tree_root *t);
/* What the log has. */
int tree_options_replay(struct ps_txn *txn, ps_tree tree, struct ps_slice bytes);
/* The options themselves, as the log has them: PS_CORRUPT. */
int tree_options_parse(struct ps_slice bytes, struct ps_tree_options *options);
/* The same for people: PS_CORRUPT. */
#define OPTIONS_TEXT (64u + PS_MAX_MERGE_NAME)
int tree_options_text(struct ps_slice bytes, char text[OPTIONS_TEXT], struct ps_slice *out);
/* Of a tree in a state. */
void tree_options_of(struct ps_store *store, const struct tree_root *t,
                     struct ps_tree_options *options);

#endif
