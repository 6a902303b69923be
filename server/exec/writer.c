/*
 * writer.c - see writer.h: groups of units, one transaction each.
 *
 * Invariants
 *  1. Units execute in the order in which they arrived; a group is what had arrived when it began,
 * up to GROUP_COMMANDS and GROUP_BYTES: groups grow while the device is busy and shrink when it is
 * idle. Units with a large value wait beside until that is written, a step in each group (stage.h).
 *  2. A unit is released (posted home) only when the newest state that it could have seen is
 *     published: its own group's, or, if that changed nothing, the group's before it.
 *  3. A group that fails leaves nothing of itself: its units answer errors (rc of the commit), or
 * run again under savepoints when a command failed after its first change.
 *  4. `waiting` is ordered by seq. It is taken off under its lock; posting happens outside.
 *  5. The writer never waits for room while a unit that it has keeps a state: nobody could move
 *     that out of dirty memory. A unit whose reply needs one ends its group, and goes home; one
 *     that turns out to need none lets go at once.
 *
 * Threads: the writer; writer_published on whatever thread publishes.
 * Crash: a group that was not committed is gone; nobody was told about it.
 */
#include "server/exec/writer_internal.h"

#include "server/config/config.h"
#include "server/exec/stage.h"
#include "server/keyspace/keyspace.h"
#include "server/observe/logger.h"
#include "server/observe/metrics.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define GROUP_COMMANDS 4096u
#define GROUP_BYTES    (4u * 1024 * 1024)
#define QUEUE_BYTES    (64u * 1024 * 1024)
#define MAX_HOMES      16u /* loops that are woken in one go */

void writer_count(_Atomic uint64_t *counter, uint64_t n)
{
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + n,
                          memory_order_relaxed);
}

