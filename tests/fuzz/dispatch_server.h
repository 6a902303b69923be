/*
 * dispatch_server.h - for fuzz_dispatch: everything of pandod behind its sockets, in this process.
 *
 * A real store in a directory in memory, keyspace, writer thread and reader pool, as
 * server/server.c puts them together; the services that handlers ask for (commands/services.h) are
 * small ones of its own over a fixed number of clients.
 *
 * Invariants
 *  1. The time is what server_advance() says: commands at the same place in an input see the same.
 *  2. After server_clean() the data and the configuration are as after server_open().
 *
 * Threads: the fuzzer's; and those of the writer, the pool and the store.
 */
#ifndef PANDO_TESTS_FUZZ_DISPATCH_SERVER_H
#define PANDO_TESTS_FUZZ_DISPATCH_SERVER_H

#include "server/commands/session.h"
#include "server/exec/dispatch.h"
#include "server/exec/unit.h"

#define FUZZ_CLIENTS   4 /* the first is the checker's own */
#define FUZZ_DATABASES 3

struct fuzz_client {
    struct session session;
    struct server *server;
    struct resp_out out;     /* of what runs on this thread */
    struct unit_stock stock; /* of units that came back */
};

struct server {
    struct exec_env env;
    struct executor x; /* this thread's */
    struct ps_snapshot *snapshot;
    struct mailbox box; /* where units come home */
    struct fuzz_client clients[FUZZ_CLIENTS];
    bool configured; /* a setting was changed since server_clean() */
};

/* The one server of the process, started by the first call. */
struct server *server_open(void);

/* The clock starts again. */
void server_begin(struct server *server);
void server_advance(struct server *server, int64_t ms);

/* Stops, closes the store, opens it and starts again, as a restart does; sessions stay. */
void server_reopen(struct server *server, bool checkpoint);

/* New sessions, no keys, settings as they were. */
void server_clean(struct server *server);

/* A connection's begin and end. */
void server_connect(struct fuzz_client *client);

#endif
