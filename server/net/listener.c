/*
 * listener.c - see listener.h.
 *
 * The thread waits for connections and for requests. A request (other addresses) is carried out by
 * the thread itself, between two waits: no socket is closed while it is waited for. Like Redis, it
 * closes the old sockets before it opens new ones, which may overlap, and opens the old ones again
 * if that fails.
 *
 * Crash: the path of a Unix socket stays; the next start takes its place.
 */
#include "server/net/listener.h"

#include "server/observe/logger.h"
#include "server/observe/metrics.h"

#include <assert.h>
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define MAX_SOCKETS  16 /* of TCP; config_check_bind allows as many */
#define ACCEPT_BATCH 256
#define PAUSE_MS     100 /* between two tries when the process is out of descriptors */

struct request {
    const char *addresses;
    int port;
    char *reason;
    size_t reason_size;
    int rc;
};

struct listener {
    struct loop *loops;
    size_t loop_n, next;
    struct metrics_thread *metrics;
    int backlog;
    /* The thread's (before it runs: listener_open's). */
    int tcp[MAX_SOCKETS];
    size_t tcp_n;
    int unix_fd; /* -1: none */
    char *unix_path;
    char *addresses;
    int port;
    bool out_of_files; /* said so, and waiting */

    pthread_t thread;
    int wake_fd;
    pthread_mutex_t lock; /* what follows */
    pthread_cond_t changed;
    struct request request;
    bool requested, stop;
};

/* ---- opening -------------------------------------------------------------------------------- */

static int listen_at(struct listener *listener, const struct sockaddr *address, socklen_t len)
{
    int on = 1, rc;
    int fd = socket(address->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return -errno;
    }
    if (address->sa_family != AF_UNIX) {
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    }
    if (address->sa_family == AF_INET6) {
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
    }
    if (bind(fd, address, len) != 0 || listen(fd, listener->backlog) != 0) {
        rc = -errno;
        close(fd);
        return rc;
    }
    return fd;
}

/* Addresses of a protocol that the machine does not have are left out, as Redis does. */
static bool may_be_left_out(int rc, bool optional)
{
    return (optional && rc == -EADDRNOTAVAIL) || rc == -ENOPROTOOPT || rc == -EPROTONOSUPPORT ||
           rc == -ESOCKTNOSUPPORT || rc == -EPFNOSUPPORT || rc == -EAFNOSUPPORT;
}

static int open_address(struct listener *listener, const char *name, int port, char *reason,
                        size_t reason_size)
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC,
                             .ai_socktype = SOCK_STREAM,
                             .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    struct addrinfo *found = NULL;
    char service[16];
    bool optional = name[0] == '-';
    const char *host = name += optional;
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
        return optional ? 0 : -1;
    }
    rc = listen_at(listener, found->ai_addr, found->ai_addrlen);
    freeaddrinfo(found);
    if (rc >= 0) {
        listener->tcp[listener->tcp_n++] = rc;
        return 0;
    }
    snprintf(reason, reason_size, "%s:%d: %s", name, port, strerror(-rc));
    return may_be_left_out(rc, optional) ? 0 : -1;
}

static void close_tcp(struct listener *listener)
{
    while (listener->tcp_n > 0) {
        close(listener->tcp[--listener->tcp_n]);
    }
}

static int open_tcp(struct listener *listener, const char *addresses, int port, char *reason,
                    size_t reason_size)
{
    char *copy = strdup(addresses), *save = NULL;
    int rc = 0, named = 0;
    if (copy == NULL) {
        snprintf(reason, reason_size, "out of memory");
        return -1;
    }
    for (char *name = strtok_r(copy, " ", &save); name != NULL && rc == 0 && port != 0;
         name = strtok_r(NULL, " ", &save)) {
        rc = listener->tcp_n < MAX_SOCKETS ? open_address(listener, name, port, reason, reason_size)
                                           : -1;
        named++;
    }
    free(copy);
    if (rc == 0 && named > 0 && listener->tcp_n == 0) {
        rc = -1; /* all were left out; the last one's reason is there */
    }
    if (rc != 0) {
        close_tcp(listener);
    }
    return rc;
}

