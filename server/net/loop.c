/*
 * loop.c - see loop.h: the life of a loop and of its connections. The turn is in turn.c.
 *
 * A connection that dies in a turn may still be named by lists of that turn, by a unit that is
 * away, or by a notice on its way: it is freed at the end of a turn, when none of these is left.
 */
#include "server/net/loop.h"

#include "server/config/config.h"
#include "server/exec/regime.h"
#include "server/exec/stream.h"
#include "server/net/pieces.h"
#include "server/observe/logger.h"
#include "server/observe/metrics.h"

#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LINGER_MS 1000

/* Redis's own words. */
static const char protected_mode_text[] =
    "-DENIED Redis is running in protected mode because protected mode is enabled and no password "
    "is set for the default user. In this mode connections are only accepted from the loopback "
    "interface. If you want to connect from external computers to Redis you may adopt one of the "
    "following solutions: 1) Just disable protected mode sending the command 'CONFIG SET "
    "protected-mode no' from the loopback interface by connecting to Redis from the same host the "
    "server is running, however MAKE SURE Redis is not publicly accessible from internet if you do "
    "so. Use CONFIG REWRITE to make this change permanent. 2) Alternatively you can just disable "
    "the protected mode by editing the Redis configuration file, and setting the protected mode "
    "option to 'no', and then restarting the server. 3) If you started the server manually just "
    "for testing, restart it with the '--protected-mode no' option. 4) Setup a an authentication "
    "password for the default user. NOTE: You only need to do one of the above things in order for "
    "the server to start accepting connections from the outside.\r\n";

/* ---- connections ---------------------------------------------------------------------------- */

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
    struct conn *conn = arg;
    struct conn_list *ready = &conn->loop->ready;
    (void)fd;
    (void)what;
    if (!conn->ready && ready->n < ready->cap) {
        conn->ready = true;
        ready->v[ready->n++] = conn;
    }
}

static void on_writable(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    conn_flush(arg);
}

static bool list_reserve(struct conn_list *list, size_t n)
{
    struct conn **grown;
    size_t cap = list->cap < 64 ? 64 : list->cap;
    if (n <= list->cap) {
        return true;
    }
    while (cap < n) {
        cap *= 2;
    }
    grown = realloc(list->v, cap * sizeof(struct conn *));
    if (grown == NULL) {
        return false;
    }
    list->v = grown;
    list->cap = cap;
    return true;
}

static void conn_arrive(struct loop *loop, struct conn *conn)
{
    conn->arrived = true;
    atomic_store(&conn->notice, false);
    conn->loop_prev = NULL;
    conn->loop_next = loop->conns;
    if (loop->conns != NULL) {
        loop->conns->loop_prev = conn;
    }
    loop->conns = conn;
    loop->conn_n++;
    event_assign(&conn->read_event, loop->base, conn->fd, EV_READ | EV_PERSIST, on_readable, conn);
    event_assign(&conn->write_event, loop->base, conn->fd, EV_WRITE | EV_PERSIST, on_writable,
                 conn);
    if (conn->session.killed || loop->stopping || !list_reserve(&loop->ready, loop->conn_n) ||
        !list_reserve(&loop->active, loop->conn_n)) {
        conn_kill(conn);
        return;
    }
    if (loop->timeout_ms > 0) {
        deadlines_set(&loop->deadlines, conn, conn->active_ms + loop->timeout_ms);
    }
    conn_want_read(conn, true);
}

void loop_conn_died(struct loop *loop, struct conn *conn)
{
    clients_remove(loop->clients, conn);
    deadlines_drop(&loop->deadlines, conn);
    close(conn->fd);
    *(conn->loop_prev != NULL ? &conn->loop_prev->loop_next : &loop->conns) = conn->loop_next;
    if (conn->loop_next != NULL) {
        conn->loop_next->loop_prev = conn->loop_prev;
    }
    loop->conn_n--;
    conn->loop_next = loop->dead;
    loop->dead = conn;
    pieces_drop(conn);
}

