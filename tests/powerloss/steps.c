/*
 * steps.c - what a workload does: one random step after another.
 */
#include "tests/powerloss/work_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NESTED 3 /* savepoints open at once */

/* ---- transactions -----------------------------------------------------------------------------
 */

/* Commits were dropped, and we heard of it: none after `seq` may ever come back. */
static void dropped(struct work *w, uint64_t seq)
{
    const struct state *state = line_find(&w->line, seq);
    if (!w->excused || !state)
        work_failed(w, "published-state-intact",
                    "the store went back to sequence %llu, and nothing had failed",
                    (unsigned long long)seq);
    if (!recorder_say(w->rec, EV_DROPPED, seq))
        return;
    w->tally->commits_dropped += line_last(&w->line) - seq;
    line_cut(&w->line, seq);
    w->now = *state;
}

/* The numbers of the trees that a transaction sees. */
static void find_trees(struct work *w, struct ps_txn *txn, const struct state *state)
{
    for (unsigned i = 0; i < STATE_TREES; i++)
        if (state->exists[i] && ps_tree_find(ps_txn_view(txn), state_tree(i), &w->ids[i]) != 0)
            work_failed(w, "transaction-intact", "a transaction after sequence %llu lacks tree %u",
                        (unsigned long long)state->seq, i);
}

/* NULL: this life is over. */
static struct ps_txn *begin(struct work *w)
{
    struct ps_txn *txn = NULL;
    recorder_waits(w->rec, true);
    int rc = w->over ? PS_POISONED : ps_begin(w->store, &txn);
    recorder_waits(w->rec, false);
    if (rc || recorder_is_dead(w->rec)) {
        if (rc)
            work_error(w, rc, "ps_begin");
        else
            ps_abort(txn);
        w->over = true;
        return NULL;
    }
    if (ps_txn_seq(txn) <= line_last(&w->line))
        dropped(w, ps_txn_seq(txn) - 1);
    find_trees(w, txn, &w->now);
    return txn;
}

/* After a commit that was not one: what is left shows in the next transaction. */
static void look_what_is_left(struct work *w, int rc, const char *call)
{
    work_error(w, rc, call);
    if (recorder_is_dead(w->rec))
        return;
    w->over = false; /* the log may go on in a new epoch */
    struct ps_txn *txn = begin(w);
    if (txn)
        ps_abort(txn);
}

/* Ends the transaction with this state. */
static void commit_at(struct work *w, struct ps_txn *txn, struct state *state, bool wait,
                      enum ps_durability level)
{
    uint64_t seq = 0;
    state->seq = ps_txn_seq(txn);
    if (!ps_txn_changed(txn)) {
        ps_abort(txn);
        return;
    }
    const struct state *kept = states_keep(w->states, state);
    if (!recorder_commit(w->rec, kept)) {
        ps_abort(txn);
        w->over = true;
        return;
    }
    line_add(&w->line, kept);
    recorder_waits(w->rec, wait || level == PS_ALWAYS);
    int rc = wait ? ps_commit(txn, level, &seq) : ps_commit_start(txn, level, false, &seq);
    recorder_waits(w->rec, false);
    if (rc) {
        look_what_is_left(w, rc, wait ? "ps_commit" : "ps_commit_start");
        return;
    }
    if (seq != state->seq)
        work_failed(w, "calls-work", "a commit said %llu and is %llu",
                    (unsigned long long)state->seq, (unsigned long long)seq);
    w->now = *state;
    w->tally->commits++;
    w->tally->commits_not_waited_for += !wait;
    bool always = wait && (level == PS_ALWAYS || ps_get_durability(w->store) == PS_ALWAYS);
    if (always && !recorder_is_dead(w->rec))
        work_promise(w, seq);
}

static void commit(struct work *w, struct ps_txn *txn, struct state *state, bool wait)
{
    commit_at(w, txn, state, wait, (enum ps_durability)rng_below(&w->rng, 3));
}

/* ---- changes ----------------------------------------------------------------------------------
 */

