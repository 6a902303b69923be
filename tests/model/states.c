/*
 * states.c - which committed states there were, and snapshots held of some.
 *
 * Invariants:
 *  1. The history holds every state from the oldest that a crash may go back to, or that is the
 *     newest published one, to the last commit started; sequences rise by one.
 *  2. A held snapshot that is neither pinned nor moved lives only where the arena is large and at
 *     most half full: this thread is the writer, too, and could not answer while it waits for
 * slots.
 */
#include "tests/model/round.h"

#define ROOMY_SLOTS 1024

uint64_t must_survive(struct round *r)
{
    uint64_t durable = ps_durable(r->store), published = ps_published(r->store);
    if (ps_get_durability(r->store) == PS_NONE)
        return durable < published ? durable : published;
    return published;
}

static void forget_before(struct round *r, uint64_t seq)
{
    size_t gone = 0;
    while (gone + 1 < r->past && r->history[gone].seq < seq)
        map_free(&r->history[gone++].map);
    r->past -= gone;
    for (size_t i = 0; gone && i < r->past; i++)
        r->history[i] = r->history[i + gone];
}

/* Makes room by making sure that older states are not needed any more. */
static void make_room(struct round *r)
{
    uint64_t low = r->armed ? r->armed_low : must_survive(r);
    forget_before(r, low);
    if (r->past < HISTORY)
        return;
    disarm(r);
    round_must(r, ps_flush(r->store, r->last_seq), "ps_flush");
    wait_published(r);
    forget_before(r, must_survive(r));
    if (r->past == HISTORY)
        round_fail(r, "after flushing %llu, %llu is published and %llu durable",
                   (unsigned long long)r->last_seq, (unsigned long long)ps_published(r->store),
                   (unsigned long long)ps_durable(r->store));
}

void history_push(struct round *r, uint64_t seq, const struct map *map)
{
    if (r->past > 32 && r->past % 16 == 0)
        make_room(r);
    r->history[r->past].seq = seq;
    map_copy(&r->history[r->past++].map, map);
}

const struct map *history_find(struct round *r, uint64_t seq)
{
    for (size_t i = r->past; i-- > 0;) {
        if (r->history[i].seq == seq)
            return &r->history[i].map;
    }
    round_fail(r, "a state of sequence %llu was seen; possible are %llu to %llu",
               (unsigned long long)seq, (unsigned long long)(r->past ? r->history[0].seq : 0),
               (unsigned long long)r->last_seq);
}

void history_cut(struct round *r, uint64_t seq)
{
    while (r->past > 0 && r->history[r->past - 1].seq > seq)
        map_free(&r->history[--r->past].map);
}

static bool may_hold_slots(struct round *r)
{
    struct ps_stat stat;
    ps_stats(r->store, &stat);
    return stat.arena_slots >= ROOMY_SLOTS && stat.arena_slots_used < stat.arena_slots / 2;
}

static void drop(struct held *held)
{
    ps_cursor_close(held->scan);
    ps_snapshot_free(held->snap);
    map_free(&held->map);
    held->snap = NULL;
    held->scan = NULL;
}

/* The engine ends every snapshot that is held: they are listed as such, and say so themselves. */
static void end_held(struct round *r)
{
    const char *doing = r->progress->doing;
    struct ps_snapshot_info info[HELD];
    unsigned held = 0, listed;
    uint64_t n;
    r->progress->doing = "ending the held snapshots";
    for (int i = 0; i < HELD; i++)
        held += r->held[i].snap != NULL;
    if (ps_end_snapshots(r->store, 0) != held)
        round_fail(r, "not all of %u held snapshots were ended", held);
    listed = ps_snapshots(r->store, info, HELD);
    if (listed != held)
        round_fail(r, "%u snapshots are listed, not %u", listed, held);
    for (int i = 0; i < HELD; i++) {
        struct held *h = &r->held[i];
        unsigned k = 0;
        if (!h->snap)
            continue;
        while (k < listed && (info[k].seq != h->seq || !info[k].ended))
            k++;
        if (k == listed || ps_snapshot_seq(h->snap) != h->seq)
            round_fail(r, "no ended snapshot of %llu is listed", (unsigned long long)h->seq);
        if (ps_count(ps_snapshot_view(h->snap), 0, &n) != PS_ENDED ||
            (h->scan && ps_cursor_next(h->scan) != PS_ENDED) ||
            (rng_one_in(&r->rng, 2) && ps_snapshot_move(h->snap) != PS_ENDED) ||
            ps_count(ps_snapshot_view(h->snap), 0, &n) != PS_ENDED)
            round_fail(r, "an ended snapshot does not say so");
        drop(h);
    }
    r->progress->tally[TALLY_snapshots_ended_here] += held;
    r->progress->doing = doing;
}

