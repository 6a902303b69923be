/*
 * token.c - the writer token: who may execute transactions, take over checkpoints, and reclaim.
 *
 * A user's transaction holds it from ps_begin to its end, but gives it up while it waits for slots
 * (it has changed nothing then); the checkpoint thread takes it for short steps.
 *
 * What cannot be undone never fails for want of memory: room for the deaths of a group is found
 * before it is taken off the list, and before anybody begins to change something.
 */
#include "storage/store.h"

#define ADOPT_STEP 1024u /* slots taken over per transaction, so that none waits long */

void token_take(struct ps_store *store)
{
    pthread_mutex_lock(&store->mu);
    while (store->token_taken) {
        pthread_cond_wait(&store->cond, &store->mu);
    }
    store->token_taken = true;
    pthread_mutex_unlock(&store->mu);
}

void token_give(struct ps_store *store)
{
    pthread_mutex_lock(&store->mu);
    PS_ASSERT(store->token_taken);
    show_stats(store);
    store->token_taken = false;
    pthread_cond_broadcast(&store->cond);
    pthread_mutex_unlock(&store->mu);
}

/* Puts back what was taken off the list of groups. */
static void not_yet(struct ps_store *store, struct group *group)
{
    pthread_mutex_lock(&store->mu);
    group->next = store->groups;
    store->groups = group;
    store->groups_last = store->groups_last == NULL ? group : store->groups_last;
    pthread_mutex_unlock(&store->mu);
}

/* Published groups give up what is needed to undo them: their deaths are final. */
int harvest(struct ps_store *store)
{
    for (;;) {
        pthread_mutex_lock(&store->mu);
        struct group *group = store->groups;
        if (group == NULL || group->status != GROUP_PUBLISHED) {
            pthread_mutex_unlock(&store->mu);
            return 0;
        }
        store->groups = group->next;
        if (store->groups == NULL) {
            store->groups_last = NULL;
        }
        pthread_mutex_unlock(&store->mu);
        if (!vec_reserve(&store->dead_slots, group->deaths.n) ||
            !dead_pages_reserve(store, group->deaths.n)) {
            not_yet(store, group);
            return PS_NOMEM;
        }
        for (size_t i = 0; i < group->deaths.n; i++) {
            const struct death *d = &group->deaths.at[i];
            if (ref_in_arena(d->ref)) {
                vec_put(&store->dead_slots, *d);
            } else {
                dead_page_later(store, d);
            }
        }
        group_recycle(store, group);
    }
}

/* Takes back everything that unpublished groups did, newest first. The log's new epoch was begun by
 * whoever dropped them, before anybody heard of it. */
static void undo_dropped(struct ps_store *store)
{
    pthread_mutex_lock(&store->mu);
    struct group *dropped = store->groups; /* all that is left: harvest was called before */
    store->groups = store->groups_last = NULL;
    pthread_mutex_unlock(&store->mu);
    struct group *reversed = NULL;
    while (dropped != NULL) {
        PS_ASSERT(dropped->status == GROUP_DROPPED);
        struct group *next = dropped->next;
        dropped->next = reversed;
        reversed = dropped;
        dropped = next;
    }
    while (reversed != NULL) {
        struct group *next = reversed->next;
        txn_undo(store, reversed, 0, 0, 0);
        pthread_mutex_lock(&store->mu);
        state_retire(store, reversed->state);
        store->stat.states_dropped++;
        pthread_mutex_unlock(&store->mu);
        group_recycle(store, reversed);
        reversed = next;
    }
    store->tip = atomic_load(&store->published);
    store->undone++;
    store->log_allowance = 0;
    pthread_mutex_lock(&store->mu);
    store->log_broken = false;
    pthread_mutex_unlock(&store->mu);
}

int token_prepare(struct ps_store *store)
{
    int harvested = harvest(store);
    pthread_mutex_lock(&store->mu);
    bool broken = store->log_broken;
    int rc = store->poisoned != 0 ? store->poisoned : harvested;
    pthread_mutex_unlock(&store->mu);
    if (broken && rc == 0) {
        undo_dropped(store);
    }
    if (rc == 0) {
        adopt(store, ADOPT_STEP);
        reclaim(store);
    }
    return rc;
}
