/* Equality of two replies, up to the declared canonicalisations. See compare.c. */
#ifndef TESTS_DIFFERENTIAL_COMPARE_H
#define TESTS_DIFFERENTIAL_COMPARE_H

#include "tests/differential/sequence.h"

/* The slot of connections that belong to no client: its ids are never known. */
#define NO_CLIENT MAX_CLIENTS

/* What a comparison has to know of the connections: the ids that each server gave them, -1 if
 * unknown. */
struct compare_env {
    struct heap *heap; /* for canonical texts */
    int client;
    long long ids[MAX_CLIENTS + 1][2];
};

/*
 * Whether the replies `a` and `b` (of the first and the second server) to `call` are equal. next_a
 * and next_b are the replies to the call after it in the same step, or NULL. The replies may be
 * reordered, and replaced by what was compared, in place.
 */
bool compare_replies(const struct compare_env *env, enum cmp_mode mode, struct reply *a,
                     struct reply *b, const struct reply *next_a, const struct reply *next_b);

#endif
