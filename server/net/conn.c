/*
 * conn.c - see conn.h. All on the connection's loop thread.
 */
#include "server/net/conn.h"

#include "server/config/config.h"
#include "server/net/loop.h"
#include "server/net/pieces.h"
#include "server/observe/logger.h"
#include "server/observe/metrics.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MIN_RECEIVE (16u * 1024)
#define MAX_DISCARD (16u * 1024 * 1024)

void conn_touch(struct conn *conn)
{
    atomic_store_explicit(&conn->active_ms, conn->loop->now_ms, memory_order_relaxed);
}

static void note_output(struct conn *conn)
{
    atomic_store_explicit(&conn->output_bytes, conn_unsent(conn), memory_order_relaxed);
}

void conn_want_read(struct conn *conn, bool want)
{
    bool may = conn->stage == CONN_LINGERING || (conn->stage == CONN_OPEN && !conn->eof);
    if (want == conn->reading || (want && !may)) {
        return;
    }
    conn->reading = want;
    if (want) {
        event_add(&conn->read_event, NULL);
    } else {
        event_del(&conn->read_event);
    }
}

static void want_write(struct conn *conn, bool want)
{
    if (want == conn->writing) {
        return;
    }
    conn->writing = want;
    if (want) {
        loop_watch(conn);
        event_add(&conn->write_event, NULL);
    } else {
        event_del(&conn->write_event);
    }
}

/* ---- output --------------------------------------------------------------------------------- */

size_t conn_unsent(const struct conn *conn)
{
    return conn->backlog.len - conn->backlog_off;
}

size_t conn_room(const struct conn *conn)
{
    uint64_t hard, soft, seconds;
    size_t unsent = conn_unsent(conn);
    config_output_limits(conn->loop->env->config, &hard, &soft, &seconds);
    return hard == 0 ? SIZE_MAX : hard > unsent ? hard - unsent : 0;
}

void conn_over_limit(struct conn *conn)
{
    logger_write(conn->loop->env->log, LOG_WARNING,
                 "Client id=%llu closed for overcoming of output buffer limits.",
                 (unsigned long long)conn->session.id);
    metrics_add(&conn->loop->metrics->limit_closed, 1);
    conn_kill(conn);
}

void conn_check_soft_limit(struct conn *conn, int64_t now_ms)
{
    uint64_t hard, soft, seconds;
    config_output_limits(conn->loop->env->config, &hard, &soft, &seconds);
    if (soft == 0 || conn_unsent(conn) <= soft || conn->parked) {
        conn->over_soft_since = 0;
    } else if (conn->over_soft_since == 0) {
        conn->over_soft_since = now_ms;
    } else if (now_ms - conn->over_soft_since >= (int64_t)seconds * 1000) {
        conn_over_limit(conn);
    }
}

/* Bytes taken by the socket; 0 when it is full; -1 when it is broken. */
static ssize_t send_some(struct conn *conn, const char *bytes, size_t len)
{
    ssize_t n;
    do {
        n = send(conn->fd, bytes, len, MSG_NOSIGNAL | MSG_DONTWAIT);
    } while (n < 0 && errno == EINTR);
    metrics_add(&conn->loop->metrics->writes, 1);
    if (n >= 0) {
        metrics_add(&conn->loop->metrics->output_bytes, (uint64_t)n);
        return n;
    }
    return errno == EAGAIN || errno == EWOULDBLOCK ? 0 : -1;
}

/* Everything is sent: close, or wait for the peer to stop sending. */
static void end(struct conn *conn)
{
    if (!conn->linger || shutdown(conn->fd, SHUT_WR) != 0) {
        conn_kill(conn);
        return;
    }
    conn->stage = CONN_LINGERING;
    conn->linger_since = conn->loop->now_ms;
    loop_watch(conn);
    conn_want_read(conn, true);
}

void conn_discard(struct conn *conn, char *space, size_t room)
{
    ssize_t n = recv(conn->fd, space, room, MSG_DONTWAIT);
    conn->discarded += n > 0 ? (size_t)n : 0;
    if (n == 0 || conn->discarded > MAX_DISCARD ||
        (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)) {
        conn_kill(conn);
    }
}

