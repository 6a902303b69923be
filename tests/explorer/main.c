/*
 * The explorer: proves the rules of the engine's states, reuse, log, checkpoint and recovery on a
 * small model, and proves each rule necessary by leaving it out.
 *
 *   explorer                  everything: the complete set, then every rule left out
 *   explorer --complete       the complete set alone
 *   explorer --without RULE   the complete set, and one rule left out, in the rule's exploration
 *   explorer --list           the rules
 *
 * Exit status 0 when the complete set holds and every left-out rule is caught, in an exploration
 * that the complete set passes.
 */
#include "tests/explorer/model.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

enum {
    MEMORY,
    ALWAYS,
    EVERYSEC,
    OLD_READER,
    MOVED_READER,
    SPILL,
    SPILL_CRASH,
    SPILL_READER,
    EXPLORATIONS
};

/* Small, focused worlds; each is explored to its end. */
static const struct bounds explorations[EXPLORATIONS] = {
    [MEMORY] = {.name = "memory",
                .readers = 2,
                .writes = 3,
                .units = 1,
                .reads = 2,
                .checkpoints = 1,
                .write_failures = 1},
    [ALWAYS] = {.name = "crash-always",
                .writes = 3,
                .checkpoints = 2,
                .crashes = 2,
                .damages = 1,
                .write_failures = 1,
                .sync_failures = 1},
    [EVERYSEC] = {.name = "crash-everysec",
                  .everysec = true,
                  .writes = 3,
                  .checkpoints = 2,
                  .crashes = 2,
                  .damages = 1,
                  .write_failures = 1,
                  .sync_failures = 1},
    [OLD_READER] = {.name = "old-reader",
                    .readers = 1,
                    .writes = 2,
                    .reads = 1,
                    .checkpoints = 2,
                    .crashes = 1},
    [MOVED_READER] = {.name = "moved-reader",
                      .readers = 1,
                      .writes = 2,
                      .reads = 1,
                      .moves = 1,
                      .checkpoints = 2,
                      .crashes = 1},
    [SPILL] = {.name = "spill",
               .writes = 3,
               .units = 1,
               .spills = 2,
               .checkpoints = 1,
               .write_failures = 1},
    [SPILL_CRASH] = {.name = "spill-crash",
                     .writes = 2,
                     .units = 1,
                     .spills = 1,
                     .checkpoints = 2,
                     .crashes = 1},
    [SPILL_READER] = {.name = "spill-reader",
                      .everysec = true,
                      .readers = 1,
                      .writes = 2,
                      .units = 1,
                      .spills = 1,
                      .reads = 1,
                      .checkpoints = 2},
};

/* The rules, and the exploration in which leaving one out must be caught (README.md says why the
 * last one is not necessary here; the suite does not count it). */
