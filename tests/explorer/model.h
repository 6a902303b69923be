/*
 * The world of the explorer: one small value that holds a whole abstract store (arena slots, file
 * pages, log, metas, states, readers, checkpoint) and the ghost facts the invariants are about.
 *
 * Invariants of this representation:
 *  1. struct world consists of bytes only, so that it has no padding and can be hashed and
 * compared.
 *  2. Every stamp in it is replaced by its rank after each step (world_canonical): only the order
 * of stamps matters, and equal situations become equal bytes.
 *  3. A place that is free holds no content. Freeing a page destroys it at once, in the cache and
 * on the disk: the earliest moment an overwriting could come.
 *  4. Nothing reads the ghost fields (history beyond the log buffer, acked_*) to decide a step.
 */
#ifndef EXPLORER_MODEL_H
#define EXPLORER_MODEL_H

#include <stdbool.h>
#include <stdint.h>

enum {
    KEYS = 2,
    SLOTS = 9,
    PAGES = 11,
    SEQS = 6,
    QUEUE = 3,
    READERS = 2,
    NONE = 0xff,
    PAGE_TAG = 0x40
};

enum rule {
    RULE_DATA_SYNC_BEFORE_META,
    RULE_LOG_SYNC_BEFORE_ACK,
    RULE_LOG_THROUGH_CHECKPOINT,
    RULE_SECOND_META_BEFORE_REUSE,
    RULE_DEATHS_PASSED_TO_PAGES,
    RULE_RELINK_KEEPS_PAGE,
    RULE_PINNED_ANNOUNCED,
    RULE_RECHECK_AFTER_ANNOUNCE,
    RULE_PINNED_PUBLISHED,
    RULE_PINNED_UNPUBLISHED,
    RULE_PINNED_SAVEPOINT,
    RULE_PINNED_CHECKPOINT,
    RULE_PINNED_METAS,
    RULE_PIN_UNTIL_ADOPTED,
    RULE_COPY_BEFORE_WRITE,
    RULE_COPY_UNDER_SAVEPOINT,
    RULE_UNDO_RESTORES_DEATHS,
    RULE_CHECKPOINT_OF_PUBLISHED,
    RULE_CHECKPOINT_NEVER_GOES_BACK,
    RULE_MAP_DROPS_EARLIER_DEATHS,
    RULE_MAP_KEEPS_LATER_DEATHS,
    RULE_RECYCLE_UNDER_SYNCED_META,
    RULE_EPOCH_OF_LOG,
    RULE_EPOCH_SYNC_BEFORE_UNKNOWN,
    RULE_FAILED_SYNC_POISONS,
    RULE_OLDER_META_ONLY_WITH_LOG,
    RULE_SYNC_BEFORE_SERVING,
    RULE_REWRITE_REPLAYED_TAIL,
    RULE_SYNC_META_AT_REOPEN,
    RULE_REPAIR_OTHER_META,
    RULE_MOVED_PINS_PAGES,
    RULE_MOVE_SHARES_ADOPTED,
    RULE_MAP_LEAVES_OUT_MOVED,
    RULE_SPILL_SINCE_SAVEPOINT,
    RULE_SPILL_COPIES_OLDER,
    RULE_SPILL_CHILDREN_FIRST,
    RULE_SPILL_OWN_STAMP,
    RULE_SPILLED_NOT_CHANGED,
    RULE_SPILLED_FREE_WHEN_DROPPED,
    RULE_SPILLED_KEPT_FOR_SAVEPOINT,
    RULE_UNDO_FREES_SPILLED,
    RULE_CRASH_FREES_SPILLED,
    RULE_MAP_LEAVES_OUT_FRESH,
    RULE_MAP_TAKES_FRESH_IN,
    RULE_MAP_LEAVES_OUT_FRESH_DEAD,
    RULE_ABANDONED_RETURNS_CLAIMS,
    NECESSARY_RULES,
    RULE_NO_RELINK_IN_SAVEPOINT = NECESSARY_RULES,
    RULES
};

/* What one exploration allows: the level, and how often each kind of event may happen. */
struct bounds {
    const char *name;
    bool everysec;
    uint8_t readers;
    uint8_t writes;
    uint8_t units;
    uint8_t spills; /* sweeps; with any, units open their savepoint when they like */
    uint8_t reads;
    uint8_t moves;
    uint8_t checkpoints;
    uint8_t crashes;
    uint8_t damages;
    uint8_t write_failures;
    uint8_t sync_failures;
};

/* The rules in force (a set of 1 << enum rule) and the bounds of this exploration. */
struct model {
    const struct bounds *bounds;
    uint64_t rules;
};

