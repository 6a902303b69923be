/*
 * store.c - opening, closing, crashing and damaging the life of the round's store.
 *
 * Invariants:
 *  1. What a crash copy holds is a state between must_survive() at the time it was ordered and the
 *     last commit started when it was found.
 *  2. A store that was closed without a crash comes back with its last commit, unless its level
 *     was `none` and no checkpoint was made.
 */
#include "tests/model/round.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

void round_published(void *arg, uint64_t seq, int rc)
{
    struct round *r = arg;
    pthread_mutex_lock(&r->mutex);
    if (rc) {
        r->told_failure = true;
    } else {
        r->told_backwards |= seq < r->told_published;
        r->told_published = seq;
    }
    pthread_cond_broadcast(&r->changed);
    pthread_mutex_unlock(&r->mutex);
}

/* Waits until everything started is published and said to be. */
void wait_published(struct round *r)
{
    round_must(r, ps_flush(r->store, r->last_seq), "ps_flush");
    pthread_mutex_lock(&r->mutex);
    while (r->told_published < r->last_seq && !r->told_failure)
        pthread_cond_wait(&r->changed, &r->mutex);
    bool failed = r->told_failure;
    pthread_mutex_unlock(&r->mutex);
    if (failed)
        round_fail(r, "on_publish said that the log failed");
    if (ps_published(r->store) != r->last_seq)
        round_fail(r, "after everything was flushed %llu is published, not %llu",
                   (unsigned long long)ps_published(r->store), (unsigned long long)r->last_seq);
}

static void finding(void *arg, const char *line)
{
    (void)arg;
    printf("ps_check: %s\n", line);
}

void check_structure(struct round *r)
{
    round_must(r, ps_check(r->store, finding, NULL), "ps_check");
    r->progress->tally[TALLY_structure_checks]++;
}

static void message(void *arg, int level, const char *text)
{
    struct round *r = arg;
    if (r->verbose)
        printf("store says (%d): %s\n", level, text);
}

static int open_directory(struct round *r, struct ps_recovery *recovery, struct ps_fault *fault)
{
    struct config *c = &r->config;
    struct ps_options options = {
        .page_size = c->page_size,
        .dirty_memory = c->slots * 4096,
        .map_size = UINT64_C(1) << 34,
        .log_segment_size = c->segment,
        .durability = c->level,
        .manual_checkpoint = c->manual_checkpoint,
        .vfs = crashfs_vfs(r->fs),
        .on_publish = round_published,
        .arg = r,
        .on_message = message,
    };
    return ps_open(r->dir, &options, &r->store, recovery, fault);
}

/* The store is at `seq`: what on_publish says from now on is about later commits. */
static void expect_publication(struct round *r, uint64_t seq)
{
    pthread_mutex_lock(&r->mutex);
    r->last_seq = r->told_published = seq;
    r->told_failure = false;
    pthread_mutex_unlock(&r->mutex);
}

/* The model goes back to a state, as the store did: a crash, or a failure of the log. */
static void go_back_to(struct round *r, uint64_t seq)
{
    struct map state;
    map_copy(&state, history_find(r, seq));
    map_free(&r->committed);
    r->committed = state;
    history_cut(r, seq);
    r->last_seq = seq;
}

/* Opens r->dir, which must hold a state of low..high; with `exact_replay` the log is not needed. */
void open_store(struct round *r, uint64_t low, uint64_t high, bool exact_replay)
{
    struct ps_recovery recovery;
    struct ps_fault fault = {0};
    int rc = open_directory(r, &recovery, &fault);
    if (rc)
        round_fail(r, "opening answered %d (%s): %s at %llu: %s (errno %d)", rc, ps_strerror(rc),
                   fault.file, (unsigned long long)fault.offset, fault.what, fault.sys_errno);
    uint64_t seq = ps_published(r->store);
    bool first = r->past == 0;
    if (recovery.created != first)
        round_fail(r, "opening says created = %d", recovery.created);
    if (first)
        history_push(r, seq, &r->committed);
    else if (seq < low || seq > high)
        round_fail(r, "opening found sequence %llu; it must be %llu to %llu",
                   (unsigned long long)seq, (unsigned long long)low, (unsigned long long)high);
    if (recovery.checkpoint_seq + recovery.replayed_commits != seq)
        round_fail(r, "opening replayed %llu commits from checkpoint %llu, and is at %llu",
                   (unsigned long long)recovery.replayed_commits,
                   (unsigned long long)recovery.checkpoint_seq, (unsigned long long)seq);
    if (exact_replay && recovery.replayed_commits)
        round_fail(r, "opening after a checkpoint replayed %llu commits",
                   (unsigned long long)recovery.replayed_commits);
    go_back_to(r, seq);
    expect_publication(r, seq);
    round_must(r, ps_snapshot_new(r->store, &r->fresh), "ps_snapshot_new");
    round_must(r, ps_residency_new(r->store, &r->residency), "ps_residency_new");
    ps_snapshot_renew(r->fresh);
    struct side side = {ps_snapshot_view(r->fresh), &r->committed, "reopened store"};
    compare_all(r, &side);
    ps_snapshot_reset(r->fresh);
}

