/*
 * dispatch.h - one command, from its words to its reply: the checks, the MULTI state, the call.
 *
 * The same code runs on I/O threads (inline reads), in the writer and in the reader pool; they
 * differ in what their executor offers (view, transaction) and in what they do with commands that
 * belong elsewhere, which dispatch_place() tells them beforehand.
 *
 * Threads: an executor belongs to one thread; a session to its owner (session.h).
 */
#ifndef PANDO_SERVER_EXEC_DISPATCH_H
#define PANDO_SERVER_EXEC_DISPATCH_H

#include "server/commands/command.h"
#include "server/commands/session.h"
#include "server/exec/env.h"

/* A thread's means to execute. */
struct executor {
    struct exec_env *env;
    struct command_ctx ctx; /* view, txn, out, now_ms and hints are set by the thread */
    uint64_t commands;      /* executed since the thread last counted them */
    uint64_t errors;        /* of these, answered with a storage error */
    uint64_t held;          /* writer: what changed something in this transaction */
    bool careful;           /* writer: a savepoint around every command that writes */
    bool ahead;             /* lookups are made for several commands before the first of them */
};

void executor_init(struct executor *x, struct exec_env *env);

/* The row of a command line, of the subcommand where there is one; NULL if it does not exist or has
 * the wrong number of arguments (dispatch_run then answers what is wrong). */
const struct command *dispatch_resolve(size_t argc, const struct ps_slice *argv);

enum dispatch_place {
    PLACE_HERE,   /* anywhere: it touches no data, or is a bounded read, or is only queued */
    PLACE_WRITER, /* needs the transaction */
    PLACE_POOL,   /* not bounded */
};

/* Where the session's next command belongs. */
enum dispatch_place dispatch_place(const struct session *session, const struct command *row,
                                   size_t argc, const struct ps_slice *argv);

/* Runs one command and writes its reply to x->ctx.out. `row` is what dispatch_resolve said; `found`
 * a lookup of its first key or NULL. 0, or with nothing done or answered:
 * COMMAND_ELSEWHERE: it turned out to have no bound: it belongs in the reader pool;
 * and in the writer only:
 * PS_BUSY: commit the group and call again;
 * COMMAND_UNPUBLISHED: commit the group, wait until it is published and call again;
 * COMMAND_RESTAGE: write the rows of its value again, then call again;
 * DISPATCH_RETRY: something failed after its first change without a savepoint: abort the group and
 * run it again carefully. */
#define DISPATCH_RETRY (-1000)
int dispatch_run(struct executor *x, struct session *session, const struct command *row,
                 size_t argc, const struct ps_slice *argv, const struct ps_lookup *found);

#endif
