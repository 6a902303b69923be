/*
 * rules.h - the barriers and rules that keep the engine right, by name, so that a test can leave
 * one out and see that it notices.
 *
 * Where the engine keeps a rule it asks `ps_rule(RULE_...)`. That is the constant true, and costs
 * nothing, but in the build for such tests (make RULES=1): there it is false for a rule that was
 * left out. What the code does then is what somebody would have written who did not know the rule;
 * it may lose data, stop at an assertion, or crash.
 *
 * Names are those of the explorer (tests/explorer) where it has the rule. Rules of its that have no
 * place here, because the structure of the code keeps them, are in README.md.
 *
 * Threads: ps_rules_leave_out() before any store is opened; the rest any.
 */
#ifndef PANDO_STORAGE_RULES_H
#define PANDO_STORAGE_RULES_H

#include <stdbool.h>

/* RULE_..., name, what it says. */
#define PS_RULES(X)                                                                            \
    X(DATA_SYNC_BEFORE_META, "data-sync-before-meta",                                          \
      "a checkpoint's pages are on the device before a meta names them")                       \
    X(META_AFTER_META, "first-meta-synced-before-second",                                      \
      "the first meta is on the device before the second is written")                          \
    X(SECOND_META_BEFORE_REUSE, "second-meta-before-reuse",                                    \
      "pages of the meta before are reused only when both metas name the new state")           \
    X(META_CHECKSUM, "meta-checksum", "a meta counts only if its checksum matches")            \
    X(LOG_SYNC_BEFORE_ACK, "log-sync-before-ack",                                              \
      "at `always` a record is on the device before its commit is acknowledged")               \
    X(LOG_THROUGH_CHECKPOINT, "log-through-checkpoint-state-first",                            \
      "the log is durable through a state before a checkpoint of it is made")                  \
    X(LOG_FLUSHED_BEFORE_NONE, "log-flushed-before-none",                                      \
      "the log is durable before commits go on without one")                                   \
    X(CHECKPOINT_BEFORE_LOGGING, "checkpoint-before-logging",                                  \
      "what was committed without a log is in a checkpoint before there is a log again")       \
    X(RECYCLE_UNDER_SYNCED_META, "log-recycled-under-synced-meta",                             \
      "log segments go only under metas that are synced")                                      \
    X(EPOCH_OF_LOG, "epoch-of-log",                                                            \
      "a record counts only in its epoch, and behind the record whose CRC it names")           \
    X(RECORD_CHECKSUM, "record-checksum", "a record counts only if its checksum matches")      \
    X(COMPLETE_COMMITS, "complete-commits-only",                                               \
      "a commit counts only with its last piece, from its first on")                           \
    X(ABANDONED_PIECES, "abandoned-pieces-end-epoch",                                          \
      "pieces of a transaction that did not commit are ended by a new epoch")                  \
    X(MARKS_OF_SAVEPOINTS, "marks-of-savepoints",                                              \
      "what was rolled back after it had gone to the log is marked as such")                   \
    X(EPOCH_ENDS_BEFORE, "epoch-ends-the-one-before",                                          \
      "what an epoch holds beyond where the next one says it ended is dead")                   \
    X(EPOCH_SYNC_BEFORE_UNKNOWN, "epoch-synced-before-unknown",                                \
      "a new epoch is durable before anybody hears that commits were dropped")                 \
    X(SEGMENT_START_WIPED, "segment-start-wiped",                                              \
      "a recycled segment's header and first record are zeros, durably, before it is renamed") \
    X(SEGMENT_NAME_SYNCED, "segment-name-synced",                                              \
      "a segment's name is durable before anything is written to it")                          \
    X(FAILED_SYNC_POISONS, "failed-sync-poisons", "a sync that failed is never tried again")   \
    X(OLDER_META_WITH_LOG, "older-meta-only-with-its-log",                                     \
      "a meta counts only if the log still begins at its position")                            \
    X(SYNC_BEFORE_SERVING, "sync-before-serving-replay",                                       \
      "what the log is replayed from is on the device before it is served")                    \
    X(REWRITE_REPLAYED_TAIL, "rewrite-replayed-tail",                                          \
      "what will be replayed is written again before it is synced")                            \
    X(SYNC_META_AT_REOPEN, "sync-meta-at-reopen",                                              \
      "metas that were found are written again and synced before anything relies on them")     \
    X(REPAIR_OTHER_META, "repair-other-meta-at-reopen",                                        \
      "the other meta is made equal before anything is allocated")                             \
    X(TAKEN_META_FIRST, "taken-meta-first-at-reopen",                                          \
      "the meta that was taken is written again before the other one")                         \
    X(DAMAGED_META_FIRST, "damaged-meta-first-at-reopen",                                      \
      "but if the other one is damaged, that comes first")                                     \
    X(STAMPS_JUMP, "stamps-jump-at-reopen", "stamps are never used twice, across crashes too") \
    X(DIRECTORY_SYNCED, "directory-synced",                                                    \
      "the names of a new store and of its directory are durable before it is served")         \
    X(DEATHS_PASSED_TO_PAGES, "deaths-passed-to-pages",                                        \
      "a slot that died while its page was written passes its death on to the page")           \
    X(RELINK_KEEPS_PAGE, "relink-keeps-page", "relinking ends a slot's life, not its image's") \
    X(NO_RELINK_IN_SAVEPOINT, "no-relink-in-savepoint",                                        \
      "nothing is relinked while a savepoint is open")                                         \
    X(PINNED_ANNOUNCED, "pinned-announced-states",                                             \
      "what a reader's announced state sees is not reused")                                    \
    X(RECHECK_AFTER_ANNOUNCE, "recheck-after-announce",                                        \
      "a reader looks once more at what is published after it has announced")                  \
    X(PINNED_CHECKPOINT, "pinned-checkpoint", "a checkpoint pins the state that it writes")    \
    X(PIN_UNTIL_ADOPTED, "pin-until-adopted",                                                  \
      "a checkpoint's pin is held until slots have adopted their pages")                       \
    X(PINNED_METAS, "pinned-durable-metas", "pages of both metas' states are not reused")      \
    X(PINNED_SAVEPOINT, "pinned-savepoint",                                                    \
      "what a savepoint's state sees is not reused by its transaction")                        \
    X(COPY_BEFORE_WRITE, "copy-before-write", "a published page is copied, never written")     \
    X(COPY_UNDER_SAVEPOINT, "copy-under-savepoint",                                            \
      "a page from before a savepoint is copied, not written")                                 \
    X(UNDO_RESTORES_DEATHS, "undo-restores-deaths",                                            \
      "what an undone transaction dropped is alive again")                                     \
    X(CHECKPOINT_OF_PUBLISHED, "checkpoint-of-published-state",                                \
      "a checkpoint is made of a state that is published")                                     \
    X(MAP_DROPS_EARLIER_DEATHS, "map-drops-deaths-up-to-its-state",                            \
      "a space map leaves out what had died when its state was made")                          \
    X(MAP_KEEPS_LATER_DEATHS, "map-keeps-deaths-after-its-state",                              \
      "a space map keeps what died after its state was made")                                  \
    X(MAP_TAKES_FRESH, "map-takes-pages-of-transactions",                                      \
      "a space map has the pages that transactions took before its state")                     \
    X(RUNS_BEFORE_PUBLICATION, "runs-written-before-published",                                \
      "long values are in the file before their commit is published")                          \
    X(RUNS_GIVEN_UP, "runs-given-up-before-reuse",                                             \
      "what is still to be written of a run is given up before its pages are free")            \
    X(SPILL_SINCE_SAVEPOINT, "spill-since-savepoint-only",                                     \
      "only pages born since the innermost savepoint are spilled")                             \
    X(MOVED_PINS_PAGES, "moved-reader-pins-pages",                                             \
      "a reader that moved to the file goes on pinning pages of the file")                     \
    X(MAP_LEAVES_OUT_MOVED, "map-leaves-out-moved-pages",                                      \
      "no space map has the pages that were written for a reader that moved")                  \
    X(LOG_SPACE_RESERVED, "log-space-reserved",                                                \
      "there is room in the log for a transaction before it executes")                         \
    X(FILE_SPACE_RESERVED, "file-space-reserved",                                              \
      "there is a place in the file for every dirty page")                                     \
    X(CUT_AFTER_METAS, "file-cut-after-metas",                                                 \
      "the file is cut off when both metas say that it is so short")                           \
    X(DURABLE_MARKS, "durable-marks",                                                          \
      "records say what was durable, so that damage is told from a torn tail")

enum ps_rule {
#define PS_RULE_ENUM(rule, name, text) RULE_##rule,
    PS_RULES(PS_RULE_ENUM)
#undef PS_RULE_ENUM
        RULES
};

#ifdef PS_RULES_CAN_BREAK
bool ps_rule(enum ps_rule rule);
/* From now on this rule is left out; with RULES none is. The environment variable PS_WITHOUT names
 * one for programs that know nothing of this. */
void ps_rules_leave_out(enum ps_rule rule);
#else
#define ps_rule(rule) true
#endif

/* NULL after the last one. */
const char *ps_rule_name(unsigned rule);
const char *ps_rule_text(unsigned rule);

#endif