static void let_go(struct round *r, struct held *held)
{
    const char *doing = r->progress->doing;
    struct side side = {ps_snapshot_view(held->snap), &held->map, "held snapshot at its end"};
    r->progress->doing = "end of a held snapshot";
    scan_on(r, held);
    if (ps_snapshot_seq(held->snap) != held->seq)
        round_fail(r, "a held snapshot of %llu says that it is of %llu",
                   (unsigned long long)held->seq, (unsigned long long)ps_snapshot_seq(held->snap));
    compare_all(r, &side);
    drop(held);
    r->progress->doing = doing;
}

/* Moves a held snapshot to the file, in the middle of its scan. */
static void move_held(struct round *r, struct held *held)
{
    const char *doing = r->progress->doing;
    r->progress->doing = "moving a held snapshot";
    if (r->txn)
        end_transaction(r, false);
    round_must(r, ps_snapshot_move(held->snap), "ps_snapshot_move");
    held->in_file = true;
    if (rng_one_in(&r->rng, 2))
        scan_check(r, held);
    if (rng_one_in(&r->rng, 4)) {
        struct side side = {ps_snapshot_view(held->snap), &held->map, "moved snapshot"};
        compare_all(r, &side);
    }
    r->progress->tally[TALLY_snapshots_moved_here]++;
    r->progress->doing = doing;
}

/* Lets go of the snapshots whose time is over; those that hold slots which are needed move to the
 * file, or end, too; or all end. */
void release_held(struct round *r, bool all)
{
    bool look = r->progress->operations % 8 == 0, roomy = true;
    for (int i = 0; i < HELD; i++) {
        struct held *held = &r->held[i];
        if (!held->snap)
            continue;
        if (!all && !held->in_file && look) {
            roomy = roomy && may_hold_slots(r);
            look = false;
        }
        if (!all && !held->in_file && !roomy && !rng_one_in(&r->rng, 4))
            move_held(r, held);
        if (all || r->progress->operations >= held->until || (!held->in_file && !roomy))
            let_go(r, held);
    }
}

/* Lets go of what keeps slots: a transaction that must be whole waits for them. */
void release_slots(struct round *r)
{
    for (int i = 0; i < HELD; i++) {
        if (r->held[i].snap && !r->held[i].in_file)
            let_go(r, &r->held[i]);
    }
}

/* Takes a snapshot to hold over the next commits; pinned to a checkpoint, or moved at once, if it
 * must be. */
void op_hold(struct round *r)
{
    struct held *held = &r->held[rng_below(&r->rng, HELD)];
    if (held->snap && rng_one_in(&r->rng, 3)) {
        end_held(r);
        return;
    }
    if (held->snap) {
        let_go(r, held);
        return;
    }
    bool roomy = may_hold_slots(r), pin = rng_one_in(&r->rng, roomy ? 4 : 2);
    if (pin && r->txn)
        end_transaction(r, false);
    round_must(r, ps_snapshot_new(r->store, &held->snap), "ps_snapshot_new");
    uint64_t before = ps_published(r->store);
    if (!pin || rng_one_in(&r->rng, 2))
        ps_snapshot_renew(held->snap);
    if (pin) {
        round_must(r, ps_snapshot_pin(held->snap), "ps_snapshot_pin");
        r->progress->tally[TALLY_snapshots_pinned_here]++;
    }
    held->seq = ps_snapshot_seq(held->snap);
    if (held->seq < before)
        round_fail(r, "a new snapshot is of %llu although %llu had been published",
                   (unsigned long long)held->seq, (unsigned long long)before);
    held->in_file = pin;
    held->until =
        r->progress->operations + rng_between(&r->rng, 5, rng_one_in(&r->rng, 4) ? 3000 : 300);
    map_copy(&held->map, history_find(r, held->seq));
    scan_begin(r, held);
    scan_on(r, held);
    if (!pin && !roomy)
        move_held(r, held);
    r->progress->tally[TALLY_snapshots_held]++;
}
