/*
 * listener.h - the sockets that clients connect to, and the thread that accepts.
 *
 * Invariants
 *  1. The sockets belong to the accepting thread; listener_change asks it.
 *  2. Connections go to the loops in turn.
 *
 * Threads: open, stop and free by the main thread; listener_change by any.
 */
#ifndef PANDO_SERVER_NET_LISTENER_H
#define PANDO_SERVER_NET_LISTENER_H

#include "server/net/loop.h"

struct listener;

struct listener_options {
    const char *addresses; /* as the directive bind has them */
    int port;              /* 0: no TCP */
    int backlog;
    const char *unix_path; /* "": no such socket */
    unsigned unix_mode;    /* 0: as the umask leaves it */
};

/* Listens on all of them and begins to accept for the n loops, which run. 0, or -1 with *reason (of
 * `reason_size` bytes) saying which address failed and why. */
int listener_open(struct loop *loops, size_t n, const struct listener_options *options,
                  struct listener **listener, char *reason, size_t reason_size);
/* Listens on other addresses or another port from here on; on failure (-1 and *reason) on those of
 * before. Established connections stay. */
int listener_change(struct listener *listener, const char *addresses, int port, char *reason,
                    size_t reason_size);
/* New connections are refused by the kernel from here on, and so is listener_change; the path of
 * the Unix socket is removed. */
void listener_stop(struct listener *listener);
/* After listener_stop, when nobody can ask for a change any more. */
void listener_free(struct listener *listener);

#endif
