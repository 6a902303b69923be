/* What a run has compared, by command. See coverage.c. */
#ifndef TESTS_DIFFERENTIAL_COVERAGE_H
#define TESTS_DIFFERENTIAL_COVERAGE_H

#include "tests/differential/sequence.h"

#define MAX_COVERED 128

struct coverage {
    struct covered {
        char name[24];
        unsigned long long good, errors; /* replies of the first server */
    } items[MAX_COVERED];
    size_t count;
};

/* Counts a reply of the first server, unless it is QUEUED. */
void coverage_count(struct coverage *coverage, const struct call *call, const struct reply *reply);

/* Prints the counts; returns how many commands of the table never had a reply that is no error. */
size_t coverage_print(const struct coverage *coverage);

#endif
