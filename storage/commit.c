/*
 * commit.c - from an executed group to a published one: log records, durability, the log thread.
 *
 * The writer hands a group over and goes on; the log thread writes all groups that wait with one
 * write, makes them durable with one sync if any of them asks for it, and publishes them in order
 * (I5). When nothing is in flight the committing thread does this itself: at `everysec` always (a
 * write costs less than a wake-up), at `always` when the caller says that it is alone.
 *
 *  C1 Groups are written, and published, in the order of their sequences.
 *  C2 After a failed write every unpublished group is dropped. A new log epoch that ends the old
 *     one at the published sequence is durable before anybody hears of it; otherwise the store is
 *     poisoned. What the groups did in memory is undone by the next holder of the token.
 *  C3 A failed sync poisons the store: no more writes, no second try.
 *
 * Threads: committing is the token holder's. A crash leaves a prefix of the groups.
 */
#include <time.h>

#include "storage/age.h"

#define SYNC_EVERY_MS    1000
#define SWEEP_PATHS      4u                  /* branches relinked along with a commit */
#define ALLOWANCE_BYTES  (UINT64_C(4) << 20) /* log reserved at a time, at most, */
#define ALLOWANCE_PART   4u                  /* and no more than this part of a segment: */
#define ALLOWANCE_COMMIT 1024u               /* for commits of so many bytes */
#define TIGHT_MS         1000                /* between attempts to make segments on a full disk */

enum ps_durability ps_get_durability(const struct ps_store *store)
{
    return (enum ps_durability)atomic_load_explicit(&store->durability, memory_order_relaxed);
}

/* What a sync has just made durable is published a moment later. */
uint64_t ps_durable(const struct ps_store *store)
{
    uint64_t durable = atomic_load(&store->durable_seq);
    uint64_t published = atomic_load(&store->published_seq);
    return durable < published ? durable : published;
}

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000) + now.tv_nsec / 1000000;
}

static uint64_t allowance(const struct ps_store *store)
{
    uint64_t part = log_segment_size(store->log) / ALLOWANCE_PART;
    return part < ALLOWANCE_BYTES ? part : ALLOWANCE_BYTES;
}

/* The writer counts down what it may still append, so that it rarely needs the log's lock. */
int log_room(struct ps_store *store, uint64_t bytes)
{
    if (!ps_rule(RULE_LOG_SPACE_RESERVED)) {
        return 0;
    }
    struct ps_txn *txn = &store->txn;
    uint64_t reserved = txn->group->ops.n + bytes; /* with what it has gathered */
    txn->reserved_log = txn->reserved_log < reserved ? reserved : txn->reserved_log;
    uint64_t wanted = txn->reserved_log + pieces_spare(txn);
    if (store->log_allowance >= (int64_t)wanted && store->log_allowance_commits > 0) {
        return 0;
    }
    struct ps_fault fault = {0};
    uint64_t waiting = 0; /* handed over and not appended yet */
    uint64_t commits = 1;
    pthread_mutex_lock(&store->log_mu);
    pthread_mutex_lock(&store->mu);
    for (struct group *g = store->groups; g != NULL; g = g->next) {
        waiting += g->status == GROUP_QUEUED ? g->ops.n + 64 : 0;
        commits += g->status == GROUP_QUEUED;
    }
    pthread_mutex_unlock(&store->mu);
    uint64_t needed = waiting + wanted;
    uint64_t more = allowance(store);
    bool tight = now_ms() < store->log_tight_until;
    int rc = 0;
    if (!tight) {
        rc = log_reserve(store->log, commits + 2 * more / ALLOWANCE_COMMIT, needed + more, &fault);
        tight = rc == PS_NOSPACE;
        store->log_tight_until = tight ? now_ms() + TIGHT_MS : 0;
    }
    if (tight) { /* on a full disk what there is may do for this one */
        rc = log_reserve(store->log, commits, needed, &fault);
    }
    pthread_mutex_unlock(&store->log_mu);
    if (rc != 0) {
        return store_fault(store, rc, fault.sys_errno, fault.file, fault.offset, "%s", fault.what);
    }
    store->log_allowance = (int64_t)(wanted + (tight ? 0 : more));
    store->log_allowance_commits = tight ? 1 : (int64_t)(1 + more / ALLOWANCE_COMMIT);
    return 0;
}

/* ---- writing groups -------------------------------------------------------------------------- */

