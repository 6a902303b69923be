/*
 * tally.h - what a run met, so that a path that was never taken is seen.
 */
#ifndef PANDO_TESTS_POWERLOSS_TALLY_H
#define PANDO_TESTS_POWERLOSS_TALLY_H

#include <stdbool.h>
#include <stdint.h>

/* name, whether a full run must meet it */
#define TALLIES(X)                      \
    X(workloads, true)                  \
    X(images, true)                     \
    X(images_of_recoveries, true)       \
    X(images_before_a_sync, true)       \
    X(images_after_a_promise, true)     \
    X(images_without_directory, true)   \
    X(images_with_a_damaged_meta, true) \
    X(images_at_always, true)           \
    X(images_at_everysec, true)         \
    X(images_at_none, true)             \
    X(reopened_with_replay, true)       \
    X(replayed_commits, true)           \
    X(torn_tails, true)                 \
    X(went_back_to_promise, true)       \
    X(commits, true)                    \
    X(commits_not_waited_for, true)     \
    X(aborts, true)                     \
    X(savepoints_rolled_back, true)     \
    X(ranges_deleted, true)             \
    X(checkpoints, true)                \
    X(checkpoints_beside_commits, true) \
    X(threads_held_up, true)            \
    X(kills, true)                      \
    X(kills_in_recovery, true)          \
    X(log_writes_failed, true)          \
    X(log_syncs_failed, true)           \
    X(data_syncs_failed, true)          \
    X(commits_dropped, true)            \
    X(clean_reopenings, true)           \
    X(snapshots_moved, true)            \
    X(snapshots_pinned, true)           \
    X(log_segments_made, true)          \
    X(log_segments_recycled, true)      \
    X(log_segments_removed, true)       \
    X(log_epochs, true)                 \
    X(file_growths, true)               \
    X(files_cut_off, true)              \
    X(spilled_pages, true)              \
    X(pieces_written_early, true)       \
    X(file_runs, true)                  \
    X(overflow_runs, true)              \
    X(deaths_passed, true)              \
    X(relinks, true)                    \
    X(fresh_pages_mapped, true)         \
    X(fresh_pages_freed, true)          \
    X(checkpoints_in_recovery, true)    \
    X(options_set, true)                \
    X(merges, true)                     \
    X(merges_folded, true)              \
    X(values_compressed, true)

struct tally {
#define FIELD(name, required) uint64_t name;
    TALLIES(FIELD)
#undef FIELD
};

void tally_add(struct tally *to, const struct tally *from);
/* Prints all; the number of required ones that are zero, each of which is named. */
unsigned tally_print(const struct tally *tally, bool require);

#endif
