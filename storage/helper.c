/*
 * helper.c - see helper.h.
 */
#include "storage/helper.h"

#include "storage/file_run.h"
#include "storage/store.h"

void helper_init(struct helper *helper)
{
    pthread_mutex_init(&helper->mu, NULL);
    pthread_cond_init(&helper->work, NULL);
    pthread_cond_init(&helper->done, NULL);
    pthread_cond_init(&helper->room, NULL);
}

/* Called by the writer, once per some hundred slots. */
static void slots_run_low(void *arg)
{
    struct helper *helper = arg;
    pthread_mutex_lock(&helper->mu);
    pthread_cond_signal(&helper->work);
    pthread_mutex_unlock(&helper->mu);
}

/* ---- the thread ------------------------------------------------------------------------------ */

/* Does the first of the jobs; mu held, but not meanwhile. */
static void do_job(struct ps_store *store)
{
    struct helper *helper = &store->helper;
    struct helper_job *job = helper->first;
    helper->current = job;
    helper->first = job->next;
    helper->last = helper->first == NULL ? NULL : helper->last;
    bool given_up = job->given_up;
    pthread_mutex_unlock(&helper->mu);
    if (!given_up) {
        run_job_do(store, (struct run_job *)(void *)job);
    }
    pthread_mutex_lock(&helper->mu);
    helper->current = NULL;
    atomic_fetch_add(&helper->finished, 1);
    pthread_cond_broadcast(&helper->done);
    if (helper->put - helper->finished == HELPER_JOBS / 2) {
        pthread_cond_signal(&helper->room);
    }
    run_job_free((struct run_job *)(void *)job);
}

static void *helper_main(void *arg)
{
    struct ps_store *store = arg;
    struct helper *helper = &store->helper;
    pthread_mutex_lock(&helper->mu);
    for (;;) {
        if (arena_wants(&store->arena)) {
            pthread_mutex_unlock(&helper->mu);
            arena_populate(&store->arena); /* a step, so that neither waits long for the other */
            pthread_mutex_lock(&helper->mu);
        }
        if (helper->first != NULL) {
            do_job(store);
        } else if (helper->stop) {
            break;
        } else if (!arena_wants(&store->arena)) {
            pthread_cond_wait(&helper->work, &helper->mu);
            helper->wakeups++;
        }
    }
    pthread_mutex_unlock(&helper->mu);
    return NULL;
}

int helper_start(struct ps_store *store)
{
    struct helper *helper = &store->helper;
    helper->runs = pthread_create(&helper->thread, NULL, helper_main, store) == 0;
    if (helper->runs) {
        arena_ask_ahead(&store->arena, slots_run_low, helper);
    }
    return helper->runs ? 0 : PS_NOMEM;
}

void helper_stop(struct ps_store *store)
{
    struct helper *helper = &store->helper;
    if (!helper->runs) {
        return;
    }
    pthread_mutex_lock(&helper->mu);
    helper->stop = true;
    pthread_cond_signal(&helper->work);
    pthread_mutex_unlock(&helper->mu);
    pthread_join(helper->thread, NULL);
    helper->runs = false;
}

/* ---- jobs -------------------------------------------------------------------------------------
 */

uint64_t helper_put(struct helper *helper, struct helper_job *job)
{
    job->next = NULL;
    job->given_up = false;
    pthread_mutex_lock(&helper->mu);
    if (helper->put - helper->finished >= HELPER_JOBS) {
        helper->waits++;
        while (helper->put - helper->finished > HELPER_JOBS / 2) {
            pthread_cond_wait(&helper->room, &helper->mu);
        }
    }
    if (helper->last != NULL) {
        helper->last->next = job;
    } else {
        helper->first = job;
        pthread_cond_signal(&helper->work);
    }
    helper->last = job;
    uint64_t ticket = atomic_fetch_add(&helper->put, 1) + 1;
    pthread_mutex_unlock(&helper->mu);
    return ticket;
}

void helper_await(struct helper *helper, uint64_t ticket)
{
    if (atomic_load(&helper->finished) >= ticket) {
        return;
    }
    pthread_mutex_lock(&helper->mu);
    while (helper->finished < ticket) {
        pthread_cond_wait(&helper->done, &helper->mu);
    }
    pthread_mutex_unlock(&helper->mu);
}

/* Whether something of a run is waiting or being written; mu held. */
static bool has_run(const struct helper *helper, page_ref run)
{
    const struct helper_job *job = helper->first;
    while (job != NULL && job->run != run) {
        job = job->next;
    }
    return job != NULL || (helper->current != NULL && helper->current->run == run);
}

void helper_await_run(struct helper *helper, page_ref run)
{
    if (atomic_load(&helper->finished) == atomic_load(&helper->put)) {
        return;
    }
    pthread_mutex_lock(&helper->mu);
    while (has_run(helper, run)) {
        pthread_cond_wait(&helper->done, &helper->mu);
    }
    pthread_mutex_unlock(&helper->mu);
}

void helper_give_up(struct helper *helper, page_ref run)
{
    if (atomic_load(&helper->finished) == atomic_load(&helper->put)) {
        return;
    }
    pthread_mutex_lock(&helper->mu);
    for (struct helper_job *job = helper->first; job != NULL; job = job->next) {
        job->given_up = job->given_up || job->run == run;
    }
    while (has_run(helper, run)) {
        pthread_cond_wait(&helper->done, &helper->mu);
    }
    pthread_mutex_unlock(&helper->mu);
}