/* Everything unpublished is gone. mu not held, log_mu held. */
static void drop_unpublished(struct ps_store *store, bool poison)
{
    struct ps_fault fault = {0};
    if (!poison) {
        const struct state *published = atomic_load(&store->published);
        poison = log_start(store->log, &published->pos, &fault) != 0;
        log_end(store->log, &store->log_end);
    }
    pthread_mutex_lock(&store->mu);
    if (poison) {
        store->poisoned = PS_POISONED;
    }
    store->drops++;
    for (struct group *g = store->groups; g != NULL; g = g->next) {
        if (g->status == GROUP_QUEUED || g->status == GROUP_WRITING) {
            g->status = GROUP_DROPPED;
            watch_unpin(store->watch, g->stamp);
            store->unpublished--;
            store->log_broken = true;
            if (g->waiter != NULL) {
                *g->waiter = (struct waiter){.done = true, .rc = PS_UNKNOWN};
                g->waiter = NULL;
            }
        }
    }
    uint64_t seq = atomic_load(&store->published_seq);
    pthread_cond_broadcast(&store->cond);
    pthread_mutex_unlock(&store->mu);
    if (store->options.on_publish != NULL) {
        store->options.on_publish(store->options.arg, seq, PS_UNKNOWN);
    }
}

/* A segment was begun: the log thread makes the one after it before it is needed. */
static void ask_for_segment(struct ps_store *store, uint64_t began)
{
    uint64_t size = log_segment_size(store->log);
    if (began / size != store->log_end.position / size) {
        pthread_mutex_lock(&store->mu);
        store->prepare_wanted = true;
        pthread_cond_signal(&store->log_cond);
        pthread_mutex_unlock(&store->mu);
    }
}

/* Appends and writes the groups from `first` to `last`; log_mu held. */
static int write_groups(struct ps_store *store, struct group *first, struct group *last)
{
    bool any = false;
    uint64_t began = store->log_end.position;
    uint64_t logged = 0;
    int rc = 0;
    for (struct group *g = first; rc == 0; g = g->next) {
        if (g->logged) {
            uint64_t durable = ps_rule(RULE_DURABLE_MARKS) ? ps_durable(store) : 0;
            rc = log_append(store->log, g->state->seq, stamp_of(g->state), durable, g->ops.at,
                            g->ops.n, &store->log_end);
            any = true;
            logged = g->state->seq;
        } else {
            store->log_end.seq = g->state->seq;
        }
        g->state->pos = store->log_end;
        if (g == last) {
            break;
        }
    }
    struct ps_fault fault = {0};
    if (rc == 0 && any) {
        rc = log_write(store->log, &fault);
        store->unsynced = true;
        store->written_seq = rc == 0 ? logged : store->written_seq;
        ask_for_segment(store, began);
    }
    if (rc != 0) {
        store_fault(store, rc, fault.sys_errno, fault.file, fault.offset, "writing the log: %s",
                    fault.what);
    }
    return rc;
}

/* Syncs what was written; log_mu held. */
static int sync_log(struct ps_store *store)
{
    struct ps_fault fault = {0};
    if (store->unsynced) {
        int rc = log_sync(store->log, &fault);
        if (rc != 0) {
            return store_fault(store, PS_POISONED, fault.sys_errno, fault.file, fault.offset,
                               "syncing the log: %s", fault.what);
        }
        store->unsynced = false;
    }
    if (atomic_load(&store->durable_seq) < store->written_seq) {
        atomic_store(&store->durable_seq, store->written_seq);
    }
    return 0;
}

/* Waits for what the helper has to write for the groups; false if it could not. */
static bool runs_written(struct ps_store *store, const struct group *first,
                         const struct group *last)
{
    uint64_t ticket = 0;
    for (const struct group *g = first;; g = g->next) {
        ticket = g->helper_ticket > ticket ? g->helper_ticket : ticket;
        if (g == last) {
            break;
        }
    }
    if (ticket == 0) {
        return true;
    }
    helper_await(&store->helper, ticket);
    return !atomic_load(&store->runs_failed);
}

/* Writes, syncs if asked, publishes, tells. log_mu held; the groups are GROUP_WRITING. */
static void carry_through(struct ps_store *store, struct group *first, struct group *last,
                          bool sync)
{
    uint64_t seq = last->state->seq;
    if (ps_rule(RULE_RUNS_BEFORE_PUBLICATION) && !runs_written(store, first, last)) {
        drop_unpublished(store, true);
        return;
    }
    int rc = write_groups(store, first, last);
    if (rc != 0) {
        drop_unpublished(store, false);
        return;
    }
    if (sync && ps_rule(RULE_LOG_SYNC_BEFORE_ACK) && sync_log(store) != 0) {
        drop_unpublished(store, true);
        return;
    }
    pthread_mutex_lock(&store->mu);
    publish_through(store, last);
    pthread_mutex_unlock(&store->mu);
    if (store->options.on_publish != NULL) {
        store->options.on_publish(store->options.arg, seq, 0);
    }
}