static struct value new_value(struct work *w)
{
    struct value v = {.tag = (w->tags += 2) | (rng_next(&w->rng) << 32 | 1), .there = 1};
    uint64_t kind = rng_below(&w->rng, 60);
    if (w->config.shape == SHAPE_EVEN) {
        v.len = 800;
        return v;
    }
    v.len = (uint32_t)rng_between(&w->rng, 8, kind < 40 ? 120 : kind < 55 ? 1500 : 9000);
    if (w->config.long_values && kind >= (w->config.shape == SHAPE_LONG ? 50 : 59))
        v.len = (uint32_t)rng_between(&w->rng, 66000, 140000);
    return v;
}

static unsigned pick_tree(struct work *w, const struct state *s)
{
    unsigned tree = (unsigned)rng_below(&w->rng, STATE_TREES);
    for (unsigned i = 0; i < STATE_TREES && !s->exists[tree]; i++)
        tree = (tree + 1) % STATE_TREES;
    return tree;
}

static int make_tree(struct work *w, struct ps_txn *txn, struct state *s, unsigned tree)
{
    int rc = ps_tree_create(txn, state_tree(tree), &w->ids[tree]);
    if (rc == 0) {
        s->exists[tree] = 1;
        s->options[tree] = 0;
    }
    return rc;
}

static int put(struct work *w, struct ps_txn *txn, struct state *s, unsigned tree, unsigned number,
               struct value value)
{
    int rc = s->exists[tree] ? 0 : make_tree(w, txn, s, tree);
    struct ps_slice key = state_key(w->config.keys, number, w->key);
    if (rc == 0 && w->config.options)
        rc = values_put(w, txn, s, tree, key, &value);
    else if (rc == 0)
        rc = ps_put(txn, w->ids[tree], key, state_value(&value, w->value));
    if (rc == 0)
        s->at[tree][number] = value;
    return rc;
}

static int change(struct work *w, struct ps_txn *txn, struct state *s)
{
    unsigned tree = pick_tree(w, s);
    unsigned number = (unsigned)rng_below(&w->rng, w->config.numbers);
    if (w->config.shape != SHAPE_EVEN && rng_one_in(&w->rng, 3) && s->exists[tree] &&
        s->at[tree][number].there) {
        int rc = ps_delete(txn, w->ids[tree], state_key(w->config.keys, number, w->key));
        if (rc == 0)
            s->at[tree][number].there = 0;
        return rc;
    }
    return put(w, txn, s, tree, number, new_value(w));
}

/* Whether a number's key is before another's. */
static bool is_before(struct work *w, unsigned a, unsigned b)
{
    struct ps_slice x = state_key(w->config.keys, a, w->key);
    struct ps_slice y = state_key(w->config.keys, b, w->value);
    int order = memcmp(x.data, y.data, x.len < y.len ? x.len : y.len);
    return order < 0 || (order == 0 && x.len < y.len);
}

/* From one key to another, or to the end. */
static int delete_range(struct work *w, struct ps_txn *txn, struct state *s)
{
    unsigned tree = pick_tree(w, s);
    unsigned from = (unsigned)rng_below(&w->rng, w->config.numbers);
    unsigned to = (unsigned)rng_below(&w->rng, w->config.numbers);
    bool open = rng_one_in(&w->rng, 8);
    uint64_t expected = 0, deleted;
    if (!s->exists[tree])
        return 0;
    for (unsigned i = 0; i < w->config.numbers; i++) {
        if (s->at[tree][i].there && !is_before(w, i, from) && (open || is_before(w, i, to))) {
            s->at[tree][i].there = 0;
            expected++;
        }
    }
    struct ps_slice low = state_key(w->config.keys, from, w->key);
    struct ps_slice high = state_key(w->config.keys, to, w->value);
    int rc = ps_delete_range(txn, w->ids[tree], &low, open ? NULL : &high, 0, &deleted);
    if (rc == 0 && deleted != expected)
        work_error(w, PS_CORRUPT, "deleting a range: another number of entries");
    w->tally->ranges_deleted += rc == 0 && deleted > 0;
    return rc;
}

static int empty_tree(struct work *w, struct ps_txn *txn, struct state *s)
{
    unsigned tree = pick_tree(w, s);
    bool drop = rng_one_in(&w->rng, 2);
    int rc = !s->exists[tree] ? make_tree(w, txn, s, tree)
             : drop           ? ps_tree_drop(txn, w->ids[tree])
                              : ps_clear(txn, w->ids[tree]);
    if (rc == 0) {
        memset(s->at[tree], 0, sizeof s->at[tree]);
        s->exists[tree] = s->exists[tree] && !drop;
        s->options[tree] = drop ? 0 : s->options[tree];
    }
    return rc;
}