static void conn_free(struct conn *conn)
{
    session_clear(&conn->session);
    resp_out_free(&conn->backlog);
    free(conn->in);
    free(conn);
}

static void bury_dead(struct loop *loop)
{
    struct conn *conn = loop->dead, *next;
    loop->dead = NULL;
    for (; conn != NULL; conn = next) {
        next = conn->loop_next;
        if (conn->unit == NULL && !conn->notice) {
            conn_free(conn);
        } else {
            conn->loop_next = loop->dead;
            loop->dead = conn;
        }
    }
}

static void set_socket_options(struct loop *loop, int fd)
{
    int on = 1, idle = (int)config_number(loop->env->config, CONFIG_TCP_KEEPALIVE);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    if (idle > 0) {
        int interval = idle / 3 > 0 ? idle / 3 : 1, probes = 3;
        setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
        setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
        setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof(interval));
        setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof(probes));
    }
}

static void refuse(int fd, const char *text, struct metrics_thread *metrics)
{
    ssize_t n = send(fd, text, strlen(text), MSG_NOSIGNAL | MSG_DONTWAIT);
    (void)n; /* it is closed either way */
    metrics_add(&metrics->rejected, 1);
    close(fd);
}

/* Why a connection may not come in, or NULL. Registers it. */
static const char *admit(struct loop *loop, struct conn *conn)
{
    if (!conn->session.authenticated || clients_is_local(&conn->peer) ||
        config_number(loop->env->config, CONFIG_PROTECTED_MODE) == 0) {
        size_t most = (size_t)config_number(loop->env->config, CONFIG_MAXCLIENTS);
        return clients_add(loop->clients, conn, most) == 0
                   ? NULL
                   : "-ERR max number of clients reached\r\n";
    }
    return protected_mode_text;
}

void loop_accept(struct loop *loop, int fd, struct metrics_thread *metrics)
{
    struct conn *conn = calloc(1, sizeof(*conn));
    socklen_t peer = sizeof(conn->peer), local = sizeof(conn->local);
    char *password = config_text(loop->env->config, CONFIG_REQUIREPASS);
    const char *refusal;
    if (conn == NULL || password == NULL) {
        free(conn);
        free(password);
        close(fd);
        return;
    }
    session_init(&conn->session, 0, password[0] == '\0');
    free(password);
    resp_out_init(&conn->backlog);
    conn->loop = loop;
    conn->fd = fd;
    conn->notice = true;
    conn->created_ms = exec_now(loop->env);
    conn->active_ms = conn->created_ms;
    getpeername(fd, (struct sockaddr *)&conn->peer, &peer);
    getsockname(fd, (struct sockaddr *)&conn->local, &local);
    refusal = admit(loop, conn);
    if (refusal != NULL) {
        free(conn);
        refuse(fd, refusal, metrics);
        return;
    }
    metrics_add(&metrics->connections, 1);
    if (conn->local.ss_family != AF_UNIX) {
        set_socket_options(loop, fd);
    }
    logger_write(loop->env->log, LOG_VERBOSE, "Accepted client id=%llu",
                 (unsigned long long)conn->session.id);
    loop_adopt(loop, conn);
}

void loop_adopt(struct loop *loop, struct conn *conn)
{
    conn->mail.kind = MAIL_CLIENT;
    mailbox_post(&loop->box, &conn->mail);
}

/* ---- the inbox ------------------------------------------------------------------------------ */

static void activate(struct loop *loop, struct conn *conn)
{
    if (conn->stage != CONN_OPEN || conn->active) {
        return;
    }
    if (conn->data == NULL && conn->in_len > 0) {
        conn->data = conn->in;
        conn->data_len = conn->in_len;
        conn->data_off = 0;
    }
    if (conn->data != NULL) {
        conn->active = true;
        loop->active.v[loop->active.n++] = conn;
    } else if (conn->eof) {
        conn_finish(conn);
    }
    conn_want_read(conn, !loop->stopping);
}

