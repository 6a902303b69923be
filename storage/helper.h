/*
 * helper.h - a thread that does for the writer what costs time and can be done beside it.
 *
 *  H1 It gives memory to slots of the arena before the writer comes to them (A2 of arena.h).
 *
 * Threads: helper_ask the writer's; starting and stopping the opener's and closer's. The helper
 * itself takes no lock but its own while it works. A crash in the middle leaves nothing of it.
 */
#ifndef PANDO_STORAGE_HELPER_H
#define PANDO_STORAGE_HELPER_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct ps_store;

struct helper {
    pthread_mutex_t mu;
    pthread_cond_t work;
    pthread_t thread;
    bool runs, stop;
    uint64_t wakeups; /* mu */
};

void helper_init(struct helper *helper);
/* Without a thread the writer does everything itself. */
int helper_start(struct ps_store *store);
void helper_stop(struct ps_store *store);

#endif