/* ---- steps with a transaction -----------------------------------------------------------------
 */

/* A change failed: with PS_BUSY and the like the transaction is given up, else the life is over. */
static void give_up(struct work *w, struct ps_txn *txn, int rc)
{
    ps_abort(txn);
    if (rc == PS_BUSY || rc == PS_TXNFULL)
        w->tally->aborts++;
    else
        look_what_is_left(w, rc, "a change");
}

static void step_commit(struct work *w)
{
    struct ps_txn *txn = begin(w);
    struct state s = w->now;
    int rc = 0;
    if (!txn)
        return;
    for (uint64_t n = w->config.shape == SHAPE_EVEN ? 1 : rng_between(&w->rng, 1, 5);
         n > 0 && rc == 0; n--)
        rc = change(w, txn, &s);
    if (rc == 0 && w->config.shape != SHAPE_EVEN && rng_one_in(&w->rng, 12))
        rc = delete_range(w, txn, &s);
    if (rc == 0 && w->config.shape != SHAPE_EVEN && rng_one_in(&w->rng, 30))
        rc = empty_tree(w, txn, &s);
    if (rc) {
        give_up(w, txn, rc);
    } else if (rng_one_in(&w->rng, 12)) {
        ps_abort(txn);
        w->tally->aborts++;
    } else {
        commit(w, txn, &s, !rng_one_in(&w->rng, 3));
    }
}

static void step_burst(struct work *w)
{
    bool many = w->config.shape == SHAPE_EVEN || w->config.shape == SHAPE_BESIDE;
    for (uint64_t n = rng_between(&w->rng, 2, many ? 14 : 6); n > 0 && !w->over; n--) {
        struct ps_txn *txn = begin(w);
        struct state s = w->now;
        int rc = txn ? change(w, txn, &s) : 0;
        if (txn && rc)
            give_up(w, txn, rc);
        else if (txn)
            commit(w, txn, &s, false);
        if (!many)
            recorder_step(w->rec);
    }
}

/* A savepoint opens, or the innermost one ends. */
static int savepoint(struct work *w, struct ps_txn *txn, struct state *s, struct state *kept,
                     unsigned *n)
{
    if (*n < NESTED && (*n == 0 || rng_one_in(&w->rng, 2))) {
        kept[*n] = *s;
        int rc = ps_savepoint(txn);
        *n += rc == 0;
        return rc;
    }
    if (rng_one_in(&w->rng, 2)) {
        (*n)--;
        return ps_savepoint_release(txn);
    }
    *s = kept[--*n];
    w->tally->savepoints_rolled_back++;
    int rc = ps_savepoint_rollback(txn);
    if (rc == 0)
        find_trees(w, txn, s);
    return rc;
}

/* A transaction of many changes: larger than memory, with savepoints, in pieces in the log. */
static void step_bulk(struct work *w)
{
    struct ps_txn *txn = begin(w);
    struct state *s = malloc((NESTED + 1) * sizeof *s);
    unsigned open = 0;
    int rc = 0;
    if (!s)
        abort();
    *s = w->now;
    if (txn && rng_one_in(&w->rng, 2))
        ps_keep_whole(txn);
    recorder_waits(w->rec, rng_one_in(&w->rng, 2));
    uint64_t most = w->config.slots >= 500 ? 350 : 150;
    for (uint64_t n = txn ? rng_between(&w->rng, 30, most) : 0; n > 0 && rc == 0; n--) {
        struct value v = new_value(w);
        v.len = v.len < 60000 ? v.len + (uint32_t)rng_below(&w->rng, 2500) : v.len;
        if (rng_one_in(&w->rng, 25))
            rc = savepoint(w, txn, s, s + 1, &open);
        else
            rc =
                put(w, txn, s, pick_tree(w, s), (unsigned)rng_below(&w->rng, w->config.numbers), v);
    }
    recorder_waits(w->rec, false);
    if (txn && rc)
        give_up(w, txn, rc);
    else if (txn && rng_one_in(&w->rng, 4))
        ps_abort(txn);
    else if (txn)
        commit(w, txn, s, !rng_one_in(&w->rng, 4));
    free(s);
}

