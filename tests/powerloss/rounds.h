/*
 * rounds.h - rounds in processes of their own, a few at a time; what became of each.
 *
 * Threads: one.
 */
#ifndef PANDO_TESTS_POWERLOSS_ROUNDS_H
#define PANDO_TESTS_POWERLOSS_ROUNDS_H

#include "tests/powerloss/explore.h"

#define ROUND_IMAGES 125u /* of one workload */
#define RULE_IMAGES  60u  /* the same, with a rule left out: more workloads */

struct rounds;

/* At most `jobs` at once (0: as many as there are processors, but no more than 2). */
struct rounds *rounds_new(const char *program, unsigned jobs);
void rounds_free(struct rounds *rounds);

/* One round by itself, or with `journal` an image of one that was left; good until the next. */
struct progress *rounds_alone(struct rounds *rounds, const struct order *order,
                              const char *journal);
/* Rounds until so many images were looked at, and the suite's line: the exit status. */
int rounds_many(struct rounds *rounds, uint64_t seed, uint64_t images);
/* Rounds [order->round, n), as long as none fails; the lowest that did, or n. Its progress in
 * *failed. */
uint64_t rounds_until_failure(struct rounds *rounds, const struct order *order, uint64_t n,
                              struct progress *failed, uint64_t *images);
/* How many of the rounds [0, n) fail. Their journals go. */
uint64_t rounds_failing(struct rounds *rounds, const struct order *order, uint64_t n);
/* Says what failed and how to see it again. */
void rounds_report(const struct rounds *rounds, const struct progress *progress,
                   const struct order *order);

#endif
