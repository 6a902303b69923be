/*
 * child.h - a stream in a process of its own: one that crashes or hangs is a failure like others.
 */
#ifndef PANDO_TESTS_LMDB_CHILD_H
#define PANDO_TESTS_LMDB_CHILD_H

#include "tests/lmdb/run.h"

#include <sys/types.h>

#define PATIENCE 60 /* seconds without an operation finished: it hangs */

struct child {
    char base[STORE_DIR_PATH - 32];
    struct report *report; /* shared with the process */
    pid_t pid;             /* 0: none runs */
    uint64_t seen;
    time_t since;
};

/* With a directory of its own below `base`. SIGCHLD must be blocked. */
void child_open(struct child *c, const char *base, unsigned number);
void child_close(struct child *c);

/* `quiet`: what the process says itself is thrown away. */
void child_start(struct child *c, const struct stream *stream, enum fault fault, bool quiet);
/* Waits a moment, or until a child ends. */
void child_pause(void);
/* Whether it has ended; if report->done is not set it failed, and the assertion is filled in. */
bool child_ended(struct child *c, time_t patience);

/* All of it: whether everything was equal. */
bool child_run(struct child *c, const struct stream *stream, enum fault fault, bool quiet);

#endif
