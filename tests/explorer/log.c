/*
 * The log: write, sync, publish, failures, epochs, recycling.
 *
 * Invariants:
 *  1. A record sits in the cell of its sequence. A new epoch writes over the cells of the one
 * before, the worst a recycled segment can do: dead records lie exactly where live ones will be
 * expected.
 *  2. Records after epoch_start belong to the current epoch; those before were durable, or about to
 *     be made so, when it began.
 *  3. A failed sync leaves records in the cache that the system believes clean (log_lost): later
 *     syncs succeed without writing them.
 */
#include "tests/explorer/model.h"

#include <string.h>

bool log_record_valid(const struct world *w, const struct model *m, uint8_t seq)
{
    uint8_t epoch = w->log[seq].epoch;

    if (!epoch)
        return false;
    return seq <= w->epoch_start || epoch == w->epoch || !holds(m, RULE_EPOCH_OF_LOG);
}

static void put_record(struct world *w, uint8_t seq)
{
    w->log[seq].epoch = w->epoch;
    memcpy(w->log[seq].value, w->history[seq], KEYS);
    w->log_lost[seq] = 0;
}

void log_acknowledge(struct world *w, const struct model *m)
{
    uint8_t seq = w->published.seq;

    w->acked_system = seq;
    if (m->bounds->everysec && w->log_synced < seq)
        seq = w->log_synced;
    if (w->acked_device < seq)
        w->acked_device = seq;
}

static bool log_write(struct world *w)
{
    uint8_t end = world_head(w)->seq;

    if (w->log_failed || w->poisoned || w->log_written >= end)
        return false;
    for (uint8_t s = (uint8_t)(w->log_written + 1); s <= end; s++)
        put_record(w, s);
    w->log_written = end;
    return true;
}

/* One fdatasync of the log: everything written becomes durable, except what the system lost. */
static void sync_log(struct world *w, const struct model *m)
{
    for (uint8_t s = 1; s < SEQS; s++)
        if (!w->log_lost[s])
            w->log_disk[s] = w->log[s];
    w->epoch_disk = w->epoch;
    w->epoch_start_disk = w->epoch_start;
    w->log_synced = w->log_written;
    log_acknowledge(w, m);
}

static bool publish(struct world *w, const struct model *m)
{
    bool needs_sync = !m->bounds->everysec && holds(m, RULE_LOG_SYNC_BEFORE_ACK);

    if (!w->queued || w->queue[0].seq > (needs_sync ? w->log_synced : w->log_written))
        return false;
    w->published = w->queue[0];
    w->queued--;
    memmove(&w->queue[0], &w->queue[1], (QUEUE - 1) * sizeof w->queue[0]);
    memset(&w->queue[QUEUE - 1], 0, sizeof w->queue[0]);
    log_acknowledge(w, m);
    return true;
}

/* A write fails, perhaps after some of it reached the file: unpublished states are dropped. */
static bool log_fail(struct world *w, const struct model *m)
{
    uint8_t end = world_head(w)->seq;

    if (w->log_failed || w->poisoned || w->log_written >= end ||
        w->used_write_failures == m->bounds->write_failures)
        return false;
    w->used_write_failures++;
    for (uint8_t s = (uint8_t)(w->log_written + 1); s <= end; s++)
        put_record(w, s);
    world_undo(w, m, w->published.stamp);
    memset(w->queue, 0, sizeof w->queue);
    w->queued = 0;
    w->txn_open = w->savepoint_open = w->txn_start = 0;
    memset(&w->txn, 0, sizeof w->txn);
    memset(&w->savepoint, 0, sizeof w->savepoint);
    memset(w->txn_value, 0, KEYS);
    memset(w->savepoint_value, 0, KEYS);
    world_forget_sweeps(w);
    w->log_written = w->published.seq;
    if (w->log_synced > w->log_written)
        w->log_synced = w->log_written;
    w->log_failed = 1;
    return true;
}

/* The new epoch begins; then the clients of the dropped groups hear that the outcome is unknown and
 * may read back: from here on the dropped groups must not come back. */
static bool log_epoch(struct world *w, const struct model *m)
{
    if (!w->log_failed)
        return false;
    w->log_failed = 0;
    w->epoch++;
    w->epoch_start = w->published.seq;
    if (holds(m, RULE_EPOCH_SYNC_BEFORE_UNKNOWN))
        sync_log(w, m);
    for (uint8_t s = (uint8_t)(w->published.seq + 1); s < SEQS; s++)
        memset(w->history[s], 0, KEYS);
    w->history_len = w->published.seq;
    return true;
}

static bool sync_fail(struct world *w, const struct model *m)
{
    if (w->poisoned || w->log_failed || w->log_synced >= w->log_written ||
        w->used_sync_failures == m->bounds->sync_failures)
        return false;
    w->used_sync_failures++;
    for (uint8_t s = 1; s < SEQS; s++)
        w->log_lost[s] = memcmp(&w->log[s], &w->log_disk[s], sizeof w->log[s]) != 0;
    if (holds(m, RULE_FAILED_SYNC_POISONS))
        w->poisoned = 1;
    return true;
}

static uint8_t newest_seq(const struct meta metas[2])
{
    uint8_t seq = 0;

    for (int i = 0; i < 2; i++)
        if (metas[i].valid && metas[i].state.seq > seq)
            seq = metas[i].state.seq;
    return seq;
}

/* Segments before the newest checkpoint are recycled: what they held is gone. */
static bool log_recycle(struct world *w, const struct model *m)
{
    bool synced = holds(m, RULE_RECYCLE_UNDER_SYNCED_META);
    uint8_t begin = newest_seq(synced ? w->meta_disk : w->meta);

    if (w->poisoned || begin <= w->log_begin)
        return false;
    for (uint8_t s = 1; s <= begin; s++) {
        memset(&w->log[s], 0, sizeof w->log[s]);
        memset(&w->log_disk[s], 0, sizeof w->log_disk[s]);
        w->log_lost[s] = 0;
    }
    w->log_begin = begin;
    return true;
}

bool log_step(struct world *w, const struct model *m, enum action_kind kind)
{
    switch (kind) {
    case ACT_LOG_WRITE:
        return log_write(w);
    case ACT_LOG_SYNC:
        if (w->log_failed || w->poisoned || w->log_synced >= w->log_written)
            return false;
        sync_log(w, m);
        return true;
    case ACT_PUBLISH:
        return publish(w, m);
    case ACT_LOG_FAIL:
        return log_fail(w, m);
    case ACT_LOG_EPOCH:
        return log_epoch(w, m);
    case ACT_SYNC_FAIL:
        return sync_fail(w, m);
    case ACT_LOG_RECYCLE:
        return log_recycle(w, m);
    default:
        return false;
    }
}
