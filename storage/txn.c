/*
 * txn.c - the write transaction: beginning, room, births and deaths, savepoints, rolling back.
 *
 * A transaction works on a copy of the newest executed state (published or not). Its pages have
 * births at or after its base; those it may change in place, all others it copies (I2). A page it
 * drops is free at once if it made it since the innermost savepoint; otherwise the death is noted
 * in its group, so that it can be undone, and becomes final when the group is published.
 *
 * Room: a transaction starts changing only when the slots of its worst case are free; waiting
 * happens in ps_reserve, while nothing has been changed. A few slots are kept back for relinking,
 * without which no others would become free.
 *
 * Threads: the holder of the token. A crash loses what is not in the log.
 */
#include <time.h>

#include "storage/node.h"
#include "storage/store.h"

#define CHECKPOINT_RESERVE 16u /* of FILE_RESERVE, for a checkpoint's map and catalogue alone */
#define FULL_REST_MS       200
#define LOOK_AGAIN_NS      1000000L /* for readers that end without a word */
#define MOST_DELAY_NS      4000000L /* of one transaction while slots are low */

static void after_ns(struct timespec *until, long ns)
{
    clock_gettime(CLOCK_REALTIME, until);
    until->tv_nsec += ns;
    until->tv_sec += until->tv_nsec / 1000000000;
    until->tv_nsec %= 1000000000;
}

static void txn_reset(struct ps_txn *txn)
{
    for (unsigned i = 0; i < txn->nsavepoints; i++) {
        free(txn->savepoints[i].trees);
    }
    txn->nsavepoints = 0;
    txn->changed = txn->replay = false;
    txn->changes = 0;
    txn->error = 0;
    txn->reserved_log = 0;
    txn->own_slots = 0;
}

/* The transaction starts (again) from the newest executed state. Its cursors find their place anew:
 * the pages they stood on may be gone. */
static int start_from_tip(struct ps_store *store, struct ps_txn *txn)
{
    txn->changes++;
    txn->stamp = store->next_stamp++;
    txn->base = txn->stamp;
    atomic_store_explicit(&txn->state->stamp, txn->stamp, memory_order_relaxed);
    return state_copy(txn->state, store->tip);
}

int txn_open(struct ps_store *store, struct ps_txn *txn, bool replay)
{
    txn_reset(txn);
    txn->replay = replay;
    txn->group = group_new(store);
    txn->state = state_new(store);
    int rc = txn->group == NULL || txn->state == NULL ? PS_NOMEM : start_from_tip(store, txn);
    if (rc != 0) {
        if (txn->group != NULL) {
            group_recycle(store, txn->group);
        }
        if (txn->state != NULL) {
            state_give_back(store, txn->state);
        }
        return rc;
    }
    txn->view = (struct ps_view){.store = store, .state = txn->state, .txn = txn};
    return 0;
}

/* Slots run low: a checkpoint is under way, and transactions are held up the more the fewer are
 * left, so that they rarely have to wait for all of it. mu held. */
static void slow_down(struct ps_store *store)
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

int ps_begin(struct ps_store *store, struct ps_txn **txn)
{
    *txn = NULL;
    pthread_mutex_lock(&store->mu);
    slow_down(store);
    while (store->token_taken || store->txn_open) {
        pthread_cond_wait(&store->cond, &store->mu);
    }
    int rc = store->poisoned;
    if (rc == 0) {
        store->token_taken = store->txn_open = true;
    }
    pthread_mutex_unlock(&store->mu);
    if (rc != 0) {
        return rc;
    }
    rc = token_prepare(store);
    if (rc == 0) {
        rc = txn_open(store, &store->txn, false);
    }
    if (rc != 0) {
        pthread_mutex_lock(&store->mu);
        store->txn_open = false;
        pthread_mutex_unlock(&store->mu);
        token_give(store);
        return rc;
    }
    *txn = &store->txn;
    return 0;
}

struct ps_view *ps_txn_view(struct ps_txn *txn)
{
    return &txn->view;
}

bool ps_txn_changed(const struct ps_txn *txn)
{
    return txn->changed;
}

uint64_t ps_txn_seq(const struct ps_txn *txn)
{
    return txn->view.store->tip->seq + 1;
}

/* ---- room ----------------------------------------------------------------------------------- */

