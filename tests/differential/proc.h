/* The two servers under comparison, as processes. See proc.c. */
#ifndef TESTS_DIFFERENTIAL_PROC_H
#define TESTS_DIFFERENTIAL_PROC_H

#include <stddef.h>
#include <sys/types.h>

struct server {
    const char *program; /* path or name to execute */
    const char *label;   /* what reports call it */
    pid_t pid;           /* 0: not running */
    int port;
    char dir[256]; /* its temporary directory, "" if none */
};

/* Installs the handlers and the exit hook that end both servers and remove their directories on
 * every way out. */
void proc_guard(struct server *servers, size_t count);

/* Starts a server on a free port in a new directory and waits until it answers PING. Returns 0 or
 * -1, reported. */
int server_start(struct server *server);

/* Ends the server (by its pid) and removes its directory. Harmless if it isn't running. */
void server_stop(struct server *server);

/* Describes how the process is: "running", or how it ended. */
void server_status(struct server *server, char *out, size_t cap);

/* Prints the last lines that the server wrote, each with a prefix. */
void server_print_log(const struct server *server);

/* Whether a signal asked this program to end. */
int proc_interrupted(void);

#endif
