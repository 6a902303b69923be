/*
 * totals.c - what rounds have done, added up, and which paths must be among it.
 */
#include "tests/model/totals.h"

#include <assert.h>
#include <stdio.h>

/* The engine's path counters. A required one that stays at 0 fails the suite: the test then has
 * not shown what it is there to show. What needs readers in other threads, or another suite's
 * faults, is printed only. */
static const struct path {
    const char *name;
    size_t offset;
    bool required;
} paths[] = {
#define PATH(field, required)                             \
    {                                                     \
#field, offsetof(struct ps_stat, field), required \
    }
    PATH(commits, true),
    PATH(checkpoints, true),
    PATH(checkpoint_pages, true),
    PATH(relinks, true),
    PATH(relink_sweeps, true),
    PATH(relink_idle, true),
    PATH(slot_waits, true),
    PATH(slots_reused_between_snapshots, true),
    PATH(deaths_passed, true),
    PATH(pages_verified, true),
    PATH(splits, true),
    PATH(merges, true),
    PATH(shares, true),
    PATH(edge_splits, true),
    PATH(overflow_runs, true),
    PATH(overflow_separators, true),
    PATH(savepoints, true),
    PATH(rollbacks, true),
    PATH(aborts, true),
    PATH(states_dropped, true),
    PATH(log_epochs, true),
    PATH(log_pieces, true),
    PATH(log_syncs, true),
    PATH(snapshots_pinned, true),
    PATH(snapshot_retries, false),
#undef PATH
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
    struct ps_stat stat;
    ps_stats(store, &stat);
    for (size_t i = 0; i < PATHS; i++)
        progress->stat[i] += *(const uint64_t *)((const char *)&stat + paths[i].offset);
}

void totals_add(struct progress *sum, const struct progress *round)
{
    for (size_t i = 0; i < PATHS; i++)
        sum->stat[i] += round->stat[i];
    for (size_t i = 0; i < TALLY_COUNT; i++)
        sum->tally[i] += round->tally[i];
}

unsigned totals_print(const struct progress *sum, bool require)
{
    unsigned missing = 0;
    printf("NOTE operations:");
    for (size_t i = 0; i < TALLY_COUNT; i++)
        printf(" %s %llu", tally_names[i], (unsigned long long)sum->tally[i]);
    printf("\nNOTE paths of the engine:");
    for (size_t i = 0; i < PATHS; i++)
        printf(" %s %llu", paths[i].name, (unsigned long long)sum->stat[i]);
    printf("\n");
    for (size_t i = 0; require && i < PATHS; i++) {
        if (paths[i].required && sum->stat[i] == 0) {
            printf("FAILED the path '%s' was never taken\n", paths[i].name);
            missing++;
        }
    }
    return missing;
}
