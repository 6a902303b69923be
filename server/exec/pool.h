/*
 * pool.h - threads for reads without a bound, for what waits (SAVE), and for waiting for the disk.
 *
 * A job is a unit; unit->errand says what for. ERRAND_LONG and ERRAND_READ: its commands run on a
 * snapshot of its own, taken when it begins, and it is posted to unit->home when it is done. A long
 * one lets go of dirty memory when the writer runs out of it, and goes on in the file. If its reply
 * has large values it keeps the snapshot and comes home with the first piece; each further piece is
 * a job again (stream.h).
 * ERRAND_WALK: what its commands need is read into memory, and it goes on to the writer.
 * ERRAND_DUE: what expiry will need is read, and it goes home to the writer.
 *
 * Units that have a snapshot are not held up by those that have none: a thread more than asked for
 * takes nothing else.
 *
 * Jobs begin in the order in which they came, except that in the disk regime (regime.h) the first
 * of several threads takes no ERRAND_LONG: however many long reads there are, short ones go on.
 *
 * Threads: pool_submit by any; start and stop by one.
 */
#ifndef PANDO_SERVER_EXEC_POOL_H
#define PANDO_SERVER_EXEC_POOL_H

#include "server/exec/env.h"
#include "server/exec/unit.h"

struct pool;

/* 0 or a negative errno or ps_error. env->pool is set. hook_dir: see test_hook.h; may be NULL. */
int pool_start(struct exec_env *env, unsigned threads, const char *hook_dir);
/* Ends when all jobs are done. */
void pool_stop(struct pool *pool);

void pool_submit(struct pool *pool, struct unit *unit);

struct pool_statistics {
    uint64_t jobs, pieces;              /* of these, pieces of large replies */
    unsigned threads, running, waiting; /* waiting: jobs of all kinds */
};
void pool_statistics(struct pool *pool, struct pool_statistics *s);

#endif