/* The unit's replies are sent, or on their way: its connection goes on. */
void loop_finish_unit(struct loop *loop, struct unit *unit)
{
    struct conn *conn = unit->owner;
    conn->unit = NULL;
    conn_touch(conn);
    if (unit->out.status != 0) {
        conn_over_limit(conn);
    }
    if (unit->done < unit->count && conn->stage == CONN_OPEN && !conn->session.closing &&
        !conn_unread(conn, unit)) {
        conn_kill(conn);
    }
    unit_release(&loop->units, unit);
    if (conn->session.killed) {
        conn_kill(conn);
    } else if (conn->session.closing || loop->stopping) {
        conn_finish(conn);
    }
    activate(loop, conn);
}

static void take_unit_back(struct loop *loop, struct unit *unit)
{
    struct conn *conn = unit->owner;
    assert(conn->unit == unit);
    if (stream_wanted(unit)) {
        pieces_take(conn, unit);
    } else {
        conn_send_out(conn, &unit->out);
        loop_finish_unit(loop, unit);
    }
}

static void take_client(struct loop *loop, struct conn *conn)
{
    if (!conn->arrived) {
        conn_arrive(loop, conn);
        return;
    }
    atomic_store(&conn->notice, false);
    conn_kill(conn);
}

static void begin_stop(struct loop *loop)
{
    struct conn *next;
    loop->stopping = true;
    loop->stop_at = loop->now_ms + 1000 * config_number(loop->env->config, CONFIG_SHUTDOWN_TIMEOUT);
    for (struct conn *conn = loop->conns; conn != NULL; conn = next) {
        next = conn->loop_next;
        conn_want_read(conn, false);
        loop_watch(conn);
        if (conn->stage == CONN_LINGERING) {
            conn_kill(conn);
        } else if (conn->unit == NULL) {
            conn_finish(conn);
        }
    }
}

static void resume_stalled(struct loop *loop)
{
    loop->room.waiting = false;
    for (struct conn *conn = loop->conns; conn != NULL; conn = conn->loop_next) {
        if (conn->stalled) {
            conn->stalled = false;
            activate(loop, conn);
        }
    }
}

static void drain_inbox(struct loop *loop)
{
    struct mail *next;
    for (struct mail *mail = mailbox_take(&loop->box); mail != NULL; mail = next) {
        next = mail->next;
        switch (mail->kind) {
        case MAIL_UNIT:
            take_unit_back(loop, (struct unit *)mail);
            break;
        case MAIL_CLIENT:
            take_client(loop, (struct conn *)((char *)mail - offsetof(struct conn, mail)));
            break;
        case MAIL_ROOM:
            resume_stalled(loop);
            break;
        case MAIL_STOP:
            begin_stop(loop);
            break;
        default:
            break;
        }
    }
}

/* ---- the loop ------------------------------------------------------------------------------- */

static void receive_all(struct loop *loop)
{
    loop->space_used = 0;
    for (size_t i = 0; i < loop->ready.n; i++) {
        struct conn *conn = loop->ready.v[i];
        size_t room = LOOP_SPACE_BYTES - loop->space_used;
        conn->ready = false;
        if (conn->stage == CONN_LINGERING) {
            conn_discard(conn, loop->space + loop->space_used, room);
        }
        if (conn->stage != CONN_OPEN || room < RESP_MAX_INLINE) {
            continue; /* level-triggered: it is reported again */
        }
        loop->space_used += conn_receive(conn, loop->space + loop->space_used, RESP_MAX_INLINE);
        if (conn->unit != NULL && conn->data != NULL) {
            conn_keep_input(conn);
            conn_want_read(conn, conn->in_len < CONN_AHEAD_BYTES);
        }
    }
}

