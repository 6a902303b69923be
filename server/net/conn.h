/*
 * conn.h - a client connection: its socket, what has arrived, what is still to be sent.
 *
 * Invariants
 *  1. A connection belongs to one loop for life; only that loop's thread touches it, except its
 *     session while a unit is away (session.h) and what the registry may read (clients.h).
 *  2. An idle connection owns no buffers: `in` and `backlog` exist only while there is something in
 *     them.
 *  3. While there is a `unit` no further command of the connection begins. Input may still be
 * received, up to CONN_AHEAD_BYTES.
 *  4. `backlog` is sent before anything newer. It never holds more than the output limit. A reply
 *     that is sent in pieces goes on only when it is empty, so that it holds one piece at most.
 */
#ifndef PANDO_SERVER_NET_CONN_H
#define PANDO_SERVER_NET_CONN_H

#include "protocol/resp.h"
#include "server/commands/session.h"
#include "server/exec/mailbox.h"
#include "server/exec/unit.h"

#include <event2/event.h>
#include <event2/event_struct.h>
#include <sys/queue.h>
#include <sys/socket.h>

#define CONN_AHEAD_BYTES (1024u * 1024u)

struct loop;

enum conn_stage {
    CONN_OPEN,
    CONN_DRAINING,  /* no more commands; closes when the backlog is sent */
    CONN_LINGERING, /* all is sent and our side closed; what the peer still sends is thrown away, so
                     * that the kernel does not reset the connection before it has read our answer
                     */
    CONN_DEAD,      /* the socket is closed; freed when its unit and kill notice are back */
};

struct conn {
    struct session session;
    struct loop *loop;
    int fd;
    enum conn_stage stage;
    bool reading; /* the read event is registered */
    bool writing; /* the write event is registered */
    bool ready;   /* is in the loop's list of readable connections */
    bool active;  /* is in the loop's list of connections of this turn */
    bool stalled; /* waits for room in the writer's queue */
    int bad;      /* the parser's error behind this pass's commands, or 0 */
    bool more;    /* this pass did not look at all of `data` */
    bool linger;  /* close by lingering: the peer may be in the middle of sending */
    bool eof;     /* the peer will send nothing more; replies that are due still go out */
    bool given;   /* `in` belongs to the unit: conn_keep_input has to leave it */
    bool parked;  /* `unit` is here, between pieces of its reply, until the backlog is sent */
    LIST_ENTRY(conn) parked_link;
    struct unit *unit;
    struct event read_event, write_event;
    struct resp_parser parser;

    char *in; /* input that no command has been made of yet, between turns */
    size_t in_len, in_cap;
    const char *data; /* this turn's input: the loop's buffer, or `in` */
    size_t data_len, data_off;
    size_t parsed_off;   /* behind the last command that was made of it */
    size_t first, count; /* this pass's commands in the loop's list */

    struct resp_out backlog; /* unsent replies, from backlog_off on */
    size_t backlog_off;
    int64_t linger_since;    /* ms */
    size_t discarded;        /* bytes since */
    int64_t over_soft_since; /* ms, 0: not over the soft limit */

    /* The registry's (clients.c), under its lock. */
    struct conn *prev, *next;
    struct sockaddr_storage peer, local;
    int64_t created_ms;
    _Atomic int64_t active_ms;                /* last input, or output of a backlog */
    _Atomic size_t input_bytes, output_bytes; /* in buffers now, for CLIENT LIST */

    /* The loop's list of all its connections, and its deadlines. */
    struct conn *loop_prev, *loop_next;
    struct conn *due_prev, *due_next;
    int64_t due_second; /* 0: not filed */

    struct mail mail;    /* MAIL_CLIENT: arrival, then a kill notice */
    _Atomic bool notice; /* `mail` is on its way (from the start: the arrival) */
    bool arrived;
};

/* Sends bytes now as far as the socket takes them; the rest goes to the backlog. The connection may
 * be dead afterwards. */
void conn_send(struct conn *conn, const char *bytes, size_t len);
/* The same for a unit's replies; takes over its buffer when the socket is full. */
void conn_send_out(struct conn *conn, struct resp_out *out);
/* Sends of the backlog what the socket takes. */
void conn_flush(struct conn *conn);
/* Something was received or sent: the connection is not idle. */
void conn_touch(struct conn *conn);
/* Bytes waiting to be sent. */
size_t conn_unsent(const struct conn *conn);
/* Bytes of replies that may be produced before the hard limit. */
size_t conn_room(const struct conn *conn);
/* Closes a connection whose replies are more than may wait for it, or than there is memory for. */
void conn_over_limit(struct conn *conn);
/* Checks the soft limit (about once a second). */
void conn_check_soft_limit(struct conn *conn, int64_t now_ms);

/* Receives once. `space` is the loop's buffer; input that belongs behind a leftover goes to `in`.
 * Returns the bytes used of space. Sets conn->data. The connection may be dead afterwards. */
size_t conn_receive(struct conn *conn, char *space, size_t room);
/* Puts commands that a unit brought back unexecuted before the input that waits. false: no memory.
 */
bool conn_unread(struct conn *conn, const struct unit *unit);
/* Keeps what was not used of conn->data for the next turn. */
void conn_keep_input(struct conn *conn);

/* No more commands; closes when everything is sent. */
void conn_finish(struct conn *conn);
/* Throws away what arrives while lingering. */
void conn_discard(struct conn *conn, char *space, size_t room);
/* Closes the socket now; frees the connection as soon as nothing refers to it. */
void conn_kill(struct conn *conn);

/* Registers or removes the read event. */
void conn_want_read(struct conn *conn, bool want);

#endif
