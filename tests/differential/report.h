/* Shrinking a failed sequence and printing it. See report.c. */
#ifndef TESTS_DIFFERENTIAL_REPORT_H
#define TESTS_DIFFERENTIAL_REPORT_H

#include "tests/differential/run.h"

/* What the reproducing command line has to contain. */
struct invocation {
    const char *program, *redis, *pandod, *resp;
};

/*
 * Removes steps while the sequence still fails; enabled[] tells what is left, *difference how it
 * fails then. Servers are restarted when they have to be. Returns the number of steps left, or 0 if
 * the failure didn't recur (*difference then is what was found first, and all steps are enabled).
 */
size_t shrink(struct runner *runner, const struct sequence *sequence, bool *enabled,
              struct difference *difference);

/* Where the text of the replies begins to differ, a few characters of context included. */
size_t difference_position(const struct difference *difference);

/* Prints a failure: where, the steps left, both replies, how to run it again. */
void report_failure(const struct runner *runner, const struct invocation *invocation,
                    const struct sequence *sequence, const bool *enabled, size_t left,
                    const struct difference *difference);

#endif
