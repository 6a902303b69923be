/*
 * loop.c - see loop.h: the life of a loop and of its connections. The turn is in turn.c.
 *
 * A connection that dies in a turn may still be named by lists of that turn, by a unit that is
 * away, or by a notice on its way: it is freed at the end of a turn, when none of these is left.
 */
#include "server/net/loop.h"

#include "server/config/config.h"
#include "server/exec/regime.h"
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
    conn_want_read(conn, true);
}

void loop_conn_died(struct loop *loop, struct conn *conn)
{
    clients_remove(loop->clients, conn);
    close(conn->fd);
    *(conn->loop_prev != NULL ? &conn->loop_prev->loop_next : &loop->conns) = conn->loop_next;
    if (conn->loop_next != NULL) {
        conn->loop_next->loop_prev = conn->loop_prev;
    }
    loop->conn_n--;
    conn->loop_next = loop->dead;
    loop->dead = conn;
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

static void refuse(struct loop *loop, int fd)
{
    static const char text[] = "-ERR max number of clients reached\r\n";
    ssize_t n = send(fd, text, sizeof(text) - 1, MSG_NOSIGNAL | MSG_DONTWAIT);
    (void)n; /* it is closed either way */
    metrics_add(&loop->metrics->rejected, 1);
    close(fd);
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

void loop_accept(struct loop *loop, int fd)
{
    struct conn *conn = calloc(1, sizeof(*conn));
    socklen_t peer = sizeof(conn->peer), local = sizeof(conn->local);
    char *password = config_text(loop->env->config, CONFIG_REQUIREPASS);
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
    if (clients_add(loop->clients, conn,
                    (size_t)config_number(loop->env->config, CONFIG_MAXCLIENTS)) != 0) {
        free(conn);
        refuse(loop, fd);
        return;
    }
    set_socket_options(loop, fd);
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

static void take_unit_back(struct loop *loop, struct unit *unit)
{
    struct conn *conn = unit->owner;
    assert(conn->unit == unit);
    conn->unit = NULL;
    conn_send_out(conn, &unit->out);
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

/* Has been idle, has lingered, or has taken its replies for too long. */
static bool is_overdue(const struct loop *loop, const struct conn *conn, int64_t idle)
{
    return (loop->stopping && loop->now_ms >= loop->stop_at) ||
           (conn->stage == CONN_LINGERING && loop->now_ms - conn->linger_since >= LINGER_MS) ||
           (idle > 0 && conn->unit == NULL && loop->now_ms - conn->active_ms > idle);
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
    struct loop *loop = arg;
    int64_t idle = config_number(loop->env->config, CONFIG_TIMEOUT) * 1000;
    struct conn *next;
    (void)fd;
    (void)what;
    loop->now_ms = exec_now(loop->env);
    atomic_fetch_add(&loop->ticks, 1);
    if (loop->sampler) {
        metrics_sample(loop->env->metrics, loop->now_ms);
        regime_sample(loop->env->regime);
    }
    for (struct conn *conn = loop->conns; conn != NULL; conn = next) {
        next = conn->loop_next;
        if (is_overdue(loop, conn, idle)) {
            conn_kill(conn);
        } else {
            conn_check_soft_limit(conn, loop->now_ms);
        }
    }
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
    loop->room.home = &loop->box;
    loop->stop_mail.kind = MAIL_STOP;
    loop->metrics = metrics_thread(env->metrics);
    resp_out_init(&loop->out);
    resp_limits_init(&loop->limits);
    executor_init(&loop->x, env);
    loop->x.ctx.out = &loop->out;
    loop->x.ctx.hint_expired = writer_hint;
    loop->x.ctx.hint_arg = env;
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
