/*
 * pool.c - see pool.h.
 *
 * Invariants
 *  1. A command's snapshot is at least as new as anything its connection has seen: it is taken
 * after the job arrived, and published states only move forward.
 *  2. A thread without a job holds no state.
 *  3. A job whose snapshot keeps dirty memory that the writer needs moves to the file at its next
 *     step (ps_snapshot_move), so that the writer waits for one step of it at most, and for the
 *     move. Where the disk has no room for that the job ends with an error; so does one that takes
 *     longer than max-snapshot-age, at its next step or look-up.
 *  4. In the disk regime the first of several threads takes no long job.
 *  5. A unit that has a snapshot waits behind nobody's long job, and behind nobody who waits for
 * the writer (CONFIG SET durability): the writer may need the memory that its snapshot keeps. There
 *     is a thread more than reader-threads, which takes such units only. For the same reason a
 *     command that reads no data runs without a snapshot.
 *
 * Threads: three queues under one mutex; a job is long compared with it, so it is never the cost.
 */
#include "server/exec/pool.h"

#include "server/exec/ahead.h"
#include "server/exec/dispatch.h"
#include "server/exec/stream.h"
#include "server/exec/test_hook.h"
#include "server/exec/unit_list.h"
#include "server/exec/writer.h"
#include "server/keyspace/keyspace.h"
#include "server/observe/logger.h"
#include "server/observe/metrics.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct pool {
    struct exec_env *env;
    char *hook_dir;
    pthread_mutex_t lock;
    pthread_cond_t arrived, piece_arrived;
    struct unit_list longs, shorts;
    struct unit_list pieces; /* units that have a snapshot */
    bool spare_waits;        /* the thread that takes nothing else, for piece_arrived */
    uint64_t tickets;
    unsigned threads, running;
    uint64_t jobs, pieces_made;
    bool stop;
    struct pool_thread *workers;
};

struct pool_thread {
    struct pool *pool;
    bool first; /* of several */
    bool spare; /* takes pieces only */
    pthread_t thread;
    struct ps_snapshot *snapshot;
    struct metrics_thread *metrics;
    struct keyspace_pause pause;
    const char *job; /* the name of its first command */
    bool stepped;
};

static bool takes_long_jobs(const struct pool_thread *worker)
{
    return !worker->first ||
           !atomic_load_explicit(&worker->pool->env->disk_regime, memory_order_relaxed);
}

/* The one of two lists whose head came first. */
static struct unit_list *earlier(struct unit_list *a, struct unit_list *b)
{
    return b->head == NULL || (a->head != NULL && a->head->ticket < b->head->ticket) ? a : b;
}

/* The job that is next for this thread; NULL: none is there. */
static struct unit *take_job(struct pool_thread *worker)
{
    struct pool *pool = worker->pool;
    struct unit_list *next = worker->spare ? &pool->pieces : &pool->shorts;
    if (!worker->spare && takes_long_jobs(worker)) {
        next = earlier(next, earlier(&pool->longs, &pool->pieces));
    }
    return next->head != NULL ? list_pop(next) : NULL;
}

static void wait_for_job(struct pool_thread *worker)
{
    struct pool *pool = worker->pool;
    if (worker->spare) {
        pool->spare_waits = true;
        pthread_cond_wait(&pool->piece_arrived, &pool->lock);
        pool->spare_waits = false;
        return;
    }
    if (pool->longs.head != NULL || pool->pieces.head != NULL) {
        pthread_cond_signal(&pool->arrived); /* the wake-up was for another thread */
    }
    pthread_cond_wait(&pool->arrived, &pool->lock);
}

static struct unit *next_job(struct pool_thread *worker)
{
    struct pool *pool = worker->pool;
    struct unit *unit;
    pthread_mutex_lock(&pool->lock);
    while ((unit = take_job(worker)) == NULL && !pool->stop) {
        wait_for_job(worker);
    }
    pool->running += unit != NULL;
    pthread_mutex_unlock(&pool->lock);
    return unit;
}

/* Between two steps of a job: the commands call it when they hold nothing of the snapshot. */
static int step_aside(void *arg)
{
    struct pool_thread *worker = arg;
    const char *hooks = worker->pool->hook_dir;
    if (hooks != NULL && !worker->stepped) {
        worker->stepped = true;
        test_hook(hooks, "step", worker->job);
    }
    if (!ps_snapshot_should_move(worker->snapshot)) {
        return 0;
    }
    int rc = ps_snapshot_move(worker->snapshot);
    test_hook(hooks, "moved", worker->job);
    if (rc != 0) {
        logger_write(worker->pool->env->log, LOG_WARNING, "A long read (%s) was ended: %s",
                     worker->job, ps_strerror(rc));
    }
    return rc == 0 || rc == PS_ENDED ? rc : COMMAND_CROWDED_OUT;
}

/* SAVE, CONFIG SET and the like read no data, and may wait for the writer. */
static bool reads_data(const struct command *row)
{
    return row == NULL || row->cost != COST_POOL || (row->flags & CMD_READONLY);
}

