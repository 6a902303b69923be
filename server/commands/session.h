/*
 * session.h - what the server remembers about a connection between its commands.
 *
 * Invariants
 *  1. A session has one owner at a time (the I/O thread, the writer while a unit of the connection
 * is queued or runs, or a pool thread); only the owner changes it.
 *  2. The atomic fields, and the name under the server's lock of clients, may be read by anybody
 * (for CLIENT LIST); `killed` may be set by anybody and is never cleared.
 *  3. The queue is not empty only between MULTI and EXEC or DISCARD.
 */
#ifndef PANDO_SERVER_COMMANDS_SESSION_H
#define PANDO_SERVER_COMMANDS_SESSION_H

#include "storage/pandostore.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct command;

/* A command that waits for EXEC; one block of memory with its arguments. */
struct session_queued {
    struct session_queued *next;
    const struct command *command;
    size_t argc;
    const struct ps_slice *argv;
    size_t bytes; /* of the block */
};

struct session_queue {
    struct session_queued *head, *tail;
    size_t count;
    size_t bytes;
};

/* The part that a failed group takes back. */
struct session_state {
    unsigned db;
    int resp;
    bool authenticated;
    bool multi;       /* between MULTI and EXEC or DISCARD */
    bool multi_dirty; /* a command was refused: EXEC will not run */
    bool closing;     /* close when the replies have been sent */
    struct session_queue queue;
};

struct session {
    uint64_t id;
    _Atomic unsigned db;
    _Atomic int resp; /* 2 or 3 */
    bool authenticated;
    _Atomic bool multi;
    bool multi_dirty;
    bool closing;
    struct session_queue queue;
    _Atomic size_t queued;                /* queue.count, for CLIENT LIST */
    _Atomic(const struct command *) last; /* last command, for CLIENT LIST */
    char *name;                           /* NULL: none; under the lock of clients */
    struct session_queued **keep;         /* where ended queues go; NULL: they are freed */
    _Atomic bool killed;                  /* no further command may begin */
};

void session_init(struct session *session, uint64_t id, bool authenticated);
void session_clear(struct session *session);

static inline unsigned session_db(const struct session *session)
{
    return atomic_load_explicit(&session->db, memory_order_relaxed);
}

static inline void session_select(struct session *session, unsigned db)
{
    atomic_store_explicit(&session->db, db, memory_order_relaxed);
}

/* 2 or 3. (The reply writer, ctx->out, is kept at the same version.) */
static inline int session_resp(const struct session *session)
{
    return atomic_load_explicit(&session->resp, memory_order_relaxed);
}

static inline bool session_in_multi(const struct session *session)
{
    return atomic_load_explicit(&session->multi, memory_order_relaxed);
}

static inline uint64_t session_id(const struct session *session)
{
    return session->id;
}

/* Adds a copy of a command to the queue. 0 or PS_NOMEM. */
int session_enqueue(struct session *session, const struct command *command, size_t argc,
                    const struct ps_slice *argv);
/* Leaves the MULTI state; the queue is returned, for session_drop_queue. */
struct session_queue session_end_multi(struct session *session);
/* Gets rid of what session_end_multi returned: frees it, or, while a unit that may run again
 * executes, keeps it there. */
void session_drop_queue(struct session *session, struct session_queue *queue);
/* Frees a list of queued commands. */
void session_queue_free(struct session_queued *head);

/* Remembers the state, and takes it back: frees what was queued since. A queue that was ended since
 * must still exist (see struct unit's `spent`). */
void session_save(const struct session *session, struct session_state *state);
void session_restore(struct session *session, const struct session_state *state);

#endif
