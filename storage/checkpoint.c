/*
 * checkpoint.c - making a published state T the one that the file holds.
 *
 *  K1 (a) T is published and pinned until its pages are adopted; its log is durable first.
 *  K2 (b) Pages of T go to places that neither meta nor any pinned state uses.
 *  K3 (c) The space map says what T needs: what was allocated up to T and for it, minus what died
 *     up to T.
 *  K4 (d) All of that is synced before a meta names it; the first meta is synced before the second
 *     is written; the pages of the state before are reused only after both.
 *  K5 (e) A slot whose page was written learns its file page; if it died meanwhile, the death is
 *     passed on to the page. Children are adopted before their parents.
 *  K6 ENOSPC, or no memory, abandons the checkpoint and gives its pages back; any other failure of
 *     writing, and any failure of syncing, poisons the store. Giving back, and (e), take no memory
 *     that was not found before the checkpoint began (make_room).
 *
 * Threads: checkpoint_mu serialises checkpoints; the token is taken for (a) and (e) only. A crash
 * before the first meta is synced leaves the checkpoint before.
 */
#include "storage/checkpoint.h"

#include <time.h>

#define RETRY_AFTER_MS    1000 /* after a checkpoint that failed */
#define REST_MS           2    /* after one that had nothing to write */
#define REPLAY_OPS_PER_MS 250u /* random keys of a store of 5 million; small ones: 1,000 */

static int64_t now_us(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return now.tv_sec * INT64_C(1000000) + now.tv_nsec / 1000;
}

/* ---- (a) ------------------------------------------------------------------------------------ */

/* Pages that transactions took up to T enter the map (F2). */
static void take_births(struct checkpoint *c, uint64_t stamp)
{
    struct ps_store *store = c->store;
    struct fresh *fresh = &store->fresh;
    for (size_t i = 0; i < fresh->room;) {
        struct fresh_page f = fresh->at[i];
        if (f.first == 0 || f.birth > stamp) {
            i++;
            continue;
        }
        fresh_remove(fresh, &fresh->at[i]); /* something else may be at i now */
        if ((f.death != 0 && f.death <= stamp) || !ps_rule(RULE_MAP_TAKES_FRESH)) {
            store->stat.fresh_unmapped++;
            continue;
        }
        struct death d = {f.first, f.birth, 0, f.pages};
        vec_put(&c->fresh, d);
        fresh->kept++;
        store->stat.fresh_mapped++;
        d.death = f.death;
        if (f.death != 0) {
            vec_put(&store->unmapped, d);
        }
    }
}

/* Room for all that a checkpoint of now may add to lists when it ends, and for what it takes from
 * them meanwhile: deaths of pages that it wrote for slots, of the map's old pages, of the old
 * catalogue; and what it has to give back if it is abandoned. */
static bool make_room(struct checkpoint *c)
{
    struct ps_store *store = c->store;
    size_t births = store->fresh.n;
    size_t deaths_now = store->unmapped.n + births;
    size_t later = (size_t)store->arena.used + space_map_pages(&store->space) + 1;
    store->deaths_kept = deaths_now + later;
    bool yes = vec_reserve(&c->deaths, deaths_now) && vec_reserve(&c->fresh, births) &&
               dead_pages_reserve(store, 0);
    store->deaths_kept = yes ? store->deaths_kept : 0;
    return yes;
}

/* It has ended; with the token. */
static void give_up_room(struct ps_store *store)
{
    store->deaths_kept = 0;
    store->fresh.kept = 0;
}

/* The checkpoint was abandoned: what it took for its map waits for the next, deaths included. */
static void give_births_back(struct checkpoint *c)
{
    struct ps_store *store = c->store;
    for (size_t i = 0; i < c->fresh.n; i++) {
        const struct death *d = &c->fresh.at[i];
        struct fresh_page f = {.first = d->ref, .birth = d->birth, .pages = d->pages};
        store->fresh.kept--;
        fresh_add(&store->fresh, &f);
        store->stat.fresh_mapped--;
    }
    size_t kept = 0;
    for (size_t i = 0; i < store->unmapped.n; i++) {
        struct death d = store->unmapped.at[i];
        struct fresh_page *f = fresh_find(&store->fresh, d.ref, d.birth);
        if (f != NULL) {
            f->death = d.death;
        } else {
            store->unmapped.at[kept++] = d;
        }
    }
    store->unmapped.n = kept;
}

/* Chooses T and takes the deaths that its space map has to record; *work is false if there is
 * nothing to do. */