static int64_t monotonic_ms(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/* ---- releasing ------------------------------------------------------------------------------ */

/* Posts units home, and wakes each home once. They belong to their loops from then on. */
static void post_home(struct unit *unit)
{
    struct mailbox *homes[MAX_HOMES];
    size_t n = 0;
    while (unit != NULL) {
        struct unit *next = unit->next;
        struct mailbox *home = unit->home;
        size_t i = 0;
        mailbox_push(home, &unit->mail);
        while (i < n && homes[i] != home) {
            i++;
        }
        if (i == MAX_HOMES) {
            mailbox_wake(home);
        } else if (i == n) {
            homes[n++] = home;
        }
        unit = next;
    }
    while (n > 0) {
        mailbox_wake(homes[--n]);
    }
}

/* Takes off `waiting` what is published up to seq (rc 0), or what came after it and failed. */
static struct unit *take_waiting(struct writer *w, uint64_t seq, int rc)
{
    struct unit_list out;
    list_init(&out);
    pthread_mutex_lock(&w->lock);
    while (w->waiting.head != NULL && (rc < 0 || w->waiting.head->seq <= seq)) {
        struct unit *unit = list_pop(&w->waiting);
        if (rc < 0 && unit->seq > seq) {
            unit_fail(unit, rc);
        }
        list_push(&out, unit);
    }
    pthread_mutex_unlock(&w->lock);
    return out.head;
}

static bool nobody_waits(struct writer *w)
{
    pthread_mutex_lock(&w->lock);
    bool none = w->waiting.head == NULL;
    pthread_mutex_unlock(&w->lock);
    return none;
}

void writer_published(void *arg, uint64_t seq, int rc)
{
    struct exec_env *env = arg;
    if (env->writer == NULL) {
        return;
    }
    if (rc < 0) {
        atomic_store(&env->writer->dropped, true);
    }
    post_home(take_waiting(env->writer, seq, rc < 0 ? PS_UNKNOWN : 0));
}

static void queue_shrinks(struct writer *w, size_t bytes)
{
    size_t left = atomic_fetch_sub(&w->queued_bytes, bytes) - bytes;
    struct writer_room *room;
    if (left > QUEUE_BYTES / 2 || atomic_load(&w->rooms) == NULL) {
        return;
    }
    room = atomic_exchange(&w->rooms, NULL);
    while (room != NULL) {
        struct writer_room *next = room->next;
        mailbox_post(room->home, &room->mail);
        room = next;
    }
}

/* ---- a group -------------------------------------------------------------------------------- */

void writer_group_begin(struct writer *w)
{
    w->x.held = 0;
    w->stepped = NULL;
    w->begin_rc = ps_begin(w->env->store, &w->txn);
    if (atomic_exchange(&w->dropped, false)) {
        w->executed_seq = ps_published(w->env->store);
    }
    w->x.ctx.now_ms = exec_now(w->env);
    atomic_store_explicit(&w->env->time_floor, w->x.ctx.now_ms, memory_order_relaxed);
    if (w->begin_rc != 0) {
        w->txn = NULL;
        return;
    }
    w->x.ctx.txn = w->txn;
    w->x.ctx.view = ps_txn_view(w->txn);
}

/* The group did not happen: its units say why. */
static void group_fail(struct writer *w, struct unit_list *units, int rc)
{
    logger_write(w->env->log, LOG_WARNING, "A group of %zu units was not written: %s", units->count,
                 ps_strerror(rc));
    writer_count(&w->failures, 1);
    for (struct unit *u = units->head; u != NULL; u = u->next) {
        unit_fail(u, rc);
    }
    post_home(units->head);
}

static void leave_stage(struct writer *w, struct unit *unit)
{
    stage_end(w->env->keyspace, unit);
    if (unit == w->stepped) {
        w->stepped = NULL;
    }
}

/* The step that this transaction wrote of a value was undone with it. */
static void undo_step(struct writer *w)
{
    if (w->stepped != NULL) {
        stage_undo(w->env->keyspace, w->stepped);
        w->stepped = NULL;
    }
}

/* Hands the group's units over to `waiting`. */
static void group_wait(struct writer *w, uint64_t seq)
{
    pthread_mutex_lock(&w->lock);
    while (w->group.head != NULL) {
        struct unit *unit = list_pop(&w->group);
        unit->seq = seq;
        w->settled += unit->bytes;
        leave_stage(w, unit);
        list_push(&w->waiting, unit);
    }
    pthread_mutex_unlock(&w->lock);
}

/* The commit of `seq` failed and nothing of it happened. Units of earlier groups keep waiting. */
static void group_take_back(struct writer *w, uint64_t seq, struct unit_list *units)
{
    struct unit_list others;
    list_init(&others);
    list_init(units);
    pthread_mutex_lock(&w->lock);
    while (w->waiting.head != NULL) {
        struct unit *unit = list_pop(&w->waiting);
        list_push(unit->seq == seq ? units : &others, unit);
    }
    list_prepend(&w->waiting, &others);
    pthread_mutex_unlock(&w->lock);
}

int writer_group_commit(struct writer *w, bool alone)
{
    bool changed = ps_txn_changed(w->txn);
    uint64_t seq = changed ? ps_txn_seq(w->txn) : w->executed_seq;
    struct unit_list failed;
    int rc = 0;
    metrics_add(&w->metrics->commands, w->x.commands); /* before anybody is answered */
    w->x.commands = 0;
    group_wait(w, seq);
    if (changed) {
        writer_count(&w->groups, 1);
        rc = ps_commit_start(w->txn, PS_NONE, alone, NULL);
    } else {
        ps_abort(w->txn);
    }
    w->txn = NULL;
    if (rc == 0) {
        w->executed_seq = seq;
        post_home(take_waiting(w, ps_published(w->env->store), 0));
        if (atomic_load(&w->dropped)) {
            post_home(take_waiting(w, ps_published(w->env->store), PS_UNKNOWN));
        }
    } else if (rc == PS_UNKNOWN) {
        atomic_store(&w->dropped, true);
        post_home(take_waiting(w, ps_published(w->env->store), PS_UNKNOWN));
    } else {
        undo_step(w);
        group_take_back(w, seq, &failed);
        group_fail(w, &failed, rc);
    }
    return rc;
}

/* A unit without a hole in its replies needs no state. */
static void let_go(struct unit *unit)
{
    if (unit->snapshot != NULL && unit->holes.n == 0) {
        ps_snapshot_reset(unit->snapshot);
    }
}

/* The transaction ends without a trace; the units execute again, each write under a savepoint. */
static void group_retry(struct writer *w, struct unit *current)
{
    writer_count(&w->retries, 1);
    ps_abort(w->txn);
    w->txn = NULL;
    undo_step(w);
    list_push(&w->group, current);
    for (struct unit *u = w->group.head; u != NULL; u = u->next) {
        unit_rewind(u);
        let_go(u);
    }
    w->careful = w->group.count;
    list_prepend(&w->pending, &w->group);
    w->x.ctx.changed = false;
}

/* Commits what there is and goes on in a new transaction, when that is published: what the unit has
 * answered so far is true then, whatever becomes of the rest. If it is not to be, the whole unit
 * fails, and a transaction for others begins. */
static void group_split(struct writer *w, struct unit *current)
{
    int rc;
    writer_count(&w->splits, 1);
    rc = writer_group_commit(w, true);
    if (rc == 0 && ps_published(w->env->store) < w->executed_seq) {
        rc = ps_flush(w->env->store, w->executed_seq);
    }
    writer_group_begin(w);
    if (rc == 0) {
        unit_mark(current);
        rc = w->begin_rc;
    }
    if (rc != 0) {
        unit_fail(current, rc);
    }
}

/* command_ctx.hold: the published state will do if it has this very record. */
static int hold_snapshot(struct command_ctx *ctx, struct ps_slice key, const struct record *record)
{
    struct writer *w = ctx->hold_arg;
    struct unit *unit = w->current;
    struct key_entry entry;
    int rc = unit->snapshot == NULL ? ps_snapshot_new(w->env->store, &unit->snapshot) : 0;
    if (rc != 0) {
        return rc;
    }
    ps_snapshot_renew(unit->snapshot);
    rc = keyspace_find(ctx->keyspace, ps_snapshot_view(unit->snapshot), ctx->db, key, ctx->now_ms,
                       &entry);
    if (rc == 0 && (entry.state == KEY_ABSENT || entry.record.version != record->version)) {
        ps_snapshot_reset(unit->snapshot);
        rc = COMMAND_UNPUBLISHED;
    }
    return rc;
}

/* Runs the unit's next command. 0, or DISPATCH_RETRY, or what puts it off: COMMAND_ELSEWHERE,
 * COMMAND_RESTAGE. */
static int run_command(struct writer *w, struct unit *unit)
{
    const struct unit_command *c = &unit->commands[unit->done];
    int rc = dispatch_run(&w->x, unit->session, c->row, c->argc, unit->argv + c->first, NULL);
    let_go(unit);
    if (rc == PS_BUSY || rc == COMMAND_UNPUBLISHED) {
        group_split(w, unit);
        return 0;
    }
    if (rc == 0) {
        unit->done++;
        unit->session->closing |= unit->out.status != 0;
    }
    return rc;
}

/* Executes a unit's commands. 0, DISPATCH_RETRY or COMMAND_RESTAGE. What is left behind a command
 * that belongs in the pool, or whose reply will be sent in pieces, goes back and is executed where,
 * or when, it belongs. */
static int run_commands(struct writer *w, struct unit *unit)
{
    int rc = 0;
    while (rc == 0 && unit->done < unit->count && !unit->session->closing && unit->holes.n == 0 &&
           !atomic_load_explicit(&unit->session->killed, memory_order_relaxed)) {
        const struct unit_command *c = &unit->commands[unit->done];
        if (dispatch_place(unit->session, c->row, c->argc, unit->argv + c->first) == PLACE_POOL) {
            return 0;
        }
        rc = run_command(w, unit);
    }
    return rc == COMMAND_ELSEWHERE ? 0 : rc;
}

static int run_unit(struct writer *w, struct unit *unit)
{
    int rc;
    w->current = unit;
    w->x.ctx.out = &unit->out;
    w->x.ctx.holes = &unit->holes;
    w->x.ctx.staged = unit->stage.done ? &unit->stage.chunks : NULL;
    unit->session->keep = &unit->spent;
    rc = run_commands(w, unit);
    unit->session->keep = NULL;
    return rc;
}

/* Takes a step of the value that has waited longest. */
static void run_stage(struct writer *w)
{
    int rc;
    if (w->txn == NULL || w->staging.head == NULL) {
        return;
    }
    struct unit *unit = list_pop(&w->staging);
    if (atomic_load_explicit(&unit->session->killed, memory_order_relaxed)) {
        list_push(&w->group, unit); /* it goes home, and its rows are garbage */
        return;
    }
    stage_mark(unit);
    w->stepped = unit;
    rc = stage_step(w->env->keyspace, w->txn, unit);
    if (rc != 0) {
        undo_step(w);
        ps_abort(w->txn);
        writer_group_begin(w);
        unit_fail(unit, rc);
        list_push(&w->group, unit);
    } else if (unit->stage.done) {
        list_push_front(&w->pending, unit);
    } else {
        list_push(&w->staging, unit);
    }
    w->x.held += rc == 0; /* who needs its room has the group committed */
    writer_count(&w->stage_steps, rc == 0);
}

/* There is no transaction to be had: nothing that waits can be done. */
static void fail_all(struct writer *w)
{
    list_prepend(&w->pending, &w->staging);
    list_prepend(&w->pending, &w->group);
    for (struct unit *unit = w->pending.head; unit != NULL; unit = unit->next) {
        w->settled += unit->bytes;
        leave_stage(w, unit);
    }
    group_fail(w, &w->pending, w->begin_rc);
    list_init(&w->pending);
}

/* What becomes of a unit that was run. false: the group is to be run again. */
static bool settle_unit(struct writer *w, struct unit *unit, int rc)
{
    if (rc == COMMAND_RESTAGE) {
        stage_restart(w->env->keyspace, unit);
        list_push_front(&w->pending, unit);
    } else if (rc != 0) {
        group_retry(w, unit);
        return false;
    } else {
        list_push(&w->group, unit);
    }
    return true;
}

static void run_group(struct writer *w)
{
    size_t commands = 0, bytes = 0;
    bool full = false;
    writer_group_begin(w);
    run_stage(w);
    while (w->txn != NULL && w->pending.head != NULL && !full) {
        struct unit *unit = list_pop(&w->pending);
        if (stage_wanted(unit)) {
            list_push(&w->staging, unit);
            continue;
        }
        unit_mark(unit);
        w->x.careful = w->careful > 0;
        w->careful -= w->careful > 0;
        commands += unit->count;
        bytes += unit->bytes;
        if (!settle_unit(w, unit, run_unit(w, unit))) {
            return;
        }
        full = commands >= GROUP_COMMANDS || bytes >= GROUP_BYTES || unit->holes.n > 0;
    }
    writer_count(&w->units, w->group.count);
    writer_count(&w->commands, commands);
    if (w->txn == NULL) {
        fail_all(w);
    } else {
        writer_group_commit(w, w->group.count == 1 && w->pending.head == NULL &&
                                   w->staging.head == NULL && nobody_waits(w) &&
                                   mailbox_empty(&w->box));
    }
    queue_shrinks(w, w->settled);
    w->settled = 0;
}

/* ---- the thread ----------------------------------------------------------------------------- */

static void receive(struct writer *w)
{
    struct mail *next;
    for (struct mail *mail = mailbox_take(&w->box); mail != NULL; mail = next) {
        next = mail->next;
        if (mail == &w->due.mail) {
            w->due_away = false;
            w->due_back = true;
        } else if (mail->kind == MAIL_UNIT) {
            list_push(&w->pending, (struct unit *)mail);
        } else if (mail->kind == MAIL_HINT) {
            mail->next = (struct mail *)w->hints;
            w->hints = (struct hint *)mail;
        }
    }
    w->stopping = atomic_load(&w->stop);
}

static void sleep_until_work(struct writer *w, int64_t now)
{
    struct pollfd fd = {w->box.fd, POLLIN, 0};
    int64_t wait = w->next_round > now ? w->next_round - now : 0;
    if (mailbox_sleep(&w->box)) {
        if (poll(&fd, 1, (int)wait) > 0) {
            mailbox_clear(&w->box);
        }
        mailbox_awake(&w->box);
    }
}

static void *writer_main(void *arg)
{
    struct writer *w = arg;
    pthread_setname_np(pthread_self(), "pando-writer");
    for (;;) {
        receive(w);
        if (w->pending.head != NULL || w->staging.head != NULL) {
            run_group(w);
        }
        if (w->hints != NULL) {
            writer_run_hints(w);
        }
        int64_t now = monotonic_ms();
        writer_background(w, now);
        if (w->pending.head == NULL && w->staging.head == NULL && mailbox_empty(&w->box)) {
            if (w->stopping) {
                return NULL;
            }
            if (!w->more) {
                sleep_until_work(w, now);
            }
        }
    }
}

int writer_start(struct exec_env *env)
{
    struct writer *w = aligned_alloc(64, (sizeof(*w) + 63) / 64 * 64);
    int rc;
    if (w == NULL) {
        return -ENOMEM;
    }
    memset(w, 0, sizeof(*w));
    w->env = env;
    w->wake.kind = MAIL_WAKE;
    w->due.errand = ERRAND_DUE;
    w->due.home = &w->box;
    list_init(&w->pending);
    list_init(&w->group);
    list_init(&w->waiting);
    list_init(&w->staging);
    pthread_mutex_init(&w->lock, NULL);
    executor_init(&w->x, env);
    w->x.ctx.hint_expired = writer_hint;
    w->x.ctx.hint_arg = env;
    w->x.ctx.large = LARGE_ELSEWHERE;
    w->x.ctx.copied = REPLY_INLINE_BYTES;
    w->x.ctx.hold = hold_snapshot;
    w->x.ctx.hold_arg = w;
    w->metrics = metrics_thread(env->metrics);
    w->executed_seq = ps_published(env->store);
    rc = mailbox_init(&w->box);
    env->writer = w; /* before the thread runs: it looks there */
    if (rc == 0) {
        rc = -pthread_create(&w->thread, NULL, writer_main, w);
    }
    if (rc != 0) {
        env->writer = NULL;
        free(w);
    }
    return rc;
}

void writer_stop(struct writer *w)
{
    atomic_store(&w->stop, true);
    mailbox_post(&w->box, &w->wake);
    pthread_join(w->thread, NULL);
    /* Nothing is executed any more; what was is published by now or when the log has written it. */
    ps_flush(w->env->store, w->executed_seq);
}

void writer_free(struct writer *w)
{
    w->env->writer = NULL;
    mailbox_destroy(&w->box);
    pthread_mutex_destroy(&w->lock);
    free(w);
}

void writer_expect(struct writer *w, const struct unit *unit)
{
    atomic_fetch_add(&w->queued_bytes, unit->bytes);
}

void writer_submit_expected(struct writer *w, struct unit *unit)
{
    unit->mail.kind = MAIL_UNIT;
    mailbox_push(&w->box, &unit->mail);
}

void writer_submit(struct writer *w, struct unit *unit)
{
    writer_expect(w, unit);
    writer_submit_expected(w, unit);
}

void writer_wake(struct writer *w)
{
    mailbox_wake(&w->box);
}

bool writer_full(const struct writer *w)
{
    return atomic_load_explicit(&w->queued_bytes, memory_order_relaxed) > QUEUE_BYTES;
}

void writer_want_room(struct writer *w, struct writer_room *room)
{
    room->mail.kind = MAIL_ROOM;
    room->next = atomic_load(&w->rooms);
    while (!atomic_compare_exchange_weak(&w->rooms, &room->next, room)) {
    }
    if (!writer_full(w)) { /* it may have looked before: have it look again */
        queue_shrinks(w, 0);
    }
}
