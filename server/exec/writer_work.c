/*
 * writer_work.c - what the writer does besides units: expiry, garbage, hints. Each is a group. And
 * what it has counted.
 *
 * Threads: the writer; writer_hint and writer_statistics any.
 */
#include "server/exec/writer_internal.h"

#include "server/config/config.h"
#include "server/exec/pool.h"
#include "server/keyspace/keyspace.h"

#include <stdlib.h>
#include <string.h>

#define MAX_HINTS 1024u

/* ---- background work ------------------------------------------------------------------------ */

/* One step of background work in its own group; room is made by committing, once. */
static void maintain(struct writer *w)
{
    size_t done = 0;
    bool more = false;
    int rc = PS_BUSY;
    for (int i = 0; i < 2 && rc == PS_BUSY; i++) {
        writer_group_begin(w);
        if (w->txn == NULL) {
            return;
        }
        rc = keyspace_maintain(w->env->keyspace, w->txn, w->x.ctx.now_ms, WRITER_STEPS, &done,
                               &more);
        if (rc == 0 || rc == PS_BUSY) {
            writer_group_commit(w, false);
        } else {
            ps_abort(w->txn);
        }
    }
    w->more = rc == 0 && more && done > 0;
}

void writer_background(struct writer *w, int64_t now_ms)
{
    if (now_ms < w->next_round && !w->more && !w->due_back) {
        return;
    }
    w->next_round = now_ms + 1000 / config_number(w->env->config, CONFIG_HZ);
    if (w->due_back || !atomic_load_explicit(&w->env->disk_regime, memory_order_acquire)) {
        w->due_back = false;
        maintain(w);
        return;
    }
    w->more = false; /* it goes on when the errand is back */
    if (!w->due_away) {
        w->due_away = true;
        pool_submit(w->env->pool, &w->due);
    }
}

void writer_run_hints(struct writer *w)
{
    writer_group_begin(w);
    for (struct hint *h = w->hints, *next; h != NULL; h = next) {
        next = (struct hint *)h->mail.next;
        if (w->txn != NULL &&
            keyspace_expire_key(w->env->keyspace, w->txn, h->db, (struct ps_slice){h->key, h->len},
                                w->x.ctx.now_ms) == PS_BUSY) {
            writer_group_commit(w, false); /* the index finds it later */
            writer_group_begin(w);
        }
        writer_count(&w->hints_done, 1);
        atomic_fetch_sub_explicit(&w->hints_waiting, 1, memory_order_relaxed);
        free(h);
    }
    w->hints = NULL;
    if (w->txn != NULL) {
        writer_group_commit(w, false);
    }
}

void writer_hint(struct command_ctx *ctx, unsigned db, struct ps_slice key)
{
    struct writer *w = ((struct exec_env *)ctx->hint_arg)->writer;
    struct hint *hint;
    if (atomic_load_explicit(&w->hints_waiting, memory_order_relaxed) >= MAX_HINTS) {
        return;
    }
    hint = malloc(sizeof(*hint) + key.len);
    if (hint == NULL) {
        return;
    }
    hint->mail.kind = MAIL_HINT;
    hint->db = db;
    hint->len = key.len;
    memcpy(hint->key, key.data, key.len);
    atomic_fetch_add_explicit(&w->hints_waiting, 1, memory_order_relaxed);
    mailbox_post(&w->box, &hint->mail);
}

/* ---- statistics ----------------------------------------------------------------------------- */

void writer_statistics(struct writer *w, struct writer_statistics *s)
{
    *s = (struct writer_statistics){
        w->units,    w->commands,   w->groups,      w->splits,       w->retries,
        w->failures, w->hints_done, w->stage_steps, w->queued_bytes, 0};
    pthread_mutex_lock(&w->lock);
    s->unpublished_units = w->waiting.count;
    pthread_mutex_unlock(&w->lock);
}
