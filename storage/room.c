/*
 * room.c - room for a transaction's changes: slots of the arena, pages of the file, the log.
 *
 *  M1 A transaction starts changing only when the slots of its worst case are free; waiting happens
 *     here, while nothing has been changed. A few slots are kept back for relinking, without which
 *     no others would become free.
 *  M2 One that has changed something does not wait. While it is within its share of the arena
 *     (spill_share), committing it helps most: PS_BUSY.
 *  M3 One that is larger, or says so beforehand (by a reservation over the share, or
 * ps_keep_whole), spills. It needs no more slots than its largest operation takes; what is reserved
 * beyond that is promised as far as the disk has room.
 *  M4 There is a free page of the file for every slot that has no place in it: not for those that
 *     have an image, nor for those that a running checkpoint has found places for.
 *
 * Threads: the holder of the token, in a transaction.
 */
#include <time.h>

#include "storage/node.h"
#include "storage/store.h"

#define CHECKPOINT_RESERVE 16u /* of FILE_RESERVE, for a checkpoint's map and catalogue alone */
#define ARENA_BYTES_AN_OP  (2u * RUN_ARENA_MAX) /* of its key and value, at most */
#define FULL_REST_MS       200
#define LOOK_AGAIN_NS      1000000L             /* for readers that end without a word */
#define MOST_DELAY_NS      4000000L             /* of one transaction while slots are low */
#define LOG_AHEAD          (UINT64_C(16) << 20) /* reserved for a transaction that spills */

static void after_ns(struct timespec *until, long ns)
{
    clock_gettime(CLOCK_REALTIME, until);
    until->tv_nsec += ns;
    until->tv_sec += until->tv_nsec / 1000000000;
    until->tv_nsec %= 1000000000;
}

/* Slots run low: a checkpoint is under way, and transactions are held up the more the fewer are
 * left, so that they rarely have to wait for all of it. mu held. */
void txn_slow_down(struct ps_store *store)
{
    uint64_t low = store->shown.arena_slots / 4;
    uint64_t left = store->shown.arena_slots - store->shown.arena_slots_used;
    if (left >= low || !store->checkpoint_thread_runs ||
        store->checkpoint_asked == store->checkpoint_done) {
        return;
    }
    store->hurry = true;
    store->stat.groups_delayed++;
    struct timespec until;
    after_ns(&until, (long)(MOST_DELAY_NS * (low - left) / low));
    pthread_cond_timedwait(&store->cond, &store->mu, &until);
}

/* Slots that one put or delete may take at worst: a copy of its path, a split on every level with a
 * new root above, and a sibling that shares. */
static uint64_t slots_per_op(const struct ps_store *store)
{
    uint64_t slots = 2u * (store->stat.depth_max + 1) + 4;
    if (store->stat.overflow_separators > 0 || store->long_keys) {
        slots += 2u * run_pages(RUN_ARENA_MAX, store->page_shift);
    }
    return slots;
}

/* Slots that puts and deletes with so many bytes may take at worst. */
static uint64_t slots_for(const struct ps_store *store, size_t ops, uint64_t bytes)
{
    uint64_t need = ops * slots_per_op(store);
    if (bytes > key_inline_max(store->page_size)) {
        need += (bytes >> store->page_shift) + 2 * ops + 1;
    }
    return need;
}

uint64_t slots_of_largest(const struct ps_store *store)
{
    return slots_for(store, 1, ARENA_BYTES_AN_OP) +
           2u * run_pages(RUN_ARENA_MAX, store->page_shift);
}

uint64_t slots_kept_back(const struct ps_store *store)
{
    return 2u * store->stat.depth_max + 4;
}

uint64_t txn_free_slots(const struct ps_store *store)
{
    return store->arena.capacity - store->arena.used;
}

bool roots_in_file(const struct state *state)
{
    for (uint32_t i = 0; i < state->ntrees; i++) {
        if (ref_in_arena(state->trees[i].root.ref)) {
            return false;
        }
    }
    return true;
}

/* The token again after waiting, and the transaction anew: it has changed nothing. */
static int resume(struct ps_store *store, struct ps_txn *txn, int rc)
{
    token_take(store);
    int prepared = token_prepare(store);
    rc = rc != 0 ? rc : prepared;
    int started = txn_restart(store, txn); /* whatever went wrong: the old tip may be gone */
    if (txn->undone != store->undone) {    /* what it had read was of dropped states */
        started = PS_IO;
    }
    txn->error = started;
    return rc != 0 ? rc : started;
}