/* Slots that one put or delete may take at worst: a copy of its path, a split on every level with a
 * new root above, and a sibling that shares. */
static uint64_t slots_per_op(const struct ps_store *store)
{
    uint64_t slots = 2u * (store->stat.depth_max + 1) + 4;
    if (store->stat.overflow_separators > 0 || store->long_keys) {
        slots += 2u * run_pages(PS_MAX_KEY, store->page_shift);
    }
    return slots;
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
    int started = start_from_tip(store, txn); /* whatever went wrong: the old tip may be gone */
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

static bool all_published(struct ps_store *store)
{
    pthread_mutex_lock(&store->mu);
    bool all = store->unpublished == 0;
    pthread_mutex_unlock(&store->mu);
    return all;
}

static int room_for_slots(struct ps_store *store, struct ps_txn *txn, uint64_t need)
{
    uint64_t kept = slots_kept_back(store);
    while (txn_free_slots(store) < need + kept) {
        if (need + kept > store->arena.capacity) {
            return PS_TXNFULL;
        }
        if (txn->changed || txn->replay || txn->nsavepoints > 0) {
            bool larger = txn->own_slots + need + kept > store->arena.capacity;
            return larger && all_published(store) ? PS_TXNFULL : PS_BUSY;
        }
        int rc = wait_for_slots(store, txn);
        if (rc != 0) {
            return rc;
        }
    }
    return 0;
}

/* Every dirty page needs a place in the file sooner or later. */
static int room_in_file(struct ps_store *store, uint64_t need, bool deletes_only)
{
    uint64_t pages = store->arena.used + need;
    int rc = space_reserve(&store->space, pages + FILE_RESERVE);
    if (rc == PS_NOSPACE && deletes_only) {
        rc = space_reserve(&store->space, pages + CHECKPOINT_RESERVE);
    }
    return rc == 0 ? 0 : store_fault(store, rc, 0, store->file_path, 0, "growing the file");
}

static int make_room(struct ps_txn *txn, size_t ops, size_t bytes)
{
    struct ps_store *store = txn->view.store;
    uint64_t need = ops * slots_per_op(store);
    if (bytes > key_inline_max(store->page_size)) {
        need += (bytes >> store->page_shift) + 2 * ops + 1;
    }
    int rc = room_for_slots(store, txn, need);
    if (rc == 0) {
        rc = room_in_file(store, need, bytes == 0);
    }
    if (rc == 0 && !txn->replay && ps_get_durability(store) != PS_NONE) {
        rc = log_room(store, bytes + ops * 32);
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
 * segments of the log. A transaction that changed something has to end first; when the checkpoint
 * was of no help, others are refused at once for a while. */
int ps_reserve(struct ps_txn *txn, size_t ops, size_t bytes)
{
    struct ps_store *store = txn->view.store;
    if (txn->error != 0) {
        return txn->error;
    }
    int rc = make_room(txn, ops, bytes);
    if (rc != PS_NOSPACE || txn->replay || coarse_ms() < store->full_until) {
        return rc;
    }
    if (txn->changed || txn->nsavepoints > 0) {
        return PS_BUSY;
    }
    store->stat.full_disk_checkpoints++;
    token_give(store);
    rc = resume(store, txn, checkpoint_ask(store, true));
    rc = rc == 0 ? make_room(txn, ops, bytes) : rc;
    store->full_until = rc == PS_NOSPACE ? coarse_ms() + FULL_REST_MS : 0;
    return rc;
}

/* ---- births and deaths ---------------------------------------------------------------------- */

int txn_alloc(struct ps_txn *txn, uint32_t pages, page_ref *ref)
{
    struct ps_store *store = txn->view.store;
    if (!vec_reserve(&txn->group->born, 1)) {
        return PS_NOMEM;
    }
    int rc = arena_alloc(&store->arena, pages, txn->stamp, ref);
    if (rc == 0) {
        txn->group->born.at[txn->group->born.n++] = *ref;
        txn->own_slots += pages;
    }
    return rc;
}

int txn_alloc_file(struct ps_txn *txn, uint32_t pages, page_ref *ref)
{
    struct ps_store *store = txn->view.store;
    if (!vec_reserve(&txn->group->born_file, 1) || !fresh_reserve(&store->fresh)) {
        return PS_NOMEM;
    }
    uint32_t got;
    int rc = space_alloc(&store->space, pages, pages, ref, &got);
    if (rc != 0) {
        return store_fault(store, rc, 0, store->file_path, 0, "taking %u pages", pages);
    }
    file_pages_grew(store);
    page_unverify(store, *ref, pages);
    struct fresh_page fresh = {.first = *ref, .birth = txn->stamp, .pages = pages};
    fresh_add(&store->fresh, &fresh);
    struct space_extent e = {*ref, txn->stamp, pages};
    txn->group->born_file.at[txn->group->born_file.n++] = e;
    store->stat.fresh_taken++;
    return 0;
}

int txn_drop(struct ps_txn *txn, page_ref ref, uint64_t birth, uint32_t pages)
{
    struct ps_store *store = txn->view.store;
    if (!vec_reserve(&txn->group->deaths, 2)) {
        return PS_NOMEM;
    }
    struct death d = {.ref = ref, .birth = birth, .death = txn->stamp, .pages = pages};
    if (!ref_in_arena(ref) && birth >= txn->base) {
        file_pages_free(store, ref, birth, pages);
        return 0;
    }
    if (ref_in_arena(ref)) {
        struct slot_side *side = arena_side(&store->arena, ref);
        PS_ASSERT(side->birth == birth && side->death == 0 && side->pages == pages);
        if (birth >= txn->base) {
            txn->own_slots -= pages;
            arena_free(&store->arena, ref);
            return 0;
        }
        side->death = txn->stamp;
        vec_push(&txn->group->deaths, d);
        if (side->file == 0) {
            return 0;
        }
        store->relink_pending--;
        d.ref = side->file;
    }
    vec_push(&txn->group->deaths, d);
    return 0;
}

int txn_drop_slot(struct ps_txn *txn, page_ref ref)
{
    struct ps_store *store = txn->view.store;
    struct slot_side *side = arena_side(&store->arena, ref);
    PS_ASSERT(side->birth != 0 && side->death == 0 && side->file != 0);
    struct death d = {ref, side->birth, txn->stamp, side->pages};
    if (!vec_push(&txn->group->deaths, d)) {
        return PS_NOMEM;
    }
    side->death = txn->stamp;
    store->relink_pending--;
    store->stat.relinks++;
    return 0;
}

static void undo_file_pages(struct ps_store *store, struct group *group, size_t born_file)
{
    for (size_t i = born_file; i < group->born_file.n; i++) {
        /* As with slots: it may be listed twice, or be free again. */
        const struct space_extent *e = &group->born_file.at[i];
        const struct fresh_page *fresh = fresh_find(&store->fresh, e->first, e->birth);
        if (fresh != NULL) {
            PS_ASSERT(fresh->death == 0);
            file_pages_free(store, e->first, e->birth, e->pages);
        }
    }
    group->born_file.n = born_file;
}

void txn_undo(struct ps_store *store, struct group *group, size_t born, size_t born_file,
              size_t ndeaths)
{
    for (size_t i = ndeaths; i < group->deaths.n; i++) {
        page_ref ref = group->deaths.at[i].ref;
        if (ref_in_arena(ref)) {
            struct slot_side *side = arena_side(&store->arena, ref);
            side->death = 0;
            store->relink_pending += side->file != 0;
        }
    }
    group->deaths.n = ndeaths;
    for (size_t i = born; i < group->born.n; i++) {
        /* A slot may be listed twice, or be free again; those older than this were dropped above.
         */
        struct slot_side *side = arena_side(&store->arena, group->born.at[i]);
        if (side->birth != 0) {
            PS_ASSERT(side->death == 0);
            arena_free(&store->arena, group->born.at[i]);
        }
    }
    group->born.n = born;
    undo_file_pages(store, group, born_file);
}

/* ---- the log record -------------------------------------------------------------------------- */

static uint8_t *put_varint(uint8_t *at, uint64_t v)
{
    while (v >= 0x80) {
        *at++ = (uint8_t)(v | 0x80);
        v >>= 7;
    }
    *at++ = (uint8_t)v;
    return at;
}

int txn_log(struct ps_txn *txn, uint8_t op, ps_tree tree, struct ps_slice key,
            struct ps_slice value)
{
    struct group *group = txn->group;
    txn->changed = true;
    txn->changes++;
    group->nops++;
    if (txn->replay || ps_get_durability(txn->view.store) == PS_NONE) {
        return 0;
    }
    if (!vec_reserve(&group->ops, 1 + 3 * 10 + key.len + value.len)) {
        return PS_NOMEM;
    }
    uint8_t *at = group->ops.at + group->ops.n;
    *at++ = op;
    at = put_varint(at, tree);
    at = put_varint(at, key.len);
    if (key.len > 0) {
        memcpy(at, key.data, key.len);
        at += key.len;
    }
    if (op == OP_PUT) {
        at = put_varint(at, value.len);
        if (value.len > 0) {
            memcpy(at, value.data, value.len);
            at += value.len;
        }
    }
    group->ops.n = (size_t)(at - group->ops.at);
    return 0;
}

/* ---- savepoints and the end ------------------------------------------------------------------ */

int ps_savepoint(struct ps_txn *txn)
{
    struct ps_store *store = txn->view.store;
    if (txn->error != 0 || txn->nsavepoints == PS_MAX_SAVEPOINTS) {
        return txn->error != 0 ? txn->error : PS_LIMIT;
    }
    struct savepoint *s = &txn->savepoints[txn->nsavepoints];
    *s = (struct savepoint){
        .base = txn->base,
        .born = txn->group->born.n,
        .born_file = txn->group->born_file.n,
        .deaths = txn->group->deaths.n,
        .ops = txn->group->ops.n,
        .nops = txn->group->nops,
        .own_slots = txn->own_slots,
        .ntrees = txn->state->ntrees,
        .trees = malloc((txn->state->ntrees + 1) * sizeof *s->trees),
        .changed = txn->changed,
    };
    if (s->trees == NULL) {
        return PS_NOMEM;
    }
    if (s->ntrees > 0) {
        memcpy(s->trees, txn->state->trees, s->ntrees * sizeof *s->trees);
    }
    txn->nsavepoints++;
    txn->stamp = store->next_stamp++;
    txn->base = txn->stamp;
    atomic_store_explicit(&txn->state->stamp, txn->stamp, memory_order_relaxed);
    store->stat.savepoints++;
    return 0;
}

int ps_savepoint_release(struct ps_txn *txn)
{
    if (txn->nsavepoints == 0) {
        return PS_INVALID;
    }
    struct savepoint *s = &txn->savepoints[--txn->nsavepoints];
    txn->base = s->base;
    free(s->trees);
    return 0;
}

int ps_savepoint_rollback(struct ps_txn *txn)
{
    struct ps_store *store = txn->view.store;
    if (txn->nsavepoints == 0) {
        return PS_INVALID;
    }
    struct savepoint *s = &txn->savepoints[--txn->nsavepoints];
    txn_undo(store, txn->group, s->born, s->born_file, s->deaths);
    txn->group->ops.n = s->ops;
    txn->group->nops = s->nops;
    txn->own_slots = s->own_slots;
    txn->state->ntrees = s->ntrees;
    if (s->ntrees > 0) {
        memcpy(txn->state->trees, s->trees, s->ntrees * sizeof *s->trees);
    }
    free(s->trees);
    txn->base = s->base;
    txn->changed = s->changed;
    txn->error = 0; /* the savepoint was there before it happened */
    txn->changes++;
    txn->stamp = store->next_stamp++;
    atomic_store_explicit(&txn->state->stamp, txn->stamp, memory_order_relaxed);
    store->stat.rollbacks++;
    return 0;
}

void txn_discard(struct ps_txn *txn)
{
    struct ps_store *store = txn->view.store;
    txn_undo(store, txn->group, 0, 0, 0);
    group_recycle(store, txn->group);
    state_give_back(store, txn->state);
    txn->group = NULL;
    txn->state = NULL;
    txn->view.state = NULL;
    txn_reset(txn);
}

void ps_abort(struct ps_txn *txn)
{
    struct ps_store *store = txn->view.store;
    store->stat.aborts++;
    txn_discard(txn);
    pthread_mutex_lock(&store->mu);
    store->txn_open = false;
    pthread_mutex_unlock(&store->mu);
    token_give(store);
}