static const struct {
    const char *name;
    int exploration;
} rules[RULES] = {
    [RULE_DATA_SYNC_BEFORE_META] = {"data-sync-before-meta", ALWAYS},
    [RULE_LOG_SYNC_BEFORE_ACK] = {"log-sync-before-ack", ALWAYS},
    [RULE_LOG_THROUGH_CHECKPOINT] = {"log-through-checkpoint-state-first", EVERYSEC},
    [RULE_SECOND_META_BEFORE_REUSE] = {"second-meta-before-reuse", MEMORY},
    [RULE_DEATHS_PASSED_TO_PAGES] = {"deaths-passed-to-pages", MEMORY},
    [RULE_RELINK_KEEPS_PAGE] = {"relink-keeps-page", MEMORY},
    [RULE_PINNED_ANNOUNCED] = {"pinned-announced-states", MEMORY},
    [RULE_RECHECK_AFTER_ANNOUNCE] = {"recheck-after-announce", MEMORY},
    [RULE_PINNED_PUBLISHED] = {"pinned-published", MEMORY},
    [RULE_PINNED_UNPUBLISHED] = {"pinned-unpublished", MEMORY},
    [RULE_PINNED_SAVEPOINT] = {"pinned-savepoint", MEMORY},
    [RULE_PINNED_CHECKPOINT] = {"pinned-checkpoint", MEMORY},
    [RULE_PINNED_METAS] = {"pinned-durable-metas", MEMORY},
    [RULE_PIN_UNTIL_ADOPTED] = {"pin-until-adopted", MEMORY},
    [RULE_COPY_BEFORE_WRITE] = {"copy-before-write", MEMORY},
    [RULE_COPY_UNDER_SAVEPOINT] = {"copy-under-savepoint", MEMORY},
    [RULE_UNDO_RESTORES_DEATHS] = {"undo-restores-deaths", MEMORY},
    [RULE_CHECKPOINT_OF_PUBLISHED] = {"checkpoint-of-published-state", MEMORY},
    [RULE_CHECKPOINT_NEVER_GOES_BACK] = {"checkpoint-never-goes-back", OLD_READER},
    [RULE_MAP_DROPS_EARLIER_DEATHS] = {"map-drops-deaths-up-to-its-state", MEMORY},
    [RULE_MAP_KEEPS_LATER_DEATHS] = {"map-keeps-deaths-after-its-state", MEMORY},
    [RULE_RECYCLE_UNDER_SYNCED_META] = {"log-recycled-under-synced-meta", ALWAYS},
    [RULE_EPOCH_OF_LOG] = {"epoch-of-log", ALWAYS},
    [RULE_EPOCH_SYNC_BEFORE_UNKNOWN] = {"epoch-synced-before-unknown", ALWAYS},
    [RULE_FAILED_SYNC_POISONS] = {"failed-sync-poisons", ALWAYS},
    [RULE_OLDER_META_ONLY_WITH_LOG] = {"older-meta-only-with-its-log", ALWAYS},
    [RULE_SYNC_BEFORE_SERVING] = {"sync-before-serving-replay", ALWAYS},
    [RULE_REWRITE_REPLAYED_TAIL] = {"rewrite-replayed-tail", ALWAYS},
    [RULE_SYNC_META_AT_REOPEN] = {"sync-meta-at-reopen", ALWAYS},
    [RULE_REPAIR_OTHER_META] = {"repair-other-meta-at-reopen", ALWAYS},
    [RULE_MOVED_PINS_PAGES] = {"moved-reader-pins-pages", MOVED_READER},
    [RULE_MOVE_SHARES_ADOPTED] = {"move-shares-adopted-pages-only", MOVED_READER},
    [RULE_MAP_LEAVES_OUT_MOVED] = {"map-leaves-out-moved-pages", MOVED_READER},
    [RULE_SPILL_SINCE_SAVEPOINT] = {"spill-since-savepoint-only", SPILL},
    [RULE_SPILL_COPIES_OLDER] = {"spill-copies-older-slots", SPILL},
    [RULE_SPILL_CHILDREN_FIRST] = {"spill-children-first", SPILL_CRASH},
    [RULE_SPILL_OWN_STAMP] = {"spill-stamp-per-sweep", SPILL},
    [RULE_SPILLED_NOT_CHANGED] = {"spilled-page-copied-before-change", SPILL},
    [RULE_SPILLED_FREE_WHEN_DROPPED] = {"spilled-page-free-when-dropped", SPILL},
    [RULE_SPILLED_KEPT_FOR_SAVEPOINT] = {"spilled-page-kept-for-savepoint", SPILL},
    [RULE_UNDO_FREES_SPILLED] = {"rollback-frees-spilled-pages", SPILL},
    [RULE_CRASH_FREES_SPILLED] = {"crash-frees-spilled-pages", SPILL_CRASH},
    [RULE_MAP_LEAVES_OUT_FRESH] = {"map-leaves-out-later-fresh-pages", SPILL},
    [RULE_MAP_TAKES_FRESH_IN] = {"map-takes-in-fresh-pages-of-its-state", SPILL},
    [RULE_MAP_LEAVES_OUT_FRESH_DEAD] = {"map-leaves-out-fresh-pages-that-died", SPILL_READER},
    [RULE_ABANDONED_RETURNS_CLAIMS] = {"abandoned-checkpoint-returns-claims", SPILL_CRASH},
    [RULE_NO_RELINK_IN_SAVEPOINT] = {"no-relink-in-savepoint", MEMORY},
};