/* The newest state, before each command: none is kept while the next waits for the disk. */
static void refresh(struct pool_thread *worker, struct executor *x)
{
    x->ctx.now_ms = exec_now(worker->pool->env);
    ps_snapshot_renew(worker->snapshot);
    x->ctx.view = ps_snapshot_view(worker->snapshot);
}

/* Reads what a unit on its way to the writer needs into memory. */
static void walk_ahead(struct pool_thread *worker, struct executor *x, struct unit *unit)
{
    unsigned db = session_db(unit->session);
    uint64_t writes = 0;
    for (struct session_queued *q = unit->session->queue.head; q != NULL; q = q->next) {
        refresh(worker, x);
        writes += ahead_touch(x, &db, q->command, q->argc, q->argv);
    }
    for (uint32_t i = 0; i < unit->count; i++) {
        const struct unit_command *c = &unit->commands[i];
        refresh(worker, x);
        writes += ahead_touch(x, &db, c->row, c->argc, unit->argv + c->first);
    }
    metrics_add(&worker->metrics->disk_writes, writes);
}

static void walk_due(struct pool_thread *worker, struct executor *x)
{
    const struct exec_env *env = worker->pool->env;
    refresh(worker, x);
    metrics_add(&worker->metrics->disk_writes,
                keyspace_touch_due(env->keyspace, x->ctx.view, x->ctx.now_ms, WRITER_STEPS));
}

/* Up to the first whose reply has holes: it needs the snapshot it ran on. */
static void run_commands(struct pool_thread *worker, struct executor *x, struct unit *unit)
{
    struct session *session = unit->session;
    unsigned db = session_db(session);
    x->ctx.out = &unit->out;
    while (unit->done < unit->count && !session->closing && !stream_wanted(unit) &&
           !atomic_load_explicit(&session->killed, memory_order_relaxed)) {
        const struct unit_command *c = &unit->commands[unit->done++];
        refresh(worker, x);
        if (!reads_data(c->row)) {
            ps_snapshot_reset(worker->snapshot);
            x->ctx.view = NULL;
        }
        if (unit->errand == ERRAND_READ) {
            ahead_touch(x, &db, c->row, c->argc, unit->argv + c->first);
        }
        dispatch_run(x, session, c->row, c->argc, unit->argv + c->first, NULL);
        if (unit->out.status != 0) {
            session->closing = true;
            reply_holes_cut(&unit->holes, 0);
        }
    }
    metrics_add(&worker->metrics->commands, x->commands);
}

/* Gives the worker's snapshot to the unit, whose replies have holes. */
static void hand_over(struct pool_thread *worker, struct unit *unit)
{
    struct ps_snapshot *next;
    int rc = ps_snapshot_new(worker->pool->env->store, &next);
    if (rc != 0) {
        unit_fail(unit, rc);
        return;
    }
    unit->snapshot = worker->snapshot;
    worker->snapshot = next;
}

/* A unit that has no snapshot fails as a whole: what its EXEC ran is kept for that. */
static void run_unit(struct pool_thread *worker, struct executor *x, struct unit *unit)
{
    unit->session->keep = &unit->spent;
    run_commands(worker, x, unit);
    if (stream_wanted(unit)) {
        hand_over(worker, unit);
    }
    unit->session->keep = NULL;
}

static void run_fresh(struct pool_thread *worker, struct unit *unit)
{
    struct exec_env *env = worker->pool->env;
    const struct command *first = unit->count > 0 ? unit->commands[0].row : NULL;
    struct executor x;
    executor_init(&x, env);
    worker->job = first != NULL ? first->name : "";
    worker->stepped = false;
    test_hook(worker->pool->hook_dir, unit->errand == ERRAND_WALK ? "walk" : "pool", worker->job);
    x.ctx.pause = &worker->pause;
    x.ctx.holes = &unit->holes;
    x.ctx.large = LARGE_HOLES;
    x.ctx.copied = REPLY_COPIED_BYTES;
    x.ctx.hint_expired = writer_hint;
    x.ctx.hint_arg = env;
    if (unit->errand == ERRAND_WALK) {
        walk_ahead(worker, &x, unit);
    } else if (unit->errand == ERRAND_DUE) {
        walk_due(worker, &x);
    } else {
        run_unit(worker, &x, unit);
    }
    ps_snapshot_reset(worker->snapshot);
}

/* A unit that is done goes home, one that was walked ahead of goes on. */
static void send_on(struct pool *pool, struct unit *unit)
{
    if (unit->errand == ERRAND_WALK) {
        writer_submit_expected(pool->env->writer, unit);
        writer_wake(pool->env->writer);
    } else {
        unit->mail.kind = MAIL_UNIT;
        mailbox_post(unit->home, &unit->mail);
    }
}

/* The next piece, unless the one before is not sent yet: then only the snapshot had to move. */
static int make_piece(struct unit *unit, const struct keyspace *ks)
{
    int rc = ps_snapshot_should_move(unit->snapshot) ? ps_snapshot_move(unit->snapshot) : 0;
    if (rc == 0 && (unit->stream == NULL || unit->out.len == 0)) {
        rc = stream_next(unit, ks);
        rc = rc == 0 ? ps_view_check(ps_snapshot_view(unit->snapshot)) : rc;
    }
    return rc;
}