/* Connections with input and without a unit away take part in the turn. */
static void gather(struct loop *loop)
{
    for (size_t i = 0; i < loop->ready.n; i++) {
        struct conn *conn = loop->ready.v[i];
        if (conn->stage == CONN_OPEN && conn->unit == NULL && conn->data != NULL && !conn->active) {
            conn->active = true;
            loop->active.v[loop->active.n++] = conn;
        }
    }
    loop->ready.n = 0;
}

static void on_inbox(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    mailbox_clear(arg);
}

/* ---- deadlines ------------------------------------------------------------------------------ */

/* Has been idle, has lingered, or has taken its replies for too long. */
static bool is_overdue(const struct loop *loop, const struct conn *conn)
{
    return (loop->stopping && loop->now_ms >= loop->stop_at) ||
           (conn->stage == CONN_LINGERING && loop->now_ms - conn->linger_since >= LINGER_MS) ||
           (loop->timeout_ms > 0 && !conn->stalled && (conn->unit == NULL || conn->parked) &&
            loop->now_ms - conn->active_ms >= loop->timeout_ms);
}

/* Looks at a connection and files it under the moment when it is to be looked at again. */
static void look_at(void *arg, struct conn *conn)
{
    struct loop *loop = arg;
    int64_t next = INT64_MAX, soon = loop->now_ms + 1000;
    if (is_overdue(loop, conn)) {
        logger_write(loop->env->log, LOG_VERBOSE, "Closing client id=%llu: nothing came from it",
                     (unsigned long long)conn->session.id);
        conn_kill(conn);
        return;
    }
    conn_check_soft_limit(conn, loop->now_ms);
    if (conn->stage == CONN_DEAD) {
        return;
    }
    if (loop->timeout_ms > 0) {
        next = conn->active_ms + loop->timeout_ms;
    }
    if (loop->stopping || conn->stage == CONN_LINGERING ||
        (loop->soft_limit > 0 && conn_unsent(conn) > 0) || (next < soon && conn->unit != NULL)) {
        next = soon;
    }
    if (next != INT64_MAX) {
        deadlines_set(&loop->deadlines, conn, next);
    }
}

void loop_watch(struct conn *conn)
{
    deadlines_hasten(&conn->loop->deadlines, conn, conn->loop->now_ms + 1000);
}

/* After a CONFIG SET everybody is looked at. */
static void follow_settings(struct loop *loop)
{
    int64_t timeout = config_number(loop->env->config, CONFIG_TIMEOUT) * 1000;
    uint64_t hard, soft, seconds;
    config_output_limits(loop->env->config, &hard, &soft, &seconds);
    if (timeout == loop->timeout_ms && soft == loop->soft_limit) {
        return;
    }
    loop->timeout_ms = timeout;
    loop->soft_limit = soft;
    for (struct conn *conn = loop->conns; conn != NULL; conn = conn->loop_next) {
        deadlines_set(&loop->deadlines, conn, loop->now_ms);
    }
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
    struct loop *loop = arg;
    (void)fd;
    (void)what;
    loop->now_ms = exec_now(loop->env);
    atomic_fetch_add(&loop->ticks, 1);
    if (loop->sampler) {
        metrics_sample(loop->env->metrics, loop->now_ms);
        regime_sample(loop->env->regime);
    }
    follow_settings(loop);
    deadlines_tick(&loop->deadlines, loop->now_ms, look_at, loop);
}

static bool loop_ended(const struct loop *loop)
{
    return loop->stopping && loop->conns == NULL && loop->dead == NULL;
}

static void *loop_main(void *arg)
{
    struct loop *loop = arg;
    pthread_setname_np(pthread_self(), "pando-io");
    while (!loop_ended(loop)) {
        int flags = EVLOOP_ONCE | (mailbox_sleep(&loop->box) ? 0 : EVLOOP_NONBLOCK);
        event_base_loop(loop->base, flags);
        mailbox_awake(&loop->box);
        receive_all(loop);
        loop->now_ms = exec_now(loop->env);
        drain_inbox(loop);
        gather(loop);
        loop_turn(loop);
        bury_dead(loop);
    }
    return NULL;
}

