/*
 * txn.c - the write transaction: beginning, births and deaths, savepoints, rolling back.
 *
 * A transaction works on a copy of the newest executed state (published or not). Its pages have
 * births at or after its base; those it may change in place, all others it copies (I2). A page it
 * drops is free at once if it made it since the innermost savepoint, and when the last savepoint
 * that needs it is released; otherwise the death is noted in its group, so that it can be undone,
 * and becomes final when the group is published.
 *
 * Threads: the holder of the token. A crash loses what is not in the log.
 */
#include "storage/age.h"
#include "storage/node.h"

static void txn_reset(struct ps_txn *txn)
{
    for (unsigned i = 0; i < txn->nsavepoints; i++) {
        free(txn->savepoints[i].trees);
    }
    txn->nsavepoints = 0;
    txn->changed = txn->replay = txn->whole = false;
    txn->in_pieces = false;
    decoded_trim(&txn->view.decoded);
    txn->lost = 0;
    txn->folds.epoch++;
    txn->changes = 0;
    txn->error = 0;
    txn->reserved_log = 0;
    txn->own_slots = 0;
}

void txn_advance(struct ps_txn *txn)
{
    txn->stamp = txn->view.store->next_stamp++;
    atomic_store_explicit(&txn->state->stamp, txn->stamp, memory_order_relaxed);
}

uint64_t txn_loose_slots(const struct ps_txn *txn)
{
    unsigned n = txn->nsavepoints;
    return txn->own_slots - (n > 0 ? txn->savepoints[n - 1].own_slots : 0);
}

int txn_restart(struct ps_store *store, struct ps_txn *txn)
{
    txn->changes++;
    txn->stamp = store->next_stamp++;
    txn->base = txn->stamp;
    atomic_store_explicit(&txn->state->stamp, txn->stamp, memory_order_relaxed);
    return state_copy(txn->state, store->tip);
}

int txn_forget(struct ps_txn *txn)
{
    struct ps_store *store = txn->view.store;
    PS_ASSERT(!txn->changed && txn->nsavepoints == 0);
    txn_undo(store, txn->group, 0, 0, 0);
    txn->own_slots = 0;
    return txn_restart(store, txn);
}

int txn_open(struct ps_store *store, struct ps_txn *txn, bool replay)
{
    txn_reset(txn);
    txn->replay = replay;
    txn->undone = store->undone;
    txn->group = group_new(store);
    txn->state = state_new(store);
    int rc = txn->group == NULL || txn->state == NULL ? PS_NOMEM : txn_restart(store, txn);
    if (rc != 0) {
        if (txn->group != NULL) {
            group_recycle(store, txn->group);
        }
        if (txn->state != NULL) {
            state_give_back(store, txn->state);
        }
        return rc;
    }
    txn->view = (struct ps_view){.decoded = txn->view.decoded,
                                 .store = store,
                                 .state = txn->state,
                                 .txn = txn,
                                 .mark = &never_ended,
                                 .losses = losses_ended(store)};
    return 0;
}

