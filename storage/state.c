/*
 * state.c - states, groups, and publication.
 *
 * A state is one pointer to a descriptor: stamp, sequence, log position, roots of all trees. The
 * writer makes a new one for each group; publication is one pointer store (I5). Descriptors come
 * from a pool and their memory stays a descriptor until the store is closed, because a reader looks
 * at a stamp before it has announced it.
 */
#include "storage/store.h"

uint64_t stamp_of(const struct state *state)
{
    return atomic_load_explicit(&state->stamp, memory_order_relaxed);
}

struct state *state_new(struct ps_store *store)
{
    pthread_mutex_lock(&store->mu);
    struct state *state = store->state_pool;
    if (state != NULL) {
        store->state_pool = state->next;
    }
    pthread_mutex_unlock(&store->mu);
    if (state == NULL) {
        state = calloc(1, sizeof *state);
    } else {
        state->next = NULL;
    }
    return state;
}

void state_give_back(struct ps_store *store, struct state *state)
{
    pthread_mutex_lock(&store->mu);
    state->next = store->state_pool;
    store->state_pool = state;
    pthread_mutex_unlock(&store->mu);
}

int state_room(struct state *state, uint32_t ntrees)
{
    if (ntrees <= state->room) {
        return 0;
    }
    uint32_t room = state->room == 0 ? 64 : state->room;
    while (room < ntrees) {
        room *= 2;
    }
    struct tree_root *trees = realloc(state->trees, room * sizeof *trees);
    if (trees == NULL) {
        return PS_NOMEM;
    }
    state->trees = trees;
    state->room = room;
    return 0;
}

int state_copy(struct state *to, const struct state *from)
{
    int rc = state_room(to, from->ntrees);
    if (rc == 0) {
        to->seq = from->seq;
        to->ntrees = from->ntrees;
        if (from->ntrees > 0) {
            memcpy(to->trees, from->trees, from->ntrees * sizeof *to->trees);
        }
    }
    return rc;
}

void state_retire(struct ps_store *store, struct state *state)
{
    state->next = store->retired;
    store->retired = state;
}

void state_free(struct state *state)
{
    if (state != NULL) {
        free(state->trees);
        free(state);
    }
}

const struct tree_name *name_intern(struct ps_store *store, struct ps_slice name)
{
    pthread_mutex_lock(&store->mu);
    struct tree_name *n = store->names;
    while (n != NULL && (n->len != name.len || memcmp(n->bytes, name.data, name.len) != 0)) {
        n = n->next;
    }
    if (n == NULL) {
        n = malloc(sizeof *n);
        if (n != NULL) {
            n->len = (uint8_t)name.len;
            memcpy(n->bytes, name.data, name.len);
            n->next = store->names;
            store->names = n;
        }
    }
    pthread_mutex_unlock(&store->mu);
    return n;
}

struct group *group_new(struct ps_store *store)
{
    pthread_mutex_lock(&store->mu);
    struct group *group = store->group_pool;
    if (group != NULL) {
        store->group_pool = group->next;
    }
    pthread_mutex_unlock(&store->mu);
    if (group == NULL) {
        group = calloc(1, sizeof *group);
    }
    return group;
}

#define OPS_KEPT (1u << 20) /* a pooled group keeps at most this much of its buffer */

void group_recycle(struct ps_store *store, struct group *group)
{
    if (group->ops.room > OPS_KEPT) {
        vec_free(&group->ops);
    }
    group->ops.n = group->born.n = group->born_file.n = group->deaths.n = 0;
    group->nops = group->weight = group->helper_ticket = 0;
    group->waiter = NULL;
    group->state = NULL;
    pthread_mutex_lock(&store->mu);
    group->next = store->group_pool;
    store->group_pool = group;
    pthread_mutex_unlock(&store->mu);
}

void group_free(struct group *group)
{
    vec_free(&group->ops);
    vec_free(&group->born);
    vec_free(&group->born_file);
    vec_free(&group->deaths);
    free(group);
}

void publish_through(struct ps_store *store, struct group *last)
{
    struct state *newest = NULL;
    for (struct group *g = store->groups; g != NULL; g = g->next) {
        if (g->status == GROUP_QUEUED || g->status == GROUP_WRITING) {
            if (newest != NULL) {
                state_retire(store, newest);
            }
            newest = g->state;
            watch_unpin(store->watch, g->stamp);
            g->state = NULL;
            g->status = GROUP_PUBLISHED;
            store->unpublished--;
            if (g->waiter != NULL) {
                *g->waiter = (struct waiter){.done = true};
            }
        }
        if (g == last) {
            break;
        }
    }
    if (newest != NULL) {
        struct state *old = atomic_load_explicit(&store->published, memory_order_relaxed);
        atomic_store(&store->published, newest);
        atomic_store(&store->published_seq, newest->seq);
        state_retire(store, old);
        pthread_cond_broadcast(&store->cond);
    }
}