static int open_unix(struct listener *listener, const struct listener_options *options,
                     char *reason, size_t reason_size)
{
    union {
        struct sockaddr any;
        struct sockaddr_un un;
    } address = {.un = {.sun_family = AF_UNIX}};
    int fd;
    if (options->unix_path[0] == '\0') {
        return 0;
    }
    if (strlen(options->unix_path) >= sizeof(address.un.sun_path)) {
        snprintf(reason, reason_size, "unixsocket '%s': the path is too long", options->unix_path);
        return -1;
    }
    memcpy(address.un.sun_path, options->unix_path, strlen(options->unix_path) + 1);
    unlink(options->unix_path); /* left by a process that was killed */
    fd = listen_at(listener, &address.any, sizeof(address.un));
    if (fd < 0 || (options->unix_mode != 0 && chmod(options->unix_path, options->unix_mode) != 0)) {
        snprintf(reason, reason_size, "unixsocket '%s': %s", options->unix_path,
                 strerror(fd < 0 ? -fd : errno));
        if (fd >= 0) {
            close(fd);
        }
        return -1;
    }
    listener->unix_fd = fd;
    listener->unix_path = strdup(options->unix_path);
    return 0;
}

/* ---- the thread ----------------------------------------------------------------------------- */

static void accept_failed(struct listener *listener, int error)
{
    bool exhausted = error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
    if (!exhausted || !listener->out_of_files) {
        logger_write(listener->loops[0].env->log, LOG_WARNING, "Accepting a connection failed: %s",
                     strerror(error));
    }
    listener->out_of_files = exhausted;
}

static void accept_all(struct listener *listener, int fd)
{
    for (int i = 0; i < ACCEPT_BATCH; i++) {
        int client = accept4(fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (client >= 0) {
            listener->out_of_files = false;
            loop_accept(&listener->loops[listener->next], client, listener->metrics);
            listener->next = (listener->next + 1) % listener->loop_n;
        } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
            return;
        } else if (errno != EINTR && errno != ECONNABORTED) {
            accept_failed(listener, errno);
            return;
        }
    }
}

static void carry_out(struct listener *listener, struct request *request)
{
    char unused[256];
    request->rc = 0;
    if (request->port == listener->port && strcmp(request->addresses, listener->addresses) == 0) {
        return;
    }
    close_tcp(listener);
    request->rc = open_tcp(listener, request->addresses, request->port, request->reason,
                           request->reason_size);
    if (request->rc == 0) {
        char *copy = strdup(request->addresses);
        if (copy != NULL) {
            free(listener->addresses);
            listener->addresses = copy;
            listener->port = request->port;
        }
    } else if (open_tcp(listener, listener->addresses, listener->port, unused, sizeof(unused)) !=
               0) {
        logger_write(listener->loops[0].env->log, LOG_WARNING,
                     "Listening again on the addresses of before failed: %s", unused);
    }
}

/* Does what was asked for. false: the end. */
static bool serve_request(struct listener *listener)
{
    bool stop;
    uint64_t count;
    ssize_t n = read(listener->wake_fd, &count, sizeof(count));
    (void)n;
    pthread_mutex_lock(&listener->lock);
    if (listener->requested) {
        carry_out(listener, &listener->request);
        listener->requested = false;
        pthread_cond_broadcast(&listener->changed);
    }
    stop = listener->stop;
    pthread_mutex_unlock(&listener->lock);
    return !stop;
}

