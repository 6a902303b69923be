/*
 * totals.c - counters of operations and of the engine's paths.
 */
#include "tests/lmdb/totals.h"

#include "tests/lmdb/stream.h"

#include <assert.h>
#include <stdio.h>

#include "tests/support/paths.h"

/* Operations from which a path must have been taken: else the test has not shown what it is there
 * to show. What needs other threads, or failing system calls, is not here. */
enum { NEVER = 0, USUAL = 50000, RARE = 500000, VERY_RARE = 2000000 };

static const struct path paths[] = {
    PATH(commits, USUAL),
    PATH(checkpoints, USUAL),
    PATH(checkpoint_pages, USUAL),
    PATH(groups_delayed, NEVER),
    PATH(slot_waits, USUAL),
    PATH(relinks, USUAL),
    PATH(relink_sweeps, RARE),
    PATH(relink_idle, USUAL),
    PATH(slots_reused_between_snapshots, USUAL),
    PATH(deaths_passed, RARE),
    PATH(pages_verified, USUAL),
    PATH(splits, USUAL),
    PATH(merges, USUAL),
    PATH(shares, USUAL),
    PATH(edge_splits, RARE),
    PATH(overflow_runs, USUAL),
    PATH(ranges_deleted, USUAL),
    PATH(ranges_shortened, RARE),
    PATH(range_edges_balanced, USUAL),
    PATH(leaves_freed_unread, USUAL),
    PATH(savepoints, USUAL),
    PATH(rollbacks, USUAL),
    PATH(aborts, USUAL),
    PATH(log_epochs, USUAL),
    PATH(log_pieces, USUAL),
    PATH(log_pieces_early, USUAL),
    PATH(log_syncs, USUAL),
    PATH(spilled_pages, USUAL),
    PATH(spill_sweeps, USUAL),
    PATH(spilled_again, USUAL),
    PATH(snapshots_pinned, USUAL),
    PATH(snapshots_moved, USUAL),
    PATH(moved_pages, USUAL),
    PATH(paths_touched, USUAL),
    PATH(neighbours_touched, USUAL),
    PATH(fresh_taken, USUAL),
    PATH(fresh_mapped, USUAL),
    PATH(fresh_unmapped, USUAL),
    PATH(fresh_freed, USUAL),
    PATH(file_runs, USUAL),
    PATH(file_runs_rebuilt, VERY_RARE),
    PATH(file_runs_read, USUAL),
    PATH(run_pieces_verified, USUAL),
};

#define PATHS (sizeof paths / sizeof *paths)
static_assert(PATHS <= TOTALS_PATHS, "there is room for every path");
static_assert(OP_KINDS <= TOTALS_OPERATIONS, "there is room for every operation");

void totals_add_store(struct totals *t, struct ps_store *store)
{
    paths_add_store(paths, PATHS, t->paths, store);
}

void totals_add(struct totals *sum, const struct totals *t)
{
    for (size_t i = 0; i < OP_KINDS; i++)
        sum->operations[i] += t->operations[i];
    for (size_t i = 0; i < PATHS; i++)
        sum->paths[i] += t->paths[i];
    sum->busy += t->busy;
    sum->full += t->full;
    sum->full_scans += t->full_scans;
    sum->replayed += t->replayed;
}

unsigned totals_print(const struct totals *sum, uint64_t operations)
{
    printf("NOTE operations:");
    for (size_t i = 0; i < OP_KINDS; i++)
        printf(" %s %llu", op_names[i], (unsigned long long)sum->operations[i]);
    printf(
        "\nNOTE besides: full scans %llu, reopened with replay %llu, busy %llu, transactions full "
        "%llu",
        (unsigned long long)sum->full_scans, (unsigned long long)sum->replayed,
        (unsigned long long)sum->busy, (unsigned long long)sum->full);
    printf("\n");
    unsigned missing = paths_print(paths, PATHS, sum->paths, operations);
    for (size_t i = 0; i < OP_KINDS; i++) {
        if (operations >= USUAL && sum->operations[i] == 0) {
            printf("FAILED the operation '%s' was never done\n", op_names[i]);
            missing++;
        }
    }
    return missing;
}
