/*
 * The server under test as a process.
 */
#ifndef TESTS_CRASH_SERVER_H
#define TESTS_CRASH_SERVER_H

#include <stdbool.h>
#include <sys/types.h>

struct server {
    const char *program; /* pandod */
    const char *tool;    /* pando-tool */
    char directory[512]; /* of the data */
    char log[560];
    const char *const *options; /* more directives, up to NULL */
    bool lose_syncs;            /* a fault: fdatasync does nothing and says that it did */
    int port;
    pid_t pid; /* 0: not running */
};

/* Starts the process and returns at once. */
void server_spawn(struct server *server, const char *durability);
/* Waits until it answers PING: 0, or -1 when it ended, with its status in the log. */
int server_ready(struct server *server);
/* kill -9, and waits for the end. */
void server_kill(struct server *server);
/* SIGTERM: the exit status, or -1 when it did not end in time. */
int server_stop(struct server *server);
/* pando-tool check on the directory: its exit status; its output goes to the log. */
int server_check(struct server *server);
/* The last lines of the log, to stdout. */
void server_show_log(const struct server *server);

#endif
