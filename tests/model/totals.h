/*
 * totals.h - what rounds have done, added up over all of them, and which paths must be among it.
 *
 * A round runs in a process of its own and counts into memory it shares with the one that started
 * it, so that a round that ends badly still says how far it came.
 */
#ifndef PANDO_TESTS_MODEL_TOTALS_H
#define PANDO_TESTS_MODEL_TOTALS_H

#include "storage/pandostore.h"

#define TALLIES(X)                \
    X(puts)                       \
    X(deletes)                    \
    X(gets)                       \
    X(get_manys)                  \
    X(probes)                     \
    X(touches)                    \
    X(seeks)                      \
    X(steps)                      \
    X(selects)                    \
    X(ranks)                      \
    X(counts)                     \
    X(clears)                     \
    X(ranges_deleted_here)        \
    X(deleted_in_ranges)          \
    X(splits_of_ranges)           \
    X(trees_made)                 \
    X(options_set)                \
    X(merges_done)                \
    X(merges_refused)             \
    X(trees_dropped)              \
    X(waiting_commits)            \
    X(started_commits)            \
    X(unchanged_commits)          \
    X(busy)                       \
    X(transactions_full)          \
    X(whole_transactions)         \
    X(bulk_changes)               \
    X(refills)                    \
    X(shrinks)                    \
    X(refills_given_up)           \
    X(transactions_lost)          \
    X(snapshots_held)             \
    X(snapshots_pinned_here)      \
    X(snapshots_moved_here)       \
    X(snapshots_ended_here)       \
    X(reopened_after_checkpoint)  \
    X(reopened_with_replay)       \
    X(crashes_between_operations) \
    X(crashes_within_operations)  \
    X(power_losses)               \
    X(log_failures)               \
    X(full_comparisons)           \
    X(structure_checks)

enum tally {
#define X(name) TALLY_##name,
    TALLIES(X)
#undef X
        TALLY_COUNT
};

#define STAT_MAX 96

struct progress {
    uint64_t operations; /* done in this round */
    const char *doing;   /* a literal: the same in every process of this program */
    bool done;           /* the round ended well */
    uint64_t tally[TALLY_COUNT];
    uint64_t stat[STAT_MAX];
};

/* Adds the path counters of a store that is about to be closed. */
void totals_add_store(struct progress *progress, struct ps_store *store);
/* Adds one round's counters to the sum. */
void totals_add(struct progress *sum, const struct progress *round);
/* Prints the counters as NOTE lines; the number of paths that had to be taken in so many operations
 * and were not. */
unsigned totals_print(const struct progress *sum, uint64_t operations);

#endif
