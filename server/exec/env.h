/*
 * env.h - what every thread that executes commands shares.
 *
 * Invariant: set up before the threads start, constant afterwards but for the atomics.
 */
#ifndef PANDO_SERVER_EXEC_ENV_H
#define PANDO_SERVER_EXEC_ENV_H

#include "storage/pandostore.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct config;
struct keyspace;
struct logger;
struct metrics;
struct pool;
struct regime;
struct server;
struct writer;

struct exec_env {
    struct server *server;
    struct config *config;
    struct logger *log;
    struct ps_store *store;
    struct keyspace *keyspace;
    struct metrics *metrics;
    struct writer *writer;
    struct pool *pool;
    struct regime *regime;
    _Atomic bool disk_regime;   /* reads are likely to wait for the disk (regime.h) */
    _Atomic int64_t time_floor; /* the newest time a unit was executed at, Unix ms */
};

/* Unix time in ms, never earlier than that of any unit executed. */
int64_t exec_now(const struct exec_env *env);

#endif
