/*
 * states.c - opening and closing, checkpoints, and snapshots that are held over later commits.
 */
#include "tests/lmdb/run.h"

#include <stdio.h>

#define ROOMY_SLOTS 1024 /* dirty memory that may be kept by held snapshots */

void ensure_published(struct run *r)
{
    if (ps_published(r->engine.store) < r->last_seq)
        must(r, ps_flush(r->engine.store, r->last_seq), "ps_flush");
    if (ps_published(r->engine.store) != r->last_seq)
        differ(r, "published", "committed was %llu, published is %llu",
               (unsigned long long)r->last_seq, (unsigned long long)ps_published(r->engine.store));
}

void open_stores(struct run *r)
{
    const struct config *c = r->config;
    struct ps_options options = {
        .page_size = c->page_size,
        .dirty_memory = arena_slots(c, r->arena) * 4096,
        .map_size = UINT64_C(1) << 34,
        .log_segment_size = c->segment,
        .durability = c->level,
        .manual_checkpoint = c->manual_checkpoint,
    };
    struct ps_recovery recovery;
    struct ps_fault fault = {0};
    int rc = engine_open(&r->engine, r->pando_dir, &options, &recovery, &fault);
    if (rc)
        differ(r, "open", "answered %d (%s): %s at %llu: %s (errno %d)", rc, ps_strerror(rc),
               fault.file, (unsigned long long)fault.offset, fault.what, fault.sys_errno);
    r->oracle = oracle_open(r->lmdb_dir);
    if (recovery.created)
        r->last_seq = ps_published(r->engine.store);
    must(r, ps_snapshot_new(r->engine.store, &r->fresh), "ps_snapshot_new");
    ps_snapshot_renew(r->fresh);
    r->fresh_lmdb = oracle_snapshot(r->oracle);
    struct side side = {ps_snapshot_view(r->fresh), {r->oracle, r->fresh_lmdb}, "opened store"};
    compare_all(r, &side);
    if (ps_published(r->engine.store) != r->last_seq)
        differ(r, "open: sequence", "opened at %llu, closed at %llu",
               (unsigned long long)ps_published(r->engine.store), (unsigned long long)r->last_seq);
    leave_side(r);
}

void close_stores(struct run *r, bool checkpoint)
{
    struct ps_store *store = r->engine.store;
    if (r->report)
        totals_add_store(&r->report->totals, store);
    ps_snapshot_free(r->fresh);
    r->engine.store = NULL;
    must(r, ps_close(store, checkpoint), "ps_close");
    oracle_close(r->oracle);
}

/* ---- held snapshots ------------------------------------------------------------------------- */

static bool is_roomy(struct run *r)
{
    struct ps_stat stat;
    ps_stats(r->engine.store, &stat);
    return stat.arena_slots >= ROOMY_SLOTS && stat.arena_slots_used < stat.arena_slots / 2;
}

static void move_held(struct run *r, struct held *held)
{
    must(r, ps_snapshot_move(held->snap), "ps_snapshot_move");
    held->in_file = true;
    if (ps_snapshot_seq(held->snap) != held->seq)
        differ(r, "moved snapshot: sequence", "was %llu, is %llu", (unsigned long long)held->seq,
               (unsigned long long)ps_snapshot_seq(held->snap));
}

void relieve(struct run *r, bool all)
{
    bool known = false, roomy = false;
    for (unsigned i = 0; i < HELD; i++) {
        struct held *held = &r->held[i];
        if (!held->snap || held->in_file)
            continue;
        if (!known && !all)
            roomy = is_roomy(r);
        known = true;
        if (all || !roomy || ps_snapshot_should_move(held->snap))
            move_held(r, held);
    }
}

/* Compares all of it once more, and lets go of it. */
static void let_go(struct run *r, unsigned number)
{
    struct held *held = &r->held[number];
    engine_look_again(&r->engine, held->snap);
    struct side side = {
        ps_snapshot_view(held->snap), {r->oracle, held->lmdb}, "held snapshot at its end"};
    compare_all(r, &side);
    if (ps_snapshot_seq(held->snap) != held->seq)
        differ(r, "held snapshot: sequence", "was %llu, is %llu", (unsigned long long)held->seq,
               (unsigned long long)ps_snapshot_seq(held->snap));
    close_walkers(r, number);
    ps_snapshot_free(held->snap);
    oracle_abort(held->lmdb);
    held->snap = NULL;
}

void release_all(struct run *r)
{
    for (unsigned i = 0; i < HELD; i++) {
        if (r->held[i].snap)
            let_go(r, i);
    }
}

/* A snapshot of the newest state; one in three is pinned to a checkpoint, which is outside of a
 * transaction. So are those beside a transaction that has not changed anything: it may yet wait for
 * slots. */
void do_hold(struct run *r)
{
    unsigned number = r->op->view % HELD;
    struct held *held = &r->held[number];
    bool pin = r->op->arg % 3 == 0;
    if (held->snap)
        let_go(r, number);
    if (pin || (r->engine.txn && !ps_txn_changed(r->engine.txn) && r->savepoints == 0))
        settle(r);
    ensure_published(r);
    must(r, ps_snapshot_new(r->engine.store, &held->snap), "ps_snapshot_new");
    if (pin)
        must(r, ps_snapshot_pin(held->snap), "ps_snapshot_pin");
    else
        ps_snapshot_renew(held->snap);
    held->lmdb = oracle_snapshot(r->oracle);
    held->in_file = pin;
    held->seq = ps_snapshot_seq(held->snap);
    if (held->seq != r->last_seq)
        differ(r, "snapshot: sequence", "the last commit was %llu, the snapshot is of %llu",
               (unsigned long long)r->last_seq, (unsigned long long)held->seq);
}

void do_let_go(struct run *r)
{
    if (r->held[r->op->view % HELD].snap)
        let_go(r, r->op->view % HELD);
}

void do_move_snapshot(struct run *r)
{
    struct held *held = &r->held[r->op->view % HELD];
    if (!held->snap || held->in_file)
        return;
    settle(r);
    move_held(r, held);
}

/* ---- checkpoints and reopening -------------------------------------------------------------- */

void do_checkpoint(struct run *r)
{
    settle(r);
    uint64_t published = ps_published(r->engine.store);
    must(r, engine_checkpoint(&r->engine), "ps_checkpoint");
    if (ps_durable(r->engine.store) < published)
        differ(r, "checkpoint: durable", "after a checkpoint of %llu or later, durable is %llu",
               (unsigned long long)published, (unsigned long long)ps_durable(r->engine.store));
}

static void finding(void *arg, const char *line)
{
    struct run *r = arg;
    differ(r, "structure", "%s", line);
}

void do_check(struct run *r)
{
    settle(r);
    must(r, ps_check(r->engine.store, finding, r), "ps_check");
}

/* With another size of dirty memory now and then. At level `none` only a checkpoint keeps what was
 * committed. */
void do_reopen(struct run *r)
{
    settle(r);
    release_all(r);
    bool checkpoint = r->op->arg % 2 == 0 || r->config->level == PS_NONE;
    close_stores(r, checkpoint);
    if (r->op->arg % 4 >= 2)
        r->arena = r->config->arena + r->op->arg / 4u;
    open_stores(r);
    if (r->report && !checkpoint)
        r->report->totals.replayed++;
}
