/* self_test.h - the comparison sees what it is there to see: see self_test.c. */
#ifndef PANDO_TESTS_LMDB_SELF_TEST_H
#define PANDO_TESTS_LMDB_SELF_TEST_H

#include <stdint.h>

/* The exit status of the program. */
int run_self_test(const char *program, const char *base, uint64_t seed);

#endif
