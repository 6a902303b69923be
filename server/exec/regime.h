/*
 * regime.h - whether reads are likely to wait for the disk, so that they are kept off I/O threads.
 *
 * The regime is on when the data file is larger than half the memory this process may use, and
 * pages are being read from the disk: refaults of its control group (pages read again soon after
 * they were thrown out), or major faults of the process. It goes on with the first that is seen and
 * off after REGIME_QUIET_MS without. `disk-reads` can say `pool` (always on) or `inline` (never).
 *
 * Everybody else reads env->disk_regime, once a turn, relaxed.
 *
 * Threads: regime_sample by one thread, about once a second; regime_apply and regime_statistics
 * any.
 */
#ifndef PANDO_SERVER_EXEC_REGIME_H
#define PANDO_SERVER_EXEC_REGIME_H

#include "server/exec/env.h"

#include <stdbool.h>

#define REGIME_QUIET_MS 30000

struct regime;

/* NULL: no memory. */
struct regime *regime_new(struct exec_env *env);
void regime_free(struct regime *regime);

/* Looks at the counters, and sets env->disk_regime. */
void regime_sample(struct regime *regime);
/* After disk-reads was set: the same at once. */
void regime_apply(struct regime *regime);

struct regime_statistics {
    bool on;
    uint64_t refaults;     /* pages, seen since the start */
    uint64_t major_faults; /* of the process, seen since the start */
};
void regime_statistics(struct regime *regime, struct regime_statistics *s);

/* The rule alone. */
struct regime_counters {
    uint64_t file_bytes, memory_limit;
    bool refaults_known;
    uint64_t refaults, major_faults; /* totals */
    int64_t now_ms;
};
struct regime_watch {
    struct regime_counters last;
    uint64_t refaults, major_faults; /* seen since the first look */
    int64_t seen_ms;                 /* when they last rose; 0: not yet */
};
bool regime_judge(struct regime_watch *watch, const struct regime_counters *now);

#endif