static int choose(struct checkpoint *c, bool *work)
{
    struct ps_store *store = c->store;
    *work = false;
    adopt(store, SIZE_MAX);
    ps_snapshot_renew(&store->checkpoint_snap);
    int rc = harvest(store); /* after choosing: all deaths up to T are known now */
    if (rc != 0) {
        return rc;
    }
    c->state =
        ps_rule(RULE_CHECKPOINT_OF_PUBLISHED) ? store->checkpoint_snap.view.state : store->tip;
    uint64_t stamp = stamp_of(c->state);
    if (store->file_state != NULL && space_pages(&store->space) >= store->meta.file_pages &&
        (stamp_of(store->file_state) == stamp ||
         (store->file_state->seq == c->state->seq && roots_in_file(c->state)))) {
        return 0;
    }
    if (!make_room(c)) {
        return PS_NOMEM;
    }
    size_t kept = 0;
    for (size_t i = 0; i < store->unmapped.n; i++) {
        struct death d = store->unmapped.at[i];
        if (d.death <= stamp ? ps_rule(RULE_MAP_DROPS_EARLIER_DEATHS)
                             : !ps_rule(RULE_MAP_KEEPS_LATER_DEATHS)) {
            vec_put(&c->deaths, d);
        } else {
            store->unmapped.at[kept++] = d;
        }
    }
    store->unmapped.n = kept;
    take_births(c, stamp);
    *work = true;
    return 0;
}

/* ---- (c) ------------------------------------------------------------------------------------ */

/* PS_CORRUPT: the state refers to a page twice, or to one that the map has free. */
static int mark_all(struct checkpoint *c, bool done)
{
    struct space *space = &c->store->space;
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < c->fresh.n; i++) {
        rc = space_mark_live(space, c->fresh.at[i].ref, c->fresh.at[i].pages, done);
    }
    for (size_t i = 0; rc == 0 && i < c->taken.n; i++) {
        rc = space_mark_live(space, c->taken.at[i].first, c->taken.at[i].pages, done);
    }
    for (size_t i = 0; rc == 0 && i < c->deaths.n; i++) {
        rc = space_mark_live(space, c->deaths.at[i].ref, c->deaths.at[i].pages, !done);
    }
    const struct run_ref *old = &c->store->meta.catalogue;
    if (rc == 0 && old->ref != 0) {
        rc = space_mark_live(space, old->ref, plain_pages(old->len, c->store->page_shift), !done);
    }
    return rc;
}

static void give_back(struct checkpoint *c)
{
    struct ps_store *store = c->store;
    atomic_store(&store->placed, 0); /* first: slots without places count on free pages (M4) */
    for (size_t i = 0; i < c->taken.n; i++) {
        watch_freed(store->watch, c->taken.at[i].first, c->taken.at[i].pages, 0, 0);
        (void)space_free(&store->space, c->taken.at[i].first, c->taken.at[i].pages);
    }
    for (size_t i = 0; i < c->deaths.n; i++) {
        vec_put(&store->unmapped, c->deaths.at[i]);
    }
    give_births_back(c);
    give_up_room(store);
}

/* ---- (d) ------------------------------------------------------------------------------------ */

static int sync_file(struct ps_store *store)
{
    int err = store->vfs->fdatasync(store->vfs->ctx, store->fd);
    return err == 0
               ? 0
               : store_fault(store, PS_POISONED, err, store->file_path, 0, "syncing the data file");
}

/* Somebody may have cut the file off: then nothing is sure of what was written before. */
static int still_whole(struct ps_store *store, uint64_t pages)
{
    uint64_t bytes;
    bool cut_off = store->vfs->size(store->vfs->ctx, store->fd, &bytes) == 0 &&
                   bytes < pages << store->page_shift;
    return cut_off ? store_fault(store, PS_POISONED, 0, store->file_path, bytes,
                                 "the file was cut off by somebody else")
                   : 0;
}

