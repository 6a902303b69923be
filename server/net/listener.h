/*
 * listener.h - the sockets that clients connect to, served by one of the loops, shared out to all.
 *
 * Threads: open and close while that loop does not run (or from its thread).
 */
#ifndef PANDO_SERVER_NET_LISTENER_H
#define PANDO_SERVER_NET_LISTENER_H

#include "server/net/loop.h"

struct listener;

/* Binds every address of `bind`. loops: all n of them; loops[0] accepts. 0, or -1 with *reason
 * (of `reason_size` bytes) saying which address failed and why. */
int listener_open(struct loop *loops, size_t n, const char *bind, int port, int backlog,
                  struct listener **listener, char *reason, size_t reason_size);
/* The port bound (of the first socket). */
int listener_port(const struct listener *listener);
/* Stops listening: new connections are refused by the kernel. Any thread; then listener_free after
 * loops[0] has ended. */
void listener_stop(struct listener *listener);
void listener_free(struct listener *listener);

#endif