/* Waits a moment for whatever can free slots; the token is given up meanwhile. */
static int wait_for_slots(struct ps_store *store, struct ps_txn *txn)
{
    store->stat.slot_waits++;
    ask_to_move(store, 1);
    bool pending = roots_in_file(store->tip);
    token_give(store);
    int rc = 0;
    pthread_mutex_lock(&store->mu);
    if (store->unpublished > 0) {
        while (store->unpublished > 0 && store->poisoned == 0 && !store->log_broken) {
            pthread_cond_wait(&store->cond, &store->mu);
        }
        pthread_mutex_unlock(&store->mu);
    } else if (pending) {
        /* Everything is in the file: only readers hold slots. They end without a word. */
        struct timespec until;
        after_ns(&until, LOOK_AGAIN_NS);
        pthread_cond_timedwait(&store->cond, &store->mu, &until);
        pthread_mutex_unlock(&store->mu);
    } else {
        pthread_mutex_unlock(&store->mu);
        rc = checkpoint_ask(store, true);
    }
    return resume(store, txn, rc);
}

/* Waits until earlier transactions are published; what died with them may be free then. The
 * transaction keeps the token: it has changed something. */
static void settle_earlier(struct ps_store *store)
{
    pthread_mutex_lock(&store->mu);
    while (store->unpublished > 0 && store->poisoned == 0 && !store->log_broken) {
        pthread_cond_wait(&store->cond, &store->mu);
    }
    pthread_mutex_unlock(&store->mu);
    (void)harvest(store); /* what it has no memory for waits */
    reclaim(store);
}

/* Room for a transaction that spills, in which something was changed. */
static int room_by_spilling(struct ps_store *store, struct ps_txn *txn, uint64_t need)
{
    int rc = spill(txn, need);
    if (rc == 0 && txn_free_slots(store) < need) {
        settle_earlier(store);
    }
    if (rc != 0 || txn_free_slots(store) >= need) {
        return rc;
    }
    return PS_BUSY;
}

static int wait_until_free(struct ps_store *store, struct ps_txn *txn, uint64_t need)
{
    int rc = 0;
    while (rc == 0 && txn_free_slots(store) < need) {
        rc = wait_for_slots(store, txn);
    }
    return rc;
}

/* Slots that are free before a transaction that spills begins: for any one operation, for what
 * savepoints keep, and some to work with. */
static uint64_t least_for_whole(const struct ps_store *store)
{
    uint64_t least = slots_of_largest(store) + slots_kept_back(store) + store->arena.capacity / 4;
    return least < store->arena.capacity ? least : store->arena.capacity;
}

static bool is_fresh(const struct ps_txn *txn)
{
    return !txn->changed && txn->nsavepoints == 0 && !txn->replay;
}

int room_for_savepoint(struct ps_txn *txn)
{
    struct ps_store *store = txn->view.store;
    if (txn->whole && is_fresh(txn)) {
        int rc = wait_until_free(store, txn, least_for_whole(store));
        return rc == PS_NOSPACE ? 0 : rc; /* it may be about to delete */
    }
    /* PS_NOSPACE: it would keep what the rest has no room beside. */
    return spill_for_savepoint(txn);
}

/* `all`: slots that everything asked for may take; `one`: what its largest part may take. */
static int room_for_slots(struct ps_store *store, struct ps_txn *txn, uint64_t all, uint64_t one)
{
    uint64_t kept = slots_kept_back(store);
    uint64_t share = spill_share(store);
    bool fresh = is_fresh(txn);
    bool fits = txn_free_slots(store) >= all + kept;
    txn->whole = txn->whole ||
                 (!fits && !txn->replay && (fresh ? all + kept > share : txn->own_slots > share));
    if (fits && !(fresh && txn->whole)) {
        return 0;
    }
    if (one + kept > store->arena.capacity) {
        return PS_TXNFULL;
    }
    uint64_t need = (txn->whole ? one : all) + kept;
    if (fresh) {
        uint64_t least = txn->whole ? least_for_whole(store) : 0;
        return wait_until_free(store, txn, need < least ? least : need);
    }
    if (txn_free_slots(store) >= need) {
        return 0;
    }
    return txn->whole ? room_by_spilling(store, txn, need) : PS_BUSY;
}

/* Slots that need a place in the file sooner or later, at most: dead ones are among them, and of
 * runs that have an image all slots but one. */