/* From the moment a meta is durable its state is the file's: what snapshots are pinned to. */
int meta_write_both(struct ps_store *store, const struct meta *meta, unsigned first,
                    struct state *file_state)
{
    uint8_t buf[META_BYTES];
    meta_encode(meta, buf);
    for (unsigned i = 0; i < 2; i++) {
        unsigned k = i == 0 ? first : 1 - first;
        int err = data_write(store, buf, sizeof buf, k * META_STRIDE);
        if (err != 0) {
            return store_fault(store, PS_POISONED, err, store->file_path, k * META_STRIDE,
                               "writing a meta");
        }
        int rc = i > 0 || ps_rule(RULE_META_AFTER_META) ? sync_file(store) : 0;
        if (rc != 0) {
            return rc;
        }
        pthread_mutex_lock(&store->mu);
        watch_meta(store->watch, k, meta->stamp);
        store->meta_stamps[k] = meta->stamp;
        if (!ps_rule(RULE_SECOND_META_BEFORE_REUSE)) {
            store->meta_stamps[1 - k] = meta->stamp;
        }
        if (i == 0 && file_state != NULL) {
            if (store->file_state != NULL) {
                state_retire(store, store->file_state);
            }
            store->file_state = file_state;
        }
        pthread_mutex_unlock(&store->mu);
    }
    return 0;
}

static int complete(struct checkpoint *c, const struct space_root *root)
{
    struct ps_store *store = c->store;
    struct meta meta = store->meta;
    meta.page_size = store->page_size;
    meta.stamp = stamp_of(c->state);
    meta.seq = c->state->seq;
    meta.pos = c->state->pos;
    meta.catalogue = c->catalogue;
    meta.space = *root;
    meta.file_pages = space_pages(&store->space);
    meta.file_keys = atomic_load(&store->file_keys);
    meta.written_us = (uint64_t)now_us(CLOCK_REALTIME);
    int rc = still_whole(store, meta.file_pages);
    rc = rc == 0 && ps_rule(RULE_DATA_SYNC_BEFORE_META) ? sync_file(store) : rc;
    rc = rc == 0 ? meta_write_both(store, &meta, 0, c->file_state) : rc;
    if (store->file_state == c->file_state) {
        c->file_state = NULL;
    }
    if (rc != 0) {
        return rc;
    }
    store->meta = meta;
    if (atomic_load(&store->durable_seq) < meta.seq) {
        atomic_store(&store->durable_seq, meta.seq);
    }
    return 0;
}

/* ---- (e) ------------------------------------------------------------------------------------ */

/* A page of the file died with its slot, before the slot knew it: with the group that killed it,
 * which has room for that (commit.c), or, if that is published, for good. */
static void pass_death_on(struct ps_store *store, const struct slot_side *side)
{
    struct death d = {side->file, side->birth, side->death, side->pages};
    store->stat.deaths_passed++;
    pthread_mutex_lock(&store->mu);
    struct group *g = store->groups;
    while (g != NULL && (d.death < g->base || d.death > g->stamp || g->status == GROUP_PUBLISHED)) {
        g = g->next;
    }
    if (g != NULL) {
        PS_ASSERT(g->deaths.n < g->deaths.room);
        vec_put(&g->deaths, d);
    }
    pthread_mutex_unlock(&store->mu);
    if (g == NULL) {
        dead_page_later(store, &d);
    }
}

void adopt(struct ps_store *store, size_t most)
{
    if (store->adopting.n == 0) {
        return;
    }
    for (; most > 0 && store->adopted < store->adopting.n; most--) {
        const struct checkpoint_page *cp = &store->adopting.at[store->adopted++];
        struct slot_side *side = arena_side(&store->arena, cp->slot);
        PS_ASSERT(side->birth != 0 && side->file == 0);
        side->file = cp->file;
        atomic_fetch_sub_explicit(&store->placed, side->pages, memory_order_relaxed);
        if (side->death == 0) {
            store->relink_pending++;
        } else if (ps_rule(RULE_DEATHS_PASSED_TO_PAGES)) {
            pass_death_on(store, side);
        }
    }
    if (store->adopted == store->adopting.n) {
        store->adopting.n = store->adopted = 0;
        store->sweep.active = true;
        store->sweep.tree = 0;
        store->sweep.key.n = 0;
    }
}

/* The list of pages changes hands; the empty one comes back. */
static void take_pages(struct checkpoint *c)
{
    struct ps_store *store = c->store;
    struct checkpoint_page *empty = store->adopting.at;
    size_t room = store->adopting.room;
    PS_ASSERT(store->adopting.n == 0);
    store->adopting.at = c->pages.at;
    store->adopting.n = c->pages.n;
    store->adopting.room = c->pages.room;
    c->pages.at = empty;
    c->pages.n = 0;
    c->pages.room = room;
    store->adopted = 0;
}

