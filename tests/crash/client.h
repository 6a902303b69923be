/*
 * A connection, and the load that one connection makes.
 *
 * Invariants:
 *  1. A load's record says for every operation sent when it was sent, and when it was acknowledged.
 *  2. An operation is acknowledged once its last reply has arrived *and* its number has been
 *     written to the client's acknowledgement file and synced.
 */
#ifndef TESTS_CRASH_CLIENT_H
#define TESTS_CRASH_CLIENT_H

#include <stdatomic.h>

#include "tests/crash/workload.h"

#define MAX_OPS 60000 /* one client sends in one round; it pauses for good there */

struct wire {
    int fd;
    char *data;
    size_t start, end, capacity;
};

/* 0, or -1 when nobody listens. Reads and writes end with an error after 60 s. */
int wire_open(struct wire *wire, int port);
void wire_close(struct wire *wire);
int wire_send(struct wire *wire, const struct buffer *buffer);
/* Reads one whole reply, nested ones included: 0; 1 if it was or held an error (copied to `text`);
 * -1 at the end of the connection. */
int wire_skip_reply(struct wire *wire, char *text, size_t size);
/* Reads a bulk string: its length, -1 for nil, -2 at the end of the connection or if it is none.
 * `*data` is valid until the next read. */
long wire_bulk(struct wire *wire, const char **data);
/* Reads the header of an array, or an integer: its number, or -2. */
long wire_number(struct wire *wire, char kind);

struct load {
    /* in */
    int client, port, ack_fd;
    uint64_t seed, first; /* number of the first operation of this round */
    /* out */
    uint64_t sent;                      /* operations [first, first + sent) were sent */
    _Atomic uint64_t acknowledged;      /* of them, the first so many; read by others, too */
    int64_t *sent_at, *acknowledged_at; /* ns, by number - first; 0: never */
    char error[256];                    /* an error reply or a broken promise; empty: none */
};

/* A thread's body: sends until the connection ends. `argument` is a struct load. */
void *load_run(void *argument);

/* The last number in an acknowledgement file, or 0. */
uint64_t ack_read(int fd);

int64_t now_ns(void);

#endif
