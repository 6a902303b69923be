/*
 * deadlines.h - which connections of a loop are to be looked at when: a wheel of seconds.
 *
 * A connection is filed under the second in which something about it may be due (it was idle for
 * too long, its unread replies are over the soft limit, it lingered). Being active does not move
 * it: it is looked at when its second comes, and filed anew. So a tick costs as much as there is
 * due, and an idle connection is looked at once in its timeout (at least once in a turn of the
 * wheel).
 *
 * Threads: the loop's.
 */
#ifndef PANDO_SERVER_NET_DEADLINES_H
#define PANDO_SERVER_NET_DEADLINES_H

#include <stdint.h>

#define DEADLINES_SECONDS 256

struct conn;

struct deadlines {
    struct conn *slots[DEADLINES_SECONDS];
    int64_t second; /* the last that was looked at */
};

void deadlines_init(struct deadlines *deadlines, int64_t now_ms);
/* Files a connection under `at_ms`, or moves it there. What is past comes with the next tick. */
void deadlines_set(struct deadlines *deadlines, struct conn *conn, int64_t at_ms);
/* The same if the connection is not filed, or later. */
void deadlines_hasten(struct deadlines *deadlines, struct conn *conn, int64_t at_ms);
void deadlines_drop(struct deadlines *deadlines, struct conn *conn);
/* Calls `look` for all that is due up to now; each is not filed then, and may be filed again. */
void deadlines_tick(struct deadlines *deadlines, int64_t now_ms,
                    void (*look)(void *arg, struct conn *conn), void *arg);

#endif
