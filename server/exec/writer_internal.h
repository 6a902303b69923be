/*
 * writer_internal.h - the writer's own, for writer.c and writer_work.c. Rules: writer.h, writer.c.
 */
#ifndef PANDO_SERVER_EXEC_WRITER_INTERNAL_H
#define PANDO_SERVER_EXEC_WRITER_INTERNAL_H

#include "server/exec/dispatch.h"
#include "server/exec/unit_list.h"
#include "server/exec/writer.h"

#include <pthread.h>

struct hint {
    struct mail mail; /* first */
    unsigned db;
    size_t len;
    char key[];
};

struct writer {
    struct exec_env *env;
    struct mailbox box;
    pthread_t thread;
    struct executor x;
    struct metrics_thread *metrics;
    struct ps_txn *txn;
    struct unit_list pending; /* arrived, not yet executed */
    struct unit_list group;   /* executed in this transaction */
    struct unit_list staging; /* whose values are being written in steps (stage.h) */
    struct unit *stepped;     /* of these, the one that took a step in this transaction */
    struct unit *current;     /* whose commands run */
    struct hint *hints;       /* arrived, to be looked at after the group */
    size_t settled;           /* bytes of units that left the queue since it was told */
    size_t careful;           /* so many of the next units run under savepoints */
    uint64_t executed_seq;    /* of the newest group that changed something */
    int64_t next_round;       /* background work is due, monotonic ms */
    bool more;                /* the last round left due work */
    struct unit due;          /* errand to the pool: reads what background work will need */
    bool due_away, due_back;
    int begin_rc; /* why there is no transaction */
    bool stopping;
    _Atomic bool stop;
    _Atomic bool dropped; /* states were dropped: executed_seq may never be published */
    _Atomic size_t queued_bytes;
    _Atomic unsigned hints_waiting;
    _Atomic(struct writer_room *) rooms;
    struct mail wake;
    pthread_mutex_t lock; /* waiting */
    struct unit_list waiting;
    _Atomic uint64_t units, commands, groups, splits, retries, failures, hints_done, stage_steps;
};

/* writer.c */
void writer_count(_Atomic uint64_t *counter, uint64_t n);
/* Begins a transaction (w->txn, or NULL and w->begin_rc), and ends it: its units wait for the
 * publication, or, if it fails with the error returned, say so. `alone`: nobody else waits for one.
 */
void writer_group_begin(struct writer *w);
int writer_group_commit(struct writer *w, bool alone);

/* writer_work.c: a step of background work if it is due (in the disk regime the pool reads ahead of
 * it first); the hints that have arrived. */
void writer_background(struct writer *w, int64_t now_ms);
void writer_run_hints(struct writer *w);

#endif
