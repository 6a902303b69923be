/*
 * work_internal.h - what work.c and steps.c share.
 */
#ifndef PANDO_TESTS_POWERLOSS_WORK_INTERNAL_H
#define PANDO_TESTS_POWERLOSS_WORK_INTERNAL_H

#include "tests/powerloss/work.h"

/* An assertion, by its name, does not hold. */
void work_failed(struct work *w, const char *assertion, const char *format, ...)
    __attribute__((noreturn, format(printf, 3, 4)));
/* A call answered an error. */
void work_error(struct work *w, int rc, const char *call);
/* Notes what the store says is durable and published. */
void work_observe(struct work *w);
void work_promise(struct work *w, uint64_t seq);
void work_checkpoint_beside(struct work *w);
void work_join(struct work *w); /* waits for that checkpoint */
/* Looks once more at what a snapshot shows, and ends it. */
void work_release(struct work *w, struct held *held);
void work_next_life(struct work *w);

/* values.c: a put, in a tree with options or one that gets some, also as a merge; and the operator
 * that it needs. */
int values_put(struct work *w, struct ps_txn *txn, struct state *s, unsigned tree,
               struct ps_slice key, struct value *value);
void values_register(struct work *w);

#endif