/* ---- the log thread -------------------------------------------------------------------------- */

static bool have_queued(const struct ps_store *store)
{
    for (const struct group *g = store->groups; g != NULL; g = g->next) {
        if (g->status == GROUP_QUEUED) {
            return true;
        }
    }
    return false;
}

static void wait_until(struct ps_store *store, int64_t ms)
{
    struct timespec until = {ms / 1000, ms % 1000 * 1000000};
    pthread_cond_timedwait(&store->log_cond, &store->mu, &until);
}

/* Takes the groups that wait; false if there are none. mu held. */
static bool collect(struct ps_store *store, struct group **first, struct group **last, bool *sync)
{
    *first = NULL;
    *sync = false;
    for (struct group *g = store->groups; g != NULL; g = g->next) {
        if (g->status == GROUP_QUEUED) {
            g->status = GROUP_WRITING;
            *first = *first == NULL ? g : *first;
            *last = g;
            *sync = *sync || g->level == PS_ALWAYS;
        }
    }
    return *first != NULL;
}

int groups_write(struct ps_store *store)
{
    struct group *first;
    struct group *last;
    bool sync;
    pthread_mutex_lock(&store->mu);
    bool any = collect(store, &first, &last, &sync);
    pthread_mutex_unlock(&store->mu);
    if (any) {
        carry_through(store, first, last, sync);
    }
    pthread_mutex_lock(&store->mu);
    int rc = store->poisoned != 0 ? store->poisoned : store->log_broken ? PS_IO : 0;
    pthread_mutex_unlock(&store->mu);
    return rc;
}

/* A sync that nobody's group waits for: each second at everysec, and for ps_flush. */
static void sync_idle(struct ps_store *store)
{
    pthread_mutex_lock(&store->log_mu);
    if (sync_log(store) != 0) {
        drop_unpublished(store, true);
    }
    pthread_mutex_unlock(&store->log_mu);
    pthread_mutex_lock(&store->mu);
    pthread_cond_broadcast(&store->cond);
    pthread_mutex_unlock(&store->mu);
}

static void *log_main(void *arg)
{
    struct ps_store *store = arg;
    int64_t due = now_ms() + SYNC_EVERY_MS, look = due; /* at the log; at snapshots' ages */
    pthread_mutex_lock(&store->mu);
    while (!store->log_stop || have_queued(store)) {
        bool flush = store->flush_wanted > atomic_load(&store->durable_seq) && store->poisoned == 0;
        bool prepare = store->prepare_wanted;
        store->prepare_wanted = false;
        if (!have_queued(store) && !flush && !prepare && !store->log_stop && now_ms() < due) {
            wait_until(store, due);
            continue;
        }
        bool work = have_queued(store);
        pthread_mutex_unlock(&store->mu);
        if (work) {
            pthread_mutex_lock(&store->log_mu);
            (void)groups_write(store);
            pthread_mutex_unlock(&store->log_mu);
        }
        if (flush || now_ms() >= due) {
            sync_idle(store);
            due = now_ms() + SYNC_EVERY_MS;
        }
        if (now_ms() >= look) {
            ages_tick(store);
            look = now_ms() + SYNC_EVERY_MS;
        }
        if (prepare) {
            struct ps_fault fault;
            (void)log_prepare(store->log, &fault); /* ahead of need; log_reserve reports */
        }
        pthread_mutex_lock(&store->mu);
    }
    pthread_mutex_unlock(&store->mu);
    return NULL;
}

int log_thread_start(struct ps_store *store)
{
    store->prepare_wanted = true; /* one segment to go on in while a checkpoint frees the other */
    store->log_thread_runs = pthread_create(&store->log_thread, NULL, log_main, store) == 0;
    return store->log_thread_runs ? 0 : PS_NOMEM;
}

void log_thread_stop(struct ps_store *store)
{
    if (!store->log_thread_runs) {
        return;
    }
    pthread_mutex_lock(&store->mu);
    store->log_stop = true;
    pthread_cond_signal(&store->log_cond);
    pthread_mutex_unlock(&store->mu);
    pthread_join(store->log_thread, NULL);
    store->log_thread_runs = false;
}