static void backlog_sent(struct conn *conn)
{
    resp_out_free(&conn->backlog);
    resp_out_init(&conn->backlog);
    conn->backlog_off = 0;
    want_write(conn, false);
    note_output(conn);
    if (conn->parked) {
        pieces_unpark(conn);
    } else if (conn->stage == CONN_DRAINING) {
        end(conn);
    }
}

void conn_flush(struct conn *conn)
{
    while (conn->stage != CONN_DEAD && conn_unsent(conn) > 0) {
        ssize_t n = send_some(conn, conn->backlog.buf + conn->backlog_off, conn_unsent(conn));
        if (n < 0) {
            conn_kill(conn);
            return;
        }
        if (n == 0) {
            want_write(conn, true);
            note_output(conn);
            return;
        }
        conn->backlog_off += (size_t)n;
        conn_touch(conn);
    }
    if (conn->stage != CONN_DEAD) {
        backlog_sent(conn);
    }
}

/* Puts bytes behind the backlog. What was sent is cut off first, when that is most of it. */
static void enqueue(struct conn *conn, const char *bytes, size_t len)
{
    if (conn_room(conn) < len) {
        conn_over_limit(conn);
        return;
    }
    if (conn->backlog_off > conn->backlog.len / 2) {
        size_t unsent = conn_unsent(conn);
        memmove(conn->backlog.buf, conn->backlog.buf + conn->backlog_off, unsent);
        resp_out_truncate(&conn->backlog, unsent);
        conn->backlog_off = 0;
    }
    resp_write_raw(&conn->backlog, bytes, len);
    if (conn->backlog.status != 0) {
        conn_over_limit(conn);
        return;
    }
    want_write(conn, true);
    note_output(conn);
}

/* As much as goes directly; returns how much. The connection may be dead. */
static size_t send_direct(struct conn *conn, const char *bytes, size_t len)
{
    size_t sent = 0;
    while (sent < len && conn_unsent(conn) == 0) {
        ssize_t n = send_some(conn, bytes + sent, len - sent);
        if (n < 0) {
            conn_kill(conn);
            return sent;
        }
        if (n == 0) {
            break;
        }
        sent += (size_t)n;
    }
    return sent;
}

void conn_send(struct conn *conn, const char *bytes, size_t len)
{
    size_t sent;
    if (conn->stage == CONN_DEAD || len == 0) {
        return;
    }
    sent = send_direct(conn, bytes, len);
    if (conn->stage != CONN_DEAD && sent < len) {
        enqueue(conn, bytes + sent, len - sent);
    }
}

void conn_send_out(struct conn *conn, struct resp_out *out)
{
    size_t sent;
    if (conn->stage == CONN_DEAD || out->len == 0) {
        return;
    }
    sent = send_direct(conn, out->buf, out->len);
    if (conn->stage == CONN_DEAD || sent == out->len) {
        return;
    }
    if (conn_unsent(conn) > 0) {
        enqueue(conn, out->buf + sent, out->len - sent);
        return;
    }
    resp_out_free(&conn->backlog);
    conn->backlog = *out;
    conn->backlog.limit = SIZE_MAX;
    conn->backlog.end = conn->backlog.cap;
    conn->backlog_off = sent;
    resp_out_init(out);
    want_write(conn, true);
    note_output(conn);
}

/* ---- input ---------------------------------------------------------------------------------- */

static void note_input(struct conn *conn)
{
    atomic_store_explicit(&conn->input_bytes, conn->in_len, memory_order_relaxed);
}

/* Makes room behind the leftover: doubling, at least MIN_RECEIVE. */
static bool grow_input(struct conn *conn)
{
    size_t cap = conn->in_cap * 2;
    char *grown;
    if (conn->in_cap - conn->in_len >= MIN_RECEIVE) {
        return true;
    }
    if (cap < conn->in_len + MIN_RECEIVE) {
        cap = conn->in_len + MIN_RECEIVE;
    }
    grown = realloc(conn->in, cap);
    if (grown == NULL) {
        return false;
    }
    conn->in = grown;
    conn->in_cap = cap;
    return true;
}