static inline bool holds(const struct model *m, enum rule rule)
{
    return (m->rules >> rule) & 1;
}

enum node_kind { NODE_FREE, NODE_LEAF, NODE_ROOT, NODE_MAP };

/* A page's content. Leaf: item[0] is the value. Root: item are child pointers, born their births.
 * Map: item are the 16 bits of allocated pages. */
struct node {
    uint8_t kind;
    uint8_t birth;
    uint8_t item[KEYS];
    uint8_t born[KEYS];
};

/* A state's descriptor. value is ghost: what a reader of this state must find. */
struct desc {
    uint8_t stamp;
    uint8_t seq;
    uint8_t root;
    uint8_t root_birth;
    uint8_t value[KEYS];
};

struct meta {
    uint8_t valid;
    uint8_t map;
    struct desc state;
};

/* A log record: 0 means that the key is not written by this group; epoch 0 means no record. */
struct record {
    uint8_t epoch;
    uint8_t value[KEYS];
};

/* What the space map knows of a page: it has it (or will, by births and deaths); a transaction took
 * it and no map knows; the running checkpoint takes it in; none ever will (a broken rule). */
enum fresh { FRESH_NOT, FRESH_LISTED, FRESH_CLAIMED, FRESH_FORGOTTEN };

enum phase { PHASE_UP, PHASE_DOWN, PHASE_CHOSEN, PHASE_REPAIRED, PHASE_REFUSED };
enum reader_pc { READER_IDLE, READER_LOADED, READER_ANNOUNCED, READER_READING };
enum checkpoint_pc {
    CHECKPOINT_NONE,
    CHECKPOINT_PINNED,
    CHECKPOINT_WRITTEN,
    CHECKPOINT_SYNCED,
    CHECKPOINT_META1_WRITTEN,
    CHECKPOINT_META1_SYNCED,
    CHECKPOINT_META2_WRITTEN,
    CHECKPOINT_META2_SYNCED
};

struct world {
    uint8_t phase;
    uint8_t stamp;

    struct node slot[SLOTS];
    uint8_t slot_death[SLOTS];
    uint8_t slot_page[SLOTS];

    /* page: as the operating system shows it; page_disk: what a power loss leaves. */
    struct node page[PAGES];
    struct node page_disk[PAGES];
    uint8_t page_used[PAGES];
    uint8_t page_birth[PAGES];
    uint8_t page_death[PAGES];
    uint8_t page_fresh[PAGES];
    uint8_t page_swept[PAGES]; /* ghost: birth of what the open transaction last wrote there */
    uint8_t written_twice;     /* ghost: a place, with the same birth */
    uint8_t page_owner[PAGES]; /* 1 + the reader that moved and has it for itself; 0: none */

    struct desc published;
    struct desc queue[QUEUE];
    uint8_t queued;

    uint8_t txn_open;
    uint8_t txn_start;
    uint8_t txn_value[KEYS];
    struct desc txn;
    uint8_t savepoint_open;
    uint8_t savepoint_value[KEYS];
    struct desc savepoint;

    uint8_t reader_pc[READERS];
    struct desc reader[READERS];
    uint8_t reader_moved[READERS]; /* sees pages of the file alone */

    struct record log[SEQS];
    struct record log_disk[SEQS];
    uint8_t log_lost[SEQS];
    uint8_t epoch;
    uint8_t epoch_start;
    uint8_t epoch_disk;
    uint8_t epoch_start_disk;
    uint8_t log_begin;
    uint8_t log_written;
    uint8_t log_synced;
    uint8_t log_failed;
    uint8_t poisoned;

    uint8_t checkpoint_pc;
    struct desc checkpoint;
    uint8_t checkpoint_page[SLOTS];
    uint8_t checkpoint_root;
    uint8_t checkpoint_map;

    struct meta meta[2];
    struct meta meta_disk[2];
    uint8_t chosen;

    /* Records of the current line of history by sequence (also the writer's log buffer), how many,
     * and what has been acknowledged as surviving a power loss and a dead process. */
    uint8_t history[SEQS][KEYS];
    uint8_t history_len;
    uint8_t acked_device;
    uint8_t acked_system;

    uint8_t used_writes;
    uint8_t used_units;
    uint8_t used_spills;
    uint8_t used_savepoints;
    uint8_t used_reads;
    uint8_t used_moves;
    uint8_t used_checkpoints;
    uint8_t used_crashes;
    uint8_t used_damages;
    uint8_t used_write_failures;
    uint8_t used_sync_failures;
};