/* Until a commit, or with UINT64_MAX everything executed, is published or dropped. */
int publication_wait(struct ps_store *store, uint64_t seq)
{
    pthread_mutex_lock(&store->mu);
    while (store->unpublished > 0 && store->poisoned == 0 &&
           atomic_load(&store->published_seq) < seq) {
        pthread_cond_wait(&store->cond, &store->mu);
    }
    int rc = store->poisoned;
    pthread_mutex_unlock(&store->mu);
    return rc;
}

int ps_flush(struct ps_store *store, uint64_t seq)
{
    if (ps_durable(store) >= seq) {
        return 0;
    }
    int rc = publication_wait(store, seq);
    if (atomic_load(&store->published_seq) < seq) {
        return rc != 0 ? rc : PS_UNKNOWN; /* dropped: it never comes */
    }
    if (ps_get_durability(store) == PS_NONE) {
        return checkpoint_ask(store, true);
    }
    pthread_mutex_lock(&store->mu);
    while (atomic_load(&store->durable_seq) < seq && store->poisoned == 0) {
        if (store->flush_wanted < seq) {
            store->flush_wanted = seq;
        }
        pthread_cond_signal(&store->log_cond);
        pthread_cond_wait(&store->cond, &store->mu);
    }
    rc = atomic_load(&store->durable_seq) >= seq ? 0 : store->poisoned;
    pthread_mutex_unlock(&store->mu);
    return rc;
}

/* ---- committing ------------------------------------------------------------------------------ */

/* Puts the group at the end of the list; says who carries it through. mu held. */
static bool enqueue(struct ps_store *store, struct group *group, bool may_do_it)
{
    watch_pin(store->watch, group->stamp);
    group->next = NULL;
    if (store->groups_last != NULL) {
        store->groups_last->next = group;
    } else {
        store->groups = group;
    }
    store->groups_last = group;
    bool first = store->unpublished++ == 0;
    bool self = first && may_do_it && pthread_mutex_trylock(&store->log_mu) == 0;
    group->status = self ? GROUP_WRITING : GROUP_QUEUED;
    if (!self) {
        pthread_cond_signal(&store->log_cond);
    }
    return self;
}

/* Hands the transaction's group over and ends the transaction; *self: carry it through yourself
 * (log_mu is held). The token is given up. */
static int hand_over(struct ps_store *store, struct ps_txn *txn, enum ps_durability level,
                     bool alone, struct waiter *waiter, struct group **group, bool *self)
{
    int released = 0;
    while (txn->nsavepoints > 0 && released == 0) {
        released = ps_savepoint_release(txn);
    }
    if (released != 0) {
        return released;
    }
    if (store->relink_pending > 0 && txn_free_slots(store) > slots_kept_back(store) / 2) {
        int rc = relink_sweep(txn, SWEEP_PATHS);
        if (rc != 0 && rc != PS_TXNFULL) {
            return rc;
        }
    }
    struct group *g = txn->group;
    if (!vec_reserve(&g->deaths, g->deaths.n)) { /* each may be passed on (checkpoint.c) */
        return PS_NOMEM;
    }
    g->state = txn->state;
    g->base = txn->base;
    g->stamp = txn->stamp;
    g->state->seq = store->tip->seq + 1;
    g->level = level;
    g->logged = ps_get_durability(store) != PS_NONE;
    g->waiter = waiter;
    *group = g;
    store->log_allowance -= (int64_t)g->ops.n + 64;
    store->log_allowance_commits--;
    store->stat.commits++;
    store->stat.ops += g->nops;
    atomic_fetch_add_explicit(&store->ops_since_checkpoint, g->nops + g->weight,
                              memory_order_relaxed);
    pthread_mutex_lock(&store->mu);
    if (store->log_broken || store->poisoned != 0) {
        int rc = store->poisoned != 0 ? store->poisoned : PS_IO;
        pthread_mutex_unlock(&store->mu);
        return rc;
    }
    store->tip = txn->state;
    *self = enqueue(store, g, level == PS_NONE || level == PS_EVERYSEC || alone);
    txn->state = NULL;
    txn->group = NULL;
    txn->view.state = NULL;
    decoded_trim(&txn->view.decoded);
    store->txn_open = store->token_taken = false;
    show_stats(store);
    pthread_cond_broadcast(&store->cond);
    pthread_mutex_unlock(&store->mu);
    return 0;
}