size_t conn_receive(struct conn *conn, char *space, size_t room)
{
    bool own = conn->in_len > 0;
    ssize_t n;
    if (own && !grow_input(conn)) {
        conn_kill(conn);
        return 0;
    }
    do {
        n = recv(conn->fd, own ? conn->in + conn->in_len : space,
                 own ? conn->in_cap - conn->in_len : room, MSG_DONTWAIT);
    } while (n < 0 && errno == EINTR);
    metrics_add(&conn->loop->metrics->reads, 1);
    if (n <= 0) {
        if (n == 0 && (conn->unit != NULL || conn->stalled)) {
            conn->eof = true;
            conn_want_read(conn, false);
        } else if (n == 0 || (errno != EAGAIN && errno != EWOULDBLOCK)) {
            conn_kill(conn);
        }
        return 0;
    }
    metrics_add(&conn->loop->metrics->input_bytes, (uint64_t)n);
    conn_touch(conn);
    if (own) {
        conn->in_len += (size_t)n;
        conn->data = conn->in;
        conn->data_len = conn->in_len;
        conn->data_off = 0;
        return 0;
    }
    conn->data = space;
    conn->data_len = (size_t)n;
    conn->data_off = 0;
    return (size_t)n;
}

bool conn_unread(struct conn *conn, const struct unit *unit)
{
    struct resp_out out;
    resp_out_init(&out);
    unit_write_rest(unit, &out);
    resp_write_raw(&out, conn->in != NULL ? conn->in : "", conn->in_len);
    if (out.status != 0) {
        resp_out_free(&out);
        return false;
    }
    free(conn->in);
    conn->in = out.buf; /* from malloc, as ours */
    conn->in_len = out.len;
    conn->in_cap = out.cap;
    resp_parser_reset(&conn->parser);
    note_input(conn);
    return true;
}

void conn_keep_input(struct conn *conn)
{
    size_t left = conn->data_len - conn->data_off;
    bool own = conn->in != NULL && conn->data == conn->in;
    if (conn->data == NULL) {
        return;
    }
    if (conn->given) {
        conn->given = own = false;
        conn->in = NULL;
        conn->in_cap = conn->in_len = 0;
    }
    if (left == 0 || conn->stage != CONN_OPEN) {
        free(conn->in);
        conn->in = NULL;
        conn->in_cap = conn->in_len = 0;
    } else if (own) {
        if (conn->data_off > 0) {
            memmove(conn->in, conn->in + conn->data_off, left);
        }
        conn->in_len = left;
    } else {
        conn->in_cap = left < MIN_RECEIVE / 16 ? MIN_RECEIVE / 16 : left;
        conn->in = malloc(conn->in_cap);
        if (conn->in == NULL) {
            conn->in_cap = 0;
            conn_kill(conn);
            return;
        }
        memcpy(conn->in, conn->data + conn->data_off, left);
        conn->in_len = left;
    }
    conn->data = NULL;
    note_input(conn);
    if (conn->in_len >
        (size_t)config_number(conn->loop->env->config, CONFIG_CLIENT_QUERY_BUFFER_LIMIT)) {
        logger_write(conn->loop->env->log, LOG_WARNING,
                     "Closing client id=%llu that reached max query buffer length.",
                     (unsigned long long)conn->session.id);
        metrics_add(&conn->loop->metrics->query_closed, 1);
        conn_kill(conn);
    }
}

/* ---- the end -------------------------------------------------------------------------------- */

void conn_finish(struct conn *conn)
{
    if (conn->stage != CONN_OPEN) {
        return;
    }
    conn_want_read(conn, false);
    conn->stage = CONN_DRAINING;
    if (conn_unsent(conn) == 0) {
        end(conn);
    }
}

void conn_kill(struct conn *conn)
{
    if (conn->stage == CONN_DEAD) {
        return;
    }
    conn_want_read(conn, false);
    want_write(conn, false);
    conn->stage = CONN_DEAD;
    atomic_store(&conn->session.killed, true);
    if (conn->given) { /* the unit's now */
        conn->in = NULL;
        conn->given = false;
    }
    loop_conn_died(conn->loop, conn);
}
