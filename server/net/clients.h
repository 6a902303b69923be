/*
 * clients.h - all connections of the process: for maxclients, CLIENT LIST and CLIENT KILL.
 *
 * Threads: any; one lock, taken when connections come and go and by the CLIENT commands.
 */
#ifndef PANDO_SERVER_NET_CLIENTS_H
#define PANDO_SERVER_NET_CLIENTS_H

#include "server/commands/services.h"
#include "server/net/conn.h"

struct clients;

struct clients *clients_new(void);
void clients_free(struct clients *clients);

/* Registers a connection and gives it an id, unless there are `max` already: -1. */
int clients_add(struct clients *clients, struct conn *conn, size_t max);
void clients_remove(struct clients *clients, struct conn *conn);

int clients_rename(struct clients *clients, struct session *session, const char *name, size_t len);
char *clients_list(struct clients *clients, const struct client_filter *filter, size_t *len);
size_t clients_kill(struct clients *clients, struct session *self,
                    const struct client_filter *filter);

struct clients_statistics {
    size_t count;
    size_t max_input, max_output; /* largest buffers now */
    size_t buffered;              /* all buffers together */
};
void clients_statistics(struct clients *clients, struct clients_statistics *s);

#define CLIENTS_ADDRESS_MAX 160

/* Whether an address is of this machine's loopback interface, or a Unix socket's. */
bool clients_is_local(const struct sockaddr_storage *address);
/* "127.0.0.1:6379", "[::1]:6379", "/path:0" */
void clients_address(const struct sockaddr_storage *address, char *text, size_t size);

#endif
