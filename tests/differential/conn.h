/* Pipelined connections to the two servers. See conn.c. */
#ifndef TESTS_DIFFERENTIAL_CONN_H
#define TESTS_DIFFERENTIAL_CONN_H

#include "tests/support/reply.h"

#include <stdbool.h>
#include <stddef.h>

struct buffer {
    char *data;
    size_t len, capacity;
};

void buffer_add(struct buffer *buffer, const void *data, size_t len);
void buffer_free(struct buffer *buffer);

/* Expected count that means "everything until the server closes". */
#define UNTIL_CLOSED ((size_t)-1)

struct conn {
    int fd; /* -1: not connected */
    struct buffer out, in;
    size_t sent, parsed;
    size_t first_send; /* if not 0: the first write of the next exchange is this short */
    bool last;         /* nothing is sent after the next exchange: say so to the server */
    bool closed;       /* the server closed it */
    bool garbage;      /* what it sent isn't RESP; the rest is not read */
};

/* Connects to a port of this machine. Returns 0 or a negative errno. */
int conn_open(struct conn *conn, int port);
void conn_close(struct conn *conn);
/* Own address as "127.0.0.1:port". */
void conn_address(const struct conn *conn, char *out, size_t cap);
/* Whether a server at that port answers PING: 0 or -1. */
int conn_ping(int port);

/*
 * Sends what is in conn[i].out and receives expected[i] replies from each of `count` (at most 2)
 * connections at once. A connection that closes early yields REPLY_CLOSED for what is missing, one
 * for UNTIL_CLOSED; so does one that sends no RESP. Returns 0, -ETIMEDOUT with *late set, or -EINTR
 * when a signal asked to end.
 */
int conn_exchange(struct conn *const *conns, const size_t *expected, size_t count,
                  struct reply_list *replies, struct heap *heap, int timeout_ms, size_t *late);

#endif
