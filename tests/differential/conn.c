/*
 * Pipelined, non-blocking connections.
 *
 * Invariants:
 *  1. Sending and receiving go on at the same time on both connections, so no pipeline is deep
 *     enough to deadlock against a server that stops reading while its replies aren't taken.
 *  2. An exchange ends: with its replies, with the connection's end, or with the time.
 *  3. Closing is abortive (SO_LINGER 0): tens of thousands of short connections leave no TIME_WAIT
 *     behind.
 */
#include "tests/differential/conn.h"

#include "tests/differential/proc.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define RECEIVE_SIZE 65536

void buffer_add(struct buffer *buffer, const void *data, size_t len)
{
    if (buffer->len + len > buffer->capacity) {
        buffer->capacity = (buffer->len + len) * 2 + 256;
        buffer->data = realloc(buffer->data, buffer->capacity);
        assert(buffer->data != NULL);
    }
    if (len > 0)
        memcpy(buffer->data + buffer->len, data, len);
    buffer->len += len;
}

void buffer_free(struct buffer *buffer)
{
    free(buffer->data);
    *buffer = (struct buffer){0};
}

int conn_open(struct conn *conn, int port)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct linger abortive = {.l_onoff = 1, .l_linger = 0};
    int on = 1;
    *conn = (struct conn){.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    if (conn->fd < 0)
        return -errno;
    setsockopt(conn->fd, SOL_SOCKET, SO_LINGER, &abortive, sizeof abortive);
    setsockopt(conn->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (connect(conn->fd, (struct sockaddr *)&address, sizeof address) == 0)
        return 0;
    int rc = -errno;
    conn_close(conn);
    return rc;
}

void conn_close(struct conn *conn)
{
    if (conn->fd >= 0)
        close(conn->fd);
    buffer_free(&conn->out);
    buffer_free(&conn->in);
    *conn = (struct conn){.fd = -1};
}

void conn_address(const struct conn *conn, char *out, size_t cap)
{
    struct sockaddr_in address = {0};
    socklen_t len = sizeof address;
    if (conn->fd < 0 || getsockname(conn->fd, (struct sockaddr *)&address, &len) < 0)
        snprintf(out, cap, "127.0.0.1:0");
    else
        snprintf(out, cap, "127.0.0.1:%d", ntohs(address.sin_port));
}

static long long now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000LL + now.tv_nsec / 1000000;
}

static void send_some(struct conn *conn)
{
    while (!conn->closed && conn->sent < conn->out.len) {
        size_t len = conn->out.len - conn->sent;
        if (conn->first_send > 0 && conn->first_send < len)
            len = conn->first_send;
        conn->first_send = 0;
        ssize_t sent =
            send(conn->fd, conn->out.data + conn->sent, len, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (sent < 0) {
            /* The server closed; what it said before is still to be read. */
            conn->sent = conn->out.len;
            return;
        }
        conn->sent += (size_t)sent;
    }
    if (conn->last)
        shutdown(conn->fd, SHUT_WR);
}

static void receive_some(struct conn *conn)
{
    char bytes[RECEIVE_SIZE];
    ssize_t got = recv(conn->fd, bytes, sizeof bytes, MSG_DONTWAIT);
    if (got > 0)
        buffer_add(&conn->in, bytes, (size_t)got);
    else if (got == 0 || (errno != EAGAIN && errno != EINTR))
        conn->closed = true;
}

/* Turns received bytes into replies until `expected` are there. */
static void parse_some(struct conn *conn, size_t expected, struct reply_list *replies,
                       struct heap *heap)
{
    while (replies->count < expected && conn->parsed < conn->in.len && !conn->garbage) {
        struct reply value;
        size_t used;
        int rc = reply_parse(heap, conn->in.data + conn->parsed, conn->in.len - conn->parsed, &used,
                             &value);
        if (rc == 0)
            break;
        if (rc < 0) {
            conn->garbage = true;
            value = (struct reply){
                .type = '?',
                .text = heap_copy(heap, conn->in.data + conn->parsed, conn->in.len - conn->parsed),
                .len = conn->in.len - conn->parsed};
            used = conn->in.len - conn->parsed;
        }
        reply_list_push(replies, value);
        conn->parsed += used;
    }
    if (conn->parsed == conn->in.len)
        conn->parsed = conn->in.len = 0;
}

/* Whether everything expected is there; fills in REPLY_CLOSED when nothing more can come. */
static bool is_done(struct conn *conn, size_t expected, struct reply_list *replies)
{
    if (replies->count >= expected)
        return true;
    if (!conn->closed && !conn->garbage)
        return false;
    struct reply closed = {.type = REPLY_CLOSED, .text = ""};
    do {
        reply_list_push(replies, closed);
    } while (expected != UNTIL_CLOSED && replies->count < expected);
    return true;
}

int conn_exchange(struct conn *const *conns, const size_t *expected, size_t count,
                  struct reply_list *replies, struct heap *heap, int timeout_ms, size_t *late)
{
    long long deadline = now_ms() + timeout_ms;
    bool done[2] = {false, false};
    assert(count <= 2);
    for (size_t i = 0; i < count; i++)
        send_some(conns[i]);
    for (;;) {
        struct pollfd fds[2];
        size_t waiting = 0, index[2];
        for (size_t i = 0; i < count; i++) {
            parse_some(conns[i], expected[i], &replies[i], heap);
            done[i] = done[i] || is_done(conns[i], expected[i], &replies[i]);
            if (done[i])
                continue;
            index[waiting] = i;
            short events = conns[i]->sent < conns[i]->out.len ? POLLIN | POLLOUT : POLLIN;
            fds[waiting++] = (struct pollfd){.fd = conns[i]->fd, .events = events};
        }
        if (waiting == 0)
            break;
        long long left = deadline - now_ms();
        if (proc_interrupted())
            return -EINTR;
        *late = index[0];
        if (left <= 0 || (poll(fds, waiting, (int)left) < 0 && errno != EINTR))
            return -ETIMEDOUT;
        for (size_t w = 0; w < waiting; w++) {
            if (fds[w].revents & POLLOUT)
                send_some(conns[index[w]]);
            if (fds[w].revents & (POLLIN | POLLHUP | POLLERR))
                receive_some(conns[index[w]]);
        }
    }
    for (size_t i = 0; i < count; i++) {
        conns[i]->out.len = 0;
        conns[i]->sent = 0;
    }
    return 0;
}

int conn_ping(int port)
{
    struct conn conn;
    if (conn_open(&conn, port) < 0)
        return -1;
    struct reply_list replies = {0};
    struct heap heap = {0};
    size_t expected = 1, late;
    buffer_add(&conn.out, "PING\r\n", 6);
    struct conn *pointer = &conn;
    int rc = conn_exchange(&pointer, &expected, 1, &replies, &heap, 2000, &late);
    if (rc == 0 && !reply_text_is(&replies.items[0], "PONG"))
        rc = -1;
    reply_list_free(&replies);
    heap_free(&heap);
    conn_close(&conn);
    return rc;
}
