/*
 * helper.c - see helper.h.
 */
#include "storage/helper.h"

#include "storage/store.h"

void helper_init(struct helper *helper)
{
    pthread_mutex_init(&helper->mu, NULL);
    pthread_cond_init(&helper->work, NULL);
}

/* Called by the writer, once per some hundred slots. */
static void slots_run_low(void *arg)
{
    struct helper *helper = arg;
    pthread_mutex_lock(&helper->mu);
    pthread_cond_signal(&helper->work);
    pthread_mutex_unlock(&helper->mu);
}

static void *helper_main(void *arg)
{
    struct ps_store *store = arg;
    struct helper *helper = &store->helper;
    pthread_mutex_lock(&helper->mu);
    while (!helper->stop) {
        if (!arena_wants(&store->arena)) {
            pthread_cond_wait(&helper->work, &helper->mu);
            helper->wakeups++;
            continue;
        }
        pthread_mutex_unlock(&helper->mu);
        arena_populate(&store->arena);
        pthread_mutex_lock(&helper->mu);
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
