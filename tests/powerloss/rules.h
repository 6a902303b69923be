/*
 * rules.h - the engine's rules, each left out in turn: the suite must notice.
 */
#ifndef PANDO_TESTS_POWERLOSS_RULES_H
#define PANDO_TESTS_POWERLOSS_RULES_H

#include "tests/powerloss/rounds.h"

int rules_list(void);
/* In the build that can (make RULES=1); false, with a message: there is no such rule, or no such
 * build. */
bool rules_leave_out(const char *name);
/* Every rule, or just this one; the suite's line; the exit status. */
int rules_all(struct rounds *rounds, uint64_t seed, const char *only);
/* In how many of n rounds each rule (or just this one) is noticed, and how likely the suite misses
 * it then. NULL: of the shape that the suite takes. */
int rules_rate(struct rounds *rounds, uint64_t seed, const char *only, uint64_t n,
               const enum shape *shape);

#endif
