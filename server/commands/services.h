/*
 * services.h - what a handler may ask of the process around it.
 *
 * Handlers know no loops, queues or sockets; these functions (defined in server/server.c and
 * server/net) are all they see of them. Any thread may call them.
 */
#ifndef PANDO_SERVER_COMMANDS_SERVICES_H
#define PANDO_SERVER_COMMANDS_SERVICES_H

#include "protocol/resp.h"
#include "storage/pandostore.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct server;
struct session;
struct config;
struct command_ctx;

struct config *server_config(struct server *server);

/* CONFIG REWRITE. 0, or -1 and why in reason (of CONFIG_REASON bytes). */
int server_rewrite_config(struct server *server, char *reason);
bool server_has_config_file(struct server *server);

/* ---- connections ---------------------------------------------------------------------------- */

/* Which connections CLIENT KILL and CLIENT LIST mean; unset fields match all. */
struct client_filter {
    const uint64_t *ids; /* NULL: any */
    size_t id_count;
    const char *addr, *laddr; /* "ip:port", or NULL */
    bool never;               /* a type or user that no connection has */
    uint64_t except;          /* id of a connection that does not match; 0: none */
};

/* Gives the session a name (len 0: takes it away). 0 or PS_NOMEM. */
int server_client_rename(struct server *server, struct session *session, const char *name,
                         size_t len);
/* One line for each connection that matches, in CLIENT LIST's format, in order of ids (those of
 * filter->ids in their order). A text to free, or NULL. */
char *server_client_list(struct server *server, const struct client_filter *filter, size_t *len);
/* Ends connections: no further command of theirs begins. Returns how many. The caller's own
 * (by its session) closes after its reply. */
size_t server_client_kill(struct server *server, struct session *self,
                          const struct client_filter *filter);

/* ---- checkpoints and the end ---------------------------------------------------------------- */

/* SAVE: makes a checkpoint and waits. 0 or a negative ps_error. */
int server_checkpoint(struct server *server);
/* BGSAVE: has one made. false: one is being made. */
bool server_checkpoint_start(struct server *server);
/* Unix time of the last checkpoint, or of the start. */
int64_t server_last_checkpoint(struct server *server);

/* Begins an orderly end of the process. */
void server_shutdown(struct server *server, bool checkpoint, bool now);

/* ---- INFO ----------------------------------------------------------------------------------- */

/* The text of INFO for the sections asked for; a text to free, or NULL. */
char *server_info(struct command_ctx *ctx, const struct ps_slice *sections, size_t n, size_t *len);
void server_reset_statistics(struct server *server);

#endif