/* ---- other steps ------------------------------------------------------------------------------
 */

static void step_checkpoint(struct work *w)
{
    if (w->config.shape == SHAPE_BESIDE || rng_one_in(&w->rng, 2)) {
        work_checkpoint_beside(w);
        return;
    }
    work_join(w);
    recorder_waits(w->rec, true);
    int rc = ps_checkpoint(w->store);
    recorder_waits(w->rec, false);
    if (rc)
        work_error(w, rc, "ps_checkpoint");
}

static void step_shrink(struct work *w)
{
    uint64_t freed = 0;
    work_join(w);
    recorder_waits(w->rec, true);
    int rc = ps_shrink(w->store, NULL, &freed);
    recorder_waits(w->rec, false);
    w->tally->files_cut_off += freed > 0;
    if (rc && rc != PS_TXNFULL) /* snapshots hold the memory for it */
        work_error(w, rc, "ps_shrink");
}

static void step_flush(struct work *w)
{
    uint64_t seq = line_last(&w->line);
    recorder_waits(w->rec, true);
    int rc = ps_flush(w->store, seq);
    recorder_waits(w->rec, false);
    if (rc)
        look_what_is_left(w, rc, "ps_flush");
    else if (!recorder_is_dead(w->rec))
        work_promise(w, seq);
}

static bool set_level(struct work *w, enum ps_durability level)
{
    recorder_waits(w->rec, true);
    int rc = w->over ? 0 : ps_set_durability(w->store, level);
    recorder_waits(w->rec, false);
    if (rc)
        work_error(w, rc, "ps_set_durability");
    return rc == 0 && !w->over;
}

/* One put of so many bytes, which nobody waits for a device with. */
static void commit_bytes(struct work *w, uint32_t bytes)
{
    struct ps_txn *txn = begin(w);
    struct state s = w->now;
    struct value value = new_value(w);
    value.len = bytes;
    int rc = txn ? put(w, txn, &s, pick_tree(w, &s), 1, value) : 0;
    if (txn && rc)
        give_up(w, txn, rc);
    else if (txn)
        commit_at(w, txn, &s, true, PS_NONE);
}

/* Another level; or the log ends in a segment that was not synced, and a checkpoint follows without
 * a log. */
static void step_level(struct work *w)
{
    if (rng_one_in(&w->rng, 2)) {
        set_level(w, (enum ps_durability)rng_below(&w->rng, 3));
        return;
    }
    if (set_level(w, PS_EVERYSEC))
        commit_bytes(w, w->config.segment < 60000 ? (uint32_t)w->config.segment : 60000);
    if (set_level(w, PS_NONE))
        commit_bytes(w, 100);
    if (w->over)
        return;
    work_join(w);
    recorder_waits(w->rec, true);
    int rc = w->over ? 0 : ps_checkpoint(w->store);
    recorder_waits(w->rec, false);
    if (rc)
        work_error(w, rc, "ps_checkpoint");
}

static void step_kill(struct work *w)
{
    if (w->config.kills)
        recorder_kill_after(w->rec,
                            (unsigned)rng_between(&w->rng, 1, rng_one_in(&w->rng, 2) ? 8 : 40));
}

static void step_failure(struct work *w)
{
    static const enum failure kinds[] = {FAIL_LOG_WRITE, FAIL_LOG_WRITE, FAIL_LOG_SYNC,
                                         FAIL_LOG_SYNC, FAIL_DATA_SYNC};
    if (!w->config.failures || w->excused)
        return;
    w->excused = true;
    recorder_fail(w->rec, kinds[rng_below(&w->rng, 5)], (unsigned)rng_between(&w->rng, 1, 3));
}

void work_reopen(struct work *w)
{
    bool checkpoint = rng_one_in(&w->rng, 2);
    uint64_t low;
    if (w->excused || recorder_is_dead(w->rec))
        return;
    low = checkpoint || ps_get_durability(w->store) != PS_NONE ? line_last(&w->line)
                                                               : w->line.promised;
    work_close(w, checkpoint);
    if (recorder_is_dead(w->rec)) {
        recorder_revive(w->rec);
        low = w->system > w->line.promised ? w->system : w->line.promised;
    } else {
        w->tally->clean_reopenings++;
    }
    work_open(w, low);
}

