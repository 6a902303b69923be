/*
 * engine.h - the engine's calls as the comparison makes them, with a place for faults.
 *
 * A fault is one small lie of the kind that a real defect would tell. Without one (FAULT_none, all
 * runs but those of the self-test) every function here is the call that it is named after.
 */
#ifndef PANDO_TESTS_LMDB_ENGINE_H
#define PANDO_TESTS_LMDB_ENGINE_H

#include "storage/pandostore.h"

#define FAULTS(X)                                                                \
    X(none, "nothing is wrong")                                                  \
    X(lost_delete, "a delete of some keys is answered and not done")             \
    X(lost_overwrite, "an overwrite of some keys is answered and not done")      \
    X(short_value, "a value over 4,000 bytes lacks its last byte")               \
    X(cut_key, "only the first 256 bytes of a key count")                        \
    X(empty_key, "the empty key is never found")                                 \
    X(wrong_neighbour, "a seek to a key that is not there ends one too far")     \
    X(prev_skips, "a step back over some keys takes two")                        \
    X(range_end, "the end of a range belongs to it")                             \
    X(wrong_part, "a part of a value begins one byte late")                      \
    X(wrong_count, "a count over fifty is too large by one")                     \
    X(wrong_rank, "a rank over twenty is too small by one")                      \
    X(select_off, "selecting a rank over ten stands on the one before")          \
    X(clear_leaves, "a cleared tree has an entry")                               \
    X(range_leaves, "a range that was deleted has an entry")                     \
    X(tree_stays, "a dropped tree is only emptied")                              \
    X(abort_stays, "an aborted transaction is committed")                        \
    X(rollback_stays, "a savepoint that is rolled back is released")             \
    X(snapshot_moves_on, "a held snapshot shows what was committed after it")    \
    X(reopen_loses, "the first entry of the first tree is gone after reopening") \
    X(crash, "the engine ends the process at a checkpoint")                      \
    X(hang, "a checkpoint never ends")

enum fault {
#define X(name, what) FAULT_##name,
    FAULTS(X)
#undef X
        FAULT_COUNT
};

extern const char *const fault_names[FAULT_COUNT], *const fault_texts[FAULT_COUNT];

struct engine {
    enum fault fault;
    struct ps_store *store;
    struct ps_txn *txn; /* NULL: none open */
};

int engine_open(struct engine *e, const char *dir, const struct ps_options *options,
                struct ps_recovery *recovery, struct ps_fault *fault);
int engine_checkpoint(struct engine *e);
int engine_put(struct engine *e, ps_tree tree, struct ps_slice key, struct ps_slice value);
int engine_delete(struct engine *e, ps_tree tree, struct ps_slice key);
int engine_delete_range(struct engine *e, ps_tree tree, const struct ps_slice *low,
                        const struct ps_slice *high, uint64_t most, uint64_t *deleted);
int engine_clear(struct engine *e, ps_tree tree);
int engine_drop(struct engine *e, ps_tree tree);
void engine_abort(struct engine *e);
int engine_roll_back(struct engine *e);
/* A held snapshot is going to be compared. */
void engine_look_again(struct engine *e, struct ps_snapshot *snap);

int engine_get(struct engine *e, struct ps_view *view, ps_tree tree, struct ps_slice key,
               struct ps_slice *value);
int engine_get_part(struct engine *e, struct ps_view *view, ps_tree tree, struct ps_slice key,
                    uint64_t offset, size_t len, struct ps_slice *part, uint64_t *whole);
int engine_count(struct engine *e, struct ps_view *view, ps_tree tree, uint64_t *count);
int engine_rank(struct engine *e, struct ps_view *view, ps_tree tree, struct ps_slice key,
                uint64_t *rank);
int engine_bounds(struct engine *e, struct ps_cursor *c, const struct ps_slice *low,
                  const struct ps_slice *high);
int engine_seek(struct engine *e, struct ps_cursor *c, struct ps_slice key, enum ps_seek how);
int engine_select(struct engine *e, struct ps_cursor *c, uint64_t rank);
int engine_prev(struct engine *e, struct ps_cursor *c);

#endif
