/*
 * settings.c - what may be changed of an open store: how long commits last, how long recovery may.
 *
 * Threads: any. A crash in the middle leaves commits of either level, each as durable as it said.
 */
#include "storage/store.h"

void ps_set_max_recovery(struct ps_store *store, uint32_t ms)
{
    atomic_store(&store->max_recovery_ms, ms == 0 ? DEFAULT_RECOVERY_MS : ms);
}

/* From no log to a log: what is not in the log has to be in the file first, and the log goes on
 * after it. Transactions are kept out by txn_open; the token is free, as checkpoints need it. */
static int begin_logging(struct ps_store *store)
{
    int rc = ps_rule(RULE_CHECKPOINT_BEFORE_LOGGING) ? checkpoint_run(store, false) : 0;
    if (rc != 0) {
        return rc;
    }
    struct ps_fault fault = {0};
    store->log_allowance = 0;
    pthread_mutex_lock(&store->log_mu);
    pthread_mutex_lock(&store->mu);
    struct log_pos pos = store->file_state->pos;
    pthread_mutex_unlock(&store->mu);
    rc = log_start(store->log, &pos, &fault);
    if (rc == 0) {
        log_end(store->log, &store->log_end);
    }
    pthread_mutex_unlock(&store->log_mu);
    return rc == 0 ? 0
                   : store_fault(store, rc, fault.sys_errno, fault.file, fault.offset, "%s",
                                 fault.what);
}

int ps_set_durability(struct ps_store *store, enum ps_durability level)
{
    if (!durability_is_valid(level) || store->options.read_only_check) {
        return PS_INVALID;
    }
    pthread_mutex_lock(&store->mu);
    while (store->token_taken || store->txn_open) {
        pthread_cond_wait(&store->cond, &store->mu);
    }
    store->txn_open = true; /* nobody executes; what was executed is published, or dropped */
    while (store->unpublished > 0) {
        pthread_cond_wait(&store->cond, &store->mu);
    }
    int rc = store->poisoned;
    pthread_mutex_unlock(&store->mu);
    if (rc == 0 && ps_get_durability(store) == PS_NONE && level != PS_NONE) {
        rc = begin_logging(store);
    }
    if (rc == 0 && level == PS_NONE && ps_get_durability(store) != PS_NONE &&
        ps_rule(RULE_LOG_FLUSHED_BEFORE_NONE)) {
        /* Checkpoints without a log still name where it ended: that must be on the device. */
        rc = ps_flush(store, ps_published(store));
    }
    if (rc == 0) {
        atomic_store(&store->durability, (int)level);
    }
    pthread_mutex_lock(&store->mu);
    store->txn_open = false;
    pthread_cond_broadcast(&store->cond);
    pthread_mutex_unlock(&store->mu);
    return rc;
}
