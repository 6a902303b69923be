/*
 * stat.c - statistics: counters that are kept as things happen, and figures read off the state.
 *
 * The counters belong to whoever holds the token; a copy is made for readers whenever the token is
 * given up, so that asking for statistics never waits for a transaction.
 *
 * Threads: ps_stats any.
 */
#include "storage/age.h"

void show_stats(struct ps_store *store)
{
    store->stat.arena_slots = store->arena.capacity;
    store->stat.arena_slots_used = store->arena.used;
    store->stat.arena_slots_peak = store->arena.peak;
    store->stat.pages_waiting = 0;
    store->retained.n = 0;
    for (size_t i = 0; i < store->holders.n; i++) {
        const struct holder *h = &store->holders.at[i];
        struct retained r = {h->stamp, h->pages, h->file};
        store->stat.pages_waiting += h->waiting.n;
        if (h->waiting.n > 0) {
            (void)vec_push(&store->retained, r); /* out of memory: they seem to keep less */
        }
    }
    store->shown = store->stat;
}

static void log_stats(struct ps_store *store, struct ps_stat *stat)
{
    struct log_stats log;
    pthread_mutex_lock(&store->log_mu);
    if (store->log != NULL) {
        log_get_stats(store->log, &log);
        stat->log_segments = log.segments;
        stat->log_bytes_written = log.bytes_written;
        stat->log_syncs = log.syncs;
        stat->log_epochs = log.epochs;
        stat->log_pieces = log.pieces;
    }
    pthread_mutex_unlock(&store->log_mu);
}

void ps_stats(struct ps_store *store, struct ps_stat *stat)
{
    uint64_t free_pages = space_free_pages(&store->space);
    uint64_t pages = space_pages(&store->space);
    struct ps_stat log = {0};
    log_stats(store, &log);
    pthread_mutex_lock(&store->mu);
    *stat = store->shown;
    const struct state *state = atomic_load(&store->published);
    stat->page_size = store->page_size;
    stat->file_pages = pages;
    stat->file_bytes = pages << store->page_shift;
    stat->file_pages_free = free_pages;
    stat->trees = 0;
    stat->entries = 0;
    for (uint32_t i = 0; i < state->ntrees; i++) {
        const struct tree_root *t = &state->trees[i];
        stat->trees += t->name != NULL;
        stat->entries += child_entries(&t->root);
        if (t->root.ref != 0 && stat->depth_max < t->level + 1u) {
            stat->depth_max = t->level + 1u;
        }
    }
    stat->published_seq = state->seq;
    stat->durable_seq = ps_durable(store);
    stat->checkpoint_seq = store->file_state != NULL ? store->file_state->seq : 0;
    stat->log_checkpoint_position = store->file_state != NULL ? store->file_state->pos.position : 0;
    stat->log_position = state->pos.position;
    stat->groups_unpublished = store->unpublished;
    stat->checkpoints = store->stat.checkpoints;
    stat->checkpoint_pages = store->stat.checkpoint_pages;
    stat->checkpoint_bytes = store->stat.checkpoint_bytes;
    stat->last_checkpoint_us = store->stat.last_checkpoint_us;
    stat->states_dropped = store->stat.states_dropped;
    stat->groups_delayed = store->stat.groups_delayed;
    stat->snapshots_pinned = store->stat.snapshots_pinned;
    stat->snapshots_moved = store->stat.snapshots_moved;
    stat->moved_pages = store->stat.moved_pages;
    stat->snapshot_move_failures = store->stat.snapshot_move_failures;
    stat->snapshots_ended = store->stat.snapshots_ended;
    ages_stat(store, stat);
    pthread_mutex_unlock(&store->mu);
    stat->log_segments = log.log_segments;
    stat->log_bytes_written = log.log_bytes_written;
    stat->log_syncs = log.log_syncs;
    stat->log_epochs = log.log_epochs;
    stat->log_pieces = log.log_pieces;
    pthread_mutex_lock(&store->helper.mu);
    stat->helper_wakeups = store->helper.wakeups;
    stat->file_run_waits = store->helper.waits;
    pthread_mutex_unlock(&store->helper.mu);
    stat->file_runs_read = atomic_load(&store->file_runs_read);
    stat->run_pieces_verified = atomic_load(&store->run_pieces_verified);
    stat->slots_populated_ahead = atomic_load(&store->arena.populated_ahead);
    stat->slots_populated_late = atomic_load(&store->arena.populated_late);
    stat->snapshot_retries = atomic_load(&store->snapshot_retries);
    stat->data_bytes_written =
        atomic_load(&store->data_written) + space_written_bytes(&store->space);
    stat->losses = atomic_load(&store->lost.ended);
    stat->pages_verified = atomic_load(&store->pages_verified);
    stat->values_decompressed = atomic_load(&store->values_decompressed);
    stat->residency_checks = atomic_load(&store->residency_checks);
    stat->probes_would_wait = atomic_load(&store->probes_would_wait);
    stat->paths_touched = atomic_load(&store->paths_touched);
    stat->neighbours_touched = atomic_load(&store->neighbours_touched);
}

uint64_t ps_file_bytes(const struct ps_store *store)
{
    return atomic_load_explicit(&store->file_pages, memory_order_relaxed) << store->page_shift;
}