/* Executes a unit that has no snapshot yet; makes the next piece of its reply, if that has any. */
static void run_job(struct pool_thread *worker, struct unit *unit)
{
    struct exec_env *env = worker->pool->env;
    int rc;
    if (unit->snapshot == NULL) {
        run_fresh(worker, unit);
    }
    if (!stream_wanted(unit)) {
        return;
    }
    test_hook(worker->pool->hook_dir, "pool", "piece");
    rc = make_piece(unit, env->keyspace);
    if (rc != 0) {
        logger_write(env->log, LOG_WARNING,
                     "Client id=%llu closed in the middle of a reply: reading it failed: %s",
                     (unsigned long long)unit->session->id, ps_strerror(rc));
        resp_out_truncate(&unit->out, 0); /* room that nothing was read into is not sent */
        atomic_store(&unit->session->killed, true);
    }
}

static void *pool_main(void *arg)
{
    struct pool_thread *worker = arg;
    struct pool *pool = worker->pool;
    struct unit *unit;
    pthread_setname_np(pthread_self(), worker->spare ? "pando-pieces" : "pando-reader");
    while ((unit = next_job(worker)) != NULL) {
        run_job(worker, unit);
        pthread_mutex_lock(&pool->lock);
        pool->running--;
        pool->jobs++;
        pool->pieces_made += stream_wanted(unit);
        pthread_mutex_unlock(&pool->lock);
        send_on(pool, unit);
    }
    return NULL;
}

static int start_worker(struct pool *pool, struct pool_thread *worker)
{
    int rc;
    worker->pool = pool;
    worker->pause = (struct keyspace_pause){step_aside, worker};
    worker->metrics = metrics_thread(pool->env->metrics);
    rc = ps_snapshot_new(pool->env->store, &worker->snapshot);
    if (rc == 0) {
        rc = -pthread_create(&worker->thread, NULL, pool_main, worker);
    }
    if (rc == 0) {
        pool->threads++;
    } else if (worker->snapshot != NULL) {
        ps_snapshot_free(worker->snapshot);
    }
    return rc;
}

int pool_start(struct exec_env *env, unsigned threads, const char *hook_dir)
{
    struct pool *pool = calloc(1, sizeof(*pool));
    int rc = 0;
    if (pool == NULL) {
        return -ENOMEM;
    }
    pool->env = env;
    list_init(&pool->longs);
    list_init(&pool->shorts);
    list_init(&pool->pieces);
    pool->hook_dir = hook_dir != NULL ? strdup(hook_dir) : NULL;
    pool->workers = calloc(threads + 1, sizeof(*pool->workers));
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->arrived, NULL);
    pthread_cond_init(&pool->piece_arrived, NULL);
    while (rc == 0 && pool->workers != NULL && pool->threads < threads + 1) {
        struct pool_thread *worker = &pool->workers[pool->threads];
        worker->first = threads > 1 && pool->threads == 0;
        worker->spare = pool->threads == threads;
        rc = start_worker(pool, worker);
    }
    if (rc != 0 || pool->workers == NULL) {
        pool_stop(pool);
        return rc != 0 ? rc : -ENOMEM;
    }
    env->pool = pool;
    return 0;
}

void pool_stop(struct pool *pool)
{
    pthread_mutex_lock(&pool->lock);
    pool->stop = true;
    pthread_cond_broadcast(&pool->arrived);
    pthread_cond_broadcast(&pool->piece_arrived);
    pthread_mutex_unlock(&pool->lock);
    for (unsigned i = 0; i < pool->threads; i++) {
        pthread_join(pool->workers[i].thread, NULL);
        ps_snapshot_free(pool->workers[i].snapshot);
    }
    pthread_mutex_destroy(&pool->lock);
    pthread_cond_destroy(&pool->arrived);
    pthread_cond_destroy(&pool->piece_arrived);
    free(pool->workers);
    free(pool->hook_dir);
    free(pool);
}

void pool_submit(struct pool *pool, struct unit *unit)
{
    pthread_mutex_lock(&pool->lock);
    unit->ticket = pool->tickets++;
    list_push(unit->snapshot != NULL        ? &pool->pieces
              : unit->errand == ERRAND_LONG ? &pool->longs
                                            : &pool->shorts,
              unit);
    if (unit->snapshot != NULL && pool->spare_waits) {
        pool->spare_waits = false;
        pthread_cond_signal(&pool->piece_arrived);
    } else {
        pthread_cond_signal(&pool->arrived);
    }
    pthread_mutex_unlock(&pool->lock);
}

void pool_statistics(struct pool *pool, struct pool_statistics *s)
{
    pthread_mutex_lock(&pool->lock);
    size_t waiting = pool->longs.count + pool->shorts.count + pool->pieces.count;
    *s = (struct pool_statistics){pool->jobs, pool->pieces_made, pool->threads - 1, pool->running,
                                  (unsigned)waiting};
    pthread_mutex_unlock(&pool->lock);
}
