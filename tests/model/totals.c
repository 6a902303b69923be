/*
 * totals.c - what rounds have done, added up, and which paths must be among it.
 */
#include "tests/model/totals.h"

#include <assert.h>
#include <stdio.h>

#include "tests/support/paths.h"

/* Operations from which a path must have been taken. */
enum { NEVER = 0, USUAL = 50000, RARE = 200000 };

/* The engine's path counters. A required one that stays at 0 fails the suite: the test then has
 * not shown what it is there to show. What needs readers in other threads, or another suite's
 * faults, is printed only. */
static const struct path paths[] = {
    PATH(commits, USUAL),
    PATH(checkpoints, USUAL),
    PATH(checkpoint_pages, USUAL),
    PATH(relinks, USUAL),
    PATH(relink_sweeps, RARE),
    PATH(relink_idle, USUAL),
    PATH(slot_waits, USUAL),
    PATH(slots_reused_between_snapshots, USUAL),
    PATH(deaths_passed, RARE),
    PATH(pages_verified, USUAL),
    PATH(splits, USUAL),
    PATH(merges, USUAL),
    PATH(shares, USUAL),
    PATH(edge_splits, RARE),
    PATH(overflow_runs, USUAL),
    PATH(overflow_separators, USUAL),
    PATH(ranges_deleted, USUAL),
    PATH(ranges_shortened, USUAL),
    PATH(range_edges_balanced, USUAL),
    PATH(range_edges_thin, NEVER),
    PATH(leaves_freed_unread, USUAL),
    PATH(savepoints, USUAL),
    PATH(rollbacks, USUAL),
    PATH(aborts, USUAL),
    PATH(states_dropped, USUAL),
    PATH(log_epochs, USUAL),
    PATH(log_pieces, USUAL),
    PATH(log_syncs, USUAL),
    PATH(snapshots_pinned, USUAL),
    PATH(residency_checks, USUAL),
    PATH(probes_would_wait, USUAL),
    PATH(paths_touched, USUAL),
    PATH(neighbours_touched, USUAL),
    PATH(snapshots_moved, USUAL),
    PATH(moved_pages, USUAL),
    PATH(snapshots_ended, USUAL),
    PATH(fresh_taken, USUAL),
    PATH(fresh_mapped, USUAL),
    PATH(fresh_unmapped, USUAL),
    PATH(fresh_freed, USUAL),
    PATH(file_runs, USUAL),
    PATH(file_runs_rebuilt, RARE),
    PATH(file_runs_read, USUAL),
    PATH(run_pieces_verified, USUAL),
    PATH(file_run_waits, NEVER),
    PATH(slots_populated_ahead, USUAL),
    PATH(slots_populated_late, USUAL),
    PATH(helper_wakeups, NEVER),
    PATH(values_compressed, USUAL),
    PATH(values_incompressible, USUAL),
    PATH(values_decompressed, USUAL),
    PATH(merge_ops, USUAL),
    PATH(merge_ops_in_place, USUAL),
    PATH(merge_ops_by_put, USUAL),
    PATH(merge_ops_folded, USUAL),
    PATH(spilled_pages, USUAL),
    PATH(spill_sweeps, USUAL),
    PATH(spilled_again, USUAL),
    PATH(log_pieces_early, USUAL),
    PATH(replayed_pieces, RARE),
    PATH(bulk_loads, USUAL),
    PATH(bulk_pages, USUAL),
    PATH(shrink_steps, USUAL),
    PATH(shrink_moved, USUAL),
    PATH(shrink_cuts, USUAL),
    PATH(snapshot_retries, NEVER),
    PATH(snapshots_asked, NEVER),
    PATH(snapshot_move_failures, NEVER),
};

#define PATHS (sizeof paths / sizeof *paths)
static_assert(PATHS <= STAT_MAX, "progress.stat has room for every path");

static const char *const tally_names[] = {
#define X(name) #name,
    TALLIES(X)
#undef X
};

void totals_add_store(struct progress *progress, struct ps_store *store)
{
    paths_add_store(paths, PATHS, progress->stat, store);
}

void totals_add(struct progress *sum, const struct progress *round)
{
    for (size_t i = 0; i < PATHS; i++)
        sum->stat[i] += round->stat[i];
    for (size_t i = 0; i < TALLY_COUNT; i++)
        sum->tally[i] += round->tally[i];
}

unsigned totals_print(const struct progress *sum, uint64_t operations)
{
    printf("NOTE operations:");
    for (size_t i = 0; i < TALLY_COUNT; i++)
        printf(" %s %llu", tally_names[i], (unsigned long long)sum->tally[i]);
    printf("\n");
    unsigned missing = paths_print(paths, PATHS, sum->stat, operations);
    return missing;
}
