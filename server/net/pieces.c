/*
 * pieces.c - see pieces.h.
 */
#include "server/net/pieces.h"

#include "server/exec/pool.h"
#include "server/exec/stream.h"

#define LOOK_US 20000

static void set_parked(struct conn *conn, bool parked)
{
    struct loop *loop = conn->loop;
    struct timeval interval = {0, LOOK_US};
    conn->parked = parked;
    if (parked) {
        if (LIST_EMPTY(&loop->parked)) {
            event_add(&loop->piece_timer, &interval);
        }
        LIST_INSERT_HEAD(&loop->parked, conn, parked_link);
    } else {
        LIST_REMOVE(conn, parked_link);
        if (LIST_EMPTY(&loop->parked)) {
            event_del(&loop->piece_timer);
        }
    }
}

static void to_pool(struct conn *conn)
{
    conn->unit->errand = ERRAND_LONG;
    pool_submit(conn->loop->env->pool, conn->unit);
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
    struct loop *loop = arg;
    struct conn *conn, *next;
    (void)fd;
    (void)what;
    for (conn = LIST_FIRST(&loop->parked); conn != NULL; conn = next) {
        next = LIST_NEXT(conn, parked_link);
        if (ps_snapshot_should_move(conn->unit->snapshot)) {
            set_parked(conn, false);
            to_pool(conn);
        }
    }
}

void pieces_init(struct loop *loop)
{
    LIST_INIT(&loop->parked);
    event_assign(&loop->piece_timer, loop->base, -1, EV_PERSIST, on_timer, loop);
}

/* Sends the piece that the unit has, if any, and has the next made when it is sent. A dead
 * connection needs none. */
static void send_piece(struct conn *conn)
{
    struct unit *unit = conn->unit;
    if (conn_unsent(conn) > 0 && conn->stage != CONN_DEAD) {
        set_parked(conn, true); /* behind earlier replies */
        return;
    }
    conn_send_out(conn, &unit->out);
    resp_out_truncate(&unit->out, 0);
    if (conn->session.killed || (unit->stream != NULL && stream_ended(unit))) {
        loop_finish_unit(conn->loop, unit);
    } else if (conn_unsent(conn) > 0) {
        set_parked(conn, true);
    } else {
        to_pool(conn);
    }
}

void pieces_take(struct conn *conn, struct unit *unit)
{
    if (unit->stream == NULL && !conn->session.killed) {
        to_pool(conn); /* from the writer: no piece was made yet */
    } else {
        send_piece(conn);
    }
}

void pieces_unpark(struct conn *conn)
{
    set_parked(conn, false);
    send_piece(conn);
}

void pieces_drop(struct conn *conn)
{
    if (conn->parked) {
        set_parked(conn, false);
        unit_release(&conn->loop->units, conn->unit);
        conn->unit = NULL;
    }
}