static int make_buffers(struct loop *loop)
{
    loop->space = malloc(LOOP_SPACE_BYTES);
    loop->commands = calloc(LOOP_PASS_COMMANDS, sizeof(*loop->commands));
    loop->places = calloc(LOOP_PASS_COMMANDS, sizeof(*loop->places));
    loop->lookups = calloc(LOOP_PASS_COMMANDS, sizeof(*loop->lookups));
    return loop->space == NULL || loop->commands == NULL || loop->places == NULL ||
                   loop->lookups == NULL
               ? -ENOMEM
               : 0;
}

static int make_base(struct loop *loop)
{
    struct timeval second = {1, 0};
    struct event_config *config = event_config_new();
    if (config == NULL) {
        return -ENOMEM;
    }
    event_config_set_flag(config, EVENT_BASE_FLAG_NOLOCK);
    loop->base = event_base_new_with_config(config);
    event_config_free(config);
    if (loop->base == NULL) {
        return -ENOMEM;
    }
    event_assign(&loop->box_event, loop->base, loop->box.fd, EV_READ | EV_PERSIST, on_inbox,
                 &loop->box);
    event_assign(&loop->timer, loop->base, -1, EV_PERSIST, on_timer, loop);
    pieces_init(loop);
    event_add(&loop->box_event, NULL);
    event_add(&loop->timer, &second);
    return 0;
}

int loop_init(struct loop *loop, struct exec_env *env, struct clients *clients)
{
    int rc;
    memset(loop, 0, sizeof(*loop));
    loop->env = env;
    loop->clients = clients;
    loop->now_ms = exec_now(env);
    deadlines_init(&loop->deadlines, loop->now_ms);
    follow_settings(loop);
    loop->room.home = &loop->box;
    loop->stop_mail.kind = MAIL_STOP;
    loop->metrics = metrics_thread(env->metrics);
    resp_out_init(&loop->out);
    resp_limits_init(&loop->limits);
    executor_init(&loop->x, env);
    loop->x.ahead = true;
    loop->x.ctx.out = &loop->out;
    loop->x.ctx.hint_expired = writer_hint;
    loop->x.ctx.hint_arg = env;
    loop->x.ctx.large = LARGE_ELSEWHERE;
    rc = mailbox_init(&loop->box);
    if (rc != 0) {
        return rc;
    }
    rc = make_buffers(loop);
    if (rc == 0) {
        rc = make_base(loop);
    }
    if (rc == 0) {
        rc = ps_snapshot_new(env->store, &loop->snapshot);
    }
    if (rc == 0) {
        rc = ps_residency_new(env->store, &loop->residency);
    }
    if (rc != 0) {
        loop_destroy(loop);
    }
    return rc;
}

int loop_start(struct loop *loop)
{
    return -pthread_create(&loop->thread, NULL, loop_main, loop);
}

void loop_stop(struct loop *loop)
{
    mailbox_post(&loop->box, &loop->stop_mail);
}

void loop_join(struct loop *loop)
{
    pthread_join(loop->thread, NULL);
    loop_destroy(loop);
}

void loop_destroy(struct loop *loop)
{
    if (loop->snapshot != NULL) {
        ps_snapshot_free(loop->snapshot);
    }
    ps_residency_free(loop->residency);
    if (loop->base != NULL) {
        event_base_free(loop->base);
    }
    mailbox_destroy(&loop->box);
    resp_out_free(&loop->out);
    resp_args_free(&loop->args);
    unit_stock_free(&loop->units);
    free(loop->argv);
    free(loop->space);
    free(loop->commands);
    free(loop->places);
    free(loop->lookups);
    free(loop->ready.v);
    free(loop->active.v);
}
