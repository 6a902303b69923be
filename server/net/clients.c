/*
 * clients.c - see clients.h. The list is in order of ids, since ids grow.
 *
 * Invariant: a connection is in the list from clients_add to clients_remove, which its loop calls
 * before it frees the connection; whoever holds the lock may read what conn.h marks as the
 * registry's, and the session's atomics and name.
 */
#include "server/net/clients.h"

#include "server/commands/command.h"
#include "server/exec/writer.h"
#include "server/net/loop.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <time.h>

struct clients {
    pthread_mutex_t lock;
    struct conn *first, *last;
    size_t count;
    uint64_t next_id;
};

struct clients *clients_new(void)
{
    struct clients *clients = calloc(1, sizeof(*clients));
    if (clients != NULL) {
        pthread_mutex_init(&clients->lock, NULL);
        clients->next_id = 1;
    }
    return clients;
}

void clients_free(struct clients *clients)
{
    if (clients != NULL) {
        pthread_mutex_destroy(&clients->lock);
    }
    free(clients);
}

int clients_add(struct clients *clients, struct conn *conn, size_t max)
{
    int rc = -1;
    pthread_mutex_lock(&clients->lock);
    if (clients->count < max) {
        conn->session.id = clients->next_id++;
        conn->prev = clients->last;
        conn->next = NULL;
        *(clients->last != NULL ? &clients->last->next : &clients->first) = conn;
        clients->last = conn;
        clients->count++;
        rc = 0;
    }
    pthread_mutex_unlock(&clients->lock);
    return rc;
}

void clients_remove(struct clients *clients, struct conn *conn)
{
    pthread_mutex_lock(&clients->lock);
    *(conn->prev != NULL ? &conn->prev->next : &clients->first) = conn->next;
    *(conn->next != NULL ? &conn->next->prev : &clients->last) = conn->prev;
    clients->count--;
    pthread_mutex_unlock(&clients->lock);
}

int clients_rename(struct clients *clients, struct session *session, const char *name, size_t len)
{
    char *copy = NULL;
    if (len > 0) {
        copy = strndup(name, len);
        if (copy == NULL) {
            return PS_NOMEM;
        }
    }
    pthread_mutex_lock(&clients->lock);
    free(session->name);
    session->name = copy;
    pthread_mutex_unlock(&clients->lock);
    return 0;
}

void clients_address(const struct sockaddr_storage *address, char *text, size_t size)
{
    char host[INET6_ADDRSTRLEN] = "?";
    if (address->ss_family == AF_INET6) {
        const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)address;
        inet_ntop(AF_INET6, &in6->sin6_addr, host, sizeof(host));
        snprintf(text, size, "[%s]:%u", host, ntohs(in6->sin6_port));
    } else if (address->ss_family == AF_UNIX) {
        snprintf(text, size, "%s:0", ((const struct sockaddr_un *)address)->sun_path);
    } else {
        const struct sockaddr_in *in = (const struct sockaddr_in *)address;
        inet_ntop(AF_INET, &in->sin_addr, host, sizeof(host));
        snprintf(text, size, "%s:%u", host, ntohs(in->sin_port));
    }
}

