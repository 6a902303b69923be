/*
 * listener.c - see listener.h. Connections go to the loops in turn.
 *
 * listener_stop() shuts the sockets down without closing them, so that it may be called while the
 * loop has them registered: accept fails from then on and the event is removed.
 */
#include "server/net/listener.h"

#include "server/observe/logger.h"
#include "server/observe/metrics.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_SOCKETS  16
#define ACCEPT_BATCH 256

struct listening {
    struct listener *listener;
    struct event event;
    int fd;
};

struct listener {
    struct loop *loops;
    size_t loop_n, next;
    struct listening sockets[MAX_SOCKETS];
    size_t n;
    _Atomic bool stopped;
};

static void on_connection(evutil_socket_t fd, short what, void *arg)
{
    struct listening *socket = arg;
    struct listener *listener = socket->listener;
    (void)what;
    for (int i = 0; i < ACCEPT_BATCH; i++) {
        struct loop *loop = &listener->loops[listener->next];
        int client = accept4(fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (client < 0) {
            if (errno == EINTR || errno == ECONNABORTED) {
                continue;
            }
            if (errno == EAGAIN || errno == EWOULDBLOCK) {
                return;
            }
            if (atomic_load(&listener->stopped)) {
                event_del(&socket->event);
            } else {
                logger_write(loop->env->log, LOG_WARNING, "Accepting a connection failed: %s",
                             strerror(errno));
            }
            return;
        }
        listener->next = (listener->next + 1) % listener->loop_n;
        metrics_add(&listener->loops[0].metrics->connections, 1);
        loop_accept(loop, client);
    }
}

static int listen_on(struct listener *listener, const struct addrinfo *address, int backlog)
{
    struct listening *s = &listener->sockets[listener->n];
    int on = 1, rc;
    if (listener->n == MAX_SOCKETS) {
        return -EMFILE;
    }
    s->fd = socket(address->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (s->fd < 0) {
        return -errno;
    }
    setsockopt(s->fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (address->ai_family == AF_INET6) {
        setsockopt(s->fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
    }
    if (bind(s->fd, address->ai_addr, address->ai_addrlen) != 0 || listen(s->fd, backlog) != 0) {
        rc = -errno;
        close(s->fd);
        return rc;
    }
    s->listener = listener;
    event_assign(&s->event, listener->loops[0].base, s->fd, EV_READ | EV_PERSIST, on_connection, s);
    event_add(&s->event, NULL);
    listener->n++;
    return 0;
}

static int open_address(struct listener *listener, const char *name, int port, int backlog,
                        char *reason, size_t reason_size)
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC,
                             .ai_socktype = SOCK_STREAM,
                             .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    struct addrinfo *found = NULL;
    char service[16];
    const char *host = name;
    int rc;
    snprintf(service, sizeof(service), "%d", port);
    if (strcmp(name, "*") == 0) {
        host = NULL;
        hints.ai_family = AF_INET;
    } else if (strcmp(name, "::*") == 0) {
        host = NULL;
        hints.ai_family = AF_INET6;
    }
    rc = getaddrinfo(host, service, &hints, &found);
    if (rc != 0) {
        snprintf(reason, reason_size, "%s: %s", name, gai_strerror(rc));
        return -1;
    }
    rc = listen_on(listener, found, backlog);
    freeaddrinfo(found);
    if (rc != 0) {
        snprintf(reason, reason_size, "%s:%d: %s", name, port, strerror(-rc));
        return -1;
    }
    return 0;
}

int listener_open(struct loop *loops, size_t n, const char *addresses, int port, int backlog,
                  struct listener **out, char *reason, size_t reason_size)
{
    struct listener *listener = calloc(1, sizeof(*listener));
    char *copy = strdup(addresses), *save = NULL;
    int rc = 0;
    if (listener == NULL || copy == NULL) {
        free(listener);
        free(copy);
        snprintf(reason, reason_size, "out of memory");
        return -1;
    }
    listener->loops = loops;
    listener->loop_n = n;
    for (char *name = strtok_r(copy, " ", &save); name != NULL && rc == 0;
         name = strtok_r(NULL, " ", &save)) {
        bool optional = name[0] == '-';
        rc = open_address(listener, name + optional, port, backlog, reason, reason_size);
        if (rc == 0 && port == 0) {
            port = listener_port(listener);
        }
        rc = optional ? 0 : rc;
    }
    free(copy);
    if (rc == 0 && listener->n == 0) {
        snprintf(reason, reason_size, "no address to listen on");
        rc = -1;
    }
    if (rc != 0) {
        listener_free(listener);
        return rc;
    }
    *out = listener;
    return 0;
}

int listener_port(const struct listener *listener)
{
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } address = {.v6 = {0}};
    socklen_t len = sizeof(address);
    if (getsockname(listener->sockets[0].fd, &address.any, &len) != 0) {
        return 0;
    }
    return ntohs(address.any.sa_family == AF_INET6 ? address.v6.sin6_port : address.v4.sin_port);
}

void listener_stop(struct listener *listener)
{
    atomic_store(&listener->stopped, true);
    for (size_t i = 0; i < listener->n; i++) {
        shutdown(listener->sockets[i].fd, SHUT_RDWR);
    }
}

void listener_free(struct listener *listener)
{
    for (size_t i = 0; i < listener->n; i++) {
        close(listener->sockets[i].fd);
    }
    free(listener);
}