/* A slot that a reader holds is one that the writer, this very thread, may have to wait for: so
 * where there are few it goes to the file at once. */
static void step_snapshot(struct work *w)
{
    struct held *held = &w->held[rng_below(&w->rng, WORK_HELD)];
    int rc = 0;
    if (!w->config.snapshots || held->snap) {
        work_release(w, held);
        return;
    }
    if (ps_snapshot_new(w->store, &held->snap) != 0)
        abort();
    recorder_waits(w->rec, true);
    bool pin = rng_one_in(&w->rng, 3);
    if (pin)
        rc = ps_snapshot_pin(held->snap);
    else
        ps_snapshot_renew(held->snap);
    held->state = line_find(&w->line, ps_snapshot_seq(held->snap));
    if (rc == 0 && !pin && (w->config.slots < 500 || rng_one_in(&w->rng, 3)))
        rc = ps_snapshot_move(held->snap);
    recorder_waits(w->rec, false);
    w->tally->snapshots_pinned += pin && rc == 0;
    w->tally->snapshots_moved += !pin && rc == 0;
    if (rc || !held->state) {
        ps_snapshot_free(held->snap);
        held->snap = NULL;
        if (rc)
            work_error(w, rc, "moving a snapshot to the file");
    }
}

static const struct step {
    void (*run)(struct work *w);
    unsigned weight;
} steps[] = {
    {step_commit, 40}, {step_burst, 12},   {step_checkpoint, 12}, {step_bulk, 12},
    {step_flush, 4},   {step_level, 8},    {step_kill, 4},        {step_failure, 4},
    {work_reopen, 2},  {step_snapshot, 8}, {step_shrink, 5},
};

#define STEPS (sizeof steps / sizeof *steps)

static const struct step *pick_step(struct work *w)
{
    unsigned sum = 0;
    for (size_t i = 0; i < STEPS; i++)
        sum += steps[i].weight;
    unsigned at = (unsigned)rng_below(&w->rng, sum);
    const struct step *step = steps;
    for (; at >= step->weight; step++)
        at -= step->weight;
    return step;
}

/* A call failed as ordered: until it is known what became of it, errors are no surprise. */
static void settle_failure(struct work *w, enum failure failure)
{
    if (failure == FAIL_NOTHING)
        return;
    w->tally->log_writes_failed += failure == FAIL_LOG_WRITE;
    w->tally->log_syncs_failed += failure == FAIL_LOG_SYNC;
    w->tally->data_syncs_failed += failure == FAIL_DATA_SYNC;
    work_join(w);
    recorder_waits(w->rec, true);
    (void)ps_flush(w->store, line_last(&w->line));
    recorder_waits(w->rec, false);
    struct ps_txn *txn = begin(w);
    if (!txn)
        return;
    ps_abort(txn);
    w->excused = rng_one_in(&w->rng, 3); /* and the next one at once */
    if (w->excused)
        recorder_fail(w->rec, FAIL_LOG_WRITE, 1);
}

static void move_if_asked(struct work *w, bool all)
{
    for (unsigned i = 0; i < WORK_HELD; i++) {
        struct held *held = &w->held[i];
        if (!held->snap || !(all || ps_snapshot_should_move(held->snap)))
            continue;
        recorder_waits(w->rec, true);
        int rc = ps_snapshot_move(held->snap);
        recorder_waits(w->rec, false);
        w->tally->snapshots_moved += rc == 0;
        if (rc) {
            ps_snapshot_free(held->snap);
            held->snap = NULL;
            work_error(w, rc, "ps_snapshot_move");
        }
    }
}

void work_steps(struct work *w, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        const struct step *step = pick_step(w);
        if ((step->run == step_bulk && !w->config.bulk) ||
            (step->run == step_level && !w->config.levels))
            step = &steps[0];
        move_if_asked(w, step->run == step_bulk);
        if (!w->over)
            step->run(w);
        work_observe(w);
        recorder_step(w->rec);
        settle_failure(w, recorder_failed(w->rec));
        if (recorder_is_dead(w->rec) || w->over) {
            w->tally->kills += recorder_is_dead(w->rec);
            work_next_life(w);
        }
    }
}