/* Ends a transaction that changed nothing. */
static int commit_unchanged(struct ps_store *store, struct ps_txn *txn, struct waiter *waiter,
                            uint64_t seq)
{
    txn_discard(txn);
    pthread_mutex_lock(&store->mu);
    bool gone = store->log_broken; /* it began from a state that was dropped since */
    if (waiter != NULL) {
        bool published = atomic_load(&store->published_seq) >= seq;
        *waiter = (struct waiter){.done = published, .drops = store->drops};
    }
    store->txn_open = false;
    pthread_mutex_unlock(&store->mu);
    token_give(store);
    return gone ? PS_IO : 0;
}

static int commit(struct ps_txn *txn, enum ps_durability level, bool alone, struct waiter *waiter,
                  uint64_t *seq)
{
    struct ps_store *store = txn->view.store;
    *seq = 0;
    if (txn->error != 0 || !durability_is_valid(level)) {
        int error = txn->error != 0 ? txn->error : PS_INVALID;
        ps_abort(txn);
        return error;
    }
    *seq = store->tip->seq + (txn->changed ? 1 : 0);
    if (!txn->changed) {
        return commit_unchanged(store, txn, waiter, *seq);
    }
    enum ps_durability own = ps_get_durability(store);
    level = own == PS_NONE ? PS_NONE : level > own ? level : own;
    struct group *group;
    bool self;
    bool due = checkpoint_due(store);
    int rc = hand_over(store, txn, level, alone, waiter, &group, &self);
    if (rc != 0) {
        ps_abort(txn);
        return rc;
    }
    if (self) {
        carry_through(store, group, group, level == PS_ALWAYS);
        pthread_mutex_unlock(&store->log_mu);
    }
    if (due) {
        checkpoint_if_due(store);
    }
    return 0;
}

/* A commit that asked for more than no log gets a checkpoint. It has happened already. */
static int make_durable(struct ps_store *store, uint64_t seq)
{
    return ps_flush(store, seq) == 0 ? 0 : PS_UNKNOWN;
}

int ps_commit_start(struct ps_txn *txn, enum ps_durability level, bool alone, uint64_t *seq)
{
    struct ps_store *store = txn->view.store;
    bool more = txn->changed && level > PS_NONE && ps_get_durability(store) == PS_NONE;
    uint64_t committed;
    int rc = commit(txn, level, alone, NULL, &committed);
    if (seq != NULL) {
        *seq = committed;
    }
    return rc == 0 && more ? make_durable(store, committed) : rc;
}

int ps_commit(struct ps_txn *txn, enum ps_durability level, uint64_t *seq)
{
    struct ps_store *store = txn->view.store;
    bool changed = txn->changed;
    bool more = changed && level > PS_NONE && ps_get_durability(store) == PS_NONE;
    struct waiter waiter = {0};
    uint64_t committed = 0;
    int rc = commit(txn, level, true, &waiter, &committed);
    if (seq != NULL) {
        *seq = committed;
    }
    if (rc != 0) {
        return rc;
    }
    pthread_mutex_lock(&store->mu);
    while (changed && !waiter.done) {
        pthread_cond_wait(&store->cond, &store->mu);
    }
    /* One that changed nothing may have seen states that are not published; it goes with them. */
    while (!waiter.done && store->drops == waiter.drops) {
        waiter.done = atomic_load(&store->published_seq) >= committed;
        if (!waiter.done) {
            pthread_cond_wait(&store->cond, &store->mu);
        }
    }
    rc = waiter.done ? waiter.rc : PS_UNKNOWN;
    pthread_mutex_unlock(&store->mu);
    return rc == 0 && more ? make_durable(store, committed) : rc;
}

int commit_internal(struct ps_store *store, struct ps_txn *txn)
{
    struct group *g = txn->group;
    g->state = txn->state;
    if (!txn->replay) {
        g->state->pos = store->tip->pos; /* published, so it is known */
    }
    g->base = txn->base;
    g->stamp = txn->stamp;
    g->level = PS_NONE;
    g->logged = false;
    g->waiter = NULL;
    pthread_mutex_lock(&store->mu);
    PS_ASSERT(store->unpublished == 0 && !store->log_broken);
    g->next = NULL;
    g->status = GROUP_QUEUED;
    PS_ASSERT(store->groups_last == NULL || store->groups_last->status == GROUP_PUBLISHED);
    if (store->groups_last != NULL) {
        store->groups_last->next = g;
    } else {
        store->groups = g;
    }
    store->groups_last = g;
    store->unpublished++;
    store->tip = g->state;
    publish_through(store, g);
    pthread_mutex_unlock(&store->mu);
    txn->state = NULL;
    txn->group = NULL;
    txn->view.state = NULL;
    return 0;
}
