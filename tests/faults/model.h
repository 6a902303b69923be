/*
 * model.h - a store whose every state can be told from its contents.
 *
 * Commit n writes n under "n" and keys of its own, of all kinds that the engine treats differently
 * (short, in runs of pages, in runs of the file; every ninth commit is larger than dirty memory),
 * deletes those of commit n - MODEL_KEPT, and makes or drops a second tree. What is found is thus
 * exactly one of these states, or wrong.
 */
#ifndef PANDO_TESTS_FAULTS_MODEL_H
#define PANDO_TESTS_FAULTS_MODEL_H

#include "storage/pandostore.h"

#define MODEL_KEPT 4u

/* What commit n does, in an open transaction. */
int model_apply(struct ps_txn *txn, uint64_t n);
/* Which state a view shows; -1, with *what set: none. An error of the store: *rc. */
int64_t model_seen(struct ps_view *view, int *rc, const char **what);

#endif