enum action_kind {
    ACT_EXECUTE,
    ACT_UNIT_OPEN,
    ACT_UNIT_WRITE,
    ACT_UNIT_SPILL,
    ACT_UNIT_SAVEPOINT,
    ACT_UNIT_ROLLBACK,
    ACT_UNIT_COMMIT,
    ACT_RELINK,
    ACT_LOG_WRITE,
    ACT_LOG_SYNC,
    ACT_PUBLISH,
    ACT_LOG_FAIL,
    ACT_LOG_EPOCH,
    ACT_SYNC_FAIL,
    ACT_LOG_RECYCLE,
    ACT_READER_LOAD,
    ACT_READER_ANNOUNCE,
    ACT_READER_CHECK,
    ACT_READER_MOVE,
    ACT_READER_WITHDRAW,
    ACT_CHECKPOINT_START,
    ACT_CHECKPOINT_STEP,
    ACT_CHECKPOINT_ABANDON,
    ACT_KILL,
    ACT_POWER_LOSS,
    ACT_REOPEN_CHOOSE,
    ACT_REOPEN_REPAIR,
    ACT_REOPEN_SERVE,
    ACTIONS
};

/* The outcome of a step. STEP_BROKEN: the step itself violates an invariant, named in *broken. */
enum step_result { STEP_DISABLED, STEP_DONE, STEP_BROKEN };

/* world.c: places, pins, reuse. */
void world_format(struct world *w);
void world_canonical(struct world *w);
const struct node *world_node(const struct world *w, uint8_t pointer);
const struct desc *world_head(const struct world *w);
uint8_t world_take_slot(struct world *w);
uint8_t world_take_page(struct world *w, uint8_t birth);
int world_free_slots(const struct world *w);
int world_free_pages(const struct world *w);
void world_free_slot(struct world *w, uint8_t slot);
void world_free_page(struct world *w, uint8_t page);
void world_free_owned(struct world *w, unsigned reader);
void world_kill(struct world *w, uint8_t pointer, uint8_t death);
void world_undo(struct world *w, const struct model *m, uint8_t stamp);
void world_reuse(struct world *w, const struct model *m);

/* The open transaction writes a place that it took; the ghosts remember. */
void world_sweep_page(struct world *w, uint8_t page);
void world_forget_sweeps(struct world *w);

/* writer.c, spill.c, log.c, checkpoint.c, crash.c: steps. arg's meaning depends on the kind. */
bool writer_step(struct world *w, const struct model *m, enum action_kind kind, unsigned arg);
bool unit_savepoint(struct world *w, const struct model *m);
bool spill_step(struct world *w, const struct model *m, unsigned arg);
/* The open transaction's stamp after which births are its own to change. */
uint8_t spill_floor(const struct world *w, bool since_savepoint);
/* The transaction drops what a pointer leads to: what it spilled itself is free at once. */
void spill_drop(struct world *w, const struct model *m, uint8_t pointer, uint8_t death);
bool reader_step(struct world *w, const struct model *m, enum action_kind kind, unsigned arg);
bool log_step(struct world *w, const struct model *m, enum action_kind kind);
/* Ghost: a published state is acknowledged; at everysec it is on the device once synced. */
void log_acknowledge(struct world *w, const struct model *m);
bool log_record_valid(const struct world *w, const struct model *m, uint8_t seq);
bool checkpoint_step(struct world *w, const struct model *m, enum action_kind kind, unsigned arg);
unsigned crash_choices(const struct world *w, const struct model *m, enum action_kind kind);
bool crash_step(struct world *w, const struct model *m, enum action_kind kind, unsigned arg);
enum step_result reopen_step(struct world *w, const struct model *m, enum action_kind kind,
                             const char **broken);

/* step.c: every step by kind; how many arguments a kind has here; a sentence that describes it. */
unsigned step_arguments(const struct world *w, const struct model *m, enum action_kind kind);
enum step_result step_apply(struct world *w, const struct model *m, enum action_kind kind,
                            unsigned arg, const char **broken);
void step_describe(const struct world *after, enum action_kind kind, unsigned arg, char *text,
                   unsigned size);

/* check.c: the invariants of every state: NULL or the name of the one that fails. */
uint16_t check_reachable_pages(const struct node *pages, uint8_t root);
bool check_meta_intact(const struct world *w, const struct node *pages, const struct meta *meta);
const char *check_world(const struct world *w);

/* search.c */
struct search_result {
    const char *broken;
    unsigned long states;
    unsigned long steps;
    unsigned depth;
};
struct search_result search_run(const struct model *m, bool print_trace);

#endif
