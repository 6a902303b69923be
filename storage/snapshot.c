/*
 * snapshot.c - holding a state for reading.
 *
 * A reader announces the stamp it is about to use in a cache line of its own, then looks whether
 * that state is still the published one; if it is, whoever reclaims later sees the announcement
 * (both sides are sequentially consistent), and if not it tries again. Nothing else is shared.
 *
 * A snapshot meant to live is pinned to a checkpoint and sees pages of the file alone; a long read
 * that was begun without that knowledge moves to the file when its slots are wanted (move.c).
 */
#include "storage/age.h"

int ps_snapshot_new(struct ps_store *store, struct ps_snapshot **snap)
{
    *snap = calloc(1, sizeof **snap);
    if (*snap == NULL) {
        return PS_NOMEM;
    }
    int rc = snapshot_init(store, *snap);
    if (rc != 0) {
        free(*snap);
        *snap = NULL;
    }
    return rc;
}

int snapshot_init(struct ps_store *store, struct ps_snapshot *snap)
{
    pthread_mutex_lock(&store->mu);
    unsigned i = 0;
    while (i < READER_SLOTS && store->reader_info[i].taken) {
        i++;
    }
    if (i < READER_SLOTS) {
        store->reader_info[i].taken = true;
        if (i >= atomic_load(&store->readers_high)) {
            atomic_store(&store->readers_high, i + 1);
        }
    }
    pthread_mutex_unlock(&store->mu);
    snap->slot = i;
    snap->view = (struct ps_view){.store = store, .mark = &never_ended};
    if (i < READER_SLOTS) {
        snap->view.mark = &store->readers[i].mark;
    }
    return i < READER_SLOTS ? 0 : PS_LIMIT;
}

void snapshot_fini(struct ps_snapshot *snap)
{
    struct ps_store *store = snap->view.store;
    ps_snapshot_reset(snap);
    decoded_free(&snap->view.decoded);
    vec_free(&snap->places);
    pthread_mutex_lock(&store->mu);
    store->reader_info[snap->slot].taken = false;
    pthread_mutex_unlock(&store->mu);
}

void ps_snapshot_free(struct ps_snapshot *snap)
{
    if (snap != NULL) {
        snapshot_fini(snap);
        free(snap);
    }
}

void ps_snapshot_renew(struct ps_snapshot *snap)
{
    struct ps_store *store = snap->view.store;
    struct reader_slot *slot = &store->readers[snap->slot];
    if (unlikely(snap->view.place != VIEW_AS_PUBLISHED)) {
        move_undo(snap);
    }
    atomic_store_explicit(&slot->mark, 0, memory_order_relaxed);
    watch_reader(store->watch, snap->slot, 0);
    for (;;) {
        struct state *state = atomic_load(&store->published);
        uint64_t stamp = stamp_of(state);
        atomic_store(&slot->announced, stamp);
        if (!ps_rule(RULE_RECHECK_AFTER_ANNOUNCE) ||
            likely(atomic_load(&store->published) == state && stamp_of(state) == stamp)) {
            watch_reader(store->watch, snap->slot, stamp);
            snap->view.state = state;
            snap->view.losses = losses_ended(store);
            return;
        }
        atomic_fetch_add_explicit(&store->snapshot_retries, 1, memory_order_relaxed);
    }
}

void ps_snapshot_reset(struct ps_snapshot *snap)
{
    if (unlikely(snap->view.place != VIEW_AS_PUBLISHED)) {
        move_undo(snap);
    }
    snap->view.state = NULL;
    decoded_trim(&snap->view.decoded);
    struct reader_slot *slot = &snap->view.store->readers[snap->slot];
    atomic_store_explicit(&slot->mark, 0, memory_order_relaxed);
    watch_reader(snap->view.store->watch, snap->slot, 0);
    atomic_store_explicit(&slot->announced, 0, memory_order_release);
}

int ps_snapshot_pin(struct ps_snapshot *snap)
{
    struct ps_store *store = snap->view.store;
    uint64_t wanted = stamp_of(atomic_load(&store->published));
    ps_snapshot_reset(snap);
    for (;;) {
        /* Under the lock the metas cannot move on, and they pin the file's state until we do. */
        pthread_mutex_lock(&store->mu);
        struct state *state = store->file_state;
        uint64_t stamp = stamp_of(state);
        if (state->seq >= ps_published(store) || stamp >= wanted) {
            store->reader_info[snap->slot].in_file = PS_PINNED;
            atomic_store(&store->readers[snap->slot].announced, stamp | FILE_ONLY);
            watch_reader(store->watch, snap->slot, stamp | FILE_ONLY);
            snap->view.state = state;
            snap->view.losses = losses_ended(store);
            store->stat.snapshots_pinned++;
            pthread_mutex_unlock(&store->mu);
            return 0;
        }
        pthread_mutex_unlock(&store->mu);
        int rc = checkpoint_ask(store, true);
        if (rc != 0) {
            return rc;
        }
    }
}

uint64_t ps_snapshot_seq(const struct ps_snapshot *snap)
{
    return snap->view.state == NULL ? 0 : snap->view.state->seq;
}

struct ps_view *ps_snapshot_view(struct ps_snapshot *snap)
{
    return &snap->view;
}

int ps_view_check(const struct ps_view *view)
{
    return view_end(view, 0);
}

void ps_view_resume(struct ps_view *view)
{
    view->losses = losses_ended(view->store);
}

uint64_t ps_published(const struct ps_store *store)
{
    return atomic_load(&store->published_seq);
}
