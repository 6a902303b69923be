/*
 * pieces.h - a loop's part in replies that go out in pieces (server/exec/stream.h).
 *
 * Invariants
 *  1. The unit is with the pool for its next piece, or here: then the connection is *parked*, until
 *     the socket has taken what was made so far. So there is one piece at most.
 *  2. While connections are parked their snapshots are looked at; one that holds dirty memory which
 *     the writer needs goes to the pool to be moved.
 *
 * Threads: the loop's.
 */
#ifndef PANDO_SERVER_NET_PIECES_H
#define PANDO_SERVER_NET_PIECES_H

#include "server/net/loop.h"

/* Once the loop has its base. */
void pieces_init(struct loop *loop);
/* A unit whose reply goes out in pieces came home, from the writer or with a piece. */
void pieces_take(struct conn *conn, struct unit *unit);
/* The backlog of a parked connection is sent. */
void pieces_unpark(struct conn *conn);
/* The connection died: nobody waits for the unit if it is here. */
void pieces_drop(struct conn *conn);

#endif
