/*
 * engine.c - the engine's calls, and what each fault makes of them.
 *
 * Invariant: whether a fault strikes depends on the call's arguments and on what is in the store,
 * so that it strikes again when the stream is shrunk.
 */
#include "tests/lmdb/engine.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CUT_KEY     256
#define SHORT_VALUE 4000

const char *const fault_names[FAULT_COUNT] = {
#define X(name, what) #name,
    FAULTS(X)
#undef X
};

const char *const fault_texts[FAULT_COUNT] = {
#define X(name, what) what,
    FAULTS(X)
#undef X
};

/* Some keys: one in four. */
static bool chosen(struct ps_slice key)
{
    const unsigned char *bytes = key.data;
    unsigned sum = (unsigned)key.len;
    for (size_t i = 0; i < key.len; i++)
        sum = sum * 31 + bytes[i];
    return (sum ^ sum >> 7) % 4 == 0;
}

static bool is_there(struct engine *e, ps_tree tree, struct ps_slice key)
{
    struct ps_slice value;
    return ps_get(ps_txn_view(e->txn), tree, key, &value) == 0;
}

static void lose_first_entry(struct engine *e)
{
    struct ps_txn *txn;
    struct ps_cursor *c;
    struct ps_slice key;
    if (ps_begin(e->store, &txn) != 0)
        return;
    if (ps_cursor_open(ps_txn_view(txn), 0, &c) == 0) {
        if (ps_cursor_first(c) == 0 && ps_cursor_get(c, &key, NULL) == 0)
            ps_delete(txn, 0, key);
        ps_cursor_close(c);
    }
    ps_commit(txn, PS_EVERYSEC, NULL);
}

int engine_open(struct engine *e, const char *dir, const struct ps_options *options,
                struct ps_recovery *recovery, struct ps_fault *fault)
{
    int rc = ps_open(dir, options, &e->store, recovery, fault);
    if (rc == 0 && e->fault == FAULT_reopen_loses)
        lose_first_entry(e);
    return rc;
}

int engine_checkpoint(struct engine *e)
{
    if (e->fault == FAULT_crash)
        abort();
    while (e->fault == FAULT_hang)
        pause();
    return ps_checkpoint(e->store);
}

int engine_put(struct engine *e, ps_tree tree, struct ps_slice key, struct ps_slice value)
{
    if (e->fault == FAULT_lost_overwrite && chosen(key) && is_there(e, tree, key))
        return 0;
    if (e->fault == FAULT_short_value && value.len > SHORT_VALUE)
        value.len--;
    if (e->fault == FAULT_cut_key && key.len > CUT_KEY)
        key.len = CUT_KEY;
    return ps_put(e->txn, tree, key, value);
}

int engine_delete(struct engine *e, ps_tree tree, struct ps_slice key)
{
    if (e->fault == FAULT_lost_delete && chosen(key) && is_there(e, tree, key))
        return 0;
    return ps_delete(e->txn, tree, key);
}

int engine_delete_range(struct engine *e, ps_tree tree, const struct ps_slice *low,
                        const struct ps_slice *high, uint64_t most, uint64_t *deleted)
{
    int rc = ps_delete_range(e->txn, tree, low, high, most, deleted);
    if (rc == 0 && e->fault == FAULT_range_leaves && *deleted > 0)
        ps_put(e->txn, tree, *low, (struct ps_slice){"over", 4});
    return rc;
}

int engine_clear(struct engine *e, ps_tree tree)
{
    int rc = ps_clear(e->txn, tree);
    if (rc == 0 && e->fault == FAULT_clear_leaves)
        ps_put(e->txn, tree, (struct ps_slice){"left", 4}, (struct ps_slice){"over", 4});
    return rc;
}

int engine_drop(struct engine *e, ps_tree tree)
{
    return e->fault == FAULT_tree_stays ? ps_clear(e->txn, tree) : ps_tree_drop(e->txn, tree);
}

void engine_abort(struct engine *e)
{
    if (e->fault == FAULT_abort_stays)
        ps_commit(e->txn, PS_EVERYSEC, NULL);
    else
        ps_abort(e->txn);
    e->txn = NULL;
}

int engine_roll_back(struct engine *e)
{
    return e->fault == FAULT_rollback_stays ? ps_savepoint_release(e->txn)
                                            : ps_savepoint_rollback(e->txn);
}

void engine_look_again(struct engine *e, struct ps_snapshot *snap)
{
    if (e->fault == FAULT_snapshot_moves_on)
        ps_snapshot_renew(snap);
}

int engine_get(struct engine *e, struct ps_view *view, ps_tree tree, struct ps_slice key,
               struct ps_slice *value)
{
    if (e->fault == FAULT_empty_key && key.len == 0)
        return PS_NOTFOUND;
    return ps_get(view, tree, key, value);
}

int engine_get_part(struct engine *e, struct ps_view *view, ps_tree tree, struct ps_slice key,
                    uint64_t offset, size_t len, struct ps_slice *part, uint64_t *whole)
{
    return ps_get_part(view, tree, key, offset + (e->fault == FAULT_wrong_part), len, part, whole);
}

int engine_count(struct engine *e, struct ps_view *view, ps_tree tree, uint64_t *count)
{
    int rc = ps_count(view, tree, count);
    if (rc == 0 && e->fault == FAULT_wrong_count && *count > 50)
        ++*count;
    return rc;
}

int engine_rank(struct engine *e, struct ps_view *view, ps_tree tree, struct ps_slice key,
                uint64_t *rank)
{
    int rc = ps_rank(view, tree, key, rank);
    if (rc == 0 && e->fault == FAULT_wrong_rank && *rank > 20)
        --*rank;
    return rc;
}

int engine_bounds(struct engine *e, struct ps_cursor *c, const struct ps_slice *low,
                  const struct ps_slice *high)
{
    unsigned char longer[1024] = {0};
    struct ps_slice end = {longer, 0};
    if (e->fault != FAULT_range_end || !high || high->len >= sizeof longer)
        return ps_cursor_bounds(c, low, high);
    if (high->len > 0)
        memcpy(longer, high->data, high->len);
    end.len = high->len + 1;
    return ps_cursor_bounds(c, low, &end);
}

int engine_seek(struct engine *e, struct ps_cursor *c, struct ps_slice key, enum ps_seek how)
{
    int rc = ps_cursor_seek(c, key, how);
    if (rc == 0 && e->fault == FAULT_wrong_neighbour && how == PS_GE) {
        struct ps_slice found = {0};
        if (ps_cursor_get(c, &found, NULL) == 0 &&
            (found.len != key.len || (key.len > 0 && memcmp(found.data, key.data, key.len) != 0)))
            rc = ps_cursor_next(c);
    }
    return rc;
}

int engine_select(struct engine *e, struct ps_cursor *c, uint64_t rank)
{
    return ps_cursor_select(c, rank - (e->fault == FAULT_select_off && rank > 10));
}

int engine_prev(struct engine *e, struct ps_cursor *c)
{
    int rc = ps_cursor_prev(c);
    struct ps_slice key;
    if (rc == 0 && e->fault == FAULT_prev_skips && ps_cursor_get(c, &key, NULL) == 0 && chosen(key))
        rc = ps_cursor_prev(c);
    return rc;
}