/* Hands the list over and sees it taken, a step at a time. */
static void hand_over_pages(struct checkpoint *c, const space_extents *freed,
                            const struct run_ref *old_catalogue, bool with_token)
{
    struct ps_store *store = c->store;
    uint64_t stamp = stamp_of(c->state);
    bool first = true;
    bool more = true;
    while (more) {
        if (!with_token) {
            token_take(store);
        }
        if (first) {
            first = false;
            take_pages(c);
            PS_ASSERT(store->dead_pages.n + freed->n < store->dead_pages.room);
            for (size_t i = 0; i < freed->n; i++) {
                struct death d = {freed->at[i].first, freed->at[i].birth, stamp, 1};
                vec_put(&store->dead_pages, d);
            }
            if (old_catalogue->ref != 0) {
                struct death d = {old_catalogue->ref, old_catalogue->birth, stamp,
                                  plain_pages(old_catalogue->len, store->page_shift)};
                vec_put(&store->dead_pages, d);
            }
        }
        adopt(store, 4096);
        more = store->adopting.n > 0;
        if (!more) {
            give_up_room(store);
            ps_snapshot_reset(&store->checkpoint_snap);
            (void)relink_idle(store);
        }
        if (!with_token) {
            token_give(store);
        }
    }
}

/* ---- all of it ------------------------------------------------------------------------------- */

static int abandon(struct checkpoint *c, int rc, bool with_token)
{
    struct ps_store *store = c->store;
    if (!with_token) {
        token_take(store);
    }
    give_back(c);
    ps_snapshot_reset(&store->checkpoint_snap);
    if (!with_token) {
        token_give(store);
    }
    return rc == PS_NOSPACE || rc == PS_NOMEM ? rc : store_poison(store, rc);
}

static int run(struct checkpoint *c, bool with_token)
{
    struct ps_store *store = c->store;
    int64_t began = now_us(CLOCK_MONOTONIC);
    uint64_t ops = atomic_load(&store->ops_since_checkpoint);
    struct run_ref old_catalogue = store->meta.catalogue;
    space_extents freed = {0};
    struct space_root root;
    int rc = 0;
    if (ps_get_durability(store) != PS_NONE && store->log_thread_runs &&
        ps_rule(RULE_LOG_THROUGH_CHECKPOINT)) {
        rc = ps_flush(store, c->state->seq);
    }
    if (!ps_rule(RULE_PINNED_CHECKPOINT)) {
        ps_snapshot_reset(&store->checkpoint_snap);
    }
    rc = rc == 0 ? checkpoint_write_pages(c) : rc;
    if (rc != 0) {
        return abandon(c, rc, with_token);
    }
    rc = mark_all(c, true);
    rc = rc == 0 ? space_write(&store->space, stamp_of(c->state), &root, &freed) : rc;
    if (rc == PS_CORRUPT) { /* half done, and left so: nothing is written any more */
        vec_free(&freed);
        return abandon(c, page_misplaced(store, atomic_load(&store->space.damage)), with_token);
    }
    if (rc != 0) {
        space_unwrite(&store->space);
        (void)mark_all(c, false);
        vec_free(&freed);
        return abandon(c, rc, with_token);
    }
    if (!ps_rule(RULE_PIN_UNTIL_ADOPTED)) {
        ps_snapshot_reset(&store->checkpoint_snap);
    }
    if (!ps_rule(RULE_RECYCLE_UNDER_SYNCED_META)) {
        log_recycle(store->log, &c->state->pos);
    }
    rc = complete(c, &root);
    if (rc != 0) {
        vec_free(&freed);
        return store_poison(store, rc);
    }
    space_written(&store->space);
    atomic_fetch_sub(&store->ops_since_checkpoint, ops);
    uint64_t written = c->written_pages;
    hand_over_pages(c, &freed, &old_catalogue, with_token);
    log_recycle(store->log, &store->meta.pos);
    vec_free(&freed);
    pthread_mutex_lock(&store->mu);
    store->stat.checkpoints++;
    store->stat.checkpoint_pages += written;
    store->stat.checkpoint_bytes += written << store->page_shift;
    store->stat.last_checkpoint_us = (uint64_t)(now_us(CLOCK_MONOTONIC) - began);
    pthread_mutex_unlock(&store->mu);
    return 0;
}

/* What fills the arena is not in T: asking again at once would not help. */
static void note_nothing_to_do(struct ps_store *store)
{
    pthread_mutex_lock(&store->mu);
    store->checkpoint_not_before = now_us(CLOCK_MONOTONIC) / 1000 + REST_MS;
    pthread_mutex_unlock(&store->mu);
}