static double cpu_seconds(void)
{
    return (double)clock() / CLOCKS_PER_SEC;
}

/* What the complete set gave in each exploration, and all states explored. */
struct results {
    struct search_result complete[EXPLORATIONS];
    unsigned long states;
};

/* Explores with the complete set: true when no invariant fails. */
static bool run_complete(int exploration, struct results *all)
{
    struct model m = {&explorations[exploration], ~0ull};
    double begin = cpu_seconds();
    struct search_result r = search_run(&m, true);

    all->complete[exploration] = r;
    all->states += r.states;
    printf("complete set, %s: %lu states, %lu steps, depth %u, %.1f s: %s\n", m.bounds->name,
           r.states, r.steps, r.depth, cpu_seconds() - begin,
           r.broken ? r.broken : "every invariant holds");
    fflush(stdout);
    return !r.broken;
}

static bool run_complete_everywhere(struct results *all)
{
    bool passed = true;

    for (int i = 0; i < EXPLORATIONS; i++)
        passed &= run_complete(i, all);
    return passed;
}

/* Explores without the rule until an invariant fails: true when one does, and when the complete
 * set, which was explored before, passes the same exploration. */
static bool run_without(int rule, struct results *all)
{
    int exploration = rules[rule].exploration;
    const struct search_result *complete = &all->complete[exploration];
    struct model m = {&explorations[exploration], ~(1ull << rule)};
    double begin = cpu_seconds();
    struct search_result r;

    printf("without %s, %s:\n", rules[rule].name, m.bounds->name);
    r = search_run(&m, true);
    all->states += r.states;
    if (r.broken)
        printf(
            "    caught: rule %s, exploration %s: %s fails after %u steps (%lu states, %.1f s)\n",
            rules[rule].name, m.bounds->name, r.broken, r.depth, r.states, cpu_seconds() - begin);
    else
        printf("    NOT CAUGHT: rule %s, exploration %s (%lu states, %.1f s)\n", rules[rule].name,
               m.bounds->name, r.states, cpu_seconds() - begin);
    printf("    the complete set in %s: %s (%lu states)\n", m.bounds->name,
           complete->broken ? complete->broken : "every invariant holds", complete->states);
    fflush(stdout);
    return r.broken && !complete->broken;
}

static int run_all(void)
{
    unsigned required = NECESSARY_RULES + 1, passed = 0;
    struct results all = {0};

    passed += run_complete_everywhere(&all);
    for (int rule = 0; rule < NECESSARY_RULES; rule++)
        passed += run_without(rule, &all);
    printf("%lu states explored in %.1f s of processor time\n", all.states, cpu_seconds());
    printf("SUITE explorer required=%u executed=%u passed=%u failed=%u skipped=0\n", required,
           required, passed, required - passed);
    return passed != required;
}

int main(int argc, char **argv)
{
    struct results all = {0};

    if (argc == 1)
        return run_all();
    if (argc == 2 && !strcmp(argv[1], "--complete"))
        return !run_complete_everywhere(&all);
    if (argc == 2 && !strcmp(argv[1], "--list")) {
        for (int rule = 0; rule < RULES; rule++)
            puts(rules[rule].name);
        return 0;
    }
    for (int rule = 0; argc == 3 && !strcmp(argv[1], "--without") && rule < RULES; rule++)
        if (!strcmp(argv[2], rules[rule].name))
            return !(run_complete(rules[rule].exploration, &all) && run_without(rule, &all));
    fprintf(stderr, "usage: explorer [--complete | --without RULE | --list]\n");
    return 2;
}