bool clients_is_local(const struct sockaddr_storage *address)
{
    if (address->ss_family == AF_INET6) {
        const struct in6_addr *in6 = &((const struct sockaddr_in6 *)address)->sin6_addr;
        return IN6_IS_ADDR_LOOPBACK(in6);
    }
    return address->ss_family == AF_UNIX ||
           ntohl(((const struct sockaddr_in *)address)->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
}

/* A Unix socket's peer has no address of its own. */
static const struct sockaddr_storage *peer_of(const struct conn *conn)
{
    return conn->local.ss_family == AF_UNIX ? &conn->local : &conn->peer;
}

static bool matches(const struct conn *conn, const struct client_filter *filter)
{
    char text[CLIENTS_ADDRESS_MAX];
    bool found = filter->ids == NULL;
    for (size_t i = 0; filter->ids != NULL && i < filter->id_count; i++) {
        found |= filter->ids[i] == conn->session.id;
    }
    if (!found || filter->never || conn->session.id == filter->except) {
        return false;
    }
    if (filter->addr != NULL) {
        clients_address(peer_of(conn), text, sizeof(text));
        found = strcmp(text, filter->addr) == 0;
    }
    if (found && filter->laddr != NULL) {
        clients_address(&conn->local, text, sizeof(text));
        found = strcmp(text, filter->laddr) == 0;
    }
    return found;
}

static void describe(FILE *to, const struct conn *conn)
{
    const struct session *s = &conn->session;
    const struct command *last = s->last;
    char peer[CLIENTS_ADDRESS_MAX], local[CLIENTS_ADDRESS_MAX];
    const char *flags = s->multi ? "x" : "N";
    struct timespec now;
    int64_t ms;
    size_t unsent = conn->output_bytes;
    clock_gettime(CLOCK_REALTIME, &now);
    ms = (int64_t)now.tv_sec * 1000;
    clients_address(peer_of(conn), peer, sizeof(peer));
    if (conn->local.ss_family == AF_UNIX) {
        flags = s->multi ? "xU" : "U";
    }
    clients_address(&conn->local, local, sizeof(local));
    fprintf(to, "id=%llu addr=%s laddr=%s fd=%d name=%s age=%lld idle=%lld flags=%s db=%u sub=0 ",
            (unsigned long long)s->id, peer, local, conn->fd, s->name != NULL ? s->name : "",
            (long long)(ms > conn->created_ms ? (ms - conn->created_ms) / 1000 : 0),
            (long long)(ms > conn->active_ms ? (ms - conn->active_ms) / 1000 : 0), flags,
            session_db(s));
    fprintf(to, "psub=0 ssub=0 multi=%d qbuf=%zu qbuf-free=0 argv-mem=0 multi-mem=0 rbs=0 rbp=0 ",
            s->multi ? (int)s->queued : -1, (size_t)conn->input_bytes);
    fprintf(to,
            "obl=%zu oll=0 omem=%zu tot-mem=%zu events=%s cmd=%s user=default redir=-1 resp=%d\n",
            unsent, unsent, sizeof(*conn) + unsent + conn->input_bytes, unsent > 0 ? "rw" : "r",
            last == NULL ? "NULL" : command_full_name(last), session_resp(s));
}

char *clients_list(struct clients *clients, const struct client_filter *filter, size_t *len)
{
    char *text = NULL;
    FILE *to = open_memstream(&text, len);
    if (to == NULL) {
        return NULL;
    }
    pthread_mutex_lock(&clients->lock);
    for (const struct conn *c = clients->first; c != NULL && filter->ids == NULL; c = c->next) {
        if (matches(c, filter)) {
            describe(to, c);
        }
    }
    for (size_t i = 0; filter->ids != NULL && i < filter->id_count; i++) {
        const struct conn *c = clients->first;
        while (c != NULL && c->session.id != filter->ids[i]) {
            c = c->next;
        }
        if (c != NULL && !filter->never) {
            describe(to, c);
        }
    }
    pthread_mutex_unlock(&clients->lock);
    if (fclose(to) != 0) {
        free(text);
        return NULL;
    }
    return text;
}

size_t clients_kill(struct clients *clients, struct session *self,
                    const struct client_filter *filter)
{
    size_t n = 0;
    pthread_mutex_lock(&clients->lock);
    for (struct conn *c = clients->first; c != NULL; c = c->next) {
        if (c->session.killed || !matches(c, filter)) {
            continue;
        }
        n++;
        if (&c->session == self) {
            self->closing = true;
            continue;
        }
        atomic_store(&c->session.killed, true);
        if (!atomic_exchange(&c->notice, true)) {
            c->mail.kind = MAIL_CLIENT;
            mailbox_post(&c->loop->box, &c->mail);
        }
    }
    pthread_mutex_unlock(&clients->lock);
    return n;
}

void clients_statistics(struct clients *clients, struct clients_statistics *s)
{
    memset(s, 0, sizeof(*s));
    pthread_mutex_lock(&clients->lock);
    s->count = clients->count;
    for (const struct conn *c = clients->first; c != NULL; c = c->next) {
        size_t in = c->input_bytes, out = c->output_bytes;
        s->max_input = in > s->max_input ? in : s->max_input;
        s->max_output = out > s->max_output ? out : s->max_output;
        s->buffered += in + out;
    }
    pthread_mutex_unlock(&clients->lock);
}