static void *listener_main(void *arg)
{
    struct listener *listener = arg;
    pthread_setname_np(pthread_self(), "pando-accept");
    for (;;) {
        struct pollfd fds[MAX_SOCKETS + 2] = {{listener->wake_fd, POLLIN, 0}};
        nfds_t n = 1;
        for (size_t i = 0; i < listener->tcp_n && !listener->out_of_files; i++) {
            fds[n++] = (struct pollfd){listener->tcp[i], POLLIN, 0};
        }
        if (listener->unix_fd >= 0 && !listener->out_of_files) {
            fds[n++] = (struct pollfd){listener->unix_fd, POLLIN, 0};
        }
        if (poll(fds, n, listener->out_of_files ? PAUSE_MS : -1) == 0) {
            for (size_t i = 0; i < listener->tcp_n; i++) {
                accept_all(listener, listener->tcp[i]);
            }
            if (listener->unix_fd >= 0) {
                accept_all(listener, listener->unix_fd);
            }
            continue;
        }
        for (nfds_t i = 1; i < n; i++) {
            if (fds[i].revents != 0) {
                accept_all(listener, fds[i].fd);
            }
        }
        if (fds[0].revents != 0 && !serve_request(listener)) {
            return NULL;
        }
    }
}

static void wake(struct listener *listener)
{
    uint64_t one = 1;
    ssize_t n = write(listener->wake_fd, &one, sizeof(one));
    (void)n; /* full means readable */
}

/* ---- the rest ------------------------------------------------------------------------------- */

static void close_all(struct listener *listener)
{
    close_tcp(listener);
    if (listener->unix_fd >= 0) {
        close(listener->unix_fd);
        unlink(listener->unix_path);
        listener->unix_fd = -1;
    }
}

void listener_free(struct listener *listener)
{
    close_all(listener);
    if (listener->wake_fd >= 0) {
        close(listener->wake_fd);
    }
    pthread_mutex_destroy(&listener->lock);
    pthread_cond_destroy(&listener->changed);
    free(listener->unix_path);
    free(listener->addresses);
    free(listener);
}

int listener_open(struct loop *loops, size_t n, const struct listener_options *options,
                  struct listener **out, char *reason, size_t reason_size)
{
    struct listener *listener = calloc(1, sizeof(*listener));
    int rc;
    if (listener == NULL) {
        snprintf(reason, reason_size, "out of memory");
        return -1;
    }
    listener->loops = loops;
    listener->loop_n = n;
    listener->metrics = metrics_thread(loops[0].env->metrics);
    listener->backlog = options->backlog;
    listener->unix_fd = -1;
    listener->port = options->port;
    listener->addresses = strdup(options->addresses);
    listener->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    pthread_mutex_init(&listener->lock, NULL);
    pthread_cond_init(&listener->changed, NULL);
    snprintf(reason, reason_size, "out of memory or descriptors");
    rc = listener->addresses == NULL || listener->wake_fd < 0 ? -1 : 0;
    if (rc == 0) {
        rc = open_tcp(listener, options->addresses, options->port, reason, reason_size);
    }
    if (rc == 0) {
        rc = open_unix(listener, options, reason, reason_size);
    }
    if (rc == 0 && listener->tcp_n == 0 && listener->unix_fd < 0) {
        snprintf(reason, reason_size, "neither port nor unixsocket is set");
        rc = -1;
    }
    if (rc == 0 && pthread_create(&listener->thread, NULL, listener_main, listener) != 0) {
        snprintf(reason, reason_size, "no thread can be started");
        rc = -1;
    }
    if (rc != 0) {
        listener_free(listener);
        return -1;
    }
    *out = listener;
    return 0;
}

int listener_change(struct listener *listener, const char *addresses, int port, char *reason,
                    size_t reason_size)
{
    int rc = -1;
    pthread_mutex_lock(&listener->lock);
    assert(!listener->requested); /* changes come one at a time (config.h) */
    if (listener->stop) {
        snprintf(reason, reason_size, "the server is ending");
    } else {
        listener->request = (struct request){addresses, port, reason, reason_size, 0};
        listener->requested = true;
        wake(listener);
        while (listener->requested) {
            pthread_cond_wait(&listener->changed, &listener->lock);
        }
        rc = listener->request.rc;
    }
    pthread_mutex_unlock(&listener->lock);
    return rc;
}

void listener_stop(struct listener *listener)
{
    pthread_mutex_lock(&listener->lock);
    listener->stop = true;
    wake(listener);
    pthread_mutex_unlock(&listener->lock);
    pthread_join(listener->thread, NULL);
    close_all(listener);
}
