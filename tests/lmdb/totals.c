/*
 * totals.c - counters of operations and of the engine's paths.
 */
#include "tests/lmdb/totals.h"

#include "tests/lmdb/stream.h"

#include <assert.h>
#include <stdio.h>

/* Operations from which a path must have been taken: else the test has not shown what it is there
 * to show. What needs other threads, or failing system calls, is not here. */
enum { NEVER = 0, USUAL = 50000, RARE = 500000, VERY_RARE = 2000000 };

static const struct path {
    const char *name;
    size_t offset;
    uint64_t from;
} paths[] = {
#define PATH(field, from)                             \
    {                                                 \
#field, offsetof(struct ps_stat, field), from \
    }
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
#undef PATH
};

#define PATHS (sizeof paths / sizeof *paths)
static_assert(PATHS <= TOTALS_PATHS, "there is room for every path");
static_assert(OP_KINDS <= TOTALS_OPERATIONS, "there is room for every operation");

void totals_add_store(struct totals *t, struct ps_store *store)
{
    struct ps_stat stat;
    ps_stats(store, &stat);
    for (size_t i = 0; i < PATHS; i++)
        t->paths[i] += *(const uint64_t *)((const char *)&stat + paths[i].offset);
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
    unsigned missing = 0;
    printf("NOTE operations:");
    for (size_t i = 0; i < OP_KINDS; i++)
        printf(" %s %llu", op_names[i], (unsigned long long)sum->operations[i]);
    printf(
        "\nNOTE besides: full scans %llu, reopened with replay %llu, busy %llu, transactions full "
        "%llu",
        (unsigned long long)sum->full_scans, (unsigned long long)sum->replayed,
        (unsigned long long)sum->busy, (unsigned long long)sum->full);
    printf("\nNOTE paths of the engine:");
    for (size_t i = 0; i < PATHS; i++)
        printf(" %s %llu", paths[i].name, (unsigned long long)sum->paths[i]);
    printf("\n");
    for (size_t i = 0; i < PATHS; i++) {
        if (paths[i].from && operations >= paths[i].from && sum->paths[i] == 0) {
            printf("FAILED the path '%s' was never taken\n", paths[i].name);
            missing++;
        }
    }
    for (size_t i = 0; i < OP_KINDS; i++) {
        if (operations >= USUAL && sum->operations[i] == 0) {
            printf("FAILED the operation '%s' was never done\n", op_names[i]);
            missing++;
        }
    }
    return missing;
}
