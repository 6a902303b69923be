/*
 * commits.h - a store whose every state can be told from its contents: commit n writes n to a
 * counter and KEYS keys of its own, and deletes those of commit n - KEPT. What is found is thus
 * either exactly one of these states or wrong.
 *
 * Functions assert (cmocka) what is not what the caller tests.
 */
#ifndef PANDO_TESTS_SUPPORT_COMMITS_H
#define PANDO_TESTS_SUPPORT_COMMITS_H

#include "storage/pandostore.h"

#define COMMITS_KEYS 4u
#define COMMITS_KEPT 20u

/* What commit n does, in an open transaction; the tree is made when it is not there. */
int commits_apply(struct ps_txn *txn, uint64_t n);
/* Begins, applies, commits. Aborts on an error in the middle. */
int commits_make(struct ps_store *store, uint64_t n, enum ps_durability level);
/* The number of the commit whose state a view shows, all of it compared. 0: none yet. */
uint64_t commits_seen(struct ps_view *view);
/* The same through a new snapshot. */
uint64_t commits_published(struct ps_store *store);

#endif
