/*
 * threads.h - one writer and several readers on one store, at once.
 */
#ifndef PANDO_TESTS_MODEL_THREADS_H
#define PANDO_TESTS_MODEL_THREADS_H

#include <stdint.h>

/* Commits `commits` transactions in stores below `base` while readers verify what holds in every
 * committed state. Prints the suite's line; 0 if everything held. */
int run_threads(const char *base, uint64_t seed, uint64_t commits);

#endif
