/*
 * loop.h - an I/O thread: one event base, its connections, and the turn.
 *
 * A turn: receive from all sockets that are ready; drain the inbox; take a snapshot; then parse,
 * look keys up (interleaved over all connections), execute and reply, until nothing complete is
 * left.
 *
 * Invariants
 *  1. The snapshot of a turn is taken after everything that the turn executes was received, and
 * after the inbox was drained: a command sees whatever was acknowledged before it was sent.
 *  2. A thread that sleeps holds no state of the store.
 *  3. The inbox is signalled only while the thread has declared that it sleeps.
 *
 * Threads: loop_post by any (through the mailbox); the rest by the loop itself, or before it runs.
 */
#ifndef PANDO_SERVER_NET_LOOP_H
#define PANDO_SERVER_NET_LOOP_H

#include "server/exec/dispatch.h"
#include "server/exec/env.h"
#include "server/exec/mailbox.h"
#include "server/exec/writer.h"
#include "server/net/clients.h"
#include "server/net/conn.h"
#include "server/net/deadlines.h"

#include <pthread.h>

/* What the parser made of the input: the command, and where its bytes are. */
struct loop_place {
    size_t end;     /* offset in conn->data behind it */
    int32_t lookup; /* its prefetched lookup, or -1 */
};

struct conn_list {
    struct conn **v;
    size_t n, cap;
};

struct loop {
    struct exec_env *env;
    struct clients *clients;
    struct event_base *base;
    pthread_t thread;
    struct mailbox box;
    struct event box_event, timer;
    struct event piece_timer; /* pieces.c */
    struct ps_snapshot *snapshot;
    struct ps_residency *residency;
    bool disk; /* this turn is in the disk regime (exec/regime.h) */
    struct executor x;
    struct resp_out out;
    struct metrics_thread *metrics;
    int64_t now_ms;

    char *space; /* received input of this turn */
    size_t space_used;
    struct conn_list ready, active;

    struct resp_limits limits;
    struct resp_args args;
    struct ps_slice *argv; /* the words of all commands of this pass */
    size_t argv_cap;
    struct unit_source *commands;
    struct loop_place *places;
    size_t command_n;
    struct ps_lookup *lookups;
    size_t lookup_n;

    struct unit_stock units;
    bool submitted; /* units were left for the writer in this turn */
    struct writer_room room;
    struct conn *conns, *dead;
    size_t conn_n;
    LIST_HEAD(parked_conns, conn) parked; /* pieces.h */
    struct deadlines deadlines;
    int64_t timeout_ms; /* the directives that deadlines follow, as of the last tick */
    uint64_t soft_limit;
    bool sampler;           /* takes the samples for INFO's rates */
    _Atomic uint64_t ticks; /* of the timer, one a second: shows that the loop turns */
    bool stopping;
    int64_t stop_at; /* ms: connections that are still there are closed */
    struct mail stop_mail;
};

/* 0 or a negative errno or ps_error. The thread runs with loop_start. */
int loop_init(struct loop *loop, struct exec_env *env, struct clients *clients);
int loop_start(struct loop *loop);
/* Waits for a loop that was told to stop (loop_stop), and frees it. */
void loop_join(struct loop *loop);
/* For a loop that was never started. */
void loop_destroy(struct loop *loop);
/* No more commands; ends when all replies are sent, or after shutdown-timeout. Any thread, once. */
void loop_stop(struct loop *loop);

/* A new connection for this loop. Any thread. */
void loop_adopt(struct loop *loop, struct conn *conn);
/* Makes a connection of an accepted socket and gives it to the loop; refuses it if there are too
 * many, or if it comes from outside in protected mode. `metrics`: the calling thread's. Any thread.
 */
void loop_accept(struct loop *loop, int fd, struct metrics_thread *metrics);
/* Has a connection looked at within a second: it has unread replies, or lingers. */
void loop_watch(struct conn *conn);

/* conn.c tells that a connection's socket is done with. */
void loop_conn_died(struct loop *loop, struct conn *conn);
/* A unit's replies are sent, or on their way: its connection goes on. */
void loop_finish_unit(struct loop *loop, struct unit *unit);

/* turn.c */
void loop_turn(struct loop *loop);
#define LOOP_PASS_COMMANDS 8192u
#define LOOP_SPACE_BYTES   (1024u * 1024)

#endif
