/*
 * deadlines.c - see deadlines.h.
 *
 * Invariant: a connection with due_second D != 0 is in the list of slot D modulo the wheel's size.
 * When the clock jumps it may be looked at too early, or a turn of the wheel late: looking files it
 * anew.
 */
#include "server/net/deadlines.h"

#include "server/net/conn.h"

#include <stddef.h>
#include <string.h>

void deadlines_init(struct deadlines *deadlines, int64_t now_ms)
{
    memset(deadlines, 0, sizeof(*deadlines));
    deadlines->second = now_ms / 1000;
}

static struct conn **slot(struct deadlines *deadlines, int64_t second)
{
    return &deadlines->slots[second % DEADLINES_SECONDS];
}

void deadlines_drop(struct deadlines *deadlines, struct conn *conn)
{
    if (conn->due_second == 0) {
        return;
    }
    *(conn->due_prev != NULL ? &conn->due_prev->due_next : slot(deadlines, conn->due_second)) =
        conn->due_next;
    if (conn->due_next != NULL) {
        conn->due_next->due_prev = conn->due_prev;
    }
    conn->due_second = 0;
}

void deadlines_set(struct deadlines *deadlines, struct conn *conn, int64_t at_ms)
{
    int64_t second = (at_ms + 999) / 1000;
    struct conn **list;
    if (second <= deadlines->second) {
        second = deadlines->second + 1;
    } else if (second > deadlines->second + DEADLINES_SECONDS - 1) {
        second = deadlines->second + DEADLINES_SECONDS - 1;
    }
    deadlines_drop(deadlines, conn);
    list = slot(deadlines, second);
    conn->due_second = second;
    conn->due_prev = NULL;
    conn->due_next = *list;
    if (*list != NULL) {
        (*list)->due_prev = conn;
    }
    *list = conn;
}

void deadlines_hasten(struct deadlines *deadlines, struct conn *conn, int64_t at_ms)
{
    if (conn->due_second == 0 || conn->due_second > (at_ms + 999) / 1000) {
        deadlines_set(deadlines, conn, at_ms);
    }
}

void deadlines_tick(struct deadlines *deadlines, int64_t now_ms,
                    void (*look)(void *arg, struct conn *conn), void *arg)
{
    int64_t now = now_ms / 1000;
    if (now < deadlines->second) {
        deadlines->second = now;
    }
    if (now - deadlines->second > DEADLINES_SECONDS) { /* every slot once is enough */
        now = deadlines->second + DEADLINES_SECONDS;
    }
    while (deadlines->second < now) {
        struct conn **list = slot(deadlines, ++deadlines->second);
        while (*list != NULL) {
            struct conn *conn = *list;
            deadlines_drop(deadlines, conn);
            look(arg, conn);
        }
    }
    if (deadlines->second < now_ms / 1000) {
        deadlines->second = now_ms / 1000;
    }
}
