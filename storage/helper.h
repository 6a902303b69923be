/*
 * helper.h - a thread that does for the writer what costs time and can be done beside it.
 *
 *  H1 It gives memory to slots of the arena before the writer comes to them (A2 of arena.h).
 *  H2 It writes runs to the file (file_run.h), in the order in which they were handed over. No more
 *     than HELPER_JOBS parts of runs wait for it: then the writer does, until half of them are
 * done.
 *
 * Threads: putting jobs is the writer's; waiting anybody's; starting and stopping the opener's and
 * closer's. The helper itself takes no lock but its own while it works, and waits for nobody. A
 * crash in the middle leaves nothing that counts.
 */
#ifndef PANDO_STORAGE_HELPER_H
#define PANDO_STORAGE_HELPER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "storage/page.h"

#define HELPER_JOBS 64u

struct ps_store;

/* A part of a run to be written; begins a struct run_job. */
struct helper_job {
    struct helper_job *next;
    page_ref run;
    bool given_up;
};

struct helper {
    pthread_mutex_t mu;
    pthread_cond_t work, done, room;
    pthread_t thread;
    bool runs, stop;
    struct helper_job *first, *last; /* waiting; mu */
    struct helper_job *current;      /* mu */
    uint64_t wakeups, waits;         /* mu; waits: of the writer, with too much handed over */
    _Atomic uint64_t put, finished;  /* jobs, as they come and go; changed under mu */
};

void helper_init(struct helper *helper);
/* Without a thread the writer does everything itself. */
int helper_start(struct ps_store *store);
/* What was handed over is done first. */
void helper_stop(struct ps_store *store);

/* Hands a job over, which is the helper's from then on; returns its ticket. */
uint64_t helper_put(struct helper *helper, struct helper_job *job);
/* Until everything up to a ticket is done; until what was handed over of a run is. */
void helper_await(struct helper *helper, uint64_t ticket);
void helper_await_run(struct helper *helper, page_ref run);
/* What was handed over of a run and is not written need not be; returns when none of it will be. */
void helper_give_up(struct helper *helper, page_ref run);

#endif
