/*
 * server.h - the process put together: store, writer, reader pool, loops.
 *
 * Threads: the main thread, which starts, waits and stops.
 */
#ifndef PANDO_SERVER_SERVER_H
#define PANDO_SERVER_SERVER_H

#include "server/config/config.h"
#include "server/observe/logger.h"
#include "server/service.h"

struct server;

/* Opens the store and starts serving. Takes config and log over on success. 0, or -1 after having
 * logged why. */
int server_start(struct config *config, struct logger *log, const char *config_file,
                 const char *executable, struct server **server);

/* Waits until a shutdown was asked for: by SHUTDOWN, or by the descriptor `signal_fd` becoming
 * readable (a signalfd). Meanwhile tells the service's watchdog whether all loops turn. */
void server_wait(struct server *server, int signal_fd, struct service *service);

/* Drains, makes a checkpoint (unless SHUTDOWN NOSAVE), closes. 0, or -1 if the store said no. */
int server_stop(struct server *server);

#endif
