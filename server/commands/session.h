/*
 * session.h - what the server remembers about a connection between its commands.
 *
 * Invariant: a session has one owner at a time (the I/O thread, the writer while a unit of the
 * connection is queued or runs, or a pool thread); only the owner reads or changes it.
 */
#ifndef PANDO_SERVER_COMMANDS_SESSION_H
#define PANDO_SERVER_COMMANDS_SESSION_H

#include <stdbool.h>
#include <stdint.h>

struct session;

/* The selected database, 0 for a new connection. */
unsigned session_db(const struct session *session);
void session_select(struct session *session, unsigned db);

/* 2 or 3. (The reply writer, ctx->out, is kept at the same version.) */
int session_resp(const struct session *session);

/* Between MULTI and EXEC or DISCARD. */
bool session_in_multi(const struct session *session);

uint64_t session_id(const struct session *session);

#endif
