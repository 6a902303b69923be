/*
 * chance.h - the system's random numbers, made repeatable: the log's epochs, a store's id, the
 * jumps of stamps at reopening. getrandom() of this program is ours.
 *
 * Threads: any.
 */
#ifndef PANDO_TESTS_POWERLOSS_CHANCE_H
#define PANDO_TESTS_POWERLOSS_CHANCE_H

#include <stdint.h>

void chance_seed(uint64_t seed);

#endif
