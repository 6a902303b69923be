/*
 * pool.c - see pool.h.
 *
 * Invariants
 *  1. A job's snapshot is at least as new as anything its connection has seen: it is taken after
 * the job arrived, and published states only move forward.
 *  2. A thread without a job holds no state.
 *  3. A job whose snapshot keeps dirty memory that the writer needs moves to the file at its next
 *     step (ps_snapshot_move), so that the writer waits for one step of it at most, and for the
 *     move. Where the disk has no room for that the job ends with an error.
 *
 * Threads: a queue under one mutex; jobs are long, so the lock is never the cost.
 */
#include "server/exec/pool.h"

#include "server/exec/dispatch.h"
#include "server/exec/test_hook.h"
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
    pthread_cond_t arrived;
    struct unit *head, **tail;
    unsigned threads, running, waiting;
    uint64_t jobs;
    bool stop;
    struct pool_thread *workers;
};

struct pool_thread {
    struct pool *pool;
    pthread_t thread;
    struct ps_snapshot *snapshot;
    struct metrics_thread *metrics;
    struct keyspace_pause pause;
    const char *job; /* the name of its first command */
    bool stepped;
};

static struct unit *next_job(struct pool *pool)
{
    struct unit *unit;
    pthread_mutex_lock(&pool->lock);
    while (pool->head == NULL && !pool->stop) {
        pthread_cond_wait(&pool->arrived, &pool->lock);
    }
    unit = pool->head;
    if (unit != NULL) {
        pool->head = unit->next;
        if (pool->head == NULL) {
            pool->tail = &pool->head;
        }
        pool->waiting--;
        pool->running++;
    }
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
    return rc == 0 ? 0 : PS_ENDED;
}

static void run_job(struct pool_thread *worker, struct unit *unit)
{
    struct exec_env *env = worker->pool->env;
    const struct command *first = unit->commands[0].row;
    struct executor x;
    executor_init(&x, env);
    worker->job = first != NULL ? first->name : "";
    worker->stepped = false;
    test_hook(worker->pool->hook_dir, "pool", worker->job);
    x.ctx.pause = &worker->pause;
    x.ctx.now_ms = exec_now(env);
    ps_snapshot_renew(worker->snapshot);
    x.ctx.view = ps_snapshot_view(worker->snapshot);
    x.ctx.out = &unit->out;
    x.ctx.hint_expired = writer_hint;
    x.ctx.hint_arg = env;
    for (; unit->done < unit->count; unit->done++) {
        const struct unit_command *c = &unit->commands[unit->done];
        dispatch_run(&x, unit->session, c->row, c->argc, unit->argv + c->first, NULL);
    }
    ps_snapshot_reset(worker->snapshot);
    if (unit->out.status != 0) {
        unit->session->closing = true;
    }
    metrics_add(&worker->metrics->commands, x.commands);
}

static void *pool_main(void *arg)
{
    struct pool_thread *worker = arg;
    struct pool *pool = worker->pool;
    struct unit *unit;
    pthread_setname_np(pthread_self(), "pando-reader");
    while ((unit = next_job(pool)) != NULL) {
        run_job(worker, unit);
        pthread_mutex_lock(&pool->lock);
        pool->running--;
        pool->jobs++;
        pthread_mutex_unlock(&pool->lock);
        unit->mail.kind = MAIL_UNIT;
        mailbox_post(unit->home, &unit->mail);
    }
    return NULL;
}

int pool_start(struct exec_env *env, unsigned threads, const char *hook_dir, struct pool **out)
{
    struct pool *pool = calloc(1, sizeof(*pool));
    int rc = 0;
    if (pool == NULL) {
        return -ENOMEM;
    }
    pool->env = env;
    pool->tail = &pool->head;
    pool->hook_dir = hook_dir != NULL ? strdup(hook_dir) : NULL;
    pool->workers = calloc(threads, sizeof(*pool->workers));
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->arrived, NULL);
    while (rc == 0 && pool->workers != NULL && pool->threads < threads) {
        struct pool_thread *worker = &pool->workers[pool->threads];
        worker->pool = pool;
        worker->pause = (struct keyspace_pause){step_aside, worker};
        worker->metrics = metrics_thread(env->metrics);
        rc = ps_snapshot_new(env->store, &worker->snapshot);
        if (rc == 0) {
            rc = -pthread_create(&worker->thread, NULL, pool_main, worker);
        }
        if (rc == 0) {
            pool->threads++;
        } else if (worker->snapshot != NULL) {
            ps_snapshot_free(worker->snapshot);
        }
    }
    if (rc != 0 || pool->workers == NULL) {
        pool_stop(pool);
        return rc != 0 ? rc : -ENOMEM;
    }
    env->pool = pool;
    *out = pool;
    return 0;
}

void pool_stop(struct pool *pool)
{
    pthread_mutex_lock(&pool->lock);
    pool->stop = true;
    pthread_cond_broadcast(&pool->arrived);
    pthread_mutex_unlock(&pool->lock);
    for (unsigned i = 0; i < pool->threads; i++) {
        pthread_join(pool->workers[i].thread, NULL);
        ps_snapshot_free(pool->workers[i].snapshot);
    }
    pthread_mutex_destroy(&pool->lock);
    pthread_cond_destroy(&pool->arrived);
    free(pool->workers);
    free(pool->hook_dir);
    free(pool);
}

void pool_submit(struct pool *pool, struct unit *unit)
{
    unit->next = NULL;
    pthread_mutex_lock(&pool->lock);
    *pool->tail = unit;
    pool->tail = &unit->next;
    pool->waiting++;
    pthread_cond_signal(&pool->arrived);
    pthread_mutex_unlock(&pool->lock);
}

void pool_statistics(struct pool *pool, struct pool_statistics *s)
{
    pthread_mutex_lock(&pool->lock);
    *s = (struct pool_statistics){pool->jobs, pool->threads, pool->running, pool->waiting};
    pthread_mutex_unlock(&pool->lock);
}