static uint64_t slots_without_place(struct ps_store *store)
{
    uint64_t have = store->relink_pending + atomic_load(&store->placed);
    return store->arena.used > have ? store->arena.used - have : 0;
}

/* Every dirty page has a reservation (M4). */
static int room_in_file(struct ps_store *store, uint64_t need, bool deletes_only)
{
    uint64_t pages = ps_rule(RULE_FILE_SPACE_RESERVED) ? slots_without_place(store) + need : 0;
    int rc = space_reserve(&store->space, pages + FILE_RESERVE);
    if (rc == PS_NOSPACE && deletes_only) {
        rc = space_reserve(&store->space, pages + CHECKPOINT_RESERVE);
    }
    return rc == 0 ? 0 : store_fault(store, rc, 0, store->file_path, 0, "growing the file");
}

/* Both runs or none. */
static int take_runs(struct ps_txn *txn, struct room *room)
{
    int rc = 0;
    for (unsigned i = 0; rc == 0 && i < 2; i++) {
        struct run_ref *run = &room->runs[i];
        *run = (struct run_ref){0};
        if (room->run_pages[i] > 0) {
            rc = txn_alloc_file(txn, room->run_pages[i], &run->ref);
            run->birth = txn->stamp;
        }
    }
    if (rc != 0 && room->runs[0].ref != 0) {
        int dropped = txn_drop(txn, room->runs[0].ref, txn->stamp, room->run_pages[0]);
        rc = dropped != 0 ? dropped : rc;
    }
    return rc;
}

/* What does not fit into the transaction's share at once is promised as far as it goes. */
static int make_room(struct ps_txn *txn, struct room *room)
{
    struct ps_store *store = txn->view.store;
    uint64_t bytes = room->bytes;
    uint64_t all = slots_for(store, room->ops, bytes);
    uint64_t one = slots_for(store, 1, bytes < ARENA_BYTES_AN_OP ? bytes : ARENA_BYTES_AN_OP);
    uint64_t runs = (uint64_t)room->run_pages[0] + room->run_pages[1];
    int rc = room_for_slots(store, txn, all, one);
    bool part = txn->whole && all > store->arena.capacity;
    if (rc == 0) {
        uint64_t pages = part ? store->arena.capacity : all + room->file_pages;
        rc = room_in_file(store, pages + runs, room->may_use_reserve);
        /* What is replayed was executed before, with deletes that used the reserve up: a store must
         * open on a full disk. */
        rc = rc == PS_NOSPACE && txn->replay ? 0 : rc;
    }
    if (rc == 0 && !txn->replay && ps_get_durability(store) != PS_NONE) {
        uint64_t log = room->log_bytes;
        rc = log_room(store, part && log > LOG_AHEAD ? LOG_AHEAD : log);
    }
    if (rc == 0 && (runs > 0 || room->file_pages > 0)) {
        txn_advance(txn); /* a place taken again within the transaction has another birth */
        rc = take_runs(txn, room);
    }
    return rc;
}

static int64_t coarse_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return now.tv_sec * INT64_C(1000) + now.tv_nsec / 1000000;
}

/* On a full disk a checkpoint gives back what died since the last one, pages of the file as well as
 * segments of the log. A transaction that changed something has to end first (one that spills
 * cannot: it is refused); when the checkpoint was of no help, others are refused for a while. */
int txn_make_room(struct ps_txn *txn, struct room *room)
{
    struct ps_store *store = txn->view.store;
    if (txn->error != 0) {
        return txn->error;
    }
    int rc = make_room(txn, room);
    if (rc != PS_NOSPACE || txn->replay || coarse_ms() < store->full_until) {
        return rc;
    }
    if (txn->changed || txn->nsavepoints > 0) {
        return txn->whole ? rc : PS_BUSY;
    }
    store->stat.full_disk_checkpoints++;
    token_give(store);
    rc = resume(store, txn, checkpoint_ask(store, true));
    rc = rc == 0 ? make_room(txn, room) : rc;
    store->full_until = rc == PS_NOSPACE ? coarse_ms() + FULL_REST_MS : 0;
    return rc;
}

int ps_reserve(struct ps_txn *txn, size_t ops, size_t bytes)
{
    struct room room = {
        .ops = ops, .bytes = bytes, .log_bytes = bytes + ops * 32, .may_use_reserve = bytes == 0};
    return txn_make_room(txn, &room);
}

void ps_keep_whole(struct ps_txn *txn)
{
    txn->whole = true;
}