int checkpoint_run(struct ps_store *store, bool with_token)
{
    pthread_mutex_lock(&store->checkpoint_mu);
    if (!with_token) {
        token_take(store);
    }
    struct checkpoint c = {.store = store};
    pthread_mutex_lock(&store->mu);
    int rc = store->poisoned;
    c.paced = store->checkpoint_thread_runs && !store->hurry;
    pthread_mutex_unlock(&store->mu);
    bool work = false;
    rc = rc == 0 ? choose(&c, &work) : rc;
    if (!work) {
        note_nothing_to_do(store);
        ps_snapshot_reset(&store->checkpoint_snap);
        if (rc == 0) {
            rc = relink_idle(store);
        }
    }
    if (!with_token) {
        token_give(store);
    }
    if (work) {
        rc = run(&c, with_token);
    }
    checkpoint_free(&c);
    pthread_mutex_unlock(&store->checkpoint_mu);
    return rc;
}

/* ---- asking, and the thread ------------------------------------------------------------------ */

int checkpoint_ask(struct ps_store *store, bool wait)
{
    pthread_mutex_lock(&store->mu);
    if (!store->checkpoint_thread_runs) {
        pthread_mutex_unlock(&store->mu);
        return wait ? checkpoint_run(store, false) : 0;
    }
    uint64_t ticket = ++store->checkpoint_asked;
    store->hurry = store->hurry || wait;
    pthread_cond_signal(&store->checkpoint_cond);
    while (wait && store->checkpoint_done < ticket) {
        pthread_cond_wait(&store->cond, &store->mu);
    }
    int rc = wait ? store->checkpoint_rc : 0;
    pthread_mutex_unlock(&store->mu);
    return rc;
}

int ps_checkpoint(struct ps_store *store)
{
    return checkpoint_ask(store, true);
}

/* Operations that can be replayed in the time allowed. */
uint64_t replay_budget(struct ps_store *store)
{
    return (uint64_t)atomic_load(&store->max_recovery_ms) * REPLAY_OPS_PER_MS;
}

/* With the token: is it time? */
bool checkpoint_due(struct ps_store *store)
{
    uint64_t most = replay_budget(store) / 2;
    return store->arena.used * 2 > store->arena.capacity ||
           (ps_get_durability(store) != PS_NONE &&
            atomic_load_explicit(&store->ops_since_checkpoint, memory_order_relaxed) > most);
}

void checkpoint_if_due(struct ps_store *store)
{
    pthread_mutex_lock(&store->mu);
    bool idle = store->checkpoint_thread_runs &&
                store->checkpoint_asked == store->checkpoint_done &&
                now_us(CLOCK_MONOTONIC) / 1000 >= store->checkpoint_not_before;
    pthread_mutex_unlock(&store->mu);
    if (idle) {
        (void)checkpoint_ask(store, false);
    }
}

static void *checkpoint_main(void *arg)
{
    struct ps_store *store = arg;
    pthread_mutex_lock(&store->mu);
    for (;;) {
        while (!store->checkpoint_stop && store->checkpoint_asked == store->checkpoint_done) {
            pthread_cond_wait(&store->checkpoint_cond, &store->mu);
        }
        if (store->checkpoint_asked == store->checkpoint_done) {
            break;
        }
        uint64_t ticket = store->checkpoint_asked;
        pthread_mutex_unlock(&store->mu);
        int rc = checkpoint_run(store, false);
        pthread_mutex_lock(&store->mu);
        store->checkpoint_done = ticket;
        store->checkpoint_rc = rc;
        store->hurry = store->hurry && store->checkpoint_asked > ticket;
        if (rc != 0) {
            store->checkpoint_not_before = now_us(CLOCK_MONOTONIC) / 1000 + RETRY_AFTER_MS;
        }
        pthread_cond_broadcast(&store->cond);
    }
    pthread_mutex_unlock(&store->mu);
    return NULL;
}

int checkpoint_thread_start(struct ps_store *store)
{
    store->checkpoint_thread_runs =
        pthread_create(&store->checkpoint_thread, NULL, checkpoint_main, store) == 0;
    return store->checkpoint_thread_runs ? 0 : PS_NOMEM;
}

void checkpoint_thread_stop(struct ps_store *store)
{
    if (!store->checkpoint_thread_runs) {
        return;
    }
    pthread_mutex_lock(&store->mu);
    store->checkpoint_stop = true;
    pthread_cond_signal(&store->checkpoint_cond);
    pthread_mutex_unlock(&store->mu);
    pthread_join(store->checkpoint_thread, NULL);
    store->checkpoint_thread_runs = false;
}
