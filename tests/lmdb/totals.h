/*
 * totals.h - what runs have done, added up, and which paths of the engine must be among it.
 */
#ifndef PANDO_TESTS_LMDB_TOTALS_H
#define PANDO_TESTS_LMDB_TOTALS_H

#include "storage/pandostore.h"

#define TOTALS_OPERATIONS 40
#define TOTALS_PATHS      48

struct totals {
    uint64_t operations[TOTALS_OPERATIONS]; /* by enum op_kind */
    uint64_t busy, full, full_scans, replayed;
    uint64_t paths[TOTALS_PATHS];
};

/* Adds the path counters of a store that is about to be closed. */
void totals_add_store(struct totals *t, struct ps_store *store);
void totals_add(struct totals *sum, const struct totals *t);
/* Prints all as NOTE lines; how many that had to be taken in so many operations were not. */
unsigned totals_print(const struct totals *sum, uint64_t operations);

#endif