void close_store(struct round *r, bool checkpoint)
{
    totals_add_store(r->progress, r->store);
    ps_snapshot_free(r->fresh);
    ps_residency_free(r->residency);
    struct ps_store *store = r->store;
    r->store = NULL;
    round_must(r, ps_close(store, checkpoint), "ps_close");
    if (r->told_published != r->last_seq)
        round_fail(r, "closed, and on_publish had said %llu of %llu",
                   (unsigned long long)r->told_published, (unsigned long long)r->last_seq);
}

/* Ends what is open: commits, or aborts now and then. */
static void settle(struct round *r)
{
    if (r->txn)
        end_transaction(r, rng_one_in(&r->rng, 4));
}

void op_checkpoint(struct round *r)
{
    settle(r);
    uint64_t published = ps_published(r->store);
    round_must(r, ps_checkpoint(r->store), "ps_checkpoint");
    if (ps_durable(r->store) < published)
        round_fail(r, "after a checkpoint of %llu or later only %llu is durable",
                   (unsigned long long)published, (unsigned long long)ps_durable(r->store));
}

/* Another size of dirty memory now and then; never a smaller page. */
static void change_options(struct round *r)
{
    static const uint64_t slots[] = {64, 128, 1024, 8192};
    if (rng_one_in(&r->rng, 3))
        r->config.slots = slots[rng_below(&r->rng, 4)] * (r->config.page_size / 4096);
    if (rng_one_in(&r->rng, 3))
        r->config.level = (enum ps_durability)rng_below(&r->rng, 3);
    if (rng_one_in(&r->rng, 3))
        r->config.manual_checkpoint = !r->config.manual_checkpoint;
}

void disarm(struct round *r)
{
    char copy[STORE_DIR_PATH];
    if (crashfs_disarm(r->fs)) {
        name_dir(r, copy, r->dirs - 1);
        store_dir_remove(copy);
    }
    r->armed = false;
}

void op_reopen(struct round *r)
{
    settle(r);
    release_held(r, true);
    disarm(r);
    bool checkpoint = rng_one_in(&r->rng, 2);
    bool logged = ps_get_durability(r->store) != PS_NONE;
    uint64_t low = checkpoint || logged ? r->last_seq : must_survive(r);
    close_store(r, checkpoint);
    change_options(r);
    open_store(r, low, r->last_seq, checkpoint);
    if (rng_one_in(&r->rng, 4))
        check_structure(r);
    r->progress->tally[checkpoint ? TALLY_reopened_after_checkpoint : TALLY_reopened_with_replay]++;
}

/* Leaves the running store for the copy that a crash at some moment would have left. */
static void go_on_in(struct round *r, const char *copy, uint64_t low)
{
    char left[STORE_DIR_PATH];
    close_walker(r);
    if (r->txn)
        end_transaction(r, true);
    release_held(r, true);
    uint64_t high = r->last_seq;
    close_store(r, false);
    memcpy(left, r->dir, sizeof left);
    snprintf(r->dir, sizeof r->dir, "%s", copy);
    store_dir_remove(left);
    change_options(r);
    open_store(r, low, high, false);
    if (rng_one_in(&r->rng, 2))
        check_structure(r);
}

void follow_crash(struct round *r)
{
    char copy[STORE_DIR_PATH];
    name_dir(r, copy, r->dirs - 1);
    r->armed = false;
    crashfs_disarm(r->fs);
    r->progress->doing = r->armed_power ? "opening what a power loss within an operation left"
                                        : "opening what a kill within an operation left";
    go_on_in(r, copy, r->armed_low);
    r->progress->tally[TALLY_crashes_within_operations]++;
}