int ps_begin(struct ps_store *store, struct ps_txn **txn)
{
    *txn = NULL;
    if (store->options.read_only_check) {
        return PS_INVALID;
    }
    pthread_mutex_lock(&store->mu);
    txn_slow_down(store);
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

/* ---- births and deaths ---------------------------------------------------------------------- */

int txn_alloc(struct ps_txn *txn, uint32_t pages, page_ref *ref)
{
    struct ps_store *store = txn->view.store;
    if (!vec_reserve(&txn->group->born, 1)) {
        return PS_NOMEM;
    }
    int rc = arena_alloc(&store->arena, pages, txn->stamp, ref);
    if (rc == 0) {
        vec_put(&txn->group->born, *ref);
        txn->own_slots += pages;
    }
    return rc;
}

int txn_take_file(struct ps_txn *txn, page_ref first, uint32_t pages)
{
    struct ps_store *store = txn->view.store;
    if (!vec_reserve(&txn->group->born_file, 1) || !fresh_reserve(&store->fresh)) {
        return PS_NOMEM;
    }
    watch_taken(store->watch, first, pages);
    page_unverify(store, first, pages);
    lost_restore(store, first, pages);
    struct fresh_page fresh = {.first = first, .birth = txn->stamp, .pages = pages};
    fresh_add(&store->fresh, &fresh);
    struct space_extent e = {first, txn->stamp, pages};
    vec_put(&txn->group->born_file, e);
    store->stat.fresh_taken++;
    return 0;
}

int txn_alloc_file(struct ps_txn *txn, uint32_t pages, page_ref *ref)
{
    struct ps_store *store = txn->view.store;
    uint32_t got;
    int rc = space_alloc(&store->space, pages, pages, ref, &got);
    if (rc != 0) {
        return store_fault(store, rc, 0, store->file_path, 0, "taking %u pages", pages);
    }
    file_pages_grew(store);
    rc = txn_take_file(txn, *ref, pages);
    if (rc != 0) {
        space_free(&store->space, *ref, pages);
        *ref = 0;
    }
    return rc;
}

/* Nobody else needs what was born with this stamp, no savepoint of the transaction either. */
static bool is_its_own(const struct ps_txn *txn, uint64_t birth)
{
    return birth >= txn->base || (txn->nsavepoints > 0 && !ps_rule(RULE_PINNED_SAVEPOINT) &&
                                  birth >= txn->savepoints[0].base);
}

int txn_drop(struct ps_txn *txn, page_ref ref, uint64_t birth, uint32_t pages)
{
    struct ps_store *store = txn->view.store;
    struct death d = {.ref = ref, .birth = birth, .death = txn->stamp, .pages = pages};
    if (!ref_in_arena(ref) && unlikely(!pages_belong(store, ref, pages, birth))) {
        return page_misplaced(store, ref);
    }
    if (!ref_in_arena(ref) && is_its_own(txn, birth)) {
        file_pages_free(store, &d);
        return 0;
    }
    if (ref_in_arena(ref)) {
        struct slot_side *side = arena_side(&store->arena, ref);
        PS_ASSERT(side->birth == birth && side->death == 0 && side->pages == pages);
        if (is_its_own(txn, birth)) {
            txn->own_slots -= pages;
            slots_free(store, ref, txn->stamp);
            return 0;
        }
    }
    if (!vec_reserve(&txn->group->deaths, 2)) {
        return PS_NOMEM;
    }
    if (ref_in_arena(ref)) {
        struct slot_side *side = arena_side(&store->arena, ref);
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
    if (!ps_rule(RULE_RELINK_KEEPS_PAGE)) {
        d.ref = side->file;
        return vec_push(&txn->group->deaths, d) ? 0 : PS_NOMEM;
    }
    return 0;
}

static void undo_file_pages(struct ps_store *store, struct group *group, size_t born_file)
{
    for (size_t i = born_file; i < group->born_file.n; i++) {
        /* As with slots: it may be listed twice, also with another length, or be free again. */
        const struct space_extent *e = &group->born_file.at[i];
        const struct fresh_page *fresh = fresh_find(&store->fresh, e->first, e->birth);
        if (fresh != NULL) {
            PS_ASSERT(fresh->death == 0);
            struct death d = {e->first, e->birth, store->next_stamp, fresh->pages};
            file_pages_free(store, &d);
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
            side->death = ps_rule(RULE_UNDO_RESTORES_DEATHS) ? 0 : side->death;
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
            slots_free(store, group->born.at[i], store->next_stamp);
        }
    }
    group->born.n = born;
    undo_file_pages(store, group, born_file);
}

/* ---- savepoints and the end ------------------------------------------------------------------ */

int ps_savepoint(struct ps_txn *txn)
{
    struct ps_store *store = txn->view.store;
    if (txn->error != 0 || txn->nsavepoints == PS_MAX_SAVEPOINTS) {
        return txn->error != 0 ? txn->error : PS_LIMIT;
    }
    int rc = room_for_savepoint(txn);
    if (rc != 0) {
        return rc;
    }
    struct savepoint *s = &txn->savepoints[txn->nsavepoints];
    *s = (struct savepoint){
        .base = txn->base,
        .stamp = txn->stamp,
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
    watch_pin(store->watch, s->stamp);
    txn_advance(txn);
    txn->base = ps_rule(RULE_COPY_UNDER_SAVEPOINT) ? txn->stamp : txn->base;
    store->stat.savepoints++;
    return 0;
}

/* What was made and dropped again since the savepoint that is the innermost one now: nobody needs
 * it any more. */
static void free_dropped(struct ps_txn *txn, size_t from)
{
    struct ps_store *store = txn->view.store;
    deaths *list = &txn->group->deaths;
    size_t kept = from;
    for (size_t i = from; i < list->n; i++) {
        struct death d = list->at[i];
        if (d.birth < txn->base) {
            list->at[kept++] = d;
        } else if (ref_in_arena(d.ref)) {
            txn->own_slots -= d.pages;
            slots_free(store, d.ref, d.death);
        } else {
            file_pages_free(store, &d);
        }
    }
    list->n = kept;
}

int ps_savepoint_release(struct ps_txn *txn)
{
    if (txn->nsavepoints == 0) {
        return PS_INVALID;
    }
    struct savepoint *s = &txn->savepoints[--txn->nsavepoints];
    watch_unpin(txn->view.store->watch, s->stamp);
    txn->base = s->base;
    free(s->trees);
    free_dropped(txn, s->deaths);
    int rc = s->marked ? pieces_mark(txn, OP_RELEASE, txn->nsavepoints) : 0;
    txn->error = rc != 0 ? rc : txn->error;
    return rc;
}

int ps_savepoint_rollback(struct ps_txn *txn)
{
    struct ps_store *store = txn->view.store;
    if (txn->nsavepoints == 0) {
        return PS_INVALID;
    }
    struct savepoint *s = &txn->savepoints[--txn->nsavepoints];
    watch_unpin(txn->view.store->watch, s->stamp);
    txn_undo(store, txn->group, s->born, s->born_file, s->deaths);
    txn->group->ops.n = s->marked ? 0 : s->ops;
    if (s->marked && ps_rule(RULE_MARKS_OF_SAVEPOINTS)) {
        (void)pieces_mark(txn, OP_ROLLBACK, txn->nsavepoints);
    }
    txn->folds.epoch++;
    txn->group->nops = s->nops;
    txn->own_slots = s->own_slots;
    txn->state->ntrees = s->ntrees;
    if (s->ntrees > 0) {
        memcpy(txn->state->trees, s->trees, s->ntrees * sizeof *s->trees);
    }
    free(s->trees);
    txn->base = s->base;
    txn->changed = s->changed;
    txn->error = txn->lost; /* else the savepoint was there before it happened */
    if (!txn->replay) {
        ps_view_resume(&txn->view);
    }
    txn->changes++;
    txn_advance(txn);
    store->stat.rollbacks++;
    return txn->lost;
}

void txn_discard(struct ps_txn *txn)
{
    struct ps_store *store = txn->view.store;
    pieces_abandon(txn);
    for (unsigned i = 0; i < txn->nsavepoints; i++) {
        watch_unpin(store->watch, txn->savepoints[i].stamp);
    }
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
