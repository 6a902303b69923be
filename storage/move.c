/*
 * move.c - a long read leaves the arena: its state, the very one that it reads, gets pages of the
 * file of its own.
 *
 * A snapshot that pins dead slots while slots are wanted is asked to move (reclaim.c); its thread
 * comes here when it holds no pointer into pages. What of its state is in the arena alone is
 * written to places of the file; what a checkpoint has written already is used as it is. From then
 * on the snapshot announces its stamp as one that sees pages of the file only.
 *
 *  V1 The places are allocated and in no space map: no meta's state has them, and a crash frees
 *     them. So nothing of this has to be synced, and no meta is written: a checkpoint of a state
 *     older than the last one must never become a meta, for its log may be gone.
 *  V2 Only images of complete checkpoints are shared: moves and checkpoints exclude each other
 *     (checkpoint_mu), and a checkpoint's pages are adopted before it ends. One that is abandoned
 *     gives its pages back.
 *  V3 The stamp stays announced throughout: the shared pages of the file stay pinned (I3).
 *  V4 The announcement changes only after everything was written, and after the cursors have their
 *     keys; so slots come free only when the reader holds none.
 *  V5 The file space that dirty pages have reserved is left alone: a move on a full disk fails.
 *
 * A move that fails ends the snapshot: writing must go on. One that has become too old (age.c) ends
 * here as well, instead of moving.
 *
 * Threads: the snapshot's, without the token. A crash in the middle leaves nothing.
 */
#include "storage/age.h"
#include "storage/checkpoint.h"

static bool snapshot_is_over(const struct ps_snapshot *snap)
{
    return view_is_over(&snap->view) && snap->view.state != NULL;
}

bool ps_snapshot_should_move(const struct ps_snapshot *snap)
{
    const struct reader_slot *slot = &snap->view.store->readers[snap->slot];
    uint64_t asked = atomic_load_explicit(&slot->asked, memory_order_relaxed);
    return (unlikely(asked != 0) &&
            asked == atomic_load_explicit(&slot->announced, memory_order_relaxed)) ||
           unlikely(snapshot_is_over(snap));
}

static void free_places(struct ps_store *store, const space_extents *places)
{
    for (size_t i = 0; i < places->n; i++) {
        watch_freed(store->watch, places->at[i].first, places->at[i].pages, 0, 0);
        space_free(&store->space, places->at[i].first, places->at[i].pages);
    }
}

/* Tells those who list snapshots (age.c). */
static void tell_places(struct ps_snapshot *snap, enum ps_snapshot_kind kind)
{
    struct ps_store *store = snap->view.store;
    struct reader_info *info = &store->reader_info[snap->slot];
    pthread_mutex_lock(&store->mu);
    info->in_file = kind;
    info->own_pages = 0;
    for (size_t i = 0; kind == PS_MOVED && i < snap->places.n; i++) {
        info->own_pages += snap->places.at[i].pages;
    }
    pthread_mutex_unlock(&store->mu);
}

/* Writes what is in the arena alone. On success the snapshot has its new state and places, but does
 * not use them yet. */
static int write_state(struct ps_snapshot *snap, uint64_t *pages)
{
    struct ps_store *store = snap->view.store;
    struct checkpoint c = {
        .store = store,
        .state = snap->view.state,
        .moving = true,
        .spare = store->arena.capacity + FILE_RESERVE,
    };
    pthread_mutex_lock(&store->checkpoint_mu);
    int rc = checkpoint_write_trees(&c);
    if (rc != 0) {
        free_places(store, (const space_extents *)&c.taken);
    } else {
        snap->moved = c.file_state;
        snap->places = c.taken;
        for (size_t i = 0; i < c.taken.n && !ps_rule(RULE_MAP_LEAVES_OUT_MOVED); i++) {
            space_mark_live(&store->space, c.taken.at[i].first, c.taken.at[i].pages, true);
        }
        c.file_state = NULL;
        c.taken = (space_extents){0};
        tell_places(snap, PS_MOVED);
    }
    pthread_mutex_unlock(&store->checkpoint_mu);
    *pages = c.written_pages;
    checkpoint_free(&c);
    return rc;
}

/* Gives the places back: at the end of a moved snapshot, or when its move failed after all. */
void move_undo(struct ps_snapshot *snap)
{
    struct ps_store *store = snap->view.store;
    if (snap->moved != NULL) {
        tell_places(snap, PS_PLAIN);
        free_places(store, &snap->places);
        vec_free(&snap->places);
        state_give_back(store, snap->moved);
        snap->moved = NULL;
    }
    snap->view.place = VIEW_AS_PUBLISHED;
    snap->view.state = NULL;
}

/* The slots that the snapshot saw may be free now. */
static void report(struct ps_store *store, int rc, uint64_t pages)
{
    pthread_mutex_lock(&store->mu);
    if (rc == 0) {
        store->stat.snapshots_moved++;
        store->stat.moved_pages += pages;
    } else if (rc != PS_ENDED) {
        store->stat.snapshot_move_failures++;
    }
    pthread_cond_broadcast(&store->cond);
    pthread_mutex_unlock(&store->mu);
}

/* Lets go of the state; every read says so from now on. */
static void end(struct ps_snapshot *snap)
{
    ps_snapshot_reset(snap);
    snap->view.place = VIEW_ENDED;
    snap->view.moves++; /* no cursor goes on from the page it stands on */
}

int ps_snapshot_move(struct ps_snapshot *snap)
{
    struct ps_store *store = snap->view.store;
    if (snapshot_is_over(snap)) {
        end(snap);
        report(store, PS_ENDED, 0);
        return PS_ENDED;
    }
    struct reader_slot *slot = &store->readers[snap->slot];
    uint64_t stamp = atomic_load_explicit(&slot->announced, memory_order_relaxed);
    if (stamp == 0 || (stamp & FILE_ONLY)) {
        return 0;
    }
    if (store_is_poisoned(store)) { /* no more writes: nobody waits for slots */
        atomic_store_explicit(&slot->asked, 0, memory_order_relaxed);
        return 0;
    }
    uint64_t pages = 0;
    int rc = cursors_keep_keys(&snap->view);
    rc = rc == 0 ? write_state(snap, &pages) : rc;
    if (rc != 0) {
        end(snap);
    } else {
        snap->view.state = snap->moved;
        snap->view.place = VIEW_MOVED;
        snap->view.moves++;
        watch_reader(store->watch, snap->slot, stamp | FILE_ONLY);
        atomic_store(&slot->announced, ps_rule(RULE_MOVED_PINS_PAGES) ? stamp | FILE_ONLY : 0);
    }
    report(store, rc, pages);
    return rc;
}