/* Crashes now, or orders a crash in the middle of one of the next operations on files. */
void op_crash(struct round *r)
{
    char copy[STORE_DIR_PATH];
    if (r->armed)
        return;
    bool power = rng_one_in(&r->rng, 2);
    bool flush = rng_one_in(&r->rng, 4) || (power && ps_durable(r->store) < r->history[0].seq);
    if (flush) {
        settle(r);
        round_must(r, ps_flush(r->store, r->last_seq), "ps_flush");
    }
    name_dir(r, copy, r->dirs++);
    uint64_t low = power ? ps_durable(r->store) : must_survive(r);
    uint64_t loss = power ? rng_next(&r->rng) | 1 : 0;
    if (power)
        r->progress->tally[TALLY_power_losses]++;
    if (rng_one_in(&r->rng, 4)) {
        crashfs_copy(r->fs, r->dir, copy, loss);
        go_on_in(r, copy, low);
        r->progress->tally[TALLY_crashes_between_operations]++;
        return;
    }
    unsigned after = (unsigned)rng_between(&r->rng, 1, rng_one_in(&r->rng, 2) ? 8 : 120);
    r->armed_power = power;
    r->armed_low = low;
    r->armed = true;
    crashfs_arm(r->fs, r->dir, copy, after, rng_next(&r->rng), loss);
}

/* Commits one small change; 0, or what the engine answered. Commits before it that were dropped
 * show by the sequence that this one will have. */
static int try_commit(struct round *r, bool wait)
{
    uint64_t seq = 0;
    struct ps_slice key = {"log failure", 11};
    round_must(r, ps_begin(r->store, &r->txn), "ps_begin");
    if (ps_txn_seq(r->txn) <= r->last_seq)
        go_back_to(r, ps_txn_seq(r->txn) - 1);
    map_copy(&r->now, &r->committed);
    int tree = pick_tree(r, &r->now);
    int rc = tree < 0 ? PS_NOTFOUND : ps_put(r->txn, r->now.tree[tree].id, key, key);
    if (rc) {
        ps_abort(r->txn);
    } else {
        map_put(&r->now, tree, key, key);
        rc = wait ? ps_commit(r->txn, PS_ALWAYS, &seq)
                  : ps_commit_start(r->txn, PS_EVERYSEC, false, &seq);
    }
    r->txn = NULL;
    if (rc == 0) {
        r->last_seq = seq;
        map_free(&r->committed);
        map_copy(&r->committed, &r->now);
        history_push(r, seq, &r->committed);
    }
    map_free(&r->now);
    return rc;
}

/* How many states were dropped so far, once the store has noticed all that were. */
static uint64_t states_dropped(struct round *r)
{
    struct ps_txn *txn;
    struct ps_stat stat;
    round_must(r, ps_begin(r->store, &txn), "ps_begin");
    ps_abort(txn);
    ps_stats(r->store, &stat);
    return stat.states_dropped;
}

/* A write to the log fails: what was not published is gone, and the store goes on from there. */
void op_log_failure(struct round *r)
{
    if (!r->config.log_failures || ps_get_durability(r->store) == PS_NONE)
        return;
    settle(r);
    disarm(r);
    wait_published(r);
    uint64_t before = states_dropped(r);
    if (r->config.bulk && rng_one_in(&r->rng, 2)) {
        crashfs_fail_log(r->fs, EIO);
        lose_transaction(r);
        (void)crashfs_log_failed(r->fs);
    }
    crashfs_fail_log(r->fs, rng_one_in(&r->rng, 2) ? EIO : ENOSPC);
    for (uint64_t i = rng_below(&r->rng, 3); i > 0; i--)
        try_commit(r, false);
    try_commit(r, true);
    if (crashfs_log_failed(r->fs))
        r->progress->tally[TALLY_log_failures]++;
    if (states_dropped(r) > before) {
        pthread_mutex_lock(&r->mutex);
        while (!r->told_failure)
            pthread_cond_wait(&r->changed, &r->mutex);
        pthread_mutex_unlock(&r->mutex);
    }
    go_back_to(r, ps_published(r->store));
    expect_publication(r, r->last_seq);
}

void op_durability(struct round *r)
{
    settle(r);
    enum ps_durability level = (enum ps_durability)rng_below(&r->rng, 3);
    round_must(r, ps_set_durability(r->store, level), "ps_set_durability");
    if (ps_get_durability(r->store) != level)
        round_fail(r, "the level was set to %d and is %d", level, ps_get_durability(r->store));
}
